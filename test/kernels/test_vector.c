// ctest-labels: kernel
// ctest-links: m
// Goal: every kernel that works along a row gives the reference's bits on every ISA, keeps to its
// row, and the reference gives the contract's values.
// Method: rows of 1..200 values (and some long ones) of ordinary, wide and special numbers, placed
// off alignment and with guards behind; NaNs count as equal. The oracle sums in double with libm.
#include "kernels/half.h"
#include "kernels/kernels.h"

#include "gen.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH_MAX 2240
#define GUARD 32
#define GUARD_VALUE 12345.0f
#define HEADS_MAX 3

// How the numbers of a row are chosen.
enum kind {
    ORDINARY, // [-4, 4)
    WIDE,     // any finite exponent
    SPECIAL,  // ordinary, but every fourth is an infinity, a NaN, a denormal, a zero or huge
    RANDOM,   // any bits
    KIND_COUNT,
};

typedef struct row {
    float values[LENGTH_MAX + GUARD];
} row;

static ps_kernels REF;
static ps_kernels ISAS[2];
static int ISA_COUNT;

static float special_number(ps_gen *gen)
{
    static const uint32_t BITS[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x00000001,
                                    0x80000001, 0x007fffff, 0x00000000, 0x80000000, 0x7f7fffff,
                                    0xff7fffff, 0x00800000, 0x0d800000, 0x0d7fffff, 0x477ff000};
    return ps_f32_from_bits(BITS[ps_gen_range(gen, 0, sizeof BITS / sizeof BITS[0] - 1)]);
}

static float number(ps_gen *gen, enum kind kind)
{
    const uint32_t bits = (uint32_t)ps_gen_next(gen);
    switch (kind) {
    case WIDE:
        return ps_f32_from_bits((bits & 0x7f800000u) == 0x7f800000u ? bits & 0xbfffffffu : bits);
    case SPECIAL:
        return bits % 4 == 0 ? special_number(gen) : ps_gen_float(gen) * 4.0f;
    case RANDOM:
        return ps_f32_from_bits(bits);
    default:
        return ps_gen_float(gen) * 4.0f;
    }
}

static void fill(ps_gen *gen, row *out, uint32_t n, enum kind kind)
{
    for (uint32_t i = 0; i < n; i++) {
        out->values[i] = number(gen, kind);
    }
    for (uint32_t i = n; i < LENGTH_MAX + GUARD; i++) {
        out->values[i] = GUARD_VALUE;
    }
}

// Equal bits, all NaNs being one; guards included.
static void assert_same_row(const row *want, const row *is, const char *what, uint32_t n)
{
    for (uint32_t i = 0; i < LENGTH_MAX + GUARD; i++) {
        const float a = want->values[i];
        const float b = is->values[i];
        if ((isnan(a) && isnan(b)) || ps_f32_bits(a) == ps_f32_bits(b)) {
            continue;
        }
        fail_msg("%s, n = %u: element %u is %a, reference %a", what, n, i, (double)b, (double)a);
    }
}

// One call of a kernel under test: reads x and w, writes y, n values each.
typedef void call(const ps_kernels *kernels, float *y, const float *x, const float *w, uint32_t n);

static void call_rms_norm(const ps_kernels *k, float *y, const float *x, const float *w, uint32_t n)
{
    k->rms_norm(y, x, w, n, 1e-5f);
}
static void call_add(const ps_kernels *k, float *y, const float *x, const float *w, uint32_t n)
{
    k->add(y, x, w, n);
}
static void call_add_scaled(const ps_kernels *k, float *y, const float *x, const float *w,
                            uint32_t n)
{
    memcpy(y, w, n * sizeof *y);
    k->add_scaled(y, x, w[0], n);
}
static void call_scale(const ps_kernels *k, float *y, const float *x, const float *w, uint32_t n)
{
    k->scale(y, x, w[0], n);
}
static void call_silu(const ps_kernels *k, float *y, const float *x, const float *w, uint32_t n)
{
    k->silu_mul(y, x, w, n);
}
static void call_gelu(const ps_kernels *k, float *y, const float *x, const float *w, uint32_t n)
{
    k->gelu_mul(y, x, w, n);
}
static void call_softmax(const ps_kernels *k, float *y, const float *x, const float *w, uint32_t n)
{
    k->softmax(y, x, n);
}
static void call_softcap(const ps_kernels *k, float *y, const float *x, const float *w, uint32_t n)
{
    k->softcap(y, x, 30.0f, n);
}
static void call_merge(const ps_kernels *k, float *y, const float *x, const float *w, uint32_t n)
{
    // y is the running result: m, l and o; x the later chunk.
    if (n < 3) {
        return;
    }
    memcpy(y, w, n * sizeof *y);
    const float m = isnan(x[0]) ? 0.0f : x[0];
    y[0] = isnan(y[0]) ? 0.0f : y[0];
    k->attention_merge(&y[0], &y[1], y + 2, m, x[1], x + 2, n - 2);
}

