// Goal: counts, rankings and coverage are what a plain table of all routes says, and a set is
// tested on tokens that it was not made of. Method: random routes of few experts, counted again by
// loops over the list; cases small enough to work out by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "experts/route_counts.h"
#include "gen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 3u
#define EXPERTS 7u
#define TOP_K 2u
#define TOKENS 2000u
#define KEYS (LAYERS * EXPERTS)

typedef struct routes {
    uint16_t ids[TOKENS][LAYERS][TOP_K];
    ps_routes_phase phase[TOKENS];
} routes;

static void make_routes(ps_gen *gen, routes *out)
{
    for (uint32_t t = 0; t < TOKENS; t++) {
        out->phase[t] = ps_gen_range(gen, 0, 2) == 0 ? PS_ROUTES_DECODE : PS_ROUTES_PROMPT;
        for (uint32_t l = 0; l < LAYERS; l++) {
            const uint32_t low = ps_gen_range(gen, 0, EXPERTS - 1);
            out->ids[t][l][0] = (uint16_t)(low / 2); // the lower ones are hotter
            out->ids[t][l][1] = (uint16_t)(EXPERTS - 1 - low / 3);
        }
    }
}

// One row of one layer.
static void add_one(ps_route_counts *counts, uint32_t layer, ps_routes_phase phase,
                    const uint16_t *ids)
{
    const ps_routes_row row = {.phase = (uint16_t)phase};
    ps_route_counts_add(counts,
                        &(ps_routes_call){.layer = layer, .rows = 1, .row = &row, .ids = ids});
}

static void count(ps_route_counts *counts, const routes *from, uint32_t tokens)
{
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t l = 0; l < LAYERS; l++) {
            add_one(counts, l, from->phase[t], from->ids[t][l]);
        }
    }
}

static uint64_t uses_in(const routes *from, uint32_t half, uint32_t key, int phase)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < TOKENS; t++) {
        const uint16_t *ids = from->ids[t][key / EXPERTS];
        const bool is_it = ids[0] == key % EXPERTS || ids[1] == key % EXPERTS;
        sum += is_it && (t / 256 % 2 == half) && (phase < 0 || (int)from->phase[t] == phase);
    }
    return sum;
}

static void test_counts_are_those_of_a_table(void **state)
{
    (void)state;
    static routes from;
    ps_gen gen = ps_gen_start();
    ps_arena arena;
    ps_route_counts counts;
    ps_arena_init(&arena, 1 << 24);
    make_routes(&gen, &from);
    assert_int_equal(PS_OK, ps_route_counts_init(&counts, LAYERS, EXPERTS, TOP_K, &arena));
    count(&counts, &from, TOKENS);
    uint64_t tokens = 0;
    for (uint32_t half = 0; half < PS_ROUTE_HALVES; half++) {
        for (uint32_t phase = 0; phase < PS_ROUTES_PHASES; phase++) {
            tokens += counts.tokens[half][phase];
            for (uint32_t key = 0; key < KEYS; key++) {
                const uint64_t *uses = ps_route_counts_at(&counts, half, (ps_routes_phase)phase,
                                                          key / EXPERTS);
                assert_true(uses[key % EXPERTS] == uses_in(&from, half, key, (int)phase));
            }
        }
    }
    assert_int_equal(TOKENS, tokens);
    ps_route_counts_clear(&counts);
    assert_int_equal(0, counts.tokens[0][0] + counts.tokens[1][1]);
    count(&counts, &from, 1); // the first half's turn again
    assert_int_equal(1, counts.tokens[0][PS_ROUTES_PROMPT] + counts.tokens[0][PS_ROUTES_DECODE]);
    ps_arena_deinit(&arena);
}

// The n hottest by looking for the largest n times; ties go to the lower key.
static uint64_t hits_of(const uint64_t learnt[KEYS], const uint64_t tested[KEYS], uint32_t n)
{
    bool taken[KEYS] = {false};
    uint64_t hits = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t best = KEYS;
        for (uint32_t key = 0; key < KEYS; key++) {
            if (!taken[key] && learnt[key] > 0 && (best == KEYS || learnt[key] > learnt[best])) {
                best = key;
            }
        }
        if (best < KEYS) {
            taken[best] = true;
            hits += tested[best];
        }
    }
    return hits;
}

static void test_ranking_and_coverage(void **state)
{
    (void)state;
    static routes from;
    ps_gen gen = ps_gen_start();
    ps_arena arena;
    ps_route_counts counts;
    ps_hot_ranking ranking;
    ps_arena_init(&arena, 1 << 24);
    make_routes(&gen, &from);
    assert_int_equal(PS_OK, ps_route_counts_init(&counts, LAYERS, EXPERTS, TOP_K, &arena));
    count(&counts, &from, TOKENS);
    for (int phase = -1; phase < PS_ROUTES_PHASES; phase++) {
        uint64_t half[2][KEYS], all[KEYS];
        uint64_t total = 0;
        for (uint32_t key = 0; key < KEYS; key++) {
            half[0][key] = uses_in(&from, 0, key, phase);
            half[1][key] = uses_in(&from, 1, key, phase);
            all[key] = half[0][key] + half[1][key];
            total += all[key];
        }
        const uint32_t bits = phase < 0 ? 3 : 1u << phase;
        assert_int_equal(PS_OK, ps_hot_ranking_make(&counts, bits, &arena, &ranking));
        for (uint32_t i = 0; i < ranking.count; i++) {
            const uint64_t uses = all[ranking.ranked[i]];
            assert_true(uses > 0 && uses == ranking.uses[ranking.ranked[i]]);
            assert_true(
                i == 0 || uses < all[ranking.ranked[i - 1]] ||
                (uses == all[ranking.ranked[i - 1]] && ranking.ranked[i] > ranking.ranked[i - 1]));
        }
        for (uint32_t n = 0; n <= KEYS + 1; n++) {
            const uint64_t held = hits_of(half[0], half[1], n) + hits_of(half[1], half[0], n);
            assert_true(ps_hot_coverage(&ranking, n) ==
                        (double)hits_of(all, all, n) / (double)total);
            assert_true(ps_hot_coverage_held_out(&ranking, n) == (double)held / (double)total);
        }
    }
    ps_arena_deinit(&arena);
}

