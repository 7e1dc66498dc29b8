// ctest-labels: file
// ctest-links: ps_ir
// Goal: in front of each barrier stands what early workers may move, in order of use, with its
// reason; only where policy, ranks and threads ask for it, and never what a collective's wait has
// moved. Method: one graph of two ranks (prefetch.graph, which states the bytes of everything), the
// same without collectives, and what stands in front of each barrier of its plan, as one line.
//
// In a line "/" is a barrier, "|" a collective and "//" a barrier that joins one; for the rest see
// ps_test_print_prefetch. Prefetches at collectives are left out.
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"
#include "plan/plan_text_test.h"

#define GRAPH "test/passes/prefetch.graph"

typedef struct found {
    ps_pass_options options;
    ps_buffer line;
} found;

static ps_status fill(ps_graph *graph, void *context)
{
    found *f = context;
    ps_plan *plan = NULL;
    PS_TRY(ps_pass_prefetch(graph, &f->options));
    PS_TRY(ps_pass_schedule(graph, &f->options, &plan));
    PS_TRY(ps_pass_barriers(plan, &f->options, graph->arena));
    PS_TRY(ps_plan_verify(plan));
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        if (step->op == PS_OP_PREFETCH && step->attributes.window == PS_WINDOW_BARRIER) {
            PS_TRY(ps_buffer_printf(&f->line, " "));
            PS_TRY(ps_test_print_prefetch(plan->values[step->inputs[0]].is.name, &step->attributes,
                                          &f->line));
        } else if (step->op != PS_OP_PREFETCH) {
            const bool is_comm = (ps_op_get(step->op)->flags & PS_OP_COLLECTIVE) != 0;
            PS_TRY(ps_buffer_printf(&f->line, "%s%s%s", step->barrier || is_comm ? " " : "",
                                    step->join > 0  ? "//"
                                    : step->barrier ? "/"
                                                    : "",
                                    is_comm ? "|" : ""));
        }
    }
    return PS_OK;
}

static void expect_of(const char *text, const ps_pass_options *options, const char *line)
{
    found f = {.options = *options};
    ps_buffer after = {0};
    ps_graph_text_require(ps_graph_text_run(text, fill, &f, &after), "the passes");
    assert_string_equal(line, f.line.data == NULL ? "" : f.line.data);
    ps_buffer_deinit(&after);
    ps_buffer_deinit(&f.line);
}

// One rank's: sums become operators of as many bytes.
static char *without_collectives(void)
{
    static const char *const CHANGES[][2] = {
        {"%out = weight Q8_0 [256, 256]", "%out = weight Q8_0 [512, 256]"},
        {"%part = activation F32 [L, 256]", "%part = activation F32 [L, 512]"},
        {"all_reduce %p1 {layer=1 ranks=2}", "softcap %p1 {softcap=1}"},
        {"all_reduce %d {layer=1 ranks=2}", "softcap %d {softcap=1}"},
        {"all_reduce %p2 {layer=2 ranks=2}", "softcap %p2 {softcap=1}"},
        {"all_gather %part {unit=16 ranks=2}", "softcap %part {softcap=1}"},
    };
    char *text = ps_graph_text_load(GRAPH);
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++) {
        char *changed = ps_plan_text_replace(text, CHANGES[i][0], CHANGES[i][1]);
        free(text);
        text = changed;
    }
    return text;
}

static void expect(const ps_pass_options *options, const char *line)
{
    char *text = options->ranks > 1 ? ps_graph_text_load(GRAPH) : without_collectives();
    expect_of(text, options, line);
    free(text);
}

static ps_pass_options of_ranks(uint32_t ranks, ps_prefetch_policy policy, ps_machine *machine)
{
    *machine = PS_TEST_MACHINE;
    return (ps_pass_options){.rows_max = 1,
                             .logits_max = 1,
                             .context_max = 1000,
                             .machine = machine,
                             .prefetch = policy,
                             .ranks = ranks};
}

#define NONE_OF_ONE " / / / / / / / /"
#define NONE_OF_TWO " / / /| // / /| // / / /| // /|"

