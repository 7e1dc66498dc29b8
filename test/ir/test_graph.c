// Goal: a graph keeps what is added, finds every name, stops at its limits and survives every
// failing allocation.
// Method: many values under names that a linear search checks; limits reached for real; a text
// parsed under every arena limit from nothing to enough.
#include "ir/graph_text_test.h"

#include "gen.h"

#define ARENA_BYTES ((size_t)512 << 20)

typedef struct fixture {
    ps_arena arena;
    ps_graph graph;
} fixture;

static void start(fixture *f)
{
    ps_arena_init(&f->arena, ARENA_BYTES);
    ps_graph_init(&f->graph, &f->arena);
}

static ps_value activation(const char *name, uint32_t columns)
{
    return (ps_value){.name = name,
                      .kind = PS_VALUE_ACTIVATION,
                      .dtype = PS_DTYPE_F32,
                      .columns = columns,
                      .row_multiplier = 1,
                      .alias_of = PS_NO_VALUE};
}

static void test_values_are_found_by_name(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    ps_gen gen = ps_gen_start();
    fixture f;
    start(&f);
    assert_int_equal(ps_graph_find(&f.graph, ps_str_of("a")), PS_NO_VALUE);
    for (uint32_t i = 0; i < COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%u.%u", (unsigned)ps_gen_range(&gen, 0, 9), i);
        const ps_value value = activation(name, i + 1);
        ps_value_id id = PS_NO_VALUE;
        assert_int_equal(ps_graph_add_value(&f.graph, &value, &id), PS_OK);
        assert_int_equal(id, i);
    }
    assert_int_equal(f.graph.value_count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const char *name = f.graph.values[i].name;
        assert_int_equal(f.graph.values[i].columns, i + 1);
        assert_int_equal(ps_graph_find(&f.graph, ps_str_of(name)), i);
        assert_int_equal(ps_graph_find(&f.graph, (ps_str){name, strlen(name) - 1}) == i, 0);
    }
    assert_int_equal(ps_graph_find(&f.graph, ps_str_of("10.1")), PS_NO_VALUE);
    ps_arena_deinit(&f.arena);
}

static void test_names_are_copied_and_checked(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    char name[PS_NAME_BYTES_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ps_value value = activation(name, 1);
    ps_value_id id = 77;
    assert_int_equal(ps_graph_add_value(&f.graph, &value, &id), PS_INVALID);
    value.name = "";
    assert_int_equal(ps_graph_add_value(&f.graph, &value, &id), PS_INVALID);
    assert_int_equal(f.graph.value_count, 0);
    assert_int_equal(id, 77);

    name[PS_NAME_BYTES_MAX] = '\0';
    value.name = name;
    assert_int_equal(ps_graph_add_value(&f.graph, &value, &id), PS_OK);
    assert_int_equal(ps_graph_add_value(&f.graph, &value, &id), PS_INVALID);
    assert_non_null(strstr(ps_error_message(), "two values named 'nnn"));
    assert_int_equal(f.graph.value_count, 1);
    name[0] = 'm';
    assert_int_equal(f.graph.values[0].name[0], 'n');
    ps_arena_deinit(&f.arena);
}

static void test_a_view_names_the_storage_of_its_base(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    ps_value_id base = 0;
    ps_value_id view_id = 0;
    const ps_value value = activation("base", 8);
    ps_value view = activation("view", 4);
    assert_int_equal(ps_graph_add_value(&f.graph, &value, &base), PS_OK);
    view.alias_of = base;
    assert_int_equal(ps_graph_add_value(&f.graph, &view, &view_id), PS_OK);
    assert_int_equal(ps_graph_storage(&f.graph, base), base);
    assert_int_equal(ps_graph_storage(&f.graph, view_id), base);
    ps_arena_deinit(&f.arena);
}

static void test_values_stop_at_the_limit(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    ps_value_id id = 0;
    char name[16];
    ps_value value = activation(name, 1);
    for (uint32_t i = 0; i < PS_GRAPH_VALUES_MAX; i++) {
        (void)snprintf(name, sizeof name, "%u", i);
        assert_int_equal(ps_graph_add_value(&f.graph, &value, &id), PS_OK);
    }
    value.name = "more";
    assert_int_equal(ps_graph_add_value(&f.graph, &value, &id), PS_EXHAUSTED);
    assert_int_equal(f.graph.value_count, PS_GRAPH_VALUES_MAX);
    assert_int_equal(ps_graph_find(&f.graph, ps_str_of("more")), PS_NO_VALUE);
    assert_int_equal(ps_graph_find(&f.graph, ps_str_of("199999")), 199999);
    ps_arena_deinit(&f.arena);
}

static void test_nodes_are_kept_in_order_and_stop_at_the_limit(void **state)
{
    (void)state;
    fixture f;
    start(&f);
    ps_node node = {.op = PS_OP_ADD};
    for (uint32_t i = 0; i < PS_GRAPH_NODES_MAX; i++) {
        node.output = i;
        assert_int_equal(ps_graph_add_node(&f.graph, &node), PS_OK);
    }
    assert_int_equal(ps_graph_add_node(&f.graph, &node), PS_EXHAUSTED);
    assert_int_equal(f.graph.node_count, PS_GRAPH_NODES_MAX);
    for (uint32_t i = 0; i < PS_GRAPH_NODES_MAX; i++) {
        assert_int_equal(f.graph.nodes[i].output, i);
    }
    ps_arena_deinit(&f.arena);
}

static ps_status parse_within(const char *text, size_t limit_bytes)
{
    ps_arena arena;
    ps_arena_init(&arena, limit_bytes);
    ps_graph graph;
    ps_graph_init(&graph, &arena);
    ps_status status = ps_graph_parse(ps_str_of(text), &graph);
    status = status == PS_OK ? ps_graph_verify(&graph, "parsing") : status;
    ps_arena_deinit(&arena);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    char *text = ps_graph_text_load("test/ir/all_ops.graph");
    size_t limit_bytes = 0;
    ps_status status;
    while ((status = parse_within(text, limit_bytes)) != PS_OK) {
        assert_int_equal(status, PS_EXHAUSTED);
        assert_non_null(strstr(ps_error_message(), "arena limit of"));
        limit_bytes += PS_CACHE_LINE_BYTES;
        assert_true(limit_bytes < (1 << 20));
    }
    assert_true(limit_bytes > (1 << 12));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_found_by_name),
        cmocka_unit_test(test_names_are_copied_and_checked),
        cmocka_unit_test(test_a_view_names_the_storage_of_its_base),
        cmocka_unit_test(test_values_stop_at_the_limit),
        cmocka_unit_test(test_nodes_are_kept_in_order_and_stop_at_the_limit),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
