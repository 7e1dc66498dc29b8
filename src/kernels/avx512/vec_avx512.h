// kernels/avx512/vec_avx512.h - the vocabulary of the .inc kernels, sixteen lanes wide.
//
// avx2/vec_avx2.h says the same with eight. A part is the first `count` lanes, 0 < count; the lanes
// behind it are loaded as zeros and never stored. Halves are f16.
#ifndef PS_KERNELS_VEC_AVX512_H
#define PS_KERNELS_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define VEC_LANES 16
#define VEC_KERNEL(op) ps_##op##_avx512

typedef __m512 vec;
typedef __mmask16 vec_mask;

static inline vec vec_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

static inline void vec_store(float *to, vec a)
{
    _mm512_storeu_ps(to, a);
}

static inline vec vec_set1(float a)
{
    return _mm512_set1_ps(a);
}

static inline vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

// b where a is NaN, so that a running maximum in b ignores NaN.
static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec vec_abs(vec a)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}

static inline vec vec_negate(vec a)
{
    return _mm512_xor_ps(_mm512_set1_ps(-0.0f), a);
}

// magnitude, which is not negative, with the sign of `sign`.
static inline vec vec_with_sign(vec magnitude, vec sign)
{
    return _mm512_or_ps(magnitude, _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}

static inline vec_mask vec_less(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

static inline vec_mask vec_not_less_equal(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ);
}

static inline vec vec_select(vec_mask mask, vec yes, vec no)
{
    return _mm512_mask_blend_ps(mask, no, yes);
}

// a * 2^n for results that are normal numbers; n sits in the low bits of `shifted` (exp.h).
static inline vec vec_scale_exponent(vec a, vec shifted)
{
    const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), n));
}

// Lanes lowest <= lane < end; both may lie outside 0..VEC_LANES.
static inline vec_mask vec_lanes(int32_t lowest, int32_t end)
{
    const uint32_t from = lowest <= 0 ? 0 : lowest >= VEC_LANES ? VEC_LANES : (uint32_t)lowest;
    const uint32_t to = end <= 0 ? 0 : end >= VEC_LANES ? VEC_LANES : (uint32_t)end;
    return (vec_mask)(((1u << to) - 1) & ~((1u << from) - 1));
}

static inline vec vec_load_part(const float *from, uint32_t count)
{
    return _mm512_maskz_loadu_ps(vec_lanes(0, (int32_t)count), from);
}

static inline void vec_store_part(float *to, vec a, uint32_t count)
{
    _mm512_mask_storeu_ps(to, vec_lanes(0, (int32_t)count), a);
}

static inline vec vec_load_half(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

static inline vec vec_load_half_part(const uint16_t *from, uint32_t count)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vec_lanes(0, (int32_t)count), from));
}

// Sixteen int8 as f32.
static inline vec vec_load_i8(const int8_t *from)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

// The greatest lane; no lane is NaN.
static inline float vec_reduce_max(vec a)
{
    return _mm512_reduce_max_ps(a);
}

#define VEC_SUMS 4 // vectors that make up the 64 virtual lanes

// The fold over 64 virtual lanes of kernels.h; sums[v] holds the chains 2v and 2v + 1.
static inline float vec_fold(const vec *sums)
{
    __m256 s = _mm512_castps512_ps256(sums[0]);
    s = _mm256_add_ps(s, _mm512_extractf32x8_ps(sums[0], 1));
    for (int v = 1; v < VEC_SUMS; v++) {
        s = _mm256_add_ps(s, _mm512_castps512_ps256(sums[v]));
        s = _mm256_add_ps(s, _mm512_extractf32x8_ps(sums[v], 1));
    }
    const __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    const __m128 u = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(u, _mm_movehdup_ps(u)));
}

#endif
