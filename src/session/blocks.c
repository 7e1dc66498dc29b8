// session/blocks.c - a stack of free blocks, a reference count for each.
#include "session/blocks.h"

ps_status ps_blocks_init(ps_blocks *blocks, uint32_t count, ps_arena *arena)
{
    *blocks = (ps_blocks){.count = count, .free_count = count};
    blocks->free = PS_ARENA_NEW(arena, uint32_t, count);
    blocks->references = PS_ARENA_NEW(arena, uint32_t, count);
    if (blocks->free == NULL || blocks->references == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        blocks->free[i] = count - 1 - i; // low ones first: they were touched before
    }
    return PS_OK;
}

uint32_t ps_blocks_acquire(ps_blocks *blocks)
{
    ps_assert(blocks->free_count > 0);
    const uint32_t block = blocks->free[--blocks->free_count];
    ps_assert(blocks->references[block] == 0);
    blocks->references[block] = 1;
    return block;
}

void ps_blocks_retain(ps_blocks *blocks, uint32_t block)
{
    ps_assert(blocks->references[block] > 0);
    blocks->references[block]++;
}

void ps_blocks_release(ps_blocks *blocks, uint32_t block)
{
    ps_assert(blocks->references[block] > 0);
    if (--blocks->references[block] == 0) {
        blocks->free[blocks->free_count++] = block;
    }
}
