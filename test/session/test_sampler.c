// ctest-labels: unit;prop
// Goal: a sampler picks what its options say, from any logits, and the same for the same seed.
// Method: small vocabularies where the right set of tokens is computed in float64 by sorting;
// frequencies of many draws against probabilities; bad numbers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "gen.h"
#include "session/sampler.h"

#include <math.h>
#include <string.h>

#define VOCABULARY 50

static ps_sampler *make(ps_sampler_options options)
{
    ps_kernels kernels;
    ps_sampler *sampler = NULL;
    assert_int_equal(PS_OK, ps_kernels_select(&kernels));
    assert_int_equal(PS_OK, ps_sampler_create_for(&kernels, VOCABULARY, &options, &sampler));
    return sampler;
}

static ps_sampler_options plain(float temperature)
{
    return (ps_sampler_options){
        .temperature = temperature, .top_p = 1, .repeat_penalty = 1, .penalty_last = 64};
}

static int32_t pick(ps_sampler *sampler, const float *logits)
{
    float copy[VOCABULARY];
    int32_t token = -1;
    memcpy(copy, logits, sizeof copy);
    assert_int_equal(PS_OK, ps_sampler_pick(sampler, copy, &token));
    assert_in_range(token, 0, VOCABULARY - 1);
    return token;
}

static void random_logits(ps_gen *gen, float *logits)
{
    for (int i = 0; i < VOCABULARY; i++) {
        logits[i] = 4 * ps_gen_float(gen);
    }
}

static void test_greedy(void **state)
{
    (void)state;
    float logits[VOCABULARY] = {0};
    logits[7] = 3;
    logits[9] = 3; // equal ones: the lower id
    ps_sampler *sampler = make(plain(0));
    assert_int_equal(7, pick(sampler, logits));
    ps_sampler_destroy(sampler);

    const ps_logit_bias bias[] = {{7, -INFINITY}, {11, 3.5f}};
    ps_sampler_options options = plain(0);
    options.biases = bias;
    options.bias_count = 2;
    sampler = make(options);
    assert_int_equal(11, pick(sampler, logits));
    ps_sampler_destroy(sampler);
}

static void test_penalties(void **state)
{
    (void)state;
    float logits[VOCABULARY] = {0};
    logits[3] = 2.0f;
    logits[4] = 1.5f;
    logits[5] = -1.0f;
    ps_sampler_options options = plain(0);
    options.repeat_penalty = 2; // 2 / 2 < 1.5
    ps_sampler *sampler = make(options);
    ps_sampler_accept(sampler, 3);
    assert_int_equal(4, pick(sampler, logits)); // and accepts 4: 0.75 < 1
    assert_int_equal(3, pick(sampler, logits));
    ps_sampler_destroy(sampler);

    options = plain(0);
    options.frequency_penalty = 0.3f; // twice: 2 - 0.6 < 1.5
    sampler = make(options);
    ps_sampler_accept(sampler, 3);
    assert_int_equal(3, pick(sampler, logits)); // once: 1.7
    assert_int_equal(4, pick(sampler, logits));
    ps_sampler_destroy(sampler);

    options.penalty_last = 1; // only the last token counts
    sampler = make(options);
    ps_sampler_accept(sampler, 3);
    ps_sampler_accept(sampler, 3);
    ps_sampler_accept(sampler, 9);
    assert_int_equal(3, pick(sampler, logits));
    ps_sampler_destroy(sampler);
}

