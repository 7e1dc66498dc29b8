// base/hash.c - the one file that includes xxhash.h.
#include "base/hash.h"

#include <xxhash.h>

uint64_t ps_hash(const void *bytes, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, length, seed);
}