// A ranking that is read off what it was made of looks perfect where nothing can be learnt.
static void test_held_out_coverage_is_not_hindsight(void **state)
{
    (void)state;
    ps_arena arena;
    ps_route_counts counts;
    ps_hot_ranking ranking;
    ps_arena_init(&arena, 1 << 24);
    assert_int_equal(PS_OK, ps_route_counts_init(&counts, 1, 4, 1, &arena));
    for (uint32_t t = 0; t < 1024; t++) { // each block of tokens has its own expert
        const uint16_t id = (uint16_t)(t / 256);
        add_one(&counts, 0, PS_ROUTES_DECODE, &id);
    }
    assert_int_equal(PS_OK, ps_hot_ranking_make(&counts, 3, &arena, &ranking));
    assert_true(ps_hot_coverage(&ranking, 2) == 0.5 && ps_hot_coverage(&ranking, 4) == 1);
    assert_true(ps_hot_coverage_held_out(&ranking, 2) == 0);
    ps_route_counts_clear(&counts);
    add_one(&counts, 0, PS_ROUTES_DECODE, &(uint16_t){3});
    assert_int_equal(PS_OK, ps_hot_ranking_make(&counts, 3, &arena, &ranking));
    assert_true(ps_hot_coverage(&ranking, 1) == 1);
    assert_true(isnan(ps_hot_coverage_held_out(&ranking, 1))); // there is nothing to test it on
    assert_int_equal(PS_OK, ps_hot_ranking_make(&counts, 1u << PS_ROUTES_PROMPT, &arena, &ranking));
    assert_int_equal(0, ranking.count);
    assert_true(isnan(ps_hot_coverage(&ranking, 1)));
    ps_arena_deinit(&arena);
}

// Runs of less than a block are all of the first half, until they are added.
static void test_short_runs_fill_both_halves(void **state)
{
    (void)state;
    ps_arena arena;
    ps_route_counts sum, run;
    ps_arena_init(&arena, 1 << 24);
    assert_int_equal(PS_OK, ps_route_counts_init(&sum, 2, 4, 1, &arena));
    assert_int_equal(PS_OK, ps_route_counts_init(&run, 2, 4, 1, &arena));
    for (uint32_t i = 0; i < 6; i++) {
        ps_route_counts_clear(&run);
        for (uint32_t t = 0; t < 10; t++) {
            const uint16_t id = (uint16_t)(i % 4);
            add_one(&run, 0, PS_ROUTES_PROMPT, &id);
            add_one(&run, 1, PS_ROUTES_PROMPT, &(uint16_t){3});
        }
        ps_route_counts_merge(&sum, &run);
    }
    for (uint32_t half = 0; half < 2; half++) {
        assert_int_equal(30, sum.tokens[half][PS_ROUTES_PROMPT]);
        assert_int_equal(30, ps_route_counts_at(&sum, half, PS_ROUTES_PROMPT, 1)[3]);
    }
    assert_int_equal(20, ps_route_counts_at(&sum, 0, PS_ROUTES_PROMPT, 0)[0] +
                             ps_route_counts_at(&sum, 1, PS_ROUTES_PROMPT, 0)[0]);
    ps_arena_deinit(&arena);
}

static void test_spread(void **state)
{
    (void)state;
    uint64_t scratch[4];
    assert_true(ps_uses_entropy((uint64_t[]){5, 5, 5, 5}, 4) == 1);
    assert_true(ps_uses_entropy((uint64_t[]){0, 9, 0, 0}, 4) == 0);
    assert_float_equal(ps_uses_entropy((uint64_t[]){1, 1, 0, 0}, 4), 0.5, 1e-6);
    assert_true(ps_uses_gini((uint64_t[]){5, 5, 5, 5}, 4, scratch) == 0);
    assert_float_equal(ps_uses_gini((uint64_t[]){0, 9, 0, 0}, 4, scratch), 0.75, 1e-6);
    assert_float_equal(ps_uses_gini((uint64_t[]){3, 1, 2, 4}, 4, scratch), 0.25, 1e-6);
    assert_true(isnan(ps_uses_entropy((uint64_t[]){0, 0}, 2)));
    assert_true(isnan(ps_uses_gini((uint64_t[]){0, 0}, 2, scratch)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_those_of_a_table),
        cmocka_unit_test(test_ranking_and_coverage),
        cmocka_unit_test(test_held_out_coverage_is_not_hindsight),
        cmocka_unit_test(test_short_runs_fill_both_halves),
        cmocka_unit_test(test_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
