// ctest-labels: kernel
// Goal: every linear kernel of every ISA that this CPU has gives the reference's bits, and the
// reference gives the contract's values.
// Method: packed weights and q8 rows of random and extreme bytes. The oracle for ref dequantises
// with ps_unpack_row (which test_pack holds against the file formats) and sums in double.
#include "kernels/kernels.h"
#include "kernels/pack.h"
#include "kernels/q8_tile.h"

#include "gen.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS_MAX 64
#define GROUPS_MAX 5
#define INPUTS_MAX 2304
#define GUARD 16 // floats behind each output row

// How the bytes of a case are chosen.
enum kind {
    ORDINARY,   // scales as models have them, random quants and activations
    EXTREME,    // all quants and activations at an end of their range
    ZERO_SCALE, // d of +0 and -0
    SPECIAL,    // scales with infinities, NaNs, subnormals
    RANDOM,     // every byte of the weights random
    QUIET,      // activations all zero
    KIND_COUNT,
};

typedef struct linear_case {
    ps_dtype dtype;
    uint32_t inputs;
    uint32_t groups;
    uint32_t tokens;
    enum kind kind;
    ps_linear_hints hints; // which must not matter
} linear_case;

typedef struct linear_data {
    uint8_t *w;
    uint8_t *x[TOKENS_MAX];
    float *y[2][TOKENS_MAX];
} linear_data;

static const ps_dtype DTYPES[] = {PS_DTYPE_Q4_0, PS_DTYPE_Q4_1, PS_DTYPE_Q5_0, PS_DTYPE_Q5_1,
                                  PS_DTYPE_Q8_0, PS_DTYPE_Q4_K, PS_DTYPE_Q5_K, PS_DTYPE_Q6_K,
                                  PS_DTYPE_F32,  PS_DTYPE_F16,  PS_DTYPE_BF16};
#define DTYPE_COUNT (sizeof DTYPES / sizeof DTYPES[0])

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(memory);
    return memory;
}

static uint16_t half_scale(ps_gen *gen, enum kind kind)
{
    static const uint16_t SPECIALS[] = {0x7c00, 0xfc00, 0x7e00, 0x7d01, 0x0001,
                                        0x83ff, 0x7bff, 0xfbff, 0x0000, 0x8000};
    const uint16_t sign = (uint16_t)(ps_gen_next(gen) & 0x8000);
    switch (kind) {
    case ZERO_SCALE:
        return sign;
    case SPECIAL:
        if (ps_gen_range(gen, 0, 3) == 0) {
            return SPECIALS[ps_gen_range(gen, 0, 9)];
        }
        return (uint16_t)(sign | ps_gen_range(gen, 0x1000, 0x4000));
    default: // about 2^-11 to 2^1
        return (uint16_t)(sign | ps_gen_range(gen, 0x1000, 0x4000));
    }
}

static void fill_random(ps_gen *gen, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)ps_gen_next(gen);
    }
}

// Any bytes are valid quants; scales are written over the f16 places that layout.h names.
static void fill_quantised(ps_gen *gen, const linear_case *c, uint8_t *w)
{
    const ps_packed_format *format = ps_packed_format_get(c->dtype);
    const size_t group_bytes = ps_packed_group_bytes(c->dtype, c->inputs);
    fill_random(gen, w, group_bytes * c->groups);
    if (c->kind == RANDOM) {
        return;
    }
    const uint32_t units = c->inputs / format->unit_columns;
    const bool two = c->dtype == PS_DTYPE_Q4_1 || c->dtype == PS_DTYPE_Q5_1 ||
                     c->dtype == PS_DTYPE_Q4_K || c->dtype == PS_DTYPE_Q5_K;
    for (uint32_t g = 0; g < c->groups; g++) {
        uint8_t *group = w + g * group_bytes;
        const size_t quants_bytes = (size_t)format->unit_columns / 32 * format->block_bytes;
        if (c->kind == EXTREME) {
            memset(group, ps_gen_range(gen, 0, 1) != 0 ? 0xff : 0, group_bytes);
        }
        for (uint32_t u = 0; u < units; u++) {
            uint8_t *unit = group + u * (quants_bytes + format->scale_bytes);
            if (c->kind == EXTREME && c->dtype == PS_DTYPE_Q6_K) {
                memset(unit + 32, 0x80, 256);
            }
            for (uint32_t i = 0; i < (two ? 32u : 16u); i++) {
                const uint16_t half = half_scale(gen, c->kind);
                memcpy(unit + i * 2, &half, 2);
            }
        }
    }
}