// One rank has to ask for it, several have it unless they say otherwise; one worker has no barriers
// to wait at.
static void test_who_asks_for_it(void **state)
{
    static const struct {
        ps_prefetch_policy policy;
        uint32_t ranks, threads;
    } NONE[] = {
        {PS_PREFETCH_DEFAULT, 1, 4}, {PS_PREFETCH_OFF, 1, 4},      {PS_PREFETCH_PRESERVE, 1, 4},
        {PS_PREFETCH_OFF, 2, 4},     {PS_PREFETCH_PRESERVE, 2, 4}, {PS_PREFETCH_AUTO, 1, 1},
        {PS_PREFETCH_AUTO, 2, 1},    {PS_PREFETCH_DEFAULT, 2, 1},
    };
    (void)state;
    ps_machine machine;
    ps_pass_options options;
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++) {
        options = of_ranks(NONE[i].ranks, NONE[i].policy, &machine);
        machine.threads = NONE[i].threads;
        expect(&options, NONE[i].ranks == 1 ? NONE_OF_ONE : NONE_OF_TWO);
    }
    for (uint32_t i = 0; i < 2; i++) {
        options = of_ranks(2, i == 0 ? PS_PREFETCH_DEFAULT : PS_PREFETCH_AUTO, &machine);
        // Here the sums' waits have moved gate and up, and all of the second layer's.
        expect(&options, " kv1:70180(part_time) / o1 / /| // down / /| // / / /| // /|");
    }
}

// 20 bytes for each nanosecond of work since the barrier before: a weight of 69632 bytes is read in
// 1741, the joined q, k and v in 3482. A KV takes what its context leaves.
static void test_time_since_the_barrier_before(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = of_ranks(1, PS_PREFETCH_AUTO, &machine);
    expect(&options, " kv1:70180(part_time) / o1 / gate:36240(part_time) up(no_time) / down / q2 "
                     "k2(no_time) v2(no_time) / kv2:70600(part_time) / o2 / "
                     "out:36240(part_time) /");
    machine.fill_gbs = 1;
    expect(&options, " kv1(no_time) / o1(no_time) / gate(no_time) up(no_time) / down(no_time) / "
                     "q2(no_time) k2(no_time) v2(no_time) / kv2(no_time) / o2(no_time) / "
                     "out(no_time) /");
}

static void test_room_in_the_caches(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = of_ranks(1, PS_PREFETCH_AUTO, &machine);
    machine.l2_bytes = 20000 / 15 * 4; // of four workers, of which 15 parts of 16
    machine.fill_gbs = 40;
    expect(&options, " kv1:19995(part_capacity) / o1:19995(part_capacity) / "
                     "gate:19995(part_capacity) up(no_time) / down:19995(part_capacity) / "
                     "q2:19995(part_capacity) k2(no_time) v2(no_time) / kv2:19995(part_capacity) / "
                     "o2:19995(part_capacity) / out:19995(part_capacity) /");
}

static void test_what_computing_bounds(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = of_ranks(1, PS_PREFETCH_AUTO, &machine);
    options.rows_max = 64;
    expect(&options, " q1(compute_bound) k1(compute_bound) v1(compute_bound) / kv1(compute_bound) "
                     "/ / o1(compute_bound) / / gate(compute_bound) up(compute_bound) / "
                     "down(compute_bound) / / q2(compute_bound) k2(compute_bound) "
                     "v2(compute_bound) / kv2(compute_bound) / / o2(compute_bound) / / / "
                     "out(compute_bound) /");
}

// A sum of 17.5 us moves gate, up and the first 71472 bytes of down; the barrier goes on there.
static void test_goes_on_where_a_collective_ended(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = of_ranks(2, PS_PREFETCH_AUTO, &machine);
    machine.comm_ns = 17500;
    machine.comm_gbs = 1e9;
    expect(&options, " kv1:70180(part_time) / o1 / /| // down+71472 / /| // / / /| // /|");
    // One of a nanosecond moves nothing.
    machine.comm_ns = 1;
    expect(&options, " kv1:70180(part_time) / o1 / /| // down / /| // kv2:70600(part_time) / o2 / "
                     "/| // /|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_asks_for_it),
        cmocka_unit_test(test_time_since_the_barrier_before),
        cmocka_unit_test(test_room_in_the_caches),
        cmocka_unit_test(test_what_computing_bounds),
        cmocka_unit_test(test_goes_on_where_a_collective_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
