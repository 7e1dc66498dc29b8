// kernels/exp.h - exp and tanh of f32, the same bits on every ISA.
//
// This is the scalar form; exp.inc does the same operations in the same order on vectors. Only fma,
// +, -, *, / and integer arithmetic take part, each of which IEEE 754 defines to the bit, so no
// libm can change a result.
//
// ps_exp   within 1 ulp of the true value on [PS_EXP_LOWEST, PS_EXP_HIGHEST]. Below, and for
//          -infinity, 0: results that would be denormal are flushed, since nobody needs them and
//          some CPUs take a hundred cycles for each. Above, and for infinity, infinity. NaN gives
//          NaN.
// ps_tanh  within 2 ulp; odd, -0 for -0, +-1 for large |x|, NaN for NaN.
//
// Method of exp: x = n ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n exp(r). ln 2 is split so that
// n * PS_LN2_HIGH is exact. exp(r) = 1 + r + r^2 P(r), P of degree 4 by the Remez exchange,
// relative error 2^-28. tanh is a polynomial below PS_TANH_SMALL, where 1 - 2 / (exp(2x) + 1) would
// cancel.
#ifndef PS_KERNELS_EXP_H
#define PS_KERNELS_EXP_H

#include "kernels/half.h"

#define PS_EXP_HIGHEST 0x1.62e42ep+6f // the largest x whose exp is finite in f32
#define PS_EXP_LOWEST -0x1.5d589ep+6f // the smallest x whose exp is a normal number
#define PS_LOG2E 0x1.715476p+0f
#define PS_LN2_HIGH 0x1.62e4p-1f
#define PS_LN2_LOW 0x1.7f7d1cp-20f
#define PS_ROUND_MAGIC 0x1.8p+23f // adding it rounds to an integer, kept in the low mantissa bits
#define PS_EXP_C2 0x1.fffffb9a7fa73p-2f
#define PS_EXP_C3 0x1.55549158dca9bp-3f
#define PS_EXP_C4 0x1.5558f167a737bp-5f
#define PS_EXP_C5 0x1.1239df0ba0f95p-7f
#define PS_EXP_C6 0x1.6a243999361eap-10f

#define PS_TANH_SMALL 0.625f
#define PS_TANH_C1 -0.3333332894413425f
#define PS_TANH_C2 0.13332769736976433f
#define PS_TANH_C3 -0.053850909578519776f
#define PS_TANH_C4 0.020997178999078322f
#define PS_TANH_C5 -0.006096714165893451f

static inline float ps_exp(float x)
{
    if (x < PS_EXP_LOWEST) {
        return 0.0f;
    }
    if (!(x <= PS_EXP_HIGHEST)) {
        return x + __builtin_inff(); // infinity, or the NaN
    }
    const float shifted = __builtin_fmaf(x, PS_LOG2E, PS_ROUND_MAGIC);
    const float n = shifted - PS_ROUND_MAGIC;
    float r = __builtin_fmaf(n, -PS_LN2_HIGH, x);
    r = __builtin_fmaf(n, -PS_LN2_LOW, r);
    float p = __builtin_fmaf(PS_EXP_C6, r, PS_EXP_C5);
    p = __builtin_fmaf(p, r, PS_EXP_C4);
    p = __builtin_fmaf(p, r, PS_EXP_C3);
    p = __builtin_fmaf(p, r, PS_EXP_C2);
    p = __builtin_fmaf(p, r, 1.0f);
    p = __builtin_fmaf(p, r, 1.0f);
    // Within the bounds above p * 2^n is a normal number, so n can be added to the exponent. The
    // magic's own bits are shifted out.
    return ps_f32_from_bits(ps_f32_bits(p) + (ps_f32_bits(shifted) << 23));
}

static inline float ps_tanh(float x)
{
    const float a = ps_f32_from_bits(ps_f32_bits(x) & 0x7fffffffu);
    float y;
    if (a < PS_TANH_SMALL) {
        const float u = a * a;
        float p = __builtin_fmaf(PS_TANH_C5, u, PS_TANH_C4);
        p = __builtin_fmaf(p, u, PS_TANH_C3);
        p = __builtin_fmaf(p, u, PS_TANH_C2);
        p = __builtin_fmaf(p, u, PS_TANH_C1);
        y = __builtin_fmaf(p * u, a, a);
    } else {
        y = 1.0f - 2.0f / (ps_exp(a + a) + 1.0f);
    }
    return ps_f32_from_bits(ps_f32_bits(y) | (ps_f32_bits(x) & 0x80000000u));
}

#endif
