// cli/simulate_report.c - one line a side, and one an operator.
#include "cli/simulate_report.h"

#include "cli/json_reader.h"
#include "cli/json_writer.h"

#include <stdio.h>

#define MS 1e6 // nanoseconds

// What all sides have in common: operations for a word, and where arithmetic would be the limit.
typedef struct rooflines {
    double ops_per_word, linear, attention;
} rooflines;

static rooflines rooflines_of(const ps_simulate_side *side)
{
    const ps_play_span all = ps_operators_sum(side->rows, side->row_count, PS_OPERATORS_ALL);
    const ps_play_span linear = ps_operators_sum(side->rows, side->row_count, PS_OPERATORS_LINEAR);
    const ps_play_span attention = ps_operators_sum(side->rows, side->row_count,
                                                    PS_OPERATORS_ATTENTION);
    return (rooflines){.ops_per_word = ps_operator_intensity(&all),
                       .linear = ps_operator_roof(&linear),
                       .attention = ps_operator_roof(&attention)};
}

static double speedup(const ps_simulate_report *report, uint32_t side)
{
    return report->sides[0].point.step_ns / report->sides[side].point.step_ns;
}

// ---- tables

static void print_workload(const ps_simulate_report *report)
{
    const ps_workload *w = &report->sides[0].workload;
    const ps_model_config *config = report->simulation->model.config;
    char weights[32] = "the file's types";
    char kv[48];
    if (w->weight_bits > 0) {
        (void)snprintf(weights, sizeof weights, "%u bits", w->weight_bits);
    } else if (report->simulation->model.file.gguf == NULL) {
        (void)snprintf(weights, sizeof weights, "%s", ps_dtype_get(config->weight_dtype)->name);
    }
    if (w->kv_bits > 0) {
        (void)snprintf(kv, sizeof kv, "%u bits", w->kv_bits);
    } else {
        const bool is_one = w->k_type == w->v_type;
        (void)snprintf(kv, sizeof kv, "%s%s%s", ps_kv_type_name(w->k_type), is_one ? "" : " and ",
                       is_one ? "" : ps_kv_type_name(w->v_type));
    }
    (void)printf("# %s: %u rank%s, batch %u, %u tokens, of which %u are prompt; weights in %s, KV "
                 "in %s\n",
                 report->simulation->name, w->ranks, w->ranks == 1 ? "" : "s", w->batch,
                 w->context_tokens, w->prompt_tokens, weights, kv);
}

static void print_memory(const ps_simulate_report *report)
{
    const ps_design_point *point = &report->sides[0].point;
    const double limit = (double)report->simulation->machine->profile.memory_bytes;
    (void)printf("# memory of a rank: weights %.2f GB + KV %.2f GB = %.2f GB",
                 point->weight_bytes / 1e9, point->kv_bytes / 1e9, point->memory_bytes / 1e9);
    if (limit > 0) {
        (void)printf(" of %.2f GB: %s", limit / 1e9, point->fits > 0 ? "fits" : "does not fit");
    }
    (void)printf("\n");
}

static void print_rooflines(const ps_simulate_report *report)
{
    const rooflines r = rooflines_of(&report->sides[0]);
    (void)printf("# the last step does %.1f operations a word; arithmetic limits linears from %.0f "
                 "on, attention from %.0f on\n",
                 r.ops_per_word, r.linear, r.attention);
}

static void print_sides(const ps_simulate_report *report)
{
    const bool has_slo = report->sides[0].workload.slo_ns > 0;
    (void)printf(
        "| side           | ms a token |    first |     last |  prompt ms | end to end ms | "
        "tokens/s | waits ms | barriers ms | collectives ms | moved MB | vs first |%s\n",
        has_slo ? " SLO  |" : "");
    (void)printf(
        "| -------------- | ---------: | -------: | -------: | ---------: | ------------: | "
        "-------: | -------: | ----------: | -------------: | -------: | -------: |%s\n",
        has_slo ? " ---- |" : "");
    for (uint32_t i = 0; i < report->side_count; i++) {
        const ps_simulate_side *side = &report->sides[i];
        const ps_design_point *p = &side->point;
        (void)printf(
            "| %-14s | %10.3f | %8.3f | %8.3f | %10.2f | %13.2f | %8.1f | %8.3f | %11.3f | "
            "%14.3f | %8.2f | %8.3f |",
            side->name, p->step_ns / MS, p->first_ns / MS, p->last_ns / MS, p->prompt_ns / MS,
            p->total_ns / MS, p->tokens_per_s, p->wait_ns / MS, p->barrier_ns / MS, p->comm_ns / MS,
            p->moved_bytes / 1e6, speedup(report, i));
        if (has_slo) {
            (void)printf(" %-4s |", p->meets_slo > 0 ? "met" : "not");
        }
        (void)printf("\n");
    }
}

static void print_row(const char *name, uint32_t count, double ns, double all_ns,
                      const ps_play_span *sum, const char *bound)
{
    (void)printf("| %-26s | ", name);
    if (count > 0) {
        (void)printf("%5u", count);
    } else {
        (void)printf("%5s", "");
    }
    (void)printf(" | %8.3f | %5.1f | %10.2f | %9.2f |", ns / MS, all_ns > 0 ? 100 * ns / all_ns : 0,
                 sum->memory_bytes / 1e6, sum->cache_bytes / 1e6);
    if (sum->ops > 0) {
        (void)printf(" %8.1f | %8.0f |", ps_operator_intensity(sum), ps_operator_roof(sum));
    } else {
        (void)printf(" %8s | %8s |", "", "");
    }
    (void)printf(" %-8s |\n", bound);
}

