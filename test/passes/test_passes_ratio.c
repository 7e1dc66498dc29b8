// ctest-labels: file
// ctest-links: ps_ir
// Goal: of each linear that weight_prefetch_config names, the plan moves what its ratio and the cap
// say, where its vector operators are waited for, or beside them on a machine with a stream; what
// is not moved says why. Method: one graph with a dense layer and one with experts (ratio.graph,
// which states the bytes of everything), and its plan as one line.
//
// In a line "/" is a wait, "v" a vector operator, a word a linear or an attention by its site, and
// in brackets stands what is prefetched there (ps_test_print_prefetch).
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"

#define GRAPH "test/passes/ratio.graph"

typedef struct found {
    ps_pass_options options;
    ps_buffer line;
} found;

static ps_status describe_prefetch(const ps_plan *plan, uint32_t i, ps_buffer *line)
{
    const ps_plan_step *step = &plan->steps[i];
    const bool is_first = i == 0 || plan->steps[i - 1].op != PS_OP_PREFETCH;
    const bool is_last = plan->steps[i + 1].op != PS_OP_PREFETCH;
    PS_TRY(ps_buffer_printf(line, "%s", is_first ? "[" : " "));
    PS_TRY(ps_test_print_prefetch(plan->values[step->inputs[0]].is.name, &step->attributes, line));
    return is_last ? ps_buffer_printf(line, "]") : PS_OK;
}

static ps_status describe(const ps_plan *plan, uint32_t i, ps_buffer *line)
{
    const ps_plan_step *step = &plan->steps[i];
    if (step->op == PS_OP_PREFETCH) {
        return describe_prefetch(plan, i, line);
    }
    PS_TRY(ps_buffer_printf(line, "%s", step->barrier ? "/" : ""));
    const bool is_vector = (ps_op_get(step->op)->flags & PS_OP_VECTOR) != 0;
    const char *site = ps_site_name((ps_site)step->attributes.site);
    return is_vector ? ps_buffer_printf(line, "v")
                     : ps_buffer_printf(line, " %s ", *site == '\0' ? "embed" : site);
}

static ps_status place(ps_graph *graph, void *context)
{
    found *f = context;
    ps_plan *plan = NULL;
    PS_TRY(ps_pass_fuse(graph, &f->options));
    PS_TRY(ps_pass_schedule(graph, &f->options, &plan));
    PS_TRY(ps_pass_ratio(plan, &f->options, graph->arena));
    PS_TRY(ps_plan_verify(plan));
    for (uint32_t i = 0; i < plan->step_count; i++) {
        PS_TRY(describe(plan, i, &f->line));
    }
    return PS_OK;
}

static void expect(const ps_pass_options *options, const char *line)
{
    found f = {.options = *options};
    ps_buffer after = {0};
    char *text = ps_graph_text_load(GRAPH);
    ps_graph_text_require(ps_graph_text_run(text, place, &f, &after), "the passes");
    assert_string_equal(line, f.line.data);
    ps_buffer_deinit(&after);
    ps_buffer_deinit(&f.line);
    free(text);
}

// Steps of one row on four workers, ratios of 1.
static ps_pass_options ratios_of(ps_machine *machine)
{
    *machine = PS_TEST_MACHINE;
    return (ps_pass_options){.rows_max = 1,
                             .logits_max = 1,
                             .context_max = 100,
                             .machine = machine,
                             .prefetch = PS_PREFETCH_RATIO,
                             .ratios = ps_test_ratios(1)};
}

// The activation is part of gate_up: down is hidden by the wait for it.
static void test_each_site_has_its_window(void **state)
{
    (void)state;
    ps_machine machine;
    const ps_pass_options options = ratios_of(&machine);
    expect(&options,
           " embed v[q1(no_window) k1(no_window) v1(no_window)] attn.qkv v/ kv [o1]/vv attn.o "
           "[gate up]/vv mlp.gate_up [down]/ mlp.down /vv moe.router [gates ups]/vv moe.gate_up / "
           "moe.down /vvvv lm_head ");
}

// Where rows are shared out, workers without rows, or with fewer, wait behind the operator.
static void test_many_rows(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = ratios_of(&machine);
    options.rows_max = 512;
    expect(&options, " embed v[q1 k1 v1]/ attn.qkv v/ kv /v[o1]/ attn.o /vv[gate up]/ mlp.gate_up "
                     "[down]/ mlp.down "
                     "/vv/ moe.router /vv[gates ups]/ moe.gate_up / moe.down /vv/vv/ lm_head ");
}

