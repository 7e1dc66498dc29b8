// ctest-labels: file
// ctest-links: ps_ir
// Goal: a plan file says what it holds and loses nothing; what is wrong with one is named with its
// line, and plans of another key are told apart by what differs.
// Method: a head written here and the plans of this folder, whole; then one thing of it changed.
#include "base/layout.h"
#include "plan/plan_file.h"
#include "plan/plan_text_test.h"

static const char HEAD[] = "plan_file version=1\n"
                           "model fingerprint=00c0ffee12345678 layout=3\n"
                           "machine name=\"A \\\"CPU\\\" of 4 GHz\" threads=2\n"
                           "ranks count=4 rank=3\n"
                           "policy name=off\n";

// HEAD and the two plans; the second is the first one's with another context. From the heap.
static char *make_text(void)
{
    char *decode = ps_graph_text_load("test/plan/decode.plan");
    char *prefill = ps_graph_text_load("test/plan/prefill.plan");
    const size_t bytes = sizeof HEAD + strlen(decode) + strlen(prefill) + 3;
    char *text = malloc(bytes);
    assert_non_null(text);
    (void)snprintf(text, bytes, "%s\n%s\n%s", HEAD, decode, prefill);
    free(decode);
    free(prefill);
    return text;
}

static uint32_t line_of(const char *text, const char *place)
{
    uint32_t line = 1;
    for (const char *at = text; at < place; at++) {
        line += *at == '\n';
    }
    return line;
}

static void expect(ps_status code, const char *says, const char *text)
{
    ps_arena arena;
    ps_arena_init(&arena, PS_PLAN_TEXT_ARENA_BYTES);
    ps_plan_set *set = NULL;
    const ps_status status = ps_plan_set_parse(ps_str_of(text), &arena, &set);
    if (status != code) {
        fail_msg("status %d: %s", (int)status, ps_error_message());
    }
    if (code != PS_OK && strstr(ps_error_message(), says) == NULL) {
        fail_msg("'%s' does not say '%s'", ps_error_message(), says);
    }
    assert_true((set != NULL) == (code == PS_OK));
    ps_arena_deinit(&arena);
}

static void test_round_trip(void **state)
{
    (void)state;
    char *text = make_text();
    ps_arena arena;
    ps_arena_init(&arena, PS_PLAN_TEXT_ARENA_BYTES);
    ps_plan_set *set = NULL;
    ps_buffer printed = {0};
    ps_buffer again = {0};
    ps_graph_text_require(ps_plan_set_parse(ps_str_of(text), &arena, &set), "parsing");
    ps_graph_text_require(ps_plan_set_print(set, &printed), "printing");
    assert_memory_equal(HEAD, printed.data, strlen(HEAD));
    ps_graph_text_require(ps_plan_set_parse((ps_str){printed.data, printed.length}, &arena, &set),
                          "parsing what was printed");
    ps_graph_text_require(ps_plan_set_print(set, &again), "printing again");
    assert_string_equal(printed.data, again.data);

    assert_true(set->key.fingerprint == 0x00c0ffee12345678 && set->key.layout == 3);
    assert_string_equal("A \"CPU\" of 4 GHz", set->key.machine);
    assert_true(set->key.threads == 2 && set->key.ranks == 4 && set->key.rank == 3);
    assert_string_equal("off", set->key.policy);
    assert_int_equal(2, set->plan_count);
    for (uint32_t i = 0; i < 2; i++) {
        const ps_plan *plan = set->plans[i];
        assert_ptr_equal(
            plan, ps_plan_set_find(set, plan->rows_max, plan->logits_max, plan->context_max));
        assert_null(ps_plan_set_find(set, plan->rows_max + 1, plan->logits_max, plan->context_max));
        assert_null(ps_plan_set_find(set, plan->rows_max, plan->logits_max + 1, plan->context_max));
        assert_null(ps_plan_set_find(set, plan->rows_max, plan->logits_max, plan->context_max + 1));
    }
    ps_buffer_deinit(&printed);
    ps_buffer_deinit(&again);
    ps_arena_deinit(&arena);
    free(text);
}

static const struct {
    const char *find, *replace;
    ps_status status;
    const char *says;
} BAD[] = {
    {"plan_file version=1\n", "", PS_INVALID, "line 1: the line 'plan_file ...'"},
    {"plan_file version=1", "plan_file version=2", PS_UNSUPPORTED, "version 2, this build reads 1"},
    {"plan_file version=1", "plan_file version=1 x", PS_INVALID, "line 1: "},
    {"plan_file version=1", "plan_file", PS_INVALID, "line 1: "},
    {"plan_file version=1", "plan_file version=1\nplan_file version=1", PS_INVALID,
     "line 2: the line 'model ...'"},
    {"fingerprint=00c0ffee12345678", "fingerprint=00C0ffee12345678", PS_INVALID,
     "line 2: a finger"},
    {"fingerprint=00c0ffee12345678", "fingerprint=0c0ffee12345678", PS_INVALID, "16 digits"},
    {"fingerprint=00c0ffee12345678", "fingerprint=000c0ffee12345678", PS_INVALID, "16 digits"},
    {" layout=3", "", PS_INVALID, "line 2: "},
    {" layout=3", " layout=4294967296", PS_INVALID, "line 2: "},
    {" layout=3", " layuot=3", PS_INVALID, "'layout'"},
    {"4 GHz", "4444444444444444444444444444444444444444444444444444444444 GHz", PS_INVALID,
     "line 3: a machine is longer than 63 bytes"},
    {"4 GHz", "4\\x00GHz", PS_INVALID, "line 3: "},
    {"threads=2", "threads=0", PS_INVALID, "line 3: threads 0"},
    {"count=4", "count=0", PS_INVALID, "line 4: count 0"},
    {"count=4", "count=3", PS_INVALID, "line 4: rank 3; 0 to 2"},
    {"policy name=off", "policy name=\"off\"", PS_INVALID, "line 5: expected a policy"},
    {"policy name=off", "policy name=sixteen_letters_", PS_INVALID, "line 5: a policy is a word"},
    {"policy name=off", "policy name=off\npolicy name=off", PS_INVALID, "line 6: the line 'plan"},
    {"policy name=off", "barrier", PS_INVALID, "line 5: the line 'policy ...'"},
};