static void fill_float(ps_gen *gen, const linear_case *c, uint8_t *w)
{
    const size_t count = (size_t)c->inputs * c->groups * 16;
    for (size_t i = 0; i < count; i++) {
        const bool odd = c->kind == SPECIAL && ps_gen_range(gen, 0, 200) == 0;
        const float value = ps_gen_float(gen);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (c->dtype == PS_DTYPE_F32) {
            bits = odd || c->kind == RANDOM ? (uint32_t)ps_gen_next(gen) : bits;
            memcpy(w + i * 4, &bits, 4);
            continue;
        }
        uint16_t half = c->dtype == PS_DTYPE_BF16 ? (uint16_t)(bits >> 16)
                                                  : (uint16_t)(ps_gen_next(gen) & 0xbfff);
        half = odd || c->kind == RANDOM ? (uint16_t)ps_gen_next(gen) : half;
        memcpy(w + i * 2, &half, 2);
    }
}

static int8_t activation(ps_gen *gen, enum kind kind)
{
    switch (kind) {
    case EXTREME:
        return ps_gen_range(gen, 0, 15) == 0 ? -127 : 127;
    case QUIET:
        return 0;
    default:
        return (int8_t)ps_gen_range(gen, -127, 127);
    }
}

static void fill_q8_row(ps_gen *gen, const linear_case *c, uint8_t *row)
{
    const uint32_t blocks = c->inputs / 32;
    for (uint32_t b = 0; b < blocks; b++) {
        int16_t sums[2] = {0, 0};
        for (uint32_t i = 0; i < 32; i++) {
            const int8_t q = activation(gen, c->kind);
            row[b * 32 + i] = (uint8_t)q;
            sums[i / 16] = (int16_t)(sums[i / 16] + q);
        }
        float d = ps_gen_float(gen);
        d = c->kind == SPECIAL && ps_gen_range(gen, 0, 20) == 0 ? NAN : d;
        const float ds = d * (float)(sums[0] + sums[1]);
        memcpy(row + c->inputs + b * 4, &d, 4);
        memcpy(row + c->inputs + blocks * 4 + b * 4, &ds, 4);
        memcpy(row + c->inputs + blocks * 8 + b * 4, sums, 4);
    }
}

static void data_create(ps_gen *gen, const linear_case *c, linear_data *data)
{
    const bool quantised = ps_dtype_is_quantised(c->dtype);
    data->w = allocate(ps_packed_group_bytes(c->dtype, c->inputs) * c->groups);
    if (quantised) {
        fill_quantised(gen, c, data->w);
    } else {
        fill_float(gen, c, data->w);
    }
    for (uint32_t t = 0; t < c->tokens; t++) {
        if (quantised) {
            data->x[t] = allocate(ps_q8_row_bytes(c->inputs));
            fill_q8_row(gen, c, data->x[t]);
        } else {
            float *row = allocate(c->inputs * sizeof(float));
            for (uint32_t i = 0; i < c->inputs; i++) {
                row[i] = c->kind == QUIET ? 0.0f : ps_gen_float(gen);
            }
            data->x[t] = (uint8_t *)row;
        }
        for (int k = 0; k < 2; k++) {
            data->y[k][t] = allocate((c->groups * 16 + GUARD) * sizeof(float));
            memset(data->y[k][t], 0x5a, (c->groups * 16 + GUARD) * sizeof(float));
        }
    }
}

static void data_destroy(const linear_case *c, linear_data *data)
{
    free(data->w);
    for (uint32_t t = 0; t < c->tokens; t++) {
        free(data->x[t]);
        free(data->y[0][t]);
        free(data->y[1][t]);
    }
}

static void run(const ps_kernels *kernels, const linear_case *c, linear_data *data, int which)
{
    const void *const *rows = (const void *const *)data->x;
    const void *tiles[TOKENS_MAX];
    const bool quantised = ps_dtype_is_quantised(c->dtype);
    void *memory = NULL;
    if (quantised) {
        memory = allocate(ps_q8_tiles_bytes(c->tokens, c->inputs));
        ps_q8_tiles_pack(tiles, memory, rows, c->tokens, c->inputs);
    }
    const ps_linear args = {.y = data->y[which],
                            .w = data->w,
                            .group_count = c->groups,
                            .inputs = c->inputs,
                            .tokens = c->tokens,
                            .x = quantised ? tiles : rows,
                            .hints = c->hints};
    ps_kernels_linear(kernels, c->dtype)(&args);
    free(memory);
}

