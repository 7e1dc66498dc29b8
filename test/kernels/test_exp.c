// ctest-labels: kernel
// ctest-links: m
// Goal: exp and tanh of f32 keep their stated error bounds everywhere and give the same bits on
// every ISA.
// Method: a stride over all 2^32 floats (PS_EXP_STRIDE=1 takes every one), against libm in double.
// The vector forms are reached through kernels: silu_mul holds an exp, softcap a tanh.
#include "kernels/exp.h"
#include "kernels/kernels.h"

#include "gen.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BATCH 4096

static uint32_t stride(void)
{
    const char *text = getenv("PS_EXP_STRIDE");
    const uint32_t value = text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
    return value > 0 ? value : 1021;
}

// The distance from `is` to `want` in units of the last place of an f32 near `want`.
static double ulps(float is, double want)
{
    int exponent;
    frexp(want, &exponent);
    const int lowest = exponent < -125 ? -125 : exponent;
    return fabs((double)is - want) / ldexp(1.0, lowest - 24);
}

static double exp_error(float x)
{
    const float y = ps_exp(x);
    if (isnan(x)) {
        assert_true(isnan(y));
        return 0;
    }
    const double want = exp((double)x);
    if (want > 0x1.fffffep+127) {
        assert_true(isinf(y) && y > 0);
        return 0;
    }
    if (want < 0x1p-126) {
        assert_true(y == 0.0f || (double)y <= 0x1.000002p-126);
        return 0;
    }
    return ulps(y, want);
}

static double tanh_error(float x)
{
    const float y = ps_tanh(x);
    if (isnan(x)) {
        assert_true(isnan(y));
        return 0;
    }
    assert_int_equal(signbit(x) != 0, signbit(y) != 0);
    assert_true(fabsf(y) <= 1.0f);
    return ulps(y, tanh((double)x));
}

static void test_every_stride(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    const uint32_t step = stride();
    double worst_exp = 0;
    double worst_tanh = 0;
    for (uint64_t bits = (uint64_t)ps_gen_range(&gen, 0, step - 1); bits <= UINT32_MAX;
         bits += step) {
        const float x = ps_f32_from_bits((uint32_t)bits);
        worst_exp = fmax(worst_exp, exp_error(x));
        worst_tanh = fmax(worst_tanh, tanh_error(x));
    }
    printf("worst error: exp %.3f ulp, tanh %.3f ulp\n", worst_exp, worst_tanh);
    assert_true(worst_exp < 1.0);
    assert_true(worst_tanh < 2.0);
}

static void test_ends(void **state)
{
    (void)state;
    assert_true(ps_exp(INFINITY) == INFINITY);
    assert_int_equal(0, ps_f32_bits(ps_exp(-INFINITY)));
    assert_true(ps_exp(0.0f) == 1.0f);
    assert_true(ps_exp(-0.0f) == 1.0f);
    assert_true(isfinite(ps_exp(PS_EXP_HIGHEST)));
    assert_true(isinf(ps_exp(nextafterf(PS_EXP_HIGHEST, INFINITY))));
    assert_true(ps_exp(PS_EXP_LOWEST) >= 0x1p-126f);
    assert_true(ps_exp(nextafterf(PS_EXP_LOWEST, -INFINITY)) == 0.0f);
    assert_true(exp((double)nextafterf(PS_EXP_LOWEST, -INFINITY)) < 0x1p-126);
    assert_true(ps_tanh(INFINITY) == 1.0f);
    assert_true(ps_tanh(-INFINITY) == -1.0f);
    assert_int_equal(0x80000000u, ps_f32_bits(ps_tanh(-0.0f)));
    assert_true(ps_tanh(1e-30f) == 1e-30f);
}

static void assert_same(const float *a, const float *b, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (isnan(a[i]) && isnan(b[i])) {
            continue;
        }
        if (ps_f32_bits(a[i]) != ps_f32_bits(b[i])) {
            fail_msg("at %a: %a, reference %a", (double)x[i], (double)b[i], (double)a[i]);
        }
    }
}

static void compare_isa(const ps_kernels *isa, const ps_kernels *ref, uint32_t first, uint32_t step)
{
    float x[BATCH];
    float ones[BATCH];
    float y[2][BATCH];
    for (uint64_t bits = first; bits <= UINT32_MAX; bits += (uint64_t)step * BATCH) {
        for (uint32_t i = 0; i < BATCH; i++) {
            x[i] = ps_f32_from_bits((uint32_t)(bits + (uint64_t)i * step));
            ones[i] = 1.0f;
        }
        ref->silu_mul(y[0], x, ones, BATCH);
        isa->silu_mul(y[1], x, ones, BATCH);
        assert_same(y[0], y[1], x, BATCH);
        ref->softcap(y[0], x, 1.0f, BATCH);
        isa->softcap(y[1], x, 1.0f, BATCH);
        assert_same(y[0], y[1], x, BATCH);
    }
}

static void test_isas_agree(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static const char *const ISAS[] = {"avx2", "avx512"};
    ps_kernels ref;
    assert_int_equal(PS_OK, ps_kernels_for("ref", &ref));
    for (int i = 0; i < 2; i++) {
        ps_kernels isa;
        if (ps_kernels_for(ISAS[i], &isa) != PS_OK) {
            print_message("this CPU has no %s\n", ISAS[i]);
            continue;
        }
        compare_isa(&isa, &ref, (uint32_t)ps_gen_range(&gen, 0, stride() - 1), stride());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_stride),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_isas_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
