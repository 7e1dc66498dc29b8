// base/layout.h - how weights, activations and KV lie in memory. One layout serves every ISA.
//
// Packed weights. A linear maps `inputs` columns to `outputs` rows. Rows go in groups of 16; the
// last group is padded with rows of zeros. A group is contiguous and starts at a multiple of 16
// bytes:
//
//     quantised:  [units of unit_columns]{ scale_bytes, [blocks of 32 columns][block_bytes] }
//     F32 F16 BF16:  [column][16 rows]
//
// A matrix-vector product so reads one linear stream, scales before their blocks: with the scales
// of a group apart, it reaches 19 instead of 31 GB/s on a Zen 4 core that reads 30 (bench_kernels);
// for the same reason high bits stand before the low ones that they join.
//
// Lossless, and as large as in the model file. In a block, "byte (g, r, j)" is byte g*64 + r*4 + j;
// r is the row in the group, 0..15, and j runs over four columns that one dot-product lane
// consumes.
//
//     Q8_0   512 bytes: byte (g, r, j), g 0..7, is column 4g+j as value + 128
//     Q4_x   256 bytes: byte (g, r, j), g 0..3, low nibble column 4g+j, high nibble column 16+4g+j
//     Q5_x   64 bytes: byte (0, r, j), bit g is bit 4 of column 4g+j, g 0..7; then the 256 bytes of
//            Q4_x for bits 0-3
//     Q6_K   128 bytes: byte (h, r, j), bits 2g and 2g+1 are bits 4 and 5 of column 16h+4g+j, h
//            0..1, g 0..3; then the 256 bytes of Q4_x for bits 0-3
//     Q4_K and Q5_K blocks are those of Q4_x and Q5_x.
//
// Scales of one unit, "[16]" being one a row:
//     Q4_0 Q5_0 Q8_0  d f16[16]
//     Q4_1 Q5_1       d f16[16], m f16[16]
//     Q4_K Q5_K       d f16[16], dmin f16[16],
//                     then for the eight blocks b of the unit u8 low[b][16]: bits 0-3 of the scale
//                     in bits 0-3, bits 0-3 of the min in bits 4-7;
//                     then for the four pairs of blocks u8 high[b / 2][16]: bits 4-5 of the scale
//                     in bits 0-1 and of the min in bits 2-3 for even b, the same in bits 4-7 for
//                     odd b
//     Q6_K            d f16[16], then i8 scale[16 sub-blocks of 16 columns][16]
//
// Values (facts of the formats): Q8_0 d*q; Q4_0 d*(q-8); Q5_0 d*(q-16); Q4_1, Q5_1 d*q + m;
// Q4_K, Q5_K (d*scale)*q - dmin*min; Q6_K d*scale*(q-32).
//
// Activation row (PS_DTYPE_Q8_ROW) of n columns, n a multiple of 32, nb = n / 32 blocks, in planes:
//     int8 q[n] | f32 d[nb] | f32 ds[nb] | i16 sum[nb][2]
// x ~ d*q with q in [-127, 127]; sum[b][h] = sum of q over columns 32b+16h .. +16;
// ds[b] = d[b] * (float)(sum[b][0] + sum[b][1]). Rows start at multiples of 64 bytes.
//
// Activation tile: up to PS_TILE_TOKENS such rows interleaved by blocks, as linears take them. A
// tile of T tokens of n columns is a row of T * n columns whose block b * T + t is block b of token
// t; so a row is a tile of one. Rows that stand apart are as many streams of memory as tokens, and
// the hardware, which follows a few, loses the one of the weights among them: on a Zen 4 core over
// DRAM, three tokens of Q8_0 read 72 % of what plain loads read, as a tile 97 % (bench_kernels).
//
// KV. Blocks of 32 tokens; for one layer and KV head a block is K, then V, each of its own format:
//     K  F16   [head_dim][32 tokens]
//        Q8_0  [head_dim / 32]{ d f16[32 tokens], i8 [32 columns][32 tokens] }
//     V  F16   [32 tokens][head_dim]
//        Q8_0  d f16[32 tokens][head_dim / 32], i8 [32 tokens][head_dim]
// so that each is one linear stream. A Q8_0 value is d*q, which is exact in f32. K and V start at
// multiples of 64 bytes of a block.
#ifndef PS_BASE_LAYOUT_H
#define PS_BASE_LAYOUT_H

#include "base/dtype.h"

#define PS_GROUP_ROWS 16
#define PS_BLOCK_COLUMNS 32
#define PS_KV_BLOCK_TOKENS 32
#define PS_TILE_TOKENS 8

// Attention is computed in chunks of this many absolute positions (kernels/kernels.h).
#define PS_ATTENTION_CHUNK_POSITIONS 256

// Changes with every change of the packed layout; stored with packed files.
#define PS_LAYOUT_VERSION 3

typedef struct ps_packed_format {
    uint32_t block_bytes;  // 16 rows x 32 columns, without scales
    uint32_t unit_columns; // columns that one unit of scales covers; 0 for the float types
    uint32_t scale_bytes;  // 16 rows x unit_columns
} ps_packed_format;

// dtype is F32, F16, BF16 or quantised.
const ps_packed_format *ps_packed_format_get(ps_dtype dtype);

// Bytes of one group of 16 rows, of planned-only formats, too. inputs is a multiple of the dtype's block columns.
uint64_t ps_packed_group_bytes(ps_dtype dtype, uint64_t inputs);

// Bytes of a whole packed weight: groups of 16, the last one padded. The result must fit.
uint64_t ps_packed_bytes(ps_dtype dtype, uint64_t outputs, uint64_t inputs);

// Bytes from one activation row to the next, padding included.
static inline uint64_t ps_q8_row_bytes(uint64_t columns)
{
    return ps_round_up(ps_dtype_row_bytes(PS_DTYPE_Q8_ROW, columns), PS_CACHE_LINE_BYTES);
}

// The planes of an activation row.
static inline const float *ps_q8_row_d(const void *row, uint32_t columns)
{
    return (const float *)(const void *)((const char *)row + columns);
}
static inline const float *ps_q8_row_ds(const void *row, uint32_t columns)
{
    return ps_q8_row_d(row, columns) + columns / PS_BLOCK_COLUMNS;
}
static inline const int16_t *ps_q8_row_sums(const void *row, uint32_t columns)
{
    return (const int16_t *)(const void *)(ps_q8_row_d(row, columns) +
                                           columns / PS_BLOCK_COLUMNS * 2);
}

// Of K in Q8_0: 32 columns, scales included.
#define PS_KV_K_GROUP_BYTES (PS_KV_BLOCK_TOKENS * (sizeof(uint16_t) + PS_BLOCK_COLUMNS))

// Bytes of K, or of V, in a KV block of one layer and KV head. dtype is one of a KV; head_dim is a
// multiple of 8, of 32 for all but F16.
static inline uint64_t ps_kv_part_bytes(ps_dtype dtype, uint32_t head_dim)
{
    return PS_KV_BLOCK_TOKENS * ps_dtype_row_bytes(dtype, head_dim);
}

#endif
