// cli/tune_report.c - a table by batch, where prefetching stops paying, and a config to paste.
#include "cli/tune_report.h"

#include "passes/passes.h"

#include <stdio.h>
#include <string.h>

static const char *const MODULES[PS_MODULE_COUNT] = {"attn", "mlp", "moe"};
static const char *const OBJECTIVES[] = {
    [PS_TUNE_LATENCY] = "latency", [PS_TUNE_THROUGHPUT] = "throughput"};

// "attn.qkv"
static const char *site_name(size_t ratio)
{
    return ps_site_name(ps_ratio_site_of((ps_ratio_site)ratio));
}

// The site's key in its module, "qkv"; NULL: it is of another.
static const char *key_in(size_t ratio, const char *module)
{
    const char *name = site_name(ratio);
    const size_t length = strlen(module);
    return strncmp(name, module, length) == 0 && name[length] == '.' ? name + length + 1 : NULL;
}

static const ps_tuned_bucket *bucket_of(const ps_tuned_ratios *tuned, uint32_t batch)
{
    return &tuned->buckets[tuned->batches[batch].bucket];
}

static bool has_window(const ps_tuned_bucket *bucket)
{
    bool has = false;
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        has |= bucket->start.has_site[i];
    }
    return has;
}

static bool pays(const ps_tuned_ratios *tuned, uint32_t batch)
{
    const ps_tuned_batch *b = &tuned->batches[batch];
    return b->is_timed && bucket_of(tuned, batch)->found.is_gain && b->tuned.gain > b->tuned.noise;
}

// ---- the table

static void print_ratios(const ps_tuned_bucket *bucket)
{
    if (!has_window(bucket)) {
        (void)printf(" no window |\n");
        return;
    }
    if (!bucket->found.is_gain) {
        (void)printf(" off |\n");
        return;
    }
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        if (bucket->found.ratio[i] > 0) {
            (void)printf(" %s %g", site_name(i), bucket->found.ratio[i]);
        }
    }
    (void)printf(" |\n");
}

static void print_table(const ps_tuned_ratios *tuned)
{
    (void)printf("| batch |   off ms |  given ms |    gain |  tuned ms |    gain | off spread | "
                 "tuned ratios |\n"
                 "| ----: | -------: | --------: | ------: | --------: | ------: | ---------: | "
                 ":----------- |\n");
    for (uint32_t i = 0; i < tuned->batch_count; i++) {
        const ps_tuned_batch *b = &tuned->batches[i];
        (void)printf("| %5u |", b->batch);
        if (b->is_timed) {
            (void)printf(" %8.3f | %9.3f | %5.1f %% | %9.3f | %5.1f %% | %8.1f %% |",
                         b->tuned.off_ns / 1e6, b->given.ns / 1e6, 100 * b->given.gain,
                         b->tuned.ns / 1e6, 100 * b->tuned.gain, 100 * b->tuned.noise);
        } else {
            (void)printf(" %8s | %9s | %7s | %9s | %7s | %10s |", "", "", "", "", "", "");
        }
        print_ratios(bucket_of(tuned, i));
    }
}

// ---- what follows

// Where it pays: all of the timed batches from `first` to `last`, or some between.
typedef struct span {
    uint32_t timed, paying, first, last; // indices
    bool is_whole;
} span;

static span paying_span(const ps_tuned_ratios *tuned)
{
    span s = {.is_whole = true};
    for (uint32_t i = 0; i < tuned->batch_count; i++) {
        s.timed += tuned->batches[i].is_timed;
        if (pays(tuned, i)) {
            s.first = s.paying == 0 ? i : s.first;
            s.last = i;
            s.paying++;
        }
    }
    for (uint32_t i = s.first; i <= s.last && s.paying > 0; i++) {
        s.is_whole &= pays(tuned, i) || !tuned->batches[i].is_timed;
    }
    return s;
}

static uint32_t timed_beside(const ps_tuned_ratios *tuned, uint32_t from, int step)
{
    for (int64_t i = (int64_t)from + step; i >= 0 && i < tuned->batch_count; i += step) {
        if (tuned->batches[i].is_timed) {
            return tuned->batches[i].batch;
        }
    }
    return 0;
}

static void print_span(const ps_tuned_ratios *tuned)
{
    const span s = paying_span(tuned);
    if (s.timed == 0) {
        (void)printf("no batch was timed\n");
        return;
    }
    if (s.paying == 0) {
        (void)printf("prefetching pays at none of these batches: off is right\n");
        return;
    }
    const uint32_t below = timed_beside(tuned, s.first, -1);
    const uint32_t above = timed_beside(tuned, s.last, 1);
    (void)printf("prefetching pays ");
    if (below > 0) {
        (void)printf("from a batch of %u on (not at %u)%s", tuned->batches[s.first].batch, below,
                     above > 0 ? ", and " : "");
    }
    if (above > 0) {
        (void)printf("up to a batch of %u, and stops paying at %u", tuned->batches[s.last].batch,
                     above);
    }
    if (below == 0 && above == 0) {
        (void)printf("at all of these batches");
    }
    (void)printf("%s\n", s.is_whole ? "" : ", but not at each between");
}

