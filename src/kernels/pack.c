// kernels/pack.c - transposes rows of file blocks into groups of 16 rows (base/layout.h).
//
// A group is a transpose of 4-byte words, or nearly so. Four rows are taken at a time: sixteen
// bytes of each become four vectors of one word a row, and nibbles and bits are regrouped in those.
// Units are walked in chunks that keep the scattered writes in L1 while rows are still read in long
// runs.
#include "kernels/pack.h"

#include "kernels/half.h"
#include "kernels/packed_block.h"

#include <emmintrin.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define CHUNK_COLUMNS 1024
#define FILE_UNIT_BYTES_MAX 210
#define ROWS 4 // taken at a time

// One word of each of four rows.
typedef uint32_t words __attribute__((vector_size(16)));

// Moves one unit of four rows, `row` the first: `file` are its places there, blocks and scales
// those in the group.
typedef void pack_unit_fn(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                          uint32_t row);

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

static inline void put_words(uint8_t *block, uint32_t g, uint32_t row, words w)
{
    memcpy(block + g * 64 + row * 4, &w, sizeof w);
}

static inline void put_halves(uint8_t *scales, uint32_t row, const uint8_t *const *file,
                              uint32_t offset)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        memcpy(scales + (row + i) * 2, file[i] + offset, 2);
    }
}

static inline words load_word(const uint8_t *const *file, uint32_t offset)
{
    return (words){ps_load_u32(file[0] + offset), ps_load_u32(file[1] + offset),
                   ps_load_u32(file[2] + offset), ps_load_u32(file[3] + offset)};
}

// out[g] = word g of the sixteen bytes at `offset`.
static inline void load_words(words out[4], const uint8_t *const *file, uint32_t offset)
{
    __m128i v[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        v[i] = _mm_loadu_si128((const __m128i *)(const void *)(file[i] + offset));
    }
    const __m128i low01 = _mm_unpacklo_epi32(v[0], v[1]);
    const __m128i low23 = _mm_unpacklo_epi32(v[2], v[3]);
    const __m128i high01 = _mm_unpackhi_epi32(v[0], v[1]);
    const __m128i high23 = _mm_unpackhi_epi32(v[2], v[3]);
    out[0] = (words)_mm_unpacklo_epi64(low01, low23);
    out[1] = (words)_mm_unpackhi_epi64(low01, low23);
    out[2] = (words)_mm_unpacklo_epi64(high01, high23);
    out[3] = (words)_mm_unpackhi_epi64(high01, high23);
}

// Byte i of each row's word goes to scales[i * 16 + row].
static inline void put_bytes(uint8_t *scales, uint32_t row, words w)
{
    const __m128i low = _mm_packs_epi32((__m128i)(w & 255), (__m128i)(w >> 8 & 255));
    const __m128i high = _mm_packs_epi32((__m128i)(w >> 16 & 255), (__m128i)(w >> 24));
    const words bytes = (words)_mm_packus_epi16(low, high);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t four_rows = bytes[i];
        memcpy(scales + (size_t)i * 16 + row, &four_rows, sizeof four_rows);
    }
}

static inline void pack_f32(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                            uint32_t row)
{
    (void)scales;
    put_words(blocks, 0, row, load_word(file, 0));
}

static inline void pack_f16(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                            uint32_t row)
{
    (void)scales;
    put_halves(blocks, row, file, 0);
}

static inline void pack_words(uint8_t *block, const uint8_t *const *file, uint32_t offset,
                              uint32_t row)
{
    words w[4];
    load_words(w, file, offset);
    for (uint32_t g = 0; g < 4; g++) {
        put_words(block, g, row, w[g]);
    }
}

static inline void pack_q8_0(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                             uint32_t row)
{
    put_halves(scales, row, file, 0);
    for (uint32_t half = 0; half < 2; half++) {
        words w[4];
        load_words(w, file, 2 + half * 16);
        for (uint32_t g = 0; g < 4; g++) {
            put_words(blocks, half * 4 + g, row, w[g] ^ 0x80808080u);
        }
    }
}

