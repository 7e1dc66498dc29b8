// base/rng.h - xoshiro256** (Blackman and Vigna, arXiv 1805.01407), seeded by splitmix64.
#ifndef PS_BASE_RNG_H
#define PS_BASE_RNG_H

#include <stdint.h>

typedef struct ps_rng {
    uint64_t s[4];
} ps_rng;

ps_rng ps_rng_seed(uint64_t seed);
uint64_t ps_rng_next(ps_rng *rng);
double ps_rng_double(ps_rng *rng); // [0, 1), 53 bits

#endif
