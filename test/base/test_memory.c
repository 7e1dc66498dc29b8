// Goal: an arena never hands out more than its limit, whatever is asked. Method: allocations at,
// around and past the limit, of nothing too, which takes room as well.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "base/memory.h"

static void test_limit_holds(void **state)
{
    (void)state;
    ps_arena arena;
    ps_arena_init(&arena, 256);
    assert_null(ps_arena_alloc(&arena, 1, 257));
    assert_null(ps_arena_alloc(&arena, UINT64_MAX, 2));
    assert_null(ps_arena_alloc(&arena, UINT64_MAX, 1));
    for (int i = 0; i < 4; i++) {
        assert_non_null(ps_arena_alloc(&arena, 0, 8));
    }
    assert_int_equal(256, arena.used_bytes);
    assert_null(ps_arena_alloc(&arena, 0, 8));
    assert_null(ps_arena_alloc(&arena, 1, 1));
    assert_null(ps_arena_alloc(&arena, 1, 256));
    assert_int_equal(256, arena.used_bytes);
    ps_arena_deinit(&arena);
    assert_int_equal(0, arena.used_bytes);
}

// What is done again needs no memory of the system: the same bytes come again, zeroed.
static void test_reset_keeps_memory(void **state)
{
    (void)state;
    ps_arena arena;
    ps_arena_init(&arena, (size_t)1 << 24);
    ps_arena_reset(&arena);
    assert_int_equal(0, arena.used_bytes);
    char *first = NULL;
    for (int round = 0; round < 4; round++) {
        char *memory = ps_arena_alloc(&arena, 100000, 1);
        char *more = ps_arena_alloc(&arena, 1000000, 1);
        assert_non_null(memory);
        assert_non_null(more);
        assert_true(memory[0] == 0 && memory[99999] == 0 && more[0] == 0 && more[999999] == 0);
        memory[0] = memory[99999] = more[0] = more[999999] = 1;
        if (round == 1) {
            first = memory;
        }
        assert_true(round < 2 || memory == first);
        ps_arena_reset(&arena);
        assert_int_equal(0, arena.used_bytes);
    }
    assert_null(ps_arena_alloc(&arena, (1 << 24) + 1, 1)); // the limit is as it was
    ps_arena_deinit(&arena);
}

static void test_memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    ps_arena arena;
    ps_arena_init(&arena, (size_t)1 << 24);
    for (uint64_t bytes = 1; bytes < 300000; bytes = bytes * 3 + 1) {
        char *memory = ps_arena_alloc(&arena, bytes, 1);
        assert_non_null(memory);
        assert_int_equal(0, (uintptr_t)memory % PS_CACHE_LINE_BYTES);
        for (uint64_t i = 0; i < bytes; i++) {
            assert_int_equal(0, memory[i]);
            memory[i] = 1; // two that overlap would show
        }
    }
    ps_arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_holds),
        cmocka_unit_test(test_reset_keeps_memory),
        cmocka_unit_test(test_memory_is_zeroed_and_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
