// cli/interrupt.h - Ctrl-C.
//
// While a model loads, SIGINT ends the process with code 130 at once: nothing has to be cleaned up.
// While an answer is made it raises a flag, so that what there is can be printed.
#ifndef PS_CLI_INTERRUPT_H
#define PS_CLI_INTERRUPT_H

#include <stdbool.h>

#define PS_CLI_EXIT_INTERRUPTED 130

// Installs the handler; system calls that wait are interrupted by it. Main thread, once.
void ps_cli_interrupt_install(void);

// From here on SIGTERM and SIGHUP do what SIGINT does: for commands that have to clean up.
void ps_cli_interrupt_add_terminate(void);

typedef enum ps_cli_interrupt_mode {
    PS_CLI_INTERRUPT_ENDS,  // the process, at once; so it is at first
    PS_CLI_INTERRUPT_FLAGS, // the first one raises the flag, a second one before it is taken ends
    PS_CLI_INTERRUPT_KEEPS, // only ever raises the flag
} ps_cli_interrupt_mode;
void ps_cli_interrupt_set(ps_cli_interrupt_mode mode);

// The flag, for ps_session_prefill and loops.
const volatile bool *ps_cli_interrupt_flag(void);

// Lowers the flag and answers what it was.
bool ps_cli_interrupt_take(void);

#endif
