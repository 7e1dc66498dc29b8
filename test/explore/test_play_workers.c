// ctest-labels: prop
// Goal: the worker with the most of a step has as much as the shares that exec makes give it, and
// times of one step follow from it.
// Method: steps from a printed seed, whose units are dealt out one by one to workers and counted;
// and times of steps on a machine of round rates, worked out by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "explore/play_workers.h"
#include "gen.h"

#include <math.h>
#include <string.h>

#define ROUNDS 3000
#define WORKERS_MAX 9u
#define CHUNK 256u // positions of a unit of attention

enum { X, KV, Y, W, VALUES };

// One step, of all that it takes.
typedef struct made {
    ps_plan plan;
    ps_plan_value values[VALUES];
    ps_plan_step step;
    ps_machine machine;
    ps_play_options options;
    ps_play_work work;
} made;

static ps_plan_value rows_of(uint32_t columns)
{
    return (ps_plan_value){.is = {.kind = PS_VALUE_ACTIVATION,
                                  .columns = columns,
                                  .row_multiplier = 1,
                                  .alias_of = PS_NO_VALUE}};
}

static void make(made *m, ps_op op, ps_split split, uint32_t workers, uint32_t rows)
{
    *m = (made){.plan = {.rows_max = 512, .logits_max = 512, .context_max = 1 << 20},
                .machine = {.threads = workers,
                            .read_gbs = 40,
                            .cache_read_gbs = 400,
                            .linear_share = 1,
                            .int8_gops = 800,
                            .f32_gops = 100},
                .options = {.rows = rows}};
    m->values[X] = rows_of(256);
    m->values[Y] = rows_of(256);
    m->values[KV] = (ps_plan_value){.is = {.kind = PS_VALUE_KV,
                                           .dtype = PS_DTYPE_F16,
                                           .v_dtype = PS_DTYPE_F16,
                                           .columns = 192,
                                           .head_dim = 64}};
    m->values[W] = (ps_plan_value){.is = {.kind = PS_VALUE_WEIGHT,
                                          .dtype = PS_DTYPE_Q8_0,
                                          .rows = 256,
                                          .columns = 256,
                                          .alias_of = PS_NO_VALUE}};
    m->step = (ps_plan_step){
        .op = op, .split = split, .input_count = 2, .inputs = {X, KV}, .output = Y};
    m->plan.values = m->values;
    m->plan.value_count = VALUES;
    m->plan.steps = &m->step;
    m->plan.step_count = 1;
    m->work = (ps_play_work){.plan = &m->plan, .machine = &m->machine, .options = &m->options};
}

static uint64_t largest(const uint64_t *counts, uint64_t *sum)
{
    uint64_t most = 0;
    *sum = 0;
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        most = counts[i] > most ? counts[i] : most;
        *sum += counts[i];
    }
    return most;
}

// Whose item `index` of `count` is, when each worker has those from count * w / workers on.
static uint32_t owner_of(uint64_t index, uint64_t count, uint32_t workers)
{
    uint32_t w = 0;
    while (index >= count * (w + 1) / workers) {
        w++;
    }
    return w;
}

static void expect_largest(const made *m, const uint64_t *counts)
{
    uint64_t sum;
    const uint64_t most = largest(counts, &sum);
    const double expected = (double)most / (double)sum;
    const double got = ps_play_busiest(&m->work, &m->step);
    if (fabs(got - expected) > 1e-9) {
        fail_msg("the busiest of %u workers has %g of a step, %g expected", m->machine.threads, got,
                 expected);
    }
}

static void test_chunks_of_attention(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        made m;
        const uint32_t workers = (uint32_t)ps_gen_range(&gen, 1, WORKERS_MAX);
        const uint32_t rows = (uint32_t)ps_gen_range(&gen, 1, 8);
        const uint32_t heads = (uint32_t)ps_gen_range(&gen, 1, 5);
        make(&m, PS_OP_ATTENTION_PARTIAL, PS_SPLIT_UNITS, workers, rows);
        m.values[KV].is.columns = heads * 64;
        m.options.position = (uint32_t)ps_gen_range(&gen, 0, 2000);
        m.plan.kv_windows[0] = ps_gen_range(&gen, 0, 1) == 0
                                   ? 0
                                   : (uint32_t)ps_gen_range(&gen, 1, 1500);
        const uint32_t window = m.plan.kv_windows[0];
        // Positions in each unit (row, chunk, head).
        static uint32_t units[8 * 9 * 5];
        uint32_t count = 0;
        for (uint32_t r = 0; r < rows; r++) {
            for (uint32_t c = 0; c <= m.options.position / CHUNK; c++) {
                uint32_t inside = 0;
                for (uint32_t p = c * CHUNK; p < (c + 1) * CHUNK; p++) {
                    inside += p <= m.options.position &&
                              (window == 0 || p + window > m.options.position);
                }
                for (uint32_t h = 0; h < heads && inside > 0; h++) {
                    units[count++] = inside;
                }
            }
        }
        uint64_t counts[WORKERS_MAX] = {0};
        for (uint32_t i = 0; i < count; i++) {
            counts[owner_of(i, count, workers)] += units[i];
        }
        expect_largest(&m, counts);
    }
}