static const struct {
    const char *name;
    call *call;
} CALLS[] = {
    {"rms_norm", call_rms_norm},     {"add", call_add},         {"scale", call_scale},
    {"add_scaled", call_add_scaled}, {"silu_mul", call_silu},   {"gelu_mul", call_gelu},
    {"softmax", call_softmax},       {"softcap", call_softcap}, {"attention_merge", call_merge},
};
#define CALL_COUNT (sizeof CALLS / sizeof CALLS[0])

static void compare_row(ps_gen *gen, uint32_t n, enum kind kind)
{
    static row x;
    static row w;
    static row want;
    static row is;
    const uint32_t shift = (uint32_t)ps_gen_range(gen, 0, 15);
    fill(gen, &x, n + shift, kind);
    fill(gen, &w, n + shift, kind);
    for (size_t c = 0; c < CALL_COUNT; c++) {
        fill(gen, &want, 0, kind);
        CALLS[c].call(&REF, want.values + shift, x.values + shift, w.values + shift, n);
        for (int i = 0; i < ISA_COUNT; i++) {
            fill(gen, &is, 0, kind);
            CALLS[c].call(&ISAS[i], is.values + shift, x.values + shift, w.values + shift, n);
            assert_same_row(&want, &is, CALLS[c].name, n);
        }
    }
}

static void test_rows_are_bit_equal(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        for (uint32_t n = 1; n <= 200; n++) {
            compare_row(&gen, n, kind);
        }
        for (int round = 0; round < 20; round++) {
            compare_row(&gen, (uint32_t)ps_gen_range(&gen, 201, LENGTH_MAX - 16), kind);
        }
    }
}

static void test_rows_may_alias(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static row x;
    static row w;
    static row want;
    static row is;
    for (uint32_t n = 1; n <= 200; n++) {
        fill(&gen, &x, n, ORDINARY);
        fill(&gen, &w, n, ORDINARY);
        for (size_t c = 0; c < CALL_COUNT; c++) {
            if (CALLS[c].call == call_merge || CALLS[c].call == call_add_scaled) {
                continue; // their output is an input already
            }
            fill(&gen, &want, 0, ORDINARY);
            CALLS[c].call(&REF, want.values, x.values, w.values, n);
            for (int i = 0; i < ISA_COUNT; i++) {
                is = x;
                CALLS[c].call(&ISAS[i], is.values, is.values, w.values, n);
                assert_same_row(&want, &is, CALLS[c].name, n);
            }
        }
    }
}

// |is - want| <= relative * |want| + absolute
static void assert_near(double is, double want, double relative, double absolute, const char *what)
{
    if (!(fabs(is - want) <= relative * fabs(want) + absolute)) {
        fail_msg("%s: %.9g, want %.9g", what, is, want);
    }
}

#define UNIT 0x1p-24 // half a unit in the last place, relative

static void check_norm_and_softmax(const row *x, const row *w, uint32_t n)
{
    static row y;
    double squares = 0;
    double max = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        squares += (double)x->values[i] * x->values[i];
        max = fmax(max, x->values[i]);
    }
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += exp(x->values[i] - max);
    }
    const double bound = (n / 64.0 + 24) * UNIT;
    REF.rms_norm(y.values, x->values, w->values, n, 1e-5f);
    for (uint32_t i = 0; i < n; i++) {
        const double want = x->values[i] / sqrt(squares / n + (double)1e-5f) * (double)w->values[i];
        assert_near(y.values[i], want, bound, 0x1p-149, "rms_norm");
    }
    REF.softmax(y.values, x->values, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_near(y.values[i], exp(x->values[i] - max) / sum, bound, 0x1p-125, "softmax");
    }
}