static void print_cut(const ps_tune_report *report)
{
    bool is_cut = false;
    for (uint32_t i = 0; i < report->tuned->bucket_count; i++) {
        is_cut |= report->tuned->buckets[i].found.is_cut;
    }
    if (is_cut) {
        (void)printf("--time-limit %u ended the search: with more there may be better ratios\n",
                     report->limit_s);
    }
}

void ps_tune_report_print(const ps_tune_report *report)
{
    const ps_tuned_ratios *tuned = report->tuned;
    if (report->is_alone) {
        (void)printf("no ratios to find: one thread waits for nobody, so there is no window to "
                     "prefetch in\n");
    } else {
        print_table(tuned);
        print_span(tuned);
        print_cut(report);
        (void)printf("%s, for %s, in %.1f s\n",
                     report->is_simulated ? "simulated" : "measured by steps in turns with off",
                     OBJECTIVES[report->objective], tuned->took_s);
    }
    if (report->plan_file != NULL) {
        (void)printf("plans in %s\n", report->plan_file);
    }
}

// ---- JSON

static void add_config(const ps_tuned_ratios *tuned, ps_json_writer *json)
{
    const bool is_gain = tuned->chosen < tuned->bucket_count;
    ps_json_begin_inline(json, "weight_prefetch_config", '{');
    ps_json_bool(json, "enabled", is_gain);
    if (!is_gain) {
        ps_json_end(json, '}');
        return;
    }
    const ps_prefetch_ratios ratios = ps_tuned_bucket_ratios(tuned, tuned->chosen);
    ps_json_begin(json, "prefetch_ratio", '{');
    for (size_t m = 0; m < PS_MODULE_COUNT; m++) {
        if (!tuned->has_module[m]) {
            continue;
        }
        ps_json_begin(json, MODULES[m], '{');
        for (size_t i = 0; i < PS_RATIO_COUNT; i++) {
            if (key_in(i, MODULES[m]) != NULL) {
                ps_json_number(json, key_in(i, MODULES[m]), ratios.ratio[i]);
            }
        }
        ps_json_end(json, '}');
    }
    ps_json_end(json, '}');
    if (ratios.max_bytes > 0) {
        ps_json_integer(json, "max_prefetch_bytes", (int64_t)ratios.max_bytes);
    }
    for (int is_max = 0; is_max <= 1; is_max++) {
        ps_json_begin(json, is_max ? "max_tokens" : "min_tokens", '{');
        for (size_t m = 0; m < PS_MODULE_COUNT; m++) {
            if (tuned->has_module[m]) {
                ps_json_integer(json, MODULES[m],
                                is_max ? ratios.max_tokens[m] : ratios.min_tokens[m]);
            }
        }
        ps_json_end(json, '}');
    }
    ps_json_end(json, '}');
}

static void add_timing(ps_json_writer *json, const char *key, const ps_ratio_timing *timing)
{
    ps_json_begin_inline(json, key, '{');
    ps_json_number(json, "off_ns", timing->off_ns);
    ps_json_number(json, "ns", timing->ns);
    ps_json_number(json, "gain", timing->gain);
    ps_json_number(json, "spread", timing->noise);
    ps_json_end(json, '}');
}

static void add_batch(ps_json_writer *json, const ps_tuned_ratios *tuned, uint32_t index)
{
    const ps_tuned_batch *b = &tuned->batches[index];
    ps_json_begin(json, NULL, '{');
    ps_json_integer(json, "batch", b->batch);
    ps_json_integer(json, "bucket", bucket_of(tuned, index)->rows);
    ps_json_bool(json, "timed", b->is_timed);
    if (b->is_timed) {
        add_timing(json, "given", &b->given);
        add_timing(json, "tuned", &b->tuned);
    }
    ps_json_bool(json, "pays", pays(tuned, index));
    ps_json_end(json, '}');
}

static void add_bucket(ps_json_writer *json, const ps_tuned_bucket *bucket)
{
    ps_json_begin(json, NULL, '{');
    ps_json_integer(json, "rows_least", bucket->rows_least);
    ps_json_integer(json, "rows", bucket->rows);
    ps_json_integer(json, "timed", bucket->found.timed);
    ps_json_bool(json, "cut", bucket->found.is_cut);
    ps_json_bool(json, "gains", bucket->found.is_gain);
    for (int is_guess = 0; is_guess <= 1; is_guess++) {
        ps_json_begin_inline(json, is_guess ? "fits" : "ratios", '{');
        for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
            if (bucket->start.has_site[i]) {
                ps_json_number(json, site_name(i),
                               is_guess ? bucket->start.guess[i] : bucket->found.ratio[i]);
            }
        }
        ps_json_end(json, '}');
    }
    ps_json_end(json, '}');
}