static void test_nobody_waits_for_one_worker(void **state)
{
    (void)state;
    ps_machine machine;
    const ps_pass_options options = ratios_of(&machine);
    machine.threads = 1;
    expect(
        &options,
        " embed v[q1(no_window) k1(no_window) v1(no_window)] attn.qkv v/ kv /vv[o1(no_window)] "
        "attn.o "
        "/vv[gate(no_window) up(no_window)] mlp.gate_up [down(no_window)]/ mlp.down /vv moe.router "
        "/vv[gates(no_window) ups(no_window)] moe.gate_up / moe.down /vvvv lm_head ");
}

// There a prefetch starts with the first vector operator, and the activation is one.
static void test_a_stream_for_prefetches(void **state)
{
    (void)state;
    ps_machine machine;
    const ps_pass_options options = ratios_of(&machine);
    machine.threads = 1;
    machine.has_prefetch_stream = true;
    expect(&options, " embed [q1 k1 v1]v attn.qkv v/ kv [o1]/vv attn.o [gate up]/vv mlp.gate_up "
                     "[down]/vv mlp.down "
                     "/vv moe.router [gates ups]/vv moe.gate_up / moe.down /vvvv lm_head ");
}

static void test_ratios(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = ratios_of(&machine);
    options.ratios.ratio[PS_RATIO_ATTN_O] = 0;
    options.ratios.ratio[PS_RATIO_MLP_GATE_UP] = 0.5;
    options.ratios.ratio[PS_RATIO_MLP_DOWN] = 0.25;
    options.ratios.ratio[PS_RATIO_MOE_GATE_UP] = 0.8;
    expect(&options,
           " embed v[q1(no_window) k1(no_window) v1(no_window)] attn.qkv v/ kv [o1(ratio_zero)]/vv "
           "attn.o "
           "[gate:69632(part_ratio) up:69632(part_ratio)]/vv mlp.gate_up [down:34816(part_ratio)]/ "
           "mlp.down /vv moe.router [gates:111411(part_ratio) ups:111411(part_ratio)]/vv "
           "moe.gate_up / "
           "moe.down /vvvv lm_head ");
}

static void test_steps_that_are_not_asked_for(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = ratios_of(&machine);
    options.ratios.min_tokens[PS_MODULE_MLP] = 2;
    options.ratios.max_tokens[PS_MODULE_MOE] = 0;
    options.ratios.min_tokens[PS_MODULE_ATTN] = 1;
    expect(&options,
           " embed v[q1(no_window) k1(no_window) v1(no_window)] attn.qkv v/ kv [o1]/vv attn.o "
           "[gate(tokens) up(tokens)]/vv mlp.gate_up [down(tokens)]/ mlp.down /vv moe.router "
           "[gates(tokens) ups(tokens)]/vv moe.gate_up / moe.down /vvvv lm_head ");
}

// At the cap, and above it, exactly the cap is moved.
static void test_the_cap(void **state)
{
    (void)state;
    static const struct {
        uint64_t cap;
        const char *down;
    } ROWS[] = {
        {139263, "[down:139263(part_cap)]"},
        {139264, "[down]"},
        {139265, "[down]"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        ps_machine machine;
        ps_pass_options options = ratios_of(&machine);
        found f = {.options = options};
        f.options.ratios.max_bytes = ROWS[i].cap;
        ps_buffer after = {0};
        char *text = ps_graph_text_load(GRAPH);
        ps_graph_text_require(ps_graph_text_run(text, place, &f, &after), "the passes");
        assert_non_null(strstr(f.line.data, ROWS[i].down));
        ps_buffer_deinit(&after);
        ps_buffer_deinit(&f.line);
        free(text);
    }
}

static void expect_cap(const ps_machine *machine, uint64_t given, uint64_t cap, const char *source)
{
    const ps_pass_options options = {.machine = machine, .ratios.max_bytes = given};
    const char *said;
    assert_int_equal(cap, ps_ratio_cap_bytes(&options, &said));
    assert_string_equal(source, said);
}

static void test_where_the_cap_comes_from(void **state)
{
    (void)state;
    ps_machine machine = PS_TEST_MACHINE; // four times 1 MiB
    expect_cap(&machine, 0, (uint64_t)4 * 15 << 16, "15/16 of the L2 of all workers");
    machine.l2_bytes = (uint64_t)192 << 20;
    expect_cap(&machine, 0, (uint64_t)18 * 1024 * 1024, "18 MiB, the usual cap");
    expect_cap(&machine, 77, 77, "max_prefetch_bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_site_has_its_window),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_nobody_waits_for_one_worker),
        cmocka_unit_test(test_a_stream_for_prefetches),
        cmocka_unit_test(test_ratios),
        cmocka_unit_test(test_steps_that_are_not_asked_for),
        cmocka_unit_test(test_the_cap),
        cmocka_unit_test(test_where_the_cap_comes_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
