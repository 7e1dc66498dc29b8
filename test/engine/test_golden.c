// ctest-labels: golden
// ctest-timeout: 300
// Goal: every architecture and weight type computes what an independent implementation computes,
// and the same bits on every instruction set and however the prompt is cut.
// Method: the fixtures of scripts/make-golden.py, whose head describes their format and the two
// sets of logits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/golden_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const MODELS[] = {
    "llama-f16",     "llama-q8_0",  "smollm-q8_0",        "smollm-q4_1",
    "kmix-k",        "mixtral-f16", "mixtral-q8_0",       "qwen2-f32",
    "qwen2-q8_0",    "qwen3-f16",   "qwen3-q8_0",         "qwen3moe-bf16",
    "qwen3moe-q8_0", "gemma3-bf16", "qwen3moe-wide-q4_k", "gemma3-q8_0",
};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

static void expect_ok(ps_status status)
{
    if (status != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
}

typedef struct opened {
    ps_model *model;
    ps_session *session;
    ps_sequence sequence;
} opened;

static ps_status open_engine(const char *name, opened *out)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR, name);
    const ps_status status = ps_model_open(path, &(ps_model_options){.threads = 2}, &out->model);
    if (status != PS_OK) {
        return status;
    }
    const ps_session_options options = {.context_tokens = 96, .sequences = 1, .batch_rows = 64};
    expect_ok(ps_session_create(out->model, &options, &out->session));
    expect_ok(ps_sequence_open(out->session, &out->sequence));
    return PS_OK;
}

static void close_engine(opened *engine)
{
    ps_session_destroy(engine->session);
    ps_model_close(engine->model);
}

static bool is_wanted(const golden *g, uint32_t position)
{
    for (uint32_t i = 0; i < g->position_count; i++) {
        if (g->positions[i] == position) {
            return true;
        }
    }
    return false;
}

// Runs the prompt in steps of at most `chunk` rows; logits [position_count][vocabulary].
static void run_prompt(opened *engine, const golden *g, uint32_t chunk, float *logits)
{
    uint32_t done = 0;
    for (uint32_t start = 0; start < g->prompt_count; start += chunk) {
        ps_row rows[64];
        uint32_t count = 0;
        uint32_t wanted = 0;
        for (; count < chunk && start + count < g->prompt_count; count++) {
            const bool wants = is_wanted(g, start + count);
            rows[count] = (ps_row){.sequence = engine->sequence,
                                   .token = (int32_t)g->prompt[start + count],
                                   .wants_logits = wants};
            wanted += wants;
        }
        expect_ok(ps_session_step(engine->session, rows, count));
        for (uint32_t i = 0; i < wanted; i++, done++) {
            memcpy(logits + (size_t)done * g->vocabulary, ps_session_logits(engine->session, i),
                   g->vocabulary * sizeof(float));
        }
    }
    assert_int_equal(g->position_count, done);
}

static void check_logits(const golden *g, const float *logits, const float *reference, float bound,
                         const char *name)
{
    float worst = 0.0f;
    for (size_t i = 0; i < (size_t)g->position_count * g->vocabulary; i++) {
        const float off = fabsf(logits[i] - reference[i]);
        worst = off > worst ? off : worst;
        if (!(off <= bound)) {
            fail_msg("logit %zu at position %u is %g; %s says %g, bound %g", i % g->vocabulary,
                     g->positions[i / g->vocabulary], (double)logits[i], name, (double)reference[i],
                     (double)bound);
        }
    }
    printf("    off %-8s by %.5f at most, bound %.5f\n", name, (double)worst, (double)bound);
}

static void check_greedy(opened *engine, const golden *g, const float *last)
{
    for (uint32_t i = 0; i < g->greedy_count; i++) {
        assert_int_equal(g->greedy[i], best_of(last, g->vocabulary));
        const ps_row row = {
            .sequence = engine->sequence, .token = (int32_t)g->greedy[i], .wants_logits = true};
        expect_ok(ps_session_step(engine->session, &row, 1));
        last = ps_session_logits(engine->session, 0);
    }
}

static void test_logits_and_greedy_tokens(void **state)
{
    const char *name = *state;
    golden g;
    opened engine;
    load_golden(name, &g);
    expect_ok(open_engine(name, &engine));
    float *logits = calloc((size_t)g.position_count * g.vocabulary, sizeof *logits);
    assert_non_null(logits);
    run_prompt(&engine, &g, g.prompt_count, logits);
    check_logits(&g, logits, g.exact, EXACT_FACTOR * g.noise + SUMS, "exact");
    check_logits(&g, logits, g.rounded, ROUNDED_FACTOR * g.noise + SUMS, "rounded");
    check_greedy(&engine, &g, logits + (size_t)(g.position_count - 1) * g.vocabulary);
    free(logits);
    free(g.exact);
    close_engine(&engine);
}

// The same bits on every ISA of this CPU, with the prompt in one piece, in sevens and one by one.
static void test_bits_do_not_depend_on_isa_or_chunks(void **state)
{
    static const char *const ISAS[] = {"ref", "avx2", "avx512"};
    static const uint32_t CHUNKS[] = {40, 7, 1};
    const char *name = *state;
    golden g;
    load_golden(name, &g);
    const size_t values = (size_t)g.position_count * g.vocabulary;
    float *first = calloc(values, sizeof *first);
    float *other = calloc(values, sizeof *other);
    assert_true(first != NULL && other != NULL);
    for (size_t i = 0; i < sizeof ISAS / sizeof ISAS[0]; i++) {
        for (size_t c = 0; c < sizeof CHUNKS / sizeof CHUNKS[0]; c++) {
            opened engine;
            assert_int_equal(0, setenv("PS_ISA", ISAS[i], 1));
            const ps_status status = open_engine(name, &engine);
            if (status == PS_UNSUPPORTED && i > 0) {
                continue; // this CPU lacks it
            }
            expect_ok(status);
            const bool is_first = i == 0 && c == 0;
            run_prompt(&engine, &g, CHUNKS[c], is_first ? first : other);
            if (!is_first && memcmp(first, other, values * sizeof *first) != 0) {
                fail_msg("%s: %s in chunks of %u differs", name, ISAS[i], CHUNKS[c]);
            }
            close_engine(&engine);
        }
    }
    assert_int_equal(0, unsetenv("PS_ISA"));
    free(first);
    free(other);
    free(g.exact);
}

int main(void)
{
    static char names[2 * MODEL_COUNT][64];
    struct CMUnitTest tests[2 * MODEL_COUNT];
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        void *name = (void *)(uintptr_t)MODELS[i];
        (void)snprintf(names[2 * i], sizeof names[0], "%s: logits and greedy", MODELS[i]);
        (void)snprintf(names[2 * i + 1], sizeof names[0], "%s: same bits", MODELS[i]);
        tests[2 * i] = (struct CMUnitTest){.name = names[2 * i],
                                           .test_func = test_logits_and_greedy_tokens,
                                           .initial_state = name};
        tests[2 * i + 1] = (struct CMUnitTest){
            .name = names[2 * i + 1],
            .test_func = test_bits_do_not_depend_on_isa_or_chunks,
            .initial_state = name};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
