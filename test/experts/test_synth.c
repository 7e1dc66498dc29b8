// ctest-labels: unit;prop
// Goal: the generator gives the shares and overlaps that it was calibrated for, the same each time.
// Method: all ids of a trace, counted here; the values stand beside those of real traces. Fixed
// seeds, several of them, and the mean.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "experts/synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 3u

// The ids of one stream.
typedef struct routes {
    uint32_t layers, experts, top_k, tokens;
    uint16_t *ids; // [tokens][layers][top_k]
} routes;

static const ps_synth_setting *setting_of(const char *name)
{
    for (uint32_t i = 0; ps_synth_setting_at(i) != NULL; i++) {
        if (strcmp(ps_synth_setting_at(i)->name, name) == 0) {
            return ps_synth_setting_at(i);
        }
    }
    fail_msg("no setting %s", name);
    return NULL;
}

static const uint16_t *ids_at(const routes *r, uint32_t token, uint32_t layer)
{
    return r->ids + ((size_t)token * r->layers + layer) * r->top_k;
}

// Sequence 0 of all that the options say.
static routes make_routes(ps_synth_options options)
{
    ps_synth *synth = NULL;
    assert_int_equal(PS_OK, ps_synth_create(&options, &synth));
    const ps_expert_calls calls = ps_synth_calls(synth);
    routes r = {.layers = calls.shape.layers,
                .experts = calls.shape.experts,
                .top_k = calls.shape.top_k,
                .tokens = options.tokens > 0 ? options.tokens : options.setting->tokens};
    const size_t row_ids = r.top_k;
    r.ids = calloc((size_t)r.tokens * r.layers * row_ids, sizeof *r.ids);
    assert_non_null(r.ids);
    for (bool is_end = false; !is_end;) {
        ps_routes_call call;
        assert_int_equal(PS_OK, calls.next(calls.context, &call, &is_end));
        for (uint32_t i = 0; !is_end && i < call.rows; i++) {
            if (call.row[i].sequence == 0) {
                uint16_t *to = r.ids +
                               ((size_t)call.row[i].position * r.layers + call.layer) * row_ids;
                memcpy(to, call.ids + i * row_ids, row_ids * sizeof *to);
            }
        }
    }
    ps_synth_destroy(synth);
    return r;
}

static uint32_t *count_uses(const routes *r, uint32_t first, uint32_t end)
{
    uint32_t *uses = calloc((size_t)r->layers * r->experts, sizeof *uses);
    assert_non_null(uses);
    for (uint32_t t = first; t < end; t++) {
        for (uint32_t l = 0; l < r->layers; l++) {
            for (uint32_t k = 0; k < r->top_k; k++) {
                uses[l * r->experts + ids_at(r, t, l)[k]]++;
            }
        }
    }
    return uses;
}

static const uint32_t *sorted_by;

static int by_uses(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    const int falling = (sorted_by[x] < sorted_by[y]) - (sorted_by[x] > sorted_by[y]);
    return falling != 0 ? falling : (x > y) - (x < y);
}

// The part of `tested` uses that goes to the `share` of each layer's experts that `learnt` has most
// of.
static double coverage(const routes *r, const uint32_t *learnt, const uint32_t *tested,
                       double share)
{
    uint32_t *order = calloc(r->experts, sizeof *order);
    assert_non_null(order);
    uint64_t all = 0;
    uint64_t covered = 0;
    for (uint32_t l = 0; l < r->layers; l++) {
        sorted_by = learnt + (size_t)l * r->experts;
        for (uint32_t e = 0; e < r->experts; e++) {
            order[e] = e;
            all += tested[l * r->experts + e];
        }
        qsort(order, r->experts, sizeof *order, by_uses);
        for (uint32_t i = 0; i < floor(share * r->experts); i++) {
            covered += tested[l * r->experts + order[i]];
        }
    }
    free(order);
    return (double)covered / (double)all;
}

static double covered_of_itself(const routes *r, double share)
{
    uint32_t *all = count_uses(r, 0, r->tokens);
    const double covered = coverage(r, all, all, share);
    free(all);
    return covered;
}

static double half_to_half(const routes *r, double share)
{
    uint32_t *first = count_uses(r, 0, r->tokens / 2);
    uint32_t *second = count_uses(r, r->tokens / 2, r->tokens);
    const double covered = coverage(r, first, second, share);
    free(first);
    free(second);
    return covered;
}

