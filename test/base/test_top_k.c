// ctest-labels: prop
// Goal: the k best are those of a full sort, equal ones by the lower id, whatever stands there; and
// the best of the parts of a list hold the best of the list.
// Method: random lists with many equal numbers, infinities and zeros of both signs from a printed
// seed, against a count of who comes before whom.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/top_k.h"
#include "gen.h"

#include <math.h>
#include <stdbool.h>

#define ROUNDS 3000
#define COUNT_MAX 200u

static void make_list(ps_gen *gen, float *list, uint32_t count)
{
    const int64_t kinds = ps_gen_range(gen, 1, 40);
    for (uint32_t i = 0; i < count; i++) {
        const int64_t kind = ps_gen_range(gen, 0, kinds);
        list[i] = kind == 0   ? -INFINITY
                  : kind == 1 ? -0.0f
                  : kind == 2 ? INFINITY
                              : (float)(kind - 4) / 3;
    }
}

// How many come before id: the place where it stands when all are sorted.
static uint32_t place_of(const float *list, uint32_t count, uint32_t id)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < count; i++) {
        place += list[i] > list[id] || (list[i] == list[id] && i < id);
    }
    return place;
}

static void test_as_a_full_sort(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        float list[COUNT_MAX] = {0};
        ps_candidate best[COUNT_MAX] = {0};
        const uint32_t count = (uint32_t)ps_gen_range(&gen, 1, COUNT_MAX);
        const uint32_t kept = (uint32_t)ps_gen_range(&gen, 0, count);
        make_list(&gen, list, count);
        ps_top_k(list, count, kept, best);
        ps_candidates_sort(best, kept);
        for (uint32_t i = 0; i < kept; i++) {
            assert_true((uint32_t)best[i].id < count);
            assert_true(best[i].logit == list[best[i].id]);
            assert_int_equal(i, place_of(list, count, (uint32_t)best[i].id));
        }
    }
}

static void test_the_best_of_parts(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        float list[COUNT_MAX] = {0};
        bool is_kept[COUNT_MAX] = {false};
        ps_candidate best[COUNT_MAX];
        const uint32_t count = (uint32_t)ps_gen_range(&gen, 1, COUNT_MAX);
        const uint32_t kept = (uint32_t)ps_gen_range(&gen, 1, count);
        make_list(&gen, list, count);
        for (uint32_t begin = 0; begin < count;) {
            const uint32_t end = (uint32_t)ps_gen_range(&gen, begin + 1, count);
            const uint32_t of_part = kept < end - begin ? kept : end - begin;
            ps_top_k(list + begin, end - begin, of_part, best);
            for (uint32_t i = 0; i < of_part; i++) {
                is_kept[begin + (uint32_t)best[i].id] = true;
            }
            begin = end;
        }
        for (uint32_t i = 0; i < count; i++) {
            assert_true(is_kept[i] || place_of(list, count, i) >= kept);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_a_full_sort),
        cmocka_unit_test(test_the_best_of_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
