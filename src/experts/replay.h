// experts/replay.h - what policies would have hit: calls of a log or of the generator through any
// policies at any sizes, all in one pass.
//
// The first steps may teach: their uses, counted, are the hot set of hotset and auto. They go
// through the caches as well, but only what comes behind them is counted, so that a hot set is
// judged by tokens that it was not made of. Each distinct key of a call is one wish, a hit when it
// is in a slot as the call begins. Rows of phase prompt are computed expert by expert and pass the
// cache: a key that only they want is a hit when it is there, and takes no slot when it is not.
#ifndef PS_EXPERTS_REPLAY_H
#define PS_EXPERTS_REPLAY_H

#include "experts/calls.h"
#include "experts/policy.h"

#include "base/memory.h"

#define PS_REPLAY_SIZES_MAX 32u
#define PS_REPLAY_BELADY PS_EXPERTS_POLICY_COUNT // a cell's policy that is none
#define PS_REPLAY_COLUMNS_MAX (PS_EXPERTS_POLICY_COUNT + 1u)

typedef struct ps_replay_options {
    const ps_expert_policy_kind *policies; // [policy_count] or PS_REPLAY_BELADY
    uint32_t policy_count;                 // 1..PS_REPLAY_COLUMNS_MAX
    const uint32_t *slots;                 // [size_count], each >= twice top_k
    uint32_t size_count;                   // 1..PS_REPLAY_SIZES_MAX
    uint64_t learn_steps;
} ps_replay_options;

typedef struct ps_replay_hits {
    uint64_t pinned, cached, missed; // wishes, by where the key was
} ps_replay_hits;

// One policy at one size.
typedef struct ps_replay_cell {
    ps_replay_hits phases[PS_ROUTES_PHASES];
} ps_replay_cell;

typedef struct ps_replay_phase {
    uint64_t tokens; // rows of the first layer
    uint64_t pairs;  // rows times top_k, of all layers
    uint64_t wishes; // distinct keys of calls
} ps_replay_phase;

typedef struct ps_replay_result {
    uint64_t steps; // that are counted
    ps_replay_phase phases[PS_ROUTES_PHASES];
    ps_replay_cell *cells; // [policy_count][size_count]
} ps_replay_result;

// The part of wishes that were hits; 0 without wishes.
double ps_replay_hit_share(const ps_replay_hits *hits);

// Steps in all, for learn_steps.
PS_MUST_USE ps_status ps_replay_count_steps(const ps_expert_calls *calls, uint64_t *out);

// PS_INVALID    a size below the floor or above layers * experts; hotset without steps to learn
//               from; no step is left to count
// PS_NO_MEMORY  what `calls` gives
//
// Cells come from the arena. O(wishes) for each cell, a few times as much for Belady's.
PS_MUST_USE ps_status ps_replay(const ps_expert_calls *calls, const ps_replay_options *options,
                                ps_arena *arena, ps_replay_result *out);

#endif
