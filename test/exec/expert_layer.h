// test/exec/expert_layer.h - one MoE layer of random weights in any type, for tests of its
// operators.
#ifndef PS_TEST_EXEC_EXPERT_LAYER_H
#define PS_TEST_EXEC_EXPERT_LAYER_H

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
#define ROWS_MAX 150u
#define DIM_MAX 256u
#define FFN_MAX 512u

typedef struct layer {
    uint32_t dim, ffn;
    ps_kernels kernels;
    ps_exec exec;
    ps_weight gate, up, down;
    ps_plan_value x_value, route_value, h_value, y_value, sum_value;
    ps_plan_step plan_steps[3];
    ps_bound_step gate_up, linear, sum;
    uint64_t scratch_bytes;
    char *scratch; // for three workers at a time
} layer;

static inline void *new_bytes(uint64_t bytes)
{
    void *memory = aligned_alloc(64, ps_round_up(bytes, 64));
    assert_non_null(memory);
    memset(memory, 0, ps_round_up(bytes, 64));
    return memory;
}

// Where a block of a type has f16 scales, which become 0.004 to 0.008; -1: nowhere.
static inline bool is_scale_high(ps_dtype dtype, uint64_t at)
{
    switch (dtype) {
    case PS_DTYPE_Q4_1:
    case PS_DTYPE_Q5_1:
    case PS_DTYPE_Q4_K:
    case PS_DTYPE_Q5_K:
        return at == 1 || at == 3;
    case PS_DTYPE_Q6_K:
        return at == 209;
    default:
        return at == 1;
    }
}

// Rows as in a file.
static inline void fill_file_rows(ps_gen *gen, ps_dtype dtype, uint8_t *rows, uint64_t bytes)
{
    const uint64_t block_bytes = ps_dtype_get(dtype)->block_bytes;
    for (uint64_t i = 0; i < bytes && ps_dtype_is_quantised(dtype); i++) {
        rows[i] = is_scale_high(dtype, i % block_bytes) ? 0x1c : (uint8_t)ps_gen_next(gen);
    }
    for (uint64_t i = 0; i < bytes && !ps_dtype_is_quantised(dtype); i += block_bytes) {
        const float value = ps_gen_float(gen);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        // F16 of [-1, 1): sign, exponent 13 or 14, any mantissa. BF16 is the upper half of F32.
        const uint16_t half = dtype == PS_DTYPE_F16
                                  ? (uint16_t)(((bits >> 16) & 0x8000) | 0x3400 | (bits & 0x7ff))
                                  : (uint16_t)(bits >> 16);
        if (dtype == PS_DTYPE_F32) {
            memcpy(rows + i, &value, sizeof value);
        } else {
            memcpy(rows + i, &half, sizeof half);
        }
    }
}

static inline ps_weight random_experts(ps_gen *gen, ps_dtype dtype, uint32_t outputs,
                                       uint32_t inputs)
{
    const uint64_t row_bytes = ps_dtype_row_bytes(dtype, inputs);
    const uint64_t stride_bytes = ps_packed_bytes(dtype, outputs, inputs) / 4096 * 4096 + 8192;
    uint8_t *rows = new_bytes(outputs * row_bytes);
    char *packed = new_bytes(EXPERTS * stride_bytes);
    memset(packed, 0xff, EXPERTS * stride_bytes); // what is between matrices would give NaN
    for (uint32_t e = 0; e < EXPERTS; e++) {
        fill_file_rows(gen, dtype, rows, outputs * row_bytes);
        ps_pack_groups(packed + e * stride_bytes, rows, row_bytes, dtype, outputs, inputs, 0,
                       outputs / PS_GROUP_ROWS);
    }
    free(rows);
    return (ps_weight){.dtype = dtype,
                       .outputs = outputs,
                       .inputs = inputs,
                       .experts = EXPERTS,
                       .data = packed,
                       .expert_stride_bytes = stride_bytes};
}

