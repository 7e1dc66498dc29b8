// ctest-labels: unit;fault
// ctest-timeout: 300
// Goal: the public interface holds what its header says when it is used in unusual orders, with
// extreme options, for several models at once and from several threads. Method: each case alone,
// and the session works on afterwards with the logits that it would have had.
#include "engine/made_file.h"
// model_maker.h includes what cmocka wants first
#include "engine/engine_test.h"
#include "session/session.h"

#include <pthread.h>
#include <sched.h>

static ps_session *new_session(ps_model *model, ps_session_options options)
{
    ps_session *session = NULL;
    expect_ok(ps_session_create(model, &options, &session));
    return session;
}

static float *new_logits(uint32_t vocabulary)
{
    float *logits = calloc(vocabulary, sizeof *logits);
    assert_non_null(logits);
    return logits;
}

// Appends 4 tokens and compares their last logits with `expected`, which the first call fills.
static void check_answer(ps_session *session, ps_sequence sequence, float *expected,
                         uint32_t vocabulary)
{
    const int32_t tokens[] = {1, 2, 3, 4};
    expect_ok(ps_session_prefill(session, sequence, tokens, 4, NULL));
    const float *logits = ps_session_logits(session, 0);
    if (expected[0] == 0) {
        memcpy(expected, logits, vocabulary * sizeof *expected);
    }
    assert_memory_equal(expected, logits, vocabulary * sizeof *expected);
}

static void test_defaults(void **state)
{
    (void)state;
    char path[512];
    ps_model *model = NULL;
    ps_session *session = NULL;
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/llama-q8_0.gguf", PS_SOURCE_DIR);
    expect_ok(ps_model_open(path, NULL, &model));
    expect_ok(ps_session_create(model, NULL, &session));
    ps_session_info info;
    ps_session_get_info(session, &info);
    assert_int_equal(1, info.sequences);
    assert_int_equal(512, info.batch_rows);
    ps_session_destroy(session);
    ps_session_destroy(NULL);
    ps_model_close(model);
    ps_model_close(NULL);
    ps_sampler_destroy(NULL);
    expect_failure(PS_NOT_FOUND, "no-such-file", ps_model_open("/no-such-file", NULL, &model));
    expect_failure(PS_INVALID, "file", ps_model_open("/", NULL, &model));
    expect_failure(PS_INVALID, "257 threads",
                   ps_model_open(path, &(ps_model_options){.threads = 257}, &model));
}

static void test_extreme_sessions(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static made_model made;
    made_llama(&made);
    made_set_u32(&made, "llama.context_length", 1u << 30);
    char path[64];
    made_write(&made, &gen, path);
    ps_model *model = NULL;
    expect_ok(ps_model_open(path, &(ps_model_options){.threads = 2}, &model));
    (void)unlink(path);
    free(made.bytes);
    made.bytes = NULL;
    static const struct {
        ps_session_options options;
        const char *says;
    } REFUSED[] = {
        {{.context_tokens = 1u << 20, .sequences = 65536}, "65536 sequences of 1048576 tokens"},
        {{.context_tokens = 1u << 24, .sequences = 65536}, "65536 sequences of 16777216 tokens"},
        {{.context_tokens = 1u << 24, .sequences = 64, .kv_tokens = 64}, "64 sequences of"},
        {{.context_tokens = 1u << 30, .sequences = 1}, "context of 1073741824 tokens"},
        {{.context_tokens = (1u << 30) + 1, .sequences = 1}, "at most 1073741824"},
        {{.context_tokens = 64, .sequences = 65537}, "at most 65536"},
        {{.context_tokens = 64, .batch_rows = PS_BATCH_ROWS_MAX + 1}, "1 to 4096"},
        {{.context_tokens = UINT32_MAX, .sequences = UINT32_MAX}, "at most 1073741824"},
    };
    ps_session *session = NULL;
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        expect_failure(PS_INVALID, REFUSED[i].says,
                       ps_session_create(model, &REFUSED[i].options, &session));
        assert_null(session);
    }
    static const ps_session_options TAKEN[] = {
        {.context_tokens = 1u << 24, .sequences = 1, .kv_tokens = 64, .batch_rows = 8},
        {.context_tokens = 1, .sequences = 65536, .kv_tokens = UINT64_MAX},
        {.context_tokens = 5, .sequences = 64, .kv_tokens = 1, .batch_rows = 1},
        {.context_tokens = 33, .sequences = 2, .batch_rows = PS_BATCH_ROWS_MAX},
    };
    float *expected = new_logits(MADE_VOCABULARY);
    for (size_t i = 0; i < sizeof TAKEN / sizeof TAKEN[0]; i++) {
        session = new_session(model, TAKEN[i]);
        ps_sequence sequence = 0;
        for (uint32_t s = 0; s < TAKEN[i].sequences && s < 64; s++) {
            expect_ok(ps_sequence_open(session, &sequence));
        }
        if (TAKEN[i].context_tokens >= 4) {
            check_answer(session, sequence, expected, MADE_VOCABULARY);
        } else {
            const ps_row rows[] = {{sequence, 1, true}, {sequence, 1, true}};
            expect_failure(PS_EXHAUSTED, "full", ps_session_step(session, rows, 2));
            expect_ok(ps_session_step(session, rows, 1));
        }
        ps_session_destroy(session);
    }
    free(expected);
    ps_model_close(model);
}

