// experts/synth.h - routing traces from a random model that is calibrated against published ones.
//
// Of layer l, topic q, token t and expert e the score is
//
//     a * G[l, e] + b * P[q, l, e] + c * R[q, l, e, t] + N[t, l, e]
//
// G, P and N are standard normal: what is popular everywhere, in a topic, and chance. R changes
// from token to token as an AR(1) of coefficient rho and unit variance. A row takes the top_k best.
// qwen30 gives the shares and overlaps of a public trace of a 48 x 128 model with 6 experts a token
// (BigMoeOnEdge, docs/bench-data/2026-07-15-route-trace), flashnext those that are reported of a
// 48 x 512 model with 10; test/experts/test_synth.c has the values. drift is flashnext with another
// P every 500 tokens. Fixed seeds: the same options give the same calls on every machine whose
// log() rounds alike.
#ifndef PS_EXPERTS_SYNTH_H
#define PS_EXPERTS_SYNTH_H

#include "experts/calls.h"

#define PS_SYNTH_STREAMS_MAX 64u
#define PS_SYNTH_TOKENS_MAX (1u << 24)
#define PS_SYNTH_KEYS_MAX (1u << 20) // layers * experts

typedef struct ps_synth_setting {
    const char *name;
    uint32_t layers, experts, top_k;
    uint32_t tokens;       // that it was calibrated with
    uint32_t drift_tokens; // P is drawn anew after so many; 0: never
    double a, b, c, rho;
} ps_synth_setting;

// qwen30, flashnext, uniform, drift; NULL behind the last.
const ps_synth_setting *ps_synth_setting_at(uint32_t index);

typedef enum ps_synth_sharing {
    PS_SYNTH_APART,  // each stream has a topic of its own
    PS_SYNTH_TOPIC,  // one topic; R and N are each stream's own
    PS_SYNTH_COPIES, // all streams are the same
} ps_synth_sharing;

typedef struct ps_synth_options {
    const ps_synth_setting *setting; // borrowed
    uint32_t layers, experts, top_k; // 0: the setting's
    uint32_t tokens;                 // of each stream; 0: the setting's
    uint32_t prompt;                 // of these, so many are one step of phase prompt; < tokens
    uint32_t streams;                // rows of a decode step; 0: 1
    ps_synth_sharing sharing;
    uint64_t seed;
} ps_synth_options;

typedef struct ps_synth ps_synth;

// PS_INVALID    a number is out of range
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_synth_create(const ps_synth_options *options, ps_synth **out);
void ps_synth_destroy(ps_synth *synth); // NULL is allowed

ps_expert_calls ps_synth_calls(ps_synth *synth); // the generator is borrowed

// What a predictor says of a row of the call that came last: the `count` best of
// score + noise * sd(score) * normal into ids, best first. noise 0 gives the truth; .15, .25, .4 and
// .6 recall 84, 75, 62 and 49 % of 10 of 512. Draws from numbers of its own, so that calls do not
// depend on it. PS_INVALID: no such row, or count is above PS_ROUTES_TOP_K_MAX or the experts.
PS_MUST_USE ps_status ps_synth_predict(ps_synth *synth, uint32_t row, double noise, uint32_t count,
                                       uint16_t *ids);

#endif
