// session/sampler.c - from logits to a token.
//
// Greedy looks at the logits once. Otherwise the candidates are cut in the order top_k, top_p,
// min_p and one is drawn; candidates are sorted by falling logit, equal ones by id, so that a seed
// gives the same tokens everywhere.
#include "session/sampler.h"

#include "base/rng.h"
#include "base/status.h"
#include "base/top_k.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ps_sampler {
    ps_sampler_options options;
    ps_kernels kernels;
    uint32_t vocabulary;
    ps_rng rng;
    int32_t *recent; // [penalty_last] ring of accepted tokens
    uint32_t recent_count, recent_next;
    ps_candidate *candidates; // [the larger of vocabulary and penalty_last]
    float *weights;           // [vocabulary]
    ps_logit_bias *biases;
};

ps_sampler_options ps_sampler_defaults(void)
{
    return (ps_sampler_options){.temperature = 0.8f,
                                .top_k = 40,
                                .top_p = 0.95f,
                                .min_p = 0.05f,
                                .repeat_penalty = 1,
                                .penalty_last = 64};
}

static ps_status check_range(const char *name, float value, float low, float high)
{
    if (value >= low && value <= high) { // false for NaN
        return PS_OK;
    }
    return ps_fail(PS_INVALID, "%s is %g: %g to %g would be right", name, (double)value,
                   (double)low, (double)high);
}

static ps_status check_options(const ps_sampler_options *options, uint32_t vocabulary)
{
    PS_TRY(check_range("temperature", options->temperature, 0, 100));
    PS_TRY(check_range("top_p", options->top_p, 0, 1));
    PS_TRY(check_range("min_p", options->min_p, 0, 1));
    PS_TRY(check_range("repeat_penalty", options->repeat_penalty, 0.01f, 100));
    PS_TRY(check_range("presence_penalty", options->presence_penalty, -100, 100));
    PS_TRY(check_range("frequency_penalty", options->frequency_penalty, -100, 100));
    for (size_t i = 0; i < options->bias_count; i++) {
        const ps_logit_bias *bias = &options->biases[i];
        if (bias->token < 0 || (uint32_t)bias->token >= vocabulary) {
            return ps_fail(PS_INVALID, "logit bias for token %d: the vocabulary has %u",
                           bias->token, vocabulary);
        }
        if (isnan(bias->bias) || bias->bias > 1e6f) {
            return ps_fail(PS_INVALID, "logit bias %g of token %d: at most 1e6 would be right",
                           (double)bias->bias, bias->token);
        }
    }
    if (options->penalty_last > (1u << 20)) {
        return ps_fail(PS_INVALID, "penalty_last is %u: at most %u would be right",
                       options->penalty_last, 1u << 20);
    }
    return PS_OK;
}

uint32_t ps_sampler_best_logits(const ps_sampler_options *options)
{
    const bool is_plain = options->bias_count == 0 && options->repeat_penalty == 1 &&
                          options->presence_penalty == 0 && options->frequency_penalty == 0;
    return !is_plain ? 0 : options->temperature > 0 ? options->top_k : 1;
}

ps_status ps_sampler_create_for(const ps_kernels *kernels, uint32_t vocabulary,
                                const ps_sampler_options *options, ps_sampler **out)
{
    PS_TRY(check_options(options, vocabulary));
    ps_sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a sampler");
    }
    sampler->options = *options;
    sampler->kernels = *kernels;
    sampler->vocabulary = vocabulary;
    sampler->rng = ps_rng_seed(options->seed);
    sampler->recent = calloc(options->penalty_last + 1, sizeof *sampler->recent);
    const uint32_t most = vocabulary > options->penalty_last ? vocabulary : options->penalty_last;
    sampler->candidates = calloc(most, sizeof *sampler->candidates);
    sampler->weights = calloc(vocabulary, sizeof *sampler->weights);
    sampler->biases = calloc(options->bias_count + 1, sizeof *sampler->biases);
    if (sampler->recent == NULL || sampler->candidates == NULL || sampler->weights == NULL ||
        sampler->biases == NULL) {
        ps_sampler_destroy(sampler);
        return ps_fail(PS_NO_MEMORY, "no memory for a sampler of %u tokens", vocabulary);
    }
    if (options->bias_count > 0) {
        memcpy(sampler->biases, options->biases, options->bias_count * sizeof *sampler->biases);
    }
    sampler->options.biases = sampler->biases;
    *out = sampler;
    return PS_OK;
}

void ps_sampler_destroy(ps_sampler *sampler)
{
    if (sampler == NULL) {
        return;
    }
    free(sampler->recent);
    free(sampler->candidates);
    free(sampler->weights);
    free(sampler->biases);
    free(sampler);
}

