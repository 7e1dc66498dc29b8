// kernels/avx512/linear_avx512.h - the one skeleton of the quantised linears. Contract: kernels.h.
//
// A lane of a register is a row: vpdpbusd multiplies four columns of sixteen rows, kept as unsigned
// bytes, with four activations broadcast from memory, so that no sum crosses lanes. The offset of
// the formats (8, 16, 32, 128) comes back in as the start of the integer sum: -offset times the sum
// of the block's activations, one vpdpwssd. Everything here is inlined with a constant dtype and a
// constant number of tokens, and unrolled; the types differ in unpack_pair and load_scales
// alone.
//
// Numbers that the loops stand on:
// 1. An unpacked column is at most 255, an activation at most 127 in magnitude, so sums of 32
//    products fit 21 bits, and 16 times them (high nibbles left in place) 25 bits.
// 2. Q6_K: scales are at least -128, so -32 times one fits i16, and the block's integer, with its
//    parts, stays below 2^26.
#ifndef PS_KERNELS_LINEAR_AVX512_H
#define PS_KERNELS_LINEAR_AVX512_H

#include "base/layout.h"
#include "kernels/tables.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define TILE_TOKENS 8

// Whether and how the stream of weights is fetched ahead of the block in hand. Measured over DRAM
// by bench_kernels, share of plain reads. Emerald Rapids, one token, Q8_0 and Q4_0: 87 and 65 %
// without, 97 and 84 % near. Zen 4, one token, Q8_0, Q4_0: 104 and 101 % without, 90 and 98 % near,
// for its own prefetchers are disturbed; but they lose the stream among the rows of activations:
// Q8_0, eight tokens: 37 % without, 37 % near, 66 % far.
#define NEAR_BYTES 4096
#define FAR_BYTES 8192
#define FAR_TOKENS_MIN 3

// What is constant for one call.
typedef struct shape {
    uint32_t units;       // a row's
    uint32_t unit_blocks; // blocks that share one load of scales
    uint32_t block_bytes; // of one packed block
    uint32_t scale_bytes; // before the unit's blocks
    size_t group_bytes;
    size_t x_d, x_ds, x_sum; // offsets of the planes in an activation row
    bool intel;
} shape;

// Two lanes' worth of columns: 4p.. in lo and 16 + 4p.. in hi.
typedef struct pair {
    __m512i lo;
    __m512i hi;
} pair;

// d times da is the factor of the block's integer; m times ds is added. Q6_K: s is of each half,
// and offsets holds -32 times both as i16.
typedef struct scales {
    __m512 d;
    __m512 m;
    __m512i s[2];
    __m512i offsets;
} scales;

// The scales of a Q4_K or Q5_K unit as bytes, [block][row].
typedef struct k_scales {
    __m512i scale[2];
    __m512i min[2];
} k_scales;

INLINE bool is_k_with_min(ps_dtype dtype)
{
    return dtype == PS_DTYPE_Q4_K || dtype == PS_DTYPE_Q5_K;
}

INLINE bool has_min(ps_dtype dtype)
{
    return is_k_with_min(dtype) || dtype == PS_DTYPE_Q4_1 || dtype == PS_DTYPE_Q5_1;
}

INLINE bool is_five_bit(ps_dtype dtype)
{
    return dtype == PS_DTYPE_Q5_0 || dtype == PS_DTYPE_Q5_1 || dtype == PS_DTYPE_Q5_K;
}

INLINE int offset_of(ps_dtype dtype)
{
    switch (dtype) {
    case PS_DTYPE_Q8_0:
        return 128;
    case PS_DTYPE_Q5_0:
        return 16;
    case PS_DTYPE_Q4_0:
        return 8;
    default:
        return 0;
    }
}

// Shifts left by a positive count, right by a negative one. Bits cross bytes; the callers mask.
INLINE __m512i shift(__m512i v, int left)
{
    return left > 0   ? _mm512_slli_epi16(v, (unsigned)left)
           : left < 0 ? _mm512_srli_epi16(v, (unsigned)-left)
                      : v;
}

