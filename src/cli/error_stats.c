// cli/error_stats.c - medians without signs.
#include "cli/error_stats.h"

#include "base/quantile.h"
#include "base/status.h"

#include <math.h>

double ps_prediction_error(double predicted, double measured)
{
    ps_assert(measured > 0);
    return predicted / measured - 1;
}

ps_error_stats ps_error_stats_of(double *errors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        errors[i] = fabs(errors[i]);
    }
    const double median = ps_median(errors, count); // sorts
    return (ps_error_stats){.median = median, .worst = errors[count - 1]};
}
