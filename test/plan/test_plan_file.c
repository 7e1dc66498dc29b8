// ctest-labels: file
// ctest-links: ps_ir
// Goal: a plan file says what it holds and loses nothing; what is wrong with one is named with its
// line, and plans of another key are told apart by what differs.
// Method: a head written here and the plans of this folder, whole; then one thing of it changed.
#include "base/layout.h"
#include "plan/plan_file.h"
#include "plan/plan_text_test.h"

static const char HEAD[] = "plan_file version=2\n"
                           "model fingerprint=00c0ffee12345678 layout=3\n"
                           "machine name=\"A \\\"CPU\\\" of 4 GHz\" threads=2\n"
                           "ranks count=2\n"
                           "policy name=auto schedule=fused\n";

// A small plan, of rank 1.
static const char OTHER[] =
    "plan rows_max=2 logits_max=1 context_max=32 ranks=2 rank=1 vocabulary=32 shared_bytes=128 "
    "private_bytes=384\n"
    "\n"
    "%w = weight F32 [32, 32]\n"
    "%x = activation F32 [T, 32] private row_bytes=128\n"
    "%l = activation F32 [L, 32] private offset_bytes=256 row_bytes=128\n"
    "%y = activation F32 [L, 32] output shared row_bytes=128 part_unit=16 part_columns=32\n"
    "\n"
    "%x = embed %w split=all\n"
    "%l = select_logits %x split=all\n"
    "%y = linear %l, %w split=columns\n";

// HEAD, two plans for rank 0, and OTHER for rank 1. From the heap.
static char *make_text(void)
{
    char *decode = ps_graph_text_load("test/plan/decode.plan");
    char *prefill = ps_graph_text_load("test/plan/prefill.plan");
    ps_buffer text = {0};
    ps_graph_text_require(ps_buffer_printf(&text, "%s\nrank number=0\n\n%s\n%s\nrank number=1\n%s",
                                           HEAD, decode, prefill, OTHER),
                          "writing");
    free(decode);
    free(prefill);
    return text.data;
}

static uint32_t line_of(const char *text, const char *place)
{
    uint32_t line = 1;
    for (const char *at = text; at < place; at++) {
        line += *at == '\n';
    }
    return line;
}

static void expect_of(uint32_t rank, ps_status code, const char *says, const char *text)
{
    ps_arena arena;
    ps_arena_init(&arena, PS_PLAN_TEXT_ARENA_BYTES);
    ps_plan_set *set = NULL;
    const ps_status status = ps_plan_set_parse(ps_str_of(text), rank, &arena, &set);
    if (status != code) {
        fail_msg("status %d: %s", (int)status, ps_error_message());
    }
    if (code != PS_OK && strstr(ps_error_message(), says) == NULL) {
        fail_msg("'%s' does not say '%s'", ps_error_message(), says);
    }
    assert_true((set != NULL) == (code == PS_OK));
    ps_arena_deinit(&arena);
}

static void expect(ps_status code, const char *says, const char *text)
{
    expect_of(0, code, says, text);
}

