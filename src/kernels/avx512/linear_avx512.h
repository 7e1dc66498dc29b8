// kernels/avx512/linear_avx512.h - the one skeleton of the quantised linears. Contract: kernels.h.
//
// A lane of a register is a row: vpdpbusd multiplies four columns of sixteen rows, kept as unsigned
// bytes, with four activations broadcast from memory, so that no sum crosses lanes. The offset of
// the formats (8, 16, 32, 128) comes back in as the start of the integer sum. Everything here is
// inlined with a constant dtype and a constant number of tokens, and unrolled; the types differ in
// unpack_pair, load_unit and load_scales alone.
//
// What binds, on a Zen 4 core: a 512-bit dot product, multiplication or fma takes the two
// multipliers for a cycle, so a block of one group and token cannot take less than 10 cycles (8 dot
// products, the factor, the fma), 11 with mins, 12 for Q6_K: 80, 73, 67 % of the multipliers' rate;
// tiles of eight reach 78, 70, 59. Other 512-bit instructions cost about a third of a cycle each,
// for the scheduler spreads them over the multipliers too, and loads of 512 bits one cycle.
//
// Numbers that the loops stand on:
// 1. An unpacked column is at most 255, an activation at most 127 in magnitude, so sums of 32
//    products fit 21 bits, and 16 times them (high nibbles left in place) 25 bits.
// 2. Q6_K: a half's integer is at most 32 * 127 * 16 in magnitude, a scale 128, and the two
//    products together less than 2^24: f32 holds each exactly. A product may be -0 where the
//    integer is 0; a chain that starts at +0 and whose terms do not underflow (d of a row is at
//    least 2^-107, d of a weight 2^-24) is never -0, so that adding either zero gives the same.
#ifndef PS_KERNELS_LINEAR_AVX512_H
#define PS_KERNELS_LINEAR_AVX512_H

#include "base/layout.h"
#include "kernels/tables.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

// Bytes from the block in hand to the one that is asked for.
#define NEAR_BYTES 4096
#define FAR_BYTES 8192

// What is constant for one call.
typedef struct shape {
    uint32_t units;       // a row's
    uint32_t unit_blocks; // blocks that share one load of scales
    uint32_t block_bytes; // of one packed block
    uint32_t scale_bytes; // before the unit's blocks
    size_t group_bytes;
    ps_prefetch prefetch[2]; // of light and heavy tiles
} shape;

// Two lanes' worth of columns: 4p.. in lo and 16 + 4p.. in hi.
typedef struct pair {
    __m512i lo;
    __m512i hi;
} pair;

// One block of an activation tile: token t's part of a plane stands t elements on.
typedef struct tile_block {
    const uint8_t *q; // [tokens][32]
    const float *d, *ds;
    const int16_t *sums; // [tokens][2]
} tile_block;

// The scales of one block. d times da is the factor of the block's integer; m times ds is added.
// Q6_K: s is of each half.
typedef struct scales {
    __m512 d;
    __m512 m;
    __m512 s[2];
} scales;

// What the blocks of a unit share: d, m and, for Q4_K and Q5_K, scales as bytes, [block][row].
typedef struct unit_scales {
    __m512 d;
    __m512 m;
    __m512i scale[2];
    __m512i min[2];
} unit_scales;

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
    case PS_DTYPE_Q6_K:
        return 32;
    case PS_DTYPE_Q5_0:
        return 16;
    case PS_DTYPE_Q4_0:
        return 8;
    default:
        return 0;
    }
}

// Few tokens leave the upper columns multiplied by 2 to this, which saves moving them.
INLINE int raised_bits(ps_dtype dtype, int tokens)
{
    if (tokens >= 4 || dtype == PS_DTYPE_Q8_0 || dtype == PS_DTYPE_Q6_K) {
        return 0;
    }
    return is_five_bit(dtype) ? 3 : 4;
}

// Shifts left by a positive count, right by a negative one. Bits cross bytes; the callers mask.
INLINE __m512i shift(__m512i v, int left)
{
    return left > 0   ? _mm512_slli_epi16(v, (unsigned)left)
           : left < 0 ? _mm512_srli_epi16(v, (unsigned)-left)
                      : v;
}

