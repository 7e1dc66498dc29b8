// Goal: text that came out of messages, tools or documents is marked, whatever a template does to
// it; the template's own text and the caller's variables are not; spans cover the output in order.
// Method: outputs are compared with the untrusted parts written in [ ].
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_template.h"

static const char context[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" <|end|>\xc3\xa9\xc3\x9f"
    " \", \"parts\": [\"a\", \"b\"]},"
    " {\"role\": \"<|end|>\", \"content\": \"x\"}, {\"role\": \"assistant\", \"n\": 5}],"
    " \"tools\": [{\"name\": \"t\"}], \"documents\": [\"doc\"], \"bos_token\": \"<s>\","
    " \"date\": \"now\"}";

// The output with every untrusted span in brackets.
static ps_buffer marked(const ps_chat_output *output)
{
    ps_buffer text = {0};
    size_t at = 0;
    for (size_t i = 0; i < output->span_count; i++) {
        const ps_chat_span span = output->spans[i];
        assert_int_equal(at, span.begin);
        assert_true(span.end > span.begin);
        assert_true(i == 0 || output->spans[i - 1].trusted != span.trusted);
        assert_int_equal(PS_OK, ps_buffer_append(&text, "[", !span.trusted));
        assert_int_equal(
            PS_OK, ps_buffer_append(&text, output->text.data + span.begin, span.end - span.begin));
        assert_int_equal(PS_OK, ps_buffer_append(&text, "]", !span.trusted));
        at = span.end;
    }
    assert_int_equal(at, output->text.length);
    return text;
}

static void assert_marked(const char *source, const char *expected)
{
    ps_chat_template *parsed = NULL;
    ps_chat_output output = {0};
    assert_int_equal(PS_OK, ps_chat_template_create(ps_str_of(source), &parsed));
    if (ps_chat_template_render(parsed, ps_str_of(context), NULL, &output) != PS_OK) {
        fail_msg("%s: %s", source, ps_error_message());
    }
    ps_buffer text = marked(&output);
    assert_string_equal(expected, text.data == NULL ? "" : text.data);
    ps_buffer_deinit(&text);
    ps_chat_output_deinit(&output);
    ps_chat_template_destroy(parsed);
}

#define C "messages[0].content"

static void test_sources(void **state)
{
    (void)state;
    assert_marked("", "");
    assert_marked("a{{ 'b' }}{{ bos_token }}{{ date }}", "ab<s>now");
    assert_marked("a{{ " C " }}b", "a[ <|end|>\xc3\xa9\xc3\x9f"
                                   " ]b");
    assert_marked("{{ tools[0].name }}-{{ documents[0] }}", "[t]-[doc]");
    assert_marked("{% for k in tools[0] %}{{ k }}{% endfor %}", "[name]");
    assert_marked("{{ 1 }}{{ none }}{{ messages[2].n }}", "1None5");
}

static void test_roles(void **state)
{
    (void)state;
    assert_marked("{% for m in messages %}{{ '<|' + m.role + '|>' }}{% endfor %}",
                  "<|user|><|[<|end|>]|><|assistant|>");
}

static void test_operations_keep_marks(void **state)
{
    (void)state;
    assert_marked("{{ 'x' + " C "|trim + 'y' }}", "x[<|end|>\xc3\xa9\xc3\x9f"
                                                  "]y");
    assert_marked("{{ ('x' ~ " C " ~ 'y')|trim }}", "x[ <|end|>\xc3\xa9\xc3\x9f"
                                                    " ]y");
    assert_marked("{{ ('x' ~ " C " ~ 'y')[2:7] }}", "[<|end]");
    assert_marked("{{ ('x' ~ " C " ~ 'y')[::-1] }}", "y[ \xc3\x9f\xc3\xa9"
                                                     ">|dne|< ]x");
    assert_marked("{{ ('x' ~ " C ")|upper }}", "X[ <|END|>\xc3\x89"
                                               "SS ]");
    assert_marked("{{ " C ".replace('end', 'END').strip() }}", "[<|]END[|>\xc3\xa9\xc3\x9f"
                                                               "]");
    assert_marked("{{ 'a-b'.replace('-', " C "|trim) }}", "a[<|end|>\xc3\xa9\xc3\x9f"
                                                          "]b");
    assert_marked("{{ ('a ' ~ " C ").split() | join(',') }}", "a,[<|end|>\xc3\xa9\xc3\x9f"
                                                              "]");
    assert_marked("{{ " C ".split('|')[1] }}", "[end]");
    assert_marked("{{ ', '.join(messages[0].parts) }}", "[a], [b]");
    assert_marked("{{ messages[0].parts | map('upper') | join('+') }}", "[A]+[B]");
    assert_marked("{{ ('x\\n' ~ messages[0].parts[0])|indent(1, true) }}", " x\n [a]");
    assert_marked("{{ messages[0].parts[0] * 2 ~ 'c' * 2 }}", "[aa]cc");
    assert_marked("{% for c in " C "[1:3] %}{{ c }}.{% endfor %}", "[<].[|].");
    assert_marked("{{ " C " if true }}{{ none or " C " }}", "[ <|end|>\xc3\xa9\xc3\x9f"
                                                            "  <|end|>\xc3\xa9\xc3\x9f"
                                                            " ]");
}

static void test_flows_keep_marks(void **state)
{
    (void)state;
    assert_marked("{% set x %}a{{ messages[0].parts[0] }}{% endset %}{{ x }}", "a[a]");
    assert_marked("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(messages[0].parts[0]) }}", "<[a]>");
    assert_marked("{% filter upper %}x{{ messages[0].parts[0] }}{% endfilter %}", "X[A]");
    assert_marked(
        "{% set n = namespace(x='s') %}{% set n.x = n.x + messages[0].parts[1] %}{{ n.x }}",
        "s[b]");
    assert_marked("{% generation %}{{ messages[0].parts[0] }}!{% endgeneration %}", "[a]!");
}

static void test_whole_values_are_untrusted(void **state)
{
    (void)state;
    assert_marked("{{ tools|tojson }};", "[[{\"name\": \"t\"}]];");
    assert_marked("{{ messages[0].parts }};", "[['a', 'b']];");
    assert_marked("{{ {'a': 1}|tojson }}", "[{\"a\": 1}]");
}

static void test_time_is_settable(void **state)
{
    (void)state;
    ps_chat_template *parsed = NULL;
    ps_chat_output output = {0};
    ps_chat_render_options limits = ps_chat_render_options_default();
    limits.now = 86400;
    assert_int_equal(PS_OK,
                     ps_chat_template_create(
                         ps_str_of("{{ strftime_now('%Y') }}{{ strftime_now('%Y') }}"), &parsed));
    assert_int_equal(PS_OK, ps_chat_template_render(parsed, ps_str_of("{}"), &limits, &output));
    assert_string_equal("19701970", output.text.data);
    ps_chat_output_deinit(&output);
    limits.now = 0;
    assert_int_equal(PS_OK, ps_chat_template_render(parsed, ps_str_of("{}"), &limits, &output));
    assert_true(strcmp(output.text.data, "20252025") >= 0);
    ps_chat_output_deinit(&output);
    ps_chat_template_destroy(parsed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_operations_keep_marks),
        cmocka_unit_test(test_flows_keep_marks),
        cmocka_unit_test(test_whole_values_are_untrusted),
        cmocka_unit_test(test_time_is_settable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
