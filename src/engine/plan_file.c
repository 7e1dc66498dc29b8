// engine/plan_file.c - the plan of a model file, printed.
#include "engine/calibrate.h"
#include "engine/json_values.h"
#include "engine/machine_file.h"
#include "engine/session_plans.h"

#include "format/file_map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// What can be hidden while a step, or the wait before it, lasts.
static const char *window_of(const ps_plan_step *step)
{
    if (step->attributes.window == PS_WINDOW_VECTOR) {
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
        (void)json_array_append_new(shape,
                                    json_sprintf("%u%s", value->row_multiplier,
                                                 value->row_kind == PS_ROWS_LOGITS ? "L" : "T"));
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
static uint64_t whole_bytes(const ps_plan *plan, const ps_value *value)
{
    return value->kind == PS_VALUE_KV ? plan->context_max * ps_value_kv_bytes(value)
                                      : ps_packed_bytes(value->dtype, value->rows, value->columns) *
                                            (value->experts == 0 ? 1 : value->experts);
}

static json_t *prefetch_json(const ps_plan *plan, uint32_t i)
{
    const ps_op_attributes *a = &plan->steps[i].attributes;
    const ps_value *value = &plan->values[plan->steps[i].inputs[0]].is;
    const uint64_t whole = whole_bytes(plan, value);
    return json_pack(
        "{s:i, s:s, s:s, s:i, s:s, s:s, s:b, s:I, s:I}", "step", (int)i, "value", value->name,
        "site", ps_site_name((ps_site)a->site), "layer", (int)a->layer, "window",
        a->window == PS_WINDOW_BARRIER ? "barrier"
        : a->window == PS_WINDOW_SIDE  ? "side"
                                       : "comm",
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

static ps_status print_json(const ps_plan *plan, const ps_machine *machine, ps_buffer *out)
{
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
        "{s:i, s:i, s:{s:s, s:i, s:b, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}, s:I, s:I, "
        "s:i, s:I, s:I, s:o, s:o, "
        "s:o, s:o}",
        "rows_max", (int)plan->rows_max, "context_max", (int)plan->context_max, "machine", "name",
        machine->name, "threads", (int)machine->threads, "measured", (int)machine->is_measured,
        "l2_bytes", (json_int_t)machine->l2_bytes, "llc_bytes", (json_int_t)machine->llc_bytes,
        "read_gbs", machine->read_gbs, "cache_read_gbs", machine->cache_read_gbs, "int8_gops",
        machine->int8_gops, "f32_gops", machine->f32_gops, "barrier_ns", machine->barrier_ns,
        "fill_gbs", machine->fill_gbs, "comm_ns", machine->comm_ns, "comm_gbs", machine->comm_gbs,
        "shared_bytes", (json_int_t)plan->shared_bytes, "private_bytes",
        (json_int_t)plan->private_bytes, "barriers", (int)sum.barriers, "weight_bytes",
        (json_int_t)sum.bytes, "predicted_ns", (json_int_t)sum.ns, "steps", steps, "windows",
        windows, "sites", sites, "prefetches", prefetches);
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

static ps_status print_text(const ps_plan *plan, const ps_machine *machine, ps_buffer *out)
{
    const totals sum = add_up(plan);
    PS_TRY(ps_buffer_printf(
        out,
        "# %s, %u threads, %s: read %.1f GB/s, L2 %.0f GB/s, int8 %.0f Gmac/s, f32 %.0f Gmac/s, "
        "barrier %.0f ns\n"
        "# %u steps, %u barriers, %.1f MB of weights, predicted %.3f ms\n",
        machine->name, machine->threads, machine->is_measured ? "measured" : "stated defaults",
        machine->read_gbs, machine->cache_read_gbs, machine->int8_gops, machine->f32_gops,
        machine->barrier_ns, plan->step_count, sum.barriers, (double)sum.bytes / 1e6,
        (double)sum.ns / 1e6));
    return ps_plan_print(plan, out);
}

// ---- the call

static ps_status measure_machine(uint32_t threads, ps_machine *machine)
{
    ps_kernels kernels;
    ps_team *team = NULL;
    PS_TRY(ps_kernels_select(&kernels));
    PS_TRY(ps_team_create(threads, &team));
    const ps_status status = ps_calibrate(team, &kernels, machine);
    ps_team_destroy(team);
    return status;
}

static ps_status describe_machine(const ps_plan_options *options, ps_machine *machine)
{
    const uint32_t threads = options->threads > 0 ? options->threads
                                                  : ps_machine_default_threads(1);
    PS_TRY(ps_machine_discover(threads, machine));
    if (options->machine_file != NULL) {
        PS_TRY(ps_machine_read(options->machine_file, machine));
    } else if (options->measure) {
        PS_TRY(measure_machine(threads, machine));
    }
    if (options->link != NULL) {
        ps_comm_link link = {0};
        PS_TRY(ps_comm_link_parse(options->link, &link));
        machine->comm_ns = (double)link.latency_ns;
        machine->comm_gbs = link.bits_per_second > 0 ? link.bits_per_second / 8e9 : 1e6;
    }
    return PS_OK;
}

static ps_status print_session(const ps_gguf *file, const ps_model_config *config,
                               const ps_plan_options *options, ps_arena *arena, ps_buffer *out)
{
    ps_session_options session = {.context_tokens = options->context_tokens,
                                  .batch_rows = options->rows,
                                  .k_type = options->k_type,
                                  .v_type = options->v_type,
                                  .prefetch = options->prefetch,
                                  .prefetch_threads = options->prefetch_threads};
    ps_bucket buckets[PS_SESSION_PLANS_MAX];
    ps_machine machine;
    ps_plan_set set;
    PS_TRY(ps_session_options_complete(config, &session));
    PS_TRY(describe_machine(options, &machine));
    PS_TRY(ps_prefetch_threads_check(session.prefetch_threads, &machine, &session.prefetch));
    set.key = ps_session_plan_key(file, &machine, NULL, session.prefetch);
    set.plan_count = ps_session_buckets(&session, NULL, buckets);
    for (uint32_t i = 0; i < set.plan_count; i++) {
        const ps_pass_options pass = ps_session_pass_options(&session, &buckets[i], &machine, NULL);
        ps_plan *plan = NULL;
        PS_TRY(ps_engine_make_plan(config, file, &pass, arena, &plan));
        set.plans[i] = plan;
    }
    return ps_plan_set_print(&set, out);
}

ps_status ps_engine_plan_for(const ps_gguf *file, const ps_plan_options *options, ps_arena *arena,
                             ps_machine *machine, ps_plan **out)
{
    const ps_model_config *config = NULL;
    PS_TRY(ps_model_read(file, arena, &config));
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
    if (machine->threads == 0) {
        PS_TRY(describe_machine(options, machine));
    }
    ps_prefetch_policy policy = options->prefetch;
    PS_TRY(ps_prefetch_threads_check(options->prefetch_threads, machine, &policy));
    const ps_pass_options pass = {.rows_max = rows,
                                  .logits_max = rows < PS_LOGITS_MAX ? rows : PS_LOGITS_MAX,
                                  .context_max = context,
                                  .k_dtype = ps_kv_type_dtype(options->k_type),
                                  .v_dtype = ps_kv_type_dtype(options->v_type),
                                  .machine = machine,
                                  .ranks = options->ranks,
                                  .prefetch = policy,
                                  .prefetch_threads = options->prefetch_threads,
                                  .comm_schedule = options->comm_schedule};
    return ps_engine_make_plan(config, file, &pass, arena, out);
}

static ps_status make_and_print(const ps_gguf *file, const ps_plan_options *options,
                                ps_plan_format format, ps_arena *arena, ps_buffer *out)
{
    if (options->ranks > 1 && format == PS_PLAN_SESSION) {
        return ps_fail(PS_UNSUPPORTED, "plan files are made for one rank only");
    }
    if (format == PS_PLAN_SESSION) {
        const ps_model_config *config = NULL;
        PS_TRY(ps_model_read(file, arena, &config));
        return print_session(file, config, options, arena, out);
    }
    ps_machine machine = {.threads = 0};
    ps_plan *plan = NULL;
    PS_TRY(ps_engine_plan_for(file, options, arena, &machine, &plan));
    switch (format) {
    case PS_PLAN_JSON:
        return print_json(plan, &machine, out);
    case PS_PLAN_DOT:
        return print_dot(plan, out);
    default:
        return print_text(plan, &machine, out);
    }
}

// ---- graphs of others

static ps_status prefetch_graph(ps_str text, const ps_plan_options *options, ps_arena *arena,
                                ps_buffer *out)
{
    ps_graph graph;
    ps_machine machine;
    ps_graph_init(&graph, arena);
    PS_TRY(describe_machine(options, &machine));
    const ps_pass_options pass = {
        .rows_max = options->rows == 0 ? 1 : options->rows,
        .context_max = options->context_tokens == 0 ? 4096 : options->context_tokens,
        .machine = &machine,
        .prefetch = options->prefetch};
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
    PS_TRY(ps_file_map(path, "a graph as text", &bytes, &size_bytes));
    ps_arena arena;
    ps_arena_init(&arena, (size_t)4 << 30);
    ps_buffer text = {0};
    const ps_status status = prefetch_graph((ps_str){bytes == NULL ? "" : bytes, size_bytes},
                                            &options, &arena, &text);
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

ps_status ps_plan_file(const char *path, const ps_plan_options *given, ps_plan_format format,
                       char **out_text, size_t *out_length)
{
    const ps_plan_options options = given == NULL ? (ps_plan_options){0} : *given;
    ps_model_file file;
    PS_TRY(ps_model_file_open(path, &file));
    ps_arena arena;
    ps_arena_init(&arena, (size_t)4 << 30);
    ps_buffer text = {0};
    const ps_status status = ps_engine_name_file(
        path, make_and_print(file.gguf, &options, format, &arena, &text));
    ps_arena_deinit(&arena);
    ps_model_file_close(&file);
    if (status != PS_OK) {
        ps_buffer_deinit(&text);
        return status;
    }
    *out_text = text.data;
    *out_length = text.length;
    return PS_OK;
}
