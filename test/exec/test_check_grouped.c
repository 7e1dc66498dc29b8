// ctest-labels: prop
// Goal: the check of grouped calls finds nothing where there is nothing, and where one value of one
// stage is wrong it names stage, layer, expert, row, column and amount. Method: kernels that are
// wrong for several tokens at once, or for one expert, and answers that are changed by hand.
#include "exec/expert_layer.h"
// it includes what cmocka wants first
#include "exec/check_grouped.h"

#define WORKERS 3u
#define ROWS 40u

static ps_walk walk_of(layer *l, uint32_t worker)
{
    return (ps_walk){.exec = &l->exec,
                     .kernels = &l->kernels,
                     .row_count = ROWS,
                     .worker = worker,
                     .workers = WORKERS,
                     .scratch = l->scratch + worker * l->scratch_bytes};
}

static void run_layer(void *argument, uint32_t worker, uint32_t workers)
{
    layer *l = argument;
    const ps_walk walk = walk_of(l, worker);
    assert_int_equal(WORKERS, workers);
    ps_exec_op_EXPERT_GATE_UP(&walk, &l->gate_up);
    ps_team_barrier(l->exec.team, NULL);
    ps_exec_op_EXPERT_LINEAR(&walk, &l->linear);
    ps_team_barrier(l->exec.team, NULL);
    ps_exec_op_EXPERT_SUM(&walk, &l->sum);
}

static layer *new_checked(ps_gen *gen, ps_dtype dtype)
{
    layer *l = new_layer(gen, dtype);
    const ps_walk whole = walk_of(l, 0);
    fill_rows(l, gen, &whole);
    const uint64_t gate_up = ps_check_scratch_bytes(&l->gate_up);
    const uint64_t down = ps_check_scratch_bytes(&l->linear);
    ps_arena_init(&l->exec.arena, 1 << 24);
    assert_int_equal(PS_OK, ps_team_create(WORKERS, &l->exec.team));
    assert_int_equal(PS_OK,
                     ps_check_create(&l->exec.arena, WORKERS, gate_up > down ? gate_up : down,
                                     EXPERTS, &l->exec.check));
    return l;
}

static void free_checked(layer *l)
{
    ps_team_destroy(l->exec.team);
    ps_arena_deinit(&l->exec.arena);
    free_layer(l);
}

static ps_status check(layer *l)
{
    ps_team_run(l->exec.team, run_layer, l);
    return ps_check_result(l->exec.check, WORKERS);
}

static void expect_difference(layer *l, const char *says)
{
    assert_int_equal(PS_INTERNAL, check(l));
    if (strstr(ps_error_message(), says) == NULL) {
        fail_msg("'%s' does not say '%s'", ps_error_message(), says);
    }
}

static void test_nothing_is_found(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int type = 0; type < PS_DTYPE_COUNT; type++) {
        if (type != PS_DTYPE_I32 && ps_dtype_get((ps_dtype)type)->gguf_id >= 0) {
            layer *l = new_checked(&gen, (ps_dtype)type);
            assert_int_equal(PS_OK, check(l));
            assert_int_equal(PS_OK, check(l));
            free_checked(l);
        }
    }
}

// ---- kernels with a fault

static ps_linear_fn *right_linear;
static uint32_t wrong_inputs;

// Adds to the second token's first output where there are several tokens.
static void wrong_linear(const ps_linear *args)
{
    right_linear(args);
    if (args->tokens > 1 && args->inputs == wrong_inputs) {
        args->y[1][0] += 1;
    }
}

static void test_wrong_linears(void **state)
{
    (void)state;
    static const ps_dtype TYPES[] = {PS_DTYPE_Q8_0, PS_DTYPE_F32};
    ps_gen gen = ps_gen_start();
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        layer *l = new_checked(&gen, TYPES[i]);
        ps_linear_fn **slot = TYPES[i] == PS_DTYPE_F32 ? &l->kernels.linear_f32
                                                       : &l->kernels.linear_q8_0;
        right_linear = *slot;
        *slot = wrong_linear;
        wrong_inputs = l->dim;
        expect_difference(l, "layer 4, gate_up, expert ");
        wrong_inputs = l->ffn;
        expect_difference(l, "layer 4, down, expert ");
        wrong_inputs = 0;
        assert_int_equal(PS_OK, check(l));
        free_checked(l);
    }
}

