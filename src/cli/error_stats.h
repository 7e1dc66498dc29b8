// cli/error_stats.h - how far predictions are from what was measured.
#ifndef PS_CLI_ERROR_STATS_H
#define PS_CLI_ERROR_STATS_H

#include <stdint.h>

// Parts of what was measured: 0.1 is 10 %.
typedef struct ps_error_stats {
    double median, worst; // without signs
} ps_error_stats;

// What a prediction is above (+) or below (-) what was measured, which is more than 0.
double ps_prediction_error(double predicted, double measured);

// Of errors [count >= 1], which lose their signs and their order.
ps_error_stats ps_error_stats_of(double *errors, uint32_t count);

#endif
