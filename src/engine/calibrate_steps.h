// engine/calibrate_steps.h - measures what steps of a plan take beside reads and multiplications.
#ifndef PS_ENGINE_CALIBRATE_STEPS_H
#define PS_ENGINE_CALIBRATE_STEPS_H

#include "exec/team.h"
#include "hw/machine.h"
#include "kernels/kernels.h"

// Fills machine->workers. Other rates of `machine` are those of ps_calibrate_workers. memory
// [bytes] is far larger than the caches; the workers overwrite it. With less than 4 MiB a worker
// nothing is measured. Medians of so many runs, some milliseconds each.
void ps_calibrate_steps(ps_team *team, const ps_kernels *kernels, char *memory, uint64_t bytes,
                        uint32_t runs, ps_machine *machine);

#endif
