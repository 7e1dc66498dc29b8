// cli/bench_predict.c - `prestage bench --predict`: steps as they are predicted, and as they ran.
//
// A test is a decode step of one row of each of some sequences, at one length of their contexts.
// The plan that the session runs for it is played with the model's rates (engine/predict.h), and
// with what is read from memory between the steps of a repetition, the median; what was measured is
// the median over repetitions of a step's time, each repetition being some steps from the same
// depth on, of all policies in turns.
#include "base/quantile.h"
#include "cli/bench.h"
#include "cli/error_stats.h"
#include "engine/predict.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)4 << 30)

typedef struct result {
    double predicted_ms, measured_ms; // of a step
    double lowest_ms, highest_ms;     // of the repetitions'
    double error;
} result;

ps_status ps_bench_predict_check(const ps_cli_options *options)
{
    const char *other = options->prompts.count > 0 || options->pair_prompts.count > 0 ? "-p or -pg"
                        : options->static_batch > 0 ? "--static-batch"
                        : options->streams > 0      ? "--streams"
                                                    : NULL;
    if (other != NULL) {
        return ps_fail(PS_INVALID,
                       "--predict with %s: it is of decode steps; -npl, -d and -n would be right",
                       other);
    }
    return options->memory_bytes > 0 || options->memory_share > 0 || options->expert_bytes > 0
               ? ps_fail(PS_INVALID, "--predict with a limit of memory: what streamed experts wait "
                                     "for is in no plan; a model that fits would be right")
               : PS_OK;
}

static double read_gbs(const ps_bench *b)
{
    double gbs[1000];
    const uint32_t count = b->options->repetitions;
    memcpy(gbs, b->side->row.read_gbs, count * sizeof *gbs);
    return ps_median(gbs, count);
}

// A step in the middle of those measured.
static ps_status predict(const ps_bench *b, ps_arena *arena, ps_prediction *out)
{
    const ps_bench_test *test = &b->side->row.test;
    return ps_predict_step(b->model, b->side->session, test->sequences,
                           test->depth + (test->generate - 1) / 2, read_gbs(b), arena, out);
}

static result result_of(const ps_bench *b, const ps_prediction *prediction)
{
    const ps_bench_row *row = &b->side->row;
    const uint32_t count = b->options->repetitions;
    double ms[1000];
    for (uint32_t i = 0; i < count; i++) {
        ms[i] = row->generate_ms[i] / row->test.generate;
    }
    const double median = ps_median(ms, count); // sorts
    return (result){.predicted_ms = prediction->play.total_ns / 1e6,
                    .measured_ms = median,
                    .lowest_ms = ms[0],
                    .highest_ms = ms[count - 1],
                    .error = ps_prediction_error(prediction->play.total_ns / 1e6, median)};
}

// ---- operators

// What a step spends on operators of one kind, or waiting.
typedef struct op_line {
    const char *op, *site;
    double predicted_us, measured_us;
} op_line;

static double predicted_us(const ps_prediction *prediction, const ps_profile_op *op)
{
    for (uint32_t i = 0; i < prediction->op_count; i++) {
        const ps_operator_row *row = &prediction->ops[i];
        if (row->op < PS_OP_COUNT && strcmp(ps_op_get(row->op)->name, op->op) == 0 &&
            strcmp(ps_site_name(row->site), op->site) == 0) {
            return row->ns / 1e3;
        }
    }
    return 0;
}

// Line `index` of [profile->op_count]: operators, and in place of the end of the step all waits.
static op_line line_at(const ps_prediction *prediction, const ps_profile *profile, uint32_t index)
{
    const double runs_us = 1e3 * (double)profile->runs;
    const ps_profile_op *op = &profile->ops[index];
    uint64_t wait_ns = 0;
    for (uint32_t i = 0; i < profile->op_count; i++) {
        wait_ns += profile->ops[i].wait_ns;
    }
    return index + 1 < profile->op_count
               ? (op_line){op->op, op->site, predicted_us(prediction, op),
                           (double)op->work_ns / runs_us}
               : (op_line){"waits", "",
                           (prediction->play.wait_ns + prediction->play.barrier_ns) / 1e3,
                           (double)wait_ns / runs_us};
}

static void print_ops(const ps_bench *b, const ps_prediction *prediction)
{
    ps_profile profile;
    ps_session_profile_get(b->side->session, &profile);
    (void)printf("\n| operator          | site        | predicted us | measured us |\n"
                 "| ----------------- | ----------- | -----------: | ----------: |\n");
    for (uint32_t i = 0; i < profile.op_count; i++) {
        const op_line is = line_at(prediction, &profile, i);
        (void)printf("| %-17s | %-11s | %12.1f | %11.1f |\n", is.op, is.site, is.predicted_us,
                     is.measured_us);
    }
    (void)printf("\n");
}

