// cli/bench_streams.c - `prestage bench --streams N`: conversations alone, and all at once.
//
// Each stream has a prompt of its own (-p) and is answered greedily (-n). First each runs alone,
// then all of them in common steps; every answer has to be the same both times. What streams share
// is said by the experts that they want together: distinct ones of all pairs (row, choice).
#include "base/clock.h"
#include "cli/bench.h"
#include "cli/interrupt.h"

#include <stdlib.h>
#include <string.h>

typedef struct streams {
    const ps_cli_options *options;
    ps_model *model;
    ps_session *session;
    ps_model_info info;
    uint32_t count, prompt, generate;
    int32_t *prompts; // [count][prompt]
    int32_t *alone;   // [count][generate]
    int32_t *together;
    uint64_t alone_ns, together_ns; // of generating
    ps_expert_report before, after; // of generating together
    bool is_streamed;
} streams;

static int32_t best_of(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return (int32_t)best;
}

// Streams [first, first + count) together; their answers go to out.
static ps_status answer(streams *s, uint32_t first, uint32_t count, int32_t *out, uint64_t *sum_ns)
{
    ps_sequence sequences[PS_CLI_SEQUENCES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        const int32_t *prompt = s->prompts + (size_t)(first + i) * s->prompt;
        PS_TRY(ps_sequence_open(s->session, &sequences[i]));
        PS_TRY(ps_session_prefill(s->session, sequences[i], prompt, s->prompt,
                                  ps_cli_interrupt_flag()));
        out[(size_t)(first + i) * s->generate] = best_of(ps_session_logits(s->session, 0),
                                                         s->info.vocabulary);
    }
    if (count > 1) {
        s->is_streamed = ps_session_experts_get(s->session, &s->before);
    }
    for (uint32_t t = 1; t < s->generate; t++) {
        ps_row rows[PS_CLI_SEQUENCES_MAX];
        for (uint32_t i = 0; i < count; i++) {
            rows[i] = (ps_row){sequences[i], out[(size_t)(first + i) * s->generate + t - 1], true};
        }
        if (*ps_cli_interrupt_flag()) {
            return ps_fail(PS_CANCELLED, "interrupted");
        }
        const uint64_t start = ps_clock_ns();
        PS_TRY(ps_session_step(s->session, rows, count));
        *sum_ns += ps_clock_ns() - start;
        for (uint32_t i = 0; i < count; i++) {
            out[(size_t)(first + i) * s->generate + t] = best_of(ps_session_logits(s->session, i),
                                                                 s->info.vocabulary);
        }
    }
    if (count > 1) {
        (void)ps_session_experts_get(s->session, &s->after);
    }
    for (uint32_t i = 0; i < count; i++) {
        ps_sequence_close(s->session, sequences[i]);
    }
    return PS_OK;
}

static ps_status compare(const streams *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        for (uint32_t t = 0; t < s->generate; t++) {
            const size_t at = (size_t)i * s->generate + t;
            if (s->alone[at] != s->together[at]) {
                return ps_fail(PS_INTERNAL,
                               "stream %u: token %u is %d alone and %d beside the others", i, t,
                               s->alone[at], s->together[at]);
            }
        }
    }
    return PS_OK;
}

static double rate(double tokens, uint64_t ns)
{
    return ns == 0 ? 0 : tokens * 1e9 / (double)ns;
}

static double distinct_share(const streams *s)
{
    const uint64_t routed = s->after.routed - s->before.routed;
    return routed == 0 ? 0 : (double)(s->after.wanted - s->before.wanted) / (double)routed;
}

static ps_status print(const streams *s)
{
    const double steps = s->generate - 1;
    const double alone = rate(steps * s->count, s->alone_ns);
    const double together = rate(steps * s->count, s->together_ns);
    if (s->options->format != PS_CLI_JSON && !s->options->json) {
        (void)printf("%u streams of %u + %u tokens: %.2f tok/s together, %.2f each; %.2f alone; "
                     "answers equal\n",
                     s->count, s->prompt, s->generate, together, together / s->count, alone);
        if (s->is_streamed) {
            (void)printf("distinct experts of a step's pairs: %.3f\n", distinct_share(s));
        }
        ps_cli_experts_print(s->model, s->session, stdout);
        return PS_OK;
    }
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_integer(&json, "streams", s->count);
    ps_json_integer(&json, "n_prompt", s->prompt);
    ps_json_integer(&json, "n_gen", s->generate);
    ps_json_number(&json, "together_ts", together);
    ps_json_number(&json, "alone_ts", alone);
    ps_json_bool(&json, "answers_equal", true);
    if (s->is_streamed) {
        ps_json_number(&json, "distinct", distinct_share(s));
    }
    ps_cli_experts_json(s->model, s->session, &json);
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

static ps_status make_prompts(streams *s)
{
    const size_t answers = (size_t)s->count * s->generate;
    s->prompts = malloc(((size_t)s->count * s->prompt + 2 * answers) * sizeof *s->prompts);
    if (s->prompts == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for %u streams", s->count);
    }
    s->alone = s->prompts + (size_t)s->count * s->prompt;
    s->together = s->alone + answers;
    ps_rng rng = ps_rng_seed(1);
    for (size_t i = 0; i < (size_t)s->count * s->prompt; i++) {
        s->prompts[i] = (int32_t)(ps_rng_next(&rng) % s->info.vocabulary);
    }
    return PS_OK;
}

static ps_status run(streams *s)
{
    PS_TRY(make_prompts(s));
    for (uint32_t i = 0; i < s->count; i++) {
        PS_TRY(answer(s, i, 1, s->alone, &s->alone_ns));
    }
    PS_TRY(answer(s, 0, s->count, s->together, &s->together_ns));
    PS_TRY(compare(s));
    return print(s);
}

ps_status ps_bench_streams(const ps_cli_options *options)
{
    streams s = {.options = options,
                 .count = options->streams,
                 .prompt = options->prompts.count > 0 ? options->prompts.values[0] : 1,
                 .generate = options->generations.count > 0 ? options->generations.values[0] : 1};
    if (s.prompt == 0 || s.generate < 2 || options->prompts.count > 1 ||
        options->generations.count > 1) {
        return ps_fail(PS_INVALID, "--streams with one length of prompts (-p, at least 1) and one "
                                   "of answers (-n, at least 2) would be right");
    }
    ps_session_options session = ps_cli_session_options(options);
    session.context_tokens = s.prompt + s.generate;
    session.sequences = s.count;
    ps_status status = ps_cli_model_open(options, options->thread_counts.values[0], &session,
                                         &s.model);
    if (status == PS_OK) {
        ps_model_get_info(s.model, &s.info);
        status = ps_session_create(s.model, &session, &s.session);
    }
    if (status == PS_OK) {
        status = run(&s);
    }
    ps_session_destroy(s.session);
    free(s.prompts);
    return ps_cli_model_close(options, s.model, status);
}
