// base/hash.h - XXH3, the one hash of the project (not against adversaries).
#ifndef PS_BASE_HASH_H
#define PS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ps_hash(const void *bytes, size_t length, uint64_t seed);

#endif
