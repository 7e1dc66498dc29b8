// exec/wait.c - spin, yield, futex.
//
// A sleeper can't miss its wake-up: it counts itself in `sleepers` before the kernel compares
// `value`, and the signaller changes `value` before it reads `sleepers`; both in one total order
// (seq_cst).
#include "exec/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define YIELDS 32

static inline void pause_cpu(void)
{
    __builtin_ia32_pause();
}

static bool changed(ps_wait_word *word, unsigned old)
{
    return atomic_load_explicit(&word->value, memory_order_acquire) != old;
}

void ps_wait_until_changed(ps_wait_word *word, unsigned old, unsigned spins,
                           const ps_filler *filler)
{
    while (filler != NULL && filler->next(filler->context)) {
        if (changed(word, old)) {
            return;
        }
    }
    for (unsigned i = 0; i < spins; i++) {
        if (changed(word, old)) {
            return;
        }
        pause_cpu();
    }
    for (unsigned i = 0; i < YIELDS; i++) {
        if (changed(word, old)) {
            return;
        }
        (void)sched_yield();
    }
    atomic_fetch_add(&word->sleepers, 1);
    while (!changed(word, old)) {
        (void)syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    }
    atomic_fetch_sub(&word->sleepers, 1);
}

void ps_wait_signal(ps_wait_word *word)
{
    atomic_fetch_add(&word->value, 1);
    if (atomic_load(&word->sleepers) > 0) {
        (void)syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

void ps_barrier_wait(ps_barrier *barrier, unsigned count, unsigned spins, const ps_filler *filler)
{
    const unsigned generation = atomic_load_explicit(&barrier->generation.value,
                                                     memory_order_acquire);
    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 == count) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        ps_wait_signal(&barrier->generation);
    } else {
        ps_wait_until_changed(&barrier->generation, generation, spins, filler);
    }
}
