// passes/place.h - gives every value an offset in one workspace.
#ifndef PS_PASSES_PLACE_H
#define PS_PASSES_PLACE_H

#include "base/memory.h"

typedef struct ps_life {
    uint32_t value;       // for the caller
    uint32_t first, last; // closed range of times in which its bytes are its own
    uint64_t size_bytes;
    uint64_t offset_bytes; // out, a multiple of 64
} ps_life;

// Fills every offset so that two lives that overlap in time share no byte, and writes the size of
// the workspace. Largest first, each at the lowest offset that is free during its life. O(count^2).
// Scratch comes from the arena.
//
// PS_EXHAUSTED  the workspace would be larger than PS_PLAN_WORKSPACE_MAX_BYTES
PS_MUST_USE ps_status ps_place_lives(ps_life *lives, uint32_t count, ps_arena *arena,
                                     uint64_t *out_bytes);

#endif
