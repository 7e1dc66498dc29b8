// ctest-labels: unit
// ctest-links: ps_passes;ps_ir
// Goal: played on a machine with a stream for prefetches, a plan gains what its vector windows have
// time for, loses when it asks for more, and gains nothing from bytes that nobody reads sooner.
// Method: the plan of ratio.graph under ratios 0 to 1, on machines whose rates make the answer
// known.
#include "explore/play.h"
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"

#define GRAPH "test/passes/ratio.graph"

typedef struct played {
    ps_pass_options options;
    uint32_t rows;
    ps_play play;
} played;

static ps_status run(ps_graph *graph, void *context)
{
    played *p = context;
    ps_plan *plan = NULL;
    PS_TRY(ps_passes_run(graph, &p->options, &plan));
    ps_played step;
    PS_TRY(ps_play_plan(plan, p->options.machine,
                        &(ps_play_options){.rows = p->rows, .position = 10}, graph->arena, &step));
    p->play = step.sums;
    return PS_OK;
}

static ps_play play(const ps_machine *machine, double ratio, uint32_t rows)
{
    played p = {.options = {.rows_max = rows,
                            .logits_max = 1,
                            .context_max = 100,
                            .machine = machine,
                            .prefetch = PS_PREFETCH_RATIO,
                            .ratios = ps_test_ratios(0)},
                .rows = rows};
    p.options.ratios.ratio[PS_RATIO_MLP_DOWN] = ratio;
    char *text = ps_graph_text_load(GRAPH);
    ps_buffer after = {0};
    ps_graph_text_require(ps_graph_text_run(text, run, &p, &after), "the passes");
    ps_buffer_deinit(&after);
    free(text);
    return p.play;
}

#define ROWS 64
#define STEPS 20

// One worker, whose linears wait for memory alone.
static ps_machine machine_of(double fill_gbs)
{
    ps_machine machine = PS_TEST_MACHINE;
    machine.threads = 1;
    machine.int8_gops = 1e6;
    machine.l2_bytes = (uint64_t)192 << 20;
    machine.fill_gbs = fill_gbs;
    machine.has_prefetch_stream = true;
    return machine;
}

// More than the window has time for makes down wait for the stream, as long as it saves or longer.
static void test_the_best_ratio_is_what_the_window_holds(void **state)
{
    (void)state;
    const ps_machine machine = machine_of(30);
    const double off = play(&machine, 0, ROWS).total_ns;
    double best = off;
    int best_step = 0;
    int last_free_step = 0;
    for (int i = 1; i <= STEPS; i++) {
        const ps_play with = play(&machine, (double)i / STEPS, ROWS);
        last_free_step = with.wait_ns == 0 ? i : last_free_step;
        best_step = with.total_ns < best ? i : best_step;
        best = with.total_ns < best ? with.total_ns : best;
    }
    assert_in_range(last_free_step, 2, STEPS - 3); // inside, not at an end
    assert_in_range(best_step, last_free_step, last_free_step + 1);
    assert_true(play(&machine, 1, ROWS).total_ns > best);
}

static void test_what_a_window_hides_is_saved(void **state)
{
    (void)state;
    const ps_machine machine = machine_of(1000);
    const ps_play off = play(&machine, 0, ROWS);
    const ps_play on = play(&machine, 1, ROWS);
    assert_true(on.wait_ns == 0);
    assert_true(on.moved_bytes == 139264);
    const double saved = 139264 / machine.read_gbs - 139264 / machine.cache_read_gbs;
    assert_float_equal((float)(off.total_ns - on.total_ns), (float)saved, 1);
}

// Elsewhere only waits move bytes, and one worker has none.
static void test_without_a_stream_nothing_is_moved(void **state)
{
    (void)state;
    ps_machine machine = machine_of(1000);
    machine.has_prefetch_stream = false;
    const ps_play on = play(&machine, 1, ROWS);
    assert_true(on.moved_bytes == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_ratio_is_what_the_window_holds),
        cmocka_unit_test(test_what_a_window_hides_is_saved),
        cmocka_unit_test(test_without_a_stream_nothing_is_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
