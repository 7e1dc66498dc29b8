// kernels/avx2/add_scaled_avx2.c - adds a multiple of a row. Contract: kernels/kernels.h. It waits
// for memory, so AVX-512 has no form of its own.
#include "kernels/tables.h"

#include <immintrin.h>
#include <math.h>

void ps_add_scaled_avx2(float *y, const float *x, float factor, uint32_t n)
{
    const __m256 factors = _mm256_set1_ps(factor);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i,
                         _mm256_fmadd_ps(_mm256_loadu_ps(x + i), factors, _mm256_loadu_ps(y + i)));
    }
    for (; i < n; i++) {
        y[i] = fmaf(x[i], factor, y[i]);
    }
}
