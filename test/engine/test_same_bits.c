// ctest-labels: golden;prop
// ctest-timeout: 300
// Goal: logits are a pure function of a sequence's tokens: not of the thread count, of what else is
// in the step, of how the prompt was cut or of forks and truncations on the way. Method: memcmp of
// logits between runs that may only differ in time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/engine_test.h"

static const char *const MODELS[] = {"smollm-q4_1", "qwen3moe-q8_0", "gemma3-q8_0", "kmix-k"};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

#define PROMPT 300 // more than one chunk of attention, more than one window
#define ANSWER 6
#define CONTEXT 512

// The prompt in pieces of `piece` tokens, then ANSWER fixed tokens one by one; their logits, one
// after the other.
static void run(ps_session *session, uint32_t seed, uint32_t piece, float *logits,
                uint32_t vocabulary)
{
    int32_t tokens[PROMPT + ANSWER];
    make_prompt(tokens, PROMPT + ANSWER, seed);
    ps_sequence sequence;
    expect_ok(ps_sequence_open(session, &sequence));
    for (uint32_t i = 0; i < PROMPT; i += piece) {
        const uint32_t count = PROMPT - i < piece ? PROMPT - i : piece;
        expect_ok(ps_session_prefill(session, sequence, tokens + i, count, NULL));
    }
    for (uint32_t i = 0; i < ANSWER; i++) {
        step_one(session, sequence, tokens[PROMPT + i], logits + (size_t)i * vocabulary,
                 vocabulary);
    }
    ps_sequence_close(session, sequence);
}

static ps_session *open_session(ps_model *model, uint32_t sequences)
{
    ps_session *session = NULL;
    const ps_session_options options = {
        .context_tokens = CONTEXT, .sequences = sequences, .batch_rows = 128};
    expect_ok(ps_session_create(model, &options, &session));
    return session;
}

static float *new_logits(uint32_t vocabulary)
{
    float *logits = calloc((size_t)ANSWER * vocabulary, sizeof *logits);
    assert_non_null(logits);
    return logits;
}

static void test_threads_and_pieces(void **state)
{
    static const uint32_t THREADS[] = {1, 2, 3, 8, 33};
    static const uint32_t PIECES[] = {PROMPT, 100, 37, 8, 1};
    const char *name = *state;
    float *first = NULL;
    for (size_t t = 0; t < sizeof THREADS / sizeof THREADS[0]; t++) {
        ps_model *model = open_golden(name, THREADS[t]);
        ps_session *session = open_session(model, 1);
        const uint32_t vocabulary = vocabulary_of(model);
        // More threads than CPUs make single steps slow, so the smallest pieces run with few
        // threads only.
        for (size_t p = 0; p < sizeof PIECES / sizeof PIECES[0]; p++) {
            if (PIECES[p] < 100 && THREADS[t] > 3) {
                continue;
            }
            float *logits = new_logits(vocabulary);
            run(session, 7, PIECES[p], logits, vocabulary);
            if (first == NULL) {
                first = logits;
                continue;
            }
            if (memcmp(first, logits, (size_t)ANSWER * vocabulary * sizeof *logits) != 0) {
                fail_msg("%s: %u threads, pieces of %u differ", name, THREADS[t], PIECES[p]);
            }
            free(logits);
        }
        ps_session_destroy(session);
        ps_model_close(model);
    }
    free(first);
}

static uint64_t moved_bytes(const ps_prefetch_site *sites, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += sites[i].moved_bytes;
    }
    return bytes;
}

// One process prefetches when it is asked to, and when one of its workers waits for another.
static void test_policies(void **state)
{
    float *first = NULL;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        ps_model *model = open_golden(*state, threads);
        const uint32_t vocabulary = vocabulary_of(model);
        for (uint32_t p = 0; p < PS_PREFETCH_POLICY_COUNT; p++) {
            ps_prefetch_site sites[PS_PREFETCH_SITES_MAX];
            ps_session *session = NULL;
            const ps_session_options options = {.context_tokens = CONTEXT,
                                                .batch_rows = 128,
                                                .prefetch = (ps_prefetch_policy)p,
                                                .ratios = ps_prefetch_ratios_default()};
            float *logits = new_logits(vocabulary);
            expect_ok(ps_session_create(model, &options, &session));
            run(session, 7, 37, logits, vocabulary);
            first = first == NULL ? logits : first;
            assert_memory_equal(first, logits, (size_t)ANSWER * vocabulary * sizeof *logits);
            const uint32_t count = ps_session_prefetch_get(session, sites);
            if (threads > 1 && (p == PS_PREFETCH_AUTO || p == PS_PREFETCH_RATIO)) {
                assert_true(count > 0);
                assert_string_equal(p == PS_PREFETCH_AUTO ? "barrier" : "vector", sites[0].window);
                assert_string_equal("all", sites[count - 1].site);
                assert_true(sites[count - 1].fired > 0 && moved_bytes(sites, count) > 0);
            } else {
                assert_int_equal(0, count);
            }
            ps_session_destroy(session);
            if (logits != first) {
                free(logits);
            }
        }
        ps_model_close(model);
    }
    free(first);
}

