// cli/bench_result.c - rows of `prestage bench` as a table, as CSV and as JSON.
#include "cli/bench.h"

#include <math.h>
#include <string.h>

// What is given, or what comes of it: one rank sums nothing, and one worker waits for nobody.
const char *ps_bench_policy(const ps_bench *b)
{
    const ps_cli_side *side = &b->side->what;
    if (b->info.ranks > 1 && side->prefetch != PS_PREFETCH_DEFAULT) {
        return side->name;
    }
    if (side->prefetch == PS_PREFETCH_DEFAULT && b->options->prefetch_threads > 0) {
        return ps_prefetch_policy_name(PS_PREFETCH_AUTO);
    }
    return b->info.ranks == 1 && b->info.threads == 1 && b->options->prefetch_threads == 0
               ? "off"
               : ps_prefetch_policy_name(ps_prefetch_policy_of(side->prefetch, b->info.ranks));
}
// ---- results

static const char *k_type(const ps_bench *b)
{
    return ps_kv_type_name((ps_kv_type)b->options->k_type);
}

static const char *v_type(const ps_bench *b)
{
    return ps_kv_type_name((ps_kv_type)b->options->v_type);
}

// "pp512", "tg128", "pp512+tg128", each with " x 8" for eight sequences, " @ d4096" at a depth and
// " kv q8_0/f16" for types of keys and values that are not both f16, and the policy of ranks.
static const char *test_name(const ps_bench *b, char text[64])
{
    const ps_bench_test *test = &b->side->row.test;
    size_t length = 0;
    if (test->prompt > 0) {
        length += (size_t)snprintf(text, 64, "pp%u", test->prompt);
    }
    if (test->generate > 0) {
        length += (size_t)snprintf(text + length, 64 - length, "%stg%u", length > 0 ? "+" : "",
                                   test->generate);
    }
    if (test->sequences > 1) {
        length += (size_t)snprintf(text + length, 64 - length, " x %u", test->sequences);
    }
    if (test->depth > 0) {
        length += (size_t)snprintf(text + length, 64 - length, " @ d%u", test->depth);
    }
    if (b->options->k_type != PS_KV_F16 || b->options->v_type != PS_KV_F16) {
        length += (size_t)snprintf(text + length, 64 - length, " kv %s/%s", k_type(b), v_type(b));
    }
    if (b->info.ranks > 1 || strcmp(ps_bench_policy(b), "off") != 0) {
        (void)snprintf(text + length, 64 - length, " %s", ps_bench_policy(b));
    }
    return text;
}

static const char *model_label(const ps_bench *b)
{
    const char *slash = strrchr(b->info.path, '/');
    return slash == NULL ? b->info.path : slash + 1;
}

static ps_bench_ops profile_of(const ps_bench *b)
{
    ps_model_info info; // with the rates that the session's plans were made with
    ps_model_get_info(b->model, &info);
    ps_bench_ops ops = {.ceiling_gbs = b->side->row.ceiling_gbs,
                        .cache_read_gbs = info.cache_read_gbs,
                        .int8_gops = info.int8_gops,
                        .f32_gops = info.f32_gops,
                        .rates_source = info.rates_source};
    ps_session_profile_get(b->side->session, &ops.profile);
    return ops;
}

static void print_ratios(const ps_bench *b)
{
    for (uint32_t s = 1; s < b->side_count; s++) {
        const ps_bench_row *row = &b->sides[s].row;
        (void)printf("  %s / %s: %.3f (%.3f to %.3f), tokens equal\n", b->sides[s].what.name,
                     b->sides[0].what.name, row->ratio, row->ratio_lowest, row->ratio_highest);
    }
}

static void print_parts(const ps_bench *b)
{
    const ps_bench_row *row = &b->side->row;
    if (row->test.prompt > 0 && row->test.generate > 0) {
        (void)printf("  prompts %.1f ms, generation %.1f ms\n",
                     ps_bench_mean(row->prompt_ms, b->options->repetitions),
                     ps_bench_mean(row->generate_ms, b->options->repetitions));
    }
}

