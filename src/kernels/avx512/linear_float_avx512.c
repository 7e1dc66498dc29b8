// kernels/avx512/linear_float_avx512.c - F32, F16 and BF16 weights. Contract: kernels/kernels.h.
//
// A register holds a group. The order allows one fma chain an output, so only more outputs hide its
// latency of four cycles: four groups for one, two and four tokens are 4, 8 and 16 chains.
#include "kernels/tables.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define TILE_GROUPS 4
#define TILE_TOKENS 4

// Of each group's stream. Longer distances disturb the hardware's own: on a Zen 4 core 512, 1,024
// and 2,048 bytes reach 97, 85, 79 % of the read bandwidth with F16.
#define AHEAD_BYTES 512

// Sixteen weights.
typedef __m512 load_fn(const uint8_t *from);

INLINE __m512 load_f32(const uint8_t *from)
{
    return _mm512_loadu_ps(from);
}

INLINE __m512 load_f16(const uint8_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

INLINE __m512 load_bf16(const uint8_t *from)
{
    const __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// `groups` groups for `tokens` tokens; both are constants.
INLINE void linear_tile(load_fn *load, size_t weight_bytes, int groups, int tokens, float *const *y,
                        size_t first_output, const uint8_t *w, uint32_t inputs,
                        const void *const *x)
{
    const size_t column_bytes = PS_GROUP_ROWS * weight_bytes;
    const size_t group_bytes = inputs * column_bytes;
    __m512 acc[TILE_GROUPS][TILE_TOKENS];
    const float *in[TILE_TOKENS];
    UNROLL
    for (int t = 0; t < tokens; t++) {
        in[t] = x[t];
        UNROLL
        for (int g = 0; g < groups; g++) {
            acc[g][t] = _mm512_setzero_ps();
        }
    }
    for (uint32_t i = 0; i < inputs; i++) {
        UNROLL
        for (int g = 0; g < groups; g++) {
            const uint8_t *const column = w + (size_t)g * group_bytes + i * column_bytes;
            _mm_prefetch((const char *)((uintptr_t)column + AHEAD_BYTES), _MM_HINT_T0);
            const __m512 weights = load(column);
            UNROLL
            for (int t = 0; t < tokens; t++) {
                acc[g][t] = _mm512_fmadd_ps(weights, _mm512_set1_ps(in[t][i]), acc[g][t]);
            }
        }
    }
    UNROLL
    for (int t = 0; t < tokens; t++) {
        UNROLL
        for (int g = 0; g < groups; g++) {
            _mm512_storeu_ps(y[t] + first_output + (size_t)g * PS_GROUP_ROWS, acc[g][t]);
        }
    }
}

// `groups` groups, a constant, for any number of tokens.
INLINE void linear_groups(load_fn *load, size_t weight_bytes, int groups, float *const *y,
                          size_t first_output, const uint8_t *w, uint32_t inputs,
                          const void *const *x, uint32_t tokens)
{
    for (; tokens >= 4; tokens -= 4, y += 4, x += 4) {
        linear_tile(load, weight_bytes, groups, 4, y, first_output, w, inputs, x);
    }
    for (; tokens >= 2; tokens -= 2, y += 2, x += 2) {
        linear_tile(load, weight_bytes, groups, 2, y, first_output, w, inputs, x);
    }
    if (tokens > 0) {
        linear_tile(load, weight_bytes, groups, 1, y, first_output, w, inputs, x);
    }
}

INLINE void linear_float(load_fn *load, size_t weight_bytes, const ps_linear *args)
{
    const size_t group_bytes = (size_t)args->inputs * PS_GROUP_ROWS * weight_bytes;
    const uint8_t *group = args->w;
    size_t g = 0;
    for (; args->group_count - g >= TILE_GROUPS;
         g += TILE_GROUPS, group += TILE_GROUPS * group_bytes) {
        linear_groups(load, weight_bytes, TILE_GROUPS, args->y, g * PS_GROUP_ROWS, group,
                      args->inputs, args->x, args->tokens);
    }
    for (; g < args->group_count; g++, group += group_bytes) {
        linear_groups(load, weight_bytes, 1, args->y, g * PS_GROUP_ROWS, group, args->inputs,
                      args->x, args->tokens);
    }
}

void ps_linear_f32_avx512(const ps_linear *args)
{
    linear_float(load_f32, sizeof(float), args);
}

void ps_linear_f16_avx512(const ps_linear *args)
{
    linear_float(load_f16, sizeof(uint16_t), args);
}

void ps_linear_bf16_avx512(const ps_linear *args)
{
    linear_float(load_bf16, sizeof(uint16_t), args);
}