// Steps in which nobody wants logits lack the readers behind the last layer, and those of a model
// with experts a module: what is asked for them is left out.
static void test_steps_without_readers(void **state)
{
    ps_model *model = open_golden(*state, 3);
    const uint32_t vocabulary = vocabulary_of(model);
    float *logits[PS_PREFETCH_POLICY_COUNT];
    for (uint32_t p = 0; p < PS_PREFETCH_POLICY_COUNT; p++) {
        const ps_session_options options = {.context_tokens = CONTEXT,
                                            .batch_rows = 128,
                                            .prefetch = (ps_prefetch_policy)p,
                                            .ratios = ps_prefetch_ratios_default()};
        ps_session *session = NULL;
        ps_sequence sequence;
        logits[p] = new_logits(vocabulary);
        expect_ok(ps_session_create(model, &options, &session));
        expect_ok(ps_sequence_open(session, &sequence));
        for (int32_t i = 0; i < 40; i++) {
            ps_row rows[9];
            const uint32_t count = i % 3 == 0 ? 9 : 1;
            for (uint32_t r = 0; r < count; r++) {
                rows[r] = (ps_row){sequence, i + 3, false};
            }
            expect_ok(ps_session_step(session, rows, count));
        }
        step_one(session, sequence, 7, logits[p], vocabulary);
        assert_memory_equal(logits[0], logits[p], vocabulary * sizeof(float));
        ps_session_destroy(session);
    }
    for (uint32_t p = 0; p < PS_PREFETCH_POLICY_COUNT; p++) {
        free(logits[p]);
    }
    ps_model_close(model);
}

// Three sequences of different lengths advance in the same steps; each must equal itself alone.
static void test_batches(void **state)
{
    enum { SEQUENCES = 3 };
    ps_model *model = open_golden(*state, 2);
    const uint32_t vocabulary = vocabulary_of(model);
    float *alone[SEQUENCES];
    ps_session *session = open_session(model, SEQUENCES);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        alone[s] = new_logits(vocabulary);
        run(session, 100 + s, PROMPT, alone[s], vocabulary);
    }
    int32_t tokens[SEQUENCES][PROMPT + ANSWER];
    ps_sequence sequence[SEQUENCES];
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        make_prompt(tokens[s], PROMPT + ANSWER, 100 + s);
        expect_ok(ps_sequence_open(session, &sequence[s]));
    }
    // Prompts interleaved: 40 rows of each per step.
    for (uint32_t i = 0; i < PROMPT; i += 40) {
        ps_row rows[SEQUENCES * 40];
        uint32_t count = 0;
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            for (uint32_t j = i; j < PROMPT && j < i + 40; j++) {
                rows[count++] = (ps_row){.sequence = sequence[s], .token = tokens[s][j]};
            }
        }
        expect_ok(ps_session_step(session, rows, count));
    }
    for (uint32_t i = 0; i < ANSWER; i++) {
        ps_row rows[SEQUENCES];
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            rows[s] = (ps_row){sequence[s], tokens[s][PROMPT + i], true};
        }
        expect_ok(ps_session_step(session, rows, SEQUENCES));
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            assert_memory_equal(alone[s] + (size_t)i * vocabulary, ps_session_logits(session, s),
                                vocabulary * sizeof(float));
        }
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        free(alone[s]);
    }
    ps_session_destroy(session);
    ps_model_close(model);
}

