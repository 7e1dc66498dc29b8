// base/quantile.h - what part of some numbers lies below.
#ifndef PS_BASE_QUANTILE_H
#define PS_BASE_QUANTILE_H

#include <stdint.h>

// The value that `part` (0 to 1) of values [count >= 1] lie below: the nearest of them. Sorts.
double ps_quantile(double *values, uint32_t count, double part);

// The one in the middle, or the mean of the two there. Sorts.
double ps_median(double *values, uint32_t count);

#endif
