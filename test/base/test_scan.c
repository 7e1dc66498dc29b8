// Goal: the scanner reads what its writers write, bit for bit, counts lines right and refuses
// everything else with the line's number; ps_nearest finds the closest word.
// Method: examples with hand-made results, random round trips from a printed seed, and a slow
// recursive edit distance as oracle.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/scan.h"
#include "gen.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define ROUNDS 20000

static ps_scan first_line(const char *text)
{
    ps_scan scan = ps_scan_start(ps_str_of(text));
    assert_true(ps_scan_line(&scan));
    return scan;
}

static void expect_error(ps_status status, const char *message)
{
    assert_int_equal(status, PS_INVALID);
    assert_string_equal(ps_error_message(), message);
}

static void test_lines_are_counted_and_empty_ones_skipped(void **state)
{
    (void)state;
    ps_scan scan = ps_scan_start(ps_str_of("# one\n\n  a 1 # two\r\n\t\nb"));
    ps_str word;
    uint64_t number = 0;
    assert_true(ps_scan_line(&scan));
    assert_int_equal(scan.line_number, 3);
    assert_int_equal(ps_scan_word(&scan, "a word", &word), PS_OK);
    assert_true(ps_str_equal(word, "a"));
    assert_false(ps_scan_at_end(&scan));
    assert_int_equal(ps_scan_u64(&scan, 9, &number), PS_OK);
    assert_int_equal(number, 1);
    assert_int_equal(ps_scan_line_end(&scan), PS_OK);
    assert_true(ps_scan_line(&scan));
    assert_int_equal(scan.line_number, 5);
    assert_true(ps_scan_try_word(&scan, "b"));
    assert_false(ps_scan_line(&scan));
    assert_true(ps_scan_at_end(&scan));
    assert_false(ps_scan_line(&scan));
}

static void test_empty_text_has_no_line(void **state)
{
    (void)state;
    ps_scan scan = ps_scan_start((ps_str){0});
    assert_false(ps_scan_line(&scan));
    assert_true(ps_scan_at_end(&scan));
}

static void test_marks_and_words(void **state)
{
    (void)state;
    ps_scan scan = first_line("%blk.0/x-y =[ key=7T]");
    ps_str word;
    uint32_t number = 0;
    assert_int_equal(ps_scan_peek(&scan), '%');
    assert_int_equal(ps_scan_mark(&scan, '%'), PS_OK);
    assert_false(ps_scan_try_word(&scan, "blk"));
    assert_int_equal(ps_scan_word(&scan, "a word", &word), PS_OK);
    assert_true(ps_str_equal(word, "blk.0/x-y"));
    assert_false(ps_scan_try_mark(&scan, '['));
    assert_true(ps_scan_try_mark(&scan, '='));
    assert_true(ps_scan_try_mark(&scan, '['));
    assert_true(ps_scan_try_word(&scan, "key"));
    assert_int_equal(ps_scan_mark(&scan, '='), PS_OK);
    assert_int_equal(ps_scan_u32(&scan, 7, &number), PS_OK);
    assert_int_equal(number, 7);
    assert_true(ps_scan_try_word(&scan, "T"));
    expect_error(ps_scan_line_end(&scan), "line 1: expected the end of the line at ']'");
    assert_int_equal(ps_scan_mark(&scan, ']'), PS_OK);
    expect_error(ps_scan_mark(&scan, ']'), "line 1: expected ']' at the end of the line");
}

static void test_a_nul_byte_is_not_the_end(void **state)
{
    (void)state;
    ps_scan scan = ps_scan_start((ps_str){.data = "\0 a", .length = 3});
    assert_true(ps_scan_line(&scan));
    assert_false(ps_scan_at_end(&scan));
    assert_int_equal(ps_scan_line_end(&scan), PS_INVALID);
}

typedef struct bad {
    const char *text;
    const char *message;
} bad;

static void test_whole_numbers_are_bounded(void **state)
{
    (void)state;
    static const bad CASES[] = {
        {"-1", "line 1: expected a whole number at '-1'"},
        {"x", "line 1: expected a whole number at 'x'"},
        {"256", "line 1: 256 is too large, at most 255 would be right"},
        {"99999999999999999999999999",
         "line 1: 99999999999999999999999999 is too large, at most 255 would be right"},
    };
    uint64_t number = 42;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ps_scan scan = first_line(CASES[i].text);
        expect_error(ps_scan_u64(&scan, 255, &number), CASES[i].message);
        assert_int_equal(number, 42);
    }
    ps_scan scan = first_line("18446744073709551615 000255");
    assert_int_equal(ps_scan_u64(&scan, UINT64_MAX, &number), PS_OK);
    assert_true(number == UINT64_MAX);
    assert_int_equal(ps_scan_u64(&scan, 255, &number), PS_OK);
    assert_int_equal(number, 255);
    scan = first_line("18446744073709551616");
    assert_int_equal(ps_scan_u64(&scan, UINT64_MAX, &number), PS_INVALID);
}

