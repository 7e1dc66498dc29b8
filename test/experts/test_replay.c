// ctest-labels: unit;prop
// ctest-timeout: 300
// Goal: a replay counts what a cache would have hit, Belady's bound is one, and auto keeps up with
// the best policy of each setting of the generator.
// Method: made traces whose hits are known; Belady's against all subsets of small traces; settings
// of fixed seeds, of fewer tokens where the figures allow it.
#include <prestage/prestage.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "experts/belady.h"
#include "experts/replay.h"
#include "experts/synth.h"
#include "gen.h"

#include <math.h>
#include <string.h>

#define SIZES 4u

static const double SHARES[SIZES] = {.044, .0625, .163, .34};
static const ps_expert_policy_kind ALL[] = {PS_EXPERTS_LRU,  PS_EXPERTS_LFU,  PS_EXPERTS_HOTSET,
                                            PS_EXPERTS_HEAT, PS_EXPERTS_AUTO, PS_REPLAY_BELADY};
enum { LRU, LFU, HOTSET, HEAT, AUTO, BELADY, COLUMNS };

// ---- made traces: calls in memory

#define MADE_CALLS_MAX 4000u
#define MADE_TOP_K 2u

typedef struct made {
    ps_routes_row rows[MADE_CALLS_MAX][2];
    uint16_t ids[MADE_CALLS_MAX][2 * MADE_TOP_K];
    uint32_t layers[MADE_CALLS_MAX], row_counts[MADE_CALLS_MAX];
    uint32_t count, at;
} made;

static made trace;

static ps_status next_made(void *context, ps_routes_call *out, bool *out_is_end)
{
    made *m = context;
    *out_is_end = m->at == m->count;
    if (!*out_is_end) {
        *out = (ps_routes_call){.layer = m->layers[m->at],
                                .rows = m->row_counts[m->at],
                                .row = m->rows[m->at],
                                .ids = m->ids[m->at]};
        m->at++;
    }
    return PS_OK;
}

static ps_status rewind_made(void *context)
{
    ((made *)context)->at = 0;
    return PS_OK;
}

static ps_expert_calls calls_of(uint32_t layers, uint32_t experts)
{
    return (ps_expert_calls){.context = &trace,
                             .shape = {.layers = layers, .experts = experts, .top_k = MADE_TOP_K},
                             .next = next_made,
                             .rewind = rewind_made};
}

static void add_call(uint32_t layer, ps_routes_phase phase, uint16_t a, uint16_t b)
{
    ps_assert(trace.count < MADE_CALLS_MAX);
    trace.layers[trace.count] = layer;
    trace.row_counts[trace.count] = 1;
    trace.rows[trace.count][0] = (ps_routes_row){.phase = (uint16_t)phase};
    trace.ids[trace.count][0] = a;
    trace.ids[trace.count][1] = b;
    trace.count++;
}

