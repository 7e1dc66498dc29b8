// Goal: every way to take a number out of a table gives what a reader of the table would write
// down, and it is judged as its tolerance says.
// Method: small tables by hand, with the numbers worked out beside them.
#include "explore_test.h"

#include <math.h>
#include <stdio.h>

#define COLUMNS 5u
#define ROWS_MAX 16u

static const ps_result_column COLUMN[COLUMNS] = {
    {"model", "", true}, {"l2", "bytes", false}, {"y", "ns", false},
    {"z", "", false},    {"error", "", true},
};

typedef struct row {
    const char *model;
    double l2, y, z;
} row;

// Along l2 a falls, a little at the end; b rises, falls and has a gap; x has one row.
static const row ROWS[] = {
    {"a", 8, 100, 10}, {"a", 16, 80, 20}, {"a", 32, 60.3, 30}, {"a", 64, 60, 40},  {"b", 8, 1.0, 2},
    {"b", 16, 1.5, 2}, {"b", 32, NAN, 2}, {"b", 64, 0.9, 2},   {"x", 128, 7, 3.5},
};
#define ROW_COUNT ((uint32_t)(sizeof ROWS / sizeof ROWS[0]))

static ps_status judge_rows(const char *text, const row *rows, uint32_t count, ps_arena *arena,
                            json_t *json, ps_report_expectation *out, bool *out_is_bad)
{
    static ps_result_cell cells[ROWS_MAX][COLUMNS];
    const ps_result_table table = {COLUMN, COLUMNS, count, cells[0]};
    ps_expectation e;
    for (uint32_t i = 0; i < count; i++) {
        cells[i][0].text = rows[i].model;
        cells[i][1].number = rows[i].l2;
        cells[i][2].number = rows[i].y;
        cells[i][3].number = rows[i].z;
        cells[i][4].text = NULL;
    }
    PS_TRY(ps_expectation_read(json, "e", (ps_explore_columns){COLUMN, COLUMNS}, arena, &e));
    return ps_expectation_judge(&e, &table, arena, out, out_is_bad);
}

// Judges and compares what is printed; out NULL: nothing is looked at.
static void check(const char *text, const char *ours, ps_report_verdict verdict, bool is_bad)
{
    ps_arena arena;
    ps_report_expectation out;
    bool bad = !is_bad;
    ps_arena_init(&arena, (size_t)1 << 24);
    json_t *json = parse(text);
    const ps_status status = judge_rows(text, ROWS, ROW_COUNT, &arena, json, &out, &bad);
    if (status != PS_OK || strcmp(ours, out.ours) != 0 || verdict != out.verdict) {
        print_error("%s\n%s\n", text, status == PS_OK ? out.ours : ps_error_message());
        fail();
    }
    assert_int_equal(is_bad, bad);
    json_decref(json);
    ps_arena_deinit(&arena);
}

static void is(const char *members, const char *ours)
{
    char text[600];
    (void)snprintf(text, sizeof text, "{'what': 'w', 'metric': 'y', %s, 'at_least': -1e9}",
                   members);
    check(text, ours, PS_REPORT_CONFIRMED, false);
}

static void is_none(const char *members, const char *ours)
{
    char text[600];
    (void)snprintf(text, sizeof text, "{'what': 'w', 'metric': 'y', %s, 'at_least': -1e9}",
                   members);
    check(text, ours, PS_REPORT_NOT_REPRODUCED, true);
}

#define A "'where': {'model': 'a'}, 'x': 'l2', "
#define B "'where': {'model': 'b'}, 'x': 'l2', "