static void test_closed_sequences(void **state)
{
    (void)state;
    ps_model *model = open_golden("smollm-q8_0", 1);
    ps_session *session = new_session(model, (ps_session_options){.context_tokens = 64});
    const int32_t token = 1;
    ps_sequence id, other;
    for (uint32_t closed = 0; closed < 3; closed++) { // never opened, closed, out of range
        const ps_sequence wrong = closed == 2 ? UINT32_MAX : 0;
        assert_int_equal(0, ps_sequence_length(session, wrong));
        expect_failure(PS_INVALID, "not open", ps_sequence_truncate(session, wrong, 0));
        expect_failure(PS_INVALID, "not open", ps_sequence_fork(session, wrong, &other));
        expect_failure(PS_INVALID, "not open", ps_session_prefill(session, wrong, &token, 1, NULL));
        expect_failure(PS_INVALID, "not open",
                       ps_session_step(session, &(ps_row){wrong, 1, true}, 1));
        ps_sequence_close(session, wrong);
        expect_ok(ps_sequence_open(session, &id));
        expect_failure(PS_EXHAUSTED, "0 tokens", ps_session_prefill(session, id, &token, 0, NULL));
        ps_sequence_close(session, id);
    }
    ps_session_destroy(session);
    ps_model_close(model);
}

static void test_forks_and_truncations(void **state)
{
    ps_model *model = open_golden(*state, 2);
    const uint32_t vocabulary = vocabulary_of(model);
    ps_session *session = new_session(
        model, (ps_session_options){.context_tokens = 512, .sequences = 4, .batch_rows = 64});
    float *expected = new_logits(vocabulary);
    ps_sequence a, b, c, d;
    expect_ok(ps_sequence_open(session, &a));
    expect_ok(ps_sequence_fork(session, a, &b)); // of nothing
    check_answer(session, b, expected, vocabulary);
    check_answer(session, a, expected, vocabulary);
    expect_ok(ps_sequence_truncate(session, a, 0));
    check_answer(session, a, expected, vocabulary);
    // A fork of a fork that never ran, whose parents go first.
    expect_ok(ps_sequence_truncate(session, a, 0));
    int32_t tokens[400];
    make_prompt(tokens, 400, 4);
    expect_ok(ps_session_prefill(session, a, tokens, 40, NULL));
    expect_ok(ps_sequence_fork(session, a, &c));
    expect_ok(ps_sequence_fork(session, c, &d));
    float *after = new_logits(vocabulary);
    check_answer(session, a, after, vocabulary);
    ps_sequence_close(session, a);
    ps_sequence_close(session, c);
    expect_ok(ps_sequence_open(session, &a));
    expect_ok(ps_session_prefill(session, a, tokens + 40, 100, NULL));
    check_answer(session, d, after, vocabulary);
    // Far past a window and back to nothing.
    expect_ok(ps_session_prefill(session, a, tokens, 300, NULL));
    expect_ok(ps_sequence_truncate(session, a, 0));
    assert_int_equal(0, ps_sequence_length(session, a));
    check_answer(session, a, expected, vocabulary);
    free(after);
    free(expected);
    ps_session_destroy(session);
    ps_model_close(model);
}

