// ctest-links: PkgConfig::JANSSON
// Goal: templates render as Jinja renders them, byte for byte, and fail where Jinja fails.
// Method: replays fixtures/templates.json, which scripts/make-template-fixtures.py wrote with
// Jinja itself. A failing case may be refused here for another reason than there.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/chat_template.h"

#define FOLDER PS_SOURCE_DIR "/test/text/fixtures/"
#define SHOWN_MAX 40

static json_t *fixtures;
static char *contexts[64];

static ps_buffer read_file(const char *name)
{
    char path[1024];
    char bytes[4096];
    ps_buffer content = {0};
    (void)snprintf(path, sizeof path, "%s%s", FOLDER, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, file)) > 0;) {
        assert_int_equal(PS_OK, ps_buffer_append(&content, bytes, got));
    }
    fclose(file);
    return content;
}

static int load(void **state)
{
    (void)state;
    json_error_t error;
    (void)setenv("TZ", "UTC", 1);
    tzset();
    fixtures = json_load_file(FOLDER "templates.json", JSON_ALLOW_NUL, &error);
    if (fixtures == NULL) {
        print_error("%s at line %d\n", error.text, error.line);
        return -1;
    }
    json_t *list = json_object_get(fixtures, "contexts");
    for (size_t i = 0; i < json_array_size(list); i++) {
        contexts[i] = json_dumps(json_array_get(list, i), JSON_COMPACT | JSON_REAL_PRECISION(17));
    }
    return 0;
}

static int unload(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
        free(contexts[i]);
    }
    json_decref(fixtures);
    return 0;
}

static bool is_file_name(const char *text)
{
    const size_t length = strlen(text);
    return length > 6 && strchr(text, '{') == NULL && strcmp(text + length - 6, ".jinja") == 0;
}

// The rendered text in *out, or the failure.
static ps_status render(const char *text, const char *context, ps_chat_output *out)
{
    ps_buffer file = {0};
    ps_str source = ps_str_of(text);
    ps_chat_template *parsed = NULL;
    if (is_file_name(text)) {
        char name[256];
        (void)snprintf(name, sizeof name, "templates/%s", text);
        file = read_file(name);
        source = (ps_str){file.data, file.length};
    }
    ps_status status = ps_chat_template_create(source, &parsed);
    ps_buffer_deinit(&file);
    if (status == PS_OK) {
        ps_chat_render_options limits = ps_chat_render_options_default();
        limits.now = json_integer_value(json_object_get(fixtures, "now"));
        status = ps_chat_template_render(parsed, ps_str_of(context), &limits, out);
        ps_chat_template_destroy(parsed);
    }
    return status;
}

static bool same(const json_t *expected, ps_status status, const ps_chat_output *got)
{
    if (json_is_null(expected)) {
        return status != PS_OK && status != PS_INTERNAL;
    }
    return status == PS_OK && got->text.length == json_string_length(expected) &&
           memcmp(got->text.length == 0 ? "" : got->text.data, json_string_value(expected),
                  got->text.length) == 0;
}

static void test_all_cases(void **state)
{
    (void)state;
    json_t *cases = json_object_get(fixtures, "cases");
    size_t wrong = 0;
    assert_true(json_array_size(cases) > 1000);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const char *text = json_string_value(json_array_get(one, 0));
        const size_t context = (size_t)json_integer_value(json_array_get(one, 1));
        const json_t *expected = json_array_get(one, 2);
        ps_chat_output got = {0};
        const ps_status status = render(text, contexts[context], &got);
        if (!same(expected, status, &got)) {
            wrong++;
            if (wrong <= SHOWN_MAX) {
                print_error("case %zu, context %zu: %s\n  expected %s\n  got      %s%s\n", i,
                            context, text,
                            json_is_null(expected) ? "a failure" : json_string_value(expected),
                            status == PS_OK ? "" : "failure: ",
                            status != PS_OK         ? ps_error_message()
                            : got.text.data == NULL ? ""
                                                    : got.text.data);
            }
        }
        ps_chat_output_deinit(&got);
    }
    assert_int_equal(0, wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_cases)};
    return cmocka_run_group_tests(tests, load, unload);
}
