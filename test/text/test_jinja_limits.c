// Goal: whatever a template or its variables are, parsing and rendering end in bounded time, depth
// and memory, and the error says which limit, or which construct, and the line.
// Method: one small template for every limit and every message; the message is compared.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_template.h"

static ps_status try_render(const char *source, const char *context,
                            const ps_chat_render_options *limits)
{
    ps_chat_template *parsed = NULL;
    ps_chat_output output = {0};
    ps_status status = ps_chat_template_create(ps_str_of(source), &parsed);
    if (status == PS_OK) {
        status = ps_chat_template_render(parsed, ps_str_of(context), limits, &output);
        ps_chat_template_destroy(parsed);
    }
    if (status != PS_OK) {
        assert_null(output.text.data);
        assert_null(output.spans);
    }
    ps_chat_output_deinit(&output);
    return status;
}

static void assert_fails(const char *source, ps_status status, const char *message)
{
    const ps_status got = try_render(source, "{\"s\": \"text\"}", NULL);
    if (got != status || strstr(ps_error_message(), message) == NULL) {
        fail_msg("%s\n  expected %d \"%s\"\n  got %d \"%s\"", source, status, message, got,
                 got == PS_OK ? "" : ps_error_message());
    }
}

// `count` times `piece`, then `middle`, then `count` times `end`; freed by the caller.
static char *nested(const char *piece, const char *middle, const char *end, size_t count)
{
    ps_buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(PS_OK, ps_buffer_append(&text, piece, strlen(piece)));
    }
    assert_int_equal(PS_OK, ps_buffer_append(&text, middle, strlen(middle)));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(PS_OK, ps_buffer_append(&text, end, strlen(end)));
    }
    return text.data;
}

static void test_parser_depth(void **state)
{
    (void)state;
    static const struct {
        const char *before, *middle, *after;
    } shapes[] = {
        {"{% if 1 %}", "x", "{% endif %}"},
        {"{% for i in s %}", "x", "{% endfor %}"},
        {"{% macro f() %}", "x", "{% endmacro %}"},
    };
    static const struct {
        const char *before, *after;
    } brackets[] = {{"(", ")"},  {"[", "]"},           {"{1:", "}"},
                    {"- ", ""},  {"not ", ""},         {"f(", ")"},
                    {"s[", "]"}, {"1 if 1 else ", ""}, {"s|replace(", ",1)"}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char *text = nested(shapes[i].before, shapes[i].middle, shapes[i].after, 5000);
        assert_fails(text, PS_EXHAUSTED, "limit of 250 nested levels");
        free(text);
    }
    for (size_t i = 0; i < sizeof brackets / sizeof brackets[0]; i++) {
        char *inner = nested(brackets[i].before, "1", brackets[i].after, 20000);
        ps_buffer text = {0};
        assert_int_equal(PS_OK, ps_buffer_printf(&text, "{{ %s }}", inner));
        assert_fails(text.data, PS_EXHAUSTED, "limit of");
        ps_buffer_deinit(&text);
        free(inner);
    }
    char *wide = nested("(", "x", "", 5000);
    ps_buffer text = {0};
    assert_int_equal(PS_OK, ps_buffer_printf(&text, "{%% for %s in s %%}", wide));
    assert_fails(text.data, PS_EXHAUSTED, "limit of");
    ps_buffer_deinit(&text);
    free(wide);
}

// What the parser builds without recursion is deep all the same when it is evaluated.
static void test_long_chains(void **state)
{
    (void)state;
    static const char *const pieces[] = {"+1",  "~1", " and 1", " or 0", ".a",
                                         "[0]", "()", "|list",  "==1",   " if 1"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char *chain = nested(pieces[i], "", "", 20000);
        ps_buffer text = {0};
        assert_int_equal(PS_OK, ps_buffer_printf(&text, "{{ 1%s }}", chain));
        assert_fails(text.data, PS_EXHAUSTED, "limit of");
        ps_buffer_deinit(&text);
        free(chain);
    }
}

static void test_run_depth(void **state)
{
    (void)state;
    assert_fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", PS_EXHAUSTED, "nested levels");
    assert_fails("{% macro f() %}{{ caller() }}{% endmacro %}"
                 "{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}",
                 PS_EXHAUSTED, "nested levels");
    static const char *const uses[] = {"{{ n.l }}", "{{ n.l|tojson }}", "{{ n.l == n.m }}",
                                       "{{ n.l < n.m }}", "{{ n.l in [n.m] }}"};
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        ps_buffer text = {0};
        assert_int_equal(PS_OK,
                         ps_buffer_printf(&text,
                                          "{%% set n = namespace(l=[], m=[]) %%}"
                                          "{%% for i in range(5000) %%}{%% set n.l = [n.l] %%}"
                                          "{%% set n.m = [n.m] %%}{%% endfor %%}%s",
                                          uses[i]));
        assert_fails(text.data, PS_EXHAUSTED, "limit of 250 nested levels");
        ps_buffer_deinit(&text);
    }
}