// A copy answers as what it is of, and shares nothing with it afterwards.
static void test_copies(void **state)
{
    ps_model *model = open_golden(*state, 2);
    const uint32_t vocabulary = vocabulary_of(model);
    ps_session *session = new_session(
        model, (ps_session_options){.context_tokens = 512, .sequences = 4, .batch_rows = 64});
    float *expected = new_logits(vocabulary);
    int32_t tokens[300];
    ps_sequence a, b, c, d;
    make_prompt(tokens, 300, 4);
    expect_failure(PS_INVALID, "not open", ps_sequence_copy(session, 3, &b));
    expect_ok(ps_sequence_open(session, &a));
    expect_ok(ps_sequence_copy(session, a, &b)); // of nothing
    check_answer(session, b, expected, vocabulary);
    check_answer(session, a, expected, vocabulary);
    ps_sequence_close(session, b);
    expect_ok(ps_sequence_truncate(session, a, 0));
    float *after = new_logits(vocabulary);
    expect_ok(ps_session_prefill(session, a, tokens, 300, NULL));
    expect_ok(ps_sequence_copy(session, a, &b));
    expect_ok(ps_sequence_copy(session, b, &c)); // of one that never ran
    expect_ok(ps_sequence_fork(session, b, &d));
    check_answer(session, a, after, vocabulary);
    expect_ok(ps_session_prefill(session, a, tokens, 100, NULL));
    check_answer(session, b, after, vocabulary);
    ps_sequence_close(session, a);
    ps_sequence_close(session, b);
    check_answer(session, c, after, vocabulary);
    check_answer(session, d, after, vocabulary);
    free(after);
    free(expected);
    ps_session_destroy(session);
    ps_model_close(model);
}

static void test_copies_take_blocks(void **state)
{
    (void)state;
    ps_model *model = open_golden("smollm-q8_0", 1);
    ps_session *session = new_session(
        model, (ps_session_options){
                   .context_tokens = 256, .sequences = 3, .batch_rows = 8, .kv_tokens = 32});
    int32_t tokens[128];
    ps_sequence a, b, c;
    make_prompt(tokens, 128, 4);
    // Seven blocks, two of a. Its copies have two each, so that a can have one more and not two.
    expect_ok(ps_sequence_open(session, &a));
    expect_ok(ps_session_prefill(session, a, tokens, 40, NULL));
    expect_ok(ps_sequence_copy(session, a, &b));
    expect_ok(ps_sequence_copy(session, a, &c));
    expect_ok(ps_session_step(session, &(ps_row){b, 1, true}, 1));
    expect_ok(ps_session_step(session, &(ps_row){c, 1, true}, 1));
    expect_failure(PS_EXHAUSTED, "1 of 7", ps_session_prefill(session, a, tokens, 64, NULL));
    // What a copy has no room for leaves it as it was.
    ps_sequence_close(session, c);
    expect_ok(ps_session_prefill(session, a, tokens, 56, NULL));
    expect_ok(ps_sequence_copy(session, a, &c));
    expect_failure(PS_EXHAUSTED, "KV pool", ps_session_step(session, &(ps_row){c, 1, true}, 1));
    expect_failure(PS_EXHAUSTED, "KV pool", ps_session_prefill(session, c, tokens, 3, NULL));
    assert_int_equal(96, ps_sequence_length(session, c));
    expect_ok(ps_session_step(session, &(ps_row){a, 1, true}, 1));
    ps_session_destroy(session);
    ps_model_close(model);
}

