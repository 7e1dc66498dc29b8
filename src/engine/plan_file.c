// engine/plan_file.c - the plan of a model file, printed.
#include "engine/architecture_file.h"
#include "engine/machine_open.h"
#include "engine/session_plans.h"
#include "engine/streamed.h"
#include "engine/tune_ratios.h"

#include "format/file_map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)

// What can be hidden while a step, or the wait before it, lasts.
static const char *window_of(const ps_plan_step *step)
{
    if (step->op != PS_OP_PREFETCH && step->attributes.window == PS_WINDOW_VECTOR) {
        return step->barrier ? "barrier+vector" : "vector";
    }
    return step->barrier ? "barrier" : "";
}

// ---- JSON

static json_t *value_json(const ps_plan *plan, uint32_t id)
{
    const ps_value *value = &plan->values[id].is;
    static const char *const KINDS[] = {"weight", "kv", "activation"};
    json_t *shape = json_array();
    if (value->kind == PS_VALUE_WEIGHT) {
        if (value->experts > 0) {
            (void)json_array_append_new(shape, json_integer(value->experts));
        }
        (void)json_array_append_new(shape, json_integer(value->rows));
    } else if (value->kind == PS_VALUE_ACTIVATION) {
        (void)json_array_append_new(
            shape, json_sprintf("%u%s", value->row_multiplier, ps_rows_name(value->row_kind)));
    }
    (void)json_array_append_new(shape, json_integer(value->columns));
    return json_pack("{s:s, s:s, s:s, s:o}", "name", value->name, "kind", KINDS[value->kind],
                     "dtype", ps_dtype_get(value->dtype)->name, "shape", shape);
}

static json_t *step_json(const ps_plan *plan, uint32_t i)
{
    const ps_plan_step *step = &plan->steps[i];
    json_t *inputs = json_array();
    for (uint32_t j = 0; j < step->input_count; j++) {
        (void)json_array_append_new(inputs, value_json(plan, step->inputs[j]));
    }
    return json_pack(
        "{s:i, s:s, s:i, s:s, s:o, s:o, s:s, s:b, s:i, s:s, s:I, s:I, s:I}", "index", (int)i, "op",
        ps_op_get(step->op)->name, "layer", (int)step->attributes.layer, "site",
        ps_site_name((ps_site)step->attributes.site), "inputs", inputs, "output",
        step->output == PS_NO_VALUE ? json_null() : value_json(plan, step->output), "split",
        ps_split_name(step->split), "barrier", (int)step->barrier, "stream", (int)step->stream,
        "window", window_of(step), "weight_bytes", (json_int_t)step->weight_bytes, "ops_per_row",
        (json_int_t)step->row_ops, "predicted_ns", (json_int_t)step->predicted_ns);
}

// Bytes of all that a prefetch would move whole.
static uint64_t whole_bytes(const ps_plan *plan, const ps_op_attributes *prefetch,
                            const ps_value *value)
{
    return value->kind == PS_VALUE_KV
               ? ps_context_share(prefetch, plan->context_max) * ps_value_kv_bytes(value)
               : ps_value_weight_bytes(value);
}

static json_t *prefetch_json(const ps_plan *plan, uint32_t i)
{
    const ps_op_attributes *a = &plan->steps[i].attributes;
    const ps_value *value = &plan->values[plan->steps[i].inputs[0]].is;
    const uint64_t whole = whole_bytes(plan, a, value);
    return json_pack(
        "{s:i, s:s, s:s, s:i, s:s, s:s, s:b, s:I, s:I}", "step", (int)i, "value", value->name,
        "site", ps_site_name((ps_site)a->site), "layer", (int)a->layer, "window",
        ps_window_name(a->window == PS_WINDOW_NONE ? PS_WINDOW_COMM : (ps_window)a->window),
        "reason", ps_reason_name((ps_reason)a->reason), "taken",
        (int)(a->reason < PS_REASON_DECLINED), "bytes",
        (json_int_t)(a->bytes == 0 ? whole : a->bytes), "whole_bytes", (json_int_t)whole);
}

