// experts/forecast.c - see forecast.h.
#include "experts/forecast.h"

#include <math.h>

#define FAST_STEPS 4.0
#define SLOW_STEPS 128.0
#define SUMS_STEPS 64.0 // half-lives
#define SAMPLE 4u

#define PROMPT_ROWS 16.0f // for one key, in one step
#define PROMPT_PART 8     // of all keys that it wants: many streams that agree are no prompt

// The line at the start, and how firmly it is believed: as a variance of both averages, of which a
// step shows some 0.002.
#define START_WEIGHT 0.5
#define START_VARIANCE 1e-4

// Of a hot set: the average of its hottest key, and how many steps it stands for.
#define HOT_AVERAGE 0.2f
#define HOT_STEPS 16.0

#define LEAST 1e-5 // of any key

// How much of an average the next `steps` steps are: first all count alike, later they fade.
static float part_of(double half_life, double seen, double steps)
{
    return (float)fmax(1 - exp2(-steps / half_life), steps / (seen + steps));
}

static void set_parts(ps_forecast *f)
{
    f->fast_part = part_of(FAST_STEPS, f->steps, 1);
    f->slow_part = part_of(SLOW_STEPS, f->steps, 1);
}

ps_status ps_forecast_init(ps_forecast *forecast, uint32_t keys, const uint32_t *hot,
                           uint32_t hot_count, ps_arena *arena)
{
    *forecast = (ps_forecast){.keys = keys,
                              .fast = PS_ARENA_NEW(arena, float, keys),
                              .slow = PS_ARENA_NEW(arena, float, keys),
                              .rows = PS_ARENA_NEW(arena, float, keys),
                              .steps = hot_count > 0 ? HOT_STEPS : 0,
                              .by_fast = START_WEIGHT,
                              .by_slow = START_WEIGHT};
    if (forecast->fast == NULL || forecast->slow == NULL || forecast->rows == NULL) {
        return PS_NO_MEMORY;
    }
    set_parts(forecast);
    for (uint32_t i = 0; i < hot_count; i++) {
        forecast->slow[hot[i]] = HOT_AVERAGE * (float)(hot_count - i) / (float)hot_count;
    }
    return PS_OK;
}

void ps_forecast_use(ps_forecast *forecast, uint32_t key, uint32_t rows)
{
    forecast->wanted += forecast->rows[key] == 0;
    forecast->rows[key] += (float)rows;
    forecast->rows_most = fmaxf(forecast->rows_most, forecast->rows[key]);
}

static bool is_prompt(const ps_forecast *f)
{
    return f->rows_most > PROMPT_ROWS && f->wanted > f->keys / PROMPT_PART;
}

// What a step says of a key: [0, 1].
static float wanted(const ps_forecast *f, uint32_t key)
{
    const float rows = f->rows[key];
    return is_prompt(f) ? rows / f->rows_most : fminf(rows, 1);
}

// ---- the line

// Of one key in SAMPLE, others in each step.
static void add_step(ps_forecast *f)
{
    double step[PS_SUMS] = {0};
    for (uint32_t i = (uint32_t)f->steps % SAMPLE; i < f->keys; i += SAMPLE) {
        const double fast = f->fast[i];
        const double slow = f->slow[i];
        const double y = f->rows[i] > 0 ? 1 : 0;
        step[PS_SUM_COUNT]++;
        step[PS_SUM_FAST] += fast;
        step[PS_SUM_SLOW] += slow;
        step[PS_SUM_WANTED] += y;
        step[PS_SUM_FAST_FAST] += fast * fast;
        step[PS_SUM_FAST_SLOW] += fast * slow;
        step[PS_SUM_SLOW_SLOW] += slow * slow;
        step[PS_SUM_FAST_WANTED] += fast * y;
        step[PS_SUM_SLOW_WANTED] += slow * y;
    }
    const double kept = exp2(-1 / SUMS_STEPS);
    for (uint32_t i = 0; i < PS_SUMS; i++) {
        f->sums[i] = kept * f->sums[i] + step[i];
    }
}

// The sum of products of what varies about the means of two.
static double varying(const double *sums, ps_forecast_sum product, ps_forecast_sum a,
                      ps_forecast_sum b)
{
    return sums[product] - sums[a] * sums[b] / sums[PS_SUM_COUNT];
}

// Least squares of two weights and a base, drawn to the start where little is known; weights below
// 0 are none.
static void fit(ps_forecast *f)
{
    const double *s = f->sums;
    if (s[PS_SUM_COUNT] == 0) {
        return; // fewer keys than a sample has
    }
    const double prior = START_VARIANCE * f->keys / SAMPLE;
    const double ff = varying(s, PS_SUM_FAST_FAST, PS_SUM_FAST, PS_SUM_FAST) + prior;
    const double ss = varying(s, PS_SUM_SLOW_SLOW, PS_SUM_SLOW, PS_SUM_SLOW) + prior;
    const double fs = varying(s, PS_SUM_FAST_SLOW, PS_SUM_FAST, PS_SUM_SLOW);
    const double fy = varying(s, PS_SUM_FAST_WANTED, PS_SUM_FAST, PS_SUM_WANTED) +
                      prior * START_WEIGHT;
    const double sy = varying(s, PS_SUM_SLOW_WANTED, PS_SUM_SLOW, PS_SUM_WANTED) +
                      prior * START_WEIGHT;
    const double determinant = ff * ss - fs * fs;
    f->by_fast = (fy * ss - sy * fs) / determinant;
    f->by_slow = (sy * ff - fy * fs) / determinant;
    if (f->by_fast < 0) {
        f->by_fast = 0;
        f->by_slow = fmax(0, sy / ss);
    } else if (f->by_slow < 0) {
        f->by_slow = 0;
        f->by_fast = fmax(0, fy / ff);
    }
    f->base = (s[PS_SUM_WANTED] - f->by_fast * s[PS_SUM_FAST] - f->by_slow * s[PS_SUM_SLOW]) /
              s[PS_SUM_COUNT];
}

// ---- steps

void ps_forecast_step(ps_forecast *forecast)
{
    ps_forecast *f = forecast;
    const bool has_prompt = is_prompt(f);
    if (!has_prompt) {
        add_step(f);
        fit(f);
    }
    const double steps = has_prompt ? f->rows_most : 1;
    const float fast_part = part_of(FAST_STEPS, f->steps, steps);
    const float slow_part = part_of(SLOW_STEPS, f->steps, steps);
    const float scale = has_prompt ? 1 / f->rows_most : 1;
    for (uint32_t i = 0; i < f->keys; i++) {
        const float scaled = scale * f->rows[i]; // wanted()
        const float y = scaled < 1 ? scaled : 1;
        f->fast[i] += fast_part * (y - f->fast[i]);
        f->slow[i] += slow_part * (y - f->slow[i]);
        f->rows[i] = 0;
    }
    f->rows_most = 0;
    f->wanted = 0;
    f->steps += steps;
    set_parts(f);
}

double ps_forecast_of(const ps_forecast *forecast, uint32_t key)
{
    const ps_forecast *f = forecast;
    float fast = f->fast[key];
    float slow = f->slow[key];
    if (f->rows[key] > 0) {
        const float y = wanted(f, key);
        fast += f->fast_part * (y - fast);
        slow += f->slow_part * (y - slow);
    }
    return fmax(f->base + f->by_fast * fast + f->by_slow * slow, LEAST);
}
