// session/blocks.h - KV blocks of one group: who owns how many, which are free.
#ifndef PS_SESSION_BLOCKS_H
#define PS_SESSION_BLOCKS_H

#include "base/memory.h"

typedef struct ps_blocks {
    uint32_t count;
    uint32_t free_count;
    uint32_t *free;       // [count], the first free_count are free
    uint32_t *references; // [count]
} ps_blocks;

// PS_NO_MEMORY. Memory comes from the arena and lives as long.
PS_MUST_USE ps_status ps_blocks_init(ps_blocks *blocks, uint32_t count, ps_arena *arena);

// A block with one reference. free_count > 0.
uint32_t ps_blocks_acquire(ps_blocks *blocks);
void ps_blocks_retain(ps_blocks *blocks, uint32_t block);
void ps_blocks_release(ps_blocks *blocks, uint32_t block);

#endif
