// cli/cmd_bench.c - `prestage bench`: the tests of llama-bench, with a ceiling beside decoding.
//
// A test reads P tokens and generates N, behind D tokens that are already in the context, for S
// sequences at once. Tokens are random: speed does not depend on them, but where experts are
// streamed, which therefore get new ones in each run. The D tokens are read once;
// a sequence goes back to them before each run. Each test runs once to warm up, then R times. The
// ceiling is what the same threads read from memory at best, measured right before and right after
// a test of decoding; the larger counts. With --ops the repetitions are profiled, which costs them
// about a percent, and every test has a ceiling.
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/quantile.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "engine/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TESTS_MAX 4096u

// ---- the list of tests

static void add_test(ps_bench_test *tests, uint32_t *count, ps_bench_test test, uint32_t prompt,
                     uint32_t generate)
{
    if (prompt + generate == 0) {
        return;
    }
    if (*count < TESTS_MAX) {
        test.prompt = prompt;
        test.generate = generate;
        tests[*count] = test;
    }
    (*count)++;
}

// The workload of PRESERVE (arXiv 2501.08192, section 5): nobody joins or leaves.
static bool is_static(const ps_cli_options *options)
{
    return options->static_batch > 0;
}

// The tests of one thread count, depth and number of sequences.
static void add_tests(const ps_cli_options *options, ps_bench_test *tests, uint32_t *count,
                      ps_bench_test test)
{
    for (uint32_t i = 0; i < options->prompts.count; i++) {
        add_test(tests, count, test, options->prompts.values[i], 0);
    }
    for (uint32_t i = 0; i < options->generations.count; i++) {
        add_test(tests, count, test, 0, options->generations.values[i]);
    }
    for (uint32_t i = 0; i < options->pair_prompts.count; i++) {
        add_test(tests, count, test, options->pair_prompts.values[i],
                 options->pair_generations.values[i]);
    }
}

// Threads change slowest, because a model is opened for each; then depths, as llama-bench does.
// Answers how many there are; only the first TESTS_MAX are written.
static uint32_t list_tests(const ps_cli_options *options, ps_bench_test tests[TESTS_MAX])
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < options->thread_counts.count; t++) {
        if (is_static(options)) {
            const uint32_t generate = options->static_tokens / 3;
            add_test(tests, &count,
                     (ps_bench_test){.threads = options->thread_counts.values[t],
                                     .sequences = options->static_batch},
                     options->static_tokens - generate, generate);
            continue;
        }
        for (uint32_t d = 0; d < options->depths.count; d++) {
            for (uint32_t s = 0; s < options->parallel.count; s++) {
                add_tests(options, tests, &count,
                          (ps_bench_test){.threads = options->thread_counts.values[t],
                                          .depth = options->depths.values[d],
                                          .sequences = options->parallel.values[s]});
            }
        }
    }
    return count;
}

// Of each sequence.
static uint64_t tokens_of(const ps_bench_test *test)
{
    return (uint64_t)test->depth + test->prompt + test->generate;
}

// ---- one measurement

static ps_status check_interrupt(void)
{
    return *ps_cli_interrupt_flag() ? PS_CANCELLED : PS_OK;
}

static const int32_t *tokens_of_run(const ps_bench *b, uint32_t sequence)
{
    return b->fresh == NULL ? b->tokens : b->fresh + sequence;
}

static void draw_tokens(ps_bench *b, int32_t *tokens, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)(ps_rng_next(&b->rng) % b->info.vocabulary);
    }
}

static ps_status read_tokens(ps_bench *b, const ps_bench_test *test, uint32_t count)
{
    for (uint32_t s = 0; s < test->sequences && count > 0; s++) {
        PS_TRY(ps_session_prefill(b->side->session, b->side->sequences[s], tokens_of_run(b, s),
                                  count, ps_cli_interrupt_flag()));
    }
    return PS_OK;
}

// Policies that are compared must come to the same tokens. Answers how long it looked.
static uint64_t note_tokens(ps_bench *b, uint32_t sequences)
{
    const uint64_t start_ns = ps_clock_ns();
    for (uint32_t s = 0; s < sequences && b->side_count > 1; s++) {
        const float *logits = ps_session_logits(b->side->session, s);
        uint32_t best = 0;
        for (uint32_t i = 1; i < b->info.vocabulary; i++) {
            best = logits[i] > logits[best] ? i : best;
        }
        b->side->row.picked = ps_hash(&best, sizeof best, b->side->row.picked);
    }
    return ps_clock_ns() - start_ns;
}

