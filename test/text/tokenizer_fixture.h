// test/text/tokenizer_fixture.h - what the tokenizer tests share: fixtures, and ids to compare.
#ifndef PS_TEST_TOKENIZER_FIXTURE_H
#define PS_TEST_TOKENIZER_FIXTURE_H

#include "text/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline json_t *fixture_load(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/test/text/fixtures/%s", PS_SOURCE_DIR, name);
    json_error_t error;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        fail_msg("%s:%d: %s", path, error.line, error.text);
    }
    return root;
}

static inline ps_str fixture_str(const json_t *string)
{
    assert_true(json_is_string(string));
    return (ps_str){.data = json_string_value(string), .length = json_string_length(string)};
}

static inline void print_ids(const char *label, const int32_t *ids, size_t count)
{
    printf("  %s:", label);
    for (size_t i = 0; i < count; i++) {
        printf(" %d", ids[i]);
    }
    printf("\n");
}

// The ids are exactly those of the JSON array.
static inline void assert_ids(const json_t *expected, const ps_tokens *actual, const char *where,
                              const char *text)
{
    ps_tokens wanted = {0};
    for (size_t i = 0; i < json_array_size(expected); i++) {
        assert_int_equal(PS_OK, ps_tokens_append(&wanted, (int32_t)json_integer_value(
                                                              json_array_get(expected, i))));
    }
    const bool equal = wanted.count == actual->count &&
                       (wanted.count == 0 ||
                        memcmp(wanted.ids, actual->ids, wanted.count * sizeof wanted.ids[0]) == 0);
    if (!equal) {
        printf("%s: '%s'\n", where, text);
        print_ids("expected", wanted.ids, wanted.count);
        print_ids("actual  ", actual->ids, actual->count);
    }
    ps_tokens_deinit(&wanted);
    assert_true(equal);
}

#endif
