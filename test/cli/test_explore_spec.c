// ctest-labels: unit;prop
//
// Goal: a spec becomes the points that it says, in their order, with the values that it says; and
// what is wrong with one is refused with its place and what would be right.
// Method: hand-written specs, and random products whose points are counted here by nested loops.
#include "explore_test.h"

#include "gen.h"

#include <stdio.h>

#define START "'title': 't', 'machine': 'm', 'model': 'x'"

static void test_points_are_the_product_in_order(void **state)
{
    (void)state;
    read_spec r;
    const char *text = "{'title': 't', 'machine': 'm', 'workload': {'batch': 7, 'prefetch': 'off'},"
                       " 'set': {'machine.l2_bytes': '192MiB', 'workload.ratio.attn.qkv': 0.5},"
                       " 'baseline': {'workload.prefetch': 'auto', 'machine.read_gbs': 9},"
                       " 'sweep': [{'field': 'model', 'values': ['a', 'b']},"
                       "  {'fields': ['workload.batch', 'workload.context_tokens'],"
                       "   'values': [[1, 512], [4, 1024]]},"
                       "  {'field': 'machine.read_gbs', 'from': 100, 'to': 400, 'factor': 2}]}";
    assert_int_equal(PS_OK, read_text(&r, text));
    const ps_machine machine = {.threads = 3, .read_gbs = 1, .l2_bytes = 1};
    assert_int_equal(2 * 2 * 3, r.spec.row_count);
    uint32_t row = 0;
    for (uint32_t model = 0; model < 2; model++) {
        for (uint32_t pair = 0; pair < 2; pair++) {
            for (uint32_t rate = 0; rate < 3; rate++, row++) {
                ps_explore_point point;
                ps_explore_point_make(&r.spec, &r.fields, &machine, row, NULL, false, &point);
                assert_int_equal(model, point.model_index);
                assert_int_equal(pair == 0 ? 1 : 4, point.workload.batch);
                assert_int_equal(pair == 0 ? 512 : 1024, point.workload.context_tokens);
                assert_true(point.machine.read_gbs == 100 << rate);
                assert_int_equal((uint64_t)192 << 20, point.machine.l2_bytes);
                assert_int_equal(3, point.machine.threads);
                assert_int_equal(PS_PREFETCH_OFF, point.workload.prefetch);
                assert_true(point.workload.ratios.ratio[PS_RATIO_ATTN_QKV] == 0.5);
                assert_true(point.workload.ratios.ratio[PS_RATIO_ATTN_O] == 1);
                ps_explore_point_make(&r.spec, &r.fields, &machine, row, NULL, true, &point);
                assert_int_equal(PS_PREFETCH_AUTO, point.workload.prefetch);
                assert_true(point.machine.read_gbs == 9);
                ps_result_cell cells[128];
                ps_explore_row_fill(&r.spec, row, cells);
                assert_string_equal("m", cells[column(&r, "machine")].text);
                assert_string_equal(model == 0 ? "a" : "b", cells[column(&r, "model")].text);
                assert_true(cells[column(&r, "workload.batch")].number == (pair == 0 ? 1 : 4));
                assert_true(cells[column(&r, "machine.read_gbs")].number == 100 << rate);
                assert_true(cells[column(&r, "speedup")].number !=
                            cells[column(&r, "speedup")].number);
                assert_null(cells[column(&r, "error")].text);
            }
        }
    }
    close_spec(&r);
}

static void test_columns(void **state)
{
    (void)state;
    read_spec r;
    assert_int_equal(PS_OK, read_text(&r, "{" START ", 'sweep': [{'field': 'workload.prefetch',"
                                          " 'values': ['off', 'preserve']}]}"));
    assert_int_equal(0, column(&r, "machine"));
    assert_int_equal(1, column(&r, "model"));
    assert_int_equal(2, column(&r, "workload.prefetch"));
    assert_true(r.spec.columns.all[2].is_text);
    assert_int_equal(3, column(&r, ps_design_metrics[0].name));
    assert_int_equal(3 + ps_design_metric_count, column(&r, "error"));
    assert_int_equal(r.spec.columns.count - 1, column(&r, "error"));
    assert_string_equal("bytes", r.spec.columns.all[column(&r, "kv_bytes")].unit);
    close_spec(&r);
}

