// ctest-labels: prop
// Goal: quantiles and medians are those of a full count, whatever the order, with equal numbers.
// Method: random lists from a printed seed; how many numbers lie below and above an answer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/quantile.h"
#include "gen.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define ROUNDS 2000
#define COUNT_MAX 60u

static uint32_t count_below(const double *values, uint32_t count, double limit)
{
    uint32_t below = 0;
    for (uint32_t i = 0; i < count; i++) {
        below += values[i] < limit;
    }
    return below;
}

static uint32_t count_above(const double *values, uint32_t count, double limit)
{
    uint32_t above = 0;
    for (uint32_t i = 0; i < count; i++) {
        above += values[i] > limit;
    }
    return above;
}

// The number of place `place` has at most so many below it, and at most the rest above.
static void assert_place(const double *values, uint32_t count, double value, uint32_t place)
{
    assert_true(count_below(values, count, value) <= place);
    assert_true(count_above(values, count, value) <= count - 1 - place);
}

static void test_places(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        double values[COUNT_MAX], copy[COUNT_MAX];
        const uint32_t count = (uint32_t)ps_gen_range(&gen, 1, COUNT_MAX);
        for (uint32_t i = 0; i < count; i++) {
            values[i] = (double)ps_gen_range(&gen, -9, 9) / 4;
        }
        memcpy(copy, values, sizeof copy);
        const double part = (double)ps_gen_range(&gen, 0, 100) / 100;
        const double quantile = ps_quantile(copy, count, part);
        assert_place(values, count, quantile, (uint32_t)lround(part * (count - 1)));
        memcpy(copy, values, sizeof copy);
        const double median = ps_median(copy, count);
        assert_true(2 * count_below(values, count, median) <= count);
        assert_true(2 * count_above(values, count, median) <= count);
        if (count % 2 == 1) {
            assert_place(values, count, median, count / 2);
        }
    }
}

static void test_a_median_of_two_lies_between(void **state)
{
    (void)state;
    double values[] = {9, 1, 4, 2};
    assert_true(ps_median(values, 4) == 3);
    assert_true(values[0] == 1 && values[3] == 9); // sorted
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_a_median_of_two_lies_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