// (low & low_mask) | (high & high_mask)
INLINE __m512i join(__m512i low, int low_mask, __m512i high, int high_mask)
{
    return _mm512_ternarylogic_epi32(low, _mm512_set1_epi8((char)low_mask),
                                     _mm512_and_si512(high, _mm512_set1_epi8((char)high_mask)),
                                     0xea);
}

// Loads into a register, once: compilers else load again for each use.
INLINE __m512i load(const uint8_t *from)
{
    __m512i v = _mm512_loadu_si512(from);
    __asm__("" : "+v"(v));
    return v;
}

// The bits of a block that its nibbles lack.
INLINE pair load_high(ps_dtype dtype, const uint8_t *block)
{
    pair high = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    if (is_five_bit(dtype)) {
        high.lo = load(block);
    } else if (dtype == PS_DTYPE_Q6_K) {
        high = (pair){load(block), load(block + 64)};
    }
    return high;
}

// The fifth bits of columns 4p and 16 + 4p are bits p and 4 + p of `high`.
INLINE pair join_fifth(__m512i v, __m512i high, int p, bool raised)
{
    const __m512i lo = join(v, 15, shift(high, 4 - p), 0x10);
    return (pair){lo, raised ? join(shift(v, -1), 0x78, shift(high, 3 - p), 0x80)
                             : join(shift(v, -4), 15, shift(high, -p), 0x10)};
}

INLINE pair unpack_pair(ps_dtype dtype, const uint8_t *block, pair high, int p, bool raised)
{
    if (dtype == PS_DTYPE_Q8_0) {
        return (pair){load(block + p * 64), load(block + 256 + p * 64)};
    }
    const int high_bytes = is_five_bit(dtype) ? 64 : dtype == PS_DTYPE_Q6_K ? 128 : 0;
    const __m512i v = load(block + high_bytes + p * 64);
    if (is_five_bit(dtype)) {
        return join_fifth(v, high.lo, p, raised);
    }
    if (dtype == PS_DTYPE_Q6_K) {
        return (pair){join(v, 15, shift(high.lo, 4 - 2 * p), 0x30),
                      join(shift(v, -4), 15, shift(high.hi, 4 - 2 * p), 0x30)};
    }
    const __m512i mask = _mm512_set1_epi8(15);
    return (pair){_mm512_and_si512(v, mask),
                  raised ? _mm512_andnot_si512(mask, v) : _mm512_and_si512(shift(v, -4), mask)};
}

INLINE __m512 load_f16(const uint8_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

INLINE __m512 load_i8(const void *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
}

// Joins the low nibbles and high bits of a unit's scales, for 64 bytes (four blocks) at a time.
INLINE void load_k_scales(unit_scales *out, const uint8_t *unit)
{
    const __m512i high4 = _mm512_loadu_si512(unit + 192);
    const __m512i odd_down = _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0);
    for (int i = 0; i < 2; i++) {
        const __m512i low = _mm512_loadu_si512(unit + 64 + i * 64);
        // A byte of high bits serves an even block and the odd one after it, four bits each.
        const __m512i both = i == 0 ? _mm512_shuffle_i64x2(high4, high4, 0x50)
                                    : _mm512_shuffle_i64x2(high4, high4, 0xfa);
        const __m512i high = _mm512_srlv_epi64(both, odd_down);
        out->scale[i] = join(low, 15, shift(high, 4), 0x30);
        out->min[i] = join(shift(low, -4), 15, shift(high, 2), 0x30);
    }
}

INLINE void load_unit(ps_dtype dtype, unit_scales *out, const uint8_t *unit)
{
    out->d = load_f16(unit);
    if (has_min(dtype)) {
        out->m = load_f16(unit + 32);
    }
    if (is_k_with_min(dtype)) {
        load_k_scales(out, unit);
    }
}