// (quants & 15) | (high & mask)
INLINE __m512i join(__m512i quants, __m512i high, int mask)
{
    const __m512i low_bits = _mm512_set1_epi8(15);
    return _mm512_ternarylogic_epi32(quants, low_bits,
                                     _mm512_and_si512(high, _mm512_set1_epi8((char)mask)), 0xea);
}

// high_in_place: the high nibbles may stay where they are, as 16 times the value.
INLINE pair unpack_pair(ps_dtype dtype, const uint8_t *block, int p, bool high_in_place)
{
    if (dtype == PS_DTYPE_Q8_0) {
        return (pair){_mm512_loadu_si512(block + p * 64), _mm512_loadu_si512(block + 256 + p * 64)};
    }
    const int high_bytes = is_five_bit(dtype) ? 64 : dtype == PS_DTYPE_Q6_K ? 128 : 0;
    const __m512i v = _mm512_loadu_si512(block + high_bytes + p * 64);
    const __m512i v_high = _mm512_srli_epi16(v, 4);
    if (is_five_bit(dtype)) {
        const __m512i bits = _mm512_loadu_si512(block);
        return (pair){join(v, shift(bits, 4 - p), 0x10), join(v_high, shift(bits, -p), 0x10)};
    }
    if (dtype == PS_DTYPE_Q6_K) {
        const __m512i lo = _mm512_loadu_si512(block);
        const __m512i hi = _mm512_loadu_si512(block + 64);
        return (pair){join(v, shift(lo, 4 - 2 * p), 0x30),
                      join(v_high, shift(hi, 4 - 2 * p), 0x30)};
    }
    const __m512i mask = _mm512_set1_epi8(15);
    return (pair){_mm512_and_si512(v, mask),
                  high_in_place ? _mm512_andnot_si512(mask, v) : _mm512_and_si512(v_high, mask)};
}

INLINE __m512 load_f16(const uint8_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

INLINE __m512i load_i8(const void *from)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
}

// Joins the low nibbles and high bits of a unit's scales, for 64 bytes (four blocks) at a time.
INLINE void load_k_scales(k_scales *out, const uint8_t *unit)
{
    const __m512i high4 = _mm512_loadu_si512(unit + 192);
    const __m512i odd_down = _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0);
    for (int i = 0; i < 2; i++) {
        const __m512i low = _mm512_loadu_si512(unit + 64 + i * 64);
        // A byte of high bits serves an even block and the odd one after it, four bits each.
        const __m512i both = i == 0 ? _mm512_shuffle_i64x2(high4, high4, 0x50)
                                    : _mm512_shuffle_i64x2(high4, high4, 0xfa);
        const __m512i high = _mm512_srlv_epi64(both, odd_down);
        out->scale[i] = join(low, shift(high, 4), 0x30);
        out->min[i] = join(shift(low, -4), shift(high, 2), 0x30);
    }
}

// unit: the scales of the unit that block b of the row is in.
INLINE scales load_scales(ps_dtype dtype, const uint8_t *unit, const k_scales *k, uint32_t b)
{
    scales out = {.d = load_f16(unit)};
    if (is_k_with_min(dtype)) {
        const size_t at = b % 8 * 16;
        // Six bits: a signed byte too.
        out.d = _mm512_mul_ps(out.d, _mm512_cvtepi32_ps(load_i8((const char *)k->scale + at)));
        out.m = _mm512_mul_ps(load_f16(unit + 32),
                              _mm512_cvtepi32_ps(load_i8((const char *)k->min + at)));
    } else if (dtype == PS_DTYPE_Q6_K) {
        const uint8_t *sub = unit + 32 + b % 8 * 32;
        out.s[0] = load_i8(sub);
        out.s[1] = load_i8(sub + 16);
        const __m512i low = _mm512_and_si512(out.s[0], _mm512_set1_epi32(0xffff));
        const __m512i both = _mm512_or_si512(low, _mm512_slli_epi32(out.s[1], 16));
        out.offsets = _mm512_mullo_epi16(both, _mm512_set1_epi16(-32));
    } else if (has_min(dtype)) {
        out.m = load_f16(unit + 32);
    }
    return out;
}

