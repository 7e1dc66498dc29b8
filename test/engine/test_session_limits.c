// ctest-labels: unit;fault
// Goal: a session refuses what does not fit with one line and changes nothing; a full pool is no
// accident. Method: each limit is met once from below and once from above, and the session works on
// afterwards.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/engine_test.h"

static void test_context(void **state)
{
    (void)state;
    ps_model *model = open_golden("smollm-q8_0", 2);
    ps_session *session = NULL;
    ps_model_info info;
    ps_model_get_info(model, &info);
    expect_failure(
        PS_INVALID, "at most",
        ps_session_create(model, &(ps_session_options){.context_tokens = info.context_tokens + 1},
                          &session));
    expect_ok(ps_session_create(model, &(ps_session_options){.context_tokens = 40}, &session));
    ps_sequence sequence;
    expect_ok(ps_sequence_open(session, &sequence));
    int32_t tokens[64];
    make_prompt(tokens, 64, 1);
    expect_failure(PS_EXHAUSTED, "40", ps_session_prefill(session, sequence, tokens, 41, NULL));
    assert_int_equal(0, ps_sequence_length(session, sequence));
    expect_ok(ps_session_prefill(session, sequence, tokens, 40, NULL));
    const ps_row row = {sequence, 1, true};
    expect_failure(PS_EXHAUSTED, "full", ps_session_step(session, &row, 1));
    assert_int_equal(40, ps_sequence_length(session, sequence));
    expect_ok(ps_sequence_truncate(session, sequence, 39));
    expect_ok(ps_session_step(session, &row, 1));
    ps_session_destroy(session);
    ps_model_close(model);
}

static void test_bad_rows(void **state)
{
    (void)state;
    ps_model *model = open_golden("smollm-q8_0", 1);
    const int32_t vocabulary = (int32_t)vocabulary_of(model);
    ps_session *session = NULL;
    const ps_session_options options = {.context_tokens = 64, .sequences = 2, .batch_rows = 8};
    expect_ok(ps_session_create(model, &options, &session));
    ps_sequence a, b, c;
    expect_ok(ps_sequence_open(session, &a));
    expect_ok(ps_sequence_open(session, &b));
    expect_failure(PS_EXHAUSTED, "2 sequences", ps_sequence_open(session, &c));
    const ps_row bad[] = {
        {a, vocabulary, false}, {a, -1, false}, {2, 1, false}, {UINT32_MAX, 1, false}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(PS_INVALID, ps_session_step(session, &bad[i], 1));
    }
    const ps_row apart[] = {{a, 1, false}, {b, 1, false}, {a, 2, false}};
    expect_failure(PS_INVALID, "together", ps_session_step(session, apart, 3));
    const ps_row many[9] = {{a, 1, false}};
    expect_failure(PS_INVALID, "1 to 8", ps_session_step(session, many, 9));
    assert_int_equal(PS_INVALID, ps_session_step(session, many, 0));
    expect_failure(PS_INVALID, "truncate", ps_sequence_truncate(session, a, 1));
    assert_int_equal(0, ps_sequence_length(session, a));
    ps_sequence_close(session, a);
    ps_sequence_close(session, a); // closing twice is allowed
    expect_failure(PS_INVALID, "not open", ps_session_step(session, &(ps_row){a, 1, false}, 1));
    ps_session_destroy(session);
    ps_model_close(model);
}

// The pool holds 64 tokens for two sequences of up to 256; whoever comes second is refused, then
// served.
static void test_full_pool(void **state)
{
    (void)state;
    ps_model *model = open_golden("smollm-q8_0", 2);
    ps_session *session = NULL;
    const ps_session_options options = {
        .context_tokens = 256, .sequences = 2, .batch_rows = 64, .kv_tokens = 64};
    expect_ok(ps_session_create(model, &options, &session));
    int32_t tokens[256];
    make_prompt(tokens, 256, 3);
    ps_sequence a, b;
    expect_ok(ps_sequence_open(session, &a));
    expect_ok(ps_sequence_open(session, &b));
    expect_failure(PS_EXHAUSTED, "KV pool", ps_session_prefill(session, a, tokens, 256, NULL));
    assert_int_equal(0, ps_sequence_length(session, a));
    // Twice as long until it does not fit: the session stays usable all the way.
    uint32_t length = 1;
    while (ps_session_prefill(session, a, tokens, length, NULL) == PS_OK) {
        length *= 2;
    }
    const uint32_t held = ps_sequence_length(session, a);
    assert_true(held >= 63 && held < 256);
    ps_status status = PS_OK;
    uint32_t taken = 0;
    for (; status == PS_OK && taken < 256; taken++) {
        status = ps_session_step(session, &(ps_row){b, 1, false}, 1);
    }
    assert_int_equal(PS_EXHAUSTED, status);
    ps_sequence_close(session, a);
    expect_ok(ps_session_step(session, &(ps_row){b, 1, false}, 1));
    ps_session_destroy(session);
    ps_model_close(model);
}

// A window drops blocks: a long sequence fits a pool that its whole length would not, and cannot go
// back.
static void test_sliding_window(void **state)
{
    (void)state;
    ps_model *model = open_golden("gemma3-q8_0", 2);
    ps_session *session = NULL;
    expect_ok(ps_session_create(
        model, &(ps_session_options){.context_tokens = 512, .sequences = 1, .batch_rows = 32},
        &session));
    int32_t tokens[400];
    make_prompt(tokens, 400, 3);
    ps_sequence a;
    expect_ok(ps_sequence_open(session, &a));
    expect_ok(ps_session_prefill(session, a, tokens, 400, NULL));
    expect_failure(PS_UNSUPPORTED, "sliding window", ps_sequence_truncate(session, a, 10));
    expect_ok(ps_sequence_truncate(session, a, 399));
    expect_ok(ps_sequence_truncate(session, a, 399));
    ps_session_destroy(session);
    ps_model_close(model);
}

static void test_cancel(void **state)
{
    (void)state;
    ps_model *model = open_golden("smollm-q8_0", 1);
    ps_session *session = NULL;
    expect_ok(ps_session_create(
        model, &(ps_session_options){.context_tokens = 128, .batch_rows = 16}, &session));
    int32_t tokens[100];
    make_prompt(tokens, 100, 3);
    ps_sequence a;
    expect_ok(ps_sequence_open(session, &a));
    const volatile bool cancel = true;
    expect_failure(PS_CANCELLED, "16 of 100", ps_session_prefill(session, a, tokens, 100, &cancel));
    assert_int_equal(16, ps_sequence_length(session, a));
    ps_session_destroy(session);
    ps_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context),   cmocka_unit_test(test_bad_rows),
        cmocka_unit_test(test_full_pool), cmocka_unit_test(test_sliding_window),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
