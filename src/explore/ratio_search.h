// explore/ratio_search.h - how much of which weight to prefetch, found by timing steps.
//
// Ratios are multiples of 1/16. A search starts from a guess and from off, and goes from site to
// site, which share one cache, until none finds better: a coarse grid with 0 in it, then two finer
// ones around the best. What it finds is timed once more, because the best of many noisy numbers
// looks better than it is, and is answered only when that gain is beyond the noise. Pure: who times
// and how long is the caller's.
#ifndef PS_EXPLORE_RATIO_SEARCH_H
#define PS_EXPLORE_RATIO_SEARCH_H

#include "base/status.h"

#include <prestage/prestage.h>

#define PS_RATIO_PARTS 16u

// Steps with certain ratios beside steps of off.
typedef struct ps_ratio_timing {
    double off_ns, ns; // of a step, medians
    double gain;       // part of off's time that is saved; negative: lost
    double noise;      // the same of off beside off: 9 of 10 pairs differ by less; >= 0
} ps_ratio_timing;

typedef struct ps_ratio_timer {
    void *context;
    // Times the ratios [PS_RATIO_COUNT]; more thoroughly where it is final.
    ps_status (*time)(void *context, const double *ratios, bool is_final, ps_ratio_timing *out);
    bool (*is_over)(void *context); // no candidate is begun any more
} ps_ratio_timer;

typedef struct ps_ratio_start {
    bool has_site[PS_RATIO_COUNT]; // the others stay 0
    double guess[PS_RATIO_COUNT];  // 0..1
} ps_ratio_start;

typedef struct ps_ratio_found {
    double ratio[PS_RATIO_COUNT]; // all 0: nothing gains beyond the noise
    bool is_gain;
    bool is_cut;            // is_over ended it
    uint32_t timed;         // candidates
    ps_ratio_timing timing; // the final one of the best candidate; zeros: none was better than off
} ps_ratio_found;

// Fails as timer->time does.
PS_MUST_USE ps_status ps_ratio_search(const ps_ratio_timer *timer, const ps_ratio_start *start,
                                      ps_ratio_found *out);

#endif