// A prompt that cannot be taken whole is not taken at all.
static void test_prefill_takes_all_or_nothing(void **state)
{
    (void)state;
    ps_model *model = open_golden("smollm-q8_0", 1);
    const int32_t vocabulary = (int32_t)vocabulary_of(model);
    ps_session *session = new_session(
        model, (ps_session_options){
                   .context_tokens = 256, .sequences = 2, .batch_rows = 8, .kv_tokens = 32});
    int32_t tokens[128];
    make_prompt(tokens, 128, 4);
    tokens[20] = vocabulary;
    ps_sequence a, b;
    expect_ok(ps_sequence_open(session, &a));
    expect_failure(PS_INVALID, "vocabulary", ps_session_prefill(session, a, tokens, 30, NULL));
    assert_int_equal(0, ps_sequence_length(session, a));
    // Five blocks: two shared by both, the second partly filled, and three free ones; a prompt that
    // needs three new ones also needs a copy of the second.
    tokens[20] = 1;
    expect_ok(ps_session_prefill(session, a, tokens, 40, NULL));
    expect_ok(ps_sequence_fork(session, a, &b));
    expect_failure(PS_EXHAUSTED, "KV pool", ps_session_prefill(session, b, tokens, 100, NULL));
    assert_int_equal(40, ps_sequence_length(session, b));
    expect_ok(ps_session_prefill(session, b, tokens, 88, NULL));
    ps_session_destroy(session);
    ps_model_close(model);
}

static void test_models_and_sessions_interleaved(void **state)
{
    (void)state;
    enum { PAIRS = 2 };
    static const char *const NAMES[PAIRS] = {"llama-q8_0", "qwen3moe-q8_0"};
    ps_model *models[PAIRS];
    ps_session *sessions[PAIRS][2];
    ps_sequence sequences[PAIRS][2];
    float *expected[PAIRS];
    for (int m = 0; m < PAIRS; m++) {
        models[m] = open_golden(NAMES[m], 2 + (uint32_t)m);
        expected[m] = new_logits(vocabulary_of(models[m]));
        for (int s = 0; s < 2; s++) {
            sessions[m][s] = new_session(models[m], (ps_session_options){.context_tokens = 64});
            expect_ok(ps_sequence_open(sessions[m][s], &sequences[m][s]));
        }
    }
    float *logits = new_logits(4096);
    for (int i = 0; i < 40; i++) {
        for (int m = 0; m < PAIRS; m++) {
            const uint32_t vocabulary = vocabulary_of(models[m]);
            step_one(sessions[m][0], sequences[m][0], i % 30, expected[m], vocabulary);
            step_one(sessions[m][1], sequences[m][1], i % 30, logits, vocabulary);
            assert_memory_equal(expected[m], logits, vocabulary * sizeof *logits);
        }
    }
    for (int m = 0; m < PAIRS; m++) {
        ps_session_destroy(sessions[m][0]);
        step_one(sessions[m][1], sequences[m][1], 1, logits, vocabulary_of(models[m]));
        ps_session_destroy(sessions[m][1]);
        ps_model_close(models[m]);
        free(expected[m]);
    }
    free(logits);
}

// ---- threads

typedef struct caller {
    ps_session *session;
    ps_sequence sequence;
    float *expected;
    uint32_t vocabulary;
    bool same_mask;
} caller;

static bool same_mask(const cpu_set_t *mask)
{
    cpu_set_t now;
    assert_int_equal(0, sched_getaffinity(0, sizeof now, &now));
    return CPU_EQUAL(mask, &now) != 0;
}