static ps_add_scaled_fn *right_add;

static void wrong_add(float *y, const float *x, float factor, uint32_t n)
{
    right_add(y, x, factor, n);
    y[n - 1] += 0.5f;
}

static void test_wrong_sum(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    layer *l = new_checked(&gen, PS_DTYPE_Q8_0);
    right_add = l->kernels.add_scaled;
    l->kernels.add_scaled = wrong_add;
    expect_difference(l, "layer 4, sum, row 0, column 63: ");
    l->kernels.add_scaled = right_add;
    assert_int_equal(PS_OK, check(l));
    free_checked(l);
}

// ---- one value of one row

static ps_check_pair pair_of(layer *l, const ps_walk *walk, uint32_t row, uint32_t choice)
{
    const uint32_t pair = row * TOP_K + choice;
    int32_t expert;
    memcpy(&expert, ps_row_f32(walk, &l->gate_up.inputs[1], row) + choice, sizeof expert);
    const uint64_t matrix = (uint64_t)expert * l->gate.expert_stride_bytes;
    return (ps_check_pair){.row = row,
                           .expert = (uint32_t)expert,
                           .weight = &l->gate,
                           .up = &l->up,
                           .data = (const char *)l->gate.data + matrix,
                           .up_data = (const char *)l->up.data + matrix,
                           .stage = "gate_up",
                           .y_dtype = l->gate_up.output.dtype,
                           .x = ps_row(walk, &l->gate_up.inputs[0], row),
                           .y = ps_row(walk, &l->gate_up.output, pair)};
}

// Every byte of a row matters, and the row, the expert and the column are named.
static void test_every_byte_of_a_row(void **state)
{
    (void)state;
    static const ps_dtype TYPES[] = {PS_DTYPE_Q8_0, PS_DTYPE_F32};
    ps_gen gen = ps_gen_start();
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        layer *l = new_checked(&gen, TYPES[i]);
        const ps_walk walk = walk_of(l, 1);
        assert_int_equal(PS_OK, check(l));
        const ps_check_pair pair = pair_of(l, &walk, 17, 2);
        char *y = ps_row(&walk, &l->gate_up.output, 17 * TOP_K + 2);
        const uint64_t bytes = ps_dtype_row_bytes(l->gate_up.output.dtype, l->ffn);
        for (uint64_t at = 0; at < bytes; at++) {
            char says[64];
            y[at] ^= 1;
            ps_check_pair_rows(&walk, &l->gate_up, &pair);
            assert_int_equal(PS_INTERNAL, ps_check_result(l->exec.check, WORKERS));
            (void)snprintf(says, sizeof says, "layer 4, gate_up, expert %u, row 17, column ",
                           pair.expert);
            assert_non_null(strstr(ps_error_message(), says));
            const uint32_t column = (uint32_t)strtoul(
                strstr(ps_error_message(), "column ") + strlen("column "), NULL, 10);
            assert_int_equal(TYPES[i] == PS_DTYPE_F32 ? at / sizeof(float)
                             : at < l->ffn            ? at
                                                      : (at - l->ffn) / 4 % (l->ffn / 32) * 32,
                             column);
            y[at] ^= 1;
        }
        ps_check_pair_rows(&walk, &l->gate_up, &pair);
        assert_int_equal(PS_OK, ps_check_result(l->exec.check, WORKERS));
        free_checked(l);
    }
}

