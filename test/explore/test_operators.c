// ctest-labels: unit
// Goal: rows of operators add up to the spans they are made of, and say what bounds them.
// Method: spans made by hand, whose sums are plain to see; and spans from a printed seed, whose
// sums by operator are kept beside.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "explore/operators.h"
#include "gen.h"

#include <math.h>
#include <string.h>

enum { QKV, DOWN, NORM, ATTENTION, STEPS };

static ps_plan_step steps[STEPS] = {
    [QKV] = {.op = PS_OP_LINEAR, .attributes = {.site = PS_SITE_ATTN_QKV}},
    [DOWN] = {.op = PS_OP_LINEAR, .attributes = {.site = PS_SITE_MLP_DOWN}},
    [NORM] = {.op = PS_OP_NORM_QUANTISE},
    [ATTENTION] = {.op = PS_OP_ATTENTION, .attributes = {.site = PS_SITE_KV}},
};
static const ps_plan plan = {.steps = steps, .step_count = STEPS};

typedef struct listed {
    ps_arena arena;
    ps_operator_row *rows;
    uint32_t count;
} listed;

static void list(const ps_play_span *spans, uint32_t count, listed *out)
{
    const ps_played played = {.spans = spans, .span_count = count};
    ps_arena_init(&out->arena, (size_t)1 << 24);
    assert_int_equal(PS_OK,
                     ps_operators_list(&plan, &played, &out->arena, &out->rows, &out->count));
}

static ps_bound bound_of(ps_play_span span)
{
    listed l;
    list(&span, 1, &l);
    assert_int_equal(1, l.count);
    const ps_bound bound = l.rows[0].bound;
    ps_arena_deinit(&l.arena);
    return bound;
}

static void test_bounds(void **state)
{
    (void)state;
    const ps_play_span span = {.step = QKV, .memory_ns = 3, .cache_ns = 2, .compute_ns = 4};
    ps_play_span other = span;
    assert_int_equal(PS_BOUND_MEMORY, bound_of(span));
    other.cache_ns = 3.5;
    assert_int_equal(PS_BOUND_CACHE, bound_of(other));
    other.compute_ns = 7;
    assert_int_equal(PS_BOUND_COMPUTE, bound_of(other));
    other.fixed_ns = 7.5;
    assert_int_equal(PS_BOUND_FIXED, bound_of(other));
    other.miss_ns = 8;
    assert_int_equal(PS_BOUND_EXPERTS, bound_of(other));
    other.lane = PS_LANE_WAIT;
    assert_int_equal(PS_BOUND_WAIT, bound_of(other));
}

static void test_names_and_order(void **state)
{
    (void)state;
    const ps_play_span spans[] = {{.step = NORM, .lane = PS_LANE_WAIT, .end_ns = 1},
                                  {.step = NORM, .lane = PS_LANE_BARRIER, .end_ns = 1},
                                  {.step = DOWN, .end_ns = 1},
                                  {.step = NORM, .end_ns = 1},
                                  {.step = QKV, .lane = PS_LANE_COMM, .end_ns = 100},
                                  {.step = QKV, .lane = PS_LANE_PREFETCH, .end_ns = 100},
                                  {.step = DOWN, .begin_ns = 1, .end_ns = 3}};
    static const char *const NAMES[] = {"linear mlp.down", "norm_quantise", "waits", "barriers"};
    listed l;
    list(spans, 7, &l);
    assert_int_equal(4, l.count);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(NAMES[i], l.rows[i].name);
    }
    assert_int_equal(2, l.rows[0].count);
    assert_true(l.rows[0].ns == 3);
    ps_arena_deinit(&l.arena);
}

// 8 words at 2 a nanosecond from memory, 64 operations at 32: 8 a word, and 16 would balance.
static void test_roofline(void **state)
{
    (void)state;
    const ps_play_span spans[] = {
        {.step = QKV, .words = 8, .ops = 64, .cold_ns = 4, .compute_ns = 2, .memory_ns = 4},
        {.step = ATTENTION, .words = 10, .ops = 10, .cold_ns = 6, .compute_ns = 1},
        {.step = NORM}};
    listed l;
    list(spans, 3, &l);
    const ps_play_span linears = ps_operators_sum(l.rows, l.count, PS_OPERATORS_LINEAR);
    const ps_play_span attention = ps_operators_sum(l.rows, l.count, PS_OPERATORS_ATTENTION);
    const ps_play_span all = ps_operators_sum(l.rows, l.count, PS_OPERATORS_ALL);
    assert_true(ps_operator_intensity(&linears) == 8 && ps_operator_roof(&linears) == 16);
    assert_true(ps_operator_intensity(&attention) == 1 && ps_operator_roof(&attention) == 6);
    assert_true(all.words == 18 && all.ops == 74);
    assert_true(ps_operator_intensity(&l.rows[2].sum) == 0 &&
                ps_operator_roof(&l.rows[2].sum) == 0);
    ps_arena_deinit(&l.arena);
}

#define SPANS 200

static void test_nothing_is_lost(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static ps_play_span spans[SPANS];
    double ns[STEPS + 2] = {0};
    double bytes = 0;
    for (uint32_t i = 0; i < SPANS; i++) {
        const ps_play_lane lane = (ps_play_lane)ps_gen_range(&gen, 0, PS_LANE_COUNT - 1);
        const uint32_t step = ps_gen_range(&gen, 0, STEPS - 1);
        const double took = ps_gen_range(&gen, 0, 1000);
        spans[i] = (ps_play_span){.step = step,
                                  .lane = lane,
                                  .begin_ns = i,
                                  .end_ns = i + took,
                                  .memory_bytes = ps_gen_range(&gen, 0, 1000)};
        ns[lane == PS_LANE_WAIT      ? STEPS
           : lane == PS_LANE_BARRIER ? STEPS + 1
                                     : step] += lane == PS_LANE_COMM || lane == PS_LANE_PREFETCH
                                                    ? 0
                                                    : took;
        bytes += lane == PS_LANE_COMM || lane == PS_LANE_PREFETCH ? 0 : spans[i].memory_bytes;
    }
    listed l;
    list(spans, SPANS, &l);
    double all = 0;
    for (uint32_t i = 0; i < l.count; i++) {
        const ps_operator_row *row = &l.rows[i];
        uint32_t at = strcmp(row->name, "waits") == 0      ? STEPS
                      : strcmp(row->name, "barriers") == 0 ? STEPS + 1
                                                           : 0;
        while (at < STEPS &&
               (steps[at].op != row->op || (ps_site)steps[at].attributes.site != row->site)) {
            at++;
        }
        assert_true(at < STEPS + 2 && row->ns == ns[at]);
        all += row->ns;
    }
    double wanted = 0;
    for (uint32_t i = 0; i < STEPS + 2; i++) {
        wanted += ns[i];
    }
    assert_true(all == wanted);
    assert_true(ps_operators_sum(l.rows, l.count, PS_OPERATORS_ALL).memory_bytes == bytes);
    ps_arena_deinit(&l.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_names_and_order),
        cmocka_unit_test(test_roofline),
        cmocka_unit_test(test_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