// An activation of the step in the shared workspace, behind those before it.
static inline ps_operand activation(layer *l, ps_plan_value *value, ps_dtype dtype,
                                    uint32_t columns, uint32_t multiplier)
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

static inline ps_operand weight_operand(const ps_weight *weight)
{
    return (ps_operand){.kind = PS_VALUE_WEIGHT, .weight = weight};
}

// ffn of Q8_0: no multiple of the columns that one part of a gate_up has.
static inline layer *new_layer(ps_gen *gen, ps_dtype dtype)
{
    const bool is_wide = ps_dtype_get(dtype)->block_columns > 32;
    const ps_dtype row = ps_dtype_is_quantised(dtype) ? PS_DTYPE_Q8_ROW : PS_DTYPE_F32;
    layer *l = new_bytes(sizeof *l);
    assert_int_equal(PS_OK, ps_kernels_select(&l->kernels));
    l->dim = is_wide ? DIM_MAX : 64;
    l->ffn = is_wide ? FFN_MAX : 160;
    l->gate = random_experts(gen, dtype, l->ffn, l->dim);
    l->up = random_experts(gen, dtype, l->ffn, l->dim);
    l->down = random_experts(gen, dtype, l->dim, l->ffn);
    const ps_operand x = activation(l, &l->x_value, row, l->dim, 1);
    const ps_operand route = activation(l, &l->route_value, PS_DTYPE_F32, 2 * TOP_K, 1);
    const ps_operand h = activation(l, &l->h_value, row, l->ffn, TOP_K);
    const ps_operand y = activation(l, &l->y_value, PS_DTYPE_F32, l->dim, TOP_K);
    const ps_operand sum = activation(l, &l->sum_value, PS_DTYPE_F32, l->dim, 1);
    l->exec.shared = new_bytes(l->exec.shared_bytes);
    const ps_op_attributes attributes = {.experts = EXPERTS, .top_k = TOP_K, .layer = 5};
    for (uint32_t i = 0; i < 3; i++) {
        l->plan_steps[i] = (ps_plan_step){.attributes = attributes,
                                          .input_count = 4 - i,
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
    l->scratch_bytes = ps_round_up(first > second ? first : second, 64);
    l->scratch = new_bytes(3 * l->scratch_bytes);
    return l;
}

static inline void free_layer(layer *l)
{
    free((void *)(uintptr_t)l->gate.data);
    free((void *)(uintptr_t)l->up.data);
    free((void *)(uintptr_t)l->down.data);
    free(l->exec.shared);
    free(l->scratch);
    free(l);
}

static inline void set_routed(float *route, uint32_t i, int32_t expert)
{
    memcpy(route + i, &expert, sizeof expert);
}

// Random rows, and a routing to distinct experts that favours some, so that groups are uneven.
static inline void fill_rows(layer *l, ps_gen *gen, const ps_walk *walk)
{
    for (uint32_t r = 0; r < walk->row_count; r++) {
        float x[DIM_MAX];
        for (uint32_t i = 0; i < l->dim; i++) {
            x[i] = ps_gen_float(gen);
        }
        if (l->gate_up.inputs[0].dtype == PS_DTYPE_Q8_ROW) {
            l->kernels.quantise_q8(ps_row(walk, &l->gate_up.inputs[0], r), x, l->dim);
        } else {
            memcpy(ps_row(walk, &l->gate_up.inputs[0], r), x, l->dim * sizeof *x);
        }
        float *route = ps_row_f32(walk, &l->gate_up.inputs[1], r);
        const int32_t first = (int32_t)ps_gen_range(gen, 0, 3) == 0
                                  ? (int32_t)ps_gen_range(gen, 0, EXPERTS - 1)
                                  : 1;
        for (uint32_t i = 0; i < TOP_K; i++) {
            // 5 and 6 share no factor
            set_routed(route, i, (first + (int32_t)i * 5) % (int32_t)EXPERTS);
            route[TOP_K + i] = ps_gen_float(gen);
        }
    }
}

#endif