static void test_odd_numbers_are_refused(void **state)
{
    (void)state;
    static const bad CASES[] = {
        {"nan", "line 1: expected a number at 'nan'"},
        {"inf", "line 1: expected a number at 'inf'"},
        {"", "line 1: expected a number at the end of the line"},
        {"0x1p3", "line 1: expected the end of the line at 'x1p3'"},
        {"1e", "line 1: '1e' is not a finite number"},
        {"1.2.3", "line 1: '1.2.3' is not a finite number"},
        {"-", "line 1: '-' is not a finite number"},
        {"1e400", "line 1: '1e400' is not a finite number"},
        {"-1e400", "line 1: '-1e400' is not a finite number"},
        {"1111111111111111111111111111111111111111111111111111111111111111",
         "line 1: expected a number at '1111111111111111111111111111111111111111'"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "a %s", CASES[i].text);
        float f32 = 42;
        double f64 = 42;
        ps_scan scan = first_line(text);
        ps_scan again = scan;
        ps_status status = PS_OK;
        assert_true(ps_scan_try_word(&scan, "a"));
        status = ps_scan_f32(&scan, &f32);
        expect_error(status == PS_OK ? ps_scan_line_end(&scan) : status, CASES[i].message);
        assert_true(ps_scan_try_word(&again, "a"));
        status = ps_scan_double(&again, &f64);
        expect_error(status == PS_OK ? ps_scan_line_end(&again) : status, CASES[i].message);
        if (status != PS_OK) {
            assert_true(f32 == 42 && f64 == 42);
        }
    }
}

static void test_floats_come_back_bit_for_bit(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t bits = ps_gen_next(&gen);
        const uint32_t low = (uint32_t)bits;
        double f64, f64_back = 0;
        float f32, f32_back = 0;
        memcpy(&f64, &bits, sizeof f64);
        memcpy(&f32, &low, sizeof f32);
        if (!isfinite(f64) || !isfinite(f32)) {
            continue;
        }
        ps_buffer text = {0};
        assert_int_equal(ps_buffer_f32(&text, f32), PS_OK);
        assert_int_equal(ps_buffer_append(&text, " ", 1), PS_OK);
        assert_int_equal(ps_buffer_double(&text, f64), PS_OK);
        ps_scan scan = first_line(text.data);
        assert_int_equal(ps_scan_f32(&scan, &f32_back), PS_OK);
        assert_int_equal(ps_scan_double(&scan, &f64_back), PS_OK);
        assert_int_equal(ps_scan_line_end(&scan), PS_OK);
        assert_memory_equal(&f32, &f32_back, sizeof f32);
        assert_memory_equal(&f64, &f64_back, sizeof f64);
        ps_buffer_deinit(&text);
    }
}

static void test_strings_come_back_and_are_quoted_when_they_must(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        char name[16];
        char back[16];
        const size_t length = (size_t)ps_gen_range(&gen, 0, sizeof name - 1);
        for (size_t i = 0; i < length; i++) {
            name[i] = (char)(ps_gen_range(&gen, 0, 1) ? ps_gen_range(&gen, 'a', 'e')
                                                      : ps_gen_range(&gen, 1, 255));
        }
        name[length] = '\0';
        ps_buffer text = {0};
        assert_int_equal(ps_buffer_string(&text, (ps_str){name, length}), PS_OK);
        assert_null(strchr(text.data, '\n'));
        ps_scan scan = first_line(text.data);
        assert_int_equal(ps_scan_string(&scan, "a name", back, sizeof back), PS_OK);
        assert_int_equal(ps_scan_line_end(&scan), PS_OK);
        assert_string_equal(back, name);
        ps_buffer_deinit(&text);
    }
    ps_buffer text = {0};
    assert_int_equal(ps_buffer_string(&text, ps_str_of("blk.0.attn_q.weight")), PS_OK);
    assert_int_equal(ps_buffer_string(&text, ps_str_of("a b#\"\\\n")), PS_OK);
    assert_string_equal(text.data, "blk.0.attn_q.weight\"a b#\\\"\\\\\\x0a\"");
    ps_buffer_deinit(&text);
}

