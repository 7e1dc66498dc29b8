// engine/open.c - a file becomes a model: read, checked, packed or mapped, with workers.
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "comm/handshake.h"
#include "engine/calibrate.h"
#include "engine/hints.h"
#include "engine/machine_file.h"
#include "engine/model_internal.h"
#include "engine/streamed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)
#define UNUSED_SHOWN 3

const char *ps_version(void)
{
    return PS_VERSION;
}

void ps_free(void *memory)
{
    free(memory);
}

ps_status ps_engine_name_file(const char *path, ps_status status)
{
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "%s", path);
}

ps_status ps_engine_make_plan(const ps_model_config *config, const ps_gguf *file,
                              const ps_pass_options *options, ps_arena *arena, ps_plan **out)
{
    ps_graph graph;
    ps_graph_init(&graph, arena);
    PS_TRY(ps_model_build(config, file, &graph));
    return ps_passes_run(&graph, options, out);
}

// Files hold tensors of other parts (vision towers, extra heads): said, and left alone.
static ps_status note_unused(const ps_gguf *file, const ps_graph *graph)
{
    const char *names[UNUSED_SHOWN];
    uint32_t count = 0;
    PS_TRY(ps_model_unused_tensors(graph, file, names, UNUSED_SHOWN, &count));
    if (count > 0) {
        ps_log(PS_LOG_INFO, "%u tensors are not used, the first is '%s'", count, names[0]);
    }
    return PS_OK;
}

// Whether experts come from a simulated tier.
static ps_status choose_tier(ps_model *model, const ps_model_options *options)
{
    ps_comm_link link;
    if (options->tier_sim == NULL) {
        return PS_OK;
    }
    if (options->memory_bytes == 0 && options->expert_bytes == 0) {
        return ps_fail(PS_INVALID, "--tier-sim without a size of the fast memory; --expert-memory "
                                   "SIZE or --memory SIZE beside it would be right");
    }
    if (ps_ranks_are_several(model->ranks)) {
        return ps_fail(PS_UNSUPPORTED, "--tier-sim, and ranks that share a model keep all of their "
                                       "experts; one rank would be right");
    }
    const ps_status status = ps_comm_link_parse(options->tier_sim, &link);
    if (status != PS_OK) {
        return ps_fail_prefix(status, "--tier-sim");
    }
    model->tier_link = (ps_tier_link){.latency_ns = link.latency_ns,
                                      .bytes_per_second = link.bits_per_second / 8};
    return PS_OK;
}

// The hot set that options name.
static ps_status read_hot_set(ps_model *model, const ps_model_options *options,
                              const ps_graph *graph)
{
    ps_expert_layer *layers;
    uint32_t layer_count;
    if (options->hot_set == NULL) {
        return PS_OK;
    }
    PS_TRY(ps_weights_list_experts(graph, graph->arena, &layers, &layer_count));
    model->hot_cut = options->hot_cut || options->hot_experts == 0;
    return ps_hot_set_read(options->hot_set, ps_gguf_fingerprint(model->file), layer_count,
                           model->config->experts, options->hot_experts, &model->arena, &model->hot,
                           &model->hot_count, &model->hot_size);
}

// Decides before loading what stays in memory.
static ps_status plan_memory(ps_model *model, const ps_model_options *options,
                             const ps_graph *graph)
{
    ps_memory_split split;
    PS_TRY(choose_tier(model, options));
    if (options->memory_bytes == 0 && options->expert_bytes == 0) {
        return options->hot_set == NULL
                   ? PS_OK
                   : ps_fail(PS_INVALID, "%s: without a limit of memory all experts are kept",
                             options->hot_set);
    }
    PS_TRY(read_hot_set(model, options, graph));
    const ps_memory_given given = {.memory_bytes = options->memory_bytes,
                                   .expert_bytes = options->expert_bytes,
                                   .streams = options->tier_sim != NULL,
                                   .session = options->session,
                                   .hot = model->hot,
                                   .hot_count = model->hot_cut ? 0 : model->hot_count};
    PS_TRY(ps_memory_plan(model->config, model->file, &model->machine, &given, &split));
    if (options->expert_bytes > 0 && split.expert_layers == 0) {
        return ps_fail(PS_INVALID, "memory for experts, and the model has none");
    }
    model->memory_bytes = options->memory_bytes;
    model->expert_bytes = options->expert_bytes;
    model->expert_policy = options->expert_policy;
    model->streams_experts = split.streams;
    model->account = PS_ARENA_NEW(&model->arena, ps_memory_account, 1);
    if (model->account == NULL) {
        return PS_NO_MEMORY;
    }
    if (split.streams && ps_ranks_are_several(model->ranks)) {
        return ps_fail(PS_UNSUPPORTED,
                       "the experts do not all fit into the memory given, and ranks that share a "
                       "model keep all of theirs; one rank would be right");
    }
    return split.streams ? ps_machine_check_memory(
                               split.dense_bytes + split.session_bytes + split.resident_bytes,
                               "weights, KV cache and as many experts as memory is given "
                               "for")
                         : PS_OK;
}

