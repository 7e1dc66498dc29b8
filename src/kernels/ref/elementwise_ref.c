// kernels/ref/elementwise_ref.c - operators without sums. Contracts: kernels/kernels.h.
#include "kernels/exp.h"
#include "kernels/tables.h"

#include <math.h>

void ps_add_ref(float *y, const float *a, const float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] = a[i] + b[i];
    }
}

void ps_scale_ref(float *y, const float *x, float factor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] = x[i] * factor;
    }
}

void ps_silu_mul_ref(float *y, const float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] = gate[i] / (1.0f + ps_exp(-gate[i])) * up[i];
    }
}

void ps_gelu_mul_ref(float *y, const float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const float g = gate[i];
        const float z = 0.7978845608f * (g * fmaf(0.044715f * g, g, 1.0f));
        const float sigmoid = 1.0f / (1.0f + ps_exp(-2.0f * z));
        y[i] = g * sigmoid * up[i];
    }
}

void ps_softcap_ref(float *y, const float *x, float cap, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] = cap * ps_tanh(x[i] / cap);
    }
}
