// ctest-labels: kernel
// Goal: the linears of float weights follow the contract bit for bit on every ISA, for all that
// f32, f16 and bf16 can hold: NaNs, infinities, subnormals, overflow, cancellation, signed zeros.
// Method: the oracle is the contract's chain of fma in its own words, over weights that it converts
// itself through double; shapes walk every tile of groups and tokens, and every tail.
#include "kernels/kernels.h"

#include "gen.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define GROUPS_MAX 9
#define TOKENS_MAX 9
#define INPUTS_MAX 70
#define GUARD 16 // floats behind each output row

typedef struct format {
    ps_dtype dtype;
    int exponent_bits;
    int fraction_bits;
} format;

static const format FORMATS[] = {
    {PS_DTYPE_F32, 8, 23}, {PS_DTYPE_F16, 5, 10}, {PS_DTYPE_BF16, 8, 7}};
#define FORMAT_COUNT (sizeof FORMATS / sizeof FORMATS[0])

// How the bits of numbers are chosen.
enum kind {
    NEAR_ONE,  // of ordinary size
    SUBNORMAL, // below the smallest normal number, zeros of both signs among them
    HUGE_SIZE, // the largest exponents: sums overflow and cancel to NaN
    ANY,       // any bits
    KIND_COUNT,
};

typedef struct shape {
    uint32_t inputs;
    uint32_t groups;
    uint32_t tokens;
} shape;

// Static: the largest case is some hundred kilobytes.
static uint32_t weight_bits[GROUPS_MAX * INPUTS_MAX * PS_GROUP_ROWS];
static uint8_t packed[sizeof weight_bits] __attribute__((aligned(64)));
static float inputs_of[TOKENS_MAX][INPUTS_MAX];
static float outputs_of[TOKENS_MAX][GROUPS_MAX * PS_GROUP_ROWS + GUARD];

static uint32_t bits_of_kind(ps_gen *gen, const format *f, enum kind kind)
{
    const uint32_t exponent_max = (1u << f->exponent_bits) - 1;
    uint32_t exponent = 0;
    switch (kind) {
    case NEAR_ONE:
        exponent = exponent_max / 2 + (uint32_t)ps_gen_range(gen, -2, 2);
        break;
    case SUBNORMAL:
        exponent = (uint32_t)ps_gen_range(gen, 0, 1);
        break;
    case HUGE_SIZE:
        exponent = exponent_max - (uint32_t)ps_gen_range(gen, ps_gen_range(gen, 0, 9) == 0, 3);
        break;
    default:
        exponent = (uint32_t)ps_gen_range(gen, 0, exponent_max);
    }
    const uint32_t fraction_mask = (1u << f->fraction_bits) - 1;
    const uint32_t fraction = ps_gen_range(gen, 0, 3) == 0
                                  ? 0
                                  : (uint32_t)ps_gen_next(gen) & fraction_mask;
    const uint32_t sign = (uint32_t)ps_gen_range(gen, 0, 1);
    return (sign << f->exponent_bits | exponent) << f->fraction_bits | fraction;
}

// The value of a number by its fields; every format's values are exact in double and in float.
static float value_of(const format *f, uint32_t bits)
{
    const uint32_t exponent_max = (1u << f->exponent_bits) - 1;
    const uint32_t exponent = bits >> f->fraction_bits & exponent_max;
    const uint32_t fraction = bits & ((1u << f->fraction_bits) - 1);
    const bool negative = bits >> (f->fraction_bits + f->exponent_bits) & 1;
    double value;
    if (exponent == exponent_max) {
        value = fraction != 0 ? (double)NAN : (double)INFINITY;
    } else {
        const int bias = (int)(exponent_max / 2) + f->fraction_bits;
        value = exponent == 0
                    ? ldexp(fraction, 1 - bias)
                    : ldexp(fraction + (double)(1u << f->fraction_bits), (int)exponent - bias);
    }
    return (float)(negative ? -value : value);
}

