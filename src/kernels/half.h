// kernels/half.h - f16 and bf16 to f32 in plain C, exact, as the conversion instructions do it.
#ifndef PS_KERNELS_HALF_H
#define PS_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ps_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t ps_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float ps_f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    if (magnitude >= 0x0f800000u) { // infinite or NaN
        return ps_f32_from_bits(sign | 0x70000000u | magnitude);
    }
    // The exponent bias differs by 112. A product is exact and normalises subnormal halves.
    return ps_f32_from_bits(sign | ps_f32_bits(ps_f32_from_bits(magnitude) * 0x1p112f));
}

static inline float ps_bf16_to_f32(uint16_t half)
{
    return ps_f32_from_bits((uint32_t)half << 16);
}

// For rows whose address need not be aligned.
static inline uint16_t ps_load_u16(const void *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline uint32_t ps_load_u32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

#endif