// Which tokens may come out, by sorting in float64.
static void allowed(const float *logits, const ps_sampler_options *options, bool *may)
{
    int order[VOCABULARY];
    double sum = 0;
    uint32_t count = options->top_k == 0 || options->top_k > VOCABULARY ? VOCABULARY
                                                                        : options->top_k;
    for (int i = 0; i < VOCABULARY; i++) {
        int at = i;
        for (; at > 0 && logits[order[at - 1]] < logits[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
        may[i] = false;
    }
    for (uint32_t i = 0; i < count; i++) {
        sum += exp((double)logits[order[i]]);
    }
    double before = 0;
    const double best = exp((double)logits[order[0]]);
    for (uint32_t i = 0; i < count; i++) {
        const double p = exp((double)logits[order[i]]);
        // A hair of room at the borders: the sampler's sums are f32.
        may[order[i]] = i == 0 || (before / sum < (double)options->top_p + 1e-5 &&
                                   p >= (double)options->min_p * best * (1 - 1e-5));
        before += p;
    }
}

static void test_only_allowed_tokens_come_out(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 200; round++) {
        float logits[VOCABULARY];
        bool may[VOCABULARY];
        random_logits(&gen, logits);
        ps_sampler_options options = plain(1.5f);
        options.seed = ps_gen_next(&gen);
        options.top_k = (uint32_t)ps_gen_range(&gen, 0, 12);
        options.top_p = 0.5f + 0.5f * fabsf(ps_gen_float(&gen));
        options.min_p = 0.2f * fabsf(ps_gen_float(&gen));
        allowed(logits, &options, may);
        ps_sampler *sampler = make(options);
        for (int i = 0; i < 100; i++) {
            assert_true(may[pick(sampler, logits)]);
        }
        ps_sampler_destroy(sampler);
    }
}

static void test_frequencies(void **state)
{
    (void)state;
    enum { DRAWS = 40000 };
    float logits[VOCABULARY];
    int drawn[VOCABULARY] = {0};
    ps_gen gen = ps_gen_start();
    random_logits(&gen, logits);
    ps_sampler_options options = plain(0.7f);
    options.seed = 5;
    ps_sampler *sampler = make(options);
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        drawn[pick(sampler, logits)]++;
    }
    for (int i = 0; i < VOCABULARY; i++) {
        sum += exp((double)logits[i] / 0.7);
    }
    for (int i = 0; i < VOCABULARY; i++) {
        const double p = exp((double)logits[i] / 0.7) / sum;
        const double deviation = sqrt(p * (1 - p) * DRAWS);
        assert_true(fabs(drawn[i] - p * DRAWS) <= 6 * deviation + 1);
    }
    ps_sampler_destroy(sampler);
}

static void test_a_seed_repeats(void **state)
{
    (void)state;
    float logits[VOCABULARY];
    ps_gen gen = ps_gen_start();
    random_logits(&gen, logits);
    ps_sampler_options options = ps_sampler_defaults();
    int differences = 0;
    options.seed = 1;
    ps_sampler *a = make(options);
    ps_sampler *b = make(options);
    options.seed = 2;
    ps_sampler *c = make(options);
    for (int i = 0; i < 100; i++) {
        const int32_t token = pick(a, logits);
        assert_int_equal(token, pick(b, logits));
        differences += token != pick(c, logits);
    }
    assert_true(differences > 0);
    ps_sampler_destroy(a);
    ps_sampler_destroy(b);
    ps_sampler_destroy(c);
}

static void test_bad_numbers(void **state)
{
    (void)state;
    static const float BAD[] = {NAN, INFINITY};
    for (int greedy = 0; greedy < 2; greedy++) {
        ps_sampler *sampler = make(plain(greedy ? 0 : 1));
        int32_t token = -5;
        for (size_t i = 0; i < 2; i++) {
            float logits[VOCABULARY] = {0};
            logits[20] = BAD[i];
            assert_int_equal(PS_NOT_FINITE, ps_sampler_pick(sampler, logits, &token));
        }
        float none[VOCABULARY];
        for (int i = 0; i < VOCABULARY; i++) {
            none[i] = -INFINITY;
        }
        assert_int_equal(PS_NOT_FINITE, ps_sampler_pick(sampler, none, &token));
        none[33] = -1;
        assert_int_equal(33, pick(sampler, none));
        assert_int_equal(-5, token);
        ps_sampler_destroy(sampler);
    }
}

