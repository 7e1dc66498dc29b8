// Goal: what the writer writes is JSON, and holds the values that it was given.
// Method: random documents from a printed seed are read back by jansson.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/json_writer.h"
#include "gen.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#define ROUNDS 300

static json_t *read_back(ps_json_writer *json)
{
    json_error_t error;
    assert_int_equal(json->status, PS_OK);
    json_t *document = json_loadb(json->text.data, json->text.length,
                                  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (document == NULL) {
        fail_msg("%s: %s", error.text, json->text.data);
    }
    ps_buffer_deinit(&json->text);
    return document;
}

static void test_strings_of_any_characters(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        char text[256];
        size_t length = 0;
        while (length < 200) {
            if (ps_gen_range(&gen, 0, 4) == 0) {
                memcpy(text + length, "\xf0\x9f\x98\x80\xc3\xa9", 6);
                length += 6;
            } else {
                text[length++] = (char)ps_gen_range(&gen, 0, 127);
            }
        }
        ps_json_writer json = {0};
        ps_json_begin(&json, NULL, '{');
        ps_json_string(&json, "key", (ps_str){text, length});
        ps_json_end(&json, '}');
        json_t *document = read_back(&json);
        const json_t *value = json_object_get(document, "key");
        assert_int_equal(json_string_length(value), length);
        assert_memory_equal(json_string_value(value), text, length);
        json_decref(document);
    }
}

static void test_bytes_that_are_no_text_become_replacements(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } CASES[] = {
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xe6\xb0", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe6\xb0\xb4\x80", "\xe6\xb0\xb4\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ps_json_writer json = {0};
        ps_json_begin(&json, NULL, '[');
        ps_json_text(&json, NULL, CASES[i].in);
        ps_json_end(&json, ']');
        json_t *document = read_back(&json);
        assert_string_equal(json_string_value(json_array_get(document, 0)), CASES[i].out);
        json_decref(document);
    }
}

// Writes a random value and builds the same with jansson.
static json_t *write_random(ps_gen *gen, ps_json_writer *json, const char *key, int depth)
{
    const int64_t number = ps_gen_range(gen, -1000000, 1000000);
    switch (ps_gen_range(gen, 0, depth > 0 ? 6 : 4)) {
    case 0:
        ps_json_integer(json, key, number);
        return json_integer(number);
    case 1:
        ps_json_bool(json, key, number > 0);
        return json_boolean(number > 0);
    case 2:
        ps_json_number(json, key, number > 0 ? NAN : INFINITY);
        return json_null();
    case 3:
        ps_json_text(json, key, NULL);
        return json_null();
    case 4:
        ps_json_text(json, key, "text");
        return json_string("text");
    default:
        break;
    }
    const bool is_object = number > 0;
    const int64_t count = ps_gen_range(gen, 0, 4);
    json_t *expected = is_object ? json_object() : json_array();
    if (ps_gen_range(gen, 0, 1) == 0) {
        ps_json_begin(json, key, is_object ? '{' : '[');
    } else {
        ps_json_begin_inline(json, key, is_object ? '{' : '[');
    }
    for (int64_t i = 0; i < count; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "k%d", (int)i);
        json_t *item = write_random(gen, json, is_object ? name : NULL, depth - 1);
        assert_int_equal(0, is_object ? json_object_set_new(expected, name, item)
                                      : json_array_append_new(expected, item));
    }
    ps_json_end(json, is_object ? '}' : ']');
    return expected;
}

static void test_documents_of_any_shape(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        ps_json_writer json = {0};
        ps_json_begin(&json, NULL, '[');
        json_t *expected = write_random(&gen, &json, NULL, 5);
        ps_json_end(&json, ']');
        json_t *document = read_back(&json);
        assert_true(json_equal(json_array_get(document, 0), expected));
        json_decref(document);
        json_decref(expected);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    static const int32_t IDS[] = {0, -1, INT32_MAX};
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_number(&json, "x", 0.1);
    ps_json_number(&json, "tiny", 1e-300);
    ps_json_integer(&json, "least", INT64_MIN);
    ps_json_ids(&json, "ids", IDS, 3);
    ps_json_end(&json, '}');
    json_t *document = read_back(&json);
    assert_true(fabs(json_number_value(json_object_get(document, "x")) - 0.1) < 1e-7);
    assert_true(json_number_value(json_object_get(document, "tiny")) > 0);
    assert_true(json_integer_value(json_object_get(document, "least")) == INT64_MIN);
    const json_t *ids = json_object_get(document, "ids");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(json_integer_value(json_array_get(ids, i)), IDS[i]);
    }
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_of_any_characters),
        cmocka_unit_test(test_bytes_that_are_no_text_become_replacements),
        cmocka_unit_test(test_documents_of_any_shape),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
