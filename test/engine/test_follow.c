// ctest-labels: unit
// ctest-links: -Wl,--wrap=ps_comm_local_fork
// Goal: a rank follows what a right rank 0 says, and ends with words that say what was not right,
// after it has told the others, when rank 0 sends anything else. Method: messages that
// test/fuzz/make_follow_corpus.py makes from the description in engine/ranks.h and plan/plan.h.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/scripted_rank0.h"

#define CORPUS PS_SOURCE_DIR "/test/fuzz/corpus/follow/"
#define MODEL PS_SOURCE_DIR "/test/fixtures/golden/smollm-q8_0.gguf"

static ps_status follow(const char *name, bool *out_gave_up)
{
    static uint8_t bytes[4096];
    char path[512];
    (void)snprintf(path, sizeof path, "%s%s", CORPUS, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_true(size < sizeof bytes);
    (void)fclose(file);
    return script_follow(bytes, size, MODEL, out_gave_up);
}

static void test_right_messages(void **state)
{
    static const char *const NAMES[] = {"good_stop",     "good_open",     "good_steps",
                                        "good_sessions", "good_defaults", "good_number"};
    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        bool gave_up = false;
        if (follow(NAMES[i], &gave_up) != PS_OK || gave_up) {
            fail_msg("%s: %s", NAMES[i], ps_error_message());
        }
    }
}

static const struct {
    const char *name;
    ps_status status;
    const char *says;
} BAD[] = {
    {"bad_stop_open", PS_INVALID, "command 0"},
    {"bad_short", PS_INVALID, "a command of 4 bytes"},
    {"bad_no_command", PS_INVALID, "a command of 0 bytes"},
    {"bad_claimed", PS_LOST, "broadcast of 4294967294 bytes"},
    {"bad_size", PS_INVALID, "a command of 20 bytes"},
    {"bad_word", PS_INVALID, "command 6"},
    {"bad_word_later", PS_INVALID, "command 4294967295"},
    {"bad_open_bytes", PS_INVALID, "command 1 for session 0 with 1 bytes"},
    {"bad_open_twice", PS_INVALID, "command 1"},
    {"bad_threads", PS_INVALID, "command 3"},
    {"bad_close_first", PS_INVALID, "command 2"},
    {"bad_session_first", PS_INVALID, "command 3"},
    {"bad_session_number", PS_INVALID, "session 64"},
    {"bad_session_twice", PS_INVALID, "command 3"},
    {"bad_session_bytes", PS_INVALID, "47 bytes"},
    {"bad_plan_path", PS_INVALID, "command 3"},
    {"bad_ratio", PS_INVALID, "ratio of nan"},
    {"bad_flag", PS_INVALID, "command 3"},
    {"bad_check", PS_INVALID, "command 3"},
    {"bad_context", PS_INVALID, "1025 tokens"},
    {"bad_sequences", PS_INVALID, "65537 sequences"},
    {"bad_batch_rows", PS_INVALID, "4097 rows"},
    {"bad_k_type", PS_INVALID, "KV type 2"},
    {"bad_v_type", PS_INVALID, "KV type -1"},
    {"bad_prefetch", PS_INVALID, "policy 99"},
    {"bad_schedule", PS_INVALID, "schedule -2147483648"},
    {"bad_end", PS_INVALID, "command 4"},
    {"bad_end_number", PS_INVALID, "session 4294967295"},
    {"bad_step_first", PS_INVALID, "command 5"},
    {"bad_step_session", PS_INVALID, "session 64"},
    {"bad_step_program", PS_INVALID, "command 5"},
    {"bad_step_cut", PS_INVALID, "15 bytes"},
    {"bad_step_rows_missing", PS_INVALID, "command 5"},
    {"bad_step_rows_huge", PS_INVALID, "command 5"},
    {"bad_step_blocks_huge", PS_INVALID, "command 5"},
    {"bad_step_no_rows", PS_EXHAUSTED, "0 rows"},
    {"bad_step_many_rows", PS_EXHAUSTED, "9 rows"},
    {"bad_sequence", PS_INVALID, "sequence 2"},
    {"bad_token", PS_INVALID, "token 272"},
    {"bad_token_negative", PS_INVALID, "token -1"},
    {"bad_position", PS_EXHAUSTED, "position 64"},
    {"bad_position_order", PS_INVALID, "position 2 after 0"},
    {"bad_rows_apart", PS_INVALID, "stands apart"},
    {"bad_no_block", PS_INVALID, "does not have"},
    {"bad_block_sequence", PS_INVALID, "{sequence 2,"},
    {"bad_block_group", PS_INVALID, "group 1,"},
    {"bad_block_index", PS_INVALID, "index 2,"},
    {"bad_block_number", PS_INVALID, "block 2147483648,"},
    {"bad_block_copy", PS_INVALID, "copy_from 2147483648}"},
    {"bad_rate_nan", PS_INVALID, "comm_gbs is nan"},
    {"bad_rate_negative", PS_INVALID, "read_gbs is -1"},
    {"bad_rate_huge", PS_INVALID, "comm_ns is 1e+300"},
};

static void test_wrong_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        bool gave_up = false;
        const ps_status status = follow(BAD[i].name, &gave_up);
        // Ranks that have diverged all come to it by themselves.
        if (status != BAD[i].status || gave_up != (status != PS_LOST) ||
            strstr(ps_error_message(), BAD[i].says) == NULL) {
            fail_msg("%s: %d, %d, %s", BAD[i].name, status, gave_up, ps_error_message());
        }
        assert_null(strchr(ps_error_message(), '\n'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right_messages),
                                       cmocka_unit_test(test_wrong_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
