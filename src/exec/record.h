// exec/record.h - what the executor records in a trace. For files of exec/ only.
#ifndef PS_EXEC_RECORD_H
#define PS_EXEC_RECORD_H

#include "base/clock.h"
#include "exec/exec_internal.h"

// The time, where something is recorded.
static inline uint64_t ps_record_now(const ps_trace_lane *lane)
{
    return lane == NULL ? 0 : ps_clock_ns();
}

// A step of the plan, by a worker.
void ps_record_step(ps_trace_lane *lane, const ps_bound_step *step, uint64_t start_ns,
                    uint64_t end_ns);

// The wait before a step: for other workers, or for a collective.
void ps_record_wait(ps_trace_lane *lane, const ps_bound_step *step, uint64_t start_ns,
                    uint64_t end_ns);

// A run of a plan: rows, and the sites that prefetched nothing in it.
void ps_record_run(ps_trace_lane *lane, const ps_step *step, uint64_t mask, uint64_t start_ns,
                   uint64_t end_ns);

// A collective, from its start to when worker 0 saw that it was done.
void ps_record_comm(ps_trace_lane *lane, const ps_bound_step *step, uint64_t start_ns,
                    uint64_t end_ns);

// A prefetch: what of it was moved, from the first look to the last byte or the end of the wait.
void ps_record_prefetch(ps_trace_lane *lane, const ps_bound_step *step, uint64_t start_ns,
                        uint64_t end_ns, uint64_t asked_bytes, uint64_t moved_bytes);

#endif