static ps_status load_weights(ps_model *model, const ps_model_options *options)
{
    ps_arena scratch;
    ps_arena_init(&scratch, ARENA_BYTES);
    ps_graph graph;
    ps_graph_init(&graph, &scratch);
    const ps_weights_progress progress = {options->progress, options->progress_context};
    ps_status status = ps_model_build(model->config, model->file, &graph);
    if (status == PS_OK) {
        status = ps_graph_verify(&graph, "build");
    }
    if (status == PS_OK) {
        status = note_unused(model->file, &graph);
    }
    if (status == PS_OK) {
        status = ps_pass_shard(&graph, &(ps_pass_options){.ranks = ps_ranks_size(model->ranks),
                                                          .rank = ps_ranks_rank(model->ranks)});
    }
    if (status == PS_OK) {
        status = plan_memory(model, options, &graph);
    }
    if (status == PS_OK) {
        status = model->source.pst != NULL
                     ? ps_weights_map(model->source.pst, &graph,
                                      model->streams_experts ? model->path : NULL, &model->weights)
                     : ps_weights_load(model->file, &graph, model->team, model->streams_experts,
                                       &progress, &model->weights);
    }
    ps_arena_deinit(&scratch);
    return status;
}

// What a simulated tier copies from.
static ps_status load_cold(ps_model *model)
{
    const ps_weights_experts *experts = ps_weights_get_experts(model->weights);
    const ps_expert_files files = {.paths = experts->paths, .path_count = experts->path_count};
    return ps_cold_experts_load(&files, experts->layers, experts->layer_count, &model->cold);
}

// What a decode step of one row reads, from its plan.
static ps_status count_bytes_per_token(ps_model *model)
{
    ps_arena scratch;
    ps_arena_init(&scratch, ARENA_BYTES);
    const ps_pass_options options = {.rows_max = 1,
                                     .logits_max = 1,
                                     .context_max = 256,
                                     .machine = &model->machine,
                                     .ranks = ps_ranks_size(model->ranks),
                                     .rank = ps_ranks_rank(model->ranks)};
    ps_plan *plan = NULL;
    const ps_status status = ps_engine_make_plan(model->config, model->file, &options, &scratch,
                                                 &plan);
    for (uint32_t i = 0; status == PS_OK && i < plan->step_count; i++) {
        model->bytes_per_token += plan->steps[i].weight_bytes;
    }
    ps_arena_deinit(&scratch);
    return status;
}

// The rates of a file, when there is one for this machine. The ranks take those of rank 0.
static ps_status find_rates(ps_model *model, const char *machine_file)
{
    ps_tuned_key key;
    if (ps_ranks_rank(model->ranks) > 0) {
        return PS_OK;
    }
    PS_TRY(ps_tuned_key_here(&model->machine, model->kernels.isa, model->ranks, 1, NULL, &key));
    if (machine_file == NULL) {
        model->is_tuned = ps_tuned_find(&key, &model->tuned);
    } else {
        PS_TRY(ps_tuned_read(machine_file, &key, &model->tuned));
        model->is_tuned = true;
    }
    if (model->is_tuned) {
        model->machine = model->tuned.machine;
    }
    return PS_OK;
}

static ps_status open_for_running(ps_model *model, const ps_model_options *options)
{
    const uint32_t threads = options->threads > 0
                                 ? options->threads
                                 : ps_machine_default_threads(ps_ranks_here(model->ranks));
    PS_TRY(ps_kernels_select(&model->kernels));
    PS_TRY(ps_machine_discover(threads, &model->machine));
    PS_TRY(ps_model_read(model->file, &model->arena, &model->config));
    PS_TRY(ps_team_create(threads, &model->team));
    PS_TRY(ps_model_start_trace(model, options->trace_file));
    PS_TRY(load_weights(model, options));
    PS_TRY(options->tier_sim == NULL ? PS_OK : load_cold(model));
    PS_TRY(ps_model_experts_start(model));
    ps_hints_choose(model->team, model->weights, &model->machine, &model->kernels);
    if (model->account != NULL) {
        model->account->loaded_bytes = ps_memory_counted(model);
    }
    return count_bytes_per_token(model);
}