static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void check_case(ps_gen *gen, const ps_kernels *ref, const ps_kernels *kernels,
                       const linear_case *c)
{
    linear_data data;
    data_create(gen, c, &data);
    run(ref, c, &data, 0);
    run(kernels, c, &data, 1);
    for (uint32_t t = 0; t < c->tokens; t++) {
        for (uint32_t o = 0; o < c->groups * 16 + GUARD; o++) {
            if (!same(data.y[0][t][o], data.y[1][t][o])) {
                fail_msg("%s %s inputs %u groups %u tokens %u kind %d: y[%u][%u] is %a, not %a",
                         kernels->isa, ps_dtype_get(c->dtype)->name, c->inputs, c->groups,
                         c->tokens, (int)c->kind, t, o, (double)data.y[1][t][o],
                         (double)data.y[0][t][o]);
            }
        }
    }
    data_destroy(c, &data);
}

static void check_isa(const char *isa)
{
    static const uint32_t INPUTS[] = {1, 2, 3, 5, 8, 18, 24, 33}; // in units of 32 columns
    ps_kernels ref;
    ps_kernels kernels;
    assert_int_equal(PS_OK, ps_kernels_for("ref", &ref));
    if (ps_kernels_for(isa, &kernels) != PS_OK) {
        printf("skipped: this CPU has no %s\n", isa);
        skip();
    }
    ps_gen gen = ps_gen_start();
    for (size_t d = 0; d < DTYPE_COUNT; d++) {
        const uint32_t unit = ps_dtype_get(DTYPES[d])->block_columns;
        for (int kind = 0; kind < KIND_COUNT; kind++) {
            for (uint32_t tokens = 1; tokens <= 33; tokens++) {
                const uint32_t columns = unit == 1 ? (uint32_t)ps_gen_range(&gen, 1, 100)
                                                   : INPUTS[ps_gen_range(&gen, 0, 7)] *
                                                         (unit == 256 ? 256 : 32);
                const linear_case c = {
                    DTYPES[d],
                    columns < INPUTS_MAX ? columns : INPUTS_MAX,
                    (uint32_t)ps_gen_range(&gen, 1, GROUPS_MAX),
                    tokens,
                    kind,
                    {(ps_prefetch)ps_gen_range(&gen, 0, 2), (ps_prefetch)ps_gen_range(&gen, 0, 2)}};
                check_case(&gen, &ref, &kernels, &c);
            }
        }
        check_case(&gen, &ref, &kernels, &(linear_case){DTYPES[d], 256, 4, 64, ORDINARY, {0}});
        check_case(&gen, &ref, &kernels, &(linear_case){DTYPES[d], 2304, 3, 1, ORDINARY, {0}});
    }
}

static void test_avx2_equals_ref(void **state)
{
    (void)state;
    check_isa("avx2");
}

static void test_avx512_equals_ref(void **state)
{
    (void)state;
    check_isa("avx512");
}

static double x_value(const linear_case *c, const uint8_t *row, uint32_t i)
{
    if (!ps_dtype_is_quantised(c->dtype)) {
        return (double)((const float *)(const void *)row)[i];
    }
    float d;
    memcpy(&d, row + c->inputs + i / 32 * 4, sizeof d);
    return (double)d * (int8_t)row[i];
}

// Each output is within the rounding of a chain of the exact sum of the dequantised products.
static void test_ref_is_the_product(void **state)
{
    (void)state;
    ps_kernels ref;
    assert_int_equal(PS_OK, ps_kernels_for("ref", &ref));
    ps_gen gen = ps_gen_start();
    for (size_t k = 0; k < DTYPE_COUNT; k++) {
        const linear_case c = {DTYPES[k], 512, 2, 11, ORDINARY, {0}};
        linear_data data;
        data_create(&gen, &c, &data);
        run(&ref, &c, &data, 0);
        for (uint32_t o = 0; o < c.groups * 16; o++) {
            float weights[512];
            ps_unpack_row(weights, data.w, c.dtype, c.inputs, o);
            for (uint32_t t = 0; t < c.tokens; t++) {
                double sum = 0;
                double size = 0;
                for (uint32_t i = 0; i < c.inputs; i++) {
                    const double product = (double)weights[i] * x_value(&c, data.x[t], i);
                    sum += product;
                    size += fabs(product);
                }
                // A format with mins cancels: the chain's terms may exceed the products.
                const double bound = (size * 64 + 1e-3) * c.inputs * 0x1p-24;
                if (!(fabs((double)data.y[0][t][o] - sum) <= bound)) {
                    fail_msg("%s output %u token %u: %g, not %g within %g",
                             ps_dtype_get(c.dtype)->name, o, t, (double)data.y[0][t][o], sum,
                             bound);
                }
            }
        }
        data_destroy(&c, &data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref_is_the_product),
        cmocka_unit_test(test_avx2_equals_ref),
        cmocka_unit_test(test_avx512_equals_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
