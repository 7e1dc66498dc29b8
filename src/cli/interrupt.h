// cli/interrupt.h - Ctrl-C.
//
// At first SIGINT ends the process with code 130 at once: nothing has to be cleaned up while a
// model loads. While it is held, the first SIGINT only raises a flag, so that what there is can be
// printed; a second one before the flag is taken ends the process.
#ifndef PS_CLI_INTERRUPT_H
#define PS_CLI_INTERRUPT_H

#include <stdbool.h>

#define PS_CLI_EXIT_INTERRUPTED 130

// Installs the handler; system calls that wait are interrupted by it. Main thread, once.
void ps_cli_interrupt_install(void);

void ps_cli_interrupt_hold(bool hold);

// The flag, for ps_session_prefill and loops.
const volatile bool *ps_cli_interrupt_flag(void);

// Lowers the flag and answers what it was.
bool ps_cli_interrupt_take(void);

#endif
