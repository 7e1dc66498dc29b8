// engine/tune_machine.h - measures a machine thoroughly, once.
#ifndef PS_ENGINE_TUNE_MACHINE_H
#define PS_ENGINE_TUNE_MACHINE_H

#include "engine/tuned.h"

typedef struct ps_tune_options {
    uint32_t threads;                                 // of each rank; 0: the default
    void (*progress)(void *context, double fraction); // NULL: not called
    void *progress_context;
    const volatile bool *cancel; // of rank 0; NULL is allowed
} ps_tune_options;

// Measures what the planner uses: reads from memory and caches, caches filled by loads and by
// prefetches, kernels, barriers; with several ranks, which all call this, all of them at once, and
// collectives by size. *out is complete on every rank and holds that rank's own numbers; those of
// rank 0 are to be kept. Takes some seconds, and memory of four times the last-level cache, at
// least 512 MiB, for each rank.
//
// PS_CANCELLED  *cancel became true; on all ranks
// PS_NO_MEMORY, PS_LOST
PS_MUST_USE ps_status ps_tune(ps_ranks *ranks, const ps_tune_options *options, ps_tuned *out);

#endif
