// bench/roof.c - ceilings by loops that do nothing else.
#include "roof.h"

#include "kernels/kernels.h"

#include <immintrin.h>
#include <stdbool.h>

#define CHAINS 16

// Keeps a value, and the loop that made it, alive.
#define KEEP(v) __asm__ volatile("" : : "v"(v))
// Makes a value opaque, so that a loop over it is not folded.
#define OPAQUE(v) __asm__ volatile("" : "+v"(v))

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define AVX2 __attribute__((target("avx2,fma")))

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

void roof_read(const void *from, size_t bytes)
{
    // The best of the CPU, whatever PS_ISA masks. Asked once a thread: cpuid is slow in a virtual
    // machine.
    static _Thread_local ps_read_fn *read;
    if (read == NULL) {
        ps_kernels best;
        if (ps_kernels_for(NULL, &best) != PS_OK) {
            return;
        }
        read = best.read;
    }
    read(from, bytes);
}

AVX512 static void int8_avx512(uint64_t rounds)
{
    __m512i acc[CHAINS] = {0};
    __m512i a = _mm512_set1_epi8(3);
    OPAQUE(a);
    for (uint64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 16
        for (int k = 0; k < CHAINS; k++) {
            acc[k] = _mm512_dpbusd_epi32(acc[k], a, a);
            OPAQUE(acc[k]);
        }
    }
}

AVX2 static void int8_avx2(uint64_t rounds)
{
    __m256i acc[CHAINS / 2] = {0};
    __m256i a = _mm256_set1_epi8(3);
    const __m256i ones = _mm256_set1_epi16(1);
    OPAQUE(a);
    for (uint64_t i = 0; i < 2 * rounds; i++) {
#pragma GCC unroll 8
        for (int k = 0; k < CHAINS / 2; k++) {
            __m256i product = _mm256_maddubs_epi16(a, a);
            OPAQUE(product);
            acc[k] = _mm256_add_epi32(acc[k], _mm256_madd_epi16(product, ones));
            OPAQUE(acc[k]);
        }
    }
}

uint64_t roof_int8(uint64_t rounds)
{
    if (has_avx512()) {
        int8_avx512(rounds);
        return rounds * CHAINS * 64 * 2;
    }
    int8_avx2(rounds);
    return rounds * CHAINS * 32 * 2;
}

AVX512 static void f32_avx512(uint64_t rounds)
{
    __m512 acc[CHAINS] = {0};
    __m512 a = _mm512_set1_ps(0.5f);
    OPAQUE(a);
    for (uint64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 16
        for (int k = 0; k < CHAINS; k++) {
            acc[k] = _mm512_fmadd_ps(acc[k], a, a);
            OPAQUE(acc[k]);
        }
    }
}

AVX2 static void f32_avx2(uint64_t rounds)
{
    __m256 acc[CHAINS - 2] = {0};
    __m256 a = _mm256_set1_ps(0.5f);
    OPAQUE(a);
    for (uint64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 14
        for (int k = 0; k < CHAINS - 2; k++) {
            acc[k] = _mm256_fmadd_ps(acc[k], a, a);
            OPAQUE(acc[k]);
        }
    }
}

uint64_t roof_f32(uint64_t rounds)
{
    if (has_avx512()) {
        f32_avx512(rounds);
        return rounds * CHAINS * 16 * 2;
    }
    f32_avx2(rounds);
    return rounds * (CHAINS - 2) * 8 * 2;
}
