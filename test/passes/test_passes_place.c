// ctest-labels: prop
// Goal: lives that overlap in time share no byte, whatever they are, and the workspace is as large
// as they need and no larger than all of them side by side. Method: random lives from a printed
// seed, judged byte line by byte line at every moment.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gen.h"
#include "passes/place.h"
#include "plan/plan.h"

#include <string.h>

#define ROUNDS 500
#define COUNT_MAX 40
#define TIMES 24
#define SIZE_MAX_BYTES 2000
#define LINES_MAX (COUNT_MAX * (SIZE_MAX_BYTES / PS_CACHE_LINE_BYTES + 1))

static ps_arena arena;

static int set_up(void **state)
{
    (void)state;
    ps_arena_init(&arena, (size_t)256 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ps_arena_deinit(&arena);
    return 0;
}

static uint64_t lines_of(const ps_life *life)
{
    return (life->size_bytes + PS_CACHE_LINE_BYTES - 1) / PS_CACHE_LINE_BYTES;
}

// Marks the cache lines of all that live at `time`; gives how many. None is marked twice.
static uint64_t check_moment(const ps_life *lives, uint32_t count, uint32_t time, uint64_t bytes)
{
    static bool taken[LINES_MAX];
    memset(taken, 0, sizeof taken);
    uint64_t lines = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (time < lives[i].first || time > lives[i].last) {
            continue;
        }
        assert_int_equal(lives[i].offset_bytes % PS_CACHE_LINE_BYTES, 0);
        assert_true(lives[i].offset_bytes + lives[i].size_bytes <= bytes);
        const uint64_t first = lives[i].offset_bytes / PS_CACHE_LINE_BYTES;
        for (uint64_t line = first; line < first + lines_of(&lives[i]); line++) {
            assert_false(taken[line]);
            taken[line] = true;
            lines++;
        }
    }
    return lines;
}

static void test_lives_never_overlap(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        ps_life lives[COUNT_MAX];
        const uint32_t count = (uint32_t)ps_gen_range(&gen, 0, COUNT_MAX);
        const int64_t length = ps_gen_range(&gen, 0, 8);
        uint64_t all = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t first = (uint32_t)ps_gen_range(&gen, 0, TIMES - 1);
            lives[i] = (ps_life){
                .value = i,
                .first = first,
                .last = first + (uint32_t)ps_gen_range(&gen, 0, length),
                .size_bytes = (uint64_t)ps_gen_range(&gen, 0, SIZE_MAX_BYTES),
            };
            all += lines_of(&lives[i]);
        }
        uint64_t bytes = 1;
        assert_int_equal(ps_place_lives(lives, count, &arena, &bytes), PS_OK);
        uint64_t most = 0;
        for (uint32_t time = 0; time < TIMES + 8; time++) {
            const uint64_t lines = check_moment(lives, count, time, bytes);
            most = lines > most ? lines : most;
        }
        assert_true(bytes >= most * PS_CACHE_LINE_BYTES);
        assert_true(bytes <= all * PS_CACHE_LINE_BYTES);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(lives[i].value, i);
        }
    }
}

// Lives that follow each other use the same bytes.
static void test_bytes_are_used_again(void **state)
{
    (void)state;
    ps_life lives[10];
    for (uint32_t i = 0; i < 10; i++) {
        lives[i] = (ps_life){.first = i, .last = i, .size_bytes = 1000 + i};
    }
    uint64_t bytes = 0;
    assert_int_equal(ps_place_lives(lives, 10, &arena, &bytes), PS_OK);
    assert_int_equal(bytes, 1024);
}

static void test_limit(void **state)
{
    (void)state;
    ps_life lives[] = {
        {.first = 0, .last = 1, .size_bytes = PS_PLAN_WORKSPACE_MAX_BYTES},
        {.first = 1, .last = 1, .size_bytes = 1},
    };
    uint64_t bytes = 7;
    assert_int_equal(ps_place_lives(lives, 1, &arena, &bytes), PS_OK);
    assert_int_equal(bytes, PS_PLAN_WORKSPACE_MAX_BYTES);
    bytes = 7;
    assert_int_equal(ps_place_lives(lives, 2, &arena, &bytes), PS_EXHAUSTED);
    assert_int_equal(bytes, 7);
    lives[0].size_bytes = UINT64_MAX;
    assert_int_equal(ps_place_lives(lives, 1, &arena, &bytes), PS_EXHAUSTED);
    lives[0].size_bytes = PS_PLAN_WORKSPACE_MAX_BYTES;
    lives[1].first = 2; // the first one is gone by then
    lives[1].last = 2;
    assert_int_equal(ps_place_lives(lives, 2, &arena, &bytes), PS_OK);
    assert_int_equal(bytes, PS_PLAN_WORKSPACE_MAX_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lives_never_overlap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bytes_are_used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limit, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
