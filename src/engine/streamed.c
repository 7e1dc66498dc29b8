// engine/streamed.c - one account of memory, for planning and for running.
#include "engine/streamed.h"

#include "engine/session_plans.h"

#include <string.h>

// What a process takes beside what is planned: stacks, the tokenizer's tables, buffers of text.
#define BESIDE_BYTES ((uint64_t)24 << 20)

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void add_weights(const ps_graph *graph, ps_memory_split *split)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const ps_value *value = &graph->values[i];
        if (value->kind == PS_VALUE_WEIGHT) {
            const uint64_t matrix = ps_packed_bytes(value->dtype, value->rows, value->columns);
            split->dense_bytes += value->experts == 0 ? matrix : 0;
            split->experts_bytes += value->experts * matrix;
        }
    }
}

// KV and workspaces of the largest steps that a session will make.
static ps_status add_session(const ps_model_config *config, const ps_gguf *file,
                             const ps_machine *machine, const ps_session_options *given,
                             ps_memory_split *split)
{
    ps_session_options options = given == NULL ? (ps_session_options){0} : *given;
    PS_TRY(ps_session_options_complete(config, &options));
    ps_bucket buckets[PS_SESSION_PLANS_MAX];
    const uint32_t count = ps_session_buckets(&options, 1, buckets);
    ps_pass_options pass = ps_session_pass_options(&options, &buckets[count - 1], machine, 1, 0);
    pass.prefetch = PS_PREFETCH_OFF;
    pass.streams_experts = true;
    ps_arena arena;
    ps_arena_init(&arena, (size_t)4 << 30);
    ps_plan *plan = NULL;
    const ps_status status = ps_engine_make_plan(config, file, &pass, &arena, &plan);
    if (status == PS_OK) {
        split->session_bytes = plan->shared_bytes + machine->threads * plan->private_bytes;
        for (uint32_t i = 0; i < plan->value_count; i++) {
            const ps_value *value = &plan->values[i].is;
            if (value->kind == PS_VALUE_KV) {
                const uint32_t blocks = ps_session_group_blocks(
                    config->kv_groups[value->kv_group].window, options.context_tokens,
                    options.kv_tokens, options.sequences, options.batch_rows);
                split->session_bytes += (uint64_t)blocks * PS_KV_BLOCK_TOKENS *
                                        ps_value_kv_bytes(value);
            }
        }
    }
    ps_arena_deinit(&arena);
    return status;
}

static ps_status refuse(const ps_memory_split *split, uint64_t expert_bytes, uint64_t needed_bytes)
{
    if (split->memory_bytes == 0 || needed_bytes <= split->memory_bytes) {
        return ps_fail(PS_INVALID,
                       "%.1f MiB for experts: %.1f MiB at least would be right, twice those that "
                       "one token takes in a layer",
                       mib(expert_bytes), mib(split->floor_bytes));
    }
    return ps_fail(PS_INVALID,
                   "%.0f MiB of memory: the model needs %.0f MiB: %.0f of the process, %.0f of "
                   "weights that every token reads, %.0f of KV cache and workspaces, and %.1f of "
                   "experts at least; a shorter context or smaller batches take less",
                   mib(split->memory_bytes), mib(needed_bytes), mib(split->base_bytes),
                   mib(split->dense_bytes), mib(split->session_bytes), mib(split->floor_bytes));
}

static ps_status split_memory(const ps_model_config *config, const ps_graph *graph,
                              const ps_memory_given *given, ps_memory_split *split)
{
    ps_expert_layer *layers;
    uint32_t layer_count;
    add_weights(graph, split);
    PS_TRY(ps_weights_list_experts(graph, graph->arena, &layers, &layer_count));
    split->expert_layers = layer_count;
    for (uint32_t l = 0; l < layer_count; l++) {
        split->experts += layers[l].experts;
    }
    const uint64_t fixed = split->base_bytes + split->dense_bytes + split->session_bytes;
    uint64_t left = UINT64_MAX;
    if (given->memory_bytes > 0) {
        left = given->memory_bytes > fixed ? given->memory_bytes - fixed : 0;
    }
    if (given->expert_bytes > 0 && given->expert_bytes < left) {
        left = given->expert_bytes;
    }
    if (given->streams && layer_count == 0) {
        return ps_fail(PS_INVALID, "a simulated tier for experts, and the model has none");
    }
    split->resident_bytes = split->experts_bytes;
    if (given->streams || split->experts_bytes > left ||
        (given->memory_bytes > 0 && given->memory_bytes < fixed)) {
        split->floor_bytes = ps_expert_store_floor(layers, layer_count, config->experts_used);
        split->streams = layer_count > 0;
        split->resident_bytes = left < split->experts_bytes ? left : split->experts_bytes;
        if (!split->streams || split->floor_bytes > left) {
            return refuse(split, given->expert_bytes, fixed + split->floor_bytes);
        }
    }
    return PS_OK;
}

