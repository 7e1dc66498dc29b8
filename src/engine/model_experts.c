// engine/model_experts.c - worker 0 counts; a file gets it when somebody asks for one.
#include "engine/model_experts.h"

#include "engine/model_internal.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)1 << 30)

// ---- counting

static void copy_ids(const ps_routes *routes, uint32_t row, uint32_t top_k, uint16_t *ids)
{
    for (uint32_t i = 0; i < top_k; i++) {
        int32_t id;
        memcpy(&id, routes->ids + row * routes->row_bytes + i * sizeof id, sizeof id);
        ids[i] = (uint16_t)id;
    }
}

static void see_routes(void *context, const ps_routes *routes)
{
    ps_model_experts *experts = context;
    const uint32_t top_k = experts->file.counts.top_k;
    ps_assert(routes->row_count <= PS_BATCH_ROWS_MAX);
    for (uint32_t r = 0; r < routes->row_count; r++) {
        const bool is_prompt = ps_step_row_is_prompt(routes->rows, routes->row_count, r);
        experts->rows[r] = (ps_routes_row){.sequence = (uint16_t)routes->rows[r].sequence,
                                           .phase = is_prompt ? PS_ROUTES_PROMPT : PS_ROUTES_DECODE,
                                           .position = routes->rows[r].position};
        copy_ids(routes, r, top_k, experts->ids + (size_t)r * top_k);
    }
    const ps_routes_call call = {.layer = routes->layer,
                                 .rows = routes->row_count,
                                 .row = experts->rows,
                                 .ids = experts->ids};
    ps_route_counts_add(&experts->file.counts, &call);
    if (experts->log != NULL) {
        ps_routes_writer_add(experts->log, &call);
    }
}

// ---- what the model is

// Each type once, blanks between them.
static void add_type(ps_counts_header *header, const char *type)
{
    char list[sizeof header->quantisation + 2];
    char word[32];
    const size_t length = strlen(header->quantisation);
    (void)snprintf(list, sizeof list, " %s ", header->quantisation);
    (void)snprintf(word, sizeof word, " %s ", type);
    if (strstr(list, word) == NULL) {
        (void)snprintf(header->quantisation + length, sizeof header->quantisation - length, "%s%s",
                       length > 0 ? " " : "", type);
    }
}

// Of one expert in a layer of the model: the bytes of its three matrices, packed.
static uint64_t expert_bytes(const ps_model *model, uint32_t layer, ps_counts_header *header)
{
    static const char *const PARTS[] = {"gate", "up", "down"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "blk.%u.ffn_%s_exps.weight", layer, PARTS[i]);
        const ps_gguf_tensor *tensor = ps_gguf_tensor_find(model->file, name);
        ps_assert(tensor != NULL); // the graph was built from it
        bytes += ps_packed_bytes(tensor->dtype, tensor->dimensions[1], tensor->dimensions[0]);
        add_type(header, tensor->type_name);
    }
    return bytes;
}

// As much of a name as a header holds, in ASCII.
static void copy_name(char out[64], const char *name)
{
    (void)snprintf(out, 64, "%s", name);
    for (char *at = out; *at != '\0'; at++) {
        *at = *at < 0x20 || *at > 0x7e ? '?' : *at; // bytes above are negative
    }
}

static uint32_t count_layers(const ps_model_config *config)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < config->layers; i++) {
        layers += config->layer[i].is_moe;
    }
    return layers;
}

// What the header and the layers say, and room for counts and calls.
static ps_status init(ps_model *model, uint32_t layers, ps_model_experts *experts)
{
    const ps_model_config *config = model->config;
    ps_counts_file *file = &experts->file;
    file->header = (ps_counts_header){.layers = layers,
                                      .experts = config->experts,
                                      .top_k = config->experts_used,
                                      .dim = config->dim,
                                      .expert_ffn = config->expert_ffn,
                                      .fingerprint = ps_gguf_fingerprint(model->file)};
    copy_name(file->header.model, config->name);
    PS_TRY(ps_route_counts_init(&file->counts, layers, config->experts, config->experts_used,
                                &model->arena));
    file->expert_bytes = PS_ARENA_NEW(&model->arena, uint64_t, layers);
    experts->rows = PS_ARENA_NEW(&model->arena, ps_routes_row, PS_BATCH_ROWS_MAX);
    experts->ids = PS_ARENA_NEW(&model->arena, uint16_t,
                                (uint64_t)PS_BATCH_ROWS_MAX * config->experts_used);
    if (file->expert_bytes == NULL || experts->rows == NULL || experts->ids == NULL) {
        return PS_NO_MEMORY;
    }
    uint32_t moe = 0;
    for (uint32_t i = 0; i < config->layers; i++) {
        if (config->layer[i].is_moe) {
            file->expert_bytes[moe++] = expert_bytes(model, i, &file->header);
        }
    }
    return PS_OK;
}