INLINE __m512i broadcast_i32(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

// The start of an integer sum: -offset times the sum of the block's activations. Q6_K takes its
// offset off in finish.
INLINE __m512i start(ps_dtype dtype, const uint8_t *sums)
{
    if (offset_of(dtype) == 0) {
        return _mm512_setzero_si512();
    }
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(),
                               _mm512_set1_epi16((int16_t)-offset_of(dtype)), broadcast_i32(sums));
}

INLINE __m512i dot(__m512i acc, __m512i weights, const uint8_t *activations)
{
    return _mm512_dpbusd_epi32(acc, weights, broadcast_i32(activations));
}

INLINE __m512 broadcast(const uint8_t *from)
{
    float value;
    memcpy(&value, from, sizeof value);
    return _mm512_set1_ps(value);
}

// Adds one block to one output chain, given the block's two integer sums.
INLINE __m512 finish(ps_dtype dtype, __m512 acc, const scales *s, __m512i lo, __m512i hi,
                     const uint8_t *x, const shape *sh, uint32_t b)
{
    const __m512 factor = _mm512_mul_ps(s->d, broadcast(x + sh->x_d + (size_t)b * 4));
    if (dtype == PS_DTYPE_Q6_K) {
        lo = _mm512_dpwssd_epi32(_mm512_mullo_epi32(s->s[0], lo), s->offsets,
                                 broadcast_i32(x + sh->x_sum + (size_t)b * 4));
        hi = _mm512_mullo_epi32(s->s[1], hi);
    }
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(lo, hi)), factor, acc);
    if (is_k_with_min(dtype)) {
        return _mm512_fnmadd_ps(s->m, broadcast(x + sh->x_ds + (size_t)b * 4), acc);
    }
    return has_min(dtype) ? _mm512_fmadd_ps(s->m, broadcast(x + sh->x_ds + (size_t)b * 4), acc)
                          : acc;
}

