// ctest-labels: golden
// Goal: a model computes the same bits from its compiled file as from its GGUF file, and a write
// that is cancelled leaves no file. Method: memcmp of logits over fixtures that together hold every
// kind of weight.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/compile.h"
#include "engine/made_shapes.h"
#include "engine/rank_jobs.h"

#include <unistd.h>

#define PROMPT 40
#define ANSWER 4

static const char *const MODELS[] = {"smollm-q8_0",   "smollm-q4_1",       "kmix-k",
                                     "qwen3moe-q8_0", "qwen2-f32",         "gemma3-bf16",
                                     "mixtral-f16",   "qwen3moe-wide-q4_k"};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

// Logits of ANSWER tokens behind a prompt, [ANSWER][vocabulary].
static float *logits_of(ps_model *model)
{
    const uint32_t vocabulary = vocabulary_of(model);
    float *logits = calloc((size_t)ANSWER * vocabulary, sizeof *logits);
    int32_t tokens[PROMPT + ANSWER];
    ps_session *session = NULL;
    ps_sequence sequence;
    assert_non_null(logits);
    make_prompt(tokens, PROMPT + ANSWER, 3);
    const ps_session_options options = {.context_tokens = 96, .batch_rows = 64};
    expect_ok(ps_session_create(model, &options, &session));
    expect_ok(ps_sequence_open(session, &sequence));
    expect_ok(ps_session_prefill(session, sequence, tokens, PROMPT, NULL));
    for (uint32_t i = 0; i < ANSWER; i++) {
        step_one(session, sequence, tokens[PROMPT + i], logits + (size_t)i * vocabulary,
                 vocabulary);
    }
    ps_session_destroy(session);
    return logits;
}

static void make_path(char path[64])
{
    (void)snprintf(path, 64, "/tmp/prestage-test-XXXXXX");
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    (void)close(descriptor);
}

static void test_same_bits_from_both_files(void **state)
{
    char path[64];
    ps_compile_result result;
    ps_model *model = open_golden(*state, 2);
    const uint32_t vocabulary = vocabulary_of(model);
    make_path(path);
    expect_ok(ps_model_compile(model, path, &(ps_compile_options){.replace = true}, &result));
    float *packed = logits_of(model);
    ps_model_info of_gguf;
    ps_model_get_info(model, &of_gguf);
    assert_int_equal(of_gguf.fingerprint, result.fingerprint);

    ps_model *mapped = NULL;
    expect_ok(ps_model_open(path, &(ps_model_options){.threads = 3}, &mapped));
    ps_model_info info;
    ps_model_get_info(mapped, &info);
    assert_int_equal(of_gguf.fingerprint, info.fingerprint);
    assert_int_equal(of_gguf.weight_bytes, info.weight_bytes);
    assert_int_equal(of_gguf.bytes_per_token, info.bytes_per_token);
    assert_int_equal(result.bytes, info.file_bytes);
    float *from_file = logits_of(mapped);
    assert_memory_equal(packed, from_file, (size_t)ANSWER * vocabulary * sizeof *packed);
    expect_failure(PS_INVALID, "compiled already",
                   ps_model_compile(mapped, path, &(ps_compile_options){.replace = true}, &result));
    ps_model_close(mapped);
    ps_model_close(model);
    free(packed);
    free(from_file);
    assert_int_equal(0, unlink(path));
}

// ---- on ranks

static void compile_file(const char *path, const char *compiled)
{
    ps_model *model = NULL;
    ps_compile_result result;
    expect_ok(ps_model_open(path, &(ps_model_options){.threads = 1}, &model));
    expect_ok(ps_model_compile(model, compiled, &(ps_compile_options){.replace = true}, &result));
    ps_model_close(model);
}

