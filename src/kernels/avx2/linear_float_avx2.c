// kernels/avx2/linear_float_avx2.c - F32, F16 and BF16 weights. Contract: kernels/kernels.h.
//
// The order allows one fma chain an output, so only more outputs hide its latency of four cycles:
// two registers a group and token, eight chains in flight, from four groups for one token down to
// one group for four tokens.
#include "kernels/tables.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define CHAINS 8
#define TILE_MAX (CHAINS / 2) // groups, and tokens

// Of each group's stream. Longer distances disturb the hardware's own: on a Zen 4 core 512, 1,024
// and 2,048 bytes reach 97, 85, 79 % of the read bandwidth with F16.
#define AHEAD_BYTES 512

// Eight weights.
typedef __m256 load_fn(const uint8_t *from);

INLINE __m256 load_f32(const uint8_t *from)
{
    return _mm256_loadu_ps((const float *)(const void *)from);
}

INLINE __m256 load_f16(const uint8_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

INLINE __m256 load_bf16(const uint8_t *from)
{
    const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

// `groups` groups for `tokens` tokens, both constants, groups * tokens <= TILE_MAX.
INLINE void linear_tile(load_fn *load, size_t weight_bytes, int groups, int tokens, float *const *y,
                        size_t first_output, const uint8_t *w, uint32_t inputs,
                        const void *const *x)
{
    const size_t column_bytes = PS_GROUP_ROWS * weight_bytes;
    const size_t group_bytes = inputs * column_bytes;
    __m256 acc[TILE_MAX][TILE_MAX][2];
    const float *in[TILE_MAX];
    UNROLL
    for (int t = 0; t < tokens; t++) {
        in[t] = x[t];
        UNROLL
        for (int g = 0; g < groups; g++) {
            acc[g][t][0] = acc[g][t][1] = _mm256_setzero_ps();
        }
    }
    for (uint32_t i = 0; i < inputs; i++) {
        UNROLL
        for (int g = 0; g < groups; g++) {
            const uint8_t *const column = w + (size_t)g * group_bytes + i * column_bytes;
            _mm_prefetch((const char *)((uintptr_t)column + AHEAD_BYTES), _MM_HINT_T0);
            const __m256 low = load(column);
            const __m256 high = load(column + column_bytes / 2);
            UNROLL
            for (int t = 0; t < tokens; t++) {
                const __m256 value = _mm256_broadcast_ss(in[t] + i);
                acc[g][t][0] = _mm256_fmadd_ps(low, value, acc[g][t][0]);
                acc[g][t][1] = _mm256_fmadd_ps(high, value, acc[g][t][1]);
            }
        }
    }
    UNROLL
    for (int t = 0; t < tokens; t++) {
        UNROLL
        for (int g = 0; g < groups; g++) {
            float *const out = y[t] + first_output + (size_t)g * PS_GROUP_ROWS;
            _mm256_storeu_ps(out, acc[g][t][0]);
            _mm256_storeu_ps(out + 8, acc[g][t][1]);
        }
    }
}

// One group for any number of tokens.
INLINE void linear_group(load_fn *load, size_t weight_bytes, float *const *y, size_t first_output,
                         const uint8_t *w, uint32_t inputs, const void *const *x, uint32_t tokens)
{
    for (; tokens >= 4; tokens -= 4, y += 4, x += 4) {
        linear_tile(load, weight_bytes, 1, 4, y, first_output, w, inputs, x);
    }
    if (tokens == 3) {
        linear_tile(load, weight_bytes, 1, 3, y, first_output, w, inputs, x);
    } else if (tokens == 2) {
        linear_tile(load, weight_bytes, 1, 2, y, first_output, w, inputs, x);
    } else if (tokens == 1) {
        linear_tile(load, weight_bytes, 1, 1, y, first_output, w, inputs, x);
    }
}

INLINE void linear_float(load_fn *load, size_t weight_bytes, const ps_linear *args)
{
    const uint32_t inputs = args->inputs;
    const size_t group_bytes = (size_t)inputs * PS_GROUP_ROWS * weight_bytes;
    const uint8_t *group = args->w;
    size_t g = 0;
    if (args->tokens == 1) {
        for (; args->group_count - g >= 4; g += 4, group += 4 * group_bytes) {
            linear_tile(load, weight_bytes, 4, 1, args->y, g * PS_GROUP_ROWS, group, inputs,
                        args->x);
        }
    } else if (args->tokens == 2) {
        for (; args->group_count - g >= 2; g += 2, group += 2 * group_bytes) {
            linear_tile(load, weight_bytes, 2, 2, args->y, g * PS_GROUP_ROWS, group, inputs,
                        args->x);
        }
    }
    for (; g < args->group_count; g++, group += group_bytes) {
        linear_group(load, weight_bytes, args->y, g * PS_GROUP_ROWS, group, inputs, args->x,
                     args->tokens);
    }
}

void ps_linear_f32_avx2(const ps_linear *args)
{
    linear_float(load_f32, sizeof(float), args);
}

void ps_linear_f16_avx2(const ps_linear *args)
{
    linear_float(load_f16, sizeof(uint16_t), args);
}

void ps_linear_bf16_avx2(const ps_linear *args)
{
    linear_float(load_bf16, sizeof(uint16_t), args);
}
