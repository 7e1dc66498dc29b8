// ctest-labels: unit
// Goal: plays of a few operators take exactly what their formulas say, to the nanosecond.
// Method: plans made by hand on a machine of round rates; what is expected is worked out beside
// each by arithmetic that knows nothing of play.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "explore/play.h"

#include <math.h>
#include <string.h>

#define ROWS 4
#define COLUMNS 3200u // of every activation
// Bytes of a weight [COLUMNS, COLUMNS] in I8: 10,240,000. Read from memory at 1000 bytes a ns in
// 10,240 ns, from L2 at 4000 in 2,560, moved at 500 in 20,480.
#define WEIGHT (3200.0 * 3200.0)
#define COLD 10240.0
#define WARM 2560.0
#define FILL 20480.0

enum { X, W1, W2, W3, KV, EXPERTS, VALUES };

static ps_machine machine_of(void)
{
    return (ps_machine){.threads = 1,
                        .l2_bytes = (uint64_t)1 << 30,
                        .read_gbs = 1000,
                        .cache_read_gbs = 4000,
                        .linear_share = 1,
                        .int8_gops = 1e9,
                        .f32_gops = 1e9,
                        .fill_gbs = 500,
                        .comm_ns = 5000,
                        .comm_gbs = 1e12,
                        .has_prefetch_stream = true};
}

static ps_plan_value weight(uint32_t experts)
{
    return (ps_plan_value){.is = {.kind = PS_VALUE_WEIGHT,
                                  .dtype = PS_DTYPE_I8,
                                  .rows = COLUMNS,
                                  .columns = COLUMNS,
                                  .experts = experts,
                                  .alias_of = PS_NO_VALUE}};
}

typedef struct made {
    ps_plan plan;
    ps_plan_value values[VALUES];
    ps_plan_step steps[16];
} made;

static void make(made *m)
{
    *m = (made){.plan = {.rows_max = ROWS, .logits_max = ROWS, .context_max = 1 << 20}};
    m->plan.values = m->values;
    m->plan.steps = m->steps;
    m->plan.value_count = VALUES;
    m->values[X] = (ps_plan_value){.is = {.kind = PS_VALUE_ACTIVATION,
                                          .columns = COLUMNS,
                                          .row_multiplier = 1,
                                          .alias_of = PS_NO_VALUE}};
    m->values[W1] = weight(0);
    m->values[W2] = weight(0);
    m->values[W3] = weight(0);
    m->values[EXPERTS] = weight(16);
    m->values[KV] = (ps_plan_value){.is = {.kind = PS_VALUE_KV,
                                           .dtype = PS_DTYPE_F16,
                                           .v_dtype = PS_DTYPE_F16,
                                           .columns = 256,
                                           .head_dim = 128,
                                           .alias_of = PS_NO_VALUE}};
}

static ps_plan_step *add(made *m, ps_op op, uint32_t operand, uint32_t stream)
{
    ps_plan_step *step = &m->steps[m->plan.step_count++];
    *step = (ps_plan_step){
        .op = op, .input_count = 2, .inputs = {X, operand}, .output = X, .stream = stream};
    return step;
}

static ps_plan_step *linear(made *m, uint32_t operand, bool joins)
{
    ps_plan_step *step = add(m, PS_OP_LINEAR, operand, PS_STREAM_COMPUTE);
    step->join = joins;
    return step;
}

static void all_reduce(made *m)
{
    ps_plan_step *step = add(m, PS_OP_ALL_REDUCE, X, PS_STREAM_COMM);
    step->input_count = 1;
    step->attributes.ranks = 2;
}

static void prefetch(made *m, uint32_t operand)
{
    ps_plan_step *step = add(m, PS_OP_PREFETCH, operand, PS_STREAM_PREFETCH);
    step->input_count = 1;
    step->inputs[0] = operand;
    step->output = PS_NO_VALUE;
    step->attributes.reason = PS_REASON_WHOLE;
}

