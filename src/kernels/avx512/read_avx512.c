// kernels/avx512/read_avx512.c - reads memory. Contract: kernels/kernels.h.
#include "kernels/tables.h"

#include <immintrin.h>

#define LANE_BYTES 64
#define CHAINS 8

void ps_read_avx512(const void *from, size_t bytes)
{
    const char *at = from;
    __m512i sum[CHAINS] = {0};
    for (size_t i = 0; i < bytes; i += CHAINS * LANE_BYTES) {
#pragma GCC unroll 8
        for (size_t c = 0; c < CHAINS; c++) {
            sum[c] = _mm512_xor_si512(sum[c], _mm512_loadu_si512((at + i + c * LANE_BYTES)));
        }
    }
#pragma GCC unroll 8
    for (size_t c = 0; c < CHAINS; c++) {
        __asm__ volatile("" : : "x"(sum[c])); // or the loop would be dropped
    }
}
