// engine/compile.c - writes what a model that is open for running has in memory.
#include "engine/compile.h"

#include "engine/session_plans.h"
#include "format/file_map.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)

// Plans are known by their text, so the file is kept as it is.
static ps_status check_rank(const ps_gguf *gguf, ps_str text, uint32_t rank, uint32_t *out_ranks)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
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
    PS_TRY(ps_model_source_open_file(model_path, &file));
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
                                  .expert_stride_bytes = weight->expert_stride_bytes,
                                  .size_bytes = ps_weight_bytes(weight)};
    }
}

static int by_name(const void *name, const void *weight)
{
    return strcmp(name, ((const ps_pst_weight *)weight)->name);
}

// The weights of each layer's experts, in the order in which the graph uses them: each router
// begins a layer.
static void list_stacks(const ps_graph *graph, ps_pst_content *content,
                        ps_pst_stack_content *stacks)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const ps_node *node = &graph->nodes[i];
        if (node->op == PS_OP_ROUTE) {
            content->stack_count++;
        } else if (node->op == PS_OP_EXPERT_LINEAR) {
            const ps_pst_weight *weight = bsearch(graph->values[node->inputs[2]].name,
                                                  content->weights, content->weight_count,
                                                  sizeof *weight, by_name);
            ps_pst_stack_content *stack = &stacks[content->stack_count - 1];
            ps_assert(weight != NULL && stack->weight_count < PS_PST_STACK_WEIGHTS_MAX);
            stack->weights[stack->weight_count++] = (uint32_t)(weight - content->weights);
        }
    }
    content->stacks = stacks;
}

static ps_status write_lists(const ps_model *model, const char *path, ps_arena *arena,
                             ps_pst_content *content, uint64_t *out_bytes)
{
    const uint32_t count = ps_weights_count(model->weights);
    ps_graph graph;
    ps_graph_init(&graph, arena);
    PS_TRY(ps_model_build(model->config, model->file, &graph));
    ps_pst_weight *weights = PS_ARENA_NEW(arena, ps_pst_weight, count);
    ps_pst_stack_content *stacks = PS_ARENA_NEW(arena, ps_pst_stack_content, model->config->layers);
    if (weights == NULL || stacks == NULL) {
        return PS_NO_MEMORY;
    }
    list_weights(model->weights, weights);
    content->gguf = model->file;
    content->weights = weights;
    content->weight_count = count;
    list_stacks(&graph, content, stacks);
    return ps_pst_write(path, content, out_bytes);
}

static ps_status write_model(const ps_model *model, const char *path, ps_pst_content *content,
                             uint64_t *out_bytes)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_status status = write_lists(model, path, &arena, content, out_bytes);
    ps_arena_deinit(&arena);
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
