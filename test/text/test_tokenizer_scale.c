// ctest-timeout: 300
// Goal: a mebibyte of one character, of spaces, newlines or ideographs takes linear time and gives
// what merging by the rules gives; no stack grows with the input.
// Method: vocabularies in which a unit and its doublings are tokens, so that the right answer is
// known without another implementation; a processor-time limit that a quadratic step would exceed
// a thousandfold.
#include "text/pretokenize.h"
#include "text/tokenizer_maker.h"

#include <time.h>

#define TEXT_BYTES ((size_t)1 << 20)
#define DOUBLINGS 6         // the longest token is 64 units
#define SECONDS_MAX 8.0     // sanitizers included; about 0.2 without
#define CUT_SECONDS_MAX 2.0 // about 0.03

static char *repeat(const char *unit, size_t times)
{
    const size_t length = strlen(unit);
    char *text = malloc(length * times + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++) {
        memcpy(text + i * length, unit, length);
    }
    text[length * times] = '\0';
    return text;
}

// unit, unit unit, ... as tokens, each merged from two of the one before.
static void add_doublings(maker *make, const char *unit, float first_score)
{
    for (int k = 0; k <= DOUBLINGS; k++) {
        char *half = repeat(unit, (size_t)1 << (k == 0 ? 0 : k - 1));
        char *whole = repeat(unit, (size_t)1 << k);
        maker_add_token(make, whole, first_score - (float)k, PS_TOKEN_NORMAL);
        if (k > 0) {
            maker_add_merge(make, half, half);
        }
        free(half);
        free(whole);
    }
}

// Encodes a mebibyte of units between `before` and `after`. Time and tokens stay below their
// limits, and the tokens decode to the text; with at most TEXT_BYTES / 64 of them, nearly all are
// the longest there are.
static void check(const ps_tokenizer *tokenizer, const char *before, const char *unit,
                  const char *after, size_t tokens_max)
{
    const size_t times = TEXT_BYTES / strlen(unit);
    char *middle = repeat(unit, times);
    ps_buffer text = {0};
    assert_int_equal(PS_OK, ps_buffer_printf(&text, "%s%s%s", before, middle, after));
    free(middle);

    ps_tokens ids = {0};
    const clock_t start = clock();
    const ps_status status = ps_tokenizer_encode(tokenizer, text.data, text.length,
                                                 PS_TOKENIZE_PARSE_SPECIAL, &ids);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (status != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    printf("  %7zu of U+%02x..: %6zu tokens in %.3f s\n", times, (unsigned char)unit[0], ids.count,
           seconds);
    assert_true(seconds < SECONDS_MAX);
    assert_true(ids.count <= tokens_max);

    ps_buffer back = {0};
    assert_int_equal(PS_OK, ps_tokenizer_decode(tokenizer, ids.ids, ids.count, true, &back));
    assert_int_equal(text.length, back.length);
    assert_memory_equal(text.data, back.data, text.length);
    ps_buffer_deinit(&back);
    ps_buffer_deinit(&text);
    ps_tokens_deinit(&ids);
}

static void make_bpe(maker *make)
{
    maker_add_byte_map(make);
    add_doublings(make, "A", 0);
    add_doublings(make, "\xc4\xa0", 0); // space
    add_doublings(make, "\xc4\x8a", 0); // newline
    maker_add_merge(make, "\xc3\xa4", "\xc2\xb8");
    maker_add_token(make, "\xc3\xa4\xc2\xb8", 0, PS_TOKEN_NORMAL);
    maker_add_merge(make, "\xc3\xa4\xc2\xb8", "\xc5\x83"); // U+4E2D is e4 b8 ad
    add_doublings(make, "\xc3\xa4\xc2\xb8\xc5\x83", 0);
}

static void test_bpe_takes_linear_time(void **state)
{
    (void)state;
    static const char *const pres[] = {"llama-bpe", "gpt-2"};
    maker make;
    maker_init(&make);
    make_bpe(&make);
    const size_t few = TEXT_BYTES / 64 + 16; // tokens of 64 units, and what is left of them
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++) {
        printf("%s\n", pres[i]);
        ps_tokenizer *tokenizer = maker_create(&make, "gpt2", pres[i]);
        check(tokenizer, "", "A", "", few);
        check(tokenizer, "", " ", "", few);
        check(tokenizer, "", " ", "x", few);
        check(tokenizer, "", "\n", "", few);
        check(tokenizer, "", "\xe4\xb8\xad", "", few);
        check(tokenizer, "x", "!", "x", TEXT_BYTES + 2);
        check(tokenizer, "", "\xff", "", TEXT_BYTES);
        ps_tokenizer_destroy(tokenizer);
    }
    maker_deinit(&make);
}