static void test_tiles_of_attention(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        made m;
        const uint32_t workers = (uint32_t)ps_gen_range(&gen, 1, WORKERS_MAX);
        const uint32_t rows = (uint32_t)ps_gen_range(&gen, 1, 40);
        uint64_t counts[WORKERS_MAX] = {0};
        make(&m, PS_OP_ATTENTION, PS_SPLIT_UNITS, workers, rows);
        for (uint32_t unit = 0; unit < rows * 3; unit++) { // three heads
            counts[unit % workers]++;
        }
        expect_largest(&m, counts);
    }
}

static void test_rows_and_columns(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        made m;
        const uint32_t workers = (uint32_t)ps_gen_range(&gen, 1, WORKERS_MAX);
        const uint32_t rows = (uint32_t)ps_gen_range(&gen, 1, 40);
        uint64_t counts[WORKERS_MAX] = {0};
        make(&m, PS_OP_ADD, PS_SPLIT_ROWS, workers, rows);
        for (uint32_t r = 0; r < rows; r++) {
            counts[owner_of(r, rows, workers)]++;
        }
        expect_largest(&m, counts);

        uint64_t columns[WORKERS_MAX] = {0};
        const uint32_t unit = 16 * (uint32_t)ps_gen_range(&gen, 1, 6);
        const uint32_t units = (uint32_t)ps_gen_range(&gen, 1, 30);
        make(&m, PS_OP_LINEAR, PS_SPLIT_COLUMNS, workers, rows);
        m.values[Y].part_columns = unit * units;
        m.values[Y].part_unit = unit;
        m.values[Y].part_offset = (uint32_t)ps_gen_range(&gen, 0, unit * units - 1); // of a view
        m.values[Y].is.columns = (uint32_t)ps_gen_range(&gen, 1,
                                                        unit * units - m.values[Y].part_offset);
        for (uint32_t c = 0; c < m.values[Y].is.columns; c++) {
            columns[owner_of((m.values[Y].part_offset + c) / unit, units, workers)]++;
        }
        expect_largest(&m, columns);
    }
}

static void test_what_is_replicated_is_everyones(void **state)
{
    (void)state;
    made m;
    make(&m, PS_OP_ADD, PS_SPLIT_ALL, 4, 2);
    assert_true(ps_play_busiest(&m.work, &m.step) == 1);
}

// ---- times

static void expect_ns(double got, double expected)
{
    if (fabs(got - expected) > 1e-6 * (fabs(expected) + 1)) {
        fail_msg("%.9g ns, %.9g expected", got, expected);
    }
}

// 15 units, of which one of two workers has 8.
static void make_linear(made *m, uint32_t rows)
{
    make(m, PS_OP_LINEAR, PS_SPLIT_COLUMNS, 2, rows);
    m->step.inputs[1] = W;
    m->values[Y].is.columns = 15 * 16;
    m->values[Y].part_columns = 15 * 16;
    m->values[Y].part_unit = 16;
    m->machine.workers = (ps_worker_rates){.read_gbs = 30, .overlap = 0.75, .vector_gbs = 10};
}

static double share_ns(const made *m, double cold_ns, double warm_ns, double compute_ns)
{
    const ps_play_times t = ps_play_share(&m->work, &m->step, cold_ns, warm_ns, compute_ns);
    expect_ns(t.ns, fmax(t.memory_ns + t.cache_ns, t.compute_ns) + t.seen_ns);
    return t.ns;
}