static void print_operators(const ps_simulate_side *side)
{
    const ps_play_span all = ps_operators_sum(side->rows, side->row_count, PS_OPERATORS_ALL);
    double ns = 0;
    for (uint32_t i = 0; i < side->row_count; i++) {
        ns += side->rows[i].ns;
    }
    (void)printf("\n# operators of the last step of %s\n", side->name);
    (void)printf(
        "| operator                   | count |       ms |     %% |  memory MB |  cache MB | "
        "ops/word | roofline | bound by |\n"
        "| -------------------------- | ----: | -------: | ----: | ---------: | --------: | "
        "-------: | -------: | -------- |\n");
    for (uint32_t i = 0; i < side->row_count; i++) {
        const ps_operator_row *row = &side->rows[i];
        print_row(row->name, row->count, row->ns, ns, &row->sum, ps_bound_name(row->bound));
    }
    print_row("the step", 0, ns, ns, &all, "");
}

void ps_simulate_report_print(const ps_simulate_report *report)
{
    char rates[PS_MACHINE_TEXT_BYTES];
    ps_machine_describe(report->simulation->machine, report->sides[0].workload.ranks, rates);
    (void)printf("# %s\n", rates);
    print_workload(report);
    print_memory(report);
    print_rooflines(report);
    print_sides(report);
    if (report->has_operators) {
        print_operators(&report->sides[0]);
    }
}

// ---- JSON

static ps_status add_workload(ps_json_writer *json, const ps_workload *workload)
{
    json_t *object = ps_json_fields_write(ps_workload_fields, ps_workload_field_count, workload);
    const char *key;
    json_t *value;
    if (object == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a workload");
    }
    ps_json_begin(json, "workload", '{');
    json_object_foreach(object, key, value)
    {
        if (json_is_string(value)) {
            ps_json_text(json, key, json_string_value(value));
        } else if (json_is_boolean(value)) {
            ps_json_bool(json, key, json_is_true(value));
        } else if (json_is_integer(value)) {
            ps_json_integer(json, key, json_integer_value(value));
        } else {
            ps_json_number(json, key, json_number_value(value));
        }
    }
    ps_json_end(json, '}');
    json_decref(object);
    return PS_OK;
}

static void add_metrics(ps_json_writer *json, const ps_design_point *point)
{
    for (size_t i = 0; i < ps_design_metric_count; i++) {
        const ps_design_metric *metric = &ps_design_metrics[i];
        ps_json_number(json, metric->name, ps_design_metric_of(metric, point));
    }
}

static void add_operators(ps_json_writer *json, const ps_simulate_side *side)
{
    ps_json_begin(json, "operators", '[');
    for (uint32_t i = 0; i < side->row_count; i++) {
        const ps_operator_row *row = &side->rows[i];
        ps_json_begin_inline(json, NULL, '{');
        ps_json_text(json, "name", row->name);
        ps_json_text(json, "site", row->site == PS_SITE_NONE ? NULL : ps_site_name(row->site));
        ps_json_integer(json, "count", row->count);
        ps_json_number(json, "ns", row->ns);
        ps_json_number(json, "memory_bytes", row->sum.memory_bytes);
        ps_json_number(json, "cache_bytes", row->sum.cache_bytes);
        ps_json_number(json, "ops", row->sum.ops);
        ps_json_number(json, "words", row->sum.words);
        ps_json_number(json, "ops_per_word", ps_operator_intensity(&row->sum));
        ps_json_number(json, "roofline_ops_per_word", ps_operator_roof(&row->sum));
        ps_json_text(json, "bound", ps_bound_name(row->bound));
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
}

static ps_status add_side(ps_json_writer *json, const ps_simulate_report *report, uint32_t index)
{
    const ps_simulate_side *side = &report->sides[index];
    const ps_machine *machine = report->simulation->machine;
    const rooflines r = rooflines_of(&report->sides[0]);
    ps_json_begin(json, NULL, '{');
    ps_json_text(json, "policy", side->name);
    ps_json_text(json, "model", report->simulation->name);
    ps_json_text(json, "machine", machine->name);
    ps_json_text(json, "rates_source", machine->source);
    PS_TRY(add_workload(json, &side->workload));
    ps_json_integer(json, "memory_limit_bytes", (int64_t)machine->profile.memory_bytes);
    add_metrics(json, &side->point);
    ps_json_number(json, "ratio", speedup(report, index));
    ps_json_begin_inline(json, "roofline", '{');
    ps_json_number(json, "ops_per_word", r.ops_per_word);
    ps_json_number(json, "linear", r.linear);
    ps_json_number(json, "attention", r.attention);
    ps_json_end(json, '}');
    if (report->has_operators) {
        add_operators(json, side);
    }
    ps_json_end(json, '}');
    return PS_OK;
}

ps_status ps_simulate_report_json(const ps_simulate_report *report)
{
    ps_json_writer json = {0};
    ps_status status = PS_OK;
    ps_json_begin(&json, NULL, '[');
    for (uint32_t i = 0; i < report->side_count && status == PS_OK; i++) {
        status = add_side(&json, report, i);
    }
    ps_json_end(&json, ']');
    if (status != PS_OK) {
        ps_buffer_deinit(&json.text);
        return status;
    }
    return ps_json_print(&json);
}
