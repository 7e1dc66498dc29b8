// engine/simulate.h - a model on a machine, in simulated time: what `prestage simulate` shows.
#ifndef PS_ENGINE_SIMULATE_H
#define PS_ENGINE_SIMULATE_H

#include "engine/design_point.h"
#include "engine/model_source.h"
#include "trace/trace.h"

// What design points have in common.
typedef struct ps_simulation {
    const char *name;          // of the model, as users say it; borrowed
    const ps_machine *machine; // borrowed
    ps_model_source model;
    ps_arena arena; // of the model
} ps_simulation;

// name: as ps_model_source_open, and fails as it does.
PS_MUST_USE ps_status ps_simulation_open(const char *name, const ps_machine *machine,
                                         ps_simulation *out);
void ps_simulation_close(ps_simulation *simulation);

// Tokens of context that are played where nobody says otherwise: 4096, or what the model was made
// for if that is less.
uint32_t ps_simulation_context(const ps_simulation *simulation);

// As ps_design_point_play and ps_design_step_play, with the model's name before messages.
PS_MUST_USE ps_status ps_simulation_play(const ps_simulation *simulation,
                                         const ps_workload *workload, ps_design_point *out);
PS_MUST_USE ps_status ps_simulation_step(const ps_simulation *simulation,
                                         const ps_workload *workload, ps_arena *arena,
                                         ps_design_step *out);

// A step as a trace for ps_trace_write_all: lanes "compute", which has waits and barriers, too,
// "comm" and "prefetch"; times from 0. process: its number in the file. PS_NO_MEMORY, PS_EXHAUSTED
PS_MUST_USE ps_status ps_design_step_trace(const ps_design_step *step, uint32_t process,
                                           const char *name, ps_trace **out);

#endif