// Part of a token's experts that the one `back` before it had.
static double overlap(const routes *r, uint32_t back)
{
    uint64_t equal = 0;
    for (uint32_t t = back; t < r->tokens; t++) {
        for (uint32_t l = 0; l < r->layers; l++) {
            const uint16_t *now = ids_at(r, t, l);
            const uint16_t *then = ids_at(r, t - back, l);
            for (uint32_t i = 0; i < r->top_k * r->top_k; i++) {
                equal += now[i / r->top_k] == then[i % r->top_k];
            }
        }
    }
    return (double)equal / ((double)(r->tokens - back) * r->layers * r->top_k);
}

// Distinct experts of a layer over so many consecutive tokens.
static double distinct(const routes *r, uint32_t tokens)
{
    uint64_t found = 0;
    const uint32_t windows = r->tokens / tokens;
    for (uint32_t w = 0; w < windows; w++) {
        uint32_t *uses = count_uses(r, w * tokens, (w + 1) * tokens);
        for (uint32_t i = 0; i < r->layers * r->experts; i++) {
            found += uses[i] > 0;
        }
        free(uses);
    }
    return (double)found / ((double)windows * r->layers);
}

// Hits of one LRU over all layers: those whose key had fewer than `slots` different keys since.
static double lru_hits(const routes *r, double share)
{
    const uint32_t keys = r->layers * r->experts;
    const uint32_t slots = (uint32_t)lround(share * keys);
    uint64_t *last = calloc(keys, sizeof *last); // 0: not in a slot
    uint64_t hits = 0;
    uint64_t time = 0;
    uint32_t *ring = calloc((size_t)r->tokens * r->layers * r->top_k + 1, sizeof *ring);
    uint64_t oldest = 1;
    uint32_t used = 0;
    for (uint32_t t = 0; t < r->tokens; t++) {
        for (uint32_t i = 0; i < r->layers * r->top_k; i++) {
            const uint32_t layer = i / r->top_k;
            const uint32_t key = layer * r->experts + ids_at(r, t, layer)[i % r->top_k];
            hits += last[key] != 0 && t >= r->tokens / 2;
            used += last[key] == 0;
            last[key] = ++time;
            ring[time] = key;
            while (used > slots) { // stamps that are not the key's last are no longer in the order
                const uint64_t stamp = oldest++;
                if (last[ring[stamp]] == stamp) {
                    last[ring[stamp]] = 0;
                    used--;
                }
            }
        }
    }
    free(ring);
    free(last);
    return (double)hits / ((double)(r->tokens - r->tokens / 2) * r->layers * r->top_k);
}

// ---- check values

// Percent, and numbers of experts, means over seeds.
typedef struct values {
    double itself, halves, last, eighth; // coverage at 16.3 %; overlap with t-1, t-8
    double lru_small, lru_16, lru_34;    // small: 6.25 %
    double distinct_8, distinct_all;
} values;

static values measure(const char *name)
{
    values sum = {0};
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        const routes r = make_routes((ps_synth_options){.setting = setting_of(name), .seed = seed});
        sum.itself += 100 * covered_of_itself(&r, .163) / SEEDS;
        sum.halves += 100 * half_to_half(&r, .163) / SEEDS;
        sum.last += 100 * overlap(&r, 1) / SEEDS;
        sum.eighth += 100 * overlap(&r, 8) / SEEDS;
        sum.lru_small += 100 * lru_hits(&r, .0625) / SEEDS;
        sum.lru_16 += 100 * lru_hits(&r, .163) / SEEDS;
        sum.lru_34 += 100 * lru_hits(&r, .34) / SEEDS;
        sum.distinct_8 += distinct(&r, 8) / SEEDS;
        sum.distinct_all += distinct(&r, r.tokens) / SEEDS;
        free(r.ids);
    }
    return sum;
}

static void expect_near(const char *what, double wanted, double found, double most)
{
    printf("%-32s %6.1f, wanted %6.1f\n", what, found, wanted);
    if (fabs(found - wanted) > most) {
        fail_msg("%s: %.1f, %.1f within %.1f would be right", what, found, wanted, most);
    }
}