typedef struct totals {
    uint64_t bytes, ns;
    uint32_t barriers;
} totals;

static totals add_up(const ps_plan *plan)
{
    totals sum = {0};
    for (uint32_t i = 0; i < plan->step_count; i++) {
        sum.bytes += plan->steps[i].weight_bytes;
        sum.ns += plan->steps[i].predicted_ns;
        sum.barriers += plan->steps[i].barrier;
    }
    return sum;
}

// The module that a plan has no linear of: "moe" or "mlp"; "": none.
static const char *missing_module(const ps_plan *plan)
{
    bool has_mlp = false;
    bool has_moe = false;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        has_mlp |= plan->steps[i].attributes.site == PS_SITE_MLP_GATE_UP;
        has_moe |= plan->steps[i].attributes.site == PS_SITE_MOE_GATE_UP;
    }
    return !has_mlp ? "mlp" : !has_moe ? "moe" : "";
}

// What the policy ratio goes by, beside the ratios.
static void add_ratio_json(json_t *document, const ps_plan *plan, const ps_pass_options *options)
{
    const char *source;
    const uint64_t cap = ps_ratio_cap_bytes(options, &source);
    (void)json_object_set_new(document, "max_prefetch_bytes", json_integer((json_int_t)cap));
    (void)json_object_set_new(document, "max_prefetch_source", json_string(source));
    (void)json_object_set_new(document, "missing_module", json_string(missing_module(plan)));
}

static void add_memory_json(json_t *document, const ps_memory_split *split)
{
    (void)json_object_set_new(
        document, "memory",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:b}", "given_bytes",
                  (json_int_t)split->memory_bytes, "process_bytes", (json_int_t)split->base_bytes,
                  "dense_bytes", (json_int_t)split->dense_bytes, "session_bytes",
                  (json_int_t)split->session_bytes, "experts_bytes",
                  (json_int_t)split->experts_bytes, "kept_bytes", (json_int_t)split->resident_bytes,
                  "least_bytes", (json_int_t)split->floor_bytes, "experts", (int)split->experts,
                  "streams", (int)split->streams));
}

static ps_status print_json(const ps_plan *plan, const ps_pass_options *options,
                            const ps_memory_split *split, ps_buffer *out)
{
    const ps_machine *machine = options->machine;
    const totals sum = add_up(plan);
    json_t *steps = json_array();
    json_t *windows = json_array();
    json_t *sites = json_array();
    json_t *prefetches = json_array();
    for (uint32_t i = 0; i < plan->step_count; i++) {
        (void)json_array_append_new(steps, step_json(plan, i));
        if (*window_of(&plan->steps[i]) != '\0') {
            (void)json_array_append_new(windows,
                                        json_pack("{s:i, s:s, s:I}", "step", (int)i, "kind",
                                                  window_of(&plan->steps[i]), "predicted_ns",
                                                  (json_int_t)plan->steps[i].predicted_ns));
        }
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        if (step->op == PS_OP_PREFETCH) {
            (void)json_array_append_new(prefetches, prefetch_json(plan, i));
        }
        if (step->attributes.site != PS_SITE_NONE && step->weight_bytes > 0) {
            (void)json_array_append_new(sites,
                                        json_pack("{s:s, s:i, s:i, s:I}", "site",
                                                  ps_site_name((ps_site)step->attributes.site),
                                                  "layer", (int)step->attributes.layer, "step",
                                                  (int)i, "bytes", (json_int_t)step->weight_bytes));
        }
    }
    json_t *document = json_pack(
        "{s:i, s:i, s:o, s:I, s:I, s:i, s:I, s:I, s:o, s:o, s:o, s:o}", "rows_max",
        (int)plan->rows_max, "context_max", (int)plan->context_max, "machine",
        ps_json_fields_write(ps_machine_fields, ps_machine_field_count, machine), "shared_bytes",
        (json_int_t)plan->shared_bytes, "private_bytes", (json_int_t)plan->private_bytes,
        "barriers", (int)sum.barriers, "weight_bytes", (json_int_t)sum.bytes, "predicted_ns",
        (json_int_t)sum.ns, "steps", steps, "windows", windows, "sites", sites, "prefetches",
        prefetches);
    if (document != NULL && options->prefetch == PS_PREFETCH_RATIO) {
        add_ratio_json(document, plan, options);
    }
    if (document != NULL && split->base_bytes > 0) {
        add_memory_json(document, split);
    }
    char *text = document == NULL ? NULL : json_dumps(document, JSON_INDENT(1));
    json_decref(document);
    if (text == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the plan as JSON");
    }
    const ps_status status = ps_buffer_append(out, text, strlen(text));
    free(text);
    return status;
}

