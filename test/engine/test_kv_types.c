// ctest-labels: golden;prop
// ctest-timeout: 300
// Goal: with every pair of KV types logits are a pure function of a sequence's tokens, as they are
// with f16, and q8_0 is a little rounding in about half the bytes.
// Method: memcmp of logits between ISAs, thread counts, pieces and a fork; distance to those of
// f16; sizes by the formats' own block sizes.
#include "engine/engine_test.h"

#include <math.h>

#define PROMPT 290 // more than one chunk of attention, and not whole blocks
#define ANSWER 4
#define CONTEXT 512

static const char *const MODELS[] = {"smollm-q4_1", "gemma3-q8_0", "kmix-k"};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

typedef struct kv_types {
    ps_kv_type k, v;
} kv_types;

static const kv_types F16_ONLY = {PS_KV_F16, PS_KV_F16};
static const kv_types OTHERS[] = {
    {PS_KV_Q8_0, PS_KV_Q8_0}, {PS_KV_Q8_0, PS_KV_F16}, {PS_KV_F16, PS_KV_Q8_0}};
#define OTHER_COUNT (sizeof OTHERS / sizeof OTHERS[0])

static ps_session *open_session(ps_model *model, kv_types types)
{
    ps_session *session = NULL;
    const ps_session_options options = {.context_tokens = CONTEXT,
                                        .sequences = 2,
                                        .batch_rows = 128,
                                        .k_type = types.k,
                                        .v_type = types.v};
    expect_ok(ps_session_create(model, &options, &session));
    return session;
}

// Logits [ANSWER * vocabulary] of ANSWER single tokens behind a prompt in pieces. forks: the answer
// is given by a fork, whose parent goes on with other tokens.
static void run(ps_session *session, uint32_t piece, bool forks, float *logits, uint32_t vocabulary)
{
    int32_t tokens[PROMPT + ANSWER];
    make_prompt(tokens, PROMPT + ANSWER, 11);
    ps_sequence sequence;
    ps_sequence parent = 0;
    expect_ok(ps_sequence_open(session, &sequence));
    for (uint32_t i = 0; i < PROMPT; i += piece) {
        const uint32_t count = PROMPT - i < piece ? PROMPT - i : piece;
        expect_ok(ps_session_prefill(session, sequence, tokens + i, count, NULL));
    }
    if (forks) {
        parent = sequence;
        expect_ok(ps_sequence_fork(session, parent, &sequence));
    }
    for (uint32_t i = 0; i < ANSWER; i++) {
        if (forks) {
            const ps_row row = {.sequence = parent, .token = tokens[i]};
            expect_ok(ps_session_step(session, &row, 1));
        }
        step_one(session, sequence, tokens[PROMPT + i], logits + (size_t)i * vocabulary,
                 vocabulary);
    }
    ps_sequence_close(session, sequence);
    if (forks) {
        ps_sequence_close(session, parent);
    }
}

static float *new_logits(uint32_t vocabulary)
{
    float *logits = calloc((size_t)ANSWER * vocabulary, sizeof *logits);
    assert_non_null(logits);
    return logits;
}

// One run in a way of its own. PS_ISA is read when a model is opened.
static float *logits_of(const char *name, const char *isa, uint32_t threads, kv_types types,
                        uint32_t piece, bool forks)
{
    assert_int_equal(0, isa == NULL ? unsetenv("PS_ISA") : setenv("PS_ISA", isa, 1));
    ps_model *model = open_golden(name, threads);
    ps_session *session = open_session(model, types);
    float *logits = new_logits(vocabulary_of(model));
    run(session, piece, forks, logits, vocabulary_of(model));
    ps_session_destroy(session);
    ps_model_close(model);
    return logits;
}

static void test_same_bits(void **state)
{
    static const struct {
        const char *isa; // NULL: the best one
        uint32_t threads, piece;
        bool forks;
    } WAYS[] = {{"ref", 1, PROMPT, false}, {NULL, 1, PROMPT, false}, {NULL, 2, 100, false},
                {NULL, 3, 37, true},       {"avx2", 2, 8, false},    {"avx2", 1, PROMPT, true}};
    const char *name = *state;
    ps_model *model = open_golden(name, 1);
    const size_t bytes = (size_t)ANSWER * vocabulary_of(model) * sizeof(float);
    ps_model_close(model);
    for (size_t t = 0; t < OTHER_COUNT; t++) {
        float *first = NULL;
        for (size_t w = 0; w < sizeof WAYS / sizeof WAYS[0]; w++) {
            float *logits = logits_of(name, WAYS[w].isa, WAYS[w].threads, OTHERS[t], WAYS[w].piece,
                                      WAYS[w].forks);
            if (first == NULL) {
                first = logits;
                continue;
            }
            if (memcmp(first, logits, bytes) != 0) {
                fail_msg("%s: types %s, %s: way %zu differs", name, ps_kv_type_name(OTHERS[t].k),
                         ps_kv_type_name(OTHERS[t].v), w);
            }
            free(logits);
        }
        free(first);
    }
}

