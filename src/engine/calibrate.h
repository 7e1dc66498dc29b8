// engine/calibrate.h - measures the rates of a machine that the planner uses.
#ifndef PS_ENGINE_CALIBRATE_H
#define PS_ENGINE_CALIBRATE_H

#include "exec/team.h"
#include "hw/machine.h"
#include "kernels/kernels.h"

// Medians of so many runs, where somebody waits for the result.
#define PS_CALIBRATE_QUICK_RUNS 7u
#define PS_CALIBRATE_RUNS_MAX 31u

// Fills the rates of `machine` with what the team's workers do together: reads from DRAM and from
// L2, linears, barriers, and what steps take (engine/calibrate_steps.h). Takes about a second and
// 512 MiB. Medians of several runs, memory touched before.
PS_MUST_USE ps_status ps_calibrate(ps_team *team, const ps_kernels *kernels, ps_machine *machine);

// The first of these alone, gigabytes a second: the ceiling of everything that is bound by memory.
PS_MUST_USE ps_status ps_calibrate_read(ps_team *team, const ps_kernels *kernels, double *out_gbs);

// The same in memory [bytes], which the workers touch first.
double ps_calibrate_read_of(ps_team *team, const ps_kernels *kernels, char *memory, uint64_t bytes,
                            uint32_t runs);

// The rates that need no memory beyond the caches: L2, linears, barriers. A millisecond or two a
// run.
PS_MUST_USE ps_status ps_calibrate_workers(ps_team *team, const ps_kernels *kernels, uint32_t runs,
                                           ps_machine *machine);

#endif
