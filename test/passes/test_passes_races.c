// ctest-labels: prop
// ctest-links: ps_ir
// ctest-timeout: 300
// Goal: what ps_plan_verify accepts has no race and stays in its workspaces; what the scheduler
// makes has no barrier to spare. Method: a model of the workers (plan_race.h) plays plans. Random
// graphs through all passes are played; then one thing of each plan is changed at random, again and
// again, and what verify still accepts is played too. Half of the graphs are one rank's part of a
// model. The model is shown to see races: it finds one for every barrier and every join that is
// taken from the two plans of test/plan.
#include "ir/graph_maker.h"
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"
#include "passes/plan_race.h"

#define ROUNDS 60
#define CHANGES 30
#define BLOCKS_MAX 4
#define WORKERS_MAX 6
#define ARENA_BYTES ((size_t)256 << 20)

static uint32_t pick(ps_gen *gen, uint32_t lowest, uint32_t highest)
{
    return (uint32_t)ps_gen_range(gen, lowest, highest);
}

static void expect_no_race(ps_gen *gen, const ps_plan *plan, const char *what)
{
    ps_race race;
    const uint32_t rows = pick(gen, 1, plan->rows_max);
    const uint32_t most = plan->logits_max < rows ? plan->logits_max : rows;
    const uint32_t workers = pick(gen, 1, WORKERS_MAX);
    if (ps_race_play(&race, plan, workers, rows, pick(gen, 0, most))) {
        return;
    }
    ps_buffer text = {0};
    if (ps_plan_print(plan, &text) == PS_OK) {
        fprintf(stderr, "%s", text.data);
    }
    ps_buffer_deinit(&text);
    fail_msg("%s, %u workers, %u rows: step %u touches '%s': %s", what, workers, rows, race.step,
             race.value, race.what);
}

static ps_plan_value *pick_placed(ps_gen *gen, ps_plan *plan)
{
    for (;;) {
        ps_plan_value *value = &plan->values[pick(gen, 0, plan->value_count - 1)];
        if (value->is.kind == PS_VALUE_ACTIVATION && value->is.alias_of == PS_NO_VALUE) {
            return value;
        }
    }
}

// Views are shared out as their storage is.
static void update_views(ps_plan *plan)
{
    for (uint32_t i = 0; i < plan->value_count; i++) {
        ps_plan_value *view = &plan->values[i];
        if (view->is.kind == PS_VALUE_ACTIVATION && view->is.alias_of != PS_NO_VALUE) {
            const ps_plan_value *base = &plan->values[view->is.alias_of];
            view->is_private = base->is_private;
            view->part_unit = base->part_unit;
            view->part_columns = base->part_columns;
            view->part_offset = base->part_unit == 0 ? 0
                                                     : base->part_offset + view->is.alias_column;
        }
    }
}

static void change_split(ps_gen *gen, ps_plan *plan, ps_plan_step *step)
{
    step->split = (ps_split)pick(gen, 0, PS_SPLIT_COUNT - 1);
    if (step->output == PS_NO_VALUE) {
        return;
    }
    ps_plan_value *output = &plan->values[step->output];
    output->is_private = step->split == PS_SPLIT_ALL;
    const bool by_columns = step->split == PS_SPLIT_COLUMNS;
    output->part_unit = by_columns ? 32 * pick(gen, 1, 3) : 0;
    output->part_columns = by_columns ? output->is.columns : 0;
    output->part_offset = 0;
    output->offset_bytes = output->is_private ? plan->private_bytes : plan->shared_bytes;
    uint64_t *bytes = output->is_private ? &plan->private_bytes : &plan->shared_bytes;
    *bytes += ps_round_up(ps_plan_rows(plan, &output->is, plan->rows_max, plan->logits_max) *
                              output->row_bytes,
                          PS_CACHE_LINE_BYTES);
}

// Any step, or one at or right behind a collective.
static uint32_t pick_step(ps_gen *gen, const ps_plan *plan)
{
    uint32_t i = pick(gen, 0, plan->step_count - 1);
    if (pick(gen, 0, 1) == 0) {
        while (i > 0 && plan->steps[i].stream != PS_STREAM_COMM) {
            i--;
        }
        i += pick(gen, 0, 3);
    }
    return i < plan->step_count ? i : plan->step_count - 1;
}

// Two neighbours change places. A step that reads what the next one writes does not verify.
static void move_step(ps_gen *gen, ps_plan *plan)
{
    if (plan->step_count > 1) {
        const uint32_t at = pick_step(gen, plan);
        const uint32_t i = at == 0 ? 0 : at - 1;
        const ps_plan_step step = plan->steps[i];
        plan->steps[i] = plan->steps[i + 1];
        plan->steps[i + 1] = step;
    }
}

// One change that a hostile or a mistaken plan might hold. Operands stay as they are: the model
// does not check them.
static void change(ps_gen *gen, ps_plan *plan)
{
    ps_plan_step *step = &plan->steps[pick_step(gen, plan)];
    ps_plan_value *value = pick_placed(gen, plan);
    switch (pick(gen, 0, 8)) {
    case 0:
    case 1:
        step->barrier = !step->barrier;
        break;
    case 2:
        change_split(gen, plan, step);
        break;
    case 3:
        value->offset_bytes = 64 * pick(gen, 0, 400);
        break;
    case 4:
        value->offset_bytes = pick_placed(gen, plan)->offset_bytes;
        break;
    case 5:
        value->part_unit = value->part_unit == 0 ? 0 : 16 * pick(gen, 1, 8);
        break;
    case 6:
        step->join = pick(gen, 0, 4);
        break;
    case 7:
        move_step(gen, plan);
        break;
    default:
        value->row_bytes = value->row_bytes / 2 + 64 * pick(gen, 0, 20);
        break;
    }
    update_views(plan);
}

