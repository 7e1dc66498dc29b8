// explore/play.h - plays a plan in simulated time: how long a step takes on a machine.
//
// The same plan that exec runs. Workers are one: rates are those of all together. A step takes the
// slowest of its bytes from memory, its bytes from cache and its arithmetic; a collective runs
// beside what follows until it is joined; in that wait prefetches move bytes in their order, and
// what they have moved is read at the cache's rate afterwards. On a machine with a stream for
// prefetches those of vector windows start where they stand and move beside the operators; who
// reads what one has moved waits for all of them, as on the accelerators that have such a stream.
// Pure.
#ifndef PS_EXPLORE_PLAY_H
#define PS_EXPLORE_PLAY_H

#include "hw/machine.h"
#include "plan/plan.h"

typedef struct ps_play_options {
    uint32_t rows;     // of the step, 1..rows_max of the plan
    uint32_t position; // of the rows in their sequences: the KV that is there
} ps_play_options;

typedef struct ps_play {
    double total_ns;
    double work_ns;        // in steps
    double wait_ns;        // for collectives, and for what a stream of its own still moves
    double barrier_ns;     // at barriers
    double moved_bytes;    // by prefetches
    double saved_ns;       // by reading them from the cache
    double fillable_bytes; // that all waits together had time for
} ps_play;

// The plan is verified. Scratch comes from the arena.
PS_MUST_USE ps_status ps_play_plan(const ps_plan *plan, const ps_machine *machine,
                                   const ps_play_options *options, ps_arena *arena, ps_play *out);

#endif
