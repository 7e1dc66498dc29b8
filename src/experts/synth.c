// experts/synth.c - see synth.h.
#include "experts/synth.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/top_k.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ps_synth_setting SETTINGS[] = {
    {"qwen30", 48, 128, 6, 128, 0, .5, 1.2, 1.0, .85},
    {"flashnext", 48, 512, 10, 256, 0, .4, 1.0, 1.2, .9},
    {"uniform", 48, 512, 10, 256, 0, 0, 0, 0, 0},
    {"drift", 48, 512, 10, 2000, 500, .4, 1.0, 1.2, .9},
};

const ps_synth_setting *ps_synth_setting_at(uint32_t index)
{
    return index < sizeof SETTINGS / sizeof SETTINGS[0] ? &SETTINGS[index] : NULL;
}

// Normal numbers come in pairs.
typedef struct normals {
    ps_rng rng;
    double second;
    bool has_second;
} normals;

struct ps_synth {
    ps_synth_options options;
    ps_routes_shape shape;
    normals draw, guess;
    uint32_t token; // that comes next
    uint32_t layer;
    float *everywhere; // [layers][experts] G
    float *topic;      // [streams][layers][experts] P, of the first stream where all share it
    float *recent;     // [streams][layers][experts] R
    float *scores;     // [rows][experts] of the last call
    ps_routes_row *rows;
    uint32_t row_count; // of the last call
    uint16_t *ids;      // [rows][top_k]
    ps_arena arena;
};

// Marsaglia's polar method.
static float normal(normals *n)
{
    if (n->has_second) {
        n->has_second = false;
        return (float)n->second;
    }
    double x;
    double y;
    double square;
    do {
        const uint64_t bits = ps_rng_next(&n->rng);
        x = (double)(int32_t)(uint32_t)bits * 0x1p-31;
        y = (double)(int32_t)(uint32_t)(bits >> 32) * 0x1p-31;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double scale = sqrt(-2 * log(square) / square);
    n->second = y * scale;
    n->has_second = true;
    return (float)(x * scale);
}

static void fill(normals *n, float *out, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        out[i] = normal(n);
    }
}

static uint64_t layer_values(const ps_synth *s)
{
    return (uint64_t)s->shape.layers * s->shape.experts;
}

static uint32_t own_streams(const ps_synth *s)
{
    return s->options.sharing == PS_SYNTH_COPIES ? 1 : s->options.streams;
}

static uint32_t topics(const ps_synth *s)
{
    return s->options.sharing == PS_SYNTH_APART ? s->options.streams : 1;
}

// ---- creation

static ps_status check(const ps_synth_options *o, const ps_routes_shape *shape)
{
    PS_TRY(ps_routes_shape_check(shape));
    if (shape->layers * shape->experts > PS_SYNTH_KEYS_MAX) {
        return ps_fail(PS_INVALID, "%u layers of %u experts: at most %u in all would be right",
                       shape->layers, shape->experts, PS_SYNTH_KEYS_MAX);
    }
    if (o->streams > PS_SYNTH_STREAMS_MAX) {
        return ps_fail(PS_INVALID, "%u streams: 1 to %u would be right", o->streams,
                       PS_SYNTH_STREAMS_MAX);
    }
    if (o->tokens > PS_SYNTH_TOKENS_MAX) {
        return ps_fail(PS_INVALID, "%u tokens: 1 to %u would be right", o->tokens,
                       PS_SYNTH_TOKENS_MAX);
    }
    const uint32_t tokens = o->tokens > 0 ? o->tokens : o->setting->tokens;
    const uint32_t streams = o->streams > 0 ? o->streams : 1;
    const uint32_t most = PS_ROUTES_ROWS_MAX / streams;
    if (o->prompt >= tokens || o->prompt > most) {
        return ps_fail(PS_INVALID, "a prompt of %u of %u tokens: 0 to %u would be right", o->prompt,
                       tokens, tokens - 1 < most ? tokens - 1 : most);
    }
    return PS_OK;
}

static ps_status allocate(ps_synth *s)
{
    const ps_synth_options *o = &s->options;
    const uint64_t values = layer_values(s);
    const uint64_t rows = (uint64_t)o->streams * (o->prompt > 1 ? o->prompt : 1);
    s->everywhere = PS_ARENA_NEW(&s->arena, float, values);
    s->topic = PS_ARENA_NEW(&s->arena, float, topics(s) * values);
    s->recent = PS_ARENA_NEW(&s->arena, float, own_streams(s) * values);
    s->scores = PS_ARENA_NEW(&s->arena, float, rows * s->shape.experts);
    s->rows = PS_ARENA_NEW(&s->arena, ps_routes_row, rows);
    s->ids = PS_ARENA_NEW(&s->arena, uint16_t, rows * s->shape.top_k);
    return s->everywhere == NULL || s->topic == NULL || s->recent == NULL || s->scores == NULL ||
                   s->rows == NULL || s->ids == NULL
               ? PS_NO_MEMORY
               : PS_OK;
}

static ps_status rewind_calls(void *context)
{
    ps_synth *s = context;
    s->draw = (normals){.rng = ps_rng_seed(s->options.seed)};
    s->guess = (normals){.rng = ps_rng_seed(~s->options.seed)};
    s->token = 0;
    s->layer = 0;
    s->row_count = 0;
    fill(&s->draw, s->everywhere, layer_values(s));
    fill(&s->draw, s->topic, topics(s) * layer_values(s));
    fill(&s->draw, s->recent, own_streams(s) * layer_values(s));
    return PS_OK;
}