// What memory gives between steps, while they are measured. Answers how long it looked.
static uint64_t note_memory(ps_bench *b, double *ns_per_byte)
{
    const uint64_t start_ns = ps_clock_ns();
    *ns_per_byte += b->options->predicts ? 1 / ps_predict_measure_read(b->model) : 0;
    return ps_clock_ns() - start_ns;
}

// Nanoseconds in the model, and with --predict what was read from memory meanwhile.
static ps_status generate_tokens(ps_bench *b, const ps_bench_test *test, uint64_t *out_ns,
                                 double *out_read_gbs)
{
    const uint64_t start_ns = ps_clock_ns();
    double ns_per_byte = 0;
    uint64_t looking_ns = 0;
    for (uint32_t i = 0; i < test->generate; i++) {
        looking_ns += note_memory(b, &ns_per_byte);
        ps_row rows[PS_CLI_SEQUENCES_MAX];
        for (uint32_t s = 0; s < test->sequences; s++) {
            rows[s] = (ps_row){b->side->sequences[s], tokens_of_run(b, s)[i], true};
        }
        PS_TRY(check_interrupt());
        PS_TRY(ps_session_step(b->side->session, rows, test->sequences));
        looking_ns += note_tokens(b, test->sequences);
    }
    *out_ns = ps_clock_ns() - start_ns - looking_ns;
    *out_read_gbs = ns_per_byte > 0 ? test->generate / ns_per_byte : 0;
    return check_interrupt();
}

// Leaves the tokens of the depth in the sequences: what comes behind them is forgotten, or they are
// read, where they have not been or a sliding window has dropped them.
static ps_status go_to_depth(ps_bench *b, const ps_bench_test *test)
{
    ps_session *session = b->side->session;
    for (uint32_t s = 0; s < test->sequences; s++) {
        const ps_sequence sequence = b->side->sequences[s];
        if (ps_sequence_truncate(session, sequence, test->depth) == PS_OK) {
            continue;
        }
        if (b->options->predicts && s > 0) { // only the steps behind are measured
            ps_sequence_close(session, sequence);
            PS_TRY(ps_sequence_copy(session, b->side->sequences[0], &b->side->sequences[s]));
            continue;
        }
        PS_TRY(ps_sequence_truncate(session, sequence, 0));
        PS_TRY(
            ps_session_prefill(session, sequence, b->tokens, test->depth, ps_cli_interrupt_flag()));
    }
    return PS_OK;
}

static ps_status measure_once(ps_bench *b, const ps_bench_test *test, uint32_t repetition)
{
    ps_bench_row *row = &b->side->row;
    uint64_t generate_ns = 0;
    PS_TRY(go_to_depth(b, test));
    draw_tokens(b, b->fresh, b->fresh_count);
    if (b->options->operators) {
        PS_TRY(ps_session_profile_start(b->side->session));
    }
    const uint64_t start_ns = ps_clock_ns();
    PS_TRY(read_tokens(b, test, test->prompt));
    const uint64_t prompt_ns = ps_clock_ns() - start_ns;
    (void)note_tokens(b, test->prompt > 0 ? 1 : 0); // behind the last prompt
    PS_TRY(generate_tokens(b, test, &generate_ns, &row->read_gbs[repetition]));
    ps_session_profile_stop(b->side->session);
    row->prompt_ms[repetition] = (double)prompt_ns / 1e6;
    row->generate_ms[repetition] = (double)generate_ns / 1e6;
    row->tokens_per_s[repetition] = (double)test->sequences * (test->prompt + test->generate) *
                                    1e9 / (double)(prompt_ns + generate_ns);
    return PS_OK;
}

// One step of each kind, so that code, weights and workspaces are warm.
static ps_status warm_up(ps_bench *b, const ps_bench_test *test)
{
    ps_bench_test shorter = *test;
    shorter.generate = test->generate < 4 ? test->generate : 4;
    return measure_once(b, &shorter, 0);
}

static ps_status open_sequences(ps_bench *b, const ps_bench_test *test)
{
    for (uint32_t s = 0; s < test->sequences; s++) {
        PS_TRY(ps_sequence_open(b->side->session, &b->side->sequences[s]));
    }
    return PS_OK;
}

