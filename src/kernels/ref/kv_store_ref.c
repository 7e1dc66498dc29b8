// kernels/ref/kv_store_ref.c - one token into a KV block. Contract: kernels/kernels.h.
#include "kernels/half.h"
#include "kernels/tables.h"

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

void ps_kv_store_ref(void *block, const float *k, const float *v, uint32_t head_dim, uint32_t slot)
{
    uint16_t *keys = (uint16_t *)block + slot;
    uint16_t *values = (uint16_t *)block + (size_t)(PS_KV_BLOCK_TOKENS + slot) * head_dim;
    for (uint32_t d = 0; k != NULL && d < head_dim; d++) {
        keys[(size_t)d * PS_KV_BLOCK_TOKENS] = half_of_float(k[d]);
    }
    for (uint32_t d = 0; v != NULL && d < head_dim; d++) {
        values[d] = half_of_float(v[d]);
    }
}
