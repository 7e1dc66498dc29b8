// experts/route_counts.h - how often each expert was chosen, and which experts that makes the
// hottest.
//
// Counts are kept apart for prompts and decoding, and in two halves that take turns by blocks of
// tokens, so that what was learnt from one half can be tested on the other: a hot set is never
// better than that, however well it covers what it was made of.
#ifndef PS_EXPERTS_ROUTE_COUNTS_H
#define PS_EXPERTS_ROUTE_COUNTS_H

#include "base/memory.h"
#include "experts/routes_file.h"

#define PS_ROUTE_HALVES 2u
// Tokens until the other half takes over: about one short conversation. Neighbouring tokens choose
// alike, so that shorter blocks would test a half on itself.
#define PS_ROUTE_BLOCK_TOKENS 256u

typedef struct ps_route_counts {
    uint32_t layers, experts, top_k;                    // of MoE layers; 1 <= top_k <= experts
    uint64_t tokens[PS_ROUTE_HALVES][PS_ROUTES_PHASES]; // rows of layer 0
    uint64_t *uses; // [PS_ROUTE_HALVES][PS_ROUTES_PHASES][layers][experts]
    uint64_t *seen; // [layers] rows so far: whose turn it is
} ps_route_counts;

// All zero, with memory from the arena. PS_NO_MEMORY.
PS_MUST_USE ps_status ps_route_counts_init(ps_route_counts *counts, uint32_t layers,
                                           uint32_t experts, uint32_t top_k, ps_arena *arena);
void ps_route_counts_clear(ps_route_counts *counts);

// One call of a layer; its numbers are in range. Rows come in the same order in all layers.
void ps_route_counts_add(ps_route_counts *counts, const ps_routes_call *call);

// Adds `from`, of the same shape. Halves are swapped where that makes them more alike, so that many
// short runs fill both.
void ps_route_counts_merge(ps_route_counts *counts, const ps_route_counts *from);

// [experts] of one layer.
uint64_t *ps_route_counts_at(const ps_route_counts *counts, uint32_t half, ps_routes_phase phase,
                             uint32_t layer);

// A key (layer * experts + expert) and how often it was chosen.
typedef struct ps_ranked_key {
    uint64_t uses;
    uint32_t key;
} ps_ranked_key;

// Hottest first; of equals the lower key.
void ps_ranked_keys_sort(ps_ranked_key *keys, uint32_t count);

// Keys by how often they were chosen.
typedef struct ps_hot_ranking {
    uint32_t keys;    // layers * experts
    uint32_t count;   // of those that were chosen at all
    uint32_t *ranked; // [count], hottest first; of equals the lower key
    uint64_t *uses;   // [keys], by key
    uint64_t *hits;   // [keys + 1] uses of the first n keys of `ranked`; hits[keys]: all
    // [keys + 1] uses in each half of the first n keys of the other half's ranking, together. NULL:
    // a half has no tokens.
    uint64_t *held_out_hits;
} ps_hot_ranking;

// Ranks by the phases whose bit (1 << phase) is set. Memory comes from the arena. PS_NO_MEMORY.
PS_MUST_USE ps_status ps_hot_ranking_make(const ps_route_counts *counts, uint32_t phases,
                                          ps_arena *arena, ps_hot_ranking *out);

// The share of uses that the hottest `size` keys serve, 0..1: of what they were learnt from, and of
// the half that they were not learnt from. NaN: nothing was counted; there is but one half.
double ps_hot_coverage(const ps_hot_ranking *ranking, uint32_t size);
double ps_hot_coverage_held_out(const ps_hot_ranking *ranking, uint32_t size);

// How uses [experts] spread: their entropy as a part of the largest (1: all alike, 0: one expert
// alone), and their Gini coefficient (0: all alike; scratch: [experts]). NaN without uses.
double ps_uses_entropy(const uint64_t *uses, uint32_t experts);
double ps_uses_gini(const uint64_t *uses, uint32_t experts, uint64_t *scratch);

#endif