// Ranks that would not do the same are told apart before they do anything.
static ps_status shake_hands(const ps_model *model)
{
    char options[64];
    if (!ps_ranks_are_several(model->ranks)) {
        return PS_OK;
    }
    (void)snprintf(options, sizeof options, "ranks=%u layout=%u", ps_ranks_size(model->ranks),
                   (uint32_t)PS_LAYOUT_VERSION);
    const ps_comm_identity identity = {.version = PS_VERSION,
                                       .model = ps_gguf_fingerprint(model->file),
                                       .options_hash = ps_hash(options, strlen(options), 0),
                                       .options = options};
    return ps_comm_handshake(ps_ranks_comm(model->ranks), &identity);
}

// Plans decide by the rates how collectives are cut, and all ranks have to decide alike: by those
// of rank 0.
static ps_status share_rates(ps_ranks *ranks, ps_machine *machine)
{
    ps_machine first = *machine;
    PS_TRY(ps_ranks_share(ranks, &first, sizeof first));
    const ps_status status = ps_machine_check_rates(&first);
    if (status != PS_OK) {
        return ps_fail_prefix(status, "rates that rank 0 measured");
    }
    first.source[sizeof first.source - 1] = '\0';
    first.threads = machine->threads;
    first.has_prefetch_stream = machine->has_prefetch_stream;
    first.l2_bytes = machine->l2_bytes;
    first.llc_bytes = machine->llc_bytes;
    memcpy(first.name, machine->name, sizeof first.name);
    *machine = first;
    return PS_OK;
}

void ps_model_measure_memory(ps_model *model)
{
    ps_machine *machine = &model->machine;
    const uint64_t bytes = ps_weights_bytes(model->weights) * ps_ranks_here(model->ranks);
    if (model->is_tuned && bytes >= PS_WEIGHTS_CACHES * machine->llc_bytes) {
        return;
    }
    const double fill = ps_weights_measure_fill(model->weights, model->team, &model->kernels,
                                                machine->llc_bytes);
    if (fill > 0) {
        machine->fill_gbs = fill;
        machine->read_gbs = fill;
    }
}

void ps_model_describe_rates(ps_model *model)
{
    ps_machine_describe(&model->machine, ps_ranks_size(model->ranks), model->rates);
}

// What kernels and caches do.
static ps_status measure_quickly(ps_model *model)
{
    ps_machine *machine = &model->machine;
    (void)snprintf(machine->source, sizeof machine->source, "%s", PS_RATES_QUICK);
    return ps_calibrate_workers(model->team, &model->kernels, PS_CALIBRATE_QUICK_RUNS, machine);
}

ps_status ps_model_measure_rates(ps_model *model)
{
    if (strcmp(model->machine.source, PS_RATES_DEFAULT) != 0) {
        return PS_OK;
    }
    ps_model_measure_memory(model);
    PS_TRY(measure_quickly(model));
    ps_model_describe_rates(model);
    return PS_OK;
}

// Links between hosts are not of this machine: they are measured anew.
static ps_status measure_links(ps_model *model)
{
    ps_machine *machine = &model->machine;
    ps_comm *comm = ps_ranks_comm(model->ranks);
    const bool is_here = ps_ranks_here(model->ranks) == ps_ranks_size(model->ranks) ||
                         !ps_ranks_are_several(model->ranks);
    if (model->is_tuned && is_here && ps_comm_use(comm, &model->tuned.comm) == PS_OK) {
        return PS_OK;
    }
    PS_TRY(ps_comm_tune(comm, &model->tuned.comm));
    machine->comm_ns = model->tuned.comm.ns;
    machine->comm_gbs = model->tuned.comm.gbs;
    return PS_OK;
}

// What plans of several ranks are made with: how long collectives take, and what can be moved while
// they do.
static ps_status measure_waits(ps_model *model)
{
    ps_machine *machine = &model->machine;
    if (ps_ranks_size(model->ranks) == 1) {
        return PS_OK;
    }
    const uint64_t start = ps_clock_ns();
    uint32_t is_tuned = model->is_tuned; // no bool from elsewhere is trusted
    PS_TRY(ps_ranks_share(model->ranks, &is_tuned, sizeof is_tuned));
    model->is_tuned = is_tuned != 0;
    PS_TRY(ps_ranks_share(model->ranks, &model->tuned.comm, sizeof model->tuned.comm));
    ps_model_measure_memory(model);
    if (!model->is_tuned) {
        PS_TRY(measure_quickly(model));
    }
    PS_TRY(measure_links(model));
    PS_TRY(share_rates(model->ranks, machine));
    ps_ranks_warn_of_crowd(model->ranks, ps_team_workers(model->team));
    ps_log(PS_LOG_INFO, "measuring for %u ranks took %.0f ms", ps_ranks_size(model->ranks),
           (double)(ps_clock_ns() - start) / 1e6);
    return PS_OK;
}

static ps_status open_parts(ps_model *model, const ps_model_options *options)
{
    model->file = model->source.gguf;
    PS_TRY(ps_model_open_tokenizer(model));
    return options->vocabulary_only ? PS_OK : open_for_running(model, options);
}

