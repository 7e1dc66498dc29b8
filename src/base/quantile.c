// base/quantile.c - sorts and looks.
#include "base/quantile.h"

#include "base/status.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

static void sort(double *values, uint32_t count)
{
    ps_assert(count > 0);
    qsort(values, count, sizeof values[0], by_value);
}

double ps_quantile(double *values, uint32_t count, double part)
{
    ps_assert(part >= 0 && part <= 1);
    sort(values, count);
    return values[lround(part * (count - 1))];
}

double ps_median(double *values, uint32_t count)
{
    sort(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}