static void close_sequences(ps_bench *b, const ps_bench_test *test)
{
    for (uint32_t s = 0; s < test->sequences; s++) {
        ps_sequence_close(b->side->session, b->side->sequences[s]);
    }
}

double ps_bench_mean(const double *samples, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += samples[i];
    }
    return sum / count;
}

static void summarise(ps_bench_row *row, uint32_t repetitions)
{
    row->mean = ps_bench_mean(row->tokens_per_s, repetitions);
    double squares = 0;
    for (uint32_t i = 0; i < repetitions; i++) {
        const double difference = row->tokens_per_s[i] - row->mean;
        squares += difference * difference;
    }
    row->deviation = repetitions > 1 ? sqrt(squares / (repetitions - 1)) : 0;
}

static ps_status raise_ceiling(ps_bench *b)
{
    double gbs = 0;
    PS_TRY(ps_model_measure_read(b->model, &gbs));
    if (gbs > b->side->row.ceiling_gbs) {
        b->side->row.ceiling_gbs = gbs;
    }
    return PS_OK;
}

static ps_status prepare_side(ps_bench *b, const ps_bench_test *test, bool has_ceiling)
{
    ps_session_info session;
    ps_session_get_info(b->side->session, &session);
    b->side->row.test = *test;
    b->side->row.test.threads = b->info.threads;
    b->side->row.gbs = 0;
    b->side->row.ceiling_gbs = 0;
    b->side->row.barriers = session.barriers_per_step;
    b->side->row.best_logits = session.best_logits;
    PS_TRY(open_sequences(b, test));
    PS_TRY(warm_up(b, test));
    b->side->row.picked = 0;
    ps_session_profile_reset(b->side->session);
    return has_ceiling ? raise_ceiling(b) : PS_OK;
}

// Repetitions stand side by side, so that a drift of the machine's speed meets all.
static void compare_side(ps_bench *b, uint32_t repetitions)
{
    double ratios[1000];
    ps_bench_row *row = &b->side->row;
    for (uint32_t i = 0; i < repetitions; i++) {
        ratios[i] = row->tokens_per_s[i] / b->sides[0].row.tokens_per_s[i];
    }
    row->ratio = ps_median(ratios, repetitions);
    row->ratio_lowest = ratios[0];
    row->ratio_highest = ratios[repetitions - 1];
}

// Weights, which a step reads once for all its sequences, and the KV of the token's own.
static double bytes_per_token(const ps_bench *b, const ps_bench_test *test)
{
    double kv = 0;
    for (uint32_t i = 0; i < test->generate; i++) {
        kv += (double)ps_session_kv_read_bytes(b->side->session, test->depth + i);
    }
    return (double)b->info.bytes_per_token / test->sequences + kv / test->generate;
}

static ps_status finish_side(ps_bench *b, const ps_bench_test *test, bool has_ceiling)
{
    ps_bench_row *row = &b->side->row;
    close_sequences(b, test);
    if (has_ceiling) {
        PS_TRY(raise_ceiling(b));
    }
    summarise(row, b->options->repetitions);
    if (test->prompt == 0) {
        row->bytes_per_token = bytes_per_token(b, test);
        row->gbs = row->mean * row->bytes_per_token / 1e9;
    }
    if (b->side_count > 1) {
        compare_side(b, b->options->repetitions);
    }
    return row->picked == b->sides[0].row.picked
               ? PS_OK
               : ps_fail(PS_INTERNAL, "policies '%s' and '%s' came to different tokens",
                         b->sides[0].what.name, b->side->what.name);
}

// Measuring it takes half a GiB, which a limit of memory has no room for.
static bool wants_ceiling(const ps_cli_options *options, const ps_bench_test *test)
{
    return (test->prompt == 0 || options->operators) && !options->no_ceiling &&
           !options->predicts && options->memory_bytes == 0 && options->memory_share == 0;
}

