// base/thread.c - a new thread takes over the mask of the one that starts it.
#include "base/thread.h"

#include <signal.h>

bool ps_thread_start(void *(*function)(void *), void *argument, pthread_t *out)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(out, NULL, function, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}
