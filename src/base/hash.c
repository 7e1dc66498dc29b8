// base/hash.c - the one file that includes xxhash.h.
#include "base/hash.h"

#include <xxhash.h>

uint64_t ps_hash(const void *bytes, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, length, seed);
}

ps_hasher *ps_hasher_create(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (state != NULL) {
        (void)XXH3_64bits_reset(state);
    }
    return (ps_hasher *)state;
}

void ps_hasher_add(ps_hasher *hasher, const void *bytes, size_t length)
{
    (void)XXH3_64bits_update((XXH3_state_t *)hasher, bytes, length);
}

uint64_t ps_hasher_destroy(ps_hasher *hasher)
{
    if (hasher == NULL) {
        return 0;
    }
    const uint64_t hash = XXH3_64bits_digest((XXH3_state_t *)hasher);
    (void)XXH3_freeState((XXH3_state_t *)hasher);
    return hash;
}
