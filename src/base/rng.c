// base/rng.c - see rng.h.
#include "base/rng.h"

ps_rng ps_rng_seed(uint64_t seed)
{
    ps_rng rng;
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng.s[i] = z ^ (z >> 31);
    }
    return rng;
}

static uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

uint64_t ps_rng_next(ps_rng *rng)
{
    uint64_t *s = rng->s;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double ps_rng_double(ps_rng *rng)
{
    return (double)(ps_rng_next(rng) >> 11) * 0x1p-53;
}
