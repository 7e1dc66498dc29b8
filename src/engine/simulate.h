// engine/simulate.h - a step of a model file on a machine, in simulated time.
#ifndef PS_ENGINE_SIMULATE_H
#define PS_ENGINE_SIMULATE_H

#include "explore/play.h"

#include <prestage/prestage.h>

// Makes the plan that the options say, and plays a step of `rows` rows at `context_tokens` - 1 of
// it. *machine is the machine to play it on, or, with 0 threads, becomes what the options say.
//
// Fails as ps_plan_file.
PS_MUST_USE ps_status ps_simulate_file(const char *path, const ps_plan_options *options,
                                       ps_machine *machine, ps_play *out);

#endif