static void test_context_depth(void **state)
{
    (void)state;
    char *deep = nested("[", "1", "]", 1500);
    ps_buffer context = {0};
    assert_int_equal(PS_OK, ps_buffer_printf(&context, "{\"x\": %s}", deep));
    assert_int_equal(PS_EXHAUSTED, try_render("x", context.data, NULL));
    assert_non_null(strstr(ps_error_message(), "nested levels"));
    ps_buffer_deinit(&context);
    free(deep);
}

static void test_deepest_allowed(void **state)
{
    (void)state;
    const ps_chat_render_options most = {
        .output_bytes = 1 << 20, .memory_bytes = 256 << 20, .steps = 1000000, .depth = 1000};
    ps_chat_render_options more = most;
    more.depth++;
    assert_int_equal(PS_EXHAUSTED,
                     try_render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}", &most));
    assert_int_equal(PS_INVALID, try_render("x", "{}", &more));
}

// Work that takes long without building anything is counted too.
static void test_steps(void **state)
{
    (void)state;
    static const char *const work[] = {
        "{% for i in range(90000) %}{{ i }}{% endfor %}",
        "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
        "{% set s = 'ab' * 400000 %}{% for i in range(9000) %}{{ 'c' in s }}{% endfor %}",
        "{% set s = 'ab' * 400000 %}{% for i in range(9000) %}{{ s == s[::-1] }}{% endfor %}",
        "{% set s = 'ab' * 400000 %}{% for i in range(9000) %}{{ s.strip('abc') }}{% endfor %}",
        "{% set s = ' ' * 400000 %}{% for i in range(9000) %}{{ s|trim }}{% endfor %}",
        "{% set s = 'ab' * 400000 %}{% for i in range(9000) %}{{ s[-1] }}{% endfor %}",
        "{% set s = 'ab' * 400000 %}{% for i in range(9000) %}{{ s.rfind('c') }}{% endfor %}",
        "{% set s = ['x'] * 90000 %}{% for i in range(9000) %}{{ 'y' in s }}{% endfor %}",
        "{% set s = range(90000)|list %}{% for i in range(9000) %}{{ s|max }}{% endfor %}",
        "{{ range(90000)|map('string')|unique|list|length }}",
    };
    const ps_chat_render_options few = {
        .output_bytes = 1 << 20, .memory_bytes = 256 << 20, .steps = 200000, .depth = 50};
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++) {
        assert_int_equal(PS_EXHAUSTED, try_render(work[i], "{}", &few));
        if (strstr(ps_error_message(), "limit of 200000 steps") == NULL) {
            fail_msg("%s: %s", work[i], ps_error_message());
        }
    }
    assert_int_equal(PS_OK,
                     try_render("{{ range(500)|map('string')|unique|list|length }}", "{}", &few));
}

static void test_output(void **state)
{
    (void)state;
    assert_fails("{{ 'x' * 99999999 }}", PS_EXHAUSTED, "output limit of 16777216 bytes");
    assert_fails("{% for i in range(100000) %}{{ 'x' * 999 }}{% endfor %}", PS_EXHAUSTED,
                 "output limit");
    assert_fails("{% set s = 'x' * 10000000 %}{{ s.replace('', s) }}", PS_EXHAUSTED,
                 "output limit");
    assert_fails("{% set s = 'x' * 1000 %}{{ ([s] * 100000)|join }}", PS_EXHAUSTED, "output limit");
    const ps_chat_render_options little = {
        .output_bytes = 4, .memory_bytes = 1 << 20, .steps = 1000, .depth = 50};
    assert_int_equal(PS_OK, try_render("abcd", "{}", &little));
    assert_int_equal(PS_EXHAUSTED, try_render("abcde", "{}", &little));
}

static void test_memory(void **state)
{
    (void)state;
    assert_fails("{% set n = namespace(l=[1]) %}{% for i in range(60) %}"
                 "{% set n.l = n.l + n.l %}{% endfor %}",
                 PS_EXHAUSTED, "memory limit of 268435456 bytes");
    assert_fails("{{ [0] * 9999999999 }}", PS_EXHAUSTED, "memory limit");
    assert_fails("{% set s = 'x' * 16000000 %}{{ s|list|length }}", PS_EXHAUSTED, "memory limit");
    const ps_chat_render_options none = {.output_bytes = 4, .steps = 1000, .depth = 50};
    assert_int_equal(PS_EXHAUSTED, try_render("x", "{}", &none));
    assert_non_null(strstr(ps_error_message(), "memory limit of 0 bytes"));
}

static void test_other_limits(void **state)
{
    (void)state;
    assert_fails("{{ range(100001) }}", PS_EXHAUSTED, "limit of 100000 numbers");
    assert_fails("{{ strftime_now('%A' * 200) }}", PS_EXHAUSTED, "strftime_now");
    assert_fails("{{ strftime_now('%100000d') }}", PS_EXHAUSTED, "strftime_now");
    char *huge = nested("x", "", "", (1 << 20) + 1);
    assert_fails(huge, PS_EXHAUSTED, "at most 1048576 bytes");
    free(huge);
    char *arguments = nested("1,", "", "", 1000);
    ps_buffer text = {0};
    assert_int_equal(PS_OK, ps_buffer_printf(&text, "{{ f(%s) }}", arguments));
    assert_fails(text.data, PS_EXHAUSTED, "limit of 256 arguments");
    ps_buffer_deinit(&text);
    free(arguments);
}