static ps_status measure_test(ps_bench *b, const ps_bench_test *test)
{
    const bool has_ceiling = wants_ceiling(b->options, test);
    for (uint32_t s = 0; s < b->side_count; s++) {
        b->side = &b->sides[s];
        PS_TRY(prepare_side(b, test, has_ceiling));
    }
    for (uint32_t i = 0; i < b->options->repetitions; i++) {
        for (uint32_t s = 0; s < b->side_count; s++) {
            b->side = &b->sides[s];
            PS_TRY(measure_once(b, test, i));
            ps_log(PS_LOG_INFO, "repetition %u, %s: %.2f tok/s", i + 1, ps_bench_policy(b),
                   b->side->row.tokens_per_s[i]);
        }
    }
    for (uint32_t s = 0; s < b->side_count; s++) {
        b->side = &b->sides[s];
        PS_TRY(finish_side(b, test, has_ceiling));
        ps_cli_prefetch_warn(b->options, b->side->what.prefetch, b->side->session);
    }
    return PS_OK;
}

// ---- the command

static ps_status make_tokens(ps_bench *b, uint64_t count)
{
    b->tokens = malloc((count + 1) * sizeof *b->tokens);
    if (b->tokens == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for %llu tokens", (unsigned long long)count);
    }
    b->rng = ps_rng_seed(1);
    draw_tokens(b, b->tokens, count);
    return PS_OK;
}

static ps_status make_fresh_tokens(ps_bench *b, uint64_t count)
{
    ps_expert_report report;
    if (!ps_session_experts_get(b->sides[0].session, &report)) {
        return PS_OK;
    }
    b->fresh = malloc(count * sizeof *b->fresh);
    b->fresh_count = b->fresh == NULL ? 0 : count;
    return b->fresh == NULL
               ? ps_fail(PS_NO_MEMORY, "no memory for %llu tokens", (unsigned long long)count)
               : PS_OK;
}

// --compare SIDE,... or what the other options say.
static ps_status list_sides(ps_bench *b)
{
    ps_cli_side sides[PS_BENCH_SIDES_MAX] = {
        {.prefetch = (ps_prefetch_policy)b->options->prefetch,
         .comm_schedule = (ps_comm_schedule)b->options->comm_schedule}};
    (void)snprintf(sides[0].name, sizeof sides[0].name, "%s",
                   ps_prefetch_policy_name(sides[0].prefetch));
    b->side_count = 1;
    const char *compare = b->options->compare == NULL && b->options->predicts ? "off,auto"
                                                                              : b->options->compare;
    if (compare != NULL) {
        PS_TRY(ps_cli_sides_parse(compare, sides, PS_BENCH_SIDES_MAX, &b->side_count));
    }
    for (uint32_t s = 0; s < b->side_count; s++) {
        b->sides[s].what = sides[s];
    }
    return PS_OK;
}

static ps_session_options session_of(const ps_bench *b, uint32_t context_tokens, uint32_t sequences)
{
    ps_session_options options = ps_cli_session_options(b->options);
    options.context_tokens = context_tokens;
    options.sequences = sequences;
    return options;
}

static ps_status create_sessions(ps_bench *b, uint32_t context_tokens, uint32_t sequences)
{
    for (uint32_t s = 0; s < b->side_count; s++) {
        ps_session_options options = session_of(b, context_tokens, sequences);
        options.prefetch = b->sides[s].what.prefetch;
        options.comm_schedule = b->sides[s].what.comm_schedule;
        options.best_logits = 1; // policies are compared by the best token
        // Of policies side by side it is auto's.
        if (b->side_count > 1 && options.prefetch != PS_PREFETCH_AUTO) {
            options.prefetch_threads = 0;
        }
        PS_TRY(ps_session_create(b->model, &options, &b->sides[s].session));
    }
    return PS_OK;
}

static ps_status add_result(ps_bench *b)
{
    if (b->options->predicts) {
        return ps_bench_predict_add(b);
    }
    ps_bench_add_result(b);
    return PS_OK;
}