// The root of the mean square of a - b, in units of that of a.
static double distance(const float *a, const float *b, size_t n)
{
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)a[i] * a[i];
    }
    return sqrt(difference / size);
}

// A q8_0 value is off by a percent of its head's usual one, and these models are random: their
// layers smooth nothing.
static void test_close_to_f16(void **state)
{
    ps_model *model = open_golden(*state, 2);
    const size_t count = (size_t)ANSWER * vocabulary_of(model);
    ps_model_close(model);
    float *exact = logits_of(*state, NULL, 2, F16_ONLY, PROMPT, false);
    for (size_t t = 0; t < OTHER_COUNT; t++) {
        float *rounded = logits_of(*state, NULL, 2, OTHERS[t], PROMPT, false);
        const double is = distance(exact, rounded, count);
        if (!(is > 0 && is < 0.05)) {
            fail_msg("%s: types %s, %s are %g from f16", (const char *)*state,
                     ps_kv_type_name(OTHERS[t].k), ps_kv_type_name(OTHERS[t].v), is);
        }
        free(rounded);
    }
    free(exact);
}

// Bytes of the pool, and those that attention of a decode step reads.
static void measure(ps_model *model, kv_types types, uint64_t *out_pool, uint64_t *out_read)
{
    ps_session *session = open_session(model, types);
    ps_session_info info;
    ps_profile profile;
    float *logits = new_logits(vocabulary_of(model));
    ps_session_get_info(session, &info);
    expect_ok(ps_session_profile_start(session));
    run(session, PROMPT, false, logits, vocabulary_of(model));
    ps_session_profile_get(session, &profile);
    *out_pool = info.kv_bytes;
    *out_read = 0;
    for (uint32_t i = 0; i < profile.op_count; i++) {
        *out_read += profile.ops[i].kv_bytes;
    }
    free(logits);
    ps_session_destroy(session);
}

// 32 values are 64 bytes as f16 and 34 as q8_0.
static void test_bytes(void **state)
{
    ps_model *model = open_golden(*state, 1);
    uint64_t pool = 0;
    uint64_t read = 0;
    measure(model, F16_ONLY, &pool, &read);
    assert_true(pool > 0 && read > 0);
    for (size_t t = 0; t < OTHER_COUNT; t++) {
        const uint64_t of_128 = (OTHERS[t].k == PS_KV_F16 ? 64 : 34) +
                                (OTHERS[t].v == PS_KV_F16 ? 64 : 34);
        uint64_t other_pool = 0;
        uint64_t other_read = 0;
        measure(model, OTHERS[t], &other_pool, &other_read);
        assert_int_equal(pool / 128 * of_128, other_pool);
        assert_int_equal(read / 128 * of_128, other_read);
    }
    ps_model_close(model);
}

static void test_refusals(void **state)
{
    (void)state;
    ps_session *session = NULL;
    ps_model *model = open_golden("llama-q8_0", 1); // heads of 24 values
    expect_failure(PS_INVALID, "multiple of 32",
                   ps_session_create(model, &(ps_session_options){.k_type = PS_KV_Q8_0}, &session));
    expect_failure(PS_INVALID, "have 24",
                   ps_session_create(model, &(ps_session_options){.v_type = PS_KV_Q8_0}, &session));
    expect_failure(
        PS_INVALID, "KV type 7",
        ps_session_create(model, &(ps_session_options){.v_type = (ps_kv_type)7}, &session));
    ps_model_close(model);
    char *text = NULL;
    size_t length = 0;
    const char *path = PS_SOURCE_DIR "/test/fixtures/golden/smollm-q8_0.gguf";
    expect_failure(PS_INVALID, "KV type 7",
                   ps_plan_file(path, &(ps_plan_options){.threads = 1, .k_type = (ps_kv_type)7},
                                PS_PLAN_TEXT, &text, &length));
    assert_null(ps_kv_type_name((ps_kv_type)2));
}

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction function;
    } TESTS[] = {
        {"same bits", test_same_bits}, {"close to f16", test_close_to_f16}, {"bytes", test_bytes}};
    enum { TEST_COUNT = sizeof TESTS / sizeof TESTS[0] };
    static char names[TEST_COUNT * MODEL_COUNT][64];
    struct CMUnitTest tests[TEST_COUNT * MODEL_COUNT + 1];
    for (size_t i = 0; i < TEST_COUNT * MODEL_COUNT; i++) {
        const char *model = MODELS[i / TEST_COUNT];
        (void)snprintf(names[i], sizeof names[i], "%s: %s", model, TESTS[i % TEST_COUNT].name);
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = TESTS[i % TEST_COUNT].function,
                                       .initial_state = (void *)(uintptr_t)model};
    }
    tests[TEST_COUNT * MODEL_COUNT] = (struct CMUnitTest)cmocka_unit_test(test_refusals);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