static ps_status add_length(void *context, size_t offset, size_t length)
{
    size_t *end = context;
    assert_int_equal(*end, offset);
    assert_true(length > 0);
    *end += length;
    return PS_OK;
}

// Processor time to cut 128 KiB of one unit and an end.
static double cut_seconds(const ps_pretokenizer *pretokenizer, const char *unit, const char *end)
{
    char *run = repeat(unit, TEXT_BYTES / 8 / strlen(unit));
    ps_buffer text = {0};
    assert_int_equal(PS_OK, ps_buffer_printf(&text, "%s%s", run, end));
    free(run);
    size_t reached = 0;
    const clock_t start = clock();
    if (ps_pretokenizer_split(pretokenizer, text.data, text.length, add_length, &reached) !=
        PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_int_equal(text.length, reached);
    ps_buffer_deinit(&text);
    return seconds;
}

// Every behaviour on every kind of run that some pattern looks at, whatever stands behind it.
static void test_cutting_takes_linear_time(void **state)
{
    (void)state;
    static const char *const pres[] = {"default",     "llama-bpe",     "qwen2",      "qwen35",
                                       "bailingmoe",  "gpt-2",         "seed-coder", "smollm",
                                       "falcon",      "gpt-4o",        "tekken",     "deepseek-llm",
                                       "deepseek-v3", "deepseek-coder"};
    static const char *const units[] = {"A",
                                        "a",
                                        "Aa",
                                        " ",
                                        " \n",
                                        "\n",
                                        "\r\n ",
                                        "\t",
                                        "7",
                                        "!",
                                        "'",
                                        "'s",
                                        " !",
                                        "\xff",
                                        "\xe4\xb8\xad",
                                        "\xcc\x81",
                                        "/",
                                        "a\xcc\x81",
                                        "\xc2\xa0",
                                        "\xd9\xa3",
                                        "\xe3\x80\x80",
                                        "\xf0\x9f\x98\x80"};
    static const char *const ends[] = {"", "x", "7", "\xe4\xb8\xad", "\x01", "!"};
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++) {
        ps_pretokenizer *pretokenizer = NULL;
        assert_int_equal(PS_OK, ps_pretokenizer_create(ps_str_of(pres[i]), &pretokenizer));
        double slowest = 0;
        for (size_t k = 0; k < sizeof units / sizeof units[0]; k++) {
            for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
                const double seconds = cut_seconds(pretokenizer, units[k], ends[e]);
                if (seconds >= CUT_SECONDS_MAX) {
                    fail_msg("%s, unit %zu, end %zu: %.1f s", pres[i], k, e, seconds);
                }
                slowest = seconds > slowest ? seconds : slowest;
            }
        }
        printf("  %s: %.3f s at most\n", pres[i], slowest);
        ps_pretokenizer_destroy(pretokenizer);
    }
}

static void test_spm_takes_linear_time(void **state)
{
    (void)state;
    maker make;
    maker_init(&make);
    maker_add_byte_tokens(&make);
    add_doublings(&make, "A", -100);
    add_doublings(&make, "\xe2\x96\x81", -200);
    add_doublings(&make, "\xe4\xb8\xad", -300);
    // User-defined runs of newlines, as real vocabularies have them.
    for (size_t run = 1; run <= 31; run++) {
        char *text = repeat("\n", run);
        maker_add_token(&make, text, 0, PS_TOKEN_USER_DEFINED);
        free(text);
    }
    ps_tokenizer *tokenizer = maker_create(&make, "llama", "");
    const size_t few = TEXT_BYTES / 64 + 16;
    check(tokenizer, "", "A", "", few);
    check(tokenizer, "", " ", "x", few);
    check(tokenizer, "", "\xe4\xb8\xad", "", few);
    check(tokenizer, "", "\n", "", TEXT_BYTES / 31 + 16);
    check(tokenizer, "", "\xff", "", TEXT_BYTES);
    check(tokenizer, "", "z", "", TEXT_BYTES);
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cutting_takes_linear_time),
        cmocka_unit_test(test_bpe_takes_linear_time),
        cmocka_unit_test(test_spm_takes_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
