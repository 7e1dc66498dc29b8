// kernels/q8_tile.c - interleaves activation rows by blocks.
#include "kernels/q8_tile.h"

#include <string.h>

static void pack_tile(char *tile, const void *const *rows, uint32_t tokens, uint32_t columns)
{
    const size_t blocks = columns / PS_BLOCK_COLUMNS;
    char *const d = tile + (size_t)tokens * columns;
    char *const ds = d + tokens * blocks * sizeof(float);
    char *const sums = ds + tokens * blocks * sizeof(float);
    for (size_t t = 0; t < tokens; t++) {
        const char *const q = rows[t];
        const float *const row_d = ps_q8_row_d(q, columns);
        const float *const row_ds = ps_q8_row_ds(q, columns);
        const int16_t *const row_sums = ps_q8_row_sums(q, columns);
        for (size_t b = 0; b < blocks; b++) {
            const size_t at = b * tokens + t;
            memcpy(tile + at * PS_BLOCK_COLUMNS, q + b * PS_BLOCK_COLUMNS, PS_BLOCK_COLUMNS);
            memcpy(d + at * 4, row_d + b, 4);
            memcpy(ds + at * 4, row_ds + b, 4);
            memcpy(sums + at * 4, row_sums + b * 2, 4);
        }
    }
}

void ps_q8_tiles_pack(const void **out_tiles, void *memory, const void *const *rows,
                      uint32_t tokens, uint32_t columns)
{
    char *tile = memory;
    for (uint32_t first = 0; first < tokens; first += PS_TILE_TOKENS) {
        const uint32_t left = tokens - first;
        const uint32_t count = left < PS_TILE_TOKENS ? left : PS_TILE_TOKENS;
        const void **out = &out_tiles[first / PS_TILE_TOKENS];
        if (count == 1) {
            *out = rows[first];
            continue;
        }
        pack_tile(tile, rows + first, count, columns);
        *out = tile;
        tile += count * ps_q8_row_bytes(columns);
    }
}
