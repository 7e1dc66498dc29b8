// cli/explore_timeline.h - plots of kind "timeline": a layer of a step by policy.
#ifndef PS_CLI_EXPLORE_TIMELINE_H
#define PS_CLI_EXPLORE_TIMELINE_H

#include "cli/explore_inputs.h"

// Plays the spec's timelines, in the order of its plots; each is of the first row's point but for
// what it sets itself. What *out points to lives in the inputs' arena.
//
// Fails as ps_design_layer_play does; the message names the plot.
PS_MUST_USE ps_status ps_explore_timelines_play(ps_explore_inputs *inputs,
                                                const ps_explore_spec *spec, ps_timeline **out);

#endif
