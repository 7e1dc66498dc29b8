// engine/hints.c - timed passes over parts of the weights, no part while a cache holds it.
#include "engine/hints.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/pages.h"
#include "base/quantile.h"

#include <string.h>

// Of weights that a worker reads in one pass, and how many passes with the same hint count as one
// measurement. A stream that the hardware has got hold of runs on for some megabytes before hints
// disturb it, and a step is longer.
#define CHUNK_BYTES ((uint64_t)4 << 20)
#define PASSES 4u
#define ROUNDS 7u
#define HINTS 3u
// Another hint than the present one must be faster by this factor, so that noise decides nothing.
#define CLEARLY 0.95

// Light: one token; heavy: a whole tile.
static const uint32_t TOKENS[] = {1, PS_TILE_TOKENS};

typedef struct trial {
    const ps_weights *weights;
    const ps_weight *like; // the dtype and inputs of the weights that are used
    ps_linear_fn *linear;
    uint64_t group_bytes;
    uint64_t chunk_groups;
    const void *tile; // zeros: the arithmetic does not depend on values
    float *results;   // [workers][PS_TILE_TOKENS][chunk_groups * 16]
    uint32_t tokens;
    ps_prefetch prefetch;
    uint64_t chunks; // that are used, in turns: more than caches hold
    uint64_t pass;   // counts up
    uint64_t ns[PS_TEAM_WORKERS_MAX];
} trial;

// Experts that are streamed are nowhere yet.
static bool is_here(const ps_weight *weight)
{
    return !weight->is_vector && weight->data != NULL;
}

static bool is_like(const ps_weight *weight, const ps_weight *like)
{
    return is_here(weight) && weight->dtype == like->dtype && weight->inputs == like->inputs;
}

// The largest quantised weight; NULL when there is none.
static const ps_weight *largest(const ps_weights *weights)
{
    const ps_weight *best = NULL;
    for (uint32_t i = 0; i < ps_weights_count(weights); i++) {
        const ps_weight *weight = ps_weights_at(weights, i);
        if (is_here(weight) && ps_dtype_is_quantised(weight->dtype) &&
            (best == NULL || ps_weight_bytes(weight) > ps_weight_bytes(best))) {
            best = weight;
        }
    }
    return best;
}

// What lies in one piece: experts of a compiled file lie apart.
static uint64_t span_bytes(const ps_weight *weight)
{
    const uint64_t matrix = ps_packed_bytes(weight->dtype, weight->outputs, weight->inputs);
    return weight->expert_stride_bytes > matrix ? matrix : ps_weight_bytes(weight);
}

static uint64_t chunk_bytes(const trial *t)
{
    return t->chunk_groups * t->group_bytes;
}

// The chunks of one weight: those of each of its pieces.
static uint64_t chunks_of(const trial *t, const ps_weight *weight)
{
    return is_like(weight, t->like) ? span_bytes(weight) / chunk_bytes(t) *
                                          (ps_weight_bytes(weight) / span_bytes(weight))
                                    : 0;
}

static uint64_t count_chunks(const trial *t)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < ps_weights_count(t->weights); i++) {
        count += chunks_of(t, ps_weights_at(t->weights, i));
    }
    return count;
}

// The nth chunk of all weights like the largest; behind the last one comes the first again.
static const char *chunk_at(const trial *t, uint64_t n)
{
    uint32_t i = 0;
    n %= t->chunks;
    while (n >= chunks_of(t, ps_weights_at(t->weights, i))) {
        n -= chunks_of(t, ps_weights_at(t->weights, i++));
    }
    const ps_weight *weight = ps_weights_at(t->weights, i);
    const uint64_t per_span = span_bytes(weight) / chunk_bytes(t);
    return ps_weight_expert(weight, n / per_span) + n % per_span * chunk_bytes(t);
}

// Pages of a mapped file are in no page table before somebody touches them.
static void touch_pages(void *argument, uint32_t worker, uint32_t workers)
{
    const trial *t = argument;
    for (uint64_t n = worker; n < t->chunks; n += workers) {
        const char *chunk = chunk_at(t, n);
        for (uint64_t i = 0; i < chunk_bytes(t); i += 4096) {
            (void)*(const volatile char *)(chunk + i);
        }
    }
}

static void run_pass(void *argument, uint32_t worker, uint32_t workers)
{
    trial *t = argument;
    const uint64_t outputs = t->chunk_groups * PS_GROUP_ROWS;
    const char *chunk = chunk_at(t, t->pass * workers + worker);
    float *y[PS_TILE_TOKENS];
    for (uint32_t i = 0; i < PS_TILE_TOKENS; i++) {
        y[i] = t->results + (worker * PS_TILE_TOKENS + i) * outputs;
    }
    const ps_linear args = {.y = y,
                            .w = chunk,
                            .group_count = t->chunk_groups,
                            .inputs = t->like->inputs,
                            .tokens = t->tokens,
                            .x = &t->tile,
                            .hints = {t->prefetch, t->prefetch}};
    const uint64_t start = ps_clock_ns();
    t->linear(&args);
    t->ns[worker] = ps_clock_ns() - start;
}