static void expect_ns(double got, double want)
{
    if (fabs(got - want) > 1e-6 + 1e-10 * want) {
        fail_msg("%.6f, %.6f expected", got, want);
    }
}

static ps_play play_with(const made *m, const ps_machine *machine, const ps_play_options *options)
{
    ps_arena arena;
    ps_played played = {.span_count = 0};
    ps_arena_init(&arena, (size_t)1 << 26);
    assert_int_equal(ps_play_plan(&m->plan, machine, options, &arena, &played), PS_OK);
    double covered = 0; // on the lane of operators, spans leave no gap
    for (uint32_t i = 0; i < played.span_count; i++) {
        const ps_play_span *span = &played.spans[i];
        assert_true(span->begin_ns <= span->end_ns);
        covered += span->lane == PS_LANE_COMPUTE || span->lane == PS_LANE_WAIT
                       ? span->end_ns - span->begin_ns
                       : 0;
    }
    if (options->records) {
        expect_ns(covered + played.sums.barrier_ns, played.sums.total_ns);
    }
    ps_arena_deinit(&arena);
    return played.sums;
}

static ps_play play(const made *m, const ps_machine *machine)
{
    return play_with(m, machine,
                     &(ps_play_options){.rows = ROWS, .position = 999, .records = true});
}

// ---- one operator

static void test_one_linear_is_the_roofline(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    make(&m);
    linear(&m, W1, false);
    expect_ns(play(&m, &machine).total_ns, COLD);
    machine.profile.weight_share = 0.5;
    expect_ns(play(&m, &machine).total_ns, 2 * COLD);
    machine.profile.matmul_ns = 300;
    expect_ns(play(&m, &machine).total_ns, 2 * COLD + 300);
    machine.int8_gops = 1000; // 4 rows of 10.24 million multiply-adds
    expect_ns(play(&m, &machine).total_ns, 4 * WEIGHT / 1000 + 300);
    machine.profile.compute_share = 0.5;
    expect_ns(play(&m, &machine).total_ns, 4 * WEIGHT / 500 + 300);
    expect_ns(play(&m, &machine).ops, 2 * 4 * WEIGHT);
}

// 4 rows of 1000 positions of 2 heads of 128, K and V in 2 bytes: 4,096,000 bytes.
static void test_attention_reads_its_kv(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    make(&m);
    add(&m, PS_OP_ATTENTION, KV, PS_STREAM_COMPUTE);
    expect_ns(play(&m, &machine).total_ns, 4096);
    machine.profile.kv_share = 0.1; // of one head: not these
    machine.profile.kv_strided_share = 0.5;
    expect_ns(play(&m, &machine).total_ns, 8192);
    machine.profile.cores = 32; // 4 rows of 2 heads in 2 pieces each keep 16 of them busy
    machine.profile.attention_splits = 2;
    expect_ns(play(&m, &machine).total_ns, 16384);
    m.values[KV].is.columns = 128;
    expect_ns(play(&m, &machine).total_ns, 2048 / 0.1 / (8.0 / 32));
    machine.profile = (ps_machine_profile){0};
    m.plan.kv_windows[0] = 100;
    expect_ns(play(&m, &machine).total_ns, 204.8);
    m.steps[0].attributes.context_shards = 3;
    expect_ns(play(&m, &machine).total_ns, 204.8 * 34 / 100);
    // two sequences of two rows each read two KVs
    m.steps[0].attributes.context_shards = 0;
    expect_ns(
        play_with(&m, &machine, &(ps_play_options){.rows = 4, .position = 999, .sequences = 2})
            .total_ns,
        102.4);
}

// ---- one window

// A collective, then two linears whose weights are moved behind it.
static void make_window(made *m)
{
    make(m);
    all_reduce(m);
    prefetch(m, W1);
    prefetch(m, W2);
    linear(m, W1, true);
    linear(m, W2, false);
}