// Both ranks' plans, as sets and printed.
static void parse_both(const char *text, ps_arena *arena, ps_plan_set *sets[2], ps_buffer *printed)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        ps_graph_text_require(ps_plan_set_parse(ps_str_of(text), rank, arena, &sets[rank]),
                              "parsing");
        ps_graph_text_require(ps_plan_set_print(sets[rank], printed), "printing");
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    char *text = make_text();
    ps_arena arena;
    ps_arena_init(&arena, PS_PLAN_TEXT_ARENA_BYTES);
    ps_plan_set *sets[2] = {0};
    ps_buffer printed = {0};
    ps_buffer again = {0};
    parse_both(text, &arena, sets, &printed);
    assert_memory_equal(HEAD, printed.data, strlen(HEAD));
    parse_both(printed.data, &arena, sets, &again);
    assert_string_equal(printed.data, again.data);
    assert_true(sets[0]->rank == 0 && sets[1]->rank == 1);
    assert_int_equal(1, sets[1]->plan_count);
    assert_int_equal(1, sets[1]->plans[0]->rank);
    const ps_plan_set *set = sets[0];

    assert_true(set->key.fingerprint == 0x00c0ffee12345678 && set->key.layout == 3);
    assert_string_equal("A \"CPU\" of 4 GHz", set->key.machine);
    assert_true(set->key.threads == 2 && set->key.ranks == 2);
    assert_string_equal("auto", set->key.policy);
    assert_string_equal("fused", set->key.schedule);
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
    {"plan_file version=2\n", "", PS_INVALID, "line 1: the line 'plan_file ...'"},
    {"plan_file version=2", "plan_file version=1", PS_UNSUPPORTED, "version 1, this build reads 2"},
    {"plan_file version=2", "plan_file version=2 x", PS_INVALID, "line 1: "},
    {"plan_file version=2", "plan_file", PS_INVALID, "line 1: "},
    {"plan_file version=2", "plan_file version=2\nplan_file version=2", PS_INVALID,
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
    {"count=2", "count=0", PS_INVALID, "line 4: count 0"},
    {"count=2", "count=65", PS_INVALID, "line 4: count 65; 1 to 64"},
    {"count=2", "count=3", PS_INVALID, "a plan for rank 0 of 2 among those for rank 0 of 3"},
    {"count=2", "count=2 rank=0", PS_INVALID, "line 4: "},
    {"policy name=auto", "policy name=\"auto\"", PS_INVALID, "line 5: expected a policy"},
    {"policy name=auto", "policy name=sixteen_letters_", PS_INVALID, "line 5: a policy is a word"},
    {" schedule=fused", "", PS_INVALID, "line 5: "},
    {"schedule=fused", "schedule=sixteen_letters_", PS_INVALID, "line 5: a policy is a word"},
    {"schedule=fused", "schedule=fused\npolicy name=off", PS_INVALID, "line 6: the line 'rank"},
    {"policy name=auto", "barrier", PS_INVALID, "line 5: the line 'policy ...'"},
    {"rank number=0", "", PS_INVALID, "the line 'rank ...'"},
    {"rank number=0", "rank", PS_INVALID, "line 7: "},
    {"rank number=0", "rank number=1", PS_INVALID, "line 7: number 1; 0 to 0"},
    {"rank number=0", "rank number=0 x", PS_INVALID, "line 7: "},
    {"rank number=0", "rank number=0\nrank number=1", PS_INVALID, "line 8: the line 'plan ...'"},
    {"\nrank number=1", "\nrank number=0", PS_INVALID, "number 0; 1 to 1"},
    {"\nrank number=1", "", PS_INVALID, "a plan for rank 1 of 2 among those for rank 0 of 2"},
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
    expect(PS_INVALID, "the text ends where the line 'rank ...'", HEAD);
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
    const size_t length = strlen(text);
    text = realloc(text, length + sizeof OTHER);
    assert_non_null(text);
    memcpy(text + length, OTHER, sizeof OTHER);
    (void)snprintf(says, sizeof says, "line %u: a second plan for ",
                   line_of(text, strstr(text + length, "plan ")));
    expect_of(1, PS_INVALID, says, text);
    free(text);
}

// Each rank reads its own; of the others it wants to see that they are there.
static void test_ranks_read_their_own(void **state)
{
    (void)state;
    ps_arena arena;
    ps_plan_set *set = NULL;
    char *text = make_text();
    char *end = text + strlen(text);
    expect_of(1, PS_OK, "", text);
    expect_of(2, PS_OK, "", text);
    ps_arena_init(&arena, PS_PLAN_TEXT_ARENA_BYTES);
    ps_graph_text_require(ps_plan_set_parse(ps_str_of(text), 2, &arena, &set), "parsing");
    assert_true(set->plan_count == 0 && set->key.ranks == 2);
    ps_arena_deinit(&arena);

    memcpy(end - 6, "x = y\n", 6); // of rank 1's plan
    expect_of(0, PS_OK, "", text);
    expect_of(1, PS_INVALID, "line ", text);
    char *others = ps_plan_text_replace(text, "ranks=2 rank=1 ", "ranks=2 ");
    expect_of(1, PS_INVALID, "line ", others);
    free(others);
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
    ps_graph_text_require(ps_buffer_printf(&text, "%srank number=0\n", HEAD), "writing");
    for (uint32_t i = 0; i <= PS_PLAN_FILE_PLANS_MAX; i++) {
        if (i == PS_PLAN_FILE_PLANS_MAX) { // what is missing is another rank, which comes last
            expect(PS_INVALID, "'rank number=1'", text.data);
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
    const ps_plan_key here = {0x1234, 3, "a CPU", 2, 2, "off", "serial"};
    ps_plan_key other[7];
    static const char *const SAYS[7] = {"another model: fingerprint 0000000000001235, here 0000",
                                        "layout of weights is 4, here it is 3",
                                        "machine is 'b CPU', here it is 'a CPU'",
                                        "number of threads is 3, here it is 2",
                                        "number of ranks is 3, here it is 2",
                                        "policy is 'auto', here it is 'off'",
                                        "schedule is 'fused', here it is 'serial'"};
    for (uint32_t i = 0; i < 7; i++) {
        other[i] = here;
    }
    other[0].fingerprint = 0x1235;
    other[1].layout = 4;
    other[2].machine[0] = 'b';
    other[3].threads = 3;
    other[4].ranks = 3;
    memcpy(other[5].policy, "auto", 5);
    memcpy(other[6].schedule, "fused", 6);
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
        cmocka_unit_test(test_ranks_read_their_own),
        cmocka_unit_test(test_no_more_than_the_limit),
        cmocka_unit_test(test_keys_differ_in_every_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