static void check_elementwise(const row *x, const row *w, uint32_t n)
{
    static row silu;
    static row gelu;
    static row cap;
    REF.silu_mul(silu.values, x->values, w->values, n);
    REF.gelu_mul(gelu.values, x->values, w->values, n);
    REF.softcap(cap.values, x->values, 3.0f, n);
    for (uint32_t i = 0; i < n; i++) {
        const double g = x->values[i];
        const double u = w->values[i];
        assert_near(silu.values[i], g / (1 + exp(-g)) * u, 12 * UNIT, 0x1p-140, "silu_mul");
        // tanh(z) = 1 - 2 / (exp(2z) + 1), so that the tanh form is g / (1 + exp(-2z)).
        const double z = sqrt(2 / acos(-1.0)) * (g + 0.044715 * g * g * g);
        const double factor = 0.5 * (1 + tanh(z));
        // An error of z by k units moves exp(-2z) by 2 |z| k units.
        assert_near(gelu.values[i], g * factor * u, (16 + 16 * fabs(z)) * UNIT, 1e-14, "gelu_mul");
        assert_near(cap.values[i], 3 * tanh(g / 3), 8 * UNIT, 0x1p-140, "softcap");
    }
}

static void test_reference_against_double(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static row x;
    static row w;
    for (int round = 0; round < 400; round++) {
        const uint32_t n = (uint32_t)ps_gen_range(&gen, 1, round < 200 ? 200 : LENGTH_MAX);
        fill(&gen, &x, n, ORDINARY);
        fill(&gen, &w, n, ORDINARY);
        check_norm_and_softmax(&x, &w, n);
        check_elementwise(&x, &w, n);
    }
}

// rope

static void rope(const ps_kernels *k, bool neox, row *x, const row *table, uint32_t head_dim,
                 uint32_t rotary)
{
    (neox ? k->rope_neox : k->rope_norm)(x->values, table->values, HEADS_MAX, head_dim, rotary);
}

static void check_rope(const row *before, const row *after, const row *table, bool neox,
                       uint32_t head_dim, uint32_t rotary)
{
    const uint32_t half = rotary / 2;
    for (uint32_t h = 0; h < HEADS_MAX; h++) {
        const float *x = before->values + (size_t)h * head_dim;
        const float *y = after->values + (size_t)h * head_dim;
        for (uint32_t i = 0; i < half; i++) {
            const uint32_t first = neox ? i : 2 * i;
            const uint32_t second = neox ? half + i : 2 * i + 1;
            const double c = table->values[i];
            const double s = table->values[half + i];
            const double bound = 3 * UNIT * (fabs(x[first]) + fabs(x[second]));
            assert_near(y[first], x[first] * c - x[second] * s, 0, bound, "rope");
            assert_near(y[second], x[first] * s + x[second] * c, 0, bound, "rope");
        }
        for (uint32_t i = rotary; i < head_dim; i++) {
            assert_int_equal(ps_f32_bits(x[i]), ps_f32_bits(y[i]));
        }
    }
}

static void test_rope(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static row x;
    static row table;
    static row want;
    static row is;
    for (int round = 0; round < 2000; round++) {
        const enum kind kind = round < 1000 ? ORDINARY : (enum kind)(round % KIND_COUNT);
        const uint32_t head_dim = (uint32_t)ps_gen_range(&gen, 1, 140);
        const uint32_t rotary = (uint32_t)ps_gen_range(&gen, 0, head_dim / 2) * 2;
        const bool neox = round % 2 != 0;
        fill(&gen, &x, HEADS_MAX * head_dim, kind);
        fill(&gen, &table, rotary, kind);
        for (uint32_t i = 0; kind == ORDINARY && i < rotary / 2; i++) {
            const double angle = table.values[i];
            table.values[i] = (float)cos(angle);
            table.values[rotary / 2 + i] = (float)sin(angle);
        }
        want = x;
        rope(&REF, neox, &want, &table, head_dim, rotary);
        if (kind == ORDINARY) {
            check_rope(&x, &want, &table, neox, head_dim, rotary);
        }
        for (int i = 0; i < ISA_COUNT; i++) {
            is = x;
            rope(&ISAS[i], neox, &is, &table, head_dim, rotary);
            assert_same_row(&want, &is, neox ? "rope_neox" : "rope_norm", head_dim);
        }
    }
}