static void print_md(ps_bench *b)
{
    const ps_bench_row *row = &b->side->row;
    char name[64];
    if (b->printed == 0) {
        (void)printf("# %s\n", b->info.rates);
    }
    if (b->printed++ == 0 || b->options->operators) {
        (void)printf("| %-36s | %9s | %7s | %26s | %18s | %8s | %7s | %7s | %5s | %8s |\n", "model",
                     "size MB", "threads", "test", "tok/s", "MB/token", "GB/s", "ceiling", "share",
                     "barriers");
        (void)printf("| ------------------------------------ | --------: | ------: | "
                     "-------------------------: | -----------------: | -------: | ------: | "
                     "------: | ----: | "
                     "-------: |\n");
    }
    (void)printf("| %-36s | %9.1f | %7u | %26s | %9.2f +- %5.2f |", model_label(b),
                 (double)b->info.file_bytes / 1e6, row->test.threads, test_name(b, name), row->mean,
                 row->deviation);
    if (row->gbs <= 0) {
        (void)printf(" %8s | %7s | %7s | %5s | %8s |\n", "", "", "", "", "");
    } else if (row->ceiling_gbs <= 0) {
        (void)printf(" %8.1f | %7.2f | %7s | %5s | %8u |\n", row->bytes_per_token / 1e6, row->gbs,
                     "", "", row->barriers);
    } else {
        (void)printf(" %8.1f | %7.2f | %7.2f | %5.2f | %8u |\n", row->bytes_per_token / 1e6,
                     row->gbs, row->ceiling_gbs, row->gbs / row->ceiling_gbs, row->barriers);
    }
    print_parts(b);
    if (b->options->operators) {
        const ps_bench_ops ops = profile_of(b);
        ps_bench_ops_md(&ops);
        ps_cli_prefetch_print(b->side->session, stdout);
    }
    if (b->side_count > 1 && b->side == &b->sides[b->side_count - 1]) {
        print_ratios(b);
    }
    (void)fflush(stdout);
}

// Names of files may hold quotes and commas.
static void print_csv_text(const char *text)
{
    (void)putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            (void)putchar('"');
        }
        (void)putchar(*text);
    }
    (void)putchar('"');
}

// Another table: one line an operator of each test.
static void print_ops_csv(ps_bench *b)
{
    const ps_bench_row *row = &b->side->row;
    const ps_bench_ops ops = profile_of(b);
    if (b->printed++ == 0) {
        (void)printf("model,n_threads,n_prompt,n_gen,n_depth,n_parallel,avg_ts," PS_BENCH_OPS_FIELDS
                     "\n");
    }
    for (uint32_t i = 0; i < ps_bench_ops_count(&ops); i++) {
        print_csv_text(model_label(b));
        (void)printf(",%u,%u,%u,%u,%u,%.4f,", row->test.threads, row->test.prompt,
                     row->test.generate, row->test.depth, row->test.sequences, row->mean);
        ps_bench_ops_csv(&ops, i);
    }
    (void)fflush(stdout);
}

static void print_csv(ps_bench *b)
{
    const ps_bench_row *row = &b->side->row;
    if (b->printed++ == 0) {
        (void)printf("model,file_bytes,isa,policy,n_batch,n_threads,type_k,type_v,n_prompt,n_gen,"
                     "n_depth,n_parallel,avg_ts,stddev_ts,bytes_per_token,gbs,ceiling_gbs,share,"
                     "barriers\n");
    }
    ps_session_info session;
    ps_session_get_info(b->side->session, &session);
    print_csv_text(model_label(b));
    (void)printf(",%llu,%s,%s,%u,%u,%s,%s,%u,%u,%u,%u,%.4f,%.4f",
                 (unsigned long long)b->info.file_bytes, b->info.isa, ps_bench_policy(b),
                 session.batch_rows, row->test.threads, k_type(b), v_type(b), row->test.prompt,
                 row->test.generate, row->test.depth, row->test.sequences, row->mean,
                 row->deviation);
    if (row->gbs <= 0) {
        (void)printf(",,,,,\n");
    } else {
        (void)printf(",%llu,%.4f", (unsigned long long)row->bytes_per_token, row->gbs);
        if (row->ceiling_gbs > 0) {
            (void)printf(",%.4f,%.4f", row->ceiling_gbs, row->gbs / row->ceiling_gbs);
        } else {
            (void)printf(",,");
        }
        (void)printf(",%u\n", row->barriers);
    }
    (void)fflush(stdout);
}

