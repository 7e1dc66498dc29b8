// engine/compile.c - writes what a model that is open for running has in memory.
#include "engine/compile.h"

#include "engine/session_plans.h"
#include "format/file_map.h"

#include <stdlib.h>

#define PLANS_ARENA_BYTES ((size_t)4 << 30)

// Plans are known by their text, so the file is kept as it is.
static ps_status check_rank(const ps_gguf *gguf, ps_str text, uint32_t rank, uint32_t *out_ranks)
{
    ps_arena arena;
    ps_arena_init(&arena, PLANS_ARENA_BYTES);
    ps_plan_set *set = NULL;
    ps_status status = ps_plan_set_parse(text, rank, &arena, &set);
    if (status == PS_OK) {
        ps_plan_key wanted = set->key;
        wanted.fingerprint = ps_gguf_fingerprint(gguf);
        wanted.layout = PS_LAYOUT_VERSION;
        *out_ranks = set->key.ranks;
        status = ps_plan_key_check(&set->key, &wanted);
    }
    ps_arena_deinit(&arena);
    return status;
}

static ps_status check_plans(const ps_gguf *gguf, const char *path, ps_str text)
{
    uint32_t ranks = 1;
    ps_status status = PS_OK;
    for (uint32_t rank = 0; rank < ranks && status == PS_OK; rank++) {
        status = check_rank(gguf, text, rank, &ranks);
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

// *out is mapped: ps_file_unmap.
static ps_status map_plans(const ps_gguf *gguf, const char *path, ps_str *out)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    ps_status status = ps_file_map(path, "a plan file", &bytes, &size_bytes);
    if (status != PS_OK) {
        return ps_file_name_error(path, status);
    }
    *out = (ps_str){bytes, size_bytes};
    status = check_plans(gguf, path, *out);
    if (status != PS_OK) {
        ps_file_unmap(bytes, size_bytes);
        *out = (ps_str){NULL, 0};
    }
    return status;
}

ps_status ps_compile_check_plans(const char *model_path, const char *plan_path)
{
    ps_model_file file;
    ps_str text = {NULL, 0};
    PS_TRY(ps_model_file_open(model_path, &file));
    const ps_status status = map_plans(file.gguf, plan_path, &text);
    ps_file_unmap(text.data, text.length);
    ps_model_file_close(&file);
    return status;
}

static void list_weights(const ps_weights *weights, ps_pst_weight *list)
{
    for (uint32_t i = 0; i < ps_weights_count(weights); i++) {
        const ps_weight *weight = ps_weights_at(weights, i);
        list[i] = (ps_pst_weight){.name = weight->name,
                                  .dtype = weight->dtype,
                                  .outputs = weight->outputs,
                                  .inputs = weight->inputs,
                                  .experts = weight->experts,
                                  .is_vector = weight->is_vector,
                                  .data = weight->data,
                                  .size_bytes = ps_weight_bytes(weight)};
    }
}

static ps_status write_model(const ps_model *model, const char *path, ps_pst_content *content,
                             uint64_t *out_bytes)
{
    const uint32_t count = ps_weights_count(model->weights);
    ps_pst_weight *list = calloc(count + (size_t)1, sizeof *list);
    if (list == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a list of weights");
    }
    list_weights(model->weights, list);
    content->gguf = model->file;
    content->weights = list;
    content->weight_count = count;
    const ps_status status = ps_pst_write(path, content, out_bytes);
    free(list);
    return status;
}

ps_status ps_model_compile(const ps_model *model, const char *path,
                           const ps_compile_options *options, ps_compile_result *out)
{
    ps_assert(model->weights != NULL);
    if (model->source.pst != NULL) {
        return ps_fail(PS_INVALID, "%s: is compiled already", model->path);
    }
    ps_pst_content content = {.replace = options->replace,
                              .progress = options->progress,
                              .progress_context = options->progress_context,
                              .cancel = options->cancel};
    if (options->plan_file != NULL) {
        PS_TRY(map_plans(model->file, options->plan_file, &content.plans));
    }
    uint64_t bytes = 0;
    const ps_status status = write_model(model, path, &content, &bytes);
    ps_file_unmap(content.plans.data, content.plans.length);
    PS_TRY(status);
    *out = (ps_compile_result){.bytes = bytes,
                               .fingerprint = ps_gguf_fingerprint(model->file),
                               .layout = PS_LAYOUT_VERSION};
    return PS_OK;
}