static void test_unsupported_is_named(void **state)
{
    (void)state;
    assert_fails("\n\n{{ s|batch(2) }}", PS_UNSUPPORTED, "line 3: filter 'batch' is not supported");
    assert_fails("a\n{% if s is prime %}{% endif %}", PS_UNSUPPORTED,
                 "line 2: test 'prime' is not supported");
    assert_fails("\n{% include 'x' %}", PS_UNSUPPORTED, "line 2: tag 'include' is not supported");
    assert_fails("{% for i in s recursive %}{% endfor %}", PS_UNSUPPORTED, "recursive");
    assert_fails("\r\n\r{{ s.zfill(3) }}", PS_UNSUPPORTED,
                 "line 3: method 'str.zfill' is not supported");
    assert_fails("{{ [].append(1) }}", PS_UNSUPPORTED, "method 'list.append' is not supported");
    assert_fails("{{ lipsum() }}", PS_UNSUPPORTED, "function 'lipsum' is not supported");
    assert_fails("{{ f(*s) }}", PS_UNSUPPORTED, "'*'");
    assert_fails("{{ '%s' % s }}", PS_UNSUPPORTED, "'%' is not supported");
    assert_fails("{{ 9223372036854775807 + 1 }}", PS_UNSUPPORTED, "64 bits");
    assert_fails("{{ 99999999999999999999 }}", PS_UNSUPPORTED, "64 bits");
    assert_fails("{{ [1]|map('string') }}", PS_UNSUPPORTED, "printing a generator");
    assert_fails("{{ range }}", PS_UNSUPPORTED, "printing a function");
    assert_fails("{{ gr\xc3\xb6\xc3\x9f"
                 "e }}",
                 PS_UNSUPPORTED, "U+00F6");
    assert_fails("{% macro f() %}{{ varargs }}{% endmacro %}", PS_UNSUPPORTED, "varargs");
}

static void test_errors_name_the_line(void **state)
{
    (void)state;
    assert_fails("\n{% if s %}\n\n", PS_INVALID, "line 2: 'if' has no 'endif'");
    assert_fails("\n{{ s.x.y }}", PS_INVALID, "line 2: 'x' is undefined, so it has no 'y'");
    assert_fails("{% for c in s %}\n{{ c + 1 }}{% endfor %}", PS_INVALID,
                 "line 2: '+' does not take str and int");
    assert_fails("{#- x -#}\n\n{# y\n #}{{ raise_exception('no ' ~ s) }}", PS_INVALID,
                 "line 4: the template refuses: no text");
    assert_fails("{% macro f() %}\n{{ nope() }}\n{% endmacro %}\n{{ f() }}", PS_INVALID,
                 "line 2: 'nope' is undefined");
    assert_fails("{{ 1 2 }}", PS_INVALID, "line 1: expected '}}', found '2'");
    assert_fails("\n\n{{ s|replace('a') }}", PS_INVALID, "line 3: 'replace' needs 'new'");
    assert_fails("{{ ", PS_INVALID, "ends inside a tag");
    assert_fails("x\n{{ 'abc }}", PS_INVALID, "line 2: the string that begins here has no end");
    assert_fails("\xff", PS_INVALID, "not UTF-8 at byte 0");
    assert_fails("{{ 'x\xc3' }}", PS_INVALID, "not UTF-8 at byte 5");
}

static void test_bad_contexts(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "[]",
                                      "1",
                                      "{",
                                      "{\"a\": }",
                                      "{\"a\": \"\\ud800\"}",
                                      "{\"a\": \"\xff\"}",
                                      "{\"a\": 1e999}",
                                      "{} x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(PS_INVALID, try_render("x", bad[i], NULL));
        assert_non_null(strstr(ps_error_message(), "variables"));
    }
}

// Long messages cost linear time and memory: 8 MiB pass the default limits.
static void test_long_message(void **state)
{
    (void)state;
    char *text = nested("word ", "", "", (8 << 20) / 5);
    ps_buffer context = {0};
    assert_int_equal(
        PS_OK, ps_buffer_printf(
                   &context, "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}]}", text));
    assert_int_equal(PS_OK,
                     try_render("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content|trim"
                                " + '<|end|>' }}{% endfor %}",
                                context.data, NULL));
    ps_buffer_deinit(&context);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parser_depth),
        cmocka_unit_test(test_long_chains),
        cmocka_unit_test(test_run_depth),
        cmocka_unit_test(test_context_depth),
        cmocka_unit_test(test_deepest_allowed),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_other_limits),
        cmocka_unit_test(test_unsupported_is_named),
        cmocka_unit_test(test_errors_name_the_line),
        cmocka_unit_test(test_bad_contexts),
        cmocka_unit_test(test_long_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
