// exec/wait.h - the one way in which a worker waits.
//
// A wait spins for a bounded time, then yields its CPU, then sleeps in the kernel. Whoever ends a
// wait changes a word and wakes sleepers. A word has one writer at a time.
#ifndef PS_EXEC_WAIT_H
#define PS_EXEC_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ps_wait_word {
    _Alignas(64) atomic_uint value; // release by ps_wait_signal, acquire by ps_wait_until_changed
    atomic_uint sleepers;           // threads in the kernel; sequentially consistent with `value`
} ps_wait_word;

// What a waiting thread does between two looks: a bounded bit of work. False: nothing is left.
typedef struct ps_filler {
    bool (*next)(void *context);
    void *context;
} ps_filler;

typedef struct ps_barrier {
    _Alignas(64) atomic_uint arrived; // acq_rel; the last to arrive resets it before it signals
    ps_wait_word generation;
} ps_barrier;

// Blocks until word->value != old. spins: how often to look before giving the CPU away; 0 when
// there are more threads than CPUs, for then whoever is waited for may need this CPU. filler: NULL
// for none.
void ps_wait_until_changed(ps_wait_word *word, unsigned old, unsigned spins,
                           const ps_filler *filler);

// Adds one to the word and wakes all who wait for it.
void ps_wait_signal(ps_wait_word *word);

// Returns when all `count` threads have called it. Memory written before is visible to all after.
void ps_barrier_wait(ps_barrier *barrier, unsigned count, unsigned spins, const ps_filler *filler);

#endif
