// ctest-labels: prop
// Goal: the grouped call of a MoE layer gives the bits of computing every (row, expert) pair alone,
// whatever the routing, the types, the number of rows and the number of workers. Method: random
// routings, weights and rows through the operators, with each worker's share run in turn; beside
// them one kernel call per pair over the whole matrix of its expert.
#include "exec/expert_layer.h"

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
    const char *matrix = (const char *)weight->data +
                         (uint64_t)expert * weight->expert_stride_bytes;
    const ps_linear args = {.y = &y,
                            .w = matrix,
                            .group_count = weight->outputs / PS_GROUP_ROWS,
                            .inputs = weight->inputs,
                            .tokens = 1,
                            .x = &x};
    ps_kernels_linear(&l->kernels, weight->dtype)(&args);
}

// The row's answer, pair by pair, added in router order.
static void answer_alone(layer *l, const ps_walk *walk, uint32_t r, float *sum)
{
    const void *x = ps_row(walk, &l->gate_up.inputs[0], r);
    const float *route = ps_row_f32(walk, &l->gate_up.inputs[1], r);
    memset(sum, 0, l->dim * sizeof *sum);
    for (uint32_t i = 0; i < TOP_K; i++) {
        float gate[FFN_MAX], up[FFN_MAX], y[DIM_MAX];
        _Alignas(64) char quantised[2 * FFN_MAX];
        const void *h = gate;
        int32_t expert;
        memcpy(&expert, route + i, sizeof expert);
        multiply(l, &l->gate, expert, x, gate);
        multiply(l, &l->up, expert, x, up);
        l->kernels.silu_mul(gate, gate, up, l->ffn);
        if (l->gate_up.output.dtype == PS_DTYPE_Q8_ROW) {
            l->kernels.quantise_q8(quantised, gate, l->ffn);
            h = quantised;
        }
        multiply(l, &l->down, expert, h, y);
        l->kernels.add_scaled(sum, y, route[TOP_K + i], l->dim);
    }
}

static void compare_rows(layer *l, const ps_walk *whole, uint32_t workers)
{
    run_all_workers(l, ps_exec_op_EXPERT_GATE_UP, &l->gate_up, whole->row_count, workers);
    run_all_workers(l, ps_exec_op_EXPERT_LINEAR, &l->linear, whole->row_count, workers);
    run_all_workers(l, ps_exec_op_EXPERT_SUM, &l->sum, whole->row_count, workers);
    for (uint32_t r = 0; r < whole->row_count; r++) {
        float alone[DIM_MAX];
        answer_alone(l, whole, r, alone);
        assert_memory_equal(alone, ps_row_f32(whole, &l->sum.output, r), l->dim * sizeof *alone);
    }
}

static void test_grouped_equals_alone(void **state)
{
    (void)state;
    static const uint32_t WORKERS[] = {1, 2, 3, 8, 40};
    ps_gen gen = ps_gen_start();
    layer *l = new_layer(&gen, PS_DTYPE_Q8_0);
    for (uint32_t rows = 1; rows <= ROWS_MAX; rows = rows < 70 ? rows + 1 : rows + 80) {
        const ps_walk whole = {.exec = &l->exec, .kernels = &l->kernels, .row_count = rows};
        fill_rows(l, &gen, &whole);
        for (size_t w = 0; w < sizeof WORKERS / sizeof WORKERS[0]; w++) {
            compare_rows(l, &whole, WORKERS[w]);
        }
    }
    free_layer(l);
}

static void test_all_types(void **state)
{
    (void)state;
    static const uint32_t ROWS[] = {1, 2, 7, 8, 9, 33, 70};
    ps_gen gen = ps_gen_start();
    for (int type = 0; type < PS_DTYPE_COUNT; type++) {
        if (type == PS_DTYPE_I32 || ps_dtype_get((ps_dtype)type)->gguf_id < 0) {
            continue;
        }
        layer *l = new_layer(&gen, (ps_dtype)type);
        for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
            const ps_walk whole = {.exec = &l->exec, .kernels = &l->kernels, .row_count = ROWS[i]};
            fill_rows(l, &gen, &whole);
            compare_rows(l, &whole, 1 + (uint32_t)i % 3);
        }
        free_layer(l);
    }
}

// All rows are the same and go the same way: their answers are, too.
static void test_equal_rows(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    layer *l = new_layer(&gen, PS_DTYPE_Q8_0);
    const ps_walk one = {.exec = &l->exec, .kernels = &l->kernels, .row_count = 1};
    fill_rows(l, &gen, &one);
    for (uint32_t r = 1; r < 70; r++) {
        for (int i = 0; i < 2; i++) {
            memcpy(ps_row(&one, &l->gate_up.inputs[i], r), ps_row(&one, &l->gate_up.inputs[i], 0),
                   l->gate_up.inputs[i].row_bytes);
        }
    }
    for (uint32_t rows = 1; rows <= 70; rows++) {
        const ps_walk whole = {.exec = &l->exec, .kernels = &l->kernels, .row_count = rows};
        compare_rows(l, &whole, 2);
    }
    free_layer(l);
}

// What an observer of routes was told, and what it should be.
typedef struct watched {
    const layer *l;
    uint32_t layer, rows, calls;
} watched;

static void watch(void *context, const ps_routes *routes)
{
    watched *w = context;
    const ps_walk walk = {.exec = &w->l->exec};
    assert_int_equal(w->layer, routes->layer);
    assert_int_equal(w->rows, routes->row_count);
    for (uint32_t r = 0; r < w->rows; r++) {
        assert_int_equal(r, routes->rows[r].position);
        assert_memory_equal(ps_row_f32(&walk, &w->l->gate_up.inputs[1], r),
                            routes->ids + r * routes->row_bytes, TOP_K * sizeof(int32_t));
    }
    w->calls++;
}

// Whatever the workers, a call of a layer is told once, with what the router wrote; its later
// steps are not told.
static void test_routes_are_told_once(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    layer *l = new_layer(&gen, PS_DTYPE_Q8_0);
    ps_step_row rows[ROWS_MAX] = {0};
    for (uint32_t r = 0; r < ROWS_MAX; r++) {
        rows[r].position = r;
    }
    watched seen = {.l = l, .layer = 7, .rows = 40};
    const ps_route_observer observer = {.see = watch, .context = &seen};
    const ps_walk whole = {.exec = &l->exec, .kernels = &l->kernels, .row_count = seen.rows};
    fill_rows(l, &gen, &whole);
    l->exec.options.routes = &observer;
    l->gate_up.moe_layer = l->linear.moe_layer = seen.layer;
    l->gate_up.is_moe_begin = true;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        for (uint32_t w = 0; w < workers; w++) {
            const ps_walk walk = {.exec = &l->exec,
                                  .kernels = &l->kernels,
                                  .rows = rows,
                                  .row_count = seen.rows,
                                  .worker = w,
                                  .workers = workers,
                                  .scratch = l->scratch};
            ps_exec_op_EXPERT_GATE_UP(&walk, &l->gate_up);
            ps_exec_op_EXPERT_LINEAR(&walk, &l->linear);
        }
        assert_int_equal(workers, seen.calls);
    }
    free_layer(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grouped_equals_alone), cmocka_unit_test(test_all_types),
        cmocka_unit_test(test_equal_rows), cmocka_unit_test(test_routes_are_told_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
