// ctest-labels: prop
// Goal: the grouped call of a MoE layer gives the bits of computing every (row, expert) pair alone,
// whatever the routing, the number of rows and the number of workers. Method: random routings,
// weights and rows through the operators, with each worker's share run in turn; beside them one
// kernel call per pair over the whole matrix of its expert.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/exec_internal.h"
#include "gen.h"
#include "kernels/pack.h"

#include <stdlib.h>
#include <string.h>

#define EXPERTS 6u
#define TOP_K 3u
#define DIM 64u
#define FFN 160u // no multiple of the columns that one part of a gate_up has
#define ROWS_MAX 150u
#define STRIDE_BYTES 12288u // from one expert to the next: more than a matrix

typedef struct layer {
    ps_kernels kernels;
    ps_exec exec;
    ps_weight gate, up, down;
    ps_plan_value x_value, route_value, h_value, y_value, sum_value;
    ps_plan_step plan_steps[3];
    ps_bound_step gate_up, linear, sum;
    char *scratch;
} layer;

static void *new_bytes(uint64_t bytes)
{
    void *memory = aligned_alloc(64, ps_round_up(bytes, 64));
    assert_non_null(memory);
    memset(memory, 0, ps_round_up(bytes, 64));
    return memory;
}

// Rows of a file, 34 bytes a block: an f16 scale of 0.004 to 0.008, then 32 values.
static ps_weight random_experts(ps_gen *gen, uint32_t outputs, uint32_t inputs)
{
    const uint64_t row_bytes = ps_dtype_row_bytes(PS_DTYPE_Q8_0, inputs);
    assert_true(ps_packed_bytes(PS_DTYPE_Q8_0, outputs, inputs) < STRIDE_BYTES);
    uint8_t *rows = new_bytes(outputs * row_bytes);
    char *packed = new_bytes(EXPERTS * STRIDE_BYTES);
    memset(packed, 0xff, EXPERTS * STRIDE_BYTES); // what is between them is read as NaN
    for (uint32_t e = 0; e < EXPERTS; e++) {
        for (uint64_t i = 0; i < outputs * row_bytes; i++) {
            rows[i] = i % 34 == 1 ? 0x1c : (uint8_t)ps_gen_next(gen);
        }
        ps_pack_groups(packed + e * STRIDE_BYTES, rows, ps_dtype_row_bytes(PS_DTYPE_Q8_0, inputs),
                       PS_DTYPE_Q8_0, outputs, inputs, 0, outputs / PS_GROUP_ROWS);
    }
    free(rows);
    return (ps_weight){.dtype = PS_DTYPE_Q8_0,
                       .outputs = outputs,
                       .inputs = inputs,
                       .experts = EXPERTS,
                       .data = packed,
                       .expert_stride_bytes = STRIDE_BYTES};
}

// An activation of the step in the shared workspace, behind those before it.
static ps_operand activation(layer *l, ps_plan_value *value, ps_dtype dtype, uint32_t columns,
                             uint32_t multiplier)
{
    const uint64_t row_bytes = dtype == PS_DTYPE_Q8_ROW ? ps_q8_row_bytes(columns)
                                                        : ps_round_up(columns * sizeof(float), 64);
    value->is = (ps_value){.kind = PS_VALUE_ACTIVATION,
                           .dtype = dtype,
                           .columns = columns,
                           .row_multiplier = multiplier,
                           .alias_of = PS_NO_VALUE};
    const ps_operand operand = {.kind = PS_VALUE_ACTIVATION,
                                .dtype = dtype,
                                .columns = columns,
                                .offset_bytes = l->exec.shared_bytes,
                                .row_bytes = row_bytes,
                                .value = value};
    l->exec.shared_bytes += ROWS_MAX * multiplier * row_bytes;
    return operand;
}

static ps_operand weight_operand(const ps_weight *weight)
{
    return (ps_operand){.kind = PS_VALUE_WEIGHT, .weight = weight};
}

static layer *new_layer(ps_gen *gen)
{
    layer *l = new_bytes(sizeof *l);
    assert_int_equal(PS_OK, ps_kernels_select(&l->kernels));
    l->gate = random_experts(gen, FFN, DIM);
    l->up = random_experts(gen, FFN, DIM);
    l->down = random_experts(gen, DIM, FFN);
    const ps_operand x = activation(l, &l->x_value, PS_DTYPE_Q8_ROW, DIM, 1);
    const ps_operand route = activation(l, &l->route_value, PS_DTYPE_F32, 2 * TOP_K, 1);
    const ps_operand h = activation(l, &l->h_value, PS_DTYPE_Q8_ROW, FFN, TOP_K);
    const ps_operand y = activation(l, &l->y_value, PS_DTYPE_F32, DIM, TOP_K);
    const ps_operand sum = activation(l, &l->sum_value, PS_DTYPE_F32, DIM, 1);
    l->exec.shared = new_bytes(l->exec.shared_bytes);
    const ps_op_attributes attributes = {.experts = EXPERTS, .top_k = TOP_K};
    for (int i = 0; i < 3; i++) {
        l->plan_steps[i] = (ps_plan_step){.attributes = attributes,
                                          .split = i < 2 ? PS_SPLIT_UNITS : PS_SPLIT_ROWS};
    }
    l->gate_up = (ps_bound_step){
        .plan = &l->plan_steps[0],
        .inputs = {x, route, weight_operand(&l->gate), weight_operand(&l->up)},
        .output = h};
    l->linear = (ps_bound_step){
        .plan = &l->plan_steps[1], .inputs = {h, route, weight_operand(&l->down)}, .output = y};
    l->sum = (ps_bound_step){.plan = &l->plan_steps[2], .inputs = {y, route}, .output = sum};
    const ps_plan plan = {.rows_max = ROWS_MAX};
    const uint64_t first = ps_exec_experts_scratch_bytes(&plan, &l->gate_up);
    const uint64_t second = ps_exec_experts_scratch_bytes(&plan, &l->linear);
    l->scratch = new_bytes(first > second ? first : second);
    return l;
}

