// ctest-labels: unit
// Goal: errors are parts of what was measured, and their median and worst know no signs.
// Method: numbers that are known by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/error_stats.h"

#include <math.h>

static void test_an_error_is_a_part_of_what_was_measured(void **state)
{
    (void)state;
    assert_true(fabs(ps_prediction_error(11, 10) - 0.1) < 1e-12);
    assert_true(fabs(ps_prediction_error(8, 10) + 0.2) < 1e-12);
    assert_true(ps_prediction_error(3, 3) == 0);
}

static void test_signs_do_not_count(void **state)
{
    (void)state;
    double errors[] = {0.1, -0.5, 0.2, -0.05, 0};
    const ps_error_stats stats = ps_error_stats_of(errors, 5);
    assert_true(stats.median == 0.1);
    assert_true(stats.worst == 0.5);
}

static void test_one_is_both(void **state)
{
    (void)state;
    double error = -0.25;
    const ps_error_stats stats = ps_error_stats_of(&error, 1);
    assert_true(stats.median == 0.25 && stats.worst == 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_is_a_part_of_what_was_measured),
        cmocka_unit_test(test_signs_do_not_count),
        cmocka_unit_test(test_one_is_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