static void test_a_window_by_its_join(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    make_window(&m);
    machine.profile.join = PS_JOIN_BARRIER; // both have been moved before the first reads
    expect_ns(play(&m, &machine).total_ns, 2 * FILL + 2 * WARM);
    machine.profile.join = PS_JOIN_EVENT; // the second waits while the first has read
    expect_ns(play(&m, &machine).total_ns, 2 * FILL + WARM);
    machine.profile.join = PS_JOIN_STREAM; // reading is faster than moving: it ends with that
    expect_ns(play(&m, &machine).total_ns, 2 * FILL);
    machine.comm_ns = 1e6; // the collective outlasts all of it
    for (uint32_t join = 0; join < PS_JOIN_COUNT; join++) {
        machine.profile.join = join;
        expect_ns(play(&m, &machine).total_ns, 1e6 + 2 * WARM);
        expect_ns(play(&m, &machine).saved_ns, 2 * (COLD - WARM));
    }
}

static void test_without_prefetches_nothing_overlaps(void **state)
{
    (void)state;
    made m;
    const ps_machine machine = machine_of();
    make(&m);
    all_reduce(&m);
    linear(&m, W1, true);
    linear(&m, W2, false);
    const ps_play sums = play(&m, &machine);
    expect_ns(sums.total_ns, 5000 + 2 * COLD);
    expect_ns(sums.wait_ns, 5000);
    expect_ns(sums.moved_bytes, 0);
}

// Workers who wait for 5000 ns move 2,500,000 bytes, and no more.
static void test_without_a_stream_the_wait_moves(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    machine.has_prefetch_stream = false;
    make_window(&m);
    const double near = 5000 * 500;
    const ps_play sums = play(&m, &machine);
    expect_ns(sums.moved_bytes, near);
    expect_ns(sums.total_ns, 5000 + (WEIGHT - near) / 1000 + near / 4000 + COLD);
}

// W2 is read from memory while W1 is on its way: the move of W1 ends so much later.
static void test_memory_is_shared(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    machine.profile.join = PS_JOIN_EVENT;
    make(&m);
    all_reduce(&m);
    prefetch(&m, W1);
    linear(&m, W2, true);
    linear(&m, W1, false);
    // 5000 alone, then 10,240 in which nothing is moved, then what is left of 20,480
    expect_ns(play(&m, &machine).total_ns, FILL + COLD + WARM);
}

// L2 holds the last of what went through it.
static void test_l2_gives_up_the_oldest(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    machine.comm_ns = 1e6;
    make_window(&m);
    machine.l2_bytes = (uint64_t)(1.25 * WEIGHT);
    const double near = 0.25 * WEIGHT; // of W1, when both have been moved
    // All of W1 that is read, and the result, push out the oldest of W2.
    const double result = ROWS * COLUMNS * 4;
    expect_ns(play(&m, &machine).lost_bytes, WEIGHT - near + 0.75 * WEIGHT + result);
    machine.l2_bytes = (uint64_t)(2 * WEIGHT + 2 * result);
    expect_ns(play(&m, &machine).lost_bytes, 0);
    machine.l2_bytes *= 2;
    machine.profile.l2_share = 0.5;
    expect_ns(play(&m, &machine).lost_bytes, 0);
}

// ---- sums that go with the linear before

static void test_a_sum_in_chunks(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    make(&m);
    ps_plan_step *step = linear(&m, W1, false);
    step->op = PS_OP_LINEAR_ALL_REDUCE;
    step->stream = PS_STREAM_COMM;
    step->attributes.ranks = 2;
    step->attributes.chunks = 4;
    // computing a chunk takes 2560, its sum 5000: the sums go one behind the other
    expect_ns(play(&m, &machine).total_ns, COLD / 4 + 4 * 5000);
    machine.comm_ns = 1000; // computing is what is waited for
    expect_ns(play(&m, &machine).total_ns, COLD + 1000);
}

// ---- workers

