// kernels/pack.c - transposes rows of file blocks into groups of 16 rows (base/layout.h).
//
// A group is a transpose of 4-byte words, or nearly so: each format's function moves one unit of
// one row, with its nibbles and bits regrouped in whole words. Units are walked in chunks that keep
// the scattered writes in L1 while each row is still read in long runs.
#include "kernels/pack.h"

#include "kernels/half.h"
#include "kernels/packed_block.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define CHUNK_COLUMNS 1024
#define FILE_UNIT_BYTES_MAX 210

// Moves one unit of a row: `file` is its place there, blocks and scales those in the group.
typedef void pack_unit_fn(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row);

typedef struct unit_shape {
    uint32_t columns;
    uint32_t file_bytes;
    uint32_t block_bytes; // of all its blocks, 16 rows
    uint32_t scale_bytes; // 16 rows
} unit_shape;

typedef struct pack_job {
    uint8_t *out; // the group first_group
    const uint8_t *rows;
    uint64_t outputs;
    uint64_t row_bytes;
    uint64_t first_group;
    uint64_t group_count;
    uint32_t inputs;
} pack_job;

static const uint8_t ZEROS[FILE_UNIT_BYTES_MAX];

static inline void put_word(uint8_t *block, uint32_t g, uint32_t row, uint32_t word)
{
    memcpy(block + g * 64 + row * 4, &word, sizeof word);
}

static inline void put_half(uint8_t *scales, uint32_t row, const uint8_t *file)
{
    memcpy(scales + row * 2, file, 2);
}

static inline void pack_f32(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    (void)scales;
    memcpy(blocks + row * 4, file, 4);
}

static inline void pack_f16(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    (void)scales;
    memcpy(blocks + row * 2, file, 2);
}

static inline void pack_words(uint8_t *block, const uint8_t *quants, uint32_t row, uint32_t count)
{
    for (uint32_t g = 0; g < count; g++) {
        put_word(block, g, row, ps_load_u32(quants + 4 * g));
    }
}

static inline void pack_q8_0(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    put_half(scales, row, file);
    for (uint32_t g = 0; g < 8; g++) {
        put_word(blocks, g, row, ps_load_u32(file + 2 + 4 * g) ^ 0x80808080u);
    }
}

static inline void pack_q4_0(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    put_half(scales, row, file);
    pack_words(blocks, file + 2, row, 4);
}

static inline void pack_q4_1(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    put_half(scales, row, file);
    put_half(scales + 32, row, file + 2);
    pack_words(blocks, file + 4, row, 4);
}

// Exchanges two bits of every bit's index: mask holds the bits where the lower index bit is 1 and
// the upper is 0, distance is the difference of their weights.
static inline uint32_t exchange_index_bits(uint32_t x, uint32_t mask, int distance)
{
    const uint32_t t = (x ^ x >> distance) & mask;
    return x ^ t ^ t << distance;
}

// Bit 4g + j goes to bit 8j + g: the index g2 g1 g0 j1 j0 becomes j1 j0 g2 g1 g0.
static inline uint32_t transpose_high_bits(uint32_t x)
{
    x = exchange_index_bits(x, 0x0000ccccu, 14); // j1 g1 g0 g2 j0
    x = exchange_index_bits(x, 0x00aa00aau, 7);  // j1 j0 g0 g2 g1
    x = exchange_index_bits(x, 0x0c0c0c0cu, 2);  // j1 j0 g2 g0 g1
    return exchange_index_bits(x, 0x22222222u, 1);
}

static inline void pack_q5_0(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    put_half(scales, row, file);
    put_word(blocks, 0, row, transpose_high_bits(ps_load_u32(file + 2)));
    pack_words(blocks + 64, file + 6, row, 4);
}

static inline void pack_q5_1(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    put_half(scales, row, file);
    put_half(scales + 32, row, file + 2);
    put_word(blocks, 0, row, transpose_high_bits(ps_load_u32(file + 4)));
    pack_words(blocks + 64, file + 8, row, 4);
}

// The K formats keep two blocks in 32 bytes, one in the low nibbles and one in the high ones; a
// packed block keeps its own two halves so.
static inline void pack_nibble_pair(uint8_t *low_block, uint8_t *high_block, const uint8_t *quants,
                                    uint32_t row)
{
    for (uint32_t g = 0; g < 4; g++) {
        const uint32_t left = ps_load_u32(quants + 4 * g);
        const uint32_t right = ps_load_u32(quants + 16 + 4 * g);
        put_word(low_block, g, row, (left & 0x0f0f0f0fu) | (right & 0x0f0f0f0fu) << 4);
        put_word(high_block, g, row, (left >> 4 & 0x0f0f0f0fu) | (right & 0xf0f0f0f0u));
    }
}

