// kernels/avx2/vec_avx2.h - the vocabulary of the .inc kernels, eight lanes wide.
//
// avx512/vec_avx512.h says the same with sixteen. A part is the first `count` lanes, 0 < count; the
// lanes behind it are loaded as zeros and never stored. Halves are f16.
#ifndef PS_KERNELS_VEC_AVX2_H
#define PS_KERNELS_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define VEC_LANES 8
#define VEC_KERNEL(op) ps_##op##_avx2

typedef __m256 vec;
typedef __m256 vec_mask; // all bits of a lane, or none

static inline vec vec_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

static inline void vec_store(float *to, vec a)
{
    _mm256_storeu_ps(to, a);
}

static inline vec vec_set1(float a)
{
    return _mm256_set1_ps(a);
}

static inline vec vec_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

// b where a is NaN, so that a running maximum in b ignores NaN.
static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

static inline vec vec_abs(vec a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

static inline vec vec_negate(vec a)
{
    return _mm256_xor_ps(_mm256_set1_ps(-0.0f), a);
}

// magnitude, which is not negative, with the sign of `sign`.
static inline vec vec_with_sign(vec magnitude, vec sign)
{
    return _mm256_or_ps(magnitude, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

static inline vec_mask vec_less(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

static inline vec_mask vec_not_less_equal(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_NLE_UQ);
}

static inline vec vec_select(vec_mask mask, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

// a * 2^n for results that are normal numbers; n sits in the low bits of `shifted` (exp.h).
static inline vec vec_scale_exponent(vec a, vec shifted)
{
    const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), n));
}

// Lanes lowest <= lane < end; both may lie outside 0..VEC_LANES.
static inline vec_mask vec_lanes(int32_t lowest, int32_t end)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i from = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(lowest - 1));
    const __m256i to = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane);
    return _mm256_castsi256_ps(_mm256_and_si256(from, to));
}

static inline vec vec_load_part(const float *from, uint32_t count)
{
    return _mm256_maskload_ps(from, _mm256_castps_si256(vec_lanes(0, (int32_t)count)));
}

static inline void vec_store_part(float *to, vec a, uint32_t count)
{
    _mm256_maskstore_ps(to, _mm256_castps_si256(vec_lanes(0, (int32_t)count)), a);
}

static inline vec vec_load_half(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

// Fewer than eight halves never occur: head_dim is a multiple of eight.
static inline vec vec_load_half_part(const uint16_t *from, uint32_t count)
{
    (void)count;
    return vec_load_half(from);
}

// Eight int8 as f32.
static inline vec vec_load_i8(const int8_t *from)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

// The greatest lane; no lane is NaN.
static inline float vec_reduce_max(vec a)
{
    __m128 max = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    max = _mm_max_ps(max, _mm_movehl_ps(max, max));
    max = _mm_max_ss(max, _mm_movehdup_ps(max));
    return _mm_cvtss_f32(max);
}

// The last halves of a fold over 64 virtual lanes (kernels.h): s[0..7] to one number.
static inline float vec_fold8(__m256 s)
{
    const __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    const __m128 u = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(u, _mm_movehdup_ps(u)));
}

#define VEC_SUMS 8 // vectors that make up the 64 virtual lanes

static inline float vec_fold(const vec *sums)
{
    __m256 s = sums[0];
    for (int c = 1; c < VEC_SUMS; c++) {
        s = _mm256_add_ps(s, sums[c]);
    }
    return vec_fold8(s);
}

#endif
