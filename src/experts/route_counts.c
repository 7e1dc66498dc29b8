// experts/route_counts.c - increments while a model runs; sorting and sums afterwards.
#include "experts/route_counts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t keys_of(const ps_route_counts *counts)
{
    return (uint64_t)counts->layers * counts->experts;
}

ps_status ps_route_counts_init(ps_route_counts *counts, uint32_t layers, uint32_t experts,
                               uint32_t top_k, ps_arena *arena)
{
    *counts = (ps_route_counts){.layers = layers, .experts = experts, .top_k = top_k};
    counts->uses = PS_ARENA_NEW(arena, uint64_t,
                                keys_of(counts) * PS_ROUTE_HALVES * PS_ROUTES_PHASES);
    counts->seen = PS_ARENA_NEW(arena, uint64_t, layers);
    return counts->uses == NULL || counts->seen == NULL ? PS_NO_MEMORY : PS_OK;
}

void ps_route_counts_clear(ps_route_counts *counts)
{
    memset(counts->tokens, 0, sizeof counts->tokens);
    memset(counts->seen, 0, counts->layers * sizeof *counts->seen);
    memset(counts->uses, 0,
           keys_of(counts) * PS_ROUTE_HALVES * PS_ROUTES_PHASES * sizeof *counts->uses);
}

uint64_t *ps_route_counts_at(const ps_route_counts *counts, uint32_t half, ps_routes_phase phase,
                             uint32_t layer)
{
    return counts->uses + (half * PS_ROUTES_PHASES + phase) * keys_of(counts) +
           (uint64_t)layer * counts->experts;
}

void ps_route_counts_add(ps_route_counts *counts, const ps_routes_call *call)
{
    uint64_t *seen = &counts->seen[call->layer];
    for (uint32_t r = 0; r < call->rows; r++) {
        const uint16_t *ids = call->ids + (size_t)r * counts->top_k;
        const uint32_t half = (*seen)++ / PS_ROUTE_BLOCK_TOKENS % PS_ROUTE_HALVES;
        uint64_t *uses = ps_route_counts_at(counts, half, (ps_routes_phase)call->row[r].phase,
                                            call->layer);
        for (uint32_t i = 0; i < counts->top_k; i++) {
            ps_assert(ids[i] < counts->experts);
            uses[ids[i]]++;
        }
        counts->tokens[half][call->row[r].phase] += call->layer == 0;
    }
}

static uint64_t half_tokens(const ps_route_counts *counts, uint32_t half)
{
    return counts->tokens[half][PS_ROUTES_PROMPT] + counts->tokens[half][PS_ROUTES_DECODE];
}

void ps_route_counts_merge(ps_route_counts *counts, const ps_route_counts *from)
{
    const uint64_t values = keys_of(counts) * PS_ROUTES_PHASES; // of a half
    const bool is_more = half_tokens(counts, 0) > half_tokens(counts, 1);
    const bool is_swapped = is_more == (half_tokens(from, 0) > half_tokens(from, 1));
    for (uint32_t half = 0; half < PS_ROUTE_HALVES; half++) {
        const uint32_t its = is_swapped ? 1 - half : half;
        for (uint32_t phase = 0; phase < PS_ROUTES_PHASES; phase++) {
            counts->tokens[half][phase] += from->tokens[its][phase];
        }
        for (uint64_t i = 0; i < values; i++) {
            counts->uses[half * values + i] += from->uses[its * values + i];
        }
    }
}

// ---- ranking

static int compare_ranked(const void *a, const void *b)
{
    const ps_ranked_key *left = a;
    const ps_ranked_key *right = b;
    if (left->uses != right->uses) {
        return left->uses < right->uses ? 1 : -1;
    }
    return left->key < right->key ? -1 : 1;
}

void ps_ranked_keys_sort(ps_ranked_key *keys, uint32_t count)
{
    qsort(keys, count, sizeof *keys, compare_ranked);
}

// Those of `uses` [keys] that are not 0, in `out` [keys]; answers how many.
static uint32_t rank_keys(const uint64_t *uses, uint32_t keys, ps_ranked_key *out)
{
    uint32_t count = 0;
    for (uint32_t key = 0; key < keys; key++) {
        if (uses[key] > 0) {
            out[count++] = (ps_ranked_key){uses[key], key};
        }
    }
    ps_ranked_keys_sort(out, count);
    return count;
}

static void sum_half(const ps_route_counts *counts, uint32_t half, uint32_t phases, uint64_t *uses)
{
    for (uint32_t phase = 0; phase < PS_ROUTES_PHASES; phase++) {
        const uint64_t *from = ps_route_counts_at(counts, half, (ps_routes_phase)phase, 0);
        for (uint64_t key = 0; key < keys_of(counts) && (phases >> phase & 1) != 0; key++) {
            uses[key] += from[key];
        }
    }
}