// More sequences than PS_LOGITS_MAX: each of them can ask for its logits in one step.
static void test_many_sequences(void **state)
{
    enum { MANY = 100, EACH = 5 };
    ps_model *model = open_golden(*state, 2);
    const uint32_t vocabulary = vocabulary_of(model);
    ps_session *few = open_session(model, 1);
    ps_session *many = open_session(model, MANY);
    float *alone = calloc((size_t)MANY * vocabulary, sizeof *alone);
    assert_non_null(alone);
    ps_row rows[MANY];
    for (uint32_t s = 0; s < MANY; s++) {
        int32_t tokens[EACH];
        ps_sequence sequence;
        make_prompt(tokens, EACH, 200 + s);
        expect_ok(ps_sequence_open(few, &sequence));
        expect_ok(ps_session_prefill(few, sequence, tokens, EACH, NULL));
        memcpy(alone + (size_t)s * vocabulary, ps_session_logits(few, 0),
               vocabulary * sizeof *alone);
        ps_sequence_close(few, sequence);
        expect_ok(ps_sequence_open(many, &sequence));
        expect_ok(ps_session_prefill(many, sequence, tokens, EACH - 1, NULL));
        rows[s] = (ps_row){sequence, tokens[EACH - 1], true};
    }
    expect_ok(ps_session_step(many, rows, MANY));
    for (uint32_t s = 0; s < MANY; s++) {
        assert_memory_equal(alone + (size_t)s * vocabulary, ps_session_logits(many, s),
                            vocabulary * sizeof *alone);
    }
    // One sequence's rows are as many as they are; a session of one has room for fewer.
    for (uint32_t i = 0; i < MANY; i++) {
        rows[i] = (ps_row){0, 1, true};
    }
    ps_sequence sequence;
    expect_ok(ps_sequence_open(few, &sequence));
    expect_ok(ps_session_step(many, rows, MANY));
    expect_failure(PS_INVALID, "at most 64", ps_session_step(few, rows, MANY));
    free(alone);
    ps_session_destroy(many);
    ps_session_destroy(few);
    ps_model_close(model);
}

// A fork goes its own way and so does its parent, from the middle of a shared block on.
static void test_forks(void **state)
{
    ps_model *model = open_golden(*state, 2);
    const uint32_t vocabulary = vocabulary_of(model);
    ps_session *session = open_session(model, 3);
    int32_t tokens[PROMPT];
    make_prompt(tokens, PROMPT, 5);
    float *expected[2];
    float *got = new_logits(vocabulary);
    for (int way = 0; way < 2; way++) { // the two ways, each alone
        ps_sequence sequence;
        expected[way] = new_logits(vocabulary);
        expect_ok(ps_sequence_open(session, &sequence));
        expect_ok(ps_session_prefill(session, sequence, tokens, 75, NULL));
        for (int i = 0; i < ANSWER; i++) {
            step_one(session, sequence, 10 * way + i, expected[way] + (size_t)i * vocabulary,
                     vocabulary);
        }
        ps_sequence_close(session, sequence);
    }
    ps_sequence sequence[2];
    expect_ok(ps_sequence_open(session, &sequence[0]));
    expect_ok(ps_session_prefill(session, sequence[0], tokens, 75, NULL));
    expect_ok(ps_sequence_fork(session, sequence[0], &sequence[1]));
    assert_int_equal(75, ps_sequence_length(session, sequence[1]));
    for (int i = 0; i < ANSWER; i++) {
        for (int way = 0; way < 2; way++) {
            step_one(session, sequence[way], 10 * way + i, got, vocabulary);
            assert_memory_equal(expected[way] + (size_t)i * vocabulary, got,
                                vocabulary * sizeof(float));
        }
    }
    // The parent's slot and blocks go to another sequence; the fork must not notice.
    ps_sequence_close(session, sequence[0]);
    expect_ok(ps_sequence_truncate(session, sequence[1], 75));
    run(session, 9, 50, got, vocabulary);
    for (int i = 0; i < ANSWER; i++) {
        step_one(session, sequence[1], 10 + i, got, vocabulary);
        assert_memory_equal(expected[1] + (size_t)i * vocabulary, got, vocabulary * sizeof(float));
    }
    free(expected[0]);
    free(expected[1]);
    free(got);
    ps_session_destroy(session);
    ps_model_close(model);
}

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction function;
    } TESTS[] = {{"threads and pieces", test_threads_and_pieces},
                 {"policies", test_policies},
                 {"steps without readers", test_steps_without_readers},
                 {"batches", test_batches},
                 {"many sequences", test_many_sequences},
                 {"forks", test_forks}};
    enum { TEST_COUNT = sizeof TESTS / sizeof TESTS[0] };
    static char names[TEST_COUNT * MODEL_COUNT][64];
    struct CMUnitTest tests[TEST_COUNT * MODEL_COUNT];
    for (size_t i = 0; i < TEST_COUNT * MODEL_COUNT; i++) {
        const char *model = MODELS[i / TEST_COUNT];
        (void)snprintf(names[i], sizeof names[i], "%s: %s", model, TESTS[i % TEST_COUNT].name);
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = TESTS[i % TEST_COUNT].function,
                                       .initial_state = (void *)(uintptr_t)model};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