ps_status ps_synth_create(const ps_synth_options *options, ps_synth **out)
{
    const ps_synth_setting *setting = options->setting;
    const ps_routes_shape shape = {
        .layers = options->layers > 0 ? options->layers : setting->layers,
        .experts = options->experts > 0 ? options->experts : setting->experts,
        .top_k = options->top_k > 0 ? options->top_k : setting->top_k};
    PS_TRY(check(options, &shape));
    ps_synth *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for made routes");
    }
    s->options = *options;
    s->options.tokens = options->tokens > 0 ? options->tokens : setting->tokens;
    s->options.streams = options->streams > 0 ? options->streams : 1;
    s->shape = shape;
    ps_arena_init(&s->arena, SIZE_MAX);
    const ps_status status = allocate(s);
    if (status != PS_OK) {
        ps_synth_destroy(s);
        return status;
    }
    (void)rewind_calls(s);
    *out = s;
    return PS_OK;
}

void ps_synth_destroy(ps_synth *synth)
{
    if (synth != NULL) {
        ps_arena_deinit(&synth->arena);
        free(synth);
    }
}

// ---- calls

static void best_ids(const float *scores, uint32_t experts, uint32_t count, uint16_t *ids)
{
    ps_candidate best[PS_ROUTES_TOP_K_MAX];
    ps_top_k(scores, experts, count, best);
    ps_candidates_sort(best, count);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (uint16_t)best[i].id;
    }
}

static void score(ps_synth *s, uint32_t stream, float *out)
{
    const ps_synth_setting *m = s->options.setting;
    const uint32_t experts = s->shape.experts;
    const uint64_t layer = (uint64_t)s->layer * experts;
    const float *everywhere = s->everywhere + layer;
    const float *topic = s->topic + (topics(s) > 1 ? stream : 0) * layer_values(s) + layer;
    float *recent = s->recent + stream * layer_values(s) + layer;
    const float fresh = (float)sqrt(1 - m->rho * m->rho);
    for (uint32_t e = 0; e < experts; e++) {
        recent[e] = (float)m->rho * recent[e] + fresh * normal(&s->draw);
        out[e] = (float)m->a * everywhere[e] + (float)m->b * topic[e] + (float)m->c * recent[e] +
                 normal(&s->draw);
    }
}

// A row of a copied stream is that of the first one.
static void make_row(ps_synth *s, uint32_t row, uint32_t stream, uint32_t position, bool is_prompt)
{
    const uint32_t experts = s->shape.experts;
    const uint32_t top_k = s->shape.top_k;
    float *scores = s->scores + (uint64_t)row * experts;
    uint16_t *ids = s->ids + (uint64_t)row * top_k;
    s->rows[row] = (ps_routes_row){.sequence = (uint16_t)stream,
                                   .phase = is_prompt ? PS_ROUTES_PROMPT : PS_ROUTES_DECODE,
                                   .position = position};
    if (stream < own_streams(s)) {
        score(s, stream, scores);
        best_ids(scores, experts, top_k, ids);
        return;
    }
    const uint32_t original = row - stream * (s->row_count / s->options.streams);
    memcpy(scores, s->scores + (uint64_t)original * experts, experts * sizeof *scores);
    memcpy(ids, s->ids + (uint64_t)original * top_k, top_k * sizeof *ids);
}

static void redraw_topics(ps_synth *s)
{
    const uint32_t period = s->options.setting->drift_tokens;
    if (period > 0 && s->token > 0 && s->token % period == 0) {
        fill(&s->draw, s->topic, topics(s) * layer_values(s));
    }
}

static ps_status next_call(void *context, ps_routes_call *out, bool *out_is_end)
{
    ps_synth *s = context;
    const ps_synth_options *o = &s->options;
    *out_is_end = s->token == o->tokens;
    if (*out_is_end) {
        return PS_OK;
    }
    const bool is_prompt = s->token == 0 && o->prompt > 1;
    const uint32_t tokens = is_prompt ? o->prompt : 1;
    if (s->layer == 0) {
        redraw_topics(s);
    }
    s->row_count = o->streams * tokens;
    for (uint32_t stream = 0; stream < o->streams; stream++) {
        for (uint32_t i = 0; i < tokens; i++) {
            make_row(s, stream * tokens + i, stream, s->token + i, is_prompt);
        }
    }
    *out = (ps_routes_call){.layer = s->layer, .rows = s->row_count, .row = s->rows, .ids = s->ids};
    if (++s->layer == s->shape.layers) {
        s->layer = 0;
        s->token += tokens;
    }
    return PS_OK;
}

ps_expert_calls ps_synth_calls(ps_synth *synth)
{
    return (ps_expert_calls){
        .context = synth, .shape = synth->shape, .next = next_call, .rewind = rewind_calls};
}

ps_status ps_synth_predict(ps_synth *synth, uint32_t row, double noise, uint32_t count,
                           uint16_t *ids)
{
    const uint32_t experts = synth->shape.experts;
    if (row >= synth->row_count || count > PS_ROUTES_TOP_K_MAX || count > experts) {
        return ps_fail(PS_INVALID, "row %u of %u, %u of %u experts: there is no such prediction",
                       row, synth->row_count, count, experts);
    }
    const ps_synth_setting *m = synth->options.setting;
    const double spread = sqrt(m->a * m->a + m->b * m->b + m->c * m->c + 1);
    float *guesses = malloc(experts * sizeof *guesses);
    if (guesses == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a prediction");
    }
    for (uint32_t e = 0; e < experts; e++) {
        guesses[e] = synth->scores[(uint64_t)row * experts + e] +
                     (float)(noise * spread) * normal(&synth->guess);
    }
    best_ids(guesses, experts, count, ids);
    free(guesses);
    return PS_OK;
}