// hits[n] += uses of the first n keys.
static void add_hits(const ps_ranked_key *order, uint32_t count, const uint64_t *uses,
                     uint32_t keys, uint64_t *hits)
{
    uint64_t sum = 0;
    for (uint32_t n = 0; n < keys; n++) {
        sum += n < count ? uses[order[n].key] : 0;
        hits[n + 1] += sum;
    }
}

static ps_status rank_halves(const ps_route_counts *counts, uint32_t phases, ps_arena *arena,
                             ps_ranked_key *order, ps_hot_ranking *out)
{
    uint64_t *uses[PS_ROUTE_HALVES];
    for (uint32_t half = 0; half < PS_ROUTE_HALVES; half++) {
        uses[half] = PS_ARENA_NEW(arena, uint64_t, out->keys);
        if (uses[half] == NULL) {
            return PS_NO_MEMORY;
        }
        sum_half(counts, half, phases, uses[half]);
    }
    out->held_out_hits = PS_ARENA_NEW(arena, uint64_t, (uint64_t)out->keys + 1);
    if (out->held_out_hits == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t half = 0; half < PS_ROUTE_HALVES; half++) {
        const uint32_t count = rank_keys(uses[half], out->keys, order);
        if (count == 0) {
            out->held_out_hits = NULL;
            return PS_OK;
        }
        add_hits(order, count, uses[1 - half], out->keys, out->held_out_hits);
    }
    return PS_OK;
}

ps_status ps_hot_ranking_make(const ps_route_counts *counts, uint32_t phases, ps_arena *arena,
                              ps_hot_ranking *out)
{
    ps_hot_ranking ranking = {.keys = (uint32_t)keys_of(counts)};
    ps_ranked_key *order = PS_ARENA_NEW(arena, ps_ranked_key, ranking.keys);
    ranking.ranked = PS_ARENA_NEW(arena, uint32_t, ranking.keys);
    ranking.uses = PS_ARENA_NEW(arena, uint64_t, ranking.keys);
    ranking.hits = PS_ARENA_NEW(arena, uint64_t, (uint64_t)ranking.keys + 1);
    if (order == NULL || ranking.ranked == NULL || ranking.uses == NULL || ranking.hits == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(rank_halves(counts, phases, arena, order, &ranking));
    for (uint32_t half = 0; half < PS_ROUTE_HALVES; half++) {
        sum_half(counts, half, phases, ranking.uses);
    }
    ranking.count = rank_keys(ranking.uses, ranking.keys, order);
    add_hits(order, ranking.count, ranking.uses, ranking.keys, ranking.hits);
    for (uint32_t n = 0; n < ranking.count; n++) {
        ranking.ranked[n] = order[n].key;
    }
    *out = ranking;
    return PS_OK;
}

static double share(const ps_hot_ranking *ranking, const uint64_t *hits, uint32_t size)
{
    const uint64_t all = ranking->hits[ranking->keys];
    const uint32_t keys = size < ranking->keys ? size : ranking->keys;
    return hits == NULL || all == 0 ? NAN : (double)hits[keys] / (double)all;
}

double ps_hot_coverage(const ps_hot_ranking *ranking, uint32_t size)
{
    return share(ranking, ranking->hits, size);
}

double ps_hot_coverage_held_out(const ps_hot_ranking *ranking, uint32_t size)
{
    return share(ranking, ranking->held_out_hits, size);
}

// ---- how uses spread

static double sum_of(const uint64_t *uses, uint32_t experts)
{
    double sum = 0;
    for (uint32_t e = 0; e < experts; e++) {
        sum += (double)uses[e];
    }
    return sum;
}

double ps_uses_entropy(const uint64_t *uses, uint32_t experts)
{
    const double sum = sum_of(uses, experts);
    double entropy = 0;
    for (uint32_t e = 0; e < experts && sum > 0; e++) {
        const double p = (double)uses[e] / sum;
        entropy -= p > 0 ? p * log(p) : 0;
    }
    return sum > 0 && experts > 1 ? entropy / log(experts) : NAN;
}

static int compare_uses(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

double ps_uses_gini(const uint64_t *uses, uint32_t experts, uint64_t *scratch)
{
    const double sum = sum_of(uses, experts);
    double weighted = 0;
    memcpy(scratch, uses, experts * sizeof *scratch);
    qsort(scratch, experts, sizeof *scratch, compare_uses);
    for (uint32_t e = 0; e < experts; e++) {
        weighted += (2.0 * (e + 1) - experts - 1) * (double)scratch[e];
    }
    return sum > 0 ? weighted / (experts * sum) : NAN;
}