static const shape SHAPES[] = {
    {8, 2, 32, 256, 272, 4, 2, MADE_F16, 0, 96, "qwen3moe", 0},
    {8, 2, 32, 256, 272, 5, 3, MADE_Q8_0, 0, 96, "qwen3moe", 0},
    {6, 2, 32, 192, 272, 3, 2, MADE_Q8_0, 0, 96, NULL, 0}, // a Mixtral
};
#define SHAPE_COUNT (sizeof SHAPES / sizeof SHAPES[0])

static void run_rank_0(ps_model *model, void *context)
{
    ps_model_info info;
    int32_t tokens[PROMPT + ANSWER];
    ps_session *session = NULL;
    ps_sequence sequence;
    float *logits = context; // [ANSWER][vocabulary]
    ps_model_get_info(model, &info);
    make_prompt(tokens, PROMPT + ANSWER, 3);
    const ps_session_options options = {.context_tokens = 96, .batch_rows = 64};
    must(ps_session_create(model, &options, &session));
    must(ps_sequence_open(session, &sequence));
    must(ps_session_prefill(session, sequence, tokens, PROMPT, NULL));
    for (uint32_t i = 0; i < ANSWER; i++) {
        const ps_row row = {sequence, tokens[PROMPT + i], true};
        must(ps_session_step(session, &row, 1));
        memcpy(logits + (size_t)i * info.vocabulary, ps_session_logits(session, 0),
               info.vocabulary * sizeof *logits);
    }
    ps_session_destroy(session);
}

// Slices of records are copied: as many ranks give the same bits from both files.
static void test_experts_on_ranks(void **state)
{
    const shape *s = *state;
    const size_t floats = (size_t)ANSWER * s->vocabulary;
    ps_gen gen = {.state = 11};
    static made_model model;
    char path[64];
    char compiled[64];
    made_shape(&model, s);
    made_write(&model, &gen, path);
    make_path(compiled);
    compile_file(path, compiled);
    float *packed = shared_floats(floats);
    float *mapped = shared_floats(floats);
    for (uint32_t ranks = 0; ranks <= 2; ranks += 2) {
        for (uint32_t threads = 1; threads <= 2; threads++) {
            rank_job job = {.path = path, .ranks = ranks, .threads = threads};
            rank_job_run(&job, run_rank_0, packed);
            job.path = compiled;
            rank_job_run(&job, run_rank_0, mapped);
            assert_memory_equal(packed, mapped, floats * sizeof *packed);
        }
    }
    free_shared(packed, floats);
    free_shared(mapped, floats);
    free(model.bytes);
    model.bytes = NULL;
    (void)unlink(path);
    (void)unlink(compiled);
}

static void test_cancelled_writing_leaves_nothing(void **state)
{
    (void)state;
    const volatile bool cancel = true;
    char folder[] = "/tmp/prestage-test-XXXXXX";
    char path[64];
    ps_compile_result result;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/a.pst", folder);
    ps_model *model = open_golden("kmix-k", 1);
    expect_failure(
        PS_CANCELLED, "cancelled",
        ps_model_compile(model, path, &(ps_compile_options){.cancel = &cancel}, &result));
    ps_model_close(model);
    assert_int_equal(0, rmdir(folder)); // it is empty
}

int main(void)
{
    struct CMUnitTest tests[MODEL_COUNT + SHAPE_COUNT + 1];
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        tests[i] = (struct CMUnitTest){.name = MODELS[i],
                                       .test_func = test_same_bits_from_both_files,
                                       .initial_state = (void *)(uintptr_t)MODELS[i]};
    }
    for (size_t i = 0; i < SHAPE_COUNT; i++) {
        tests[MODEL_COUNT + i] = (struct CMUnitTest){
            .name = "experts on ranks",
            .test_func = test_experts_on_ranks,
            .initial_state = (void *)(uintptr_t)&SHAPES[i]};
    }
    tests[MODEL_COUNT + SHAPE_COUNT] = (struct CMUnitTest)cmocka_unit_test(
        test_cancelled_writing_leaves_nothing);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