static void test_reducers(void **state)
{
    (void)state;
    is("'where': {'model': 'x'}", "7 ns");
    is("'where': {'model': 'a', 'l2': '16'}", "80 ns");
    is("'where': {'model': ['a', 'x'], 'l2': [128, 4]}", "7 ns");
    is("'of': 'max', 'where': {'model': 'a'}", "100 ns");
    is("'of': 'min', 'where': {'model': 'b'}", "0.9 ns");
    is("'of': 'mean', 'where': {'model': 'a'}", "75.08 ns"); // 300.3 / 4
    is(A "'of': 'x_of_max'", "8 B");
    is(A "'of': 'x_of_min'", "64 B");
    is(B "'of': 'x_of_max'", "16 B");
    is(A "'of': 'x_saturated'", "32 B");               // 60.3 is within 1 % of 60
    is(A "'of': 'x_saturated', 'share': 0.4", "16 B"); // 80 within 84, 100 not
    is(A "'of': 'x_saturated', 'share': 0.001", "64 B");
    is(A "'of': 'x_crosses', 'at': 80", "16 B");
    is(A "'of': 'x_crosses', 'at': 1000", "8 B");
    is_none(A "'of': 'x_crosses', 'at': 1", "never");
    is(A "'of': 'x_of_drop'", "32 B"); // 0.8, 0.754, 0.995
    is(B "'of': 'x_of_drop'", "64 B"); // 1.5, then over the gap 0.6
    is(A "'of': 'cut'", "0.4");
    is(A "'of': 'gain'", "-0.4");
    is(B "'of': 'gain'", "-0.1");
    is(A "'of': 'rise_min'", "-0.2463"); // 60.3 / 80 - 1
    is(A "'of': 'rise_max'", "-0.004975");
    is(B "'of': 'rise_max'", "0.5");
    is("'of': 'ratio_of_max', 'to': 'z', 'where': {'model': 'a'}", "2.5"); // 100 / 40
    is("'to': 'z', 'where': {'model': 'x'}", "2");                         // 7 / 3.5
    is("'to': 'z', 'of': 'max', 'where': {'model': 'a'}", "10");
    is_none("'where': {'model': 'c'}", "no row has it");
    is_none("'where': {'model': 'a'}", "4 rows have it");
    is_none("'where': {'model': 'b', 'l2': 32}", "none");
}

static void test_rows_of_one_x_are_averaged(void **state)
{
    (void)state;
    // a and b: 50.5, 40.75, none, 30.45
    is("'where': {'model': ['a', 'b']}, 'x': 'l2', 'of': 'max'", "50.5 ns");
    is("'where': {'model': ['a', 'b']}, 'x': 'l2', 'of': 'min'", "30.45 ns");
    is("'where': {'model': ['a', 'b']}, 'x': 'l2', 'of': 'x_of_min'", "64 B");
}

static void test_per(void **state)
{
    (void)state;
#define PER "'where': {'model': ['a', 'b', 'x']}, 'per': 'model', 'of': 'max', "
    is(PER "'then': 'mean'", "36.17 ns"); // (100 + 1.5 + 7) / 3
    is(PER "'then': 'min'", "1.5 ns");
    is(PER "'then': 'max'", "100 ns");
    is(PER "'then': 'median'", "7 ns");
    is(PER "'then': 'all'", "a 100 ns, b 1.5 ns, x 7 ns");
    is("'where': {'model': ['a', 'b']}, 'per': 'model', 'of': 'max', 'then': 'median'", "50.75 ns");
    is("'per': 'l2', 'of': 'min'", "1 ns, 1.5 ns, 60.3 ns, 0.9 ns, 7 ns");
    check("{'what': 'w', 'metric': 'y', " PER "'at_most': 50}", "a 100 ns, b 1.5 ns, x 7 ns",
          PS_REPORT_NOT_REPRODUCED, true);
}

#define X "'what': 'w', 'metric': 'y', 'where': {'model': 'x'}, " // 7
#define FROM_A "'what': 'w', 'metric': 'y', 'of': 'x_of_min', " A // 64, of 8 16 32 64 128

