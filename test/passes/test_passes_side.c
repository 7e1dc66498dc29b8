// ctest-labels: file
// ctest-links: ps_ir
// Goal: dedicated threads get what each operator reads while the one before it runs, with its
// reason, and nothing that a collective's wait has moved. Method: one graph (prefetch.graph, which
// states the bytes of everything); for each prefetch the operator in front of which it starts.
//
// In a line "gate@attn.o" starts where the linear of that site begins; for the rest see
// ps_test_print_prefetch.
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"

#define GRAPH "test/passes/prefetch.graph"

typedef struct found {
    ps_pass_options options;
    ps_buffer line;
} found;

static ps_status describe(const ps_plan *plan, uint32_t index, ps_buffer *line)
{
    const ps_plan_step *step = &plan->steps[index];
    PS_TRY(ps_buffer_printf(line, " "));
    PS_TRY(ps_test_print_prefetch(plan->values[step->inputs[0]].is.name, &step->attributes, line));
    while (plan->steps[index].op == PS_OP_PREFETCH) {
        index++;
    }
    return ps_buffer_printf(line, "@%s", ps_site_name((ps_site)plan->steps[index].attributes.site));
}

static ps_status fill(ps_graph *graph, void *context)
{
    found *f = context;
    ps_plan *plan = NULL;
    PS_TRY(ps_pass_prefetch(graph, &f->options));
    PS_TRY(ps_pass_schedule(graph, &f->options, &plan));
    PS_TRY(ps_pass_side(plan, &f->options, graph->arena));
    PS_TRY(ps_plan_verify(plan));
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].stream == PS_STREAM_SIDE) {
            PS_TRY(describe(plan, i, &f->line));
        }
    }
    return PS_OK;
}

// 40 bytes a nanosecond are read by four workers, 20 filled; each of two threads moves 5.
static ps_pass_options options_of(ps_machine *machine)
{
    *machine = PS_TEST_MACHINE;
    machine->l2_bytes = 1 << 16;
    machine->comm_ns = 1; // moves nothing
    machine->comm_gbs = 1e9;
    return (ps_pass_options){.rows_max = 1,
                             .logits_max = 1,
                             .context_max = 1000,
                             .machine = machine,
                             .prefetch = PS_PREFETCH_AUTO,
                             .prefetch_threads = 2,
                             .ranks = 2};
}

static void expect(const ps_pass_options *options, const char *line)
{
    found f = {.options = *options};
    ps_buffer after = {0};
    char *text = ps_graph_text_load(GRAPH);
    ps_graph_text_require(ps_graph_text_run(text, fill, &f, &after), "the passes");
    assert_string_equal(line, f.line.data == NULL ? "" : f.line.data);
    ps_buffer_deinit(&after);
    ps_buffer_deinit(&f.line);
    free(text);
}

// The joined q, k and v are read in 3482 ns; gate and up in 6963; between attn.o and gate stand its
// 1741 ns, two barriers and a sum. A KV takes what its context leaves.
static void test_time_of_the_reader_before(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = options_of(&machine);
    expect(&options, " kv1:34850(part_time)@attn.qkv o1@kv gate:27870(part_time)@attn.o "
                     "up(no_time)@attn.o down:69630(part_time)@mlp.gate_up "
                     "q2:50280(part_time)@mlp.down k2(no_time)@mlp.down v2(no_time)@mlp.down "
                     "kv2:34850(part_time)@attn.qkv o2@kv out:28070(part_time)@attn.o");
    options.prefetch_threads = 1;
    expect(&options, " kv1:17425(part_time)@attn.qkv o1:69330(part_time)@kv "
                     "gate(no_time)@attn.o up(no_time)@attn.o down:34815(part_time)@mlp.gate_up "
                     "q2:25140(part_time)@mlp.down k2(no_time)@mlp.down v2(no_time)@mlp.down "
                     "kv2:17425(part_time)@attn.qkv o2:69330(part_time)@kv out(no_time)@attn.o");
}

// Half of it, for each reader.
static void test_room_in_the_shared_cache(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = options_of(&machine);
    machine.fill_gbs = 1000;
    machine.llc_bytes = 40000;
    expect(&options, " kv1:20000(part_capacity)@attn.qkv o1:20000(part_capacity)@kv "
                     "gate:20000(part_capacity)@attn.o up(no_time)@attn.o "
                     "down:20000(part_capacity)@mlp.gate_up q2:20000(part_capacity)@mlp.down "
                     "k2(no_time)@mlp.down v2(no_time)@mlp.down "
                     "kv2:20000(part_capacity)@attn.qkv o2:20000(part_capacity)@kv "
                     "out:20000(part_capacity)@attn.o");
}

static void test_what_collectives_move_is_theirs(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = options_of(&machine);
    machine.l2_bytes = 3 << 16;
    machine.comm_ns = 100000;
    expect(&options, " kv1:34850(part_time)@attn.qkv o1@kv");
}

static void test_who_asks_for_them(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = options_of(&machine);
    options.prefetch_threads = 0;
    expect(&options, "");
    options.prefetch_threads = 2;
    options.prefetch = PS_PREFETCH_PRESERVE;
    expect(&options, "");
}

static void test_what_does_not_need_them(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = options_of(&machine);
    machine.l2_bytes = 1 << 20; // all weights are 905216 bytes, of four
    expect(&options, " kv1(in_cache)@attn.qkv o1(in_cache)@kv gate(in_cache)@attn.o "
                     "up(in_cache)@attn.o down(in_cache)@mlp.gate_up q2(in_cache)@mlp.down "
                     "k2(in_cache)@mlp.down v2(in_cache)@mlp.down kv2(in_cache)@attn.qkv "
                     "o2(in_cache)@kv out(in_cache)@attn.o");
    machine.l2_bytes = 1 << 16;
    options.rows_max = 64;
    expect(&options, " kv1(compute_bound)@attn.qkv o1(compute_bound)@kv gate(compute_bound)@attn.o "
                     "up(compute_bound)@attn.o down(compute_bound)@mlp.gate_up "
                     "q2(compute_bound)@mlp.down k2(compute_bound)@mlp.down "
                     "v2(compute_bound)@mlp.down kv2(compute_bound)@attn.qkv o2(compute_bound)@kv "
                     "out(compute_bound)@attn.o");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_of_the_reader_before),
        cmocka_unit_test(test_room_in_the_shared_cache),
        cmocka_unit_test(test_what_collectives_move_is_theirs),
        cmocka_unit_test(test_who_asks_for_them),
        cmocka_unit_test(test_what_does_not_need_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
