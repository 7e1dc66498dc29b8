// explore/ratio_search.c - coordinate descent over sixteenths, each candidate timed once.
#include "explore/ratio_search.h"

#include <math.h>
#include <string.h>

#define CANDIDATES_MAX 512u
#define ROUNDS_MAX 4u
#define COARSE 4u       // parts between candidates of the coarse grid
#define GAIN_LEAST 1e-6 // below are roundings

typedef struct candidate {
    uint8_t parts[PS_RATIO_COUNT]; // 0..PS_RATIO_PARTS
    double gain;
} candidate;

typedef struct search {
    const ps_ratio_timer *timer;
    candidate seen[CANDIDATES_MAX];
    uint32_t seen_count;
    candidate best; // at first off
    bool is_cut;
} search;

static void to_ratios(const candidate *c, double *out)
{
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        out[i] = (double)c->parts[i] / PS_RATIO_PARTS;
    }
}

static bool is_known(const search *s, const candidate *c)
{
    static const candidate OFF = {.gain = 0};
    bool is_known = memcmp(c->parts, OFF.parts, sizeof c->parts) == 0;
    for (uint32_t i = 0; i < s->seen_count && !is_known; i++) {
        is_known = memcmp(c->parts, s->seen[i].parts, sizeof c->parts) == 0;
    }
    return is_known;
}

// Times a candidate unless that has been done, and keeps it when it is better.
static ps_status consider(search *s, candidate c)
{
    double ratios[PS_RATIO_COUNT];
    ps_ratio_timing timing;
    if (is_known(s, &c)) {
        return PS_OK;
    }
    if (s->seen_count == CANDIDATES_MAX || s->timer->is_over(s->timer->context)) {
        s->is_cut = true;
        return PS_OK;
    }
    to_ratios(&c, ratios);
    PS_TRY(s->timer->time(s->timer->context, ratios, false, &timing));
    c.gain = timing.gain;
    s->seen[s->seen_count++] = c;
    if (c.gain > s->best.gain) {
        s->best = c;
    }
    return PS_OK;
}

static ps_status consider_parts(search *s, candidate from, uint32_t site, int parts)
{
    if (parts < 0 || parts > (int)PS_RATIO_PARTS) {
        return PS_OK;
    }
    from.parts[site] = (uint8_t)parts;
    return consider(s, from);
}

// Of a curve with one maximum the grids find it.
static ps_status climb(search *s, uint32_t site)
{
    const candidate from = s->best;
    for (uint32_t parts = 0; parts <= PS_RATIO_PARTS; parts += COARSE) {
        PS_TRY(consider_parts(s, from, site, (int)parts));
    }
    for (int step = COARSE / 2; step > 0; step /= 2) {
        const candidate centre = s->best;
        PS_TRY(consider_parts(s, centre, site, centre.parts[site] - step));
        PS_TRY(consider_parts(s, centre, site, centre.parts[site] + step));
    }
    return PS_OK;
}

static ps_status descend(search *s, const ps_ratio_start *start)
{
    candidate guess = {.gain = 0};
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        guess.parts[i] = start->has_site[i] ? (uint8_t)lround(start->guess[i] * PS_RATIO_PARTS) : 0;
    }
    PS_TRY(consider(s, guess));
    double gain = -1; // of the round before
    for (uint32_t round = 0; round < ROUNDS_MAX && s->best.gain > gain && !s->is_cut; round++) {
        gain = s->best.gain;
        for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
            PS_TRY(start->has_site[i] ? climb(s, i) : PS_OK);
        }
    }
    return PS_OK;
}

ps_status ps_ratio_search(const ps_ratio_timer *timer, const ps_ratio_start *start,
                          ps_ratio_found *out)
{
    search s = {.timer = timer};
    ps_ratio_found found = {.is_gain = false};
    PS_TRY(descend(&s, start));
    found.is_cut = s.is_cut;
    found.timed = s.seen_count;
    if (s.best.gain > 0) {
        double ratios[PS_RATIO_COUNT];
        to_ratios(&s.best, ratios);
        PS_TRY(timer->time(timer->context, ratios, true, &found.timing));
        found.is_gain = found.timing.gain > found.timing.noise && found.timing.gain > GAIN_LEAST;
        if (found.is_gain) {
            memcpy(found.ratio, ratios, sizeof ratios);
        }
    }
    *out = found;
    return PS_OK;
}
