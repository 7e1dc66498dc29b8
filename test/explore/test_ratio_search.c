// ctest-labels: prop
// Goal: the search finds the ratios that gain most, never answers any that lose, and stops in time.
// Method: objectives whose optimum is known, without noise and with noise from a printed seed.
#include "explore/ratio_search.h"
#include "gen.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

// Each site gains until its window is full, and loses from there on; together they lose what does
// not fit in the cache.
typedef struct objective {
    double window[PS_RATIO_COUNT]; // the best ratio of each site
    double worth[PS_RATIO_COUNT];  // gained by a ratio of 1 within the window; < 0: lost
    double cache;                  // sum of ratios that fits
    double noise;                  // of a timing, a part of the step
    ps_gen *gen;
    uint32_t timed, timed_most;
} objective;

static double true_gain(const objective *o, const double *ratios)
{
    double gain = 0;
    double sum = 0;
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        const double late = ratios[i] > o->window[i] ? ratios[i] - o->window[i] : 0;
        gain += o->worth[i] * (ratios[i] - late) - fabs(o->worth[i]) * late;
        sum += ratios[i];
    }
    return gain - (sum > o->cache ? 0.5 * (sum - o->cache) : 0);
}

static ps_status time_it(void *context, const double *ratios, bool is_final, ps_ratio_timing *out)
{
    objective *o = context;
    (void)is_final;
    const double error = o->gen == NULL ? 0 : o->noise * (double)ps_gen_float(o->gen);
    o->timed++;
    *out = (ps_ratio_timing){.off_ns = 1000, .gain = true_gain(o, ratios) + error};
    out->ns = out->off_ns * (1 - out->gain);
    out->noise = o->noise;
    return PS_OK;
}

static bool is_over(void *context)
{
    const objective *o = context;
    return o->timed >= o->timed_most;
}

static objective objective_of(double window)
{
    objective o = {.cache = PS_RATIO_COUNT, .timed_most = 100000};
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        o.window[i] = window;
        o.worth[i] = 0.1;
    }
    return o;
}

static ps_ratio_found search(objective *o, double guess)
{
    ps_ratio_start start = {0};
    ps_ratio_found found;
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        start.has_site[i] = o->worth[i] != 0;
        start.guess[i] = guess;
    }
    const ps_ratio_timer timer = {.context = o, .time = time_it, .is_over = is_over};
    assert_int_equal(PS_OK, ps_ratio_search(&timer, &start, &found));
    return found;
}

#define GRID (1.0 / PS_RATIO_PARTS)

static void test_an_optimum_inside_is_found(void **state)
{
    (void)state;
    for (int guess = 0; guess <= 4; guess++) {
        for (int i = 1; i < 40; i++) {
            objective o = objective_of(i / 40.0);
            const ps_ratio_found found = search(&o, guess / 4.0);
            assert_false(found.is_cut);
            assert_true(found.is_gain == (i / 40.0 > GRID / 2)); // a smaller one loses
            for (uint32_t site = 0; site < PS_RATIO_COUNT && found.is_gain; site++) {
                assert_true(fabs(found.ratio[site] - o.window[site]) < GRID);
            }
        }
    }
}

static void test_ends_are_found_too(void **state)
{
    (void)state;
    objective o = objective_of(1);
    o.worth[PS_RATIO_ATTN_O] = -0.1;
    o.worth[PS_RATIO_MOE_GATE_UP] = 0; // not there
    const ps_ratio_found found = search(&o, 0.5);
    const double expected[PS_RATIO_COUNT] = {
        [PS_RATIO_ATTN_QKV] = 1, [PS_RATIO_MLP_GATE_UP] = 1, [PS_RATIO_MLP_DOWN] = 1};
    assert_memory_equal(expected, found.ratio, sizeof expected);
}

static void test_sites_share_a_cache(void **state)
{
    (void)state;
    objective o = objective_of(1);
    o.cache = 1.5;
    for (int guess = 0; guess <= 4; guess++) {
        const ps_ratio_found found = search(&o, guess / 4.0);
        double sum = 0;
        for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
            sum += found.ratio[i];
        }
        assert_true(found.is_gain && fabs(sum - o.cache) <= GRID);
    }
}

static void test_nothing_to_gain_is_off(void **state)
{
    (void)state;
    const ps_ratio_found off = {.is_gain = false};
    objective o = objective_of(1);
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        o.worth[i] = -0.01;
    }
    const ps_ratio_found found = search(&o, 1);
    assert_false(found.is_gain);
    assert_memory_equal(off.ratio, found.ratio, sizeof off.ratio);
    assert_true(found.timed > 4);
}

static void test_a_gain_within_the_noise_is_off(void **state)
{
    (void)state;
    objective o = objective_of(0.5);
    o.noise = 0.26; // all sites together gain 0.25
    assert_false(search(&o, 0.5).is_gain);
    o.noise = 0.24;
    assert_true(search(&o, 0.5).is_gain);
}

// What is timed is off by up to `noise`, which is what off beside off shows.
static void test_noise_never_makes_a_loss(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    uint32_t gains = 0;
    for (int round = 0; round < 2000; round++) {
        objective o = objective_of((double)ps_gen_range(&gen, 0, 16) / 16);
        o.gen = &gen;
        o.noise = (double)ps_gen_range(&gen, 1, 100) / 1000;
        for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
            o.worth[i] = (double)ps_gen_range(&gen, -60, 60) / 1000;
        }
        const ps_ratio_found found = search(&o, (double)ps_gen_range(&gen, 0, 16) / 16);
        assert_true(true_gain(&o, found.ratio) >= -o.noise);
        gains += found.is_gain;
    }
    assert_in_range(gains, 100, 1999); // and it does find some
}

static void test_the_limit_ends_it(void **state)
{
    (void)state;
    for (uint32_t most = 0; most < 40; most++) {
        objective o = objective_of(0.6);
        o.timed_most = most;
        const ps_ratio_found found = search(&o, 0.5);
        assert_true(found.is_cut);
        assert_int_equal(most, found.timed);
        assert_in_range(o.timed, most, most + 1); // the final one
        assert_true(found.is_gain == (most > 0));
    }
}

static ps_status cancel(void *context, const double *ratios, bool is_final, ps_ratio_timing *out)
{
    (void)context;
    (void)ratios;
    (void)is_final;
    (void)out;
    return PS_CANCELLED;
}

static void test_a_failure_is_passed_on(void **state)
{
    (void)state;
    objective o = objective_of(1);
    ps_ratio_found found = {.timed = 77};
    const ps_ratio_start start = {.has_site = {true}, .guess = {1}};
    const ps_ratio_timer timer = {.context = &o, .time = cancel, .is_over = is_over};
    assert_int_equal(PS_CANCELLED, ps_ratio_search(&timer, &start, &found));
    assert_int_equal(77, found.timed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_optimum_inside_is_found),
        cmocka_unit_test(test_ends_are_found_too),
        cmocka_unit_test(test_sites_share_a_cache),
        cmocka_unit_test(test_nothing_to_gain_is_off),
        cmocka_unit_test(test_a_gain_within_the_noise_is_off),
        cmocka_unit_test(test_noise_never_makes_a_loss),
        cmocka_unit_test(test_the_limit_ends_it),
        cmocka_unit_test(test_a_failure_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