// One block of one group for all tokens of the tile.
INLINE void add_block(ps_dtype dtype, __m512 *acc, const uint8_t *block, const scales *s,
                      const uint8_t *const *x, const int tokens, const shape *sh, uint32_t b)
{
    // One sum a token, or two where the halves have scales of their own, where the high nibbles
    // stay in place, and where a single token would leave the multipliers waiting for one chain.
    const bool nibbles = dtype != PS_DTYPE_Q8_0 && dtype != PS_DTYPE_Q6_K && !is_five_bit(dtype);
    const bool two_sums = dtype == PS_DTYPE_Q6_K || tokens == 1;
    const bool high_in_place = nibbles && tokens == 1;
    __m512i lo[TILE_TOKENS];
    __m512i hi[TILE_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        lo[t] = start(dtype, x[t] + sh->x_sum + (size_t)b * 4);
        hi[t] = _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
        const pair w = unpack_pair(dtype, block, p, high_in_place);
#pragma GCC unroll 8
        for (int t = 0; t < tokens; t++) {
            const uint8_t *a = x[t] + (size_t)b * 32 + p * 4;
            lo[t] = dot(lo[t], w.lo, a);
            __m512i *second = two_sums ? &hi[t] : &lo[t];
            *second = dot(*second, w.hi, a + 16);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        const __m512i high = high_in_place ? _mm512_srai_epi32(hi[t], 4) : hi[t];
        acc[t] = finish(dtype, acc[t], s, lo[t], high, x[t], sh, b);
    }
}

INLINE void prefetch_ahead(const uint8_t *from, uint32_t bytes, bool intel, const int tokens)
{
    if (intel) {
#pragma GCC unroll 8
        for (uint32_t i = 0; i < bytes; i += 64) {
            _mm_prefetch((const char *)from + NEAR_BYTES + i, _MM_HINT_T0);
        }
    } else if (tokens >= FAR_TOKENS_MIN) {
#pragma GCC unroll 8
        for (uint32_t i = 0; i < bytes; i += 64) {
            _mm_prefetch((const char *)from + FAR_BYTES + i, _MM_HINT_T1);
        }
    }
}

// One unit of one group for all tokens of the tile; b is its first block.
INLINE void add_unit(ps_dtype dtype, __m512 *acc, const uint8_t *unit, const uint8_t *const *x,
                     const int tokens, const shape *sh, uint32_t b)
{
    k_scales k;
    if (is_k_with_min(dtype)) {
        load_k_scales(&k, unit);
    }
    const uint8_t *block = unit + sh->scale_bytes;
    // A block's part of the stream, its share of the scales included.
    const uint32_t stream_bytes = sh->block_bytes + sh->scale_bytes / sh->unit_blocks;
#pragma GCC unroll 1
    for (uint32_t i = 0; i < sh->unit_blocks; i++) {
        prefetch_ahead(unit + (size_t)i * stream_bytes, stream_bytes, sh->intel, tokens);
        const scales s = load_scales(dtype, unit, &k, i);
        add_block(dtype, acc, block, &s, x, tokens, sh, b + i);
        block += sh->block_bytes;
    }
}

// One group for `tokens` tokens, all columns.
INLINE void tile(ps_dtype dtype, float *const *y, size_t output, const uint8_t *w,
                 const uint8_t *const *x_rows, const int tokens, const shape *sh)
{
    __m512 acc[TILE_TOKENS];
    const uint8_t *x[TILE_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        acc[t] = _mm512_setzero_ps();
        x[t] = x_rows[t];
    }
    for (uint32_t u = 0; u < sh->units; u++) {
        add_unit(dtype, acc, w, x, tokens, sh, u * sh->unit_blocks);
        w += sh->scale_bytes + sh->unit_blocks * sh->block_bytes;
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        _mm512_storeu_ps(y[t] + output, acc[t]);
    }
}

INLINE shape shape_of(ps_dtype dtype, uint32_t inputs)
{
    const bool superblocks = is_k_with_min(dtype) || dtype == PS_DTYPE_Q6_K;
    const uint32_t block_bytes = dtype == PS_DTYPE_Q8_0   ? 512
                                 : dtype == PS_DTYPE_Q6_K ? 384
                                 : is_five_bit(dtype)     ? 320
                                                          : 256;
    const uint32_t scale_bytes = dtype == PS_DTYPE_Q6_K ? 288
                                 : superblocks          ? 256
                                 : has_min(dtype)       ? 64
                                                        : 32;
    const uint32_t unit_blocks = superblocks ? 8 : 1;
    const uint32_t blocks = inputs / PS_BLOCK_COLUMNS;
    return (shape){
        .units = blocks / unit_blocks,
        .unit_blocks = unit_blocks,
        .block_bytes = block_bytes,
        .scale_bytes = scale_bytes,
        .group_bytes = (size_t)(blocks / unit_blocks) * (scale_bytes + unit_blocks * block_bytes),
        .x_d = inputs,
        .x_ds = inputs + (size_t)blocks * 4,
        .x_sum = inputs + (size_t)blocks * 8,
        .intel = __builtin_cpu_is("intel"),
    };
}

INLINE void any_tile(ps_dtype dtype, float *const *y, size_t output, const uint8_t *w,
                     const uint8_t *const *x, uint32_t tokens, const shape *sh)
{
    switch (tokens) {
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        tile(dtype, y, output, w, x, n, sh);                                                       \
        break;
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
    default:
        tile(dtype, y, output, w, x, TILE_TOKENS, sh);
#undef CASE
    }
}

INLINE void linear(ps_dtype dtype, float *const *y, const uint8_t *w, size_t group_count,
                   uint32_t inputs, const uint8_t *const *x, uint32_t tokens)
{
    const shape sh = shape_of(dtype, inputs);
    for (size_t group = 0; group < group_count; group++) {
        const uint8_t *weights = w + group * sh.group_bytes;
        for (uint32_t t = 0; t < tokens; t += TILE_TOKENS) {
            const uint32_t left = tokens - t;
            any_tile(dtype, y + t, group * PS_GROUP_ROWS, weights, x + t,
                     left < TILE_TOKENS ? left : TILE_TOKENS, &sh);
        }
    }
}

#define PS_LINEAR_AVX512(name, dtype)                                                              \
    void ps_linear_##name##_avx512(float *const *y, const void *w, size_t group_count,             \
                                   uint32_t inputs, const void *const *x, uint32_t tokens)         \
    {                                                                                              \
        linear(dtype, y, (const uint8_t *)w, group_count, inputs,                                  \
               (const uint8_t *const *)(const void *)x, tokens);                                   \
    }

#endif
