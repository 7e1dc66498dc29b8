// explore/play_workers.h - what one step of a plan takes several workers of a CPU. For play.c
// alone.
//
// Where a machine's workers are measured (ps_worker_rates), a step takes as long as the worker with
// the largest share of it: units that cannot be cut, as heads, chunks and groups of columns, leave
// shares uneven, and what is replicated is every worker's. Otherwise workers are one, at the rate
// of all together.
#ifndef PS_EXPLORE_PLAY_WORKERS_H
#define PS_EXPLORE_PLAY_WORKERS_H

#include "explore/play_work.h"

// The part of a step that the worker with the most of it does: 1 / workers where all have as much,
// 1 where one does everything, or each does. As exec/ shares it out; rows are of sequences of their
// own, and at one position.
double ps_play_busiest(const ps_play_work *w, const ps_plan_step *step);

// Nanoseconds of the worker with the most of a step.
typedef struct ps_play_times {
    double memory_ns, cache_ns; // reads
    double compute_ns;
    double seen_ns; // what reads and arithmetic do not hide of each other
    double ns;      // max(memory_ns + cache_ns, compute_ns) + seen_ns
} ps_play_times;

// Of a step whose reads from memory and from L2, and whose arithmetic, take all workers so long
// together when they share them evenly. One with none of these is a small operator: its time is
// that of a cache.
ps_play_times ps_play_share(const ps_play_work *w, const ps_plan_step *step, double cold_ns,
                            double warm_ns, double compute_ns);

#endif