// One that reads from memory comes later than the others, where that has been measured.
static void test_barriers(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    make(&m);
    linear(&m, W1, false)->barrier = true;
    machine.barrier_ns = 300;
    expect_ns(play(&m, &machine).total_ns, COLD); // a worker alone
    machine.threads = 2;
    expect_ns(play(&m, &machine).total_ns, COLD + 300);
    machine.workers.meet_ns = 900;
    expect_ns(play(&m, &machine).total_ns, COLD + 900);
    expect_ns(play(&m, &machine).barrier_ns, 900);
}

// What stands for operators in a plan is in memory, too, as are their operands.
static void test_operators_take_a_time_each(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    make(&m);
    linear(&m, W1, false);
    linear(&m, W2, false);
    machine.workers.step_ns = 250;
    expect_ns(play(&m, &machine).total_ns, 2 * (COLD + 250));
}

// Rates of a weight's format, and of attention, stand in for those of all.
static void test_rates_of_formats(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    machine.int8_gops = 1000;
    make(&m);
    linear(&m, W1, false);
    const double products = ROWS * WEIGHT;
    expect_ns(play(&m, &machine).total_ns, products / 1000);
    machine.workers.linear_gops[PS_DTYPE_I8] = 800;
    expect_ns(play(&m, &machine).total_ns, products / 800);
    make(&m);
    add(&m, PS_OP_ATTENTION, KV, PS_STREAM_COMPUTE);
    machine.f32_gops = 100;
    const ps_play_options options = {.rows = ROWS, .position = 99};
    const double attended = ROWS * 100 * 2.0 * COLUMNS;
    expect_ns(play_with(&m, &machine, &options).total_ns, attended / 100);
    machine.workers.attention_gops = 40;
    expect_ns(play_with(&m, &machine, &options).total_ns, attended / 40);
    machine.workers.kv_gbs = 0.5; // KV of 256 columns, K and V, two bytes each
    expect_ns(play_with(&m, &machine, &options).total_ns, ROWS * 100 * 1024 / 0.5);
}

// ---- experts

// 4 rows of 2 experts each, of 16: half of all bytes; a quarter of the uses are not in memory.
static void test_experts_that_are_away(void **state)
{
    (void)state;
    made m;
    ps_machine machine = machine_of();
    machine.profile.host_ns = 700;
    machine.profile.host_gbs = 100;
    machine.profile.disk_ns = 3000;
    machine.profile.disk_gbs = 10;
    make(&m);
    add(&m, PS_OP_EXPERT_LINEAR, EXPERTS, PS_STREAM_COMPUTE)->attributes.top_k = 2;
    const double used = 8 * WEIGHT;
    ps_play_options options = {.rows = ROWS};
    expect_ns(play_with(&m, &machine, &options).total_ns, used / 1000);
    options.expert_misses = 0.25;
    expect_ns(play_with(&m, &machine, &options).total_ns, 700 + used / 4 / 100);
    options.disk_misses = 0.5;
    expect_ns(play_with(&m, &machine, &options).total_ns,
              700 + used / 8 / 100 + 3000 + used / 8 / 10);
    options.expert_misses = 0.001; // the others take longer
    options.disk_misses = 0;
    expect_ns(play_with(&m, &machine, &options).total_ns, used / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_linear_is_the_roofline),
        cmocka_unit_test(test_attention_reads_its_kv),
        cmocka_unit_test(test_a_window_by_its_join),
        cmocka_unit_test(test_without_prefetches_nothing_overlaps),
        cmocka_unit_test(test_without_a_stream_the_wait_moves),
        cmocka_unit_test(test_memory_is_shared),
        cmocka_unit_test(test_l2_gives_up_the_oldest),
        cmocka_unit_test(test_a_sum_in_chunks),
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_operators_take_a_time_each),
        cmocka_unit_test(test_rates_of_formats),
        cmocka_unit_test(test_experts_that_are_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