static ps_status open_model(ps_model *model, const ps_model_options *options)
{
    ps_status status = ps_model_source_open_file(model->path, &model->source); // names it
    if (status == PS_OK) {
        status = ps_engine_name_file(model->path, open_parts(model, options));
    }
    if (status == PS_OK && !options->vocabulary_only) {
        status = find_rates(model, options->machine_file);
    }
    PS_TRY(ps_ranks_agree(model->ranks, status));
    PS_TRY(shake_hands(model));
    if (options->vocabulary_only) {
        return PS_OK;
    }
    status = measure_waits(model);
    if (status != PS_OK) { // on this rank, perhaps alone
        ps_comm_give_up(ps_ranks_comm(model->ranks), status);
        return status;
    }
    ps_model_describe_rates(model);
    ps_log(PS_LOG_INFO, "%s", model->rates);
    return PS_OK;
}

static ps_status tell_open(const ps_model *model, const ps_model_options *options)
{
    return ps_ranks_rank(model->ranks) > 0
               ? PS_OK
               : ps_ranks_tell(
                     model->ranks,
                     &(ps_command){.word = PS_WORD_OPEN, .bytes = sizeof options->threads},
                     &options->threads);
}

ps_status ps_model_open(const char *path, const ps_model_options *options, ps_model **out)
{
    const uint64_t start = ps_clock_ns();
    const ps_model_options none = {0};
    options = options == NULL ? &none : options;
    ps_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a model");
    }
    ps_arena_init(&model->arena, ARENA_BYTES);
    model->ranks = options->vocabulary_only ? NULL : options->ranks;
    model->path = ps_arena_strndup(&model->arena, path, strlen(path));
    ps_status status = model->path == NULL ? PS_NO_MEMORY : tell_open(model, options);
    if (status == PS_OK) {
        status = open_model(model, options);
    }
    if (status != PS_OK) {
        ps_model_close(model);
        return status;
    }
    model->load_ms = (double)(ps_clock_ns() - start) / 1e6;
    model->is_told = ps_ranks_rank(model->ranks) == 0;
    *out = model;
    return PS_OK;
}

void ps_model_close(ps_model *model)
{
    if (model == NULL) {
        return;
    }
    if (model->is_told) {
        ps_ranks_tell_end(model->ranks, PS_WORD_CLOSE, 0);
    }
    ps_model_end_trace(model);
    ps_model_experts_end(model->experts);
    ps_team_destroy(model->team);
    ps_weights_free(model->weights);
    ps_cold_experts_destroy(model->cold);
    ps_chat_template_destroy(model->chat_template);
    ps_tokenizer_destroy(model->tokenizer);
    ps_model_file_close(&model->source);
    ps_arena_deinit(&model->arena);
    free(model);
}

ps_status ps_model_measure_read(ps_model *model, double *out_gbs)
{
    if (model->team == NULL) {
        return ps_fail(PS_INVALID, "%s was opened for its vocabulary only", model->path);
    }
    return ps_calibrate_read(model->team, &model->kernels, out_gbs);
}

void ps_model_get_info(const ps_model *model, ps_model_info *out)
{
    ps_str chat_template;
    ps_model_info info = {
        .path = model->path,
        .vocabulary = ps_tokenizer_token_count(model->tokenizer),
        .file_bytes = ps_model_file_bytes(&model->source),
        .fingerprint = ps_gguf_fingerprint(model->file),
        .load_ms = model->load_ms,
        .bos = ps_tokenizer_bos(model->tokenizer),
        .eos = ps_tokenizer_eos(model->tokenizer),
        .has_chat_template = ps_gguf_get_string(model->file, "tokenizer.chat_template",
                                                &chat_template) == PS_OK,
    };
    const ps_model_config *config = model->config;
    if (config != NULL) {
        info.architecture = config->architecture;
        info.name = config->name;
        info.layers = config->layers;
        info.dimension = config->dim;
        info.vocabulary = config->vocabulary;
        info.context_tokens = config->context_tokens;
        info.experts = config->experts;
        info.experts_used = config->experts_used;
        info.hot_experts = model->hot_count;
        info.hot_coverage = model->hot_size.coverage;
        info.hot_held_out = model->hot_size.held_out;
        info.weight_bytes = ps_weights_bytes(model->weights);
        info.bytes_per_token = model->bytes_per_token;
        info.threads = ps_team_workers(model->team);
        info.ranks = ps_ranks_size(model->ranks);
        info.isa = model->kernels.isa;
        info.cache_read_gbs = model->machine.cache_read_gbs;
        info.int8_gops = model->machine.int8_gops;
        info.f32_gops = model->machine.f32_gops;
        info.rates = model->rates;
        info.rates_source = model->machine.source;
    }
    *out = info;
}