// quantise_q8

#define Q8_BYTES_MAX (LENGTH_MAX * 2)

typedef struct q8 {
    _Alignas(64) uint8_t bytes[Q8_BYTES_MAX];
} q8;

// NaNs of d and ds to one pattern.
static void canonicalise(q8 *row_bytes, uint32_t n)
{
    for (uint32_t b = 0; b < n / 32 * 2; b++) {
        float d;
        memcpy(&d, row_bytes->bytes + n + b * sizeof d, sizeof d);
        d = isnan(d) ? NAN : d;
        memcpy(row_bytes->bytes + n + b * sizeof d, &d, sizeof d);
    }
}

static void check_q8_block(const q8 *is, const float *x, uint32_t n, uint32_t b)
{
    const float d = ps_q8_row_d(is->bytes, n)[b];
    const float ds = ps_q8_row_ds(is->bytes, n)[b];
    const int16_t *sums = ps_q8_row_sums(is->bytes, n) + (size_t)b * 2;
    const int8_t *q = (const int8_t *)is->bytes + (size_t)b * 32;
    float amax = 0;
    bool finite = true;
    int sum[2] = {0, 0};
    for (uint32_t i = 0; i < 32; i++) {
        finite = finite && isfinite(x[b * 32 + i]);
        amax = fmaxf(amax, fabsf(x[b * 32 + i]));
        sum[i / 16] += q[i];
    }
    assert_int_equal(sum[0], sums[0]);
    assert_int_equal(sum[1], sums[1]);
    if (!finite) {
        assert_true(isnan(d) && isnan(ds));
    } else {
        assert_true(amax < 0x1p-100f ? d == 0.0f : d == amax / 127.0f);
        assert_true(ds == d * (float)(sum[0] + sum[1]));
    }
    for (uint32_t i = 0; i < 32; i++) {
        assert_true(q[i] >= -127);
        const double distance = finite ? fabs((double)x[b * 32 + i] - (double)d * q[i]) : q[i];
        assert_true(distance <= 0.5001 * d || amax < 0x1p-100f || (!finite && q[i] == 0));
    }
}

static void test_quantise(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static row x;
    static q8 want;
    static q8 is;
    for (int round = 0; round < 2000; round++) {
        const uint32_t n = (uint32_t)ps_gen_range(&gen, 1, LENGTH_MAX / 32) * 32;
        fill(&gen, &x, n, (enum kind)(round % KIND_COUNT));
        // Most blocks of random bits hold something infinite; tiny ones need their own.
        for (uint32_t i = 0; round % 8 == 0 && i < n; i++) {
            x.values[i] *= i / 32 % 2 == 0 ? 0x1p-102f : 0x1p-99f;
        }
        memset(&want, 0xa5, sizeof want);
        REF.quantise_q8(want.bytes, x.values, n);
        for (uint32_t b = 0; b < n / 32; b++) {
            check_q8_block(&want, x.values, n, b);
        }
        canonicalise(&want, n);
        for (int i = 0; i < ISA_COUNT; i++) {
            memset(&is, 0xa5, sizeof is);
            ISAS[i].quantise_q8(is.bytes, x.values, n);
            canonicalise(&is, n);
            assert_memory_equal(&want, &is, sizeof want);
        }
    }
}

// A slot that an overlay forgot would be compared with itself.
static void test_every_kernel_has_a_vector_form(void **state)
{
    (void)state;
#define KERNEL(name, type)                                                                         \
    for (int i = 0; i < ISA_COUNT; i++) {                                                          \
        assert_true(ISAS[i].name != REF.name);                                                     \
    }
#include "kernels/kernels.def"
#undef KERNEL
}

static int select_isas(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"avx2", "avx512"};
    if (ps_kernels_for("ref", &REF) != PS_OK) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        if (ps_kernels_for(NAMES[i], &ISAS[ISA_COUNT]) == PS_OK) {
            ISA_COUNT++;
        } else {
            print_message("this CPU has no %s\n", NAMES[i]);
        }
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kernel_has_a_vector_form),
        cmocka_unit_test(test_rows_are_bit_equal),
        cmocka_unit_test(test_rows_may_alias),
        cmocka_unit_test(test_reference_against_double),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_quantise),
    };
    return cmocka_run_group_tests(tests, select_isas, NULL);
}