static inline void put_bytes(uint8_t *scales, uint32_t row, uint32_t word, uint32_t stride)
{
    for (uint32_t i = 0; i < 4; i++) {
        scales[i * stride + row] = (uint8_t)(word >> 8 * i);
    }
}

// The twelve bytes of six-bit scales and mins: blocks 0-3 have theirs whole in the first eight
// bytes, blocks 4-7 their low nibbles in the last four and their high bits atop the first eight.
static inline void pack_k_scales(uint8_t *scales, const uint8_t *file, uint32_t row)
{
    put_half(scales, row, file);
    put_half(scales + 32, row, file + 2);
    const uint32_t first = ps_load_u32(file + 4);
    const uint32_t second = ps_load_u32(file + 8);
    put_bytes(scales + 64, row, (first & 0x0f0f0f0fu) | (second & 0x0f0f0f0fu) << 4, 16);
    put_bytes(scales + 128, row, ps_load_u32(file + 12), 16);

    const uint32_t high03 = (first >> 4 & 0x03030303u) | (second >> 2 & 0x0c0c0c0cu);
    const uint32_t high47 = (first >> 6 & 0x03030303u) | (second >> 4 & 0x0c0c0c0cu);
    // Even block's byte below, odd block's above it: two bytes fold into one.
    const uint32_t pairs01 = high03 | high03 >> 4;
    const uint32_t pairs23 = high47 | high47 >> 4;
    scales[192 + row] = (uint8_t)pairs01;
    scales[208 + row] = (uint8_t)(pairs01 >> 16);
    scales[224 + row] = (uint8_t)pairs23;
    scales[240 + row] = (uint8_t)(pairs23 >> 16);
}

static inline void pack_q4_k(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    pack_k_scales(scales, file, row);
    for (uint32_t p = 0; p < 4; p++) {
        uint8_t *pair = blocks + (size_t)p * 2 * 256;
        pack_nibble_pair(pair, pair + 256, file + 16 + p * 32, row);
    }
}

static inline void pack_q5_k(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    pack_k_scales(scales, file, row);
    for (uint32_t p = 0; p < 4; p++) {
        uint8_t *pair = blocks + 64 + (size_t)p * 2 * 320;
        pack_nibble_pair(pair, pair + 320, file + 48 + p * 32, row);
    }
    // In the file, bit b of byte `column` belongs to block b.
    for (uint32_t b = 0; b < 8; b++) {
        uint32_t word = 0;
        for (uint32_t g = 0; g < 8; g++) {
            word |= (ps_load_u32(file + 16 + 4 * g) >> b & 0x01010101u) << g;
        }
        put_word(blocks + (size_t)b * 320, 0, row, word);
    }
}

static inline void pack_q6_k(uint8_t *blocks, uint8_t *scales, const uint8_t *file, uint32_t row)
{
    put_half(scales, row, file + 208);
    for (uint32_t i = 0; i < 4; i++) {
        put_bytes(scales + 32 + i * 64, row, ps_load_u32(file + 192 + 4 * i), 16);
    }
    // Each half of 128 columns: blocks k and k + 2 share bytes of low nibbles; two bits of a byte
    // of high bits belong to each of its four blocks.
    for (uint32_t half = 0; half < 2; half++) {
        uint8_t *first = blocks + (size_t)half * 4 * 384;
        const uint8_t *low = file + half * 64;
        const uint8_t *high = file + 128 + half * 32;
        pack_nibble_pair(first + 128, first + 2 * 384 + 128, low, row);
        pack_nibble_pair(first + 384 + 128, first + 3 * 384 + 128, low + 32, row);
        for (uint32_t b = 0; b < 4; b++) {
            for (uint32_t h = 0; h < 2; h++) {
                uint32_t word = 0;
                for (uint32_t g = 0; g < 4; g++) {
                    word |= (ps_load_u32(high + 16 * h + 4 * g) >> 2 * b & 0x03030303u) << 2 * g;
                }
                put_word(first + (size_t)b * 384, h, row, word);
            }
        }
    }
}

