// test/gen.h - random inputs from a seed that a failing run prints and PS_SEED replays.
#ifndef PS_TEST_GEN_H
#define PS_TEST_GEN_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct ps_gen {
    uint64_t state;
} ps_gen;

// splitmix64
static inline uint64_t ps_gen_next(ps_gen *gen)
{
    uint64_t z = (gen->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Seeds from PS_SEED or the clock, and prints the seed.
static inline ps_gen ps_gen_start(void)
{
    const char *text = getenv("PS_SEED");
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
    printf("seed: PS_SEED=%" PRIu64 "\n", seed);
    return (ps_gen){.state = seed};
}

// lowest..highest, both included
static inline int64_t ps_gen_range(ps_gen *gen, int64_t lowest, int64_t highest)
{
    return lowest + (int64_t)(ps_gen_next(gen) % (uint64_t)(highest - lowest + 1));
}

// [-1, 1)
static inline float ps_gen_float(ps_gen *gen)
{
    return (float)((double)(ps_gen_next(gen) >> 11) * 0x1p-52 - 1.0);
}

#endif
