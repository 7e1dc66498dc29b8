// ctest-labels: prop
// Goal: names are numbered in order, found again, copied, and refused when empty, long or twice.
// Method: random names from a printed seed against a linear search; every arena size up to enough,
// so that each allocation fails once and leaves everything as it was.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/names.h"
#include "gen.h"

#include <stdbool.h>
#include <string.h>

#define COUNT_MAX 2000
#define BYTES_MAX 12

static ps_str pick_name(ps_gen *gen, char bytes[BYTES_MAX])
{
    const size_t length = (size_t)ps_gen_range(gen, 1, 3);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (char)ps_gen_range(gen, 'a', 'z');
    }
    return (ps_str){bytes, length};
}

static uint32_t search(const ps_names *names, ps_str name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (strlen(names->names[i]) == name.length &&
            memcmp(names->names[i], name.data, name.length) == 0) {
            return i;
        }
    }
    return PS_NO_NAME;
}

static void test_names_are_found(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    ps_arena arena;
    ps_arena_init(&arena, (size_t)16 << 20);
    ps_names names = {.arena = &arena};
    assert_int_equal(ps_names_find(&names, ps_str_of("a")), PS_NO_NAME);
    for (int i = 0; i < COUNT_MAX; i++) {
        char bytes[BYTES_MAX];
        const ps_str name = pick_name(&gen, bytes);
        const uint32_t there = search(&names, name);
        const uint32_t count = names.count;
        assert_int_equal(ps_names_find(&names, name), there);
        if (there == PS_NO_NAME) {
            assert_int_equal(ps_names_add(&names, name), PS_OK);
            assert_int_equal(names.count, count + 1);
            assert_ptr_not_equal(names.names[count], bytes);
            assert_int_equal(ps_names_find(&names, name), count);
        } else {
            assert_int_equal(ps_names_add(&names, name), PS_INVALID);
            assert_non_null(strstr(ps_error_message(), "there are two values named '"));
            assert_int_equal(names.count, count);
        }
    }
    for (uint32_t i = 0; i < names.count; i++) {
        assert_int_equal(ps_names_find(&names, ps_str_of(names.names[i])), i);
    }
    ps_arena_deinit(&arena);
}

static void test_bad_names(void **state)
{
    (void)state;
    ps_arena arena;
    ps_arena_init(&arena, (size_t)1 << 20);
    ps_names names = {.arena = &arena};
    char bytes[PS_NAME_BYTES_MAX + 1];
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(ps_names_add(&names, (ps_str){bytes, 0}), PS_INVALID);
    assert_string_equal(ps_error_message(), "name of 0 bytes, 1 to 255 would be right");
    assert_int_equal(ps_names_add(&names, (ps_str){bytes, sizeof bytes}), PS_INVALID);
    assert_string_equal(ps_error_message(), "name of 256 bytes, 1 to 255 would be right");
    assert_int_equal(ps_names_add(&names, (ps_str){bytes, PS_NAME_BYTES_MAX}), PS_OK);
    assert_int_equal(names.count, 1);
    ps_arena_deinit(&arena);
}

// Adds as many names as the arena allows; then all are there, and the next one is not.
static bool fill(size_t limit_bytes)
{
    ps_arena arena;
    ps_arena_init(&arena, limit_bytes);
    ps_names names = {.arena = &arena};
    bool is_full = false;
    for (int i = 0; i < 200 && !is_full; i++) {
        char text[BYTES_MAX];
        (void)snprintf(text, sizeof text, "n%d", i);
        const uint32_t count = names.count;
        const ps_status status = ps_names_add(&names, ps_str_of(text));
        is_full = status != PS_OK;
        assert_true(status == PS_OK || status == PS_EXHAUSTED);
        assert_int_equal(names.count, count + !is_full);
        assert_int_equal(ps_names_find(&names, ps_str_of(text)), is_full ? PS_NO_NAME : count);
        for (uint32_t n = 0; n < names.count; n++) {
            assert_int_equal(ps_names_find(&names, ps_str_of(names.names[n])), n);
        }
    }
    ps_arena_deinit(&arena);
    return !is_full;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    size_t limit = 0;
    while (!fill(limit)) {
        limit += PS_CACHE_LINE_BYTES;
        assert_true(limit < (1 << 20));
    }
    assert_true(limit > 200 * PS_CACHE_LINE_BYTES);
}

static void test_arrays_grow(void **state)
{
    (void)state;
    ps_arena arena;
    ps_arena_init(&arena, (size_t)1 << 20);
    void *array = NULL;
    uint32_t capacity = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(ps_arena_grow(&arena, &array, sizeof i, i, &capacity), PS_OK);
        assert_true(capacity > i);
        ((uint32_t *)array)[i] = i;
        for (uint32_t j = 0; j <= i; j += 97) {
            assert_int_equal(((uint32_t *)array)[j], j);
        }
    }
    ps_arena_deinit(&arena);
    ps_arena_init(&arena, 64);
    void *none = NULL;
    capacity = 0;
    assert_int_equal(ps_arena_grow(&arena, &none, 1024, 0, &capacity), PS_EXHAUSTED);
    assert_null(none);
    assert_int_equal(capacity, 0);
    ps_arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_found),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_arrays_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