// ---- Graphviz

static ps_status print_dot(const ps_plan *plan, ps_buffer *out)
{
    uint32_t *writer = calloc(plan->value_count + 1, sizeof *writer); // step + 1
    if (writer == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the plan as a graph");
    }
    ps_status status = ps_buffer_printf(out,
                                        "digraph plan {\n  node [shape=box fontname=monospace];\n");
    for (uint32_t i = 0; status == PS_OK && i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        status = ps_buffer_printf(
            out, "  s%u [label=\"%u %s %s\\n%s%s\\n%.1f us\"%s];\n", i, i,
            ps_op_get(step->op)->name, ps_site_name((ps_site)step->attributes.site),
            ps_split_name(step->split), step->barrier ? " barrier" : "",
            (double)step->predicted_ns / 1e3, step->barrier ? " color=red" : "");
        for (uint32_t j = 0; status == PS_OK && j < step->input_count; j++) {
            const ps_value_id alias = plan->values[step->inputs[j]].is.alias_of;
            const bool is_view = plan->values[step->inputs[j]].is.kind == PS_VALUE_ACTIVATION &&
                                 alias != PS_NO_VALUE;
            const uint32_t from = writer[is_view ? alias : step->inputs[j]];
            if (from > 0) {
                status = ps_buffer_printf(out, "  s%u -> s%u;\n", from - 1, i);
            }
        }
        if (step->output != PS_NO_VALUE) {
            writer[step->output] = i + 1;
        }
        if (step->op == PS_OP_KV_WRITE) {
            writer[step->inputs[2]] = i + 1;
        }
    }
    free(writer);
    return status == PS_OK ? ps_buffer_printf(out, "}\n") : status;
}

// ---- text

static ps_status print_ratio_text(const ps_plan *plan, const ps_pass_options *options,
                                  ps_buffer *out)
{
    const char *source;
    const char *missing = missing_module(plan);
    const uint64_t cap = ps_ratio_cap_bytes(options, &source);
    PS_TRY(ps_buffer_printf(out, "# at most %llu bytes of a linear are prefetched: %s\n",
                            (unsigned long long)cap, source));
    return *missing == '\0'
               ? PS_OK
               : ps_buffer_printf(out, "# %s: declined, the model has no such module\n", missing);
}

static ps_status print_text(const ps_plan *plan, const ps_pass_options *options,
                            const ps_memory_split *split, ps_buffer *out)
{
    const ps_machine *machine = options->machine;
    const totals sum = add_up(plan);
    char rates[PS_MACHINE_TEXT_BYTES];
    ps_machine_describe(machine, plan->ranks, rates);
    PS_TRY(ps_buffer_printf(
        out, "# %s\n# %u steps, %u barriers, %.1f MB of weights, predicted %.3f ms\n", rates,
        plan->step_count, sum.barriers, (double)sum.bytes / 1e6, (double)sum.ns / 1e6));
    if (options->prefetch == PS_PREFETCH_RATIO) {
        PS_TRY(print_ratio_text(plan, options, out));
    }
    if (split->base_bytes > 0) {
        PS_TRY(ps_memory_print(split, out));
    }
    return ps_plan_print(plan, out);
}

// ---- the call

// Opens the machine that options name; nothing when *machine has threads.
static ps_status open_machine(const ps_plan_options *options, ps_machine *machine)
{
    if (machine->threads > 0) {
        return PS_OK;
    }
    const ps_machine_use use = {.threads = options->threads,
                                .ranks = options->ranks,
                                .link = options->link,
                                .measure = options->measure};
    return ps_machine_open(options->machine_file, &use, NULL, NULL, machine);
}

