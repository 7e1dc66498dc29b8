// base/hash.h - XXH3, the one hash of the project (not against adversaries).
#ifndef PS_BASE_HASH_H
#define PS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ps_hash(const void *bytes, size_t length, uint64_t seed);

// A running hash over several pieces; equal to hashing them joined. Heap state of about 600 bytes.
typedef struct ps_hasher ps_hasher;
ps_hasher *ps_hasher_create(void); // NULL: no memory
void ps_hasher_add(ps_hasher *hasher, const void *bytes, size_t length);
uint64_t ps_hasher_destroy(ps_hasher *hasher); // the hash of all that was added; 0 for NULL

#endif