static void fill(ps_gen *gen, const format *f, const shape *s, enum kind kind)
{
    static const format F32 = {PS_DTYPE_F32, 8, 23};
    const size_t count = (size_t)s->groups * s->inputs * PS_GROUP_ROWS;
    for (size_t i = 0; i < count; i++) {
        // One odd number in a hundred, so that most outputs of ANY are still numbers.
        const bool odd = kind == ANY && ps_gen_range(gen, 0, 99) == 0;
        weight_bits[i] = bits_of_kind(gen, f, odd || kind != ANY ? kind : NEAR_ONE);
        if (f->dtype == PS_DTYPE_F32) {
            memcpy(packed + i * 4, &weight_bits[i], 4);
        } else {
            const uint16_t half = (uint16_t)weight_bits[i];
            memcpy(packed + i * 2, &half, 2);
        }
    }
    for (uint32_t t = 0; t < s->tokens; t++) {
        for (uint32_t i = 0; i < s->inputs; i++) {
            const bool odd = kind == ANY && ps_gen_range(gen, 0, 99) == 0;
            const enum kind own = kind == HUGE_SIZE || odd ? kind : NEAR_ONE;
            const uint32_t bits = bits_of_kind(gen, &F32, own);
            memcpy(&inputs_of[t][i], &bits, sizeof bits);
        }
    }
    memset(outputs_of, 0x5a, sizeof outputs_of);
}

static float expected(const format *f, const shape *s, uint32_t output, uint32_t token)
{
    const uint32_t *group = weight_bits +
                            (size_t)(output / PS_GROUP_ROWS) * s->inputs * PS_GROUP_ROWS;
    float acc = 0;
    for (uint32_t i = 0; i < s->inputs; i++) {
        const uint32_t bits = group[i * PS_GROUP_ROWS + output % PS_GROUP_ROWS];
        acc = fmaf(value_of(f, bits), inputs_of[token][i], acc);
    }
    return acc;
}

static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void check_case(const ps_kernels *kernels, const format *f, const shape *s)
{
    float *y[TOKENS_MAX];
    const void *x[TOKENS_MAX];
    for (uint32_t t = 0; t < s->tokens; t++) {
        y[t] = outputs_of[t];
        x[t] = inputs_of[t];
    }
    const ps_linear args = {.y = y,
                            .w = packed,
                            .group_count = s->groups,
                            .inputs = s->inputs,
                            .tokens = s->tokens,
                            .x = x};
    ps_kernels_linear(kernels, f->dtype)(&args);

    float untouched;
    memset(&untouched, 0x5a, sizeof untouched);
    for (uint32_t t = 0; t < TOKENS_MAX; t++) {
        for (uint32_t o = 0; o < GROUPS_MAX * PS_GROUP_ROWS + GUARD; o++) {
            const bool written = t < s->tokens && o < s->groups * PS_GROUP_ROWS;
            const float right = written ? expected(f, s, o, t) : untouched;
            if (!same(outputs_of[t][o], right)) {
                fail_msg("%s %s inputs %u groups %u tokens %u: y[%u][%u] is %a, not %a",
                         kernels->isa, ps_dtype_get(f->dtype)->name, s->inputs, s->groups,
                         s->tokens, t, o, (double)outputs_of[t][o], (double)right);
            }
        }
    }
}

static void check_isa(const char *isa)
{
    ps_kernels kernels;
    if (ps_kernels_for(isa, &kernels) != PS_OK) {
        printf("skipped: this CPU has no %s\n", isa);
        skip();
    }
    ps_gen gen = ps_gen_start();
    for (size_t k = 0; k < FORMAT_COUNT; k++) {
        for (uint32_t groups = 1; groups <= GROUPS_MAX; groups++) {
            for (uint32_t tokens = 1; tokens <= TOKENS_MAX; tokens++) {
                const enum kind kind = (enum kind)((groups + tokens) % KIND_COUNT);
                const shape s = {(uint32_t)ps_gen_range(&gen, 1, INPUTS_MAX), groups, tokens};
                fill(&gen, &FORMATS[k], &s, kind);
                check_case(&kernels, &FORMATS[k], &s);
            }
        }
    }
}

static void test_ref(void **state)
{
    (void)state;
    check_isa("ref");
}

static void test_avx2(void **state)
{
    (void)state;
    check_isa("avx2");
}

static void test_avx512(void **state)
{
    (void)state;
    check_isa("avx512");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref),
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
