// kernels/q8_tile.h - activation rows side by side, as linears take them (base/layout.h).
#ifndef PS_KERNELS_Q8_TILE_H
#define PS_KERNELS_Q8_TILE_H

#include "base/layout.h"

// Bytes of the tiles of `tokens` rows.
static inline uint64_t ps_q8_tiles_bytes(uint64_t tokens, uint64_t columns)
{
    return tokens * ps_q8_row_bytes(columns);
}

// Makes out_tiles, [tokens / PS_TILE_TOKENS, rounded up], of `tokens` rows. A tile of one is the
// row itself; the others are made in `memory`, ps_q8_tiles_bytes, 64-byte aligned.
void ps_q8_tiles_pack(const void **out_tiles, void *memory, const void *const *rows,
                      uint32_t tokens, uint32_t columns);

#endif
