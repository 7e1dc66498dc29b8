// engine/streamed.c - one account of memory, for planning and for running.
#include "engine/streamed.h"

#include "base/pages.h"
#include "engine/session_plans.h"

#include <stdio.h>

#define MIB ((uint64_t)1 << 20)
// Of experts that a disk is asked for at a time.
#define READ_AHEAD_BYTES (4 * MIB)
#define READS_LEAST 4u
#define READS_MOST 32u
// What a process takes beside what is planned: slices of files that are being packed, stacks, a
// sampler, buffers of text. The store's tables: so much an expert.
#define BESIDE_BYTES (4 * MIB)
#define EXPERT_TABLE_BYTES 1024u
// Pages of libraries and files, from one start of a process to the next.
#define SPARE_BYTES (2 * MIB)
// Scratch and stack of a worker, before plans are bound.
#define WORKER_BYTES MIB

static double mib(uint64_t bytes)
{
    return (double)bytes / (double)MIB;
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
    split->dense_bytes = ps_pages_bytes(split->dense_bytes);
}

// ---- sessions

static uint64_t kv_bytes(const ps_model_config *config, const ps_session_options *options,
                         const ps_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const ps_value *value = &plan->values[i].is;
        if (value->kind == PS_VALUE_KV) {
            const uint32_t blocks = ps_session_group_blocks(
                config->kv_groups[value->kv_group].window, options->context_tokens,
                options->kv_tokens, options->sequences, options->batch_rows);
            bytes += (uint64_t)blocks * PS_KV_BLOCK_TOKENS * ps_value_kv_bytes(value);
        }
    }
    return bytes;
}

