// test/cli/explore_test.h - specs from texts, for tests of `prestage explore`.
#ifndef PS_TEST_EXPLORE_TEST_H
#define PS_TEST_EXPLORE_TEST_H

#include "cli/explore_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct read_spec {
    ps_arena arena;
    ps_explore_fields fields;
    json_t *json;
    ps_explore_spec spec;
} read_spec;

// Texts are JSON with ' for ", so that they can be read here.
static inline json_t *parse(const char *text)
{
    char copy[4096];
    json_error_t error;
    assert_true(strlen(text) < sizeof copy);
    for (size_t i = 0; i <= strlen(text); i++) {
        copy[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    json_t *json = json_loads(copy, JSON_DECODE_ANY, &error);
    if (json == NULL) {
        print_error("%s: %s\n", text, error.text);
    }
    assert_non_null(json);
    return json;
}

static inline ps_status read_text(read_spec *r, const char *text)
{
    memset(r, 0, sizeof *r);
    ps_arena_init(&r->arena, PS_EXPLORE_SPEC_BYTES);
    assert_int_equal(PS_OK, ps_explore_fields_make(&r->arena, &r->fields));
    r->json = parse(text);
    return ps_explore_spec_read(r->json, &r->fields, &r->arena, &r->spec);
}

static inline void close_spec(read_spec *r)
{
    json_decref(r->json);
    ps_arena_deinit(&r->arena);
}

// The number of a column.
static inline uint32_t column(const read_spec *r, const char *name)
{
    uint32_t index = 0;
    assert_int_equal(PS_OK, ps_explore_column_find(r->spec.columns, "", name, &index));
    return index;
}

#endif
