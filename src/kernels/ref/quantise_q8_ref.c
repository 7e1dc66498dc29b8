// kernels/ref/quantise_q8_ref.c - activation rows to int8 per 32 columns. Contract: kernels.h.
#include "kernels/exp.h"
#include "kernels/tables.h"

#define TINY_BITS 0x0d800000u     // 2^-100
#define INFINITY_BITS 0x7f800000u // and above: infinity, NaN

typedef struct block_out {
    int8_t *q;
    float *d;
    float *ds;
    int16_t *sum;
} block_out;

static void fill_block(const block_out *out, float d)
{
    memset(out->q, 0, PS_BLOCK_COLUMNS);
    *out->d = d;
    *out->ds = d;
    out->sum[0] = 0;
    out->sum[1] = 0;
}

static void quantise_block(const block_out *out, const float *x)
{
    uint32_t amax_bits = 0;
    for (uint32_t i = 0; i < PS_BLOCK_COLUMNS; i++) {
        const uint32_t bits = ps_f32_bits(x[i]) & 0x7fffffffu;
        amax_bits = bits > amax_bits ? bits : amax_bits;
    }
    if (amax_bits >= INFINITY_BITS) {
        fill_block(out, __builtin_nanf(""));
        return;
    }
    if (amax_bits < TINY_BITS) {
        fill_block(out, 0.0f);
        return;
    }
    const float amax = ps_f32_from_bits(amax_bits);
    const float inverse = 127.0f / amax;
    for (uint32_t h = 0; h < 2; h++) {
        int32_t sum = 0;
        for (uint32_t i = h * 16; i < h * 16 + 16; i++) {
            const int32_t q = (int32_t)((x[i] * inverse + PS_ROUND_MAGIC) - PS_ROUND_MAGIC);
            out->q[i] = (int8_t)q;
            sum += q;
        }
        out->sum[h] = (int16_t)sum;
    }
    *out->d = amax / 127.0f;
    *out->ds = *out->d * (float)(out->sum[0] + out->sum[1]);
}

void ps_quantise_q8_ref(void *q8_row, const float *x, uint32_t n)
{
    const uint32_t blocks = n / PS_BLOCK_COLUMNS;
    int8_t *q = q8_row;
    float *d = (float *)(void *)(q + n);
    int16_t *sums = (int16_t *)(void *)(d + 2 * (size_t)blocks);
    for (uint32_t b = 0; b < blocks; b++) {
        const size_t at = (size_t)b * PS_BLOCK_COLUMNS;
        const block_out out = {q + at, d + b, d + blocks + b, sums + 2 * (size_t)b};
        quantise_block(&out, x + at);
    }
}