// Block i of the unit that starts at `unit`.
INLINE scales load_scales(ps_dtype dtype, const unit_scales *of_unit, const uint8_t *unit,
                          uint32_t i)
{
    scales out = {.d = of_unit->d, .m = of_unit->m};
    if (is_k_with_min(dtype)) {
        // Six bits: a signed byte too.
        out.d = _mm512_mul_ps(out.d, load_i8((const char *)of_unit->scale + (size_t)i * 16));
        out.m = _mm512_mul_ps(out.m, load_i8((const char *)of_unit->min + (size_t)i * 16));
    } else if (dtype == PS_DTYPE_Q6_K) {
        out.s[0] = load_i8(unit + 32 + (size_t)i * 32);
        out.s[1] = load_i8(unit + 48 + (size_t)i * 32);
    }
    return out;
}

INLINE __m512i broadcast_i32(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

// -offset times a sum of activations, in all lanes. Made by the scalar units and broadcast from
// memory, because the vector multipliers are what these loops wait for.
INLINE __m512i start(ps_dtype dtype, int32_t sum)
{
    if (offset_of(dtype) == 0) {
        return _mm512_setzero_si512();
    }
    int32_t value = -offset_of(dtype) * sum;
    __asm__("" : "+m"(value));
    return _mm512_set1_epi32(value);
}

// Adds one block to one output chain, given the block's two integer sums (Q6_K) or their total.
INLINE __m512 finish(ps_dtype dtype, __m512 acc, const scales *s, __m512i lo, __m512i hi,
                     __m512 x_d, __m512 x_ds)
{
    __m512 value = _mm512_cvtepi32_ps(lo);
    if (dtype == PS_DTYPE_Q6_K) {
        value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(hi), s->s[1], _mm512_mul_ps(value, s->s[0]));
    }
    acc = _mm512_fmadd_ps(value, _mm512_mul_ps(s->d, x_d), acc);
    if (is_k_with_min(dtype)) {
        return _mm512_fnmadd_ps(s->m, x_ds, acc);
    }
    return has_min(dtype) ? _mm512_fmadd_ps(s->m, x_ds, acc) : acc;
}

// Four columns for all tokens.
INLINE void add_columns(__m512i *sum, __m512i w, const uint8_t *q, const int tokens)
{
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        sum[t] = _mm512_dpbusd_epi32(sum[t], w, broadcast_i32(q + (size_t)t * PS_BLOCK_COLUMNS));
    }
}

// One block of one group for all tokens of the tile.
INLINE void add_block(ps_dtype dtype, __m512 *acc, const uint8_t *block, const scales *s,
                      const tile_block *x, const int tokens)
{
    const int raised = raised_bits(dtype, tokens);
    const bool split = dtype == PS_DTYPE_Q6_K; // halves have scales of their own
    // One token would leave the multipliers waiting for one chain.
    const bool two_sums = split || tokens == 1 || raised > 0;
    __m512i lo[PS_TILE_TOKENS];
    __m512i hi[PS_TILE_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        const int16_t *sums = x->sums + (size_t)t * 2;
        lo[t] = start(dtype, split ? sums[0] : sums[0] + sums[1]);
        hi[t] = split ? start(dtype, sums[1]) : _mm512_setzero_si512();
    }
    const pair high = load_high(dtype, block);
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
        const pair w = unpack_pair(dtype, block, high, p, raised > 0);
        add_columns(lo, w.lo, x->q + (size_t)p * 4, tokens);
        add_columns(two_sums ? hi : lo, w.hi, x->q + (size_t)p * 4 + 16, tokens);
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        if (two_sums && !split) {
            lo[t] = _mm512_add_epi32(lo[t], _mm512_srai_epi32(hi[t], (unsigned)raised));
        }
        const __m512 x_ds = _mm512_set1_ps(has_min(dtype) ? x->ds[t] : 0);
        acc[t] = finish(dtype, acc[t], s, lo[t], hi[t], _mm512_set1_ps(x->d[t]), x_ds);
    }
}

// Tiles of which a byte of weights takes long to compute with.
INLINE bool is_heavy(const shape *sh, const int tokens)
{
    return (uint32_t)tokens * 512 >= 5 * sh->block_bytes;
}

