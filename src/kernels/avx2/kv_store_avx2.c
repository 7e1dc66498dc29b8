// kernels/avx2/kv_store_avx2.c - one token into a KV block. Contract: kernels/kernels.h.
#include "kernels/tables.h"

#include <immintrin.h>

#define LANES 8

static inline __m128i halves(const float *from)
{
    return _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT);
}

void ps_kv_store_avx2(void *block, const float *k, const float *v, uint32_t head_dim, uint32_t slot)
{
    uint16_t *keys = (uint16_t *)block + slot;
    uint16_t *values = (uint16_t *)block + (size_t)(PS_KV_BLOCK_TOKENS + slot) * head_dim;
    for (uint32_t d = 0; k != NULL && d < head_dim; d += LANES) {
        uint16_t column[LANES];
        _mm_storeu_si128((__m128i *)(void *)column, halves(k + d));
        for (uint32_t i = 0; i < LANES; i++) {
            keys[(size_t)(d + i) * PS_KV_BLOCK_TOKENS] = column[i];
        }
    }
    for (uint32_t d = 0; v != NULL && d < head_dim; d += LANES) {
        _mm_storeu_si128((__m128i *)(void *)(values + d), halves(v + d));
    }
}
