// bench/roof.h - what this core can do at best: the ceilings that figures are shares of.
#ifndef PS_BENCH_ROOF_H
#define PS_BENCH_ROOF_H

#include <stddef.h>
#include <stdint.h>

// Reads `bytes` (a multiple of 512) with the widest plain loads that the CPU has.
void roof_read(const void *from, size_t bytes);

// Runs `rounds` times sixteen independent int8 dot products in registers (vpdpbusd, or without VNNI
// the maddubs, madd, add of AVX2) and returns the operations done, a multiply and an add being two.
uint64_t roof_int8(uint64_t rounds);

// The same for f32 fma.
uint64_t roof_f32(uint64_t rounds);

#endif
