// kernels/avx2/linear_quant_avx2.h - the skeleton of the quantised linears on AVX2 without VNNI.
// Contract: kernels/kernels.h; layout: base/layout.h.
//
// A register holds half a group: lane r is row r, or 8 + r, and its four bytes are four columns.
// One 32-bit broadcast of the activations meets them, so a dot product of a block ends as eight
// int32, one a row, without any sum across lanes.
//
// Products come from maddubs, u8 weights times s8 activations in -127..127, added pairwise in i16:
// a pair of 4-, 5- or 6-bit weights is at most 3,810, 7,874 or 16,002 in size, so that 8, 4 or 2
// pairs fit an i16 before they must be widened. All of that is exact; only its order is free.
//
// A type is a `quant_type` that linear_quant() is instantiated with; every call is inlined.
#ifndef PS_KERNELS_LINEAR_QUANT_AVX2_H
#define PS_KERNELS_LINEAR_QUANT_AVX2_H

#include "kernels/tables.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

// Tokens of an activation tile that share one unpacked block: what sixteen registers bear.
#define TILE_TOKENS 4
#define UNIT_BLOCKS_MAX 8

// Bytes from what is in hand to what is asked for. Groups lie one after the other, so the hints run
// on into the next.
#define NEAR_BYTES 4096
#define FAR_BYTES 8192
// Tokens from which the `heavy` hint holds.
#define HEAVY_TOKENS 3

// The scales of one unit as floats, by block and row. m is what multiplies ds.
typedef struct unit_scales {
    float d[UNIT_BLOCKS_MAX][PS_GROUP_ROWS];
    float m[UNIT_BLOCKS_MAX][PS_GROUP_ROWS];
} unit_scales;

// One block of up to TILE_TOKENS activation rows.
typedef struct block_inputs {
    const int8_t *q[TILE_TOKENS];
    const int16_t *sum[TILE_TOKENS];
    const float *d[TILE_TOKENS];
    const float *ds[TILE_TOKENS];
} block_inputs;

typedef void open_unit_fn(unit_scales *unit, const uint8_t *scales);

// dot[t][half] = the exact integer dot products of a block, the scales of sub-blocks included.
// `scales` is the unit's scales, moved on by 32 bytes a block.
typedef void block_dots_fn(__m256i dot[][2], const uint8_t *weights, const uint8_t *scales,
                           const block_inputs *x, int tokens);

typedef struct quant_type {
    uint32_t block_bytes;
    uint32_t unit_blocks;
    uint32_t scale_bytes; // of a unit
    bool has_min;
    open_unit_fn *open_unit;
    block_dots_fn *dots;
} quant_type;

INLINE __m256i load_bytes(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

// Four activations, the same for every row.
INLINE __m256i four_columns(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

// The two sums of sixteen activations of a block, the same for every row.
INLINE __m256i both_sums(const int16_t *sum)
{
    int32_t both;
    memcpy(&both, sum, sizeof both);
    return _mm256_set1_epi32(both);
}

INLINE __m256i widen(__m256i pairs)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// Keeps a sum where it stands: compilers else regroup the additions and spill their many operands.
INLINE void pin(__m256i *sum)
{
    __asm__("" : "+x"(*sum));
}

// pairs += the pairwise products of eight rows with four columns. No saturation: see above.
INLINE void add_pairs(__m256i *pairs, __m256i weights, __m256i columns)
{
    *pairs = _mm256_add_epi16(*pairs, _mm256_maddubs_epi16(weights, columns));
    pin(pairs);
}

INLINE void set_zero(__m256i sums[][2], int tokens)
{
    UNROLL
    for (int t = 0; t < tokens; t++) {
        sums[t][0] = sums[t][1] = _mm256_setzero_si256();
    }
}

// dot -= zero_point * (sum of the block's activations), for weights that are stored with an offset.
INLINE void subtract_zero_point(__m256i dot[][2], int zero_point, const block_inputs *x, int tokens)
{
    const __m256i minus = _mm256_set1_epi16((int16_t)-zero_point);
    UNROLL
    for (int t = 0; t < tokens; t++) {
        const __m256i correction = _mm256_madd_epi16(both_sums(x->sum[t]), minus);
        dot[t][0] = _mm256_add_epi32(dot[t][0], correction);
        dot[t][1] = _mm256_add_epi32(dot[t][1], correction);
    }
}

// out[h] = bits 0-3 of columns 16h + 4g, four of them, of the eight rows that `weights` starts at.
INLINE void unpack_nibbles(__m256i out[2], const uint8_t *weights, int g)
{
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i both = load_bytes(weights + 64 * g);
    out[0] = _mm256_and_si256(both, mask);
    out[1] = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
}

// Moves bit `from` of each byte to bit `to` and keeps only the bits of `mask`, which holds bit `to`
// and others of that field. Bits that 16-bit shifts carry over from the next byte miss the mask.
INLINE __m256i move_bits(__m256i bytes, int from, int to, int mask)
{
    const __m256i moved = from < to ? _mm256_slli_epi16(bytes, to - from)
                                    : _mm256_srli_epi16(bytes, from - to);
    return _mm256_and_si256(moved, _mm256_set1_epi8((char)mask));
}

INLINE void open_d(unit_scales *unit, const uint8_t *scales)
{
    UNROLL
    for (int row = 0; row < PS_GROUP_ROWS; row += 8) {
        const __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(scales + 2 * row));
        _mm256_storeu_ps(&unit->d[0][row], _mm256_cvtph_ps(d));
    }
}

INLINE void open_d_m(unit_scales *unit, const uint8_t *scales)
{
    open_d(unit, scales);
    UNROLL
    for (int row = 0; row < PS_GROUP_ROWS; row += 8) {
        const __m128i m = _mm_loadu_si128((const __m128i *)(const void *)(scales + 32 + 2 * row));
        _mm256_storeu_ps(&unit->m[0][row], _mm256_cvtph_ps(m));
    }
}

// out[row] = factor[row] * bytes[row], for sixteen rows.
INLINE void multiply_bytes(float out[PS_GROUP_ROWS], const __m256 factor[2], __m128i bytes)
{
    const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)));
    _mm256_storeu_ps(out, _mm256_mul_ps(factor[0], low));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(factor[1], high));
}

