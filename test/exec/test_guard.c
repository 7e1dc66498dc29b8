// ctest-labels: unit
// Goal: a prefetch is judged by the time of runs, and by nothing else. Method: runs whose times are
// made up, with controls where the guard asks for them; the gains are known.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/guard.h"

#define SLOTS 5u                 // 0 to 4
#define TURN (32u * (SLOTS + 1)) // runs in which each, and all together, are left out once

// Runs of `rows` rows: 1000 ns each, and ns[s] more where slot s prefetches.
static void run(ps_guard *guard, uint32_t runs, uint32_t rows, const double ns[SLOTS])
{
    for (uint32_t i = 0; i < runs; i++) {
        const uint64_t mask = ps_guard_begin(guard, rows);
        double time = 1000;
        for (uint32_t s = 0; s < SLOTS; s++) {
            time += (mask >> s & 1) == 0 ? ns[s] : 0;
        }
        ps_guard_end(guard, time);
    }
}

static ps_guard start(bool switches_off)
{
    ps_guard guard;
    ps_guard_init(&guard, (1u << SLOTS) - 1, switches_off);
    return guard;
}

// Slot 1 may fill the cache: the runs get longer, which is a loss whatever was hit.
static void test_more_time_is_a_loss(void **state)
{
    (void)state;
    static const double NS[SLOTS] = {0, 592, -200, 0, 0};
    ps_guard guard = start(false);
    run(&guard, 20 * TURN, 1, NS);
    const ps_gain loss = ps_guard_gain(&guard, 1);
    const ps_gain gain = ps_guard_gain(&guard, 2);
    const ps_gain none = ps_guard_gain(&guard, 3);
    const ps_gain all = ps_guard_gain(&guard, PS_GUARD_ALL);
    assert_true(loss.controls >= 19 && loss.lower == loss.upper);
    // 800 without it and 1392 with it, 1592 without and 1392 with, 1000 and 1392
    assert_float_equal((800 - 1392) / 1392.0, loss.median, 1e-6);
    assert_float_equal((1592 - 1392) / 1392.0, gain.median, 1e-6);
    assert_float_equal((1000 - 1392) / 1392.0, all.median, 1e-6);
    assert_float_equal(0, none.median, 0);
    assert_int_equal(0, guard.off);
}

static void test_what_loses_is_switched_off(void **state)
{
    (void)state;
    static const double NS[SLOTS] = {0, 592, -200, 0, 0};
    ps_guard guard = start(true);
    run(&guard, 7 * TURN, 1, NS);
    assert_int_equal(0, guard.off); // 8 controls are the least
    run(&guard, 2 * TURN, 1, NS);
    assert_int_equal(1u << 1, guard.off);
    assert_int_equal(1u << 1, ps_guard_begin(&guard, 1));
}

static void test_equal_times_switch_nothing_off(void **state)
{
    (void)state;
    static const double NS[SLOTS] = {0};
    ps_guard guard = start(true);
    run(&guard, 20 * TURN, 1, NS);
    assert_int_equal(0, guard.off);
}

// Runs of different lengths say nothing of prefetches.
static void test_other_rows_are_not_compared(void **state)
{
    (void)state;
    static const double NS[SLOTS] = {0, 592, 0, 0, 0};
    ps_guard guard = start(true);
    for (uint32_t i = 0; i < 20 * TURN; i++) {
        run(&guard, 1, 1 + i % 2, NS);
    }
    assert_int_equal(0, ps_guard_gain(&guard, 1).controls);
    assert_int_equal(0, guard.off);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_time_is_a_loss),
        cmocka_unit_test(test_what_loses_is_switched_off),
        cmocka_unit_test(test_equal_times_switch_nothing_off),
        cmocka_unit_test(test_other_rows_are_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
