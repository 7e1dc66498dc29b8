// engine/forced_routes.c - reads a route log twice: how long its sequences are, then their experts.
#include "engine/forced_routes.h"

#include "experts/routes_file.h"

#include <inttypes.h>
#include <string.h>

#define IDS_BYTES_MAX ((uint64_t)256 << 20)
#define SEQUENCES_MAX 65536u
#define NO_EXPERT UINT16_MAX // no id: a layer has at most so many

typedef struct table {
    const char *path;
    ps_routes_reader *reader;
    ps_routes_shape shape;
    uint64_t *starts; // [SEQUENCES_MAX + 1] tokens before; first: tokens of the sequence before
    uint16_t *ids;    // [tokens][layers][top_k]
} table;

static ps_status check_shape(const table *t, const ps_model_config *config)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < config->layers; i++) {
        layers += config->layer[i].is_moe;
    }
    const ps_routes_shape *shape = &t->shape;
    return shape->layers == layers && shape->experts == config->experts &&
                   shape->top_k == config->experts_used
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "%s: routes of %u MoE layers, %u of %u experts each; the model has %u "
                         "layers, %u of %u",
                         t->path, shape->layers, shape->top_k, shape->experts, layers,
                         config->experts_used, config->experts);
}

static void measure_call(table *t, const ps_routes_call *call)
{
    for (uint32_t r = 0; r < call->rows; r++) {
        uint64_t *tokens = &t->starts[call->row[r].sequence + 1];
        const uint64_t end = (uint64_t)call->row[r].position + 1;
        *tokens = end > *tokens ? end : *tokens;
    }
}

static void fill_call(table *t, const ps_routes_call *call)
{
    const uint32_t top_k = t->shape.top_k;
    for (uint32_t r = 0; r < call->rows; r++) {
        const uint64_t token = t->starts[call->row[r].sequence] + call->row[r].position;
        memcpy(t->ids + (token * t->shape.layers + call->layer) * top_k,
               call->ids + (uint64_t)r * top_k, top_k * sizeof *t->ids);
    }
}

static ps_status read_calls(table *t, void (*take)(table *t, const ps_routes_call *call))
{
    PS_TRY(ps_routes_reader_rewind(t->reader));
    for (;;) {
        ps_routes_call call;
        bool is_end = false;
        PS_TRY(ps_routes_reader_next(t->reader, &call, &is_end));
        if (is_end) {
            return PS_OK;
        }
        take(t, &call);
    }
}

static ps_status make_ids(table *t, ps_arena *arena)
{
    const uint64_t token_ids = (uint64_t)t->shape.layers * t->shape.top_k;
    for (uint32_t s = 0; s < SEQUENCES_MAX; s++) {
        t->starts[s + 1] += t->starts[s]; // each is below 2^32
    }
    const uint64_t tokens = t->starts[SEQUENCES_MAX];
    const uint64_t most = IDS_BYTES_MAX / (token_ids * sizeof *t->ids);
    if (tokens == 0) {
        return ps_fail(PS_INVALID, "%s: has no tokens", t->path);
    }
    if (tokens > most) {
        return ps_fail(PS_EXHAUSTED,
                       "%s: sequences of %" PRIu64 " tokens together; experts of at most %" PRIu64
                       " can be forced",
                       t->path, tokens, most);
    }
    t->ids = PS_ARENA_NEW(arena, uint16_t, tokens * token_ids);
    if (t->ids == NULL) {
        return PS_NO_MEMORY;
    }
    memset(t->ids, 0xff, tokens * token_ids * sizeof *t->ids);
    return PS_OK;
}

static ps_status check_whole(const table *t)
{
    for (uint32_t s = 0; s < SEQUENCES_MAX; s++) {
        for (uint64_t i = t->starts[s] * t->shape.layers; i < t->starts[s + 1] * t->shape.layers;
             i++) {
            if (t->ids[i * t->shape.top_k] == NO_EXPERT) {
                return ps_fail(PS_INVALID,
                               "%s: sequence %u has tokens behind position %" PRIu64
                               ", and there no experts of MoE layer %u",
                               t->path, s, i / t->shape.layers - t->starts[s],
                               (uint32_t)(i % t->shape.layers));
            }
        }
    }
    return PS_OK;
}

// Sequences without tokens fall away.
static uint32_t pack_starts(table *t)
{
    uint32_t count = 0;
    for (uint32_t s = 1; s <= SEQUENCES_MAX; s++) {
        if (t->starts[s] > t->starts[count]) {
            t->starts[++count] = t->starts[s];
        }
    }
    return count;
}

static ps_status read_table(table *t, const ps_model_config *config, ps_arena *arena,
                            const ps_forced_routes **out)
{
    ps_forced_routes *routes = PS_ARENA_NEW(arena, ps_forced_routes, 1);
    t->starts = PS_ARENA_NEW(arena, uint64_t, SEQUENCES_MAX + 1);
    if (routes == NULL || t->starts == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(check_shape(t, config));
    PS_TRY(read_calls(t, measure_call));
    PS_TRY(make_ids(t, arena));
    PS_TRY(read_calls(t, fill_call));
    PS_TRY(check_whole(t));
    *routes = (ps_forced_routes){.sequences = pack_starts(t),
                                 .layers = t->shape.layers,
                                 .top_k = t->shape.top_k,
                                 .starts = t->starts,
                                 .ids = t->ids};
    *out = routes;
    return PS_OK;
}

ps_status ps_forced_routes_read(const char *path, const ps_model_config *config, ps_arena *arena,
                                const ps_forced_routes **out)
{
    table t = {.path = path};
    PS_TRY(ps_routes_reader_open(path, &t.reader));
    t.shape = *ps_routes_reader_shape(t.reader);
    const ps_status status = read_table(&t, config, arena, out);
    ps_routes_reader_close(t.reader);
    return status;
}