static void test_odd_strings_are_refused(void **state)
{
    (void)state;
    static const char ESCAPES[] =
        "line 1: a name holds a NUL or an escape other than \\\" \\\\ \\n \\t \\xHH";
    static const bad CASES[] = {
        {"\"abc", "line 1: a name lacks its closing quote"},
        {"\"abc\\", ESCAPES},
        {"\"\\q\"", ESCAPES},
        {"\"\\x0", ESCAPES},
        {"\"\\x0g\"", ESCAPES},
        {"\"\\x00\"", ESCAPES},
        {"\"12345678\"", "line 1: a name is longer than 7 bytes"},
        {"12345678", "line 1: a name is longer than 7 bytes"},
        {"-a", "line 1: expected a name at '-a'"},
        {"=", "line 1: expected a name at '='"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char name[8];
        ps_scan scan = first_line(CASES[i].text);
        expect_error(ps_scan_string(&scan, "a name", name, sizeof name), CASES[i].message);
    }
    char name[8];
    ps_scan scan = first_line("\"\\x41\\n\\t\" 1234567");
    assert_int_equal(ps_scan_string(&scan, "a name", name, sizeof name), PS_OK);
    assert_string_equal(name, "A\n\t");
    assert_int_equal(ps_scan_string(&scan, "a name", name, sizeof name), PS_OK);
    assert_string_equal(name, "1234567");
}

static void test_choices_name_the_nearest(void **state)
{
    (void)state;
    static const char *const WORDS[] = {"enabled", NULL, "prefetch_ratio", "attn"};
    uint32_t index = 42;
    ps_scan scan = first_line("attn prefetch_ration");
    assert_int_equal(ps_scan_choice(&scan, "a key", WORDS, 4, &index), PS_OK);
    assert_int_equal(index, 3);
    expect_error(ps_scan_choice(&scan, "a key", WORDS, 4, &index),
                 "line 1: 'prefetch_ration' is not a key; the nearest is 'prefetch_ratio'");
    assert_int_equal(index, 3);
}

// Edit distance with swaps of neighbours, by its definition.
static uint32_t slow_distance(const char *a, size_t m, const char *b, size_t n)
{
    if (m == 0 || n == 0) {
        return (uint32_t)(m + n);
    }
    uint32_t best = slow_distance(a, m - 1, b, n - 1) + (a[m - 1] != b[n - 1]);
    const uint32_t gone = slow_distance(a, m - 1, b, n) + 1;
    const uint32_t added = slow_distance(a, m, b, n - 1) + 1;
    best = gone < best ? gone : best;
    best = added < best ? added : best;
    if (m > 1 && n > 1 && a[m - 1] == b[n - 2] && a[m - 2] == b[n - 1]) {
        const uint32_t swapped = slow_distance(a, m - 2, b, n - 2) + 1;
        best = swapped < best ? swapped : best;
    }
    return best;
}

static void random_word(ps_gen *gen, char word[6])
{
    const size_t length = (size_t)ps_gen_range(gen, 0, 5);
    for (size_t i = 0; i < length; i++) {
        word[i] = (char)ps_gen_range(gen, 'a', 'c');
    }
    word[length] = '\0';
}

static void test_nearest_has_the_smallest_distance(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 500; round++) {
        char word[6];
        char texts[4][6];
        const char *words[4];
        random_word(&gen, word);
        const char *expected = NULL;
        uint32_t best = UINT32_MAX;
        for (int i = 0; i < 4; i++) {
            random_word(&gen, texts[i]);
            words[i] = texts[i];
            const uint32_t edits = slow_distance(word, strlen(word), texts[i], strlen(texts[i]));
            if (edits < best) {
                best = edits;
                expected = texts[i];
            }
        }
        assert_ptr_equal(ps_nearest(ps_str_of(word), words, 4), expected);
    }
    char huge[5000];
    memset(huge, 'a', sizeof huge);
    const char *one = "b";
    assert_ptr_equal(ps_nearest((ps_str){huge, sizeof huge}, &one, 1), one);
    assert_null(ps_nearest(ps_str_of("a"), NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_counted_and_empty_ones_skipped),
        cmocka_unit_test(test_empty_text_has_no_line),
        cmocka_unit_test(test_marks_and_words),
        cmocka_unit_test(test_a_nul_byte_is_not_the_end),
        cmocka_unit_test(test_whole_numbers_are_bounded),
        cmocka_unit_test(test_odd_numbers_are_refused),
        cmocka_unit_test(test_floats_come_back_bit_for_bit),
        cmocka_unit_test(test_strings_come_back_and_are_quoted_when_they_must),
        cmocka_unit_test(test_odd_strings_are_refused),
        cmocka_unit_test(test_choices_name_the_nearest),
        cmocka_unit_test(test_nearest_has_the_smallest_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