// Q4_K and Q5_K: two blocks at a time, a block a half register. m is -(dmin * min).
INLINE void open_k(unit_scales *unit, const uint8_t *scales)
{
    open_d_m(unit, scales);
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256 d[2] = {_mm256_loadu_ps(unit->d[0]), _mm256_loadu_ps(unit->d[0] + 8)};
    const __m256 m[2] = {_mm256_xor_ps(sign, _mm256_loadu_ps(unit->m[0])),
                         _mm256_xor_ps(sign, _mm256_loadu_ps(unit->m[0] + 8))};
    const __m256i low_mask = _mm256_set1_epi8(15);
    const __m256i high_mask = _mm256_set1_epi8(0x30);
    for (int pair = 0; pair < UNIT_BLOCKS_MAX / 2; pair++) {
        const __m256i low = load_bytes(scales + 64 + 32 * pair);
        // Shifted so that both blocks have bits 4-5 of the scale in bits 0-1, of the min in 2-3.
        const __m256i high = _mm256_srlv_epi64(
            _mm256_broadcastsi128_si256(
                _mm_loadu_si128((const __m128i *)(const void *)(scales + 192 + 16 * pair))),
            _mm256_setr_epi64x(0, 0, 4, 4));
        const __m256i scale = _mm256_or_si256(
            _mm256_and_si256(low, low_mask),
            _mm256_and_si256(_mm256_slli_epi16(high, 4), high_mask));
        const __m256i min = _mm256_or_si256(
            _mm256_and_si256(_mm256_srli_epi16(low, 4), low_mask),
            _mm256_and_si256(_mm256_slli_epi16(high, 2), high_mask));
        multiply_bytes(unit->d[2 * pair], d, _mm256_castsi256_si128(scale));
        multiply_bytes(unit->d[2 * pair + 1], d, _mm256_extracti128_si256(scale, 1));
        multiply_bytes(unit->m[2 * pair], m, _mm256_castsi256_si128(min));
        multiply_bytes(unit->m[2 * pair + 1], m, _mm256_extracti128_si256(min, 1));
    }
}

// Asks for what is needed later. The last group's hints point past the weights.
INLINE void prefetch(const uint8_t *p, uint32_t bytes, ps_prefetch hint)
{
    const uintptr_t address = (uintptr_t)p;
    if (hint == PS_PREFETCH_NEAR) {
        UNROLL
        for (uint32_t i = 0; i < bytes; i += PS_CACHE_LINE_BYTES) {
            _mm_prefetch((const char *)(address + NEAR_BYTES + i), _MM_HINT_T0);
        }
    } else if (hint == PS_PREFETCH_FAR) {
        UNROLL
        for (uint32_t i = 0; i < bytes; i += PS_CACHE_LINE_BYTES) {
            _mm_prefetch((const char *)(address + FAR_BYTES + i), _MM_HINT_T1);
        }
    }
}