static void test_bad_heads_are_refused(void **state)
{
    (void)state;
    char *text = make_text();
    expect(PS_OK, "", text);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char *bad = ps_plan_text_replace(text, BAD[i].find, BAD[i].replace);
        expect(BAD[i].status, BAD[i].says, bad);
        free(bad);
    }
    free(text);
}

static void test_texts_without_a_plan_are_refused(void **state)
{
    (void)state;
    expect(PS_INVALID, "the text ends where the line 'plan_file ...'", "");
    expect(PS_INVALID, "the text ends where the line 'plan ...'", HEAD);
    char *plan = ps_graph_text_load("test/plan/decode.plan");
    expect(PS_INVALID, "line ", plan);
    free(plan);
}

static void test_bad_plans_are_named_by_their_line(void **state)
{
    (void)state;
    char says[64];
    char *text = make_text();
    const char *second = strstr(strstr(text, "\nplan ") + 1, "\nplan ") + 1;
    const char *step = strstr(second, " split=");
    const uint32_t line = line_of(text, step);
    text[step - text + 1] = 'x'; // "xplit"
    (void)snprintf(says, sizeof says, "line %u: ", line);
    expect(PS_INVALID, says, text);
    text[step - text + 1] = 's';

    // A plan that does not verify: a context of 0.
    char *context = strstr(second, " context_max=") + strlen(" context_max=");
    memset(context, '0', strspn(context, "0123456789"));
    (void)snprintf(says, sizeof says, "plan at line %u: ", line_of(text, second));
    expect(PS_INVALID, says, text);
    free(text);
}

static void test_a_bucket_stands_once(void **state)
{
    (void)state;
    char says[128];
    char *text = make_text();
    char *plan = ps_graph_text_load("test/plan/decode.plan");
    const size_t length = strlen(text);
    text = realloc(text, length + strlen(plan) + 1);
    assert_non_null(text);
    memcpy(text + length, plan, strlen(plan) + 1);
    (void)snprintf(says, sizeof says, "line %u: a second plan for ",
                   line_of(text, strstr(text + length, "plan ")));
    expect(PS_INVALID, says, text);
    free(plan);
    free(text);
}

static void test_no_more_than_the_limit(void **state)
{
    (void)state;
    char *plan = ps_graph_text_load("test/plan/decode.plan");
    const char *context = strstr(plan, " context_max=");
    const char *rest = context + strlen(" context_max=");
    rest += strspn(rest, "0123456789");
    ps_buffer text = {0};
    ps_graph_text_require(ps_buffer_append(&text, HEAD, strlen(HEAD)), "writing");
    for (uint32_t i = 0; i <= PS_PLAN_FILE_PLANS_MAX; i++) {
        if (i == PS_PLAN_FILE_PLANS_MAX) {
            expect(PS_OK, "", text.data);
        }
        ps_graph_text_require(ps_buffer_printf(&text, "%.*s context_max=%u%s",
                                               (int)(context - plan), plan, 512 - i, rest),
                              "writing");
    }
    expect(PS_INVALID, "more than 64 plans", text.data);
    ps_buffer_deinit(&text);
    free(plan);
}

static void test_keys_differ_in_every_field(void **state)
{
    (void)state;
    const ps_plan_key here = {0x1234, 3, "a CPU", 2, 2, 1, "off"};
    ps_plan_key other[7];
    static const char *const SAYS[7] = {"another model: fingerprint 0000000000001235, here 0000",
                                        "layout of weights is 4, here it is 3",
                                        "machine is 'b CPU', here it is 'a CPU'",
                                        "number of threads is 3, here it is 2",
                                        "number of ranks is 3, here it is 2",
                                        "rank is 0, here it is 1",
                                        "policy is 'auto', here it is 'off'"};
    for (uint32_t i = 0; i < 7; i++) {
        other[i] = here;
    }
    other[0].fingerprint = 0x1235;
    other[1].layout = 4;
    other[2].machine[0] = 'b';
    other[3].threads = 3;
    other[4].ranks = 3;
    other[5].rank = 0;
    memcpy(other[6].policy, "auto", 5);
    assert_int_equal(PS_OK, ps_plan_key_check(&here, &here));
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(PS_INVALID, ps_plan_key_check(&other[i], &here));
        if (strstr(ps_error_message(), SAYS[i]) == NULL) {
            fail_msg("'%s' does not say '%s'", ps_error_message(), SAYS[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_bad_heads_are_refused),
        cmocka_unit_test(test_texts_without_a_plan_are_refused),
        cmocka_unit_test(test_bad_plans_are_named_by_their_line),
        cmocka_unit_test(test_a_bucket_stands_once),
        cmocka_unit_test(test_no_more_than_the_limit),
        cmocka_unit_test(test_keys_differ_in_every_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