void ps_sampler_accept(ps_sampler *sampler, int32_t token)
{
    const uint32_t size = sampler->options.penalty_last;
    if (size == 0 || token < 0 || (uint32_t)token >= sampler->vocabulary) {
        return;
    }
    sampler->recent[sampler->recent_next] = token;
    sampler->recent_next = (sampler->recent_next + 1) % size;
    sampler->recent_count += sampler->recent_count < size;
}

// The repeat penalty of CTRL (arXiv 1909.05858, section 4.1) and OpenAI's presence and frequency
// penalties, once per distinct recent token.
static void apply_penalties(ps_sampler *sampler, float *logits)
{
    const ps_sampler_options *options = &sampler->options;
    if (sampler->recent_count == 0 ||
        (options->repeat_penalty == 1 && options->presence_penalty == 0 &&
         options->frequency_penalty == 0)) {
        return;
    }
    ps_candidate *ids = sampler->candidates; // free until candidates are gathered
    const uint32_t count = sampler->recent_count;
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (ps_candidate){.id = sampler->recent[i]};
    }
    ps_candidates_sort(ids, count);
    for (uint32_t i = 0; i < count;) {
        uint32_t uses = 1;
        while (i + uses < count && ids[i + uses].id == ids[i].id) {
            uses++;
        }
        float *logit = &logits[ids[i].id];
        *logit = *logit > 0 ? *logit / options->repeat_penalty : *logit * options->repeat_penalty;
        *logit -= options->presence_penalty + options->frequency_penalty * (float)uses;
        i += uses;
    }
}

// The first of the largest logits. NaN and +infinity make the answer meaningless and are found
// here.
static ps_status find_best(const float *logits, uint32_t count, int32_t *out)
{
    uint32_t best = 0;
    bool finite = true;
    for (uint32_t i = 0; i < count; i++) {
        finite &= logits[i] < INFINITY; // false for NaN too
        if (logits[i] > logits[best]) {
            best = i;
        }
    }
    if (!finite || logits[best] == -INFINITY) {
        return ps_fail(PS_NOT_FINITE, "the model's logits are not finite numbers");
    }
    *out = (int32_t)best;
    return PS_OK;
}

// The best top_k candidates, sorted; all of them when top_k is 0.
static uint32_t gather(const ps_sampler *sampler, const float *logits)
{
    const uint32_t all = sampler->vocabulary;
    const uint32_t top_k = sampler->options.top_k;
    const uint32_t kept = top_k == 0 || top_k > all ? all : top_k;
    ps_top_k(logits, all, kept, sampler->candidates);
    ps_candidates_sort(sampler->candidates, kept);
    return kept;
}

// The shortest head of the candidates whose probabilities reach top_p, cut further by min_p of the
// best one.
static uint32_t cut(const ps_sampler *sampler, uint32_t count)
{
    float *p = sampler->weights;
    for (uint32_t i = 0; i < count; i++) {
        p[i] = sampler->candidates[i].logit;
    }
    sampler->kernels.softmax(p, p, count);
    double sum = 0;
    uint32_t kept = 0;
    while (kept < count && (kept == 0 || (sum < (double)sampler->options.top_p &&
                                          p[kept] >= sampler->options.min_p * p[0]))) {
        sum += (double)p[kept++];
    }
    return kept;
}

static int32_t draw(ps_sampler *sampler, uint32_t count)
{
    float *p = sampler->weights;
    for (uint32_t i = 0; i < count; i++) {
        p[i] = (sampler->candidates[i].logit - sampler->candidates[0].logit) /
               sampler->options.temperature;
    }
    sampler->kernels.softmax(p, p, count);
    double left = ps_rng_double(&sampler->rng);
    uint32_t i = 0;
    while (i + 1 < count && left >= (double)p[i]) {
        left -= (double)p[i++];
    }
    return sampler->candidates[i].id;
}

ps_status ps_sampler_pick(ps_sampler *sampler, float *logits, int32_t *out)
{
    for (size_t i = 0; i < sampler->options.bias_count; i++) {
        logits[sampler->biases[i].token] += sampler->biases[i].bias;
    }
    apply_penalties(sampler, logits);
    int32_t id;
    PS_TRY(find_best(logits, sampler->vocabulary, &id));
    if (sampler->options.temperature > 0) {
        id = draw(sampler, cut(sampler, gather(sampler, logits)));
    }
    ps_sampler_accept(sampler, id);
    *out = id;
    return PS_OK;
}