INLINE void prefetch_ahead(const uint8_t *from, uint32_t bytes, ps_prefetch prefetch)
{
    if (prefetch == PS_PREFETCH_NEAR) {
#pragma GCC unroll 8
        for (uint32_t i = 0; i < bytes; i += 64) {
            _mm_prefetch((const char *)from + NEAR_BYTES + i, _MM_HINT_T0);
        }
    } else if (prefetch == PS_PREFETCH_FAR) {
#pragma GCC unroll 8
        for (uint32_t i = 0; i < bytes; i += 64) {
            _mm_prefetch((const char *)from + FAR_BYTES + i, _MM_HINT_T1);
        }
    }
}

// One unit of one group for all tokens of the tile; x is its first block.
INLINE void add_unit(ps_dtype dtype, __m512 *acc, const uint8_t *unit, tile_block *x,
                     const int tokens, const shape *sh)
{
    unit_scales of_unit;
    load_unit(dtype, &of_unit, unit);
    const uint8_t *block = unit + sh->scale_bytes;
    // A block's part of the stream, its share of the scales included.
    const uint32_t stream_bytes = sh->block_bytes + sh->scale_bytes / sh->unit_blocks;
    const ps_prefetch prefetch = sh->prefetch[is_heavy(sh, tokens)];
#pragma GCC unroll 1
    for (uint32_t i = 0; i < sh->unit_blocks; i++) {
        prefetch_ahead(unit + (size_t)i * stream_bytes, stream_bytes, prefetch);
        const scales s = load_scales(dtype, &of_unit, unit, i);
        add_block(dtype, acc, block, &s, x, tokens);
        block += sh->block_bytes;
        x->q += (size_t)tokens * PS_BLOCK_COLUMNS;
        x->d += tokens;
        x->ds += tokens;
        x->sums += (size_t)tokens * 2;
    }
}

// One group for `tokens` tokens, all columns.
INLINE void tile(ps_dtype dtype, float *const *y, size_t output, const uint8_t *w, const void *x,
                 uint32_t inputs, const int tokens, const shape *sh)
{
    __m512 acc[PS_TILE_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        acc[t] = _mm512_setzero_ps();
    }
    const uint32_t columns = inputs * (uint32_t)tokens;
    tile_block block = {.q = x,
                        .d = ps_q8_row_d(x, columns),
                        .ds = ps_q8_row_ds(x, columns),
                        .sums = ps_q8_row_sums(x, columns)};
    for (uint32_t u = 0; u < sh->units; u++) {
        add_unit(dtype, acc, w, &block, tokens, sh);
        w += sh->scale_bytes + sh->unit_blocks * sh->block_bytes;
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        _mm512_storeu_ps(y[t] + output, acc[t]);
    }
}

INLINE shape shape_of(ps_dtype dtype, uint32_t inputs, ps_linear_hints hints)
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
        .prefetch = {hints.light, hints.heavy},
    };
}

INLINE void any_tile(ps_dtype dtype, float *const *y, size_t output, const uint8_t *w,
                     const void *x, uint32_t inputs, uint32_t tokens, const shape *sh)
{
    switch (tokens) {
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        tile(dtype, y, output, w, x, inputs, n, sh);                                               \
        break;
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
    default:
        tile(dtype, y, output, w, x, inputs, PS_TILE_TOKENS, sh);
#undef CASE
    }
}

INLINE void linear(ps_dtype dtype, const ps_linear *args)
{
    const shape sh = shape_of(dtype, args->inputs, args->hints);
    const uint8_t *w = args->w;
    for (size_t group = 0; group < args->group_count; group++, w += sh.group_bytes) {
        for (uint32_t t = 0; t < args->tokens; t += PS_TILE_TOKENS) {
            const uint32_t left = args->tokens - t;
            any_tile(dtype, args->y + t, group * PS_GROUP_ROWS, w, args->x[t / PS_TILE_TOKENS],
                     args->inputs, left < PS_TILE_TOKENS ? left : PS_TILE_TOKENS, &sh);
        }
    }
}

#define PS_LINEAR_AVX512(name, dtype)                                                              \
    void ps_linear_##name##_avx512(const ps_linear *args)                                          \
    {                                                                                              \
        linear(dtype, args);                                                                       \
    }

#endif