// Plans of a session, for a file of them.
typedef struct session_plans {
    const ps_gguf *file;
    const ps_model_config *config;
    const ps_plan_options *options;
    const ps_tuned_ratios *tuned; // NULL: all buckets have the ratios of the options
    ps_session_options session;
    ps_machine machine;
    uint32_t ranks;
} session_plans;

// Those of a bucket: what has not been tuned is off.
static ps_prefetch_ratios ratios_of(const session_plans *s, const ps_bucket *bucket)
{
    ps_prefetch_ratios ratios = s->session.ratios;
    if (s->tuned == NULL) {
        return ratios;
    }
    memset(ratios.ratio, 0, sizeof ratios.ratio);
    for (uint32_t i = 0; i < s->tuned->bucket_count; i++) {
        if (s->tuned->buckets[i].rows == bucket->rows) {
            memcpy(ratios.ratio, s->tuned->buckets[i].found.ratio, sizeof ratios.ratio);
        }
    }
    return ratios;
}

// All plans of one rank.
static ps_status print_rank(const session_plans *s, uint32_t rank, ps_arena *arena, ps_buffer *out)
{
    ps_bucket buckets[PS_SESSION_PLANS_MAX];
    ps_plan_set set = {.key = ps_session_plan_key(s->file, &s->machine, s->ranks, &s->session),
                       .rank = rank};
    set.plan_count = ps_session_buckets(&s->session, s->ranks, buckets);
    for (uint32_t i = 0; i < set.plan_count; i++) {
        ps_session_options session = s->session;
        session.ratios = ratios_of(s, &buckets[i]);
        const ps_pass_options pass = ps_session_pass_options(&session, &buckets[i], &s->machine,
                                                             s->ranks, rank);
        ps_plan *plan = NULL;
        PS_TRY(ps_engine_make_plan(s->config, s->file, &pass, arena, &plan));
        set.plans[i] = plan;
    }
    return ps_plan_set_print(&set, out);
}

// machine.threads 0: as the options say.
static ps_status print_session(session_plans *s, ps_buffer *out)
{
    const ps_plan_options *options = s->options;
    s->ranks = options->ranks > 1 ? options->ranks : 1;
    s->session = (ps_session_options){.context_tokens = options->context_tokens,
                                      .batch_rows = options->rows,
                                      .k_type = options->k_type,
                                      .v_type = options->v_type,
                                      .prefetch = options->prefetch,
                                      .ratios = options->ratios,
                                      .prefetch_threads = options->prefetch_threads,
                                      .comm_schedule = options->comm_schedule,
                                      .sequence_parallel = options->sequence_parallel};
    PS_TRY(ps_session_options_complete(s->config, &s->session));
    PS_TRY(open_machine(options, &s->machine));
    PS_TRY(
        ps_prefetch_threads_check(s->session.prefetch_threads, &s->machine, &s->session.prefetch));
    for (uint32_t rank = 0; rank < s->ranks; rank++) {
        ps_arena arena;
        ps_arena_init(&arena, ARENA_BYTES);
        const ps_status status = print_rank(s, rank, &arena, out);
        ps_arena_deinit(&arena);
        PS_TRY(status);
    }
    return PS_OK;
}

// How memory would be split for a session of such a context; *out as it is when nothing is given.
static ps_status split_memory(const ps_gguf *file, const ps_model_config *config,
                              const ps_plan_options *options, const ps_machine *machine,
                              ps_memory_split *out)
{
    const ps_session_options session = {.context_tokens = options->context_tokens,
                                        .k_type = options->k_type,
                                        .v_type = options->v_type};
    const ps_memory_given given = {.memory_bytes = options->memory_bytes,
                                   .expert_bytes = options->expert_bytes,
                                   .session = &session};
    return given.memory_bytes + given.expert_bytes == 0
               ? PS_OK
               : ps_memory_plan(config, file, machine, &given, out);
}