ps_status ps_model_experts_start(ps_model *model)
{
    const uint32_t layers = count_layers(model->config);
    if (layers == 0 || ps_ranks_rank(model->ranks) != 0) {
        return PS_OK;
    }
    ps_model_experts *experts = PS_ARENA_NEW(&model->arena, ps_model_experts, 1);
    if (experts == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(init(model, layers, experts));
    experts->observer = (ps_route_observer){.layers = layers,
                                            .experts = model->config->experts,
                                            .top_k = model->config->experts_used,
                                            .see = see_routes,
                                            .context = experts};
    model->experts = experts;
    return PS_OK;
}

void ps_model_experts_end(ps_model_experts *experts)
{
    if (experts != NULL) {
        ps_routes_writer_abandon(experts->log);
    }
}

// ---- reading

void ps_model_get_experts(const ps_model *model, ps_experts_info *out)
{
    *out = (ps_experts_info){0};
    if (model->experts == NULL) {
        return;
    }
    const ps_route_counts *counts = &model->experts->file.counts;
    out->layers = counts->layers;
    out->experts = counts->experts;
    out->experts_used = counts->top_k;
    for (uint32_t phase = 0; phase < PS_PHASE_COUNT; phase++) {
        out->tokens[phase] = counts->tokens[0][phase] + counts->tokens[1][phase];
    }
}

uint64_t ps_model_expert_uses(const ps_model *model, uint32_t layer, uint32_t expert,
                              ps_phase phase)
{
    const ps_route_counts *counts = &model->experts->file.counts;
    ps_assert(layer < counts->layers && expert < counts->experts && phase < PS_PHASE_COUNT);
    const ps_routes_phase of = phase == PS_PHASE_PROMPT ? PS_ROUTES_PROMPT : PS_ROUTES_DECODE;
    return ps_route_counts_at(counts, 0, of, layer)[expert] +
           ps_route_counts_at(counts, 1, of, layer)[expert];
}

// ---- files

static ps_status check_has_experts(const ps_model *model)
{
    return model->experts != NULL
               ? PS_OK
               : ps_fail(PS_INVALID, "%s: the model has no experts to count", model->path);
}

// The file at `path`, of this model; *out_is_there false: there is none.
static ps_status read_own(const ps_model *model, const char *path, ps_arena *arena,
                          ps_counts_file *out, bool *out_is_there)
{
    PS_TRY(check_has_experts(model));
    *out_is_there = access(path, F_OK) == 0;
    if (!*out_is_there) {
        return PS_OK;
    }
    PS_TRY(ps_counts_file_read(path, arena, out));
    const ps_status status = ps_counts_file_check_model(&out->header, &model->experts->file.header);
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

ps_status ps_model_record_check(const ps_model *model, const char *path)
{
    ps_arena arena;
    ps_counts_file old;
    bool is_there;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_status status = read_own(model, path, &arena, &old, &is_there);
    ps_arena_deinit(&arena);
    if (status == PS_OK) {
        status = ps_new_file_try(path, true);
        status = status == PS_OK ? PS_OK : ps_file_name_error(path, status);
    }
    return status;
}

ps_status ps_model_write_check(const ps_model *model, const char *path, bool replace)
{
    PS_TRY(check_has_experts(model));
    const ps_status status = ps_new_file_try(path, replace);
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

ps_status ps_model_write_experts(ps_model *model, const char *path, bool replace)
{
    PS_TRY(check_has_experts(model));
    PS_TRY(ps_counts_file_write(path, &model->experts->file, replace));
    ps_route_counts_clear(&model->experts->file.counts);
    return PS_OK;
}

ps_status ps_model_record_experts(ps_model *model, const char *path)
{
    ps_arena arena;
    ps_counts_file old;
    bool is_there;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_status status = read_own(model, path, &arena, &old, &is_there);
    if (status == PS_OK && is_there) {
        ps_route_counts_merge(&old.counts, &model->experts->file.counts);
        status = ps_counts_file_write(path, &old, true);
        if (status == PS_OK) {
            ps_route_counts_clear(&model->experts->file.counts);
        }
    } else if (status == PS_OK) {
        status = ps_model_write_experts(model, path, false);
    }
    ps_arena_deinit(&arena);
    return status;
}

ps_status ps_model_start_route_log(ps_model *model, const char *path)
{
    PS_TRY(check_has_experts(model));
    const ps_counts_header *header = &model->experts->file.header;
    if (model->experts->log != NULL) {
        return ps_fail(PS_INVALID, "%s: a route log of the model is being written", path);
    }
    return ps_routes_writer_create(path,
                                   &(ps_routes_shape){.fingerprint = header->fingerprint,
                                                      .layers = header->layers,
                                                      .experts = header->experts,
                                                      .top_k = header->top_k},
                                   &model->experts->log);
}

ps_status ps_model_end_route_log(ps_model *model)
{
    if (model->experts == NULL || model->experts->log == NULL) {
        return ps_fail(PS_INVALID, "no route log is being written");
    }
    ps_routes_writer *log = model->experts->log;
    model->experts->log = NULL;
    return ps_routes_writer_finish(log);
}