// acc[t] += one block's product, in the contract's order.
INLINE void add_block(const quant_type *type, __m256 acc[][2], const __m256i dot[][2],
                      const unit_scales *unit, uint32_t b, const block_inputs *x, int tokens)
{
    UNROLL
    for (int t = 0; t < tokens; t++) {
        UNROLL
        for (int half = 0; half < 2; half++) {
            const __m256 d = _mm256_loadu_ps(&unit->d[b][8 * half]);
            const __m256 scale = _mm256_mul_ps(d, _mm256_broadcast_ss(x->d[t]));
            acc[t][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[t][half]), scale, acc[t][half]);
            if (type->has_min) {
                const __m256 m = _mm256_loadu_ps(&unit->m[b][8 * half]);
                acc[t][half] = _mm256_fmadd_ps(m, _mm256_broadcast_ss(x->ds[t]), acc[t][half]);
            }
        }
    }
}

// One group for `tokens` tokens from `first` on of a tile of `count`; `tokens` is a constant of at
// most TILE_TOKENS. y is of the first of them.
INLINE void linear_tile(const quant_type *type, float *const *y, size_t first_output,
                        const uint8_t *w, uint32_t inputs, const void *x, uint32_t first,
                        uint32_t count, ps_prefetch hint, int tokens)
{
    const uint32_t unit_count = inputs / PS_BLOCK_COLUMNS / type->unit_blocks;
    const uint32_t columns = inputs * count;
    block_inputs in;
    __m256 acc[TILE_TOKENS][2];
    UNROLL
    for (int t = 0; t < tokens; t++) {
        const size_t at = first + (uint32_t)t;
        in.q[t] = (const int8_t *)x + at * PS_BLOCK_COLUMNS;
        in.sum[t] = ps_q8_row_sums(x, columns) + at * 2;
        in.d[t] = ps_q8_row_d(x, columns) + at;
        in.ds[t] = ps_q8_row_ds(x, columns) + at;
        acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    }

    for (uint32_t u = 0; u < unit_count; u++) {
        const uint8_t *const scales = w;
        unit_scales unit;
        prefetch(scales, type->scale_bytes, hint);
        type->open_unit(&unit, scales);
        w += type->scale_bytes;
        for (uint32_t b = 0; b < type->unit_blocks; b++) {
            __m256i dot[TILE_TOKENS][2];
            prefetch(w, type->block_bytes, hint);
            type->dots(dot, w, scales + 32 * b, &in, tokens);
            add_block(type, acc, dot, &unit, b, &in, tokens);
            w += type->block_bytes;
            UNROLL
            for (int t = 0; t < tokens; t++) {
                in.q[t] += (size_t)count * PS_BLOCK_COLUMNS;
                in.sum[t] += (size_t)count * 2;
                in.d[t] += count;
                in.ds[t] += count;
            }
        }
    }
    UNROLL
    for (int t = 0; t < tokens; t++) {
        _mm256_storeu_ps(y[t] + first_output, acc[t][0]);
        _mm256_storeu_ps(y[t] + first_output + 8, acc[t][1]);
    }
}

// One group for a whole activation tile of `count` tokens.
INLINE void linear_group(const quant_type *type, float *const *y, size_t output, const uint8_t *w,
                         uint32_t inputs, const void *x, uint32_t count, ps_prefetch hint)
{
    uint32_t t = 0;
    for (; count - t >= TILE_TOKENS; t += TILE_TOKENS) {
        linear_tile(type, y + t, output, w, inputs, x, t, count, hint, TILE_TOKENS);
    }
    if (count - t == 3) {
        linear_tile(type, y + t, output, w, inputs, x, t, count, hint, 3);
    } else if (count - t == 2) {
        linear_tile(type, y + t, output, w, inputs, x, t, count, hint, 2);
    } else if (count - t == 1) {
        linear_tile(type, y + t, output, w, inputs, x, t, count, hint, 1);
    }
}

INLINE void linear_quant(const quant_type *type, const ps_linear *args)
{
    const size_t unit_bytes = (size_t)type->unit_blocks * type->block_bytes + type->scale_bytes;
    const size_t group_bytes = args->inputs / PS_BLOCK_COLUMNS / type->unit_blocks * unit_bytes;
    const uint8_t *w = args->w;
    for (size_t group = 0; group < args->group_count; group++, w += group_bytes) {
        for (uint32_t t = 0; t < args->tokens; t += PS_TILE_TOKENS) {
            const uint32_t left = args->tokens - t;
            const uint32_t count = left < PS_TILE_TOKENS ? left : PS_TILE_TOKENS;
            linear_group(type, args->y + t, group * PS_GROUP_ROWS, w, args->inputs,
                         args->x[t / PS_TILE_TOKENS], count,
                         count < HEAVY_TOKENS ? args->hints.light : args->hints.heavy);
        }
    }
}

// Defines the kernel ps_<name>_avx2 from a quant_type.
#define LINEAR_QUANT(name, ...)                                                                    \
    void ps_##name##_avx2(const ps_linear *args)                                                   \
    {                                                                                              \
        static const quant_type type = {__VA_ARGS__};                                              \
        linear_quant(&type, args);                                                                 \
    }

#endif
