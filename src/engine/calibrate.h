// engine/calibrate.h - measures the rates of a machine that the planner uses.
#ifndef PS_ENGINE_CALIBRATE_H
#define PS_ENGINE_CALIBRATE_H

#include "exec/team.h"
#include "hw/machine.h"
#include "kernels/kernels.h"

// Fills the rates of `machine` with what the team's workers do together: reads from DRAM and from
// L2, int8 and f32 linears, barriers. Takes about a second and 512 MiB. Medians of several runs,
// memory touched before.
PS_MUST_USE ps_status ps_calibrate(ps_team *team, const ps_kernels *kernels, ps_machine *machine);

// The first of these alone, gigabytes a second: the ceiling of everything that is bound by memory.
PS_MUST_USE ps_status ps_calibrate_read(ps_team *team, const ps_kernels *kernels, double *out_gbs);

// The rates that need no memory beyond the caches: L2, linears, barriers. Some ten milliseconds.
PS_MUST_USE ps_status ps_calibrate_workers(ps_team *team, const ps_kernels *kernels,
                                           ps_machine *machine);

#endif
