// exec/side.c - threads beside the team.
//
// 1. Between ps_side_begin and ps_side_end each thread is in the run exactly once: `inside` counts
//    those that are, and ps_side_end returns when none is. So what a run borrows, and block tables,
//    change only while no thread looks at them.
// 2. `reached` only grows in a run, to beyond all steps at its end, and worker 0 alone writes it.
//    Of a prefetch whose reader it has come to nothing more is moved: it is counted, as one that
//    was asked for.
// 3. A thread that has nothing to do waits for `progress`, which changes whenever worker 0 comes to
//    a prefetch, and at the end of the run.
#include "exec/side.h"

#include "exec/exec_internal.h"
#include "exec/pin.h"

#include <pthread.h>
#include <stdlib.h>

// A few hundred microseconds: the time between two prefetches.
#define SPINS 10000

typedef struct side_thread {
    struct ps_side *side;
    uint32_t index;
    pthread_t thread;
} side_thread;

struct ps_side {
    ps_wait_word start;    // one more for each run
    ps_wait_word progress; // worker 0's
    ps_wait_word left;     // one more when the last thread leaves a run
    atomic_uint inside;    // acq_rel
    atomic_uint reached;   // step; release by worker 0, acquire by the threads
    const ps_walk *walk;   // written before `start` changes, read after
    uint32_t threads, workers;
    unsigned spins;
    bool stop;
    side_thread *list;
};

static uint32_t step_of(const ps_program *program, const ps_bound_step *step)
{
    return (uint32_t)(step - program->steps);
}

// Makes the part of one worker of a prefetch, until its reader begins.
static void serve(const ps_side *side, uint32_t number, uint32_t worker)
{
    const ps_program *program = side->walk->program;
    ps_touch touch = {.parts = program->prefetches + (size_t)worker * program->prefetch_count,
                      .at = number,
                      .end = number + 1,
                      .is_side = true};
    const uint32_t reader = step_of(program, touch.parts[number].step->reader);
    ps_walk walk = *side->walk;
    walk.worker = worker;
    walk.touch = &touch;
    while (atomic_load_explicit(&side->reached, memory_order_acquire) < reader &&
           ps_exec_touch_next(&walk)) {
    }
    ps_exec_touch_end(&walk);
}

// The number of the next prefetch of the stream, from `from` on; prefetch_count: none.
static uint32_t next_side(const ps_program *program, uint32_t from)
{
    while (from < program->prefetch_count && !program->prefetches[from].is_side) {
        from++;
    }
    return from;
}

static void run(ps_side *side, uint32_t thread)
{
    const ps_program *program = side->walk->program;
    uint32_t at = next_side(program, 0);
    while (at < program->prefetch_count) {
        const unsigned seen = atomic_load_explicit(&side->progress.value, memory_order_acquire);
        // At the end of the run all of them have been reached.
        if (atomic_load_explicit(&side->reached, memory_order_acquire) <
            step_of(program, program->prefetches[at].step)) {
            ps_wait_until_changed(&side->progress, seen, side->spins, NULL);
            continue;
        }
        for (uint32_t w = thread; w < side->workers; w += side->threads) {
            serve(side, at, w);
        }
        at = next_side(program, at + 1);
    }
}

static void *side_main(void *argument)
{
    side_thread *self = argument;
    ps_side *side = self->side;
    for (unsigned seen = 0;; seen++) {
        ps_wait_until_changed(&side->start, seen, side->spins, NULL);
        if (side->stop) {
            return NULL;
        }
        run(side, self->index);
        if (atomic_fetch_sub_explicit(&side->inside, 1, memory_order_acq_rel) == 1) {
            ps_wait_signal(&side->left);
        }
    }
}

static ps_status start_threads(ps_side *side, uint32_t workers)
{
    const ps_pins pins = ps_pins_get();
    const bool has_room = workers + side->threads <= pins.count;
    side->spins = has_room ? SPINS : 0;
    for (uint32_t i = 0; i < side->threads; i++) {
        side->list[i] = (side_thread){.side = side, .index = i};
        if (pthread_create(&side->list[i].thread, NULL, side_main, &side->list[i]) != 0) {
            const uint32_t asked = side->threads;
            side->threads = i;
            return ps_fail(PS_IO, "cannot start prefetch thread %u of %u", i + 1, asked);
        }
        if (has_room) {
            ps_pins_apply(&pins, side->list[i].thread, workers + i);
        }
    }
    return PS_OK;
}

ps_status ps_side_create(uint32_t threads, uint32_t workers, ps_side **out)
{
    if (threads < 1 || threads > workers) {
        return ps_fail(PS_INVALID,
                       "%u prefetch threads: 1 to %u, one for each worker, would be right", threads,
                       workers);
    }
    ps_side *side = aligned_alloc(64, (sizeof *side + 63) / 64 * 64);
    side_thread *list = calloc(threads, sizeof *list);
    if (side == NULL || list == NULL) {
        free(side);
        free(list);
        return ps_fail(PS_NO_MEMORY, "no memory for %u prefetch threads", threads);
    }
    *side = (ps_side){.threads = threads, .workers = workers, .list = list};
    const ps_status status = start_threads(side, workers);
    if (status != PS_OK) {
        ps_side_destroy(side);
        return status;
    }
    *out = side;
    return PS_OK;
}

void ps_side_destroy(ps_side *side)
{
    if (side == NULL) {
        return;
    }
    side->stop = true;
    ps_wait_signal(&side->start);
    for (uint32_t i = 0; i < side->threads; i++) {
        (void)pthread_join(side->list[i].thread, NULL);
    }
    free(side->list);
    free(side);
}

void ps_side_begin(ps_side *side, const ps_walk *walk)
{
    if (side == NULL) {
        return;
    }
    side->walk = walk;
    atomic_store_explicit(&side->reached, 0, memory_order_relaxed);
    atomic_store_explicit(&side->inside, side->threads, memory_order_relaxed);
    ps_wait_signal(&side->start);
}

void ps_side_reach(ps_side *side, uint32_t step, bool starts_prefetch)
{
    if (side == NULL) {
        return;
    }
    atomic_store_explicit(&side->reached, step, memory_order_release);
    if (starts_prefetch) {
        ps_wait_signal(&side->progress);
    }
}

void ps_side_end(ps_side *side)
{
    if (side == NULL) {
        return;
    }
    atomic_store_explicit(&side->reached, UINT32_MAX, memory_order_release);
    ps_wait_signal(&side->progress);
    for (;;) { // the last one that leaves may change `left` later than it leaves
        const unsigned seen = atomic_load_explicit(&side->left.value, memory_order_acquire);
        if (atomic_load_explicit(&side->inside, memory_order_acquire) == 0) {
            return;
        }
        ps_wait_until_changed(&side->left, seen, side->spins, NULL);
    }
}