// The plan that options ask for. *machine is the one that it is made for, or, with 0 threads,
// becomes what the options say.
static ps_status plan_for(const ps_model_source *source, const ps_plan_options *options,
                          ps_arena *arena, ps_machine *machine, ps_plan **out)
{
    const ps_model_config *config = source->config;
    uint32_t context = options->context_tokens;
    if (context == 0) {
        context = config->context_tokens < 4096 ? config->context_tokens : 4096;
    }
    const uint32_t rows = options->rows == 0 ? 1 : options->rows;
    if (context > config->context_tokens || rows > PS_BATCH_ROWS_MAX) {
        return ps_fail(PS_INVALID, "%u rows at a context of %u: at most %u and %u would be right",
                       rows, context, PS_BATCH_ROWS_MAX, config->context_tokens);
    }
    PS_TRY(ps_kv_type_check(options->k_type));
    PS_TRY(ps_kv_type_check(options->v_type));
    PS_TRY(ps_sums_check(options->comm_schedule, options->sequence_parallel));
    PS_TRY(open_machine(options, machine));
    ps_prefetch_policy policy = options->prefetch;
    PS_TRY(ps_prefetch_threads_check(options->prefetch_threads, machine, &policy));
    ps_pass_options pass = {.rows_max = rows,
                            .logits_max = rows < PS_LOGITS_MAX ? rows : PS_LOGITS_MAX,
                            .context_max = context,
                            .k_dtype = ps_kv_type_dtype(options->k_type),
                            .v_dtype = ps_kv_type_dtype(options->v_type),
                            .machine = machine,
                            .ranks = options->ranks,
                            .context_shards = options->context_shards,
                            .prefetch = policy,
                            .ratios = options->ratios,
                            .prefetch_threads = options->prefetch_threads,
                            .comm_schedule = options->comm_schedule,
                            .sequence_parallel = options->sequence_parallel,
                            .best_logits = options->best_logits};
    if (options->kv_bits > 0) {
        PS_TRY(ps_architecture_bits("kv bits", options->kv_bits, &pass.k_dtype));
        pass.v_dtype = pass.k_dtype;
    }
    ps_memory_split split = {.streams = false};
    // Rows of a session may be of one sequence; where nothing runs they are decoded ones, as in
    // simulated time.
    pass.sequences = source->file.gguf == NULL ? rows : 0;
    PS_TRY(split_memory(source->file.gguf, config, options, machine, &split));
    pass.streams_experts = split.streams;
    return ps_engine_make_plan(config, source->file.gguf, &pass, arena, out);
}

static ps_status make_and_print(const ps_model_source *source, const ps_plan_options *options,
                                ps_plan_format format, ps_machine *machine, ps_arena *arena,
                                ps_buffer *out)
{
    const ps_pass_options pass = {
        .machine = machine, .prefetch = options->prefetch, .ratios = options->ratios};
    ps_plan *plan = NULL;
    ps_memory_split split = {.experts = 0};
    PS_TRY(plan_for(source, options, arena, machine, &plan));
    PS_TRY(split_memory(source->file.gguf, source->config, options, machine, &split));
    switch (format) {
    case PS_PLAN_JSON:
        return print_json(plan, &pass, &split, out);
    case PS_PLAN_DOT:
        return print_dot(plan, out);
    default:
        return print_text(plan, &pass, &split, out);
    }
}

// Plans that a session is to run.
static ps_status plan_session(session_plans *s, const ps_model_source *source, ps_buffer *out)
{
    const ps_plan_options *options = s->options;
    if (source->file.gguf == NULL) {
        return ps_fail(PS_INVALID, "a plan file is for sessions, and those need weights; without "
                                   "-o the plan is printed");
    }
    if (options->weight_bits > 0 || options->kv_bits > 0 || options->context_shards > 1) {
        return ps_fail(PS_INVALID,
                       "%s in a plan file, which is for sessions, and they cannot run "
                       "that; without -o the plan is printed",
                       options->context_shards > 1 ? "context shards" : "bits");
    }
    s->file = source->file.gguf;
    s->config = source->config;
    return print_session(s, out);
}