static ps_replay_result play(const ps_expert_calls *calls, const ps_replay_options *options,
                             ps_arena *arena)
{
    ps_replay_result result;
    if (ps_replay(calls, options, arena, &result) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    return result;
}

// Every token wants the same: of one slot less than a cycle, LRU has forgotten what comes next.
static void test_cycle(void **state)
{
    (void)state;
    const uint32_t layers = 6;
    trace.count = 0;
    for (uint32_t token = 0; token < 50; token++) {
        for (uint32_t layer = 0; layer < layers; layer++) {
            add_call(layer, PS_ROUTES_DECODE, 3, 5);
        }
    }
    const ps_expert_calls calls = calls_of(layers, 8);
    const uint32_t sizes[] = {(layers - 1) * MADE_TOP_K, layers * MADE_TOP_K};
    ps_arena arena;
    ps_arena_init(&arena, SIZE_MAX);
    const ps_replay_options options = {.policies = ALL,
                                       .policy_count = COLUMNS,
                                       .slots = sizes,
                                       .size_count = 2,
                                       .learn_steps = 10};
    const ps_replay_result r = play(&calls, &options, &arena);
    assert_int_equal(40, r.steps);
    assert_int_equal(40, r.phases[PS_ROUTES_DECODE].tokens);
    assert_int_equal(40 * layers * MADE_TOP_K, r.phases[PS_ROUTES_DECODE].wishes);
    for (uint32_t policy = 0; policy < COLUMNS; policy++) {
        const ps_replay_hits *below = &r.cells[2 * policy].phases[PS_ROUTES_DECODE];
        const ps_replay_hits *whole = &r.cells[2 * policy + 1].phases[PS_ROUTES_DECODE];
        assert_int_equal(480, below->pinned + below->cached + below->missed);
        assert_int_equal(0, policy == HOTSET || policy == HEAT ? 0 : below->pinned);
        if (policy == LRU) {
            assert_int_equal(0, below->cached);
        } else if (policy != HEAT) { // half of which is an LRU
            assert_true(below->pinned + below->cached > 0);
        }
        assert_int_equal(policy == LRU || policy == LFU || policy == AUTO || policy == BELADY
                             ? 480
                             : whole->pinned + whole->cached,
                         whole->pinned + whole->cached);
    }
    ps_arena_deinit(&arena);
}

// Rows of a prompt look, and change nothing.
static void test_prompt_passes_by(void **state)
{
    (void)state;
    trace.count = 0;
    add_call(0, PS_ROUTES_DECODE, 0, 1);
    add_call(0, PS_ROUTES_PROMPT, 1, 2);
    add_call(0, PS_ROUTES_PROMPT, 3, 4);
    add_call(0, PS_ROUTES_PROMPT, 5, 2);
    add_call(0, PS_ROUTES_DECODE, 0, 1);
    add_call(0, PS_ROUTES_DECODE, 2, 3);
    const ps_expert_calls calls = calls_of(1, 8);
    const uint32_t size = 4;
    const ps_expert_policy_kind policies[] = {PS_EXPERTS_LRU, PS_REPLAY_BELADY};
    ps_arena arena;
    ps_arena_init(&arena, SIZE_MAX);
    const ps_replay_options options = {
        .policies = policies, .policy_count = 2, .slots = &size, .size_count = 1};
    const ps_replay_result r = play(&calls, &options, &arena);
    assert_int_equal(1, r.cells[0].phases[PS_ROUTES_PROMPT].cached);
    assert_int_equal(5, r.cells[0].phases[PS_ROUTES_PROMPT].missed);
    assert_int_equal(2, r.cells[0].phases[PS_ROUTES_DECODE].cached);
    assert_int_equal(4, r.cells[0].phases[PS_ROUTES_DECODE].missed);
    assert_int_equal(6, r.cells[1].phases[PS_ROUTES_DECODE].cached); // begins with 0 to 3
    assert_int_equal(4, r.cells[1].phases[PS_ROUTES_PROMPT].cached); // 1, 2, 3 and 2
    assert_int_equal(3, r.phases[PS_ROUTES_PROMPT].tokens);
    ps_arena_deinit(&arena);
}

// Rows that agree are one wish.
static void test_distinct(void **state)
{
    (void)state;
    trace.count = 0;
    add_call(0, PS_ROUTES_DECODE, 0, 1);
    trace.row_counts[0] = 2;
    trace.rows[0][1] = (ps_routes_row){.sequence = 1, .phase = PS_ROUTES_PROMPT};
    trace.ids[0][2] = 1;
    trace.ids[0][3] = 2;
    const ps_expert_calls calls = calls_of(1, 8);
    const uint32_t size = 4;
    ps_arena arena;
    ps_arena_init(&arena, SIZE_MAX);
    const ps_replay_options options = {
        .policies = ALL, .policy_count = 1, .slots = &size, .size_count = 1};
    const ps_replay_result r = play(&calls, &options, &arena);
    assert_int_equal(2, r.phases[PS_ROUTES_DECODE].pairs);
    assert_int_equal(2, r.phases[PS_ROUTES_DECODE].wishes);
    assert_int_equal(2, r.phases[PS_ROUTES_PROMPT].pairs);
    assert_int_equal(1, r.phases[PS_ROUTES_PROMPT].wishes); // of the other, decoding reads it
    ps_arena_deinit(&arena);
}

static void expect_refused(const ps_replay_options *options, const char *message)
{
    const ps_expert_calls calls = calls_of(1, 8);
    ps_arena arena;
    ps_arena_init(&arena, SIZE_MAX);
    ps_replay_result r;
    assert_int_equal(PS_INVALID, ps_replay(&calls, options, &arena, &r));
    assert_string_equal(message, ps_error_message());
    ps_arena_deinit(&arena);
}

static void test_refusals(void **state)
{
    (void)state;
    trace.count = 0;
    add_call(0, PS_ROUTES_DECODE, 0, 1);
    uint32_t size = 3;
    ps_replay_options o = {.policies = ALL, .policy_count = 3, .slots = &size, .size_count = 1};
    expect_refused(&o,
                   "a size of 3 experts: 4, twice what a token takes of a layer, to 8, all there "
                   "are, would be right");
    size = 8;
    expect_refused(&o, "policy hotset needs a hot set");
    o.learn_steps = 1;
    expect_refused(&o, "1 steps, of which the first 1 teach: none is left to play");
}

// ---- Belady

#define FEW_KEYS 5u
#define FEW_CALLS 9u

// Over all that may be in the slots before each call: the most hits from call `at` on.
static uint32_t best_from(const uint32_t wants[FEW_CALLS], uint32_t calls, uint32_t slots)
{
    uint32_t best[1u << FEW_KEYS] = {0}; // by what is in the slots, of the calls behind
    for (uint32_t at = calls; at-- > 0;) {
        uint32_t now[1u << FEW_KEYS] = {0};
        for (uint32_t in = 0; in < 1u << FEW_KEYS; in++) {
            for (uint32_t after = 0; after < 1u << FEW_KEYS; after++) {
                const uint32_t held = in | wants[at];
                const bool can = (after & ~held) == 0 && (wants[at] & ~after) == 0 &&
                                 __builtin_popcount(after) <= (int)slots;
                const uint32_t hits = (uint32_t)__builtin_popcount(in & wants[at]);
                if (can && hits + best[after] > now[in]) {
                    now[in] = hits + best[after];
                }
            }
        }
        memcpy(best, now, sizeof best);
    }
    uint32_t most = 0;
    for (uint32_t in = 0; in < 1u << FEW_KEYS; in++) {
        if (__builtin_popcount(in) <= (int)slots && best[in] > most) {
            most = best[in];
        }
    }
    return most;
}

static void test_belady_is_best(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 300; round++) {
        uint32_t wants[FEW_CALLS] = {0};
        const uint32_t slots = (uint32_t)ps_gen_range(&gen, 2, FEW_KEYS);
        ps_arena arena;
        ps_belady *belady = NULL;
        ps_arena_init(&arena, SIZE_MAX);
        assert_int_equal(PS_OK, ps_belady_init(FEW_KEYS, slots, slots, &arena, &belady));
        uint64_t hits = 0;
        uint64_t reads = 0;
        for (uint32_t i = 0; i < FEW_CALLS; i++) {
            uint32_t keys[FEW_KEYS] = {0};
            uint32_t count = 0;
            for (uint32_t key = 0; key < FEW_KEYS && count < 2; key++) {
                if (ps_gen_range(&gen, 0, 2) == 0) {
                    wants[i] |= 1u << key;
                    keys[count++] = key;
                }
            }
            ps_belady_call(belady, keys, count, &hits, &reads);
        }
        assert_int_equal(best_from(wants, FEW_CALLS, slots), hits);
        ps_arena_deinit(&arena);
    }
}