// A router of its own: random logits of as many experts as a real layer has.
static void test_wrong_routes(void **state)
{
    (void)state;
    enum { MANY = 512, BEST = 10 };
    ps_gen gen = ps_gen_start();
    layer *l = new_layer(&gen, PS_DTYPE_Q8_0);
    static const uint32_t GATINGS[] = {PS_GATING_SOFTMAX, PS_GATING_SOFTMAX_SELECTED};
    _Alignas(64) static float memory[ROWS][MANY + 2 * BEST];
    free(l->exec.shared);
    l->exec.shared = (char *)(void *)memory;
    ps_arena_init(&l->exec.arena, 1 << 24);
    for (size_t g = 0; g < 2; g++) {
        const ps_plan_step plan = {.op = PS_OP_ROUTE,
                                   .input_count = 1,
                                   .split = PS_SPLIT_ROWS,
                                   .attributes = {.experts = MANY,
                                                  .top_k = BEST,
                                                  .gating = GATINGS[g],
                                                  .normalise = 1,
                                                  .scale = 2.5f,
                                                  .layer = 3}};
        const ps_operand logits = {
            .kind = PS_VALUE_ACTIVATION, .columns = MANY, .row_bytes = sizeof memory[0]};
        const ps_operand answer = {.kind = PS_VALUE_ACTIVATION,
                                   .columns = 2 * BEST,
                                   .row_bytes = sizeof memory[0],
                                   .offset_bytes = MANY * sizeof(float)};
        const ps_bound_step step = {.plan = &plan, .inputs = {logits}, .output = answer};
        char *scratch = new_bytes(ps_exec_route_scratch_bytes(&plan.attributes));
        assert_int_equal(PS_OK,
                         ps_check_create(&l->exec.arena, WORKERS, ps_check_scratch_bytes(&step),
                                         MANY, &l->exec.check));
        for (uint32_t i = 0; i < ROWS * MANY; i++) { // equal ones, too
            memory[i / MANY][i % MANY] = (float)ps_gen_range(&gen, 0, 100) / 16;
        }
        for (uint32_t w = 0; w < WORKERS; w++) {
            ps_walk walk = walk_of(l, w);
            walk.scratch = scratch;
            ps_exec_op_ROUTE(&walk, &step);
        }
        assert_int_equal(PS_OK, ps_check_result(l->exec.check, WORKERS));
        float *row = memory[7] + MANY;
        const ps_walk walk = walk_of(l, 2);
        const struct {
            uint32_t at;
            const char *says;
        } FAULTS[] = {{3, "layer 2, ids, expert "},
                      {BEST + 4, "layer 2, weights, row 7, column 4"}};
        for (size_t f = 0; f < 2; f++) {
            uint32_t bits;
            memcpy(&bits, row + FAULTS[f].at, sizeof bits);
            bits ^= 1;
            memcpy(row + FAULTS[f].at, &bits, sizeof bits);
            ps_check_begin(&walk);
            ps_check_route(&walk, &step, 0, ROWS);
            assert_int_equal(PS_INTERNAL, ps_check_result(l->exec.check, WORKERS));
            assert_non_null(strstr(ps_error_message(), FAULTS[f].says));
            assert_non_null(strstr(ps_error_message(), "row 7"));
            bits ^= 1;
            memcpy(row + FAULTS[f].at, &bits, sizeof bits);
        }
        free(scratch);
    }
    ps_arena_deinit(&l->exec.arena);
    l->exec.shared = NULL;
    free_layer(l);
}

// An expert that no wave brings is missed by the rows that wanted it.
static void test_missing_waves(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    layer *l = new_checked(&gen, PS_DTYPE_Q8_0);
    static const uint32_t SOME[] = {0, 2}, OTHERS[] = {1, 4, 5}, LAST[] = {3};
    const ps_expert_wave waves[] = {{.experts = SOME, .count = 2},
                                    {.experts = OTHERS, .count = 3},
                                    {.experts = LAST, .count = 1}};
    const ps_expert_wave end = {0};
    for (uint32_t i = 0; i < TOP_K; i++) {
        set_routed(ps_row_f32(&(ps_walk){.exec = &l->exec}, &l->gate_up.inputs[1], 21), i,
                   (int32_t)i + 2);
    }
    for (uint32_t left_out = 0; left_out <= 3; left_out++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            const ps_walk walk = walk_of(l, w);
            ps_check_wave(&walk, &l->gate_up, NULL);
            for (uint32_t i = 0; i < 3; i++) {
                if (i != left_out) {
                    ps_check_wave(&walk, &l->gate_up, &waves[i]);
                }
            }
            ps_check_wave(&walk, &l->gate_up, &end);
        }
        assert_int_equal(left_out < 3 ? PS_INTERNAL : PS_OK,
                         ps_check_result(l->exec.check, WORKERS));
        assert_non_null(strstr(ps_error_message(), "layer 4, waves, expert "));
    }
    assert_non_null(strstr(ps_error_message(), "expert 3"));
    free_checked(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_found), cmocka_unit_test(test_wrong_linears),
        cmocka_unit_test(test_wrong_sum),        cmocka_unit_test(test_every_byte_of_a_row),
        cmocka_unit_test(test_wrong_routes),     cmocka_unit_test(test_missing_waves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
