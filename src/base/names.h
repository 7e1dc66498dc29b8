// base/names.h - numbers names in the order in which they come, and finds them again.
#ifndef PS_BASE_NAMES_H
#define PS_BASE_NAMES_H

#include "base/memory.h"

#define PS_NO_NAME UINT32_MAX
#define PS_NAME_BYTES_MAX 255u

// All memory comes from the arena, which outlives it: start with {.arena = arena}. Not thread-safe.
typedef struct ps_names {
    ps_arena *arena;
    const char **names; // [count], copies
    uint32_t count, capacity;
    uint32_t *slots; // open addressing: a number, PS_NO_NAME where free; at most half full
    uint32_t slot_count;
} ps_names;

// Copies the name and gives it the next number, which is `count` before the call.
//
// PS_INVALID    it is empty, longer than PS_NAME_BYTES_MAX or there already
// PS_EXHAUSTED  the arena has no more
//
// On failure nothing has changed.
PS_MUST_USE ps_status ps_names_add(ps_names *names, ps_str name);

// The number of the name, or PS_NO_NAME. O(1).
uint32_t ps_names_find(const ps_names *names, ps_str name);

#endif
