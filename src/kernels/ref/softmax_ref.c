// kernels/ref/softmax_ref.c - softmax of one row. Contract: kernels/kernels.h.
#include "kernels/exp.h"
#include "kernels/ref/lanes_ref.h"
#include "kernels/tables.h"

void ps_softmax_ref(float *p, const float *x, uint32_t n)
{
    float max = -__builtin_inff();
    for (uint32_t i = 0; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    float lanes[PS_SUM_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        p[i] = ps_exp(x[i] - max);
        lanes[i % PS_SUM_LANES] += p[i];
    }
    const float inverse = 1.0f / ps_fold_lanes_ref(lanes);
    for (uint32_t i = 0; i < n; i++) {
        p[i] *= inverse;
    }
}
