// ctest-labels: prop
// ctest-links: ps_passes
// Goal: every right graph becomes a plan that verifies, in every bucket, of every rank.
// Method: random graphs (test/ir/graph_maker.h) through all passes, each followed by verification;
// ps_plan_verify shares no code with the scheduler. The parts of all ranks together are the whole.
#include "ir/graph_maker.h"
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"

#define ROUNDS 300
#define BLOCKS_MAX 12
#define ARENA_BYTES ((size_t)256 << 20)

// What the scheduler makes is taken back: chunks of attention and their merge become attention.
static void join_chunks(const ps_graph *graph, ps_node *partial, ps_node *merge)
{
    ps_value *output = &graph->values[merge->output];
    ps_assert(merge->op == PS_OP_ATTENTION_MERGE && merge->inputs[0] == partial->output);
    output->columns = graph->values[partial->inputs[0]].columns;
    partial->op = PS_OP_ATTENTION;
    partial->output = merge->output;
}

// What fusing makes is taken back: a linear with several weights becomes one for each, whose
// outputs were views. With the site of q, k and v, fusing may join them again.
static void split_linear(ps_gen *gen, ps_graph *graph, const ps_node *joined)
{
    const bool is_qkv = ps_gen_range(gen, 0, 3) > 0;
    uint32_t column = 0;
    for (uint32_t i = 1; i < joined->input_count; i++) {
        ps_node node = *joined;
        node.inputs[1] = joined->inputs[i];
        node.input_count = 2;
        node.attributes.site = is_qkv ? PS_SITE_ATTN_QKV : PS_SITE_ATTN_O;
        for (uint32_t v = 0; v < graph->value_count; v++) {
            ps_value *view = &graph->values[v];
            if (view->alias_of == joined->output && view->alias_column == column) {
                view->alias_of = PS_NO_VALUE;
                view->alias_column = 0;
                node.output = v;
            }
        }
        column += graph->values[node.inputs[1]].rows;
        ps_assert(ps_graph_add_node(graph, &node) == PS_OK);
    }
}

// A random graph as an architecture would build it. Some linears that are joined already stay so,
// where the rows of their weights allow it.
static void make_graph(ps_gen *gen, ps_arena *arena, ps_graph *graph)
{
    ps_graph_init(graph, arena);
    ps_graph_make(gen, (uint32_t)ps_gen_range(gen, 0, BLOCKS_MAX), graph);
    const uint32_t count = graph->node_count;
    ps_node *old = PS_ARENA_NEW(arena, ps_node, count);
    ps_assert(old != NULL);
    memcpy(old, graph->nodes, count * sizeof *old);
    graph->node_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool splits = false;
        if (old[i].op == PS_OP_ATTENTION_PARTIAL) {
            join_chunks(graph, &old[i], &old[i + 1]);
        } else if (old[i].op == PS_OP_LINEAR && old[i].input_count > 2) {
            const uint32_t kv_rows = graph->values[old[i].inputs[2]].rows;
            splits = kv_rows % PS_GROUP_ROWS != 0 || ps_gen_range(gen, 0, 3) > 0;
        }
        if (splits) {
            split_linear(gen, graph, &old[i]);
        } else if (old[i].op != PS_OP_ATTENTION_MERGE) {
            ps_assert(ps_graph_add_node(graph, &old[i]) == PS_OK);
        }
    }
}

// Printing and parsing lose nothing.
static void check_text(const ps_plan *plan)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_plan *back = NULL;
    ps_buffer first = {0};
    ps_buffer second = {0};
    ps_graph_text_require(ps_plan_print(plan, &first), "printing the plan");
    ps_graph_text_require(ps_plan_parse((ps_str){first.data, first.length}, &arena, &back),
                          "parsing it");
    ps_graph_text_require(ps_plan_print(back, &second), "printing it again");
    assert_string_equal(first.data, second.data);
    assert_int_equal(plan->value_count, back->value_count);
    assert_int_equal(plan->step_count, back->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *a = &plan->steps[i];
        const ps_plan_step *b = &back->steps[i];
        assert_memory_equal(&a->attributes, &b->attributes, sizeof a->attributes);
        assert_true(a->op == b->op && a->barrier == b->barrier && a->split == b->split);
        assert_true(a->weight_bytes == b->weight_bytes && a->row_ops == b->row_ops &&
                    a->predicted_ns == b->predicted_ns);
    }
    ps_buffer_deinit(&first);
    ps_buffer_deinit(&second);
    ps_arena_deinit(&arena);
}

