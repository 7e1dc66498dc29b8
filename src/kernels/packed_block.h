// kernels/packed_block.h - one row of one packed block of 32 columns, as numbers.
//
// The plain reading of base/layout.h; ref/ and ps_unpack_row share it.
#ifndef PS_KERNELS_PACKED_BLOCK_H
#define PS_KERNELS_PACKED_BLOCK_H

#include "base/layout.h"
#include "kernels/half.h"

typedef struct ps_block_row {
    int32_t q[PS_BLOCK_COLUMNS]; // the format's offset (8, 16, 32) already taken off
    int32_t scale[2];            // Q6_K: of 16 columns each; 1 and 1 for the others
    float d;                     // Q4_K, Q5_K: d * scale
    float m;                     // Q4_1, Q5_1: m; Q4_K, Q5_K: -(dmin * min); 0 for the others
} ps_block_row;

// True for the types whose values have an additive part.
static inline bool ps_dtype_has_min(ps_dtype dtype)
{
    return dtype == PS_DTYPE_Q4_1 || dtype == PS_DTYPE_Q5_1 || dtype == PS_DTYPE_Q4_K ||
           dtype == PS_DTYPE_Q5_K;
}

static inline int32_t ps_block_quant(ps_dtype dtype, const uint8_t *block, uint32_t row,
                                     uint32_t column)
{
    const uint32_t g = column / 4;
    const uint8_t *lane = block + row * 4 + column % 4;
    if (dtype == PS_DTYPE_Q8_0) {
        return lane[g * 64] - 128;
    }
    // High bits come first in a block.
    const uint32_t high_bytes = ps_packed_format_get(dtype)->block_bytes - 256;
    const uint8_t byte = lane[high_bytes + g % 4 * 64];
    const int32_t low = column < 16 ? byte & 15 : byte >> 4;
    switch (dtype) {
    case PS_DTYPE_Q4_0:
        return low - 8;
    case PS_DTYPE_Q5_0:
        return (low | (lane[0] >> g & 1) << 4) - 16;
    case PS_DTYPE_Q5_1:
    case PS_DTYPE_Q5_K:
        return low | (lane[0] >> g & 1) << 4;
    case PS_DTYPE_Q6_K:
        return (low | (lane[column / 16 * 64] >> g % 4 * 2 & 3) << 4) - 32;
    default: // Q4_1, Q4_K
        return low;
    }
}

// unit: the 16 rows' scales of Q4_K or Q5_K; block: 0..7 in it.
static inline void ps_block_k_scales(ps_block_row *out, const uint8_t *unit, uint32_t block,
                                     uint32_t row)
{
    const uint8_t low = unit[64 + block * 16 + row];
    const int high = unit[192 + block / 2 * 16 + row] >> block % 2 * 4;
    const int scale = (low & 15) | (high & 3) << 4;
    const int min = low >> 4 | (high >> 2 & 3) << 4;
    out->d = ps_f16_to_f32(ps_load_u16(unit + row * 2)) * (float)scale;
    out->m = -(ps_f16_to_f32(ps_load_u16(unit + 32 + row * 2)) * (float)min);
}

// group: one packed group of 16 rows of a quantised dtype; block: index in it.
static inline ps_block_row ps_block_row_get(ps_dtype dtype, const void *group, uint32_t block,
                                            uint32_t row)
{
    const ps_packed_format *format = ps_packed_format_get(dtype);
    const uint32_t unit_blocks = format->unit_columns / PS_BLOCK_COLUMNS;
    const uint8_t *unit = (const uint8_t *)group +
                          (size_t)(block / unit_blocks) *
                              (format->scale_bytes + unit_blocks * format->block_bytes);
    const uint8_t *quants = unit + format->scale_bytes +
                            (size_t)(block % unit_blocks) * format->block_bytes;

    ps_block_row out = {.scale = {1, 1}};
    for (uint32_t i = 0; i < PS_BLOCK_COLUMNS; i++) {
        out.q[i] = ps_block_quant(dtype, quants, row, i);
    }
    if (dtype == PS_DTYPE_Q4_K || dtype == PS_DTYPE_Q5_K) {
        ps_block_k_scales(&out, unit, block % unit_blocks, row);
        return out;
    }
    out.d = ps_f16_to_f32(ps_load_u16(unit + row * 2));
    if (dtype == PS_DTYPE_Q6_K) {
        const int8_t *scales = (const int8_t *)unit + 32 + block % unit_blocks * 32 + row;
        out.scale[0] = scales[0];
        out.scale[1] = scales[16];
    } else if (ps_dtype_has_min(dtype)) {
        out.m = ps_f16_to_f32(ps_load_u16(unit + 32 + row * 2));
    }
    return out;
}

#endif
