// experts/trial.c - medians of two ways.
#include "experts/trial.h"

#include <stdlib.h>
#include <string.h>

void ps_trial_init(ps_trial *trial)
{
    *trial = (ps_trial){.is_on = true};
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t *times, uint32_t count)
{
    qsort(times, count, sizeof *times, compare);
    return times[count / 2];
}

void ps_trial_step(ps_trial *trial, uint64_t ns)
{
    const uint32_t step = trial->step;
    if (step < PS_TRIAL_STEPS && step % PS_TRIAL_BLOCK > 0) {
        trial->times[trial->is_on][trial->counts[trial->is_on]++] = ns;
    }
    trial->step = (step + 1) % PS_TRIAL_PERIOD;
    if (trial->step == PS_TRIAL_STEPS) {
        trial->saved_ns = (double)median(trial->times[0], trial->counts[0]) -
                          (double)median(trial->times[1], trial->counts[1]);
        trial->is_on = trial->saved_ns > 0;
        memset(trial->counts, 0, sizeof trial->counts);
    } else if (trial->step < PS_TRIAL_STEPS && trial->step % PS_TRIAL_BLOCK == 0) {
        trial->is_on = trial->step / PS_TRIAL_BLOCK % 2 == 0;
    }
}
