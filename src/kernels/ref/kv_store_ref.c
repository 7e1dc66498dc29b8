// kernels/ref/kv_store_ref.c - one token into a KV block. Contract: kernels/kernels.h.
#include "kernels/exp.h"
#include "kernels/tables.h"

#define INFINITY_BITS 0x7f800000u // and above: infinity, NaN
#define HALF_NAN 0x7e00u

// Round to nearest even; infinity from 65520 on; a NaN becomes quiet and keeps its upper payload.
static uint16_t half_of_float(float x)
{
    const uint32_t bits = ps_f32_bits(x);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x03ffu));
    }
    if (magnitude >= 0x477ff000u) {
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) {
        // Below 2^-14. Adding 0.5 leaves steps of 2^-24, which is what a denormal f16 counts.
        const float shifted = ps_f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (ps_f32_bits(shifted) - ps_f32_bits(0.5f)));
    }
    const uint32_t rounded = magnitude + 0x0fffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
}

void ps_kv_store_k_f16_ref(void *part, const float *x, uint32_t head_dim, uint32_t slot)
{
    uint16_t *keys = (uint16_t *)part + slot;
    for (uint32_t d = 0; d < head_dim; d++) {
        keys[(size_t)d * PS_KV_BLOCK_TOKENS] = half_of_float(x[d]);
    }
}

void ps_kv_store_v_f16_ref(void *part, const float *x, uint32_t head_dim, uint32_t slot)
{
    uint16_t *values = (uint16_t *)part + (size_t)slot * head_dim;
    for (uint32_t d = 0; d < head_dim; d++) {
        values[d] = half_of_float(x[d]);
    }
}

// The scale of 32 values, an f16.
static uint16_t scale_of(const float *x)
{
    uint32_t amax_bits = 0;
    for (uint32_t i = 0; i < PS_BLOCK_COLUMNS; i++) {
        const uint32_t bits = ps_f32_bits(x[i]) & 0x7fffffffu;
        amax_bits = bits > amax_bits ? bits : amax_bits;
    }
    return amax_bits >= INFINITY_BITS ? HALF_NAN
                                      : half_of_float(ps_f32_from_bits(amax_bits) / 127.0f);
}

// Of values that are finite where d is; d >= 0.
static int8_t quant_of(float x, float d)
{
    if (!(d > 0.0f && d < __builtin_inff())) {
        return 0;
    }
    const int32_t q = (int32_t)((x * (1.0f / d) + PS_ROUND_MAGIC) - PS_ROUND_MAGIC);
    return (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
}

void ps_kv_store_k_q8_0_ref(void *part, const float *x, uint32_t head_dim, uint32_t slot)
{
    char *group = part;
    for (uint32_t first = 0; first < head_dim; first += PS_BLOCK_COLUMNS) {
        const uint16_t scale = scale_of(x + first);
        memcpy(group + slot * sizeof scale, &scale, sizeof scale);
        int8_t *q = (int8_t *)group + PS_KV_BLOCK_TOKENS * sizeof scale + slot;
        for (uint32_t i = 0; i < PS_BLOCK_COLUMNS; i++) {
            q[i * PS_KV_BLOCK_TOKENS] = quant_of(x[first + i], ps_f16_to_f32(scale));
        }
        group += PS_KV_K_GROUP_BYTES;
    }
}

void ps_kv_store_v_q8_0_ref(void *part, const float *x, uint32_t head_dim, uint32_t slot)
{
    const uint32_t groups = head_dim / PS_BLOCK_COLUMNS;
    uint16_t *scales = part;
    int8_t *q = (int8_t *)(scales + (size_t)PS_KV_BLOCK_TOKENS * groups) + (size_t)slot * head_dim;
    for (uint32_t g = 0; g < groups; g++) {
        scales[slot * groups + g] = scale_of(x + (size_t)g * PS_BLOCK_COLUMNS);
    }
    for (uint32_t d = 0; d < head_dim; d++) {
        q[d] = quant_of(x[d], ps_f16_to_f32(scales[slot * groups + d / PS_BLOCK_COLUMNS]));
    }
}