// Tests of one thread count: a model and a session that hold the longest of them.
static ps_status run_tests(ps_bench *b, const ps_bench_test *tests, uint32_t count)
{
    uint64_t longest = 1;
    uint32_t sequences = 1;
    for (uint32_t i = 0; i < count; i++) {
        longest = tokens_of(&tests[i]) > longest ? tokens_of(&tests[i]) : longest;
        sequences = tests[i].sequences > sequences ? tests[i].sequences : sequences;
    }
    const ps_session_options options = session_of(
        b, longest < UINT32_MAX ? (uint32_t)longest : UINT32_MAX, sequences);
    PS_TRY(ps_cli_model_open(b->options, tests[0].threads, &options, &b->model));
    ps_model_get_info(b->model, &b->info);
    if (longest > b->info.context_tokens) {
        return ps_fail(PS_INVALID,
                       "a test of %llu tokens: the model was made for at most %u (-p, -n, -d)",
                       (unsigned long long)longest, b->info.context_tokens);
    }
    PS_TRY(make_tokens(b, longest));
    b->is_new_model = true;
    PS_TRY(b->options->predicts ? ps_predict_prepare(b->model) : PS_OK);
    PS_TRY(create_sessions(b, (uint32_t)longest, sequences));
    PS_TRY(make_fresh_tokens(b, longest + sequences));
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(measure_test(b, &tests[i]));
        for (uint32_t s = 0; s < b->side_count; s++) {
            b->side = &b->sides[s];
            PS_TRY(add_result(b));
        }
    }
    if (b->options->format == PS_CLI_MD) { // of all tests
        ps_cli_experts_print(b->model, b->sides[0].session, stdout);
    }
    return PS_OK;
}

static ps_status end_tests(ps_bench *b, ps_status status)
{
    for (uint32_t s = 0; s < b->side_count; s++) {
        ps_session_destroy(b->sides[s].session);
        b->sides[s].session = NULL;
    }
    status = ps_cli_model_close(b->options, b->model, status);
    free(b->tokens);
    free(b->fresh);
    b->model = NULL;
    b->tokens = NULL;
    b->fresh = NULL;
    b->fresh_count = 0;
    return status;
}

static ps_status run_all(ps_bench *b, const ps_bench_test *tests, uint32_t count)
{
    const bool predicts = b->options->predicts;
    if (predicts) {
        PS_TRY(ps_bench_predict_begin(b, count * b->side_count));
    } else {
        ps_json_begin(&b->json, NULL, '[');
    }
    for (uint32_t at = 0; at < count;) {
        uint32_t end = at + 1;
        while (end < count && tests[end].threads == tests[at].threads) {
            end++;
        }
        PS_TRY(end_tests(b, run_tests(b, tests + at, end - at)));
        at = end;
    }
    if (predicts) {
        ps_bench_predict_end(b);
    } else {
        ps_json_end(&b->json, ']');
    }
    return b->options->format == PS_CLI_JSON ? ps_json_print(&b->json) : PS_OK;
}

static ps_status check_count(const ps_cli_options *options, uint32_t count)
{
    if (is_static(options) != (options->static_tokens > 0)) {
        return ps_fail(PS_INVALID, "--static-batch N and --seq N belong together");
    }
    if (options->compare != NULL && (options->memory_bytes > 0 || options->memory_share > 0)) {
        return ps_fail(PS_INVALID, "--memory with --compare: each side would want all of it");
    }
    if (options->route_log != NULL && options->thread_counts.count > 1) {
        return ps_fail(PS_INVALID,
                       "--route-log with %u numbers of threads: each would write it anew; "
                       "one would be right",
                       options->thread_counts.count);
    }
    if (count == 0) {
        return ps_fail(PS_INVALID, "no tests: -p and -n are 0, and there is no -pg");
    }
    if (count > TESTS_MAX) {
        return ps_fail(PS_INVALID, "%u tests: at most %u would be right", count, TESTS_MAX);
    }
    return PS_OK;
}

ps_status ps_cli_bench(const ps_cli_options *options)
{
    PS_TRY(ps_cli_model_check(options));
    PS_TRY(options->predicts ? ps_bench_predict_check(options) : PS_OK);
    if (options->streams > 0) {
        ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
        const ps_status streams = ps_bench_streams(options);
        ps_cli_interrupt_set(PS_CLI_INTERRUPT_ENDS);
        return streams;
    }
    ps_bench *b = calloc(1, sizeof *b);
    ps_bench_test *tests = calloc(TESTS_MAX, sizeof *tests);
    ps_status status = PS_OK;
    if (b == NULL || tests == NULL) {
        status = ps_fail(PS_NO_MEMORY, "no memory for a list of tests");
    } else {
        b->options = options;
        const uint32_t count = list_tests(options, tests);
        status = check_count(options, count);
        if (status == PS_OK) {
            status = list_sides(b);
        }
        ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
        if (status == PS_OK) {
            status = run_all(b, tests, count);
        }
        ps_cli_interrupt_set(PS_CLI_INTERRUPT_ENDS);
        ps_buffer_deinit(&b->json.text);
    }
    free(tests);
    free(b == NULL ? NULL : b->errors);
    free(b);
    return status;
}
