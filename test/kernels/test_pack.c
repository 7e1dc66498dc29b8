// Goal: packing loses nothing, pads with zeros and writes nothing else, for every weight dtype.
// Method: random and extreme file blocks are packed and unpacked; the oracle reads one value
// straight from the file's block format, column by column, and shares no code with pack.c.
#include "kernels/pack.h"

#include "gen.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define GUARD_BYTES 64

static const ps_dtype DTYPES[] = {PS_DTYPE_F32,  PS_DTYPE_F16,  PS_DTYPE_BF16, PS_DTYPE_Q4_0,
                                  PS_DTYPE_Q4_1, PS_DTYPE_Q5_0, PS_DTYPE_Q5_1, PS_DTYPE_Q8_0,
                                  PS_DTYPE_Q4_K, PS_DTYPE_Q5_K, PS_DTYPE_Q6_K};
#define DTYPE_COUNT (sizeof DTYPES / sizeof DTYPES[0])

static unsigned u16_at(const uint8_t *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static float half_value(const uint8_t *p)
{
    const unsigned bits = u16_at(p);
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) {
        return fraction != 0 ? NAN : sign * INFINITY;
    }
    return exponent == 0 ? sign * ldexpf((float)fraction, -24)
                         : sign * ldexpf((float)(fraction + 1024), exponent - 25);
}

static int nibble(const uint8_t *bytes, int column)
{
    return column < 16 ? bytes[column] % 16 : bytes[column - 16] / 16;
}

static int bit(const uint8_t *bytes, int index)
{
    return bytes[index / 8] >> index % 8 & 1;
}

// The six-bit scale (or min) of block b of a K format's twelve bytes.
static int k_scale(const uint8_t *s, int b)
{
    return b < 4 ? s[b] & 63 : (s[b + 4] & 15) + 16 * (s[b - 4] / 64);
}

static int k_min(const uint8_t *s, int b)
{
    return b < 4 ? s[b + 4] & 63 : s[b + 4] / 16 + 16 * (s[b] / 64);
}

static float k_value(const uint8_t *block, int column, int quant)
{
    const int b = column / 32;
    const float scale = half_value(block) * (float)k_scale(block + 4, b);
    const float min = half_value(block + 2) * (float)k_min(block + 4, b);
    return scale * (float)quant - min;
}

static float q6_k_value(const uint8_t *block, int column)
{
    const int half = column / 128;
    const int k = column % 128 / 32;
    const int l = column % 32;
    const uint8_t low_byte = block[half * 64 + k % 2 * 32 + l];
    const int low = k < 2 ? low_byte % 16 : low_byte / 16;
    const int high = block[128 + half * 32 + l] >> 2 * k & 3;
    const int scale = (int8_t)block[192 + column / 16];
    return half_value(block + 208) * (float)scale * (float)(low + 16 * high - 32);
}

static float file_value(ps_dtype dtype, const uint8_t *row, int column)
{
    const ps_dtype_info *info = ps_dtype_get(dtype);
    const uint8_t *block = row + (size_t)(column / (int)info->block_columns) * info->block_bytes;
    const int c = column % (int)info->block_columns;
    switch (dtype) {
    case PS_DTYPE_F32: {
        float value;
        memcpy(&value, block, sizeof value);
        return value;
    }
    case PS_DTYPE_F16:
        return half_value(block);
    case PS_DTYPE_BF16: {
        const uint8_t bytes[4] = {0, 0, block[0], block[1]};
        float value;
        memcpy(&value, bytes, sizeof value);
        return value;
    }
    case PS_DTYPE_Q4_0:
        return half_value(block) * (float)(nibble(block + 2, c) - 8);
    case PS_DTYPE_Q4_1:
        return half_value(block) * (float)nibble(block + 4, c) + half_value(block + 2);
    case PS_DTYPE_Q5_0:
        return half_value(block) * (float)(nibble(block + 6, c) + 16 * bit(block + 2, c) - 16);
    case PS_DTYPE_Q5_1:
        return half_value(block) * (float)(nibble(block + 8, c) + 16 * bit(block + 4, c)) +
               half_value(block + 2);
    case PS_DTYPE_Q8_0:
        return half_value(block) * (float)(int8_t)block[2 + c];
    case PS_DTYPE_Q4_K: {
        const uint8_t byte = block[16 + c / 64 * 32 + c % 32];
        return k_value(block, c, c % 64 < 32 ? byte % 16 : byte / 16);
    }
    case PS_DTYPE_Q5_K: {
        const uint8_t byte = block[48 + c / 64 * 32 + c % 32];
        const int high = block[16 + c % 32] >> c / 32 & 1;
        return k_value(block, c, (c % 64 < 32 ? byte % 16 : byte / 16) + 16 * high);
    }
    default:
        return q6_k_value(block, c);
    }
}

static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void fill(ps_gen *gen, uint8_t *bytes, size_t count, int kind)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = kind == 0 ? 0 : kind == 1 ? 0xff : (uint8_t)ps_gen_next(gen);
    }
}

static void check(ps_gen *gen, ps_dtype dtype, uint32_t outputs, uint32_t inputs, int kind)
{
    const size_t row_bytes = ps_dtype_row_bytes(dtype, inputs);
    const size_t group_bytes = ps_packed_group_bytes(dtype, inputs);
    const size_t packed_bytes = ps_packed_bytes(dtype, outputs, inputs);
    const uint32_t groups = (outputs + 15) / 16;
    uint8_t *file = malloc(row_bytes * outputs + 1);
    uint8_t *packed = malloc(packed_bytes + GUARD_BYTES);
    float *values = malloc(inputs * sizeof(float));
    assert_true(file != NULL && packed != NULL && values != NULL);
    uint8_t *rows = file + 1; // no alignment is promised
    fill(gen, rows, row_bytes * outputs, kind);
    memset(packed, 0xa5, packed_bytes + GUARD_BYTES);

    // Back to front and one by one, as workers may; the first two together.
    const uint32_t together = groups < 2 ? groups : 2;
    for (uint32_t g = groups; g > together; g--) {
        ps_pack_groups(packed + (g - 1) * group_bytes, rows, row_bytes, dtype, outputs, inputs,
                       g - 1, 1);
    }
    ps_pack_groups(packed, rows, row_bytes, dtype, outputs, inputs, 0, together);

    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(0xa5, packed[packed_bytes + i]);
    }
    for (uint32_t row = 0; row < groups * 16; row++) {
        ps_unpack_row(values, packed, dtype, inputs, row);
        for (uint32_t i = 0; i < inputs; i++) {
            const float want = row < outputs ? file_value(dtype, rows + row * row_bytes, (int)i)
                                             : 0.0f;
            if (!same(want, values[i]) && !(row >= outputs && values[i] == 0.0f)) {
                fail_msg("%s [%u, %u]: row %u column %u is %a, not %a", ps_dtype_get(dtype)->name,
                         outputs, inputs, row, i, (double)values[i], (double)want);
            }
        }
    }
    free(values);
    free(packed);
    free(file);
}

static void test_rows_come_back(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        const uint32_t unit = ps_dtype_get(DTYPES[d])->block_columns;
        for (int kind = 0; kind < 6; kind++) {
            check(&gen, DTYPES[d], 1, unit, kind);
            check(&gen, DTYPES[d], 16, 3 * unit, kind);
            check(&gen, DTYPES[d], (uint32_t)ps_gen_range(&gen, 1, 70),
                  unit * (uint32_t)ps_gen_range(&gen, 1, 12), kind);
        }
        check(&gen, DTYPES[d], 33, 2304, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
