// ctest-labels: prop
// Goal: the columns that workers own are a partition of a value's columns, in whole units, and
// even. Method: random values from a printed seed, and every number of workers up to 64; the parts
// are walked from left to right. A view's parts are those of its storage, shifted. The rows that
// ranks have are a partition, too.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gen.h"
#include "plan/plan.h"

#define ROUNDS 2000
#define WORKERS_MAX 64

static uint32_t pick(ps_gen *gen, uint32_t lowest, uint32_t highest)
{
    return (uint32_t)ps_gen_range(gen, lowest, highest);
}

static void check_parts(const ps_plan_value *value, uint32_t workers)
{
    uint32_t next = 0;
    for (uint32_t w = 0; w < workers; w++) {
        uint32_t begin, end;
        ps_plan_columns_of(value, w, workers, &begin, &end);
        assert_true(begin <= end && end <= value->is.columns);
        if (begin == end) {
            continue;
        }
        assert_int_equal(begin, next);
        const uint64_t in_range = (uint64_t)value->part_offset + begin;
        assert_true(begin == 0 || in_range % value->part_unit == 0);
        next = end;
    }
    assert_int_equal(next, value->is.columns);
}

static void test_parts_are_a_partition(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        ps_plan_value value = {.part_unit = pick(&gen, 1, 200)};
        value.part_offset = pick(&gen, 0, 3) == 0 ? 0 : pick(&gen, 0, 5000);
        value.is.columns = pick(&gen, 1, 5000);
        const uint32_t behind = pick(&gen, 0, 3) == 0 ? 0 : pick(&gen, 0, 5000);
        value.part_columns = value.part_offset + value.is.columns + behind;
        for (uint32_t workers = 1; workers <= WORKERS_MAX; workers++) {
            check_parts(&value, workers);
        }
    }
}

static void test_shares_differ_by_one_unit(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t unit = pick(&gen, 1, 64);
        const uint32_t units = pick(&gen, 1, 300);
        const ps_plan_value value = {
            .is.columns = unit * units, .part_columns = unit * units, .part_unit = unit};
        const uint32_t workers = pick(&gen, 1, WORKERS_MAX);
        for (uint32_t w = 0; w < workers; w++) {
            uint32_t begin, end;
            ps_plan_columns_of(&value, w, workers, &begin, &end);
            const uint32_t owned = (end - begin) / unit;
            assert_int_equal((end - begin) % unit, 0);
            assert_true(owned == units / workers || owned == units / workers + 1);
        }
    }
}

// A worker's columns of a view are its columns of the storage: that is why no barrier is needed.
static void test_views_follow_their_storage(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t columns = pick(&gen, 2, 5000);
        const ps_plan_value whole = {
            .is.columns = columns, .part_columns = columns, .part_unit = pick(&gen, 1, 200)};
        ps_plan_value view = whole;
        view.part_offset = pick(&gen, 0, columns - 1);
        view.is.columns = pick(&gen, 1, columns - view.part_offset);
        const uint32_t workers = pick(&gen, 1, WORKERS_MAX);
        for (uint32_t w = 0; w < workers; w++) {
            uint32_t begin, end, first, last;
            ps_plan_columns_of(&whole, w, workers, &begin, &end);
            ps_plan_columns_of(&view, w, workers, &first, &last);
            if (first < last) {
                assert_true(first + view.part_offset >= begin && last + view.part_offset <= end);
            }
        }
    }
}

static void test_the_largest_values(void **state)
{
    (void)state;
    ps_plan_value value = {
        .is.columns = PS_COLUMNS_MAX, .part_columns = PS_COLUMNS_MAX, .part_unit = 1};
    check_parts(&value, 256);
    value.part_unit = UINT32_MAX;
    check_parts(&value, 256);
    value.is.columns = 1;
    value.part_unit = 16;
    value.part_offset = PS_COLUMNS_MAX - 1;
    check_parts(&value, 256);
}

static void test_splits_have_names(void **state)
{
    (void)state;
    assert_string_equal(ps_split_name(PS_SPLIT_ALL), "all");
    assert_string_equal(ps_split_name(PS_SPLIT_UNITS), "units");
}

// Workspaces are sized by the largest step, so no smaller one may have more rows for a rank.
static void test_rows_of_ranks(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 9; ranks++) {
        uint32_t before[9] = {0};
        for (uint32_t rows = 0; rows <= 100; rows++) {
            uint32_t next = 0;
            for (uint32_t rank = 0; rank < ranks; rank++) {
                uint32_t begin, end;
                const ps_plan plan = {.ranks = ranks, .rank = rank};
                const ps_value own = {.row_kind = PS_ROWS_OWN, .row_multiplier = 1};
                ps_share_rows(rows, rank, ranks, &begin, &end);
                assert_int_equal(next, begin);
                assert_in_range(end - begin, rows / ranks, (rows + ranks - 1) / ranks);
                assert_true(end - begin >= before[rank]);
                assert_int_equal(end - begin, ps_plan_rows(&plan, &own, rows, 0));
                before[rank] = end - begin;
                next = end;
            }
            assert_int_equal(rows, next);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_a_partition),
        cmocka_unit_test(test_shares_differ_by_one_unit),
        cmocka_unit_test(test_rows_of_ranks),
        cmocka_unit_test(test_views_follow_their_storage),
        cmocka_unit_test(test_the_largest_values),
        cmocka_unit_test(test_splits_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
