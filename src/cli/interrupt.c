// cli/interrupt.c - one flag and one handler.
#include "cli/interrupt.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t current_mode = PS_CLI_INTERRUPT_ENDS;
static volatile bool is_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    if (current_mode == PS_CLI_INTERRUPT_ENDS ||
        (current_mode == PS_CLI_INTERRUPT_FLAGS && is_interrupted)) {
        _exit(PS_CLI_EXIT_INTERRUPTED);
    }
    is_interrupted = true;
}

static void handle(int number)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

void ps_cli_interrupt_install(void)
{
    handle(SIGINT);
}

// What nohup has put aside stays so.
static void handle_unless_ignored(int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
        handle(number);
    }
}

void ps_cli_interrupt_add_terminate(void)
{
    handle_unless_ignored(SIGTERM);
    handle_unless_ignored(SIGHUP);
}

void ps_cli_interrupt_set(ps_cli_interrupt_mode mode)
{
    current_mode = mode;
}

const volatile bool *ps_cli_interrupt_flag(void)
{
    return &is_interrupted;
}

bool ps_cli_interrupt_take(void)
{
    const bool was = is_interrupted;
    is_interrupted = false;
    return was;
}