static void add_ops(ps_json_writer *json, const ps_bench *b, const ps_prediction *prediction)
{
    ps_profile profile;
    ps_session_profile_get(b->side->session, &profile);
    ps_json_begin(json, "ops", '[');
    for (uint32_t i = 0; i < profile.op_count; i++) {
        const op_line is = line_at(prediction, &profile, i);
        ps_json_begin_inline(json, NULL, '{');
        ps_json_text(json, "op", is.op);
        ps_json_text(json, "site", is.site);
        ps_json_number(json, "predicted_us", is.predicted_us);
        ps_json_number(json, "measured_us", is.measured_us);
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
}

// ---- rows

static void print_md(ps_bench *b, const result *is, const ps_prediction *prediction)
{
    const ps_bench_test *test = &b->side->row.test;
    if (b->side == b->sides && b->is_new_model) {
        ps_model_get_info(b->model, &b->info); // with the rates as they are now
        (void)printf("%s# %s\n", b->printed > 0 ? "\n" : "", b->info.rates);
    }
    if (b->printed == 0 || b->is_new_model || b->options->operators) {
        (void)printf("| threads | batch | context | policy         | predicted ms | measured ms | "
                     "lowest to highest    | error |\n"
                     "| ------: | ----: | ------: | -------------- | -----------: | ----------: | "
                     "-------------------: | ----: |\n");
    }
    b->is_new_model = false;
    b->printed++;
    (void)printf("| %7u | %5u | %7u | %-14s | %12.3f | %11.3f | %9.3f to %8.3f | %+4.0f%% |\n",
                 test->threads, test->sequences, test->depth, b->side->what.name, is->predicted_ms,
                 is->measured_ms, is->lowest_ms, is->highest_ms, is->error * 100);
    if (b->options->operators) {
        print_ops(b, prediction);
    }
}

static void print_csv(ps_bench *b, const result *is)
{
    const ps_bench_test *test = &b->side->row.test;
    if (b->printed++ == 0) {
        (void)printf("n_threads,n_ranks,n_parallel,n_depth,policy,predicted_ms,measured_ms,"
                     "lowest_ms,highest_ms,error\n");
    }
    (void)printf("%u,%u,%u,%u,%s,%.6g,%.6g,%.6g,%.6g,%.4f\n", test->threads, b->info.ranks,
                 test->sequences, test->depth, b->side->what.name, is->predicted_ms,
                 is->measured_ms, is->lowest_ms, is->highest_ms, is->error);
}

static void add_json(ps_bench *b, const result *is, const ps_prediction *prediction)
{
    const ps_bench_test *test = &b->side->row.test;
    ps_json_writer *json = &b->json;
    ps_model_get_info(b->model, &b->info);
    ps_json_begin(json, NULL, '{');
    ps_json_text(json, "rates", b->info.rates);
    ps_json_text(json, "rates_source", b->info.rates_source);
    ps_json_integer(json, "n_threads", test->threads);
    ps_json_integer(json, "n_ranks", b->info.ranks);
    ps_json_integer(json, "n_parallel", test->sequences);
    ps_json_integer(json, "n_depth", test->depth);
    ps_json_text(json, "policy", b->side->what.name);
    ps_json_number(json, "read_gbs", read_gbs(b));
    ps_json_number(json, "predicted_ms", is->predicted_ms);
    ps_json_number(json, "measured_ms", is->measured_ms);
    ps_json_number(json, "lowest_ms", is->lowest_ms);
    ps_json_number(json, "highest_ms", is->highest_ms);
    ps_json_number(json, "error", is->error);
    if (b->options->operators) {
        add_ops(json, b, prediction);
    }
    ps_json_end(json, '}');
}

ps_status ps_bench_predict_begin(ps_bench *b, uint32_t rows)
{
    b->errors = calloc(rows, sizeof *b->errors);
    if (b->errors == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for %u predictions", rows);
    }
    ps_json_begin(&b->json, NULL, '{');
    ps_json_text(&b->json, "model", b->options->model);
    ps_json_begin(&b->json, "rows", '[');
    return PS_OK;
}

static void add_result(ps_bench *b, const ps_prediction *prediction)
{
    const result is = result_of(b, prediction);
    b->errors[b->error_count++] = is.error;
    switch ((ps_cli_format)b->options->format) {
    case PS_CLI_MD:
        print_md(b, &is, prediction);
        break;
    case PS_CLI_CSV:
        print_csv(b, &is);
        break;
    case PS_CLI_JSON:
        add_json(b, &is, prediction);
        break;
    }
    (void)fflush(stdout);
}

ps_status ps_bench_predict_add(ps_bench *b)
{
    ps_prediction prediction;
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_status status = predict(b, &arena, &prediction);
    if (status == PS_OK) {
        add_result(b, &prediction);
    }
    ps_arena_deinit(&arena);
    return status;
}

void ps_bench_predict_end(ps_bench *b)
{
    const uint32_t count = b->error_count;
    const ps_error_stats stats = ps_error_stats_of(b->errors, count);
    ps_json_end(&b->json, ']');
    ps_json_number(&b->json, "median_error", stats.median);
    ps_json_number(&b->json, "worst_error", stats.worst);
    ps_json_end(&b->json, '}');
    if (b->options->format == PS_CLI_MD) {
        (void)printf("\nerrors of %u: median %.1f %%, worst %.1f %%\n", count, stats.median * 100,
                     stats.worst * 100);
    }
    free(b->errors);
    b->errors = NULL;
}