// A long trace, whose timeline is merged many times, against the rule itself: the key leaves whose
// next call is farthest.
static void test_belady_merges(void **state)
{
    (void)state;
    enum { KEYS = 20, CALLS = 4000, SLOTS = 7 };
    static uint32_t keys[CALLS];
    static uint32_t next[CALLS]; // the next call of the same key
    ps_gen gen = ps_gen_start();
    uint32_t soonest[KEYS];
    for (uint32_t i = 0; i < KEYS; i++) {
        soonest[i] = CALLS + i;
    }
    for (uint32_t i = 0; i < CALLS; i++) {
        keys[i] = (uint32_t)(ps_gen_range(&gen, 0, KEYS - 1) * ps_gen_range(&gen, 0, KEYS - 1) /
                             KEYS);
    }
    for (uint32_t i = CALLS; i-- > 0;) {
        next[i] = soonest[keys[i]];
        soonest[keys[i]] = i;
    }
    // Those that are wanted first are there at the start.
    bool is_in[KEYS] = {0};
    uint32_t wanted_at[KEYS];
    memcpy(wanted_at, soonest, sizeof wanted_at);
    for (uint32_t filled = 0; filled < SLOTS; filled++) {
        uint32_t first = KEYS;
        for (uint32_t key = 0; key < KEYS; key++) {
            if (!is_in[key] && (first == KEYS || wanted_at[key] < wanted_at[first])) {
                first = key;
            }
        }
        is_in[first] = true;
    }
    uint64_t by_rule = 0;
    for (uint32_t i = 0; i < CALLS; i++) {
        wanted_at[keys[i]] = next[i];
        if (is_in[keys[i]]) {
            by_rule++;
            continue;
        }
        uint32_t last = KEYS;
        for (uint32_t key = 0; key < KEYS; key++) {
            if (is_in[key] && (last == KEYS || wanted_at[key] > wanted_at[last])) {
                last = key;
            }
        }
        is_in[last] = false;
        is_in[keys[i]] = true;
    }
    ps_arena arena;
    ps_belady *belady = NULL;
    ps_arena_init(&arena, SIZE_MAX);
    assert_int_equal(PS_OK, ps_belady_init(KEYS, SLOTS, 1, &arena, &belady));
    uint64_t hits = 0;
    uint64_t reads = 0;
    for (uint32_t i = 0; i < CALLS; i++) {
        ps_belady_call(belady, &keys[i], 1, &hits, &reads);
    }
    assert_int_equal(by_rule, hits);
    ps_arena_deinit(&arena);
}