void ps_tune_report_json(const ps_tune_report *report, ps_json_writer *json)
{
    const ps_tuned_ratios *tuned = report->tuned;
    ps_json_begin(json, "ratios", '{');
    ps_json_text(json, "objective", OBJECTIVES[report->objective]);
    ps_json_text(json, "way",
                 report->is_alone       ? "none"
                 : report->is_simulated ? "simulated"
                                        : "measured");
    ps_json_integer(json, "time_limit_s", report->limit_s);
    ps_json_number(json, "took_s", tuned->took_s);
    ps_json_text(json, "plan_file", report->plan_file);
    ps_json_begin(json, "batches", '[');
    for (uint32_t i = 0; i < tuned->batch_count; i++) {
        add_batch(json, tuned, i);
    }
    ps_json_end(json, ']');
    ps_json_begin(json, "buckets", '[');
    for (uint32_t i = 0; i < tuned->bucket_count; i++) {
        add_bucket(json, &tuned->buckets[i]);
    }
    ps_json_end(json, ']');
    ps_json_begin(json, "config", '{');
    add_config(tuned, json);
    ps_json_end(json, '}');
    ps_json_end(json, '}');
}

// vLLM-Ascend reads a ratio of 0 as the whole weight, where another of its module is not 0.
#define LEAST_RATIO 0.0001

static bool is_module_on(const ps_prefetch_ratios *ratios, const char *module)
{
    bool is_on = false;
    for (size_t i = 0; i < PS_RATIO_COUNT; i++) {
        is_on |= key_in(i, module) != NULL && ratios->ratio[i] > 0;
    }
    return is_on;
}

// Whether a 0 had to be written otherwise.
static bool print_module(const ps_prefetch_ratios *ratios, const char *module)
{
    const char *separator = "";
    const bool is_on = is_module_on(ratios, module);
    bool is_least = false;
    (void)printf("\"%s\": {", module);
    for (size_t i = 0; i < PS_RATIO_COUNT; i++) {
        if (key_in(i, module) != NULL) {
            const bool is_zero = is_on && ratios->ratio[i] == 0;
            (void)printf("%s\"%s\": %g", separator, key_in(i, module),
                         is_zero ? LEAST_RATIO : ratios->ratio[i]);
            separator = ", ";
            is_least |= is_zero;
        }
    }
    (void)printf("}");
    return is_least;
}

static void print_vllm_ratios(const ps_tuned_ratios *tuned, const ps_prefetch_ratios *ratios)
{
    const char *separator = "";
    bool is_least = false;
    (void)printf("--additional-config '{\"weight_prefetch_config\": {\"enabled\": true, "
                 "\"prefetch_ratio\": {");
    for (size_t m = 0; m < PS_MODULE_COUNT; m++) {
        if (tuned->has_module[m]) {
            (void)printf("%s", separator);
            is_least |= print_module(ratios, MODULES[m]);
            separator = ", ";
        }
    }
    (void)printf("}}}'\n");
    if (is_least) {
        (void)printf("# %g stands for none: 0 beside other ratios of a module would be the whole "
                     "weight there\n",
                     LEAST_RATIO);
    }
}

void ps_tune_report_vllm_ascend(const ps_tune_report *report, const char *model,
                                const char *machine, uint32_t ranks, const char *ranks_note)
{
    const ps_tuned_ratios *tuned = report->tuned;
    const ps_tuned_batch *last = &tuned->batches[tuned->batch_count - 1];
    const ps_tuned_bucket *bucket = &tuned->buckets[last->bucket];
    (void)printf("# %s on %u x %s%s, %u sequences, simulated\n", model, ranks, machine, ranks_note,
                 last->batch);
    if (last->is_timed) {
        (void)printf(
            "# predicted: a step of %.3f ms; %.2f %% less than off (%.3f ms), %.2f %% less "
            "than with the default ratios (%.3f ms)\n",
            last->tuned.ns / 1e6, 100 * last->tuned.gain, last->tuned.off_ns / 1e6,
            100 * (1 - last->tuned.ns / last->given.ns), last->given.ns / 1e6);
    }
    if (!bucket->found.is_gain) {
        (void)printf("# no ratio gains%s: off is right\n",
                     has_window(bucket) ? "" : ", there is no window to prefetch in");
        (void)printf("--additional-config '{\"weight_prefetch_config\": {\"enabled\": false}}'\n");
        return;
    }
    const ps_prefetch_ratios ratios = ps_tuned_bucket_ratios(tuned, last->bucket);
    if (is_module_on(&ratios, "mlp")) {
        (void)printf("# its prefetches of mlp.gate_up and mlp.down ask for sequence parallelism:\n"
                     "export VLLM_ASCEND_ENABLE_FLASHCOMM1=1\n");
    }
    (void)printf("--tensor-parallel-size %u --max-num-seqs %u\n", ranks, last->batch);
    print_vllm_ratios(tuned, &ratios);
}

ps_status ps_tune_report_config(const ps_tune_report *report)
{
    ps_json_writer json = {0};
    ps_json_begin_inline(&json, NULL, '{');
    add_config(report->tuned, &json);
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}