static void test_one_point_without_a_sweep(void **state)
{
    (void)state;
    read_spec r;
    const ps_machine machine = {.threads = 1};
    ps_explore_point point;
    assert_int_equal(PS_OK, read_text(&r, "{" START "}"));
    assert_int_equal(1, r.spec.row_count);
    assert_false(r.spec.has_baseline);
    ps_explore_point_make(&r.spec, &r.fields, &machine, 0, NULL, false, &point);
    const ps_workload defaults = ps_explore_workload_default();
    assert_memory_equal(&defaults, &point.workload, sizeof defaults);
    close_spec(&r);
}

// Progressions: as many values as fit, the last one although 0.1 is no binary number.
static void test_progressions(void **state)
{
    (void)state;
    static const struct {
        const char *axis;
        uint32_t count;
        double first, last;
    } CASES[] = {
        {"'from': 0.1, 'to': 0.7, 'step': 0.1", 7, 0.1, 0.7},
        {"'from': 5, 'to': 5, 'step': 1", 1, 5, 5},
        {"'from': 1, 'to': 1000, 'factor': 10", 4, 1, 1000},
        {"'from': 3, 'to': 100, 'factor': 2", 6, 3, 96},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        read_spec r;
        char text[400];
        (void)snprintf(text, sizeof text,
                       "{" START ", 'sweep': [{'field': 'machine.read_gbs', %s}]}", CASES[i].axis);
        assert_int_equal(PS_OK, read_text(&r, text));
        assert_int_equal(CASES[i].count, r.spec.row_count);
        const ps_explore_value *values = r.spec.axes[0].values;
        assert_true(values[0].cell.number == CASES[i].first);
        const double off = values[CASES[i].count - 1].cell.number / CASES[i].last - 1;
        assert_true(off < 1e-12 && off > -1e-12);
        close_spec(&r);
    }
}

static void test_random_products(void **state)
{
    (void)state;
    static const char *const FIELDS[] = {"workload.batch", "machine.read_gbs", "machine.fill_gbs",
                                         "workload.slo_ns"};
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 50; round++) {
        char text[4096];
        uint32_t counts[4];
        uint32_t product = 1;
        const uint32_t axes = (uint32_t)ps_gen_range(&gen, 1, 4);
        int length = snprintf(text, sizeof text, "{" START ", 'sweep': [");
        for (uint32_t i = 0; i < axes; i++) {
            counts[i] = (uint32_t)ps_gen_range(&gen, 1, 6);
            product *= counts[i];
            length += snprintf(text + length, sizeof text - (size_t)length,
                               "%s{'field': '%s', 'from': 1, 'to': %u, 'step': 1}",
                               i == 0 ? "" : ", ", FIELDS[i], counts[i]);
        }
        (void)snprintf(text + length, sizeof text - (size_t)length, "]}");
        read_spec r;
        assert_int_equal(PS_OK, read_text(&r, text));
        assert_int_equal(product, r.spec.row_count);
        const uint32_t row = (uint32_t)ps_gen_range(&gen, 0, product - 1);
        ps_result_cell cells[128];
        ps_explore_row_fill(&r.spec, row, cells);
        uint32_t again = 0; // the number that these values have
        for (uint32_t i = 0; i < axes; i++) {
            again = again * counts[i] + (uint32_t)cells[column(&r, FIELDS[i])].number - 1;
        }
        assert_int_equal(row, again);
        close_spec(&r);
    }
}

typedef struct refusal {
    const char *members; // behind START
    const char *says[3];
} refusal;