static ALWAYS_INLINE void pack_chunk(const pack_job *job, uint64_t group, uint32_t first,
                                     uint32_t end, unit_shape shape, pack_unit_fn *pack_unit)
{
    const size_t unit_bytes = shape.block_bytes + shape.scale_bytes;
    uint8_t *out = job->out + group * PS_GROUP_ROWS * job->row_bytes;
    for (uint32_t row = 0; row < PS_GROUP_ROWS; row++) {
        const uint64_t file_row = (job->first_group + group) * PS_GROUP_ROWS + row;
        const bool present = file_row < job->outputs;
        const uint8_t *file = present ? job->rows + file_row * job->row_bytes +
                                            (uint64_t)first * shape.file_bytes
                                      : ZEROS;
        const size_t step = present ? shape.file_bytes : 0;
        for (uint64_t unit = first; unit < end; unit++) {
            uint8_t *scales = out + unit * unit_bytes;
            pack_unit(scales + shape.scale_bytes, scales, file, row);
            file += step;
        }
    }
}

static ALWAYS_INLINE void pack_all(const pack_job *job, unit_shape shape, pack_unit_fn *pack_unit)
{
    const uint32_t units = job->inputs / shape.columns;
    const uint32_t chunk = CHUNK_COLUMNS / shape.columns;
    for (uint64_t group = 0; group < job->group_count; group++) {
        for (uint32_t first = 0; first < units; first += chunk) {
            const uint32_t end = units - first < chunk ? units : first + chunk;
            pack_chunk(job, group, first, end, shape, pack_unit);
        }
    }
}

// Every call of pack_all is inlined with its unit function: one loop a format.
void ps_pack_groups(void *out, const void *rows, ps_dtype dtype, uint64_t outputs, uint32_t inputs,
                    uint64_t first_group, uint64_t group_count)
{
    const pack_job job = {out,         rows,        outputs, ps_dtype_row_bytes(dtype, inputs),
                          first_group, group_count, inputs};
    switch (dtype) {
    case PS_DTYPE_F32:
        pack_all(&job, (unit_shape){1, 4, 64, 0}, pack_f32);
        break;
    case PS_DTYPE_F16:
    case PS_DTYPE_BF16:
        pack_all(&job, (unit_shape){1, 2, 32, 0}, pack_f16);
        break;
    case PS_DTYPE_Q4_0:
        pack_all(&job, (unit_shape){32, 18, 256, 32}, pack_q4_0);
        break;
    case PS_DTYPE_Q4_1:
        pack_all(&job, (unit_shape){32, 20, 256, 64}, pack_q4_1);
        break;
    case PS_DTYPE_Q5_0:
        pack_all(&job, (unit_shape){32, 22, 320, 32}, pack_q5_0);
        break;
    case PS_DTYPE_Q5_1:
        pack_all(&job, (unit_shape){32, 24, 320, 64}, pack_q5_1);
        break;
    case PS_DTYPE_Q8_0:
        pack_all(&job, (unit_shape){32, 34, 512, 32}, pack_q8_0);
        break;
    case PS_DTYPE_Q4_K:
        pack_all(&job, (unit_shape){256, 144, 8 * 256, 256}, pack_q4_k);
        break;
    case PS_DTYPE_Q5_K:
        pack_all(&job, (unit_shape){256, 176, 8 * 320, 256}, pack_q5_k);
        break;
    case PS_DTYPE_Q6_K:
        pack_all(&job, (unit_shape){256, 210, 8 * 384, 288}, pack_q6_k);
        break;
    default:
        ps_assert(!"a packed weight has a weight dtype");
    }
}

static void unpack_block(float *out, const ps_block_row *block, bool has_min)
{
    for (uint32_t i = 0; i < PS_BLOCK_COLUMNS; i++) {
        const float value = block->d * (float)block->scale[i / 16] * (float)block->q[i];
        out[i] = has_min ? value + block->m : value;
    }
}

void ps_unpack_row(float *out, const void *packed, ps_dtype dtype, uint32_t inputs, uint64_t row)
{
    const uint8_t *group = (const uint8_t *)packed +
                           row / PS_GROUP_ROWS * ps_packed_group_bytes(dtype, inputs);
    const uint32_t lane = row % PS_GROUP_ROWS;
    if (ps_dtype_is_quantised(dtype)) {
        for (uint32_t b = 0; b < inputs / PS_BLOCK_COLUMNS; b++) {
            const ps_block_row block = ps_block_row_get(dtype, group, b, lane);
            unpack_block(out + (size_t)b * PS_BLOCK_COLUMNS, &block, ps_dtype_has_min(dtype));
        }
        return;
    }
    for (size_t i = 0; i < inputs; i++) {
        const size_t index = i * PS_GROUP_ROWS + lane;
        out[i] = dtype == PS_DTYPE_F32   ? ps_f32_from_bits(ps_load_u32(group + index * 4))
                 : dtype == PS_DTYPE_F16 ? ps_f16_to_f32(ps_load_u16(group + index * 2))
                                         : ps_bf16_to_f32(ps_load_u16(group + index * 2));
    }
}