static void test_every_graph_becomes_a_plan(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        ps_arena arena;
        ps_arena_init(&arena, ARENA_BYTES);
        ps_graph graph;
        make_graph(&gen, &arena, &graph);
        const uint32_t rows = (uint32_t)ps_gen_range(&gen, 1, 4) == 1
                                  ? (uint32_t)ps_gen_range(&gen, 1, 1000)
                                  : (uint32_t)ps_gen_range(&gen, 1, 16);
        const ps_pass_options options = {.rows_max = rows,
                                         .logits_max = (uint32_t)ps_gen_range(&gen, 0, rows),
                                         .context_max = (uint32_t)ps_gen_range(&gen, 1, 4000),
                                         .machine = &PS_TEST_MACHINE};
        ps_buffer text = {0};
        ps_graph_text_require(ps_graph_print(&graph, &text), "printing");
        ps_plan *plan = NULL;
        const ps_status status = ps_passes_run(&graph, &options, &plan);
        if (status != PS_OK) {
            fprintf(stderr, "rows_max %u, logits_max %u, context_max %u\n%s", rows,
                    options.logits_max, options.context_max, text.data);
        }
        ps_buffer_deinit(&text);
        ps_graph_text_require(status, "the passes");
        check_text(plan);
        ps_arena_deinit(&arena);
    }
}

// ---- ranks

static uint64_t weights_of(const ps_graph *graph, const char *name)
{
    const ps_value_id id = ps_graph_find(graph, ps_str_of(name));
    const ps_value *value = &graph->values[id];
    return (uint64_t)value->rows * value->columns;
}

static bool is_tensor(const ps_value *value)
{
    return value->kind == PS_VALUE_WEIGHT && value->rows > 1;
}

// Every element of every tensor is on a rank, and on one alone unless all have the tensor, or it is
// of KV heads whose query heads are on two. sums [values of the whole]: elements on all ranks
// together.
static void check_sums(const ps_graph *whole, const uint64_t *sums, uint32_t ranks)
{
    for (uint32_t i = 0; i < whole->value_count; i++) {
        const ps_value *value = &whole->values[i];
        const uint64_t size = (uint64_t)value->rows * value->columns;
        if (is_tensor(value) && (sums[i] < size || sums[i] > size * ranks)) {
            fail_msg("'%s': ranks have %llu of %llu elements", value->name,
                     (unsigned long long)sums[i], (unsigned long long)size);
        }
    }
}

// Of several ranks, what is seen of each and has to agree.
typedef struct rank_parts {
    uint64_t *sums;        // [values of the whole] elements on all ranks together
    ps_buffer collectives; // of rank 0: a line each
} rank_parts;

// Ranks that made other collectives than the others would wait for ever.
static void check_collectives(const ps_plan *plan, rank_parts *parts)
{
    ps_buffer own = {0};
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        if (step->stream == PS_STREAM_COMM) {
            const ps_value *sum = &plan->values[step->output].is;
            ps_graph_text_require(
                ps_buffer_printf(&own, "%s %s %u %u %u\n", ps_op_get(step->op)->name, sum->name,
                                 sum->columns, (uint32_t)sum->row_kind, step->attributes.chunks),
                "a line");
        }
    }
    if (plan->rank == 0) {
        parts->collectives = own;
        return;
    }
    assert_string_equal(parts->collectives.data, own.data);
    ps_buffer_deinit(&own);
}