static void test_bad_options(void **state)
{
    (void)state;
    ps_kernels kernels;
    ps_sampler *sampler = NULL;
    assert_int_equal(PS_OK, ps_kernels_select(&kernels));
    const ps_logit_bias outside = {VOCABULARY, 1};
    ps_sampler_options bad[9];
    for (size_t i = 0; i < 9; i++) {
        bad[i] = plain(1);
    }
    bad[0].temperature = -1;
    bad[1].temperature = NAN;
    bad[2].top_p = 1.5f;
    bad[3].min_p = -0.1f;
    bad[4].repeat_penalty = 0;
    bad[5].presence_penalty = INFINITY;
    bad[6].frequency_penalty = NAN;
    bad[7].penalty_last = UINT32_MAX;
    bad[8].biases = &outside;
    bad[8].bias_count = 1;
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(PS_INVALID,
                         ps_sampler_create_for(&kernels, VOCABULARY, &bad[i], &sampler));
    }
    assert_null(sampler);
}

// ---- the best alone

static void test_how_many_are_looked_at(void **state)
{
    (void)state;
    const ps_logit_bias bias = {3, 0};
    ps_sampler_options options = ps_sampler_defaults();
    assert_int_equal(40, ps_sampler_best_logits(&options));
    options.temperature = 0;
    assert_int_equal(1, ps_sampler_best_logits(&options));
    options.temperature = 1;
    options.top_k = 0;
    assert_int_equal(0, ps_sampler_best_logits(&options));
    for (int i = 0; i < 8; i++) { // each asks for logits that may be anywhere
        options = ps_sampler_defaults();
        options.temperature = i % 2 == 0 ? 0 : 1;
        options.bias_count = i / 2 == 0;
        options.biases = &bias;
        options.repeat_penalty = i / 2 == 1 ? 1.1f : 1;
        options.presence_penalty = i / 2 == 2 ? -0.1f : 0;
        options.frequency_penalty = i / 2 == 3 ? 0.1f : 0;
        assert_int_equal(0, ps_sampler_best_logits(&options));
    }
}

// Few logits that differ, so that ties stand at the border; -infinity where the others were.
static void test_the_best_alone_give_the_same_tokens(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 300; round++) {
        ps_sampler_options options = plain(ps_gen_range(&gen, 0, 3) == 0 ? 0 : 1.5f);
        options.top_k = (uint32_t)ps_gen_range(&gen, 1, VOCABULARY);
        options.top_p = ps_gen_range(&gen, 0, 1) == 0 ? 1 : 0.7f;
        options.min_p = ps_gen_range(&gen, 0, 1) == 0 ? 0 : 0.1f;
        options.seed = (uint64_t)round;
        const uint32_t best = ps_sampler_best_logits(&options);
        ps_sampler *of_all = make(options);
        ps_sampler *of_best = make(options);
        for (int i = 0; i < 20; i++) {
            float logits[VOCABULARY];
            float sparse[VOCABULARY];
            for (int t = 0; t < VOCABULARY; t++) {
                logits[t] = (float)ps_gen_range(&gen, -3, 3);
            }
            for (int t = 0; t < VOCABULARY; t++) {
                uint32_t place = 0;
                for (int o = 0; o < VOCABULARY; o++) {
                    place += logits[o] > logits[t] || (logits[o] == logits[t] && o < t);
                }
                sparse[t] = place < best ? logits[t] : -INFINITY;
            }
            assert_int_equal(pick(of_all, logits), pick(of_best, sparse));
        }
        ps_sampler_destroy(of_all);
        ps_sampler_destroy(of_best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_only_allowed_tokens_come_out),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_a_seed_repeats),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_how_many_are_looked_at),
        cmocka_unit_test(test_the_best_alone_give_the_same_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
