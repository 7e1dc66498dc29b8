// prestage/experts.h - experts of models that do not fit into memory.
#ifndef PRESTAGE_EXPERTS_H
#define PRESTAGE_EXPERTS_H

#ifdef __cplusplus
extern "C" {
#endif

// Which experts are kept where not all can be.
typedef enum ps_expert_policy_kind {
    PS_EXPERTS_AUTO,   // those that are expected to be wanted soonest, learnt from what was wanted
    PS_EXPERTS_LRU,    // those that were used last
    PS_EXPERTS_LFU,    // those that were used most often
    PS_EXPERTS_HOTSET, // those of the hot set, always
    PS_EXPERTS_HEAT,   // those that have been used most often of late
    PS_EXPERTS_POLICY_COUNT,
} ps_expert_policy_kind;

#ifdef __cplusplus
}
#endif
#endif