static uint64_t slowest(const trial *t, uint32_t workers)
{
    uint64_t ns = 0;
    for (uint32_t w = 0; w < workers; w++) {
        ns = t->ns[w] > ns ? t->ns[w] : ns;
    }
    return ns;
}

static double measure(ps_team *team, trial *t, ps_prefetch prefetch)
{
    uint64_t ns = 0;
    t->prefetch = prefetch;
    for (uint32_t i = 0; i < PASSES; i++, t->pass++) {
        ps_team_run(team, run_pass, t);
        ns += slowest(t, ps_team_workers(team));
    }
    return (double)ns;
}

// The fastest hint of one class. Some hints are fast until the hardware loses a stream, and then
// slow for long: another one than the present counts with a measurement of its slower half.
static ps_prefetch fastest(ps_team *team, trial *t, uint32_t tokens, ps_prefetch present)
{
    double ns[HINTS][ROUNDS];
    double counts[HINTS];
    ps_prefetch best = present;
    t->tokens = tokens;
    for (uint32_t i = 0; i < ROUNDS * HINTS; i++) {
        ns[i % HINTS][i / HINTS] = measure(team, t, (ps_prefetch)(i % HINTS));
    }
    for (uint32_t i = 0; i < HINTS; i++) {
        counts[i] = ps_quantile(ns[i], ROUNDS, i == present ? 0.5 : 0.75);
    }
    for (uint32_t i = 0; i < HINTS; i++) {
        if (counts[i] < counts[present] * CLEARLY && counts[i] < counts[best]) {
            best = (ps_prefetch)i;
        }
    }
    ps_log(PS_LOG_DEBUG, "prefetching, %u token(s): none %.0f, near %.0f, far %.0f us", tokens,
           counts[0] / 1e3, counts[1] / 1e3, counts[2] / 1e3);
    return best;
}

static void run_trial(ps_team *team, trial *t, ps_kernels *kernels)
{
    ps_linear_hints *hints = &kernels->linear_hints;
    ps_team_run(team, touch_pages, t);
    hints->light = fastest(team, t, TOKENS[0], hints->light);
    hints->heavy = fastest(team, t, TOKENS[1], hints->heavy);
    ps_log(PS_LOG_INFO, "prefetching of weights: %s for few rows, %s for many",
           ps_prefetch_name(hints->light), ps_prefetch_name(hints->heavy));
}

void ps_hints_choose(ps_team *team, const ps_weights *weights, const ps_machine *machine,
                     ps_kernels *kernels)
{
    trial t = {.weights = weights, .like = largest(weights)};
    if (t.like == NULL || ps_weights_bytes(weights) < PS_WEIGHTS_CACHES * machine->llc_bytes ||
        strcmp(kernels->isa, "ref") == 0) {
        return;
    }
    const uint32_t workers = ps_team_workers(team);
    t.linear = ps_kernels_linear(kernels, t.like->dtype);
    t.group_bytes = ps_packed_group_bytes(t.like->dtype, t.like->inputs);
    t.chunk_groups = ps_divide_up(CHUNK_BYTES, t.group_bytes);
    if (t.chunk_groups > span_bytes(t.like) / t.group_bytes) {
        t.chunk_groups = span_bytes(t.like) / t.group_bytes;
    }
    const uint64_t count = count_chunks(&t);
    const uint64_t enough = ps_divide_up(PS_WEIGHTS_CACHES * machine->llc_bytes, chunk_bytes(&t));
    t.chunks = count < enough ? count : enough;
    if (t.chunks * chunk_bytes(&t) <= 2 * machine->llc_bytes) {
        return;
    }
    const uint64_t tile_bytes = PS_TILE_TOKENS * ps_q8_row_bytes(t.like->inputs);
    const uint64_t bytes = tile_bytes + workers * PS_TILE_TOKENS * t.chunk_groups * PS_GROUP_ROWS *
                                            sizeof(float);
    void *memory;
    if (ps_pages_map(bytes, "a trial of prefetching", &memory) != PS_OK) {
        return;
    }
    t.tile = memory;
    t.results = (float *)(void *)((char *)memory + tile_bytes);
    run_trial(team, &t, kernels);
    ps_pages_unmap(memory, bytes);
}

const char *ps_prefetch_name(ps_prefetch prefetch)
{
    static const char *const NAMES[] = {"none", "near", "far"};
    return NAMES[prefetch];
}