// A copy that changes can be made in.
static ps_plan copy_plan(const ps_plan *plan, ps_arena *arena)
{
    ps_plan copy = *plan;
    copy.values = PS_ARENA_NEW(arena, ps_plan_value, plan->value_count);
    copy.steps = PS_ARENA_NEW(arena, ps_plan_step, plan->step_count);
    ps_assert(copy.values != NULL && copy.steps != NULL);
    memcpy(copy.values, plan->values, plan->value_count * sizeof *copy.values);
    memcpy(copy.steps, plan->steps, plan->step_count * sizeof *copy.steps);
    return copy;
}

static bool has_partials(const ps_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].op == PS_OP_ATTENTION_PARTIAL ||
            (graph->nodes[i].op == PS_OP_LINEAR && graph->nodes[i].input_count > 2 &&
             graph->values[graph->nodes[i].inputs[2]].rows % PS_GROUP_ROWS != 0)) {
            return true;
        }
    }
    return false;
}

// The plan of one rank, or of one of several.
static ps_status try_plan(ps_gen *gen, ps_arena *arena, ps_plan **out)
{
    ps_graph graph;
    const uint32_t rows = pick(gen, 0, 3) == 0 ? pick(gen, 32, 48) : pick(gen, 1, 11);
    ps_pass_options options = {.rows_max = rows,
                               .logits_max = pick(gen, 0, rows),
                               .context_max = pick(gen, 1, 600),
                               .machine = &PS_TEST_MACHINE,
                               .ranks = pick(gen, 0, 1) * pick(gen, 2, 4)};
    do {
        ps_graph_init(&graph, arena);
        if (options.ranks > 1) {
            ps_graph_make_layers(gen, pick(gen, 0, BLOCKS_MAX), &graph);
        } else {
            ps_graph_make(gen, pick(gen, 0, BLOCKS_MAX), &graph);
        }
    } while (options.ranks == 0 && has_partials(&graph));
    options.rank = options.ranks == 0 ? 0 : pick(gen, 0, options.ranks - 1);
    options.prefetch = (ps_prefetch_policy)pick(gen, 0, PS_PREFETCH_POLICY_COUNT - 1);
    options.prefetch_threads = pick(gen, 0, 2);
    options.comm_schedule = (ps_comm_schedule)pick(gen, 0, PS_COMM_SCHEDULE_COUNT - 1);
    options.sequence_parallel = options.comm_schedule != PS_COMM_FUSED && pick(gen, 0, 1) == 1;
    options.best_logits = pick(gen, 0, 60);
    return ps_passes_run(&graph, &options, out);
}

static const ps_plan *make_plan(ps_gen *gen, ps_arena *arena)
{
    ps_plan *plan = NULL;
    ps_status status;
    do { // some models are too small for so many ranks
        status = try_plan(gen, arena, &plan);
    } while (status == PS_UNSUPPORTED);
    ps_graph_text_require(status, "the passes");
    return plan;
}

static void test_what_verifies_has_no_race(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    uint32_t accepted = 0, refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        ps_arena arena;
        ps_arena_init(&arena, ARENA_BYTES);
        const ps_plan *plan = make_plan(&gen, &arena);
        expect_no_race(&gen, plan, "as scheduled");
        for (int i = 0; i < CHANGES; i++) {
            ps_plan changed = copy_plan(plan, &arena);
            for (uint32_t count = pick(&gen, 1, 4); count > 0; count--) {
                change(&gen, &changed);
            }
            if (ps_plan_verify(&changed) == PS_OK) {
                accepted++;
                expect_no_race(&gen, &changed, "changed");
            } else {
                refused++;
            }
        }
        ps_arena_deinit(&arena);
    }
    print_message("%u changed plans accepted, %u refused\n", accepted, refused);
    assert_true(accepted > ROUNDS && refused > ROUNDS);
}

static void expect_races(const char *path)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    char *text = ps_graph_text_load(path);
    ps_plan *plan = NULL;
    ps_race race;
    ps_graph_text_require(ps_plan_parse(ps_str_of(text), &arena, &plan), path);
    assert_true(ps_race_play(&race, plan, 3, plan->rows_max, plan->logits_max));
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (!plan->steps[i].barrier) {
            continue;
        }
        plan->steps[i].barrier = false;
        if (ps_race_play(&race, plan, 3, plan->rows_max, plan->logits_max)) {
            fail_msg("%s: nothing happens without the barrier before step %u", path, i);
        }
        plan->steps[i].barrier = true;
        const uint32_t join = plan->steps[i].join;
        plan->steps[i].join = 0;
        if (join > 0 && ps_race_play(&race, plan, 3, plan->rows_max, plan->logits_max)) {
            fail_msg("%s: nothing happens without the join of step %u", path, i);
        }
        plan->steps[i].join = join;
    }
    free(text);
    ps_arena_deinit(&arena);
}

static void test_the_model_sees_races(void **state)
{
    (void)state;
    expect_races("test/plan/decode.plan");
    expect_races("test/plan/prefill.plan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_model_sees_races),
        cmocka_unit_test(test_what_verifies_has_no_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