static uint64_t between_bytes(const ps_plan *plan)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].op == PS_OP_EXPERT_FFN) {
            const uint64_t bytes = ps_plan_between_bytes(plan, &plan->steps[i]);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

// What a session with complete options takes, at most and nearly: KV and workspaces of the largest
// steps that it will make, and its plans.
static ps_status session_bytes(const ps_model_config *config, const ps_gguf *file,
                               const ps_machine *machine, const ps_session_options *options,
                               uint64_t *out)
{
    ps_bucket buckets[PS_SESSION_PLANS_MAX];
    const uint32_t count = ps_session_buckets(options, 1, buckets);
    ps_pass_options pass = ps_session_pass_options(options, &buckets[count - 1], machine, 1, 0);
    pass.prefetch = PS_PREFETCH_OFF;
    pass.streams_experts = true;
    ps_arena arena;
    ps_arena_init(&arena, (size_t)4 << 30);
    ps_plan *plan = NULL;
    const ps_status status = ps_engine_make_plan(config, file, &pass, &arena, &plan);
    if (status == PS_OK) {
        *out = ps_pages_bytes(plan->shared_bytes + between_bytes(plan)) +
               ps_pages_bytes(machine->threads * (plan->private_bytes + WORKER_BYTES)) +
               ps_pages_bytes(kv_bytes(config, options, plan)) +
               count * arena.used_bytes * 3 / 2; // plans, and what binds them
    }
    ps_arena_deinit(&arena);
    return status;
}

// The longest context, in blocks of the KV cache, with which a session takes no more than that;
// 0: none.
static uint32_t find_context(const ps_model_config *config, const ps_gguf *file,
                             const ps_machine *machine, const ps_session_options *options,
                             uint64_t room_bytes)
{
    uint32_t low = 0;
    uint32_t high = (uint32_t)ps_divide_up(options->context_tokens, PS_KV_BLOCK_TOKENS);
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        ps_session_options shorter = *options;
        shorter.context_tokens = middle * PS_KV_BLOCK_TOKENS;
        uint64_t bytes = 0;
        if (ps_session_options_complete(config, &shorter) == PS_OK &&
            session_bytes(config, file, machine, &shorter, &bytes) == PS_OK &&
            bytes + SPARE_BYTES <= room_bytes) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low * PS_KV_BLOCK_TOKENS;
}

// What would be right, in words.
static void name_remedy(uint32_t context_tokens, const ps_session_options *options, char text[128])
{
    if (context_tokens > 0) {
        (void)snprintf(text, 128, "a context of %u tokens would leave room, this one has %u",
                       context_tokens, options->context_tokens);
    } else {
        (void)snprintf(text, 128,
                       "no context is so short that there would be room, smaller batches (-b) "
                       "take less");
    }
}

// ---- the plan

static ps_status refuse_experts(const ps_memory_split *split, const ps_memory_given *given,
                                uint64_t left)
{
    return given->hot_count == 0
               ? ps_fail(PS_INVALID,
                         "%.1f MiB for experts: %.1f MiB at least would be right, twice those that "
                         "one token takes in a layer",
                         mib(left), mib(split->floor_bytes))
               : ps_fail(PS_INVALID,
                         "%.1f MiB for experts, and with %u that are hot %.1f MiB are needed: "
                         "a smaller set (--hot-experts, or --hot-cut for as many as fit) would be "
                         "right",
                         mib(left), given->hot_count, mib(split->floor_bytes));
}

// What is left for experts is less than floor_bytes.
static ps_status refuse(const ps_model_config *config, const ps_gguf *file,
                        const ps_machine *machine, const ps_memory_given *given,
                        const ps_session_options *session, const ps_memory_split *split,
                        uint64_t left)
{
    const uint64_t others = split->base_bytes + split->dense_bytes + split->floor_bytes;
    const uint64_t needed = others + split->session_bytes;
    char remedy[128];
    if (given->memory_bytes == 0 || needed <= given->memory_bytes) {
        return refuse_experts(split, given, left);
    }
    name_remedy(others < given->memory_bytes
                    ? find_context(config, file, machine, session, given->memory_bytes - others)
                    : 0,
                session, remedy);
    if (split->expert_layers == 0) {
        return ps_fail(PS_INVALID,
                       "%.0f MiB of memory: the model needs %.0f MiB: %.0f of the process, %.0f of "
                       "weights, which every token reads, and %.0f of KV cache and workspaces; %s",
                       mib(given->memory_bytes), mib(needed + MIB / 2), mib(split->base_bytes),
                       mib(split->dense_bytes), mib(split->session_bytes), remedy);
    }
    return ps_fail(
        PS_INVALID,
        "%.0f MiB of memory: the model needs %.0f MiB: %.0f of the process, %.0f of "
        "weights that every token reads, %.0f of KV cache and workspaces, and %.1f of "
        "experts at least%s; %s",
        mib(given->memory_bytes), mib(needed + MIB / 2), mib(split->base_bytes),
        mib(split->dense_bytes), mib(split->session_bytes), mib(split->floor_bytes),
        given->hot_count > 0 ? ", with those that are hot (--hot-experts, --hot-cut)" : "", remedy);
}

static ps_status split_memory(const ps_model_config *config, const ps_gguf *file,
                              const ps_machine *machine, const ps_graph *graph,
                              const ps_memory_given *given, ps_memory_split *split)
{
    ps_expert_layer *layers;
    ps_session_options session = given->session == NULL ? (ps_session_options){0} : *given->session;
    PS_TRY(ps_session_options_complete(config, &session));
    PS_TRY(session_bytes(config, file, machine, &session, &split->session_bytes));
    add_weights(graph, split);
    PS_TRY(ps_weights_list_experts(graph, graph->arena, &layers, &split->expert_layers));
    for (uint32_t l = 0; l < split->expert_layers; l++) {
        split->experts += layers[l].experts;
    }
    split->base_bytes += (uint64_t)split->experts * EXPERT_TABLE_BYTES;
    const uint64_t fixed = split->base_bytes + split->dense_bytes + split->session_bytes;
    uint64_t left = UINT64_MAX;
    if (given->memory_bytes > 0) {
        left = given->memory_bytes > fixed ? given->memory_bytes - fixed : 0;
    }
    if (given->expert_bytes > 0 && given->expert_bytes < left) {
        left = given->expert_bytes;
    }
    if (given->streams && split->expert_layers == 0) {
        return ps_fail(PS_INVALID, "a simulated tier for experts, and the model has none");
    }
    split->resident_bytes = split->experts_bytes;
    if (!given->streams && split->experts_bytes <= left &&
        (given->memory_bytes == 0 || fixed <= given->memory_bytes)) {
        return PS_OK;
    }
    split->floor_bytes = ps_expert_store_least(layers, split->expert_layers, config->experts_used,
                                               given->hot, given->hot_count);
    split->streams = split->expert_layers > 0;
    const uint64_t fits = ps_pages_fit(left);
    split->resident_bytes = fits < split->experts_bytes ? fits : split->experts_bytes;
    return split->streams && split->floor_bytes <= fits
               ? PS_OK
               : refuse(config, file, machine, given, &session, split, left);
}

ps_status ps_memory_plan(const ps_model_config *config, const ps_gguf *file,
                         const ps_machine *machine, const ps_memory_given *given,
                         ps_memory_split *out)
{
    ps_memory_split split = {.memory_bytes = given->memory_bytes,
                             .base_bytes = ps_machine_resident_bytes() + BESIDE_BYTES};
    ps_arena arena;
    ps_graph graph;
    ps_arena_init(&arena, (size_t)4 << 30);
    ps_graph_init(&graph, &arena);
    ps_status status = ps_model_build(config, file, &graph);
    if (status == PS_OK) {
        status = split_memory(config, file, machine, &graph, given, &split);
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

uint64_t ps_memory_counted(const ps_model *model)
{
    const uint64_t resident = ps_machine_resident_bytes();
    const uint64_t cold = ps_cold_experts_bytes(model->cold);
    return resident > cold ? resident - cold : 0;
}

// A disk is busy with some MiB at a time; more only makes the first of them late.
static uint32_t reads_at_a_time(const ps_weights_experts *experts)
{
    const uint64_t reads = READ_AHEAD_BYTES / experts->layers[0].parts[0].size_bytes + 1;
    return reads < READS_LEAST ? READS_LEAST : reads > READS_MOST ? READS_MOST : (uint32_t)reads;
}

static ps_status create_tier(const ps_model *model, ps_tier **out)
{
    const ps_weights_experts *experts = ps_weights_get_experts(model->weights);
    ps_expert_files files = {
        .paths = experts->paths, .path_count = experts->path_count, .reader = model->reader};
    files.reader.depth = reads_at_a_time(experts);
    return model->cold != NULL ? ps_tier_sim_create(model->cold, &model->tier_link, out)
                               : ps_tier_disk_create(&files, out);
}

// ---- while it runs

static ps_status refuse_session(const ps_model *model, const ps_session_options *options,
                                uint64_t taken, uint64_t own, uint64_t experts)
{
    char remedy[128];
    const uint64_t others = taken + experts;
    name_remedy(others < model->memory_bytes
                    ? find_context(model->config, model->file, &model->machine, options,
                                   model->memory_bytes - others)
                    : 0,
                options, remedy);
    return ps_fail(
        PS_NO_MEMORY,
        "%.0f MiB of memory: %.0f MiB are taken, other sessions included, this session's "
        "KV cache and workspaces take %.0f MiB, and experts %.1f MiB at least; %s",
        mib(model->memory_bytes), mib(taken), mib(own), mib(experts), remedy);
}

static ps_status create_store(const ps_model *model, uint64_t budget_bytes, ps_expert_store **out)
{
    const ps_weights_experts *experts = ps_weights_get_experts(model->weights);
    ps_tier *tier;
    PS_TRY(create_tier(model, &tier));
    const ps_expert_store_options options = {.tier = tier,
                                             .layers = experts->layers,
                                             .layer_count = experts->layer_count,
                                             .top_k = model->config->experts_used,
                                             .budget_bytes = budget_bytes,
                                             .policy = model->expert_policy,
                                             .hot = model->hot,
                                             .hot_count = model->hot_count,
                                             .hot_cut = model->hot_cut};
    ps_expert_store *store = NULL;
    ps_status status = ps_expert_store_create(&options, &store);
    for (uint32_t i = 0; i < experts->path_count && status == PS_OK; i++) { // what it has opened
        status = ps_file_stamp_check(experts->paths[i], &experts->stamps[i]);
    }
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

ps_status ps_memory_take(const ps_model *model, const ps_session_options *options, ps_exec *exec)
{
    const ps_weights_experts *experts = ps_weights_get_experts(model->weights);
    ps_memory_account *account = model->account;
    const uint64_t resident = ps_memory_counted(model);
    const uint64_t promised = account->loaded_bytes + atomic_load(&account->promised_bytes);
    const uint64_t own = ps_exec_mapped_bytes(exec);
    uint64_t taken = (resident > promised ? resident : promised) + BESIDE_BYTES;
    uint64_t least = 0;
    for (uint32_t l = 0; l < experts->layer_count; l++) {
        taken += (uint64_t)experts->layers[l].experts * EXPERT_TABLE_BYTES;
    }
    if (model->streams_experts) {
        least = ps_expert_store_least(experts->layers, experts->layer_count,
                                      model->config->experts_used, model->hot,
                                      model->hot_cut ? 0 : model->hot_count);
    }
    uint64_t left = UINT64_MAX;
    if (model->memory_bytes > 0) {
        left = model->memory_bytes > taken + own ? model->memory_bytes - taken - own : 0;
        if (taken + own > model->memory_bytes || ps_pages_fit(left) < least) {
            return refuse_session(model, options, taken, own, least);
        }
    }
    uint64_t slots = 0;
    if (model->streams_experts) {
        ps_expert_store *store = NULL;
        ps_expert_store_info info;
        left = model->expert_bytes > 0 && model->expert_bytes < left ? model->expert_bytes : left;
        PS_TRY(create_store(model, ps_pages_fit(left), &store));
        ps_exec_take_experts(exec, store);
        ps_expert_store_get_info(store, &info);
        slots = ps_pages_bytes(info.slot_bytes);
    }
    ps_exec_charge(exec, &account->promised_bytes, own + slots + ps_exec_arena(exec)->used_bytes);
    return PS_OK;
}
