// ctest-labels: prop
// Goal: verify accepts every right graph; printing and parsing lose nothing; no changed byte of a
// text does harm.
// Method: random graphs that are right by construction (graph_maker.h), compared field by field
// after the round trip; the same texts with random bytes changed, which parse or fail, no more.
#include "ir/graph_maker.h"
#include "ir/graph_text_test.h"

#define ROUNDS 300
#define BLOCKS_MAX 12
#define ARENA_BYTES ((size_t)64 << 20)

static void assert_same_value(const ps_value *a, const ps_value *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->v_dtype, b->v_dtype);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->columns, b->columns);
    assert_int_equal(a->experts, b->experts);
    assert_int_equal(a->row_kind, b->row_kind);
    assert_int_equal(a->row_multiplier, b->row_multiplier);
    assert_int_equal(a->kv_group, b->kv_group);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_int_equal(a->alias_of, b->alias_of);
    assert_int_equal(a->alias_column, b->alias_column);
    assert_int_equal(a->is_output, b->is_output);
}

static void assert_same_graph(const ps_graph *a, const ps_graph *b)
{
    assert_int_equal(a->vocabulary, b->vocabulary);
    assert_int_equal(a->kv_group_count, b->kv_group_count);
    for (uint32_t i = 0; i < a->kv_group_count; i++) {
        assert_int_equal(a->kv_groups[i].window, b->kv_groups[i].window);
    }
    assert_int_equal(a->value_count, b->value_count);
    for (uint32_t i = 0; i < a->value_count; i++) {
        assert_same_value(&a->values[i], &b->values[i]);
    }
    assert_int_equal(a->node_count, b->node_count);
    for (uint32_t i = 0; i < a->node_count; i++) {
        assert_memory_equal(&a->nodes[i], &b->nodes[i], sizeof *a->nodes);
    }
}

static void test_text_loses_nothing(void **state)
{
    (void)state;
    // Nodes are compared as bytes.
    assert_int_equal(sizeof(ps_node),
                     sizeof(uint32_t) * (3 + PS_OP_INPUTS_MAX) + sizeof(ps_op_attributes));
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        ps_arena arena;
        ps_arena_init(&arena, ARENA_BYTES);
        ps_graph graph, back;
        ps_graph_init(&graph, &arena);
        ps_graph_init(&back, &arena);
        ps_graph_make(&gen, (uint32_t)ps_gen_range(&gen, 0, BLOCKS_MAX), &graph);
        ps_graph_text_require(ps_graph_verify(&graph, "making"), "a right graph");

        ps_buffer first = {0};
        ps_buffer second = {0};
        ps_graph_text_require(ps_graph_print(&graph, &first), "printing");
        ps_graph_text_require(ps_graph_parse((ps_str){first.data, first.length}, &back), "parsing");
        assert_same_graph(&graph, &back);
        ps_graph_text_require(ps_graph_print(&back, &second), "printing again");
        assert_string_equal(first.data, second.data);
        ps_buffer_deinit(&first);
        ps_buffer_deinit(&second);
        ps_arena_deinit(&arena);
    }
}

// Any text: refused, or it prints as a text that prints as itself.
static void check_any_text(ps_str text)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_graph graph, back;
    ps_graph_init(&graph, &arena);
    ps_graph_init(&back, &arena);
    if (ps_graph_parse(text, &graph) == PS_OK) {
        (void)!ps_graph_verify(&graph, "parsing");
        ps_buffer first = {0};
        ps_buffer second = {0};
        ps_graph_text_require(ps_graph_print(&graph, &first), "printing");
        ps_graph_text_require(ps_graph_parse((ps_str){first.data, first.length}, &back), "parsing");
        ps_graph_text_require(ps_graph_print(&back, &second), "printing again");
        assert_string_equal(first.data, second.data);
        ps_buffer_deinit(&first);
        ps_buffer_deinit(&second);
    }
    ps_arena_deinit(&arena);
}

static void test_changed_bytes_do_no_harm(void **state)
{
    (void)state;
    static const char MARKS[] = "%={}[],\"\\# \n0T-.";
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        ps_arena arena;
        ps_arena_init(&arena, ARENA_BYTES);
        ps_graph graph;
        ps_graph_init(&graph, &arena);
        ps_graph_make(&gen, 1, &graph);
        ps_buffer text = {0};
        ps_graph_text_require(ps_graph_print(&graph, &text), "printing");
        for (int64_t i = ps_gen_range(&gen, 1, 3); i > 0; i--) {
            const size_t at = (size_t)ps_gen_range(&gen, 0, (int64_t)text.length - 1);
            text.data[at] = ps_gen_range(&gen, 0, 1)
                                ? MARKS[ps_gen_range(&gen, 0, sizeof MARKS - 2)]
                                : (char)ps_gen_range(&gen, 0, 255);
        }
        check_any_text((ps_str){text.data, (size_t)ps_gen_range(&gen, 0, (int64_t)text.length)});
        check_any_text((ps_str){text.data, text.length});
        ps_buffer_deinit(&text);
        ps_arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_loses_nothing),
        cmocka_unit_test(test_changed_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
