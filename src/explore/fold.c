// explore/fold.c - a period in the middle, several times.
#include "explore/fold.h"

// Periods that are played: what the first leaves in L2 has gone after the second, and the last is
// not the one that is added.
#define PERIODS 4u

ps_fold ps_fold_of(uint32_t layers, uint32_t period)
{
    ps_assert(period > 0);
    const uint32_t kept = PERIODS * period + layers % period;
    if (layers <= kept) {
        return (ps_fold){.layers = layers, .period = period};
    }
    return (ps_fold){
        .layers = kept, .first = 2 * period, .period = period, .times = (layers - kept) / period};
}

ps_play ps_fold_sums(const ps_fold *fold, const ps_played *played)
{
    ps_play all = played->sums;
    if (fold->times == 0) {
        return all;
    }
    ps_assert(played->layer_count >= fold->first + fold->period);
    double *sums = (double *)&all;
    const double *begin = (const double *)&played->layer_begin[fold->first];
    const double *end = (const double *)&played->layer_begin[fold->first + fold->period];
    for (size_t i = 0; i < PS_PLAY_SUMS; i++) {
        sums[i] += fold->times * (end[i] - begin[i]);
    }
    return all;
}