static void free_layer(layer *l)
{
    free((void *)(uintptr_t)l->gate.data);
    free((void *)(uintptr_t)l->up.data);
    free((void *)(uintptr_t)l->down.data);
    free(l->exec.shared);
    free(l->scratch);
    free(l);
}

// Random rows, and a routing to distinct experts that favours some, so that groups are uneven.
static void fill_rows(layer *l, ps_gen *gen, const ps_walk *walk)
{
    for (uint32_t r = 0; r < walk->row_count; r++) {
        float x[DIM];
        for (uint32_t i = 0; i < DIM; i++) {
            x[i] = ps_gen_float(gen);
        }
        l->kernels.quantise_q8(ps_row(walk, &l->gate_up.inputs[0], r), x, DIM);
        float *route = ps_row_f32(walk, &l->gate_up.inputs[1], r);
        const int32_t first = (int32_t)ps_gen_range(gen, 0, 3) == 0
                                  ? (int32_t)ps_gen_range(gen, 0, EXPERTS - 1)
                                  : 1;
        for (uint32_t i = 0; i < TOP_K; i++) {
            const int32_t expert = (first + (int32_t)i * 5) %
                                   (int32_t)EXPERTS; // 5 and 6 share no factor
            memcpy(route + i, &expert, sizeof expert);
            route[TOP_K + i] = ps_gen_float(gen);
        }
    }
}

static void run_all_workers(layer *l, ps_op_function *function, const ps_bound_step *step,
                            uint32_t rows, uint32_t workers)
{
    for (uint32_t w = 0; w < workers; w++) {
        const ps_walk walk = {.exec = &l->exec,
                              .kernels = &l->kernels,
                              .row_count = rows,
                              .worker = w,
                              .workers = workers,
                              .scratch = l->scratch};
        function(&walk, step);
    }
}

// One token through one matrix of a stack.
static void multiply(const layer *l, const ps_weight *weight, int32_t expert, const void *x,
                     float *y)
{
    const char *matrix = (const char *)weight->data + (uint64_t)expert * STRIDE_BYTES;
    const ps_linear args = {.y = &y,
                            .w = matrix,
                            .group_count = weight->outputs / PS_GROUP_ROWS,
                            .inputs = weight->inputs,
                            .tokens = 1,
                            .x = &x};
    l->kernels.linear_q8_0(&args);
}

// The row's answer, pair by pair, added in router order.
static void answer_alone(layer *l, const ps_walk *walk, uint32_t r, float *sum)
{
    const void *x = ps_row(walk, &l->gate_up.inputs[0], r);
    const float *route = ps_row_f32(walk, &l->gate_up.inputs[1], r);
    memset(sum, 0, DIM * sizeof *sum);
    for (uint32_t i = 0; i < TOP_K; i++) {
        float gate[FFN], up[FFN], y[DIM];
        _Alignas(64) char h[1024];
        int32_t expert;
        memcpy(&expert, route + i, sizeof expert);
        multiply(l, &l->gate, expert, x, gate);
        multiply(l, &l->up, expert, x, up);
        l->kernels.silu_mul(gate, gate, up, FFN);
        l->kernels.quantise_q8(h, gate, FFN);
        multiply(l, &l->down, expert, h, y);
        l->kernels.add_scaled(sum, y, route[TOP_K + i], DIM);
    }
}

static void test_grouped_equals_alone(void **state)
{
    (void)state;
    static const uint32_t ROWS[] = {1, 2, 5, 8, 40, ROWS_MAX};
    static const uint32_t WORKERS[] = {1, 2, 3, 8, 40};
    ps_gen gen = ps_gen_start();
    layer *l = new_layer(&gen);
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const ps_walk whole = {.exec = &l->exec, .kernels = &l->kernels, .row_count = ROWS[i]};
        fill_rows(l, &gen, &whole);
        for (size_t w = 0; w < sizeof WORKERS / sizeof WORKERS[0]; w++) {
            run_all_workers(l, ps_exec_op_EXPERT_GATE_UP, &l->gate_up, ROWS[i], WORKERS[w]);
            run_all_workers(l, ps_exec_op_EXPERT_LINEAR, &l->linear, ROWS[i], WORKERS[w]);
            run_all_workers(l, ps_exec_op_EXPERT_SUM, &l->sum, ROWS[i], WORKERS[w]);
            for (uint32_t r = 0; r < ROWS[i]; r++) {
                float alone[DIM];
                answer_alone(l, &whole, r, alone);
                assert_memory_equal(alone, ps_row_f32(&whole, &l->sum.output, r), sizeof alone);
            }
        }
    }
    free_layer(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grouped_equals_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