static inline void pack_q4_0(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                             uint32_t row)
{
    put_halves(scales, row, file, 0);
    pack_words(blocks, file, 2, row);
}

static inline void pack_q4_1(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                             uint32_t row)
{
    put_halves(scales, row, file, 0);
    put_halves(scales + 32, row, file, 2);
    pack_words(blocks, file, 4, row);
}

// Exchanges two bits of every bit's index: mask holds the bits where the lower index bit is 1 and
// the upper is 0, distance is the difference of their weights.
static inline words exchange_index_bits(words x, uint32_t mask, int distance)
{
    const words t = (x ^ x >> distance) & mask;
    return x ^ t ^ t << distance;
}

// Bit 4g + j goes to bit 8j + g: the index g2 g1 g0 j1 j0 becomes j1 j0 g2 g1 g0.
static inline words transpose_high_bits(words x)
{
    x = exchange_index_bits(x, 0x0000ccccu, 14); // j1 g1 g0 g2 j0
    x = exchange_index_bits(x, 0x00aa00aau, 7);  // j1 j0 g0 g2 g1
    x = exchange_index_bits(x, 0x0c0c0c0cu, 2);  // j1 j0 g2 g0 g1
    return exchange_index_bits(x, 0x22222222u, 1);
}

static inline void pack_q5_0(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                             uint32_t row)
{
    put_halves(scales, row, file, 0);
    put_words(blocks, 0, row, transpose_high_bits(load_word(file, 2)));
    pack_words(blocks + 64, file, 6, row);
}

static inline void pack_q5_1(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                             uint32_t row)
{
    put_halves(scales, row, file, 0);
    put_halves(scales + 32, row, file, 2);
    put_words(blocks, 0, row, transpose_high_bits(load_word(file, 4)));
    pack_words(blocks + 64, file, 8, row);
}

// The K formats keep two blocks in 32 bytes, one in the low nibbles and one in the high ones; a
// packed block keeps its own two halves so.
static inline void pack_nibble_pair(uint8_t *low_block, uint8_t *high_block,
                                    const uint8_t *const *file, uint32_t offset, uint32_t row)
{
    words left[4];
    words right[4];
    load_words(left, file, offset);
    load_words(right, file, offset + 16);
    for (uint32_t g = 0; g < 4; g++) {
        put_words(low_block, g, row, (left[g] & 0x0f0f0f0fu) | (right[g] & 0x0f0f0f0fu) << 4);
        put_words(high_block, g, row, (left[g] >> 4 & 0x0f0f0f0fu) | (right[g] & 0xf0f0f0f0u));
    }
}

// The twelve bytes of six-bit scales and mins: blocks 0-3 have theirs whole in the first eight
// bytes, blocks 4-7 their low nibbles in the last four and their high bits atop the first eight.
static inline void pack_k_scales(uint8_t *scales, const uint8_t *const *file, uint32_t row)
{
    put_halves(scales, row, file, 0);
    put_halves(scales + 32, row, file, 2);
    words w[4]; // d and dmin, then the twelve bytes
    load_words(w, file, 0);
    put_bytes(scales + 64, row, (w[1] & 0x0f0f0f0fu) | (w[2] & 0x0f0f0f0fu) << 4);
    put_bytes(scales + 128, row, w[3]);

    const words high03 = (w[1] >> 4 & 0x03030303u) | (w[2] >> 2 & 0x0c0c0c0cu);
    const words high47 = (w[1] >> 6 & 0x03030303u) | (w[2] >> 4 & 0x0c0c0c0cu);
    // An even block's four bits below, the odd block's above: bytes 0 and 2 of each.
    const words pairs01 = high03 | high03 >> 4;
    const words pairs23 = high47 | high47 >> 4;
    put_bytes(scales + 192, row,
              (pairs01 & 0xff) | (pairs01 >> 8 & 0xff00) | (pairs23 & 0xff) << 16 |
                  (pairs23 << 8 & 0xff000000u));
}

