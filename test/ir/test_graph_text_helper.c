// ctest-labels: file
// Goal: the helper that pass tests stand on says yes to the right result and no to every other.
// Method: a tiny pass on a file, and expectations that differ from its result in one place. The
// differences that this test prints are part of it.
#include "ir/graph_text_test.h"

#define PASS_FILE "test/ir/drop_scale.txt"

static ps_status drop_scale(ps_graph *graph, void *context)
{
    uint32_t *calls = context;
    (*calls)++;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph->nodes[i].attributes.scale = 0;
    }
    return PS_OK;
}

static ps_status break_graph(ps_graph *graph, void *context)
{
    (void)context;
    graph->nodes[0].input_count = 0;
    return PS_OK;
}

static ps_status refuse(ps_graph *graph, void *context)
{
    (void)graph;
    (void)context;
    return ps_fail(PS_UNSUPPORTED, "not today");
}

static void test_file_is_compared(void **state)
{
    (void)state;
    uint32_t calls = 0;
    ps_graph_text_expect_file(PASS_FILE, drop_scale, &calls);
    assert_int_equal(calls, 1);
}

static void test_answers(void **state)
{
    (void)state;
    uint32_t calls = 0;
    char *input = ps_graph_text_load(PASS_FILE);
    char *between = strstr(input, "\n---\n");
    assert_non_null(between);
    *between = '\0';
    char *right = between + strlen("\n---\n");
    assert_true(ps_graph_text_matches(input, drop_scale, &calls, right));
    assert_true(ps_graph_text_matches(input, NULL, NULL, input));
    assert_false(ps_graph_text_matches(input, NULL, NULL, right));
    assert_false(ps_graph_text_matches(input, drop_scale, &calls, "vocabulary 10\n"));
    assert_false(ps_graph_text_matches(input, drop_scale, &calls, "error: scale"));
    assert_true(ps_graph_text_matches(input, refuse, NULL, "error: not today"));
    assert_false(ps_graph_text_matches(input, refuse, NULL, "error: tomorrow"));
    assert_false(ps_graph_text_matches(input, refuse, NULL, right));
    assert_true(ps_graph_text_matches(input, break_graph, NULL,
                                      "error: after the pass: node 0, embed to 'x': 0 operands"));
    assert_true(ps_graph_text_matches("%a = sum", refuse, NULL, "error: line 1: 'sum' is not"));
    free(input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_is_compared),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