static const refusal REFUSALS[] = {
    {"'titel': 1", {"titel", "'title'"}},
    {"'about': 3", {"about", "text"}},
    {"'workload': {'batc': 1}", {"workload.batc", "'workload.batch'"}},
    {"'workload': {'batch': 0}", {"workload.batch", "1 to"}},
    {"'workload': {'batch': 1.5}", {"workload.batch", "whole"}},
    {"'workload': {'prefetch': 'preserv'}", {"workload.prefetch", "preserv", "\"preserve\""}},
    {"'workload': []", {"workload", "object"}},
    {"'set': {'machine.l2_byte': 1}", {"set.machine.l2_byte", "'machine.l2_bytes'"}},
    {"'set': {'machine.l2_bytes': '8Mbit'}", {"set.machine.l2_bytes", "8GiB"}},
    {"'set': {'machine.name': 'x'}", {"set.machine.name", "no field"}},
    {"'set': {'workload.ratio.attn.qkv': 2}", {"set.workload.ratio.attn.qkv", "0 to 1"}},
    {"'baseline': {'workload.ranks': '2'}", {"baseline.workload.ranks", "number"}},
    {"'sweep': []", {"sweep", "1 to 8"}},
    {"'sweep': {}", {"sweep", "list"}},
    {"'sweep': [3]", {"sweep[0]", "object"}},
    {"'sweep': [{'values': [1]}]", {"sweep[0]", "\"field\""}},
    {"'sweep': [{'field': 'workload.batch', 'fields': []}]", {"sweep[0]", "\"fields\""}},
    {"'sweep': [{'field': 3, 'values': [1]}]", {"sweep[0].field", "name"}},
    {"'sweep': [{'field': 'batch', 'values': [1]}]", {"sweep[0].field", "'workload.batch'"}},
    {"'sweep': [{'field': 'workload.batch', 'values': []}]", {"sweep[0].values", "list"}},
    {"'sweep': [{'field': 'workload.batch', 'values': [1, 'x']}]", {"sweep[0].values[1]"}},
    {"'sweep': [{'field': 'workload.batch', 'values': [1], 'step': 2}]", {"sweep[0]", "itself"}},
    {"'sweep': [{'field': 'workload.batch', 'from': 1, 'to': 2}]", {"sweep[0]", "\"step\""}},
    {"'sweep': [{'field': 'workload.batch', 'from': 1, 'to': 4, 'step': 0.4}]", {"sweep[0]"}},
    {"'sweep': [{'field': 'workload.batch', 'from': 4, 'to': 1, 'step': 1}]",
     {"sweep[0]", "nowhere"}},
    {"'sweep': [{'field': 'workload.batch', 'from': 1, 'to': 4, 'factor': 1}]", {"nowhere"}},
    {"'sweep': [{'field': 'workload.batch', 'to': 4, 'factor': 2}]", {"sweep[0].from", "missing"}},
    {"'sweep': [{'field': 'model', 'from': 1, 'to': 4, 'step': 1}]", {"sweep[0]", "no number"}},
    {"'sweep': [{'field': 'model', 'values': ['']}]", {"sweep[0].values[0]"}},
    {"'sweep': [{'field': 'workload.batch', 'values': [1]},"
     " {'field': 'workload.batch', 'values': [2]}]",
     {"sweep[1].field", "already"}},
    {"'sweep': [{'fields': ['workload.batch', 'workload.batch'], 'values': [[1, 1]]}]",
     {"sweep[0].fields", "twice"}},
    {"'sweep': [{'fields': ['workload.batch', 'workload.ranks'], 'values': [[1]]}]",
     {"sweep[0].values[0]", "2 values"}},
    {"'sweep': [{'field': 'machine.read_gbs', 'from': 1, 'to': 1e8, 'step': 1}]", {"10000000"}},
    {"'sweep': [{'field': 'machine.read_gbs', 'from': 1, 'to': 5000, 'step': 1},"
     " {'field': 'machine.fill_gbs', 'from': 1, 'to': 5000, 'step': 1}]",
     {"sweep[1]", "25000000", "10000000"}},
    {"'search': {'over': []}", {"search.over", "list"}},
    {"'search': {'over': [{'field': 'model', 'from': 1, 'to': 2}], 'maximise': 'step_ns'}",
     {"search.over[0].field", "no number"}},
    {"'search': {'over': [{'field': 'machine.read_gbs', 'from': 1, 'to': 2}]}",
     {"search", "\"maximise\""}},
    {"'search': {'over': [{'field': 'machine.read_gbs', 'from': 1, 'to': 2}], 'maximise': "
     "'step_n'}",
     {"search.maximise", "'step_ns'"}},
    {"'search': {'over': [{'field': 'machine.read_gbs', 'from': 0, 'to': 2, 'scale': 'log'}],"
     " 'maximise': 'step_ns'}",
     {"search.over[0]", "logarithmic"}},
    {"'search': {'over': [{'field': 'machine.read_gbs', 'from': 1, 'to': 2, 'scale': 'linar'}],"
     " 'maximise': 'step_ns'}",
     {"search.over[0].scale", "'linear'"}},
    {"'search': {'over': [{'field': 'machine.read_gbs', 'from': 1, 'to': 2}],"
     " 'maximise': 'step_ns', 'points': 1}",
     {"search.points", "2 to"}},
    {"'expect': [{'paper': 1}]", {"expect[0].what", "missing"}},
    {"'expect': [{'what': 'x', 'metric': 'speedup', 'paper': 1, 'relative': 0.1}]",
     {"expect[0].metric", "no column"}},
    {"'expect': [{'what': 'x', 'metric': 'model', 'at_least': 1}]",
     {"expect[0].metric", "numbers"}},
    {"'expect': [{'what': 'x', 'at_least': 1}]", {"expect[0]", "\"metric\""}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'paper': 1}]", {"expect[0]", "\"relative\""}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'paper': 1, 'relative': 1, 'absolute': 1}]",
     {"expect[0]", "one of"}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'paper': 1, 'steps': 1}]",
     {"expect[0]", "\"steps\""}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'relative': 1}]", {"expect[0]", "\"paper\""}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'at_least': 1, 'of': 'x_of_max'}]",
     {"expect[0]", "\"x\""}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'at_least': 1, 'of': 'maximum'}]",
     {"expect[0].of", "'max'"}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'at_least': 1, 'then': 'mean'}]",
     {"expect[0]", "\"per\""}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'at_least': 1, 'of': 'ratio_of_max'}]",
     {"expect[0]", "\"to\""}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'at_least': 1, 'where': {'modl': 'a'}}]",
     {"expect[0].where.modl", "'model'"}},
    {"'expect': [{'what': 'x', 'metric': 'step_ns', 'at_least': 1, 'where': {'model': 3}}]",
     {"expect[0].where.model", "text"}},
    {"'expect': [{'what': 'x', 'paper': null, 'relative': 1}]", {"expect[0]", "null"}},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        read_spec r;
        char text[1024];
        (void)snprintf(text, sizeof text, "{" START ", %s}", REFUSALS[i].members);
        const ps_status status = read_text(&r, text);
        if (status != PS_INVALID) {
            print_error("%s\n", text);
        }
        assert_int_equal(PS_INVALID, status);
        for (size_t j = 0; j < 3 && REFUSALS[i].says[j] != NULL; j++) {
            if (strstr(ps_error_message(), REFUSALS[i].says[j]) == NULL) {
                print_error("%s\n%s\n", text, ps_error_message());
                fail();
            }
        }
        close_spec(&r);
    }
}

static void test_machine_and_model_have_to_be_said(void **state)
{
    (void)state;
    read_spec r;
    assert_int_equal(PS_INVALID, read_text(&r, "{'title': 't', 'model': 'x'}"));
    assert_non_null(strstr(ps_error_message(), "machine is missing"));
    close_spec(&r);
    assert_int_equal(PS_INVALID, read_text(&r, "{'title': 't', 'machine': 'x'}"));
    assert_non_null(strstr(ps_error_message(), "model is missing"));
    close_spec(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_are_the_product_in_order),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_one_point_without_a_sweep),
        cmocka_unit_test(test_progressions),
        cmocka_unit_test(test_random_products),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_machine_and_model_have_to_be_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