static inline void pack_q4_k(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                             uint32_t row)
{
    pack_k_scales(scales, file, row);
    for (uint32_t p = 0; p < 4; p++) {
        uint8_t *pair = blocks + (size_t)p * 2 * 256;
        pack_nibble_pair(pair, pair + 256, file, 16 + p * 32, row);
    }
}

static inline void pack_q5_k(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                             uint32_t row)
{
    pack_k_scales(scales, file, row);
    for (uint32_t p = 0; p < 4; p++) {
        uint8_t *pair = blocks + 64 + (size_t)p * 2 * 320;
        pack_nibble_pair(pair, pair + 320, file, 48 + p * 32, row);
    }
    // In the file, bit b of byte `column` belongs to block b.
    words high[8];
    load_words(high, file, 16);
    load_words(high + 4, file, 32);
    for (uint32_t b = 0; b < 8; b++) {
        words word = {0};
        for (uint32_t g = 0; g < 8; g++) {
            word |= (high[g] >> b & 0x01010101u) << g;
        }
        put_words(blocks + (size_t)b * 320, 0, row, word);
    }
}

// Two bits of a byte of high bits belong to each of the four blocks of a half of 128 columns.
static inline void pack_q6_k_high(uint8_t *blocks, const uint8_t *const *file, uint32_t offset,
                                  uint32_t row)
{
    for (uint32_t h = 0; h < 2; h++) {
        words high[4];
        load_words(high, file, offset + 16 * h);
        for (uint32_t b = 0; b < 4; b++) {
            words word = {0};
            for (uint32_t g = 0; g < 4; g++) {
                word |= (high[g] >> 2 * b & 0x03030303u) << 2 * g;
            }
            put_words(blocks + (size_t)b * 384, h, row, word);
        }
    }
}

static inline void pack_q6_k(uint8_t *blocks, uint8_t *scales, const uint8_t *const *file,
                             uint32_t row)
{
    put_halves(scales, row, file, 208);
    words sub_scales[4];
    load_words(sub_scales, file, 192);
    for (uint32_t i = 0; i < 4; i++) {
        put_bytes(scales + 32 + (size_t)i * 64, row, sub_scales[i]);
    }
    for (uint32_t half = 0; half < 2; half++) {
        uint8_t *first = blocks + (size_t)half * 4 * 384;
        pack_q6_k_high(first, file, 128 + half * 32, row);
        // Blocks k and k + 2 share bytes of low nibbles.
        uint8_t *low = first + 128;
        pack_nibble_pair(low, low + 768, file, half * 64, row);
        pack_nibble_pair(low + 384, low + 1152, file, half * 64 + 32, row);
    }
}

static ALWAYS_INLINE void pack_chunk(const pack_job *job, uint64_t group, uint32_t first,
                                     uint32_t end, unit_shape shape, pack_unit_fn *pack_unit)
{
    const size_t unit_bytes = shape.block_bytes + shape.scale_bytes;
    uint8_t *out = job->out + group * (job->inputs / shape.columns) * unit_bytes;
    for (uint32_t row = 0; row < PS_GROUP_ROWS; row += ROWS) {
        const uint8_t *file[ROWS];
        size_t step[ROWS];
        for (uint32_t i = 0; i < ROWS; i++) {
            const uint64_t file_row = (job->first_group + group) * PS_GROUP_ROWS + row + i;
            const bool present = file_row < job->outputs;
            file[i] = present ? job->rows + file_row * job->row_bytes +
                                    (uint64_t)first * shape.file_bytes
                              : ZEROS;
            step[i] = present ? shape.file_bytes : 0;
        }
        for (uint64_t unit = first; unit < end; unit++) {
            uint8_t *scales = out + unit * unit_bytes;
            pack_unit(scales + shape.scale_bytes, scales, file, row);
            for (uint32_t i = 0; i < ROWS; i++) {
                file[i] += step[i];
            }
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
void ps_pack_groups(void *out, const void *rows, uint64_t row_bytes, ps_dtype dtype,
                    uint64_t outputs, uint32_t inputs, uint64_t first_group, uint64_t group_count)
{
    const pack_job job = {out, rows, outputs, row_bytes, first_group, group_count, inputs};
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