static void test_qwen30(void **state)
{
    (void)state;
    const values v = measure("qwen30");
    expect_near("qwen30: 16.3 % cover", 73.3, v.itself, 3);
    expect_near("qwen30: half to half", 63.9, v.halves, 2);
    expect_near("qwen30: of token t-1", 36.2, v.last, 2);
    expect_near("qwen30: of token t-8", 23.5, v.eighth, 2);
    expect_near("qwen30: LRU of 16.3 %", 69.0, v.lru_16, 2);
    expect_near("qwen30: LRU of 34 %", 88.4, v.lru_34, 2);
    expect_near("qwen30: union of 8 tokens", 23.0, v.distinct_8, 1);
    expect_near("qwen30: distinct", 71, v.distinct_all, 6);
}

static void test_flashnext(void **state)
{
    (void)state;
    const values v = measure("flashnext");
    expect_near("flashnext: 16.3 % cover", 72.5, v.itself, 2);
    expect_near("flashnext: of token t-1", 29, v.last, 2);
    expect_near("flashnext: of token t-8", 16, v.eighth, 2);
    expect_near("flashnext: LRU of 6.25 %", 55, v.lru_small, 2);
    expect_near("flashnext: LRU of 16.3 %", 74, v.lru_16, 2);
    expect_near("flashnext: LRU of 34 %", 87, v.lru_34, 2);
    expect_near("flashnext: union of 8 tokens", 44.8, v.distinct_8, 1);
}

// What is used nowhere more has a coverage of its size.
static void test_uniform(void **state)
{
    (void)state;
    const values v = measure("uniform");
    expect_near("uniform: half to half", 16.3, v.halves, 1);
    expect_near("uniform: of token t-1", 100 * 10 / 512.0, v.last, .3);
    expect_near("uniform: of token t-8", 100 * 10 / 512.0, v.eighth, .3);
}

// A set that one topic has taught is stale when the topic changes.
static void test_drift(void **state)
{
    (void)state;
    const ps_synth_options options = {
        .setting = setting_of("drift"), .layers = 8, .tokens = 1000, .seed = 1};
    const routes r = make_routes(options);
    const double stale = 100 * half_to_half(&r, .163);
    free(r.ids);
    assert_true(stale > 17 && stale < 26); // what is popular everywhere stays
}

// ---- streams

// Distinct experts of a layer's call, mean over calls; and of all sequences over all calls the
// coverage of 16.3 %.
static double distinct_of_streams(ps_synth_sharing sharing, uint32_t streams, double *covered)
{
    const ps_synth_options options = {.setting = setting_of("flashnext"),
                                      .layers = 4,
                                      .tokens = 20,
                                      .streams = streams,
                                      .sharing = sharing,
                                      .seed = 9};
    ps_synth *synth = NULL;
    assert_int_equal(PS_OK, ps_synth_create(&options, &synth));
    const ps_expert_calls calls = ps_synth_calls(synth);
    uint64_t found = 0;
    uint32_t call_count = 0;
    routes all = {.layers = 4, .experts = 512, .top_k = 10};
    uint32_t *uses = calloc((size_t)4 * 512, sizeof *uses);
    assert_non_null(uses);
    for (bool is_end = false; !is_end;) {
        ps_routes_call call;
        bool seen[512] = {0};
        assert_int_equal(PS_OK, calls.next(calls.context, &call, &is_end));
        for (uint32_t i = 0; !is_end && i < call.rows * 10; i++) {
            found += !seen[call.ids[i]];
            seen[call.ids[i]] = true;
            uses[call.layer * 512 + call.ids[i]]++;
        }
        call_count += !is_end;
    }
    *covered = 100 * coverage(&all, uses, uses, .163);
    free(uses);
    ps_synth_destroy(synth);
    return (double)found / call_count;
}

static void test_streams(void **state)
{
    (void)state;
    double covered;
    expect_near("8 topics: distinct", 73, distinct_of_streams(PS_SYNTH_APART, 8, &covered), 2);
    const double topic = distinct_of_streams(PS_SYNTH_TOPIC, 8, &covered);
    assert_true(topic > 40 && topic < 65); // between the two
    expect_near("8 copies: distinct", 10, distinct_of_streams(PS_SYNTH_COPIES, 8, &covered), 0);
    (void)distinct_of_streams(PS_SYNTH_APART, 64, &covered);
    expect_near("64 topics: 16.3 % cover", 34.3, covered, 3);
}