// ---- the generator's settings

static double share_of(const ps_replay_result *r, uint32_t policy, uint32_t size)
{
    return ps_replay_hit_share(&r->cells[policy * SIZES + size].phases[PS_ROUTES_DECODE]);
}

// learn: the first part of the tokens; 0: half.
static void play_setting(ps_synth_options options, uint32_t learn, double shares[COLUMNS][SIZES])
{
    ps_synth *synth = NULL;
    assert_int_equal(PS_OK, ps_synth_create(&options, &synth));
    const ps_expert_calls calls = ps_synth_calls(synth);
    uint32_t slots[SIZES] = {0};
    for (uint32_t i = 0; i < SIZES; i++) {
        slots[i] = (uint32_t)lround(SHARES[i] * calls.shape.layers * calls.shape.experts);
    }
    ps_arena arena;
    ps_arena_init(&arena, SIZE_MAX);
    uint64_t steps = 0;
    assert_int_equal(PS_OK, ps_replay_count_steps(&calls, &steps));
    const ps_replay_options replay = {.policies = ALL,
                                      .policy_count = COLUMNS,
                                      .slots = slots,
                                      .size_count = SIZES,
                                      .learn_steps = learn > 0 ? learn : steps / 2};
    const ps_replay_result r = play(&calls, &replay, &arena);
    for (uint32_t policy = 0; policy < COLUMNS; policy++) {
        const char *name = ps_expert_policy_name(ALL[policy]);
        printf("%-10s %-7s", options.setting->name, name != NULL ? name : "belady");
        for (uint32_t size = 0; size < SIZES; size++) {
            shares[policy][size] = share_of(&r, policy, size);
            printf(" %5.1f", 100 * shares[policy][size]);
        }
        printf("\n");
    }
    ps_arena_deinit(&arena);
    ps_synth_destroy(synth);
}

static void expect_good(double shares[COLUMNS][SIZES])
{
    for (uint32_t size = 0; size < SIZES; size++) {
        double best = 0;
        for (uint32_t policy = 0; policy < AUTO; policy++) {
            best = fmax(best, shares[policy][size]);
        }
        for (uint32_t policy = 0; policy < COLUMNS; policy++) {
            assert_true(shares[BELADY][size] >= shares[policy][size]);
        }
        if (shares[AUTO][size] < 0.98 * best) {
            fail_msg("size %u: auto hits %.4f, the best of the others %.4f", size,
                     shares[AUTO][size], best);
        }
    }
}

static void test_qwen30(void **state)
{
    (void)state;
    double shares[COLUMNS][SIZES];
    play_setting((ps_synth_options){.setting = ps_synth_setting_at(0), .seed = 3}, 0, shares);
    expect_good(shares);
    assert_true(shares[LRU][0] == 0); // 270 slots of a cycle of 288
}

static void test_flashnext(void **state)
{
    (void)state;
    double shares[COLUMNS][SIZES];
    play_setting((ps_synth_options){.setting = ps_synth_setting_at(1), .seed = 3}, 0, shares);
    expect_good(shares);
    assert_true(shares[HOTSET][2] >= 1.23 * shares[LRU][0]);
    // A session of four streams.
    play_setting((ps_synth_options){.setting = ps_synth_setting_at(1),
                                    .layers = 16,
                                    .tokens = 160,
                                    .prompt = 40,
                                    .streams = 4,
                                    .seed = 3},
                 0, shares);
    expect_good(shares);
}

static void test_uniform(void **state)
{
    (void)state;
    double shares[COLUMNS][SIZES];
    play_setting((ps_synth_options){.setting = ps_synth_setting_at(2), .seed = 3}, 0, shares);
    expect_good(shares);
    for (uint32_t size = 0; size < SIZES; size++) {
        // Not worse than no cache, by far: nearly what such a size can hit.
        assert_true(shares[AUTO][size] > 0.95 * SHARES[size]);
    }
}

static void test_drift(void **state)
{
    (void)state;
    double shares[COLUMNS][SIZES];
    play_setting(
        (ps_synth_options){
            .setting = ps_synth_setting_at(3), .layers = 16, .tokens = 1000, .seed = 3},
        500, shares);
    expect_good(shares);
    for (uint32_t size = 0; size < SIZES; size++) {
        assert_true(shares[HEAT][size] >= shares[HOTSET][size]);
        assert_true(shares[AUTO][size] >= 1.1 * shares[HOTSET][size]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cycle),          cmocka_unit_test(test_prompt_passes_by),
        cmocka_unit_test(test_distinct),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_belady_is_best), cmocka_unit_test(test_belady_merges),
        cmocka_unit_test(test_qwen30),         cmocka_unit_test(test_flashnext),
        cmocka_unit_test(test_uniform),        cmocka_unit_test(test_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
