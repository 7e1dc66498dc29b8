// kernels/ref/rms_norm_ref.c - RMS norm of one row. Contract: kernels/kernels.h.
#include "kernels/ref/lanes_ref.h"
#include "kernels/tables.h"

#include <math.h>

void ps_rms_norm_ref(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    float lanes[PS_SUM_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        lanes[i % PS_SUM_LANES] = fmaf(x[i], x[i], lanes[i % PS_SUM_LANES]);
    }
    const float scale = 1.0f / sqrtf(ps_fold_lanes_ref(lanes) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) {
        y[i] = (x[i] * scale) * w[i];
    }
}