// ---- graphs of others

static ps_status prefetch_graph(ps_str text, const ps_plan_options *options,
                                const ps_machine *machine, ps_arena *arena, ps_buffer *out)
{
    if (options->prefetch == PS_PREFETCH_RATIO) {
        return ps_fail(PS_UNSUPPORTED, "a graph says nothing of waits, which the policy ratio goes "
                                       "by; preserve or auto would be right");
    }
    if (options->weight_bits > 0 || options->kv_bits > 0 || options->context_shards > 1) {
        return ps_fail(PS_INVALID, "a graph has its formats and its cut; bits and context shards "
                                   "would not be right");
    }
    ps_graph graph;
    ps_graph_init(&graph, arena);
    const ps_pass_options pass = {
        .rows_max = options->rows == 0 ? 1 : options->rows,
        .context_max = options->context_tokens == 0 ? 4096 : options->context_tokens,
        .machine = machine,
        .prefetch = options->prefetch,
        .ratios = options->ratios};
    PS_TRY(ps_graph_parse(text, &graph));
    PS_TRY(ps_graph_verify(&graph, "parsing"));
    PS_TRY(ps_pass_prefetch(&graph, &pass));
    PS_TRY(ps_graph_verify(&graph, "prefetch"));
    return ps_graph_print(&graph, out);
}

ps_status ps_plan_graph(const char *path, const ps_plan_options *given, char **out_text,
                        size_t *out_length)
{
    const ps_plan_options options = given == NULL ? (ps_plan_options){0} : *given;
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    ps_machine machine = {.threads = 0};
    PS_TRY(open_machine(&options, &machine));
    PS_TRY(ps_file_map(path, "a graph as text", &bytes, &size_bytes));
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_buffer text = {0};
    const ps_status status = prefetch_graph((ps_str){bytes == NULL ? "" : bytes, size_bytes},
                                            &options, &machine, &arena, &text);
    ps_arena_deinit(&arena);
    ps_file_unmap(bytes, size_bytes);
    if (status != PS_OK) {
        ps_buffer_deinit(&text);
        return ps_file_name_error(path, status);
    }
    *out_text = text.data;
    *out_length = text.length;
    return PS_OK;
}

// session: what a file of plans is made with, beside the options.
static ps_status plan_model(const char *path, const ps_plan_options *options, ps_plan_format format,
                            session_plans *session, char **out_text, size_t *out_length)
{
    ps_model_source source;
    if (options->machine_file != NULL) { // its faults are not the model's
        PS_TRY(open_machine(options, &session->machine));
    }
    ps_arena arena;
    ps_buffer text = {0};
    ps_arena_init(&arena, ARENA_BYTES);
    ps_status status = ps_model_source_open(path, options->weight_bits, &arena, &source);
    if (status == PS_OK) {
        session->options = options;
        status = ps_engine_name_file(
            path, format == PS_PLAN_SESSION
                      ? plan_session(session, &source, &text)
                      : make_and_print(&source, options, format, &session->machine, &arena, &text));
        ps_model_source_close(&source);
    }
    ps_arena_deinit(&arena);
    if (status != PS_OK) {
        ps_buffer_deinit(&text);
        return status;
    }
    *out_text = text.data;
    *out_length = text.length;
    return PS_OK;
}

ps_status ps_plan_file(const char *path, const ps_plan_options *given, ps_plan_format format,
                       char **out_text, size_t *out_length)
{
    const ps_plan_options options = given == NULL ? (ps_plan_options){0} : *given;
    session_plans session = {.tuned = NULL};
    return plan_model(path, &options, format, &session, out_text, out_length);
}

ps_status ps_tuned_ratios_plans(const char *path, const ps_plan_options *options,
                                const ps_machine *machine, const ps_tuned_ratios *tuned,
                                char **out_text, size_t *out_length)
{
    session_plans session = {.machine = *machine, .tuned = tuned};
    return plan_model(path, options, PS_PLAN_SESSION, &session, out_text, out_length);
}