static void *call_from_thread(void *argument)
{
    caller *c = argument;
    cpu_set_t mask;
    assert_int_equal(0, sched_getaffinity(0, sizeof mask, &mask));
    check_answer(c->session, c->sequence, c->expected, c->vocabulary);
    c->same_mask = same_mask(&mask);
    return NULL;
}

// Opening in one thread, running in others: none of them is left pinned, so that threads that they
// start later and models that they open later have all CPUs.
static void test_callers_keep_their_cpus(void **state)
{
    (void)state;
    cpu_set_t mask;
    assert_int_equal(0, sched_getaffinity(0, sizeof mask, &mask));
    ps_model *model = open_golden("smollm-q8_0", 2);
    assert_true(same_mask(&mask));
    ps_session *session = new_session(model,
                                      (ps_session_options){.context_tokens = 64, .sequences = 8});
    caller c = {.session = session, .vocabulary = vocabulary_of(model)};
    c.expected = new_logits(c.vocabulary);
    for (int i = 0; i < 6; i++) {
        expect_ok(ps_sequence_open(session, &c.sequence));
        if (i % 2 == 0) {
            pthread_t thread;
            assert_int_equal(0, pthread_create(&thread, NULL, call_from_thread, &c));
            assert_int_equal(0, pthread_join(thread, NULL));
            assert_true(c.same_mask);
        } else {
            check_answer(session, c.sequence, c.expected, c.vocabulary);
        }
        assert_true(same_mask(&mask));
    }
    ps_session_destroy(session);
    ps_model_close(model);
    assert_true(same_mask(&mask));
    free(c.expected);
}

// Opens a model of its own, answers, tokenizes, fails once and closes.
static void *live_apart(void *argument)
{
    caller *c = argument;
    for (int i = 0; i < 3; i++) {
        ps_model *model = open_golden("qwen2-q8_0", 2);
        ps_session *session = new_session(model, (ps_session_options){.context_tokens = 64});
        ps_sampler *sampler = NULL;
        int32_t *ids = NULL;
        size_t count = 0;
        int32_t token;
        c->vocabulary = vocabulary_of(model);
        expect_ok(ps_sequence_open(session, &c->sequence));
        check_answer(session, c->sequence, c->expected, c->vocabulary);
        const ps_sampler_options options = ps_sampler_defaults();
        expect_ok(ps_sampler_create(model, &options, &sampler));
        expect_ok(ps_sampler_pick(sampler, ps_session_logits(session, 0), &token));
        expect_ok(ps_model_tokenize(model, "some text", 9, 0, &ids, &count));
        ps_free(ids);
        expect_failure(PS_INVALID, "not open", ps_sequence_truncate(session, 77, 0));
        ps_sampler_destroy(sampler);
        ps_session_destroy(session);
        ps_model_close(model);
    }
    return NULL;
}

static void test_models_of_different_threads(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    pthread_t threads[COUNT];
    caller callers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        callers[i] = (caller){.expected = new_logits(4096)};
        assert_int_equal(0, pthread_create(&threads[i], NULL, live_apart, &callers[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
        assert_memory_equal(callers[0].expected, callers[i].expected,
                            callers[i].vocabulary * sizeof(float));
    }
    for (int i = 0; i < COUNT; i++) {
        free(callers[i].expected);
    }
}

int main(void)
{
    static char full[] = "llama-q8_0";
    static char windows[] = "gemma3-q8_0";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_extreme_sessions),
        cmocka_unit_test(test_closed_sequences),
        cmocka_unit_test_prestate(test_copies, full),
        cmocka_unit_test_prestate(test_copies, windows),
        cmocka_unit_test(test_copies_take_blocks),
        cmocka_unit_test_prestate(test_forks_and_truncations, full),
        cmocka_unit_test_prestate(test_forks_and_truncations, windows),
        cmocka_unit_test(test_prefill_takes_all_or_nothing),
        cmocka_unit_test(test_models_and_sessions_interleaved),
        cmocka_unit_test(test_callers_keep_their_cpus),
        cmocka_unit_test(test_models_of_different_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
