// exec/side.h - dedicated threads that prefetch while the workers compute.
//
// They sleep between runs. In a run they make the prefetches of the stream "side" in the order of
// the plan, from when worker 0 has come to them until it comes to their readers. For executors.
#ifndef PS_EXEC_SIDE_H
#define PS_EXEC_SIDE_H

#include "base/status.h"

#include <stdint.h>

typedef struct ps_side ps_side;
struct ps_walk;

// Starts the threads: each serves the prefetches of its share of `workers`, so more threads than
// workers have nothing to do. With enough CPUs in the affinity mask each is pinned to one behind
// those of the workers.
//
// PS_INVALID  threads is 0, or more than workers
// PS_IO       the system refuses a thread
PS_MUST_USE ps_status ps_side_create(uint32_t threads, uint32_t workers, ps_side **out);
void ps_side_destroy(ps_side *side); // NULL is allowed

// A run begins: `walk` is borrowed until its end, its worker and touch are not used. Then, by
// worker 0 alone: it comes to step `step` of the plan. And the end of the run, when all threads
// have left it. Of NULL: nothing.
void ps_side_begin(ps_side *side, const struct ps_walk *walk);
void ps_side_reach(ps_side *side, uint32_t step, bool starts_prefetch);
void ps_side_end(ps_side *side);

#endif