static void add_samples(ps_bench *b, const char *name, const double *samples)
{
    ps_json_begin_inline(&b->json, name, '[');
    for (uint32_t i = 0; i < b->options->repetitions; i++) {
        ps_json_number(&b->json, NULL, samples[i]);
    }
    ps_json_end(&b->json, ']');
}

static void add_json(ps_bench *b)
{
    const ps_bench_row *row = &b->side->row;
    ps_json_writer *json = &b->json;
    ps_session_info session;
    ps_session_get_info(b->side->session, &session);
    ps_json_begin(json, NULL, '{');
    ps_json_text(json, "model", model_label(b));
    ps_json_integer(json, "file_bytes", (int64_t)b->info.file_bytes);
    ps_json_text(json, "isa", b->info.isa);
    ps_json_text(json, "policy", ps_bench_policy(b));
    ps_json_text(json, "rates", b->info.rates);
    ps_json_text(json, "rates_source", b->info.rates_source);
    ps_json_integer(json, "n_batch", session.batch_rows);
    ps_json_integer(json, "n_threads", row->test.threads);
    ps_json_integer(json, "n_ranks", b->info.ranks);
    ps_json_text(json, "type_k", k_type(b));
    ps_json_text(json, "type_v", v_type(b));
    ps_json_integer(json, "n_prompt", row->test.prompt);
    ps_json_integer(json, "n_gen", row->test.generate);
    ps_json_integer(json, "n_depth", row->test.depth);
    ps_json_integer(json, "n_parallel", row->test.sequences);
    ps_json_integer(json, "best_logits", row->best_logits);
    ps_json_number(json, "avg_ts", row->mean);
    ps_json_number(json, "stddev_ts", row->deviation);
    add_samples(b, "samples_ts", row->tokens_per_s);
    if (row->test.prompt > 0 && row->test.generate > 0) {
        add_samples(b, "samples_prompt_ms", row->prompt_ms);
        add_samples(b, "samples_gen_ms", row->generate_ms);
    }
    if (b->side_count > 1) {
        ps_json_number(json, "ratio", row->ratio);
        ps_json_number(json, "ratio_lowest", row->ratio_lowest);
        ps_json_number(json, "ratio_highest", row->ratio_highest);
    }
    if (row->gbs > 0) {
        ps_json_integer(json, "bytes_per_token", (int64_t)row->bytes_per_token);
        ps_json_integer(json, "barriers", row->barriers);
        ps_json_number(json, "gbs", row->gbs);
    }
    if (row->ceiling_gbs > 0) {
        ps_json_number(json, "ceiling_gbs", row->ceiling_gbs);
    }
    if (row->ceiling_gbs > 0 && row->gbs > 0) {
        ps_json_number(json, "share", row->gbs / row->ceiling_gbs);
    }
    if (b->options->operators) {
        const ps_bench_ops ops = profile_of(b);
        ps_bench_ops_json(&ops, json);
    }
    ps_cli_prefetch_json(b->side->session, json);
    ps_cli_experts_json(b->model, b->side->session, json);
    ps_json_end(json, '}');
}

void ps_bench_add_result(ps_bench *b)
{
    switch ((ps_cli_format)b->options->format) {
    case PS_CLI_MD:
        print_md(b);
        break;
    case PS_CLI_CSV:
        if (b->options->operators) {
            print_ops_csv(b);
        } else {
            print_csv(b);
        }
        break;
    case PS_CLI_JSON:
        add_json(b);
        break;
    }
}
