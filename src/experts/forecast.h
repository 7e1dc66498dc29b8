// experts/forecast.h - how likely each key is wanted in the next step, learnt as steps go by.
//
// Two averages are kept of each key, of whether steps wanted it: one that forgets half in 4 steps,
// for what is at hand, and one that forgets half in 128, for what the text is about. A line through
// both, fitted by least squares to what steps then wanted, makes them a probability. So recency
// counts as much as it has been worth, and nothing where routing is uniform. A step that wants a
// key for many rows, and many keys, is a prompt: it counts as many steps, and keys by their rows.
#ifndef PS_EXPERTS_FORECAST_H
#define PS_EXPERTS_FORECAST_H

#include "base/memory.h"

// Sums over the keys of steps, older ones fading; those of products are named so.
typedef enum ps_forecast_sum {
    PS_SUM_COUNT,
    PS_SUM_FAST,
    PS_SUM_SLOW,
    PS_SUM_WANTED,
    PS_SUM_FAST_FAST,
    PS_SUM_FAST_SLOW,
    PS_SUM_SLOW_SLOW,
    PS_SUM_FAST_WANTED,
    PS_SUM_SLOW_WANTED,
    PS_SUMS
} ps_forecast_sum;

typedef struct ps_forecast {
    uint32_t keys;
    float *fast, *slow; // [keys] averages before this step
    float *rows;        // [keys] that have wanted the key in this step
    float rows_most;
    uint32_t wanted;            // keys, in this step
    double steps;               // that the averages have seen
    float fast_part, slow_part; // of them, the next step's
    double sums[PS_SUMS];
    double base, by_fast, by_slow; // the line
} ps_forecast;

// hot [hot_count]: keys that are expected at the start, most first. PS_NO_MEMORY. Memory comes from
// the arena and lives as long.
PS_MUST_USE ps_status ps_forecast_init(ps_forecast *forecast, uint32_t keys, const uint32_t *hot,
                                       uint32_t hot_count, ps_arena *arena);

void ps_forecast_use(ps_forecast *forecast, uint32_t key, uint32_t rows); // in this step
void ps_forecast_step(ps_forecast *forecast); // it has ended. O(keys), about a nanosecond each

// Above 0. What this step has wanted so far is known.
double ps_forecast_of(const ps_forecast *forecast, uint32_t key);

#endif
