// kernels/ref/add_scaled_ref.c - adds a multiple of a row. Contract: kernels/kernels.h.
#include "kernels/tables.h"

#include <math.h>

void ps_add_scaled_ref(float *y, const float *x, float factor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] = fmaf(x[i], factor, y[i]);
    }
}
