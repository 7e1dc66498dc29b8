// ctest-labels: prop
// ctest-timeout: 300
// Goal: a model whose experts are read when they are wanted answers, bit for bit, as it does when
// all are in memory: at every budget from the least on, under every policy, with any number of
// threads, from the file or a simulated tier, in prompts of any cut and with several sequences; and
// its report adds up. Method: memcmp of logits of made models, whose matrices need padding, have
// types apart, and are larger than the pages that surround them.
#include "engine/engine_test.h"
#include "engine/made_shapes.h"

#include <unistd.h>

#define PROMPT 70
#define ANSWER 12
#define STREAMS 3

static const shape SHAPES[] = {
    {4, 2, 24, 96, 300, 64, 3, MADE_Q8_0, 0, 128, "qwen3moe", 0},
    {4, 2, 16, 40, 300, 96, 2, MADE_F16, 0, 128, NULL, 0}, // padded groups, float weights
    {4, 2, 16, 64, 300, 80, 6, MADE_Q8_0, 0, 128, NULL, 0},
};
#define SHAPE_COUNT (sizeof SHAPES / sizeof SHAPES[0])

static ps_model *open_with(const char *path, uint32_t threads, uint64_t expert_bytes,
                           ps_expert_policy_kind policy, const char *tier_sim)
{
    ps_model *model = NULL;
    const ps_model_options options = {.threads = threads,
                                      .expert_bytes = expert_bytes,
                                      .expert_policy = policy,
                                      .tier_sim = tier_sim};
    expect_ok(ps_model_open(path, &options, &model));
    return model;
}

static void check_report(const ps_session *session, uint32_t piece, uint64_t expert_bytes)
{
    ps_expert_report r;
    assert_int_equal(expert_bytes > 0, ps_session_experts_get(session, &r));
    if (expert_bytes > 0) {
        assert_true(r.slot_bytes <= expert_bytes && r.slots < r.experts);
        assert_int_equal(r.wanted, r.pinned + r.cached + r.loading + r.read);
        assert_true(r.read > r.slots && r.read_bytes > expert_bytes); // experts came and left
        assert_true(r.calls > 0 && r.waves >= r.calls);
        // Rows of one step may share no expert where a step has few.
        assert_true(piece == 1 ? r.routed >= r.wanted : r.routed > r.wanted);
    }
}

// Prompts of several sequences in pieces, then their answers in common steps; the logits of all.
// Some runs are checked on the way.
static float *run(ps_model *model, uint32_t piece, uint64_t expert_bytes, size_t *out_bytes)
{
    const uint32_t vocabulary = vocabulary_of(model);
    ps_session *session = NULL;
    ps_sequence sequences[STREAMS];
    int32_t tokens[STREAMS][PROMPT + ANSWER];
    expect_ok(ps_session_create(model,
                                &(ps_session_options){.context_tokens = 128,
                                                      .sequences = STREAMS,
                                                      .batch_rows = 64,
                                                      .check_grouped = piece == 9},
                                &session));
    *out_bytes = (size_t)ANSWER * STREAMS * vocabulary * sizeof(float);
    float *logits = malloc(*out_bytes);
    assert_non_null(logits);
    for (uint32_t s = 0; s < STREAMS; s++) {
        make_prompt(tokens[s], PROMPT + ANSWER, s + 1);
        expect_ok(ps_sequence_open(session, &sequences[s]));
        for (uint32_t i = 0; i < PROMPT; i += piece) {
            const uint32_t count = PROMPT - i < piece ? PROMPT - i : piece;
            expect_ok(ps_session_prefill(session, sequences[s], tokens[s] + i, count, NULL));
        }
    }
    for (uint32_t i = 0; i < ANSWER; i++) {
        ps_row rows[STREAMS];
        for (uint32_t s = 0; s < STREAMS; s++) {
            rows[s] = (ps_row){
                .sequence = sequences[s], .token = tokens[s][PROMPT + i], .wants_logits = true};
        }
        expect_ok(ps_session_step(session, rows, STREAMS));
        for (uint32_t s = 0; s < STREAMS; s++) {
            memcpy(logits + ((size_t)i * STREAMS + s) * vocabulary, ps_session_logits(session, s),
                   vocabulary * sizeof *logits);
        }
    }
    check_report(session, piece, expert_bytes);
    ps_session_destroy(session);
    return logits;
}

// The least budget that is not refused, to 4 KiB.
static uint64_t least_bytes(const char *path)
{
    uint64_t low = 1;
    uint64_t high = 1 << 26;
    while (high - low > 4096) {
        const uint64_t middle = low + (high - low) / 2;
        ps_model *model = NULL;
        const ps_status status = ps_model_open(
            path, &(ps_model_options){.threads = 1, .expert_bytes = middle}, &model);
        if (status == PS_OK) {
            ps_model_close(model);
            high = middle;
        } else {
            assert_int_equal(PS_INVALID, status);
            assert_non_null(strstr(ps_error_message(), "at least would be right"));
            low = middle;
        }
    }
    return high;
}

static void test_budgets_and_policies(void **state)
{
    ps_gen gen = ps_gen_start();
    static made_model made;
    made_shape(&made, *state);
    char path[64];
    made_write(&made, &gen, path);
    size_t bytes = 0;
    ps_model *whole = open_with(path, 2, 0, PS_EXPERTS_AUTO, NULL);
    float *right = run(whole, PROMPT, 0, &bytes);
    ps_model_close(whole);
    const uint64_t least = least_bytes(path);
    for (uint32_t policy = 0; policy < PS_EXPERTS_POLICY_COUNT; policy++) {
        if (policy == PS_EXPERTS_HOTSET) {
            continue; // without a hot set there is nothing to keep
        }
        for (uint32_t i = 0; i < 6; i++) {
            static const uint32_t PIECES[] = {64, 1, 9};
            static const char *const TIERS[] = {NULL, "latency=1us,bandwidth=20GB/s",
                                                "latency=20us", NULL};
            const uint64_t budget = least + i * least / 4;
            ps_model *model = open_with(path, 1 + (i + policy) % 3, budget,
                                        (ps_expert_policy_kind)policy, TIERS[(i + policy) % 4]);
            float *logits = run(model, PIECES[(i + policy) % 3], budget, &bytes);
            if (memcmp(right, logits, bytes) != 0) {
                fail_msg("%s, %u quarters above the least: other logits",
                         ps_expert_policy_name((ps_expert_policy_kind)policy), i);
            }
            free(logits);
            ps_model_close(model);
        }
    }
    free(right);
    free(made.bytes);
    made.bytes = NULL;
    (void)unlink(path);
}

int main(void)
{
    static const char *const NAMES[SHAPE_COUNT] = {"q8_0", "f16", "top_6"};
    struct CMUnitTest tests[SHAPE_COUNT];
    for (size_t i = 0; i < SHAPE_COUNT; i++) {
        tests[i] = (struct CMUnitTest){.name = NAMES[i],
                                       .test_func = test_budgets_and_policies,
                                       .initial_state = (void *)(uintptr_t)&SHAPES[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