static ps_status plan_rank(const char *text, const ps_pass_options *options, ps_arena *arena,
                           const ps_graph *whole, rank_parts *parts)
{
    ps_graph graph;
    ps_plan *plan = NULL;
    ps_graph_init(&graph, arena);
    ps_graph_text_require(ps_graph_parse(ps_str_of(text), &graph), "parsing the graph");
    const ps_status status = ps_passes_run(&graph, options, &plan);
    if (status == PS_OK) {
        check_text(plan);
        assert_int_equal(options->ranks, plan->ranks);
        assert_int_equal(options->rank, plan->rank);
        for (uint32_t i = 0; i < whole->value_count; i++) {
            parts->sums[i] += is_tensor(&whole->values[i])
                                  ? weights_of(&graph, whole->values[i].name)
                                  : 0;
        }
        check_collectives(plan, parts);
    }
    return status;
}

static void test_every_rank_gets_its_part(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    uint32_t shared = 0;
    uint32_t refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        ps_arena arena;
        ps_graph graph;
        ps_arena_init(&arena, ARENA_BYTES);
        ps_graph_init(&graph, &arena);
        ps_graph_make_layers(&gen, (uint32_t)ps_gen_range(&gen, 0, 4), &graph);
        ps_buffer text = {0};
        ps_graph_text_require(ps_graph_print(&graph, &text), "printing");
        const uint32_t rows = (uint32_t)ps_gen_range(&gen, 1, 100);
        ps_machine machine = PS_TEST_MACHINE; // of links on which the choice of chunks is close
        machine.comm_ns = (double)ps_gen_range(&gen, 1, 2000);
        machine.comm_gbs = (double)ps_gen_range(&gen, 1, 200) / 10;
        ps_pass_options options = {
            .rows_max = rows,
            .logits_max = (uint32_t)ps_gen_range(&gen, 0, rows),
            .context_max = (uint32_t)ps_gen_range(&gen, 1, 2000),
            .machine = &machine,
            .ranks = (uint32_t)ps_gen_range(&gen, 2, 9),
            .comm_schedule = (ps_comm_schedule)ps_gen_range(&gen, 0, PS_COMM_SCHEDULE_COUNT - 1),
            .prefetch = (ps_prefetch_policy)ps_gen_range(&gen, 0, PS_PREFETCH_POLICY_COUNT - 1),
            .prefetch_threads = (uint32_t)ps_gen_range(&gen, 0, 2),
            .ratios = ps_test_ratios(0.5)};
        options.sequence_parallel = options.comm_schedule != PS_COMM_FUSED &&
                                    ps_gen_range(&gen, 0, 1) == 1;
        options.best_logits = (uint32_t)ps_gen_range(&gen, 0, 100);
        rank_parts parts = {.sums = calloc(graph.value_count, sizeof(uint64_t))};
        assert_non_null(parts.sums);
        ps_status status = PS_OK;
        for (options.rank = 0; options.rank < options.ranks && status == PS_OK; options.rank++) {
            status = plan_rank(text.data, &options, &arena, &graph, &parts);
        }
        if (status == PS_UNSUPPORTED) {
            assert_int_equal(1, options.rank); // all ranks or none
            assert_non_null(strstr(ps_error_message(), "this model can be shared by 1 to "));
            refused++;
        } else {
            if (status != PS_OK) {
                fprintf(stderr, "%u ranks, %u rows\n%s", options.ranks, rows, text.data);
            }
            ps_graph_text_require(status, "the passes");
            check_sums(&graph, parts.sums, options.ranks);
            shared++;
        }
        free(parts.sums);
        ps_buffer_deinit(&parts.collectives);
        ps_buffer_deinit(&text);
        ps_arena_deinit(&arena);
    }
    print_message("%u graphs shared, %u refused\n", shared, refused);
    assert_true(shared > ROUNDS / 4 && refused > ROUNDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_graph_becomes_a_plan),
        cmocka_unit_test(test_every_rank_gets_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
