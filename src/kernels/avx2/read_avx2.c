// kernels/avx2/read_avx2.c - reads memory. Contract: kernels/kernels.h.
#include "kernels/tables.h"

#include <immintrin.h>

#define LANE_BYTES 32
#define CHAINS 8

void ps_read_avx2(const void *from, size_t bytes)
{
    const char *at = from;
    __m256i sum[CHAINS] = {0};
    for (size_t i = 0; i < bytes; i += CHAINS * LANE_BYTES) {
#pragma GCC unroll 8
        for (size_t c = 0; c < CHAINS; c++) {
            sum[c] = _mm256_xor_si256(
                sum[c],
                _mm256_loadu_si256((const __m256i *)(const void *)(at + i + c * LANE_BYTES)));
        }
    }
#pragma GCC unroll 8
    for (size_t c = 0; c < CHAINS; c++) {
        __asm__ volatile("" : : "x"(sum[c])); // or the loop would be dropped
    }
}