static void test_times_of_a_linear(void **state)
{
    (void)state;
    made m;
    make_linear(&m, 4);
    const double lag = 2 * 8.0 / 15;
    // Memory is shared by those who read, and who reads alone gets 30 of 40 bytes a ns.
    expect_ns(share_ns(&m, 1000, 0, 0), 1000);
    m.machine.workers.read_gbs = 20; // then it is the one with the most who is waited for
    expect_ns(share_ns(&m, 1000, 0, 0), 1000 * lag);
    m.machine.workers.read_gbs = 10; // less than a share of all: it cannot be
    expect_ns(share_ns(&m, 1000, 0, 0), 1000 * lag);
    m.machine.workers.read_gbs = 30;
    expect_ns(share_ns(&m, 0, 100, 0), 100 * lag);
    expect_ns(share_ns(&m, 0, 0, 600), 600 * lag);
    // A quarter of the shorter is seen.
    expect_ns(share_ns(&m, 1000, 0, 600), 1000 + 600 * lag / 4);
    expect_ns(share_ns(&m, 600, 0, 1000), 1000 * lag + 600.0 / 4);
}

static void test_without_rates_of_workers_they_are_one(void **state)
{
    (void)state;
    made m;
    make_linear(&m, 4);
    m.machine.workers = (ps_worker_rates){.overlap = 0};
    expect_ns(share_ns(&m, 1000, 100, 600), 1100);
    expect_ns(share_ns(&m, 0, 100, 600), 600);
}

// silu(gate) * up: three rows of f32 and what is written, at 10 bytes a ns.
static void test_a_gate_up_activates(void **state)
{
    (void)state;
    made m;
    make_linear(&m, 4);
    m.step.op = PS_OP_GATE_UP;
    const double bytes = 4 * 240 * 4 * 3.0 + 4 * 960.0;
    expect_ns(share_ns(&m, 0, 0, 600), (600 + bytes / 10) * 16 / 15);
}

// Attention is told by kernels that wait for memory: nothing of it is seen twice.
static void test_times_of_attention(void **state)
{
    (void)state;
    made m;
    make(&m, PS_OP_ATTENTION_PARTIAL, PS_SPLIT_UNITS, 2, 1);
    m.machine.workers = (ps_worker_rates){.read_gbs = 30, .overlap = 0, .vector_gbs = 10};
    m.options.position = 255; // one chunk of three heads: one of the workers has two
    expect_ns(share_ns(&m, 1000, 0, 100), 1000);
    expect_ns(share_ns(&m, 100, 0, 900), 900 * 4.0 / 3);
}

static void test_vector_operators(void **state)
{
    (void)state;
    made m;
    make(&m, PS_OP_ADD, PS_SPLIT_ALL, 2, 3);
    m.step.inputs[1] = X;
    m.machine.workers.vector_gbs = 10;
    // Three rows of 1024 bytes, two read and one written, by both workers.
    expect_ns(share_ns(&m, 0, 0, 0), 3 * 3 * 1024 * 2 / 10.0);
    // Partial results: as many chunks as there are, not as there could be.
    m.step.op = PS_OP_ATTENTION_MERGE;
    m.step.inputs[1] = KV;
    m.values[X].is.columns = 100000;
    m.options.position = 300;
    const double partial = 2 * 4 * (66 + 2 * 64) * 4; // chunks, heads, what each reads and writes
    expect_ns(share_ns(&m, 0, 0, 0), 3 * (partial + 1024) * 2 / 10.0);
}

// K of a token is written to as many lines as a head has columns, of three heads: there and back.
static void test_keys_are_written_to_lines(void **state)
{
    (void)state;
    made m;
    make(&m, PS_OP_KV_WRITE, PS_SPLIT_ROWS, 2, 4);
    m.step.inputs[1] = X;
    m.step.inputs[2] = KV;
    m.step.input_count = 3;
    m.step.output = PS_NO_VALUE;
    m.machine.workers.vector_gbs = 1e12;
    m.machine.workers.kv_gbs = 20;
    expect_ns(share_ns(&m, 0, 0, 0), 2 * 4 * 3 * 64 * 64 / 20.0);
    m.step.split = PS_SPLIT_ALL; // who writes all of it alone reads 30 of 40 bytes a ns
    m.machine.workers.read_gbs = 30;
    expect_ns(share_ns(&m, 0, 0, 0), 2 * 4 * 3 * 64 * 64 / 20.0 * 40 / 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_of_attention),
        cmocka_unit_test(test_tiles_of_attention),
        cmocka_unit_test(test_rows_and_columns),
        cmocka_unit_test(test_what_is_replicated_is_everyones),
        cmocka_unit_test(test_times_of_a_linear),
        cmocka_unit_test(test_without_rates_of_workers_they_are_one),
        cmocka_unit_test(test_a_gate_up_activates),
        cmocka_unit_test(test_times_of_attention),
        cmocka_unit_test(test_vector_operators),
        cmocka_unit_test(test_keys_are_written_to_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