static void test_tolerances(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *ours;
        bool is_met;
    } CASES[] = {
        {"{" X "'paper': 6, 'relative': 0.17}", "7 ns", true},
        {"{" X "'paper': 6, 'relative': 0.16}", "7 ns", false},
        {"{" X "'paper': 8, 'relative': 0.125}", "7 ns", true},
        {"{" X "'paper': 6, 'absolute': 1}", "7 ns", true},
        {"{" X "'paper': 8, 'absolute': 0.99}", "7 ns", false},
        {"{" X "'paper': [1, 7.5, 20], 'absolute': 0.5}", "7 ns", true},
        {"{" X "'at_least': 7}", "7 ns", true},
        {"{" X "'at_least': 7.1}", "7 ns", false},
        {"{" X "'at_most': 7}", "7 ns", true},
        {"{" X "'at_least': 1, 'at_most': 6.9}", "7 ns", false},
        {"{" X "'paper': 3, 'at_least': 6.9}", "7 ns", true},
        {"{" FROM_A "'paper': 64, 'steps': 0}", "64 B", true},
        {"{" FROM_A "'paper': 128, 'steps': 0}", "64 B", false},
        {"{" FROM_A "'paper': 128, 'steps': 1}", "64 B", true},
        {"{" FROM_A "'paper': 16, 'steps': 1}", "64 B", false},
        {"{" FROM_A "'paper': 16, 'steps': 2}", "64 B", true},
        {"{" FROM_A "'paper': 60, 'steps': 0}", "64 B", true}, // its nearest
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        check(CASES[i].text, CASES[i].ours,
              CASES[i].is_met ? PS_REPORT_CONFIRMED : PS_REPORT_NOT_REPRODUCED, !CASES[i].is_met);
    }
}

static void test_unknown_is_never_judged(void **state)
{
    (void)state;
    check("{'what': 'w', 'paper': null, 'why': 'not in the text'}", "", PS_REPORT_UNKNOWN, false);
    check("{" X "'paper': null}", "7 ns", PS_REPORT_UNKNOWN, false);
}

static void test_remarks(void **state)
{
    (void)state;
    check("{" X "'paper': 1, 'absolute': 0, 'not_reproduced': 'because'}", "7 ns",
          PS_REPORT_NOT_REPRODUCED, false);
    ps_arena arena;
    ps_report_expectation out;
    bool is_bad;
    ps_arena_init(&arena, (size_t)1 << 24);
    json_t *json = parse("{" X "'paper': 7, 'absolute': 0, 'not_reproduced': 'because',"
                         " 'source': 'Table 1'}");
    assert_int_equal(PS_OK, judge_rows("", ROWS, ROW_COUNT, &arena, json, &out, &is_bad));
    assert_int_equal(PS_REPORT_CONFIRMED, out.verdict);
    assert_false(is_bad);
    assert_non_null(strstr(out.reason, "out of date"));
    assert_string_equal("Table 1", out.source);
    assert_string_equal("7 ns", out.paper);
    assert_string_equal("0 ns", out.within);
    json_decref(json);
    ps_arena_deinit(&arena);
}

static void test_an_empty_table(void **state)
{
    (void)state;
    ps_arena arena;
    ps_report_expectation out;
    bool is_bad;
    ps_arena_init(&arena, (size_t)1 << 24);
    json_t *json = parse(
        "{'what': 'w', 'metric': 'y', 'at_least': 1, 'of': 'x_of_max', 'x': 'l2'}");
    assert_int_equal(PS_OK, judge_rows("", ROWS, 0, &arena, json, &out, &is_bad));
    assert_string_equal("no row has it", out.ours);
    assert_true(is_bad);
    json_decref(json);
    ps_arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reducers),
        cmocka_unit_test(test_rows_of_one_x_are_averaged),
        cmocka_unit_test(test_per),
        cmocka_unit_test(test_tolerances),
        cmocka_unit_test(test_unknown_is_never_judged),
        cmocka_unit_test(test_remarks),
        cmocka_unit_test(test_an_empty_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