// A prompt is one step, and its tokens are those that decoding would have had.
static void test_prompt(void **state)
{
    (void)state;
    ps_synth_options options = {
        .setting = setting_of("qwen30"), .layers = 3, .prompt = 20, .seed = 4};
    ps_synth *synth = NULL;
    assert_int_equal(PS_OK, ps_synth_create(&options, &synth));
    const ps_expert_calls calls = ps_synth_calls(synth);
    uint32_t steps = 0;
    for (bool is_end = false; !is_end;) {
        ps_routes_call call;
        assert_int_equal(PS_OK, calls.next(calls.context, &call, &is_end));
        if (!is_end) {
            assert_int_equal(steps == 0 ? 20 : 1, call.rows);
            assert_int_equal(steps == 0 ? PS_ROUTES_PROMPT : PS_ROUTES_DECODE, call.row[0].phase);
            assert_int_equal(steps == 0 ? 0 : 19 + steps, call.row[0].position);
            steps += call.layer == 2;
        }
    }
    assert_int_equal(128 - 20 + 1, steps);
    ps_synth_destroy(synth);
    options.prompt = 128;
    assert_int_equal(PS_INVALID, ps_synth_create(&options, &synth));
    assert_string_equal("a prompt of 128 of 128 tokens: 0 to 127 would be right",
                        ps_error_message());
}

// ---- the oracle of predictors

static double recall(const char *name, double noise, uint32_t times)
{
    const ps_synth_options options = {
        .setting = setting_of(name), .layers = 8, .tokens = 60, .seed = 2};
    ps_synth *synth = NULL;
    assert_int_equal(PS_OK, ps_synth_create(&options, &synth));
    const ps_expert_calls calls = ps_synth_calls(synth);
    const uint32_t top_k = calls.shape.top_k;
    uint64_t found = 0;
    uint64_t all = 0;
    for (bool is_end = false; !is_end;) {
        ps_routes_call call;
        uint16_t guesses[PS_ROUTES_TOP_K_MAX];
        assert_int_equal(PS_OK, calls.next(calls.context, &call, &is_end));
        if (is_end) {
            break;
        }
        assert_int_equal(PS_OK, ps_synth_predict(synth, 0, noise, times * top_k, guesses));
        for (uint32_t i = 0; i < top_k; i++) {
            for (uint32_t j = 0; j < times * top_k; j++) {
                found += call.ids[i] == guesses[j];
            }
        }
        all += top_k;
    }
    uint16_t id;
    assert_int_equal(PS_INVALID, ps_synth_predict(synth, 1, 0, 1, &id));
    ps_synth_destroy(synth);
    return 100 * (double)found / (double)all;
}

static void test_predictor(void **state)
{
    (void)state;
    expect_near("control", 100, recall("flashnext", 0, 1), 0);
    expect_near("s .15", 82, recall("flashnext", .15, 1), 4);
    expect_near("s .15, twice as many", 99, recall("flashnext", .15, 2), 1);
    expect_near("s .25", 72, recall("flashnext", .25, 1), 4);
    expect_near("s .25, twice as many", 93, recall("flashnext", .25, 2), 2);
    expect_near("s .4", 59, recall("flashnext", .4, 1), 4);
    expect_near("s .6", 45, recall("flashnext", .6, 1), 4);
    expect_near("128 experts, s .25", 78, recall("qwen30", .25, 1), 3);
}

static void test_same_again(void **state)
{
    (void)state;
    const ps_synth_options options = {
        .setting = setting_of("drift"), .layers = 2, .tokens = 600, .streams = 2, .seed = 6};
    ps_synth *synth = NULL;
    assert_int_equal(PS_OK, ps_synth_create(&options, &synth));
    const ps_expert_calls calls = ps_synth_calls(synth);
    uint64_t sums[2] = {0};
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(PS_OK, calls.rewind(calls.context));
        for (bool is_end = false; !is_end;) {
            ps_routes_call call;
            assert_int_equal(PS_OK, calls.next(calls.context, &call, &is_end));
            for (uint32_t i = 0; !is_end && i < call.rows * calls.shape.top_k; i++) {
                sums[pass] = sums[pass] * 31 + call.ids[i];
            }
        }
    }
    assert_int_equal(sums[0], sums[1]);
    ps_synth_destroy(synth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen30),    cmocka_unit_test(test_flashnext),
        cmocka_unit_test(test_uniform),   cmocka_unit_test(test_drift),
        cmocka_unit_test(test_streams),   cmocka_unit_test(test_prompt),
        cmocka_unit_test(test_predictor), cmocka_unit_test(test_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