ps_status ps_memory_plan(const ps_model_config *config, const ps_gguf *file,
                         const ps_machine *machine, const ps_memory_given *given,
                         ps_memory_split *out)
{
    ps_memory_split split = {.memory_bytes = given->memory_bytes,
                             .base_bytes = ps_machine_resident_bytes() + BESIDE_BYTES};
    PS_TRY(add_session(config, file, machine, given->session, &split));
    ps_arena arena;
    ps_graph graph;
    ps_arena_init(&arena, (size_t)4 << 30);
    ps_graph_init(&graph, &arena);
    ps_status status = ps_model_build(config, file, &graph);
    if (status == PS_OK) {
        status = split_memory(config, &graph, given, &split);
    }
    ps_arena_deinit(&arena);
    if (status == PS_OK) {
        *out = split;
    }
    return status;
}

ps_status ps_memory_print(const ps_memory_split *split, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out,
                            "# memory, MiB: %.0f process, %.0f weights that every token reads, "
                            "%.0f KV cache and workspaces, ",
                            mib(split->base_bytes), mib(split->dense_bytes),
                            mib(split->session_bytes)));
    return split->streams
               ? ps_buffer_printf(out,
                                  "%.0f of %.0f for the experts, %.0f at least: about %.0f of %u "
                                  "are kept\n",
                                  mib(split->resident_bytes), mib(split->experts_bytes),
                                  mib(split->floor_bytes),
                                  (double)split->experts * (double)split->resident_bytes /
                                      (double)split->experts_bytes,
                                  split->experts)
               : ps_buffer_printf(out, "%.0f experts, all kept\n", mib(split->experts_bytes));
}

static ps_status create_tier(const ps_model *model, ps_tier **out)
{
    const ps_weights_experts *experts = ps_weights_get_experts(model->weights);
    const ps_expert_files files = {.paths = experts->paths, .path_count = experts->path_count};
    return model->cold != NULL ? ps_tier_sim_create(model->cold, &model->tier_link, out)
                               : ps_tier_disk_create(&files, out);
}

ps_status ps_streamed_create_store(const ps_model *model, uint64_t session_bytes,
                                   ps_expert_store **out)
{
    const ps_weights_experts *experts = ps_weights_get_experts(model->weights);
    const uint64_t resident = ps_machine_resident_bytes();
    const uint64_t cold = ps_cold_experts_bytes(model->cold);
    const uint64_t taken = (resident > cold ? resident - cold : 0) + BESIDE_BYTES + session_bytes;
    const uint64_t floor = ps_expert_store_floor(experts->layers, experts->layer_count,
                                                 model->config->experts_used);
    uint64_t left = model->expert_bytes;
    if (model->memory_bytes > 0) {
        if (taken + floor > model->memory_bytes) {
            return ps_fail(PS_NO_MEMORY,
                           "%.0f MiB of memory: %.0f MiB are taken, the session's KV cache and "
                           "workspaces included, and experts need %.0f MiB; a shorter context or "
                           "smaller batches take less",
                           mib(model->memory_bytes), mib(taken), mib(floor));
        }
        const uint64_t rest = model->memory_bytes - taken;
        left = left == 0 || rest < left ? rest : left;
    }
    ps_tier *tier;
    PS_TRY(create_tier(model, &tier));
    const ps_expert_store_options options = {.tier = tier,
                                             .layers = experts->layers,
                                             .layer_count = experts->layer_count,
                                             .top_k = model->config->experts_used,
                                             .budget_bytes = left,
                                             .policy = model->expert_policy,
                                             .hot = model->hot,
                                             .hot_count = model->hot_count,
                                             .hot_cut = model->hot_cut};
    ps_expert_store *store = NULL;
    ps_status status = ps_expert_store_create(&options, &store);
    if (status == PS_OK) {
        status = ps_expert_store_warm(store);
    }
    if (status != PS_OK) {
        ps_expert_store_destroy(store);
        return status;
    }
    *out = store;
    return PS_OK;
}
