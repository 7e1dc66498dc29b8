// base/thread.h - threads that work beside the program's own.
#ifndef PS_BASE_THREAD_H
#define PS_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

// Starts a thread that no signal is delivered to. False: the system has none.
bool ps_thread_start(void *(*function)(void *), void *argument, pthread_t *out);

#endif
