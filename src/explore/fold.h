// explore/fold.h - a model of many equal layers, from a play of a few of them.
//
// The first layer has no collective before it and the last has none behind it that is for a layer;
// between them one period of layers is like the next. So a plan of some layers is played, and what
// a period in the middle came to is added as often as it was left out. Exact but for the policy
// auto, which in long waits moves a little more ahead from layer to layer: within 2 % there. Pure.
#ifndef PS_EXPLORE_FOLD_H
#define PS_EXPLORE_FOLD_H

#include "explore/play.h"

typedef struct ps_fold {
    uint32_t layers; // to plan and play
    uint32_t first;  // of them, where the period begins that is added, 0-based
    uint32_t period; // layers of it
    uint32_t times;  // it is added
} ps_fold;

// How a model of so many layers is folded whose layer i is like layer i + period; its layers are
// kept where there are few of them. period > 0.
ps_fold ps_fold_of(uint32_t layers, uint32_t period);

// All sums of the whole model. The plan that was played has fold->layers layers.
ps_play ps_fold_sums(const ps_fold *fold, const ps_played *played);

#endif
