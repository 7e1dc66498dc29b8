// ctest-labels: prop
// ctest-links: ps_ir
// Goal: no change of a plan's text does harm: it is refused with a message, or it is a plan that
// prints as a text of itself.
// Method: the plans of this folder with random bytes, words and lines changed, and cut anywhere.
// The numbers that are put in are those at which sizes wrap.
#include "gen.h"
#include "plan/plan_text_test.h"

#define ROUNDS 1500

static const char *const PATHS[] = {"test/plan/decode.plan", "test/plan/prefill.plan"};

static bool is_accepted(ps_str text)
{
    ps_buffer out = {0};
    const ps_status status = ps_plan_text_round_trip(text, &out);
    assert_true(status == PS_OK || (status == PS_INVALID && ps_error_message()[0] != '\0'));
    ps_buffer_deinit(&out);
    return status == PS_OK;
}

static char *next_number(ps_gen *gen, char *text, size_t length)
{
    char *at = text + ps_gen_range(gen, 0, (int64_t)length - 1);
    while (*at != '\0' && (*at < '0' || *at > '9')) {
        at++;
    }
    return at;
}

// Puts another number in the place of one; the text has room behind it.
static void change_number(ps_gen *gen, char *text)
{
    static const char *const NUMBERS[] = {"0",          "1",          "7",
                                          "64",         "65535",      "16777217",
                                          "4294967295", "4294967296", "18446744073709551615"};
    char *at = next_number(gen, text, strlen(text));
    const char *number = NUMBERS[ps_gen_range(gen, 0, 8)];
    const size_t old = strspn(at, "0123456789");
    if (old == 0) {
        return; // behind the last number
    }
    memmove(at + strlen(number), at + old, strlen(at + old) + 1);
    memcpy(at, number, strlen(number));
}

static void change_byte(ps_gen *gen, char *text)
{
    static const char MARKS[] = "%={}[],\"\\# \n0TL-.";
    char *at = text + ps_gen_range(gen, 0, (int64_t)strlen(text) - 1);
    *at = ps_gen_range(gen, 0, 1) ? MARKS[ps_gen_range(gen, 0, sizeof MARKS - 2)]
                                  : (char)ps_gen_range(gen, 1, 255);
}

// Takes out a line, or writes it again where another one begins.
static void change_line(ps_gen *gen, char *text)
{
    char *line = strchr(text + ps_gen_range(gen, 0, (int64_t)strlen(text) - 1), '\n');
    if (line == NULL || line[1] == '\0') {
        return;
    }
    line++;
    char copy[512];
    const size_t length = strcspn(line, "\n") + (strchr(line, '\n') != NULL);
    if (length >= sizeof copy) {
        return;
    }
    memcpy(copy, line, length);
    memmove(line, line + length, strlen(line + length) + 1);
    char *to = strchr(text + ps_gen_range(gen, 0, (int64_t)strlen(text) - 1), '\n');
    if (to != NULL && ps_gen_range(gen, 0, 1) == 0) {
        memmove(to + 1 + length, to + 1, strlen(to + 1) + 1);
        memcpy(to + 1, copy, length);
    }
}

static void test_changes_do_no_harm(void **state)
{
    (void)state;
    static void (*const CHANGES[])(ps_gen *, char *) = {change_number, change_byte, change_line};
    ps_gen gen = ps_gen_start();
    uint32_t accepted = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char *text = ps_graph_text_load(PATHS[round % 2]);
        text = realloc(text, strlen(text) + 4096); // numbers may grow
        assert_non_null(text);
        for (int64_t i = ps_gen_range(&gen, 1, 2); i > 0; i--) {
            CHANGES[ps_gen_range(&gen, 0, 2)](&gen, text);
        }
        accepted += is_accepted(ps_str_of(text));
        free(text);
    }
    print_message("%u of %d accepted\n", accepted, ROUNDS);
    assert_true(accepted > 0 && accepted < ROUNDS);
}

// A plan ends where its output is written: no cut before that is accepted.
static void test_cut_texts_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char *text = ps_graph_text_load(PATHS[i]);
        const size_t length = strlen(text);
        const size_t whole = (size_t)(strstr(text, "%logits = all_gather") - text);
        for (size_t cut = 0; cut < length; cut += cut < whole ? 13 : 1) {
            // From the heap and of the very size, so that a byte too far is seen.
            char *copy = malloc(cut + (cut == 0));
            assert_non_null(copy);
            memcpy(copy, text, cut);
            const bool accepted = is_accepted((ps_str){copy, cut});
            assert_true(!accepted || cut > whole);
            free(copy);
        }
        free(text);
    }
}

// Every arena that is too small is told apart from a bad plan.
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    char *text = ps_graph_text_load(PATHS[0]);
    size_t failed = 0;
    for (size_t limit = 0;; limit += 512) {
        ps_arena arena;
        ps_arena_init(&arena, limit);
        ps_plan *plan = NULL;
        const ps_status status = ps_plan_parse(ps_str_of(text), &arena, &plan);
        ps_arena_deinit(&arena);
        if (status == PS_OK) {
            break;
        }
        assert_true(status == PS_EXHAUSTED || status == PS_NO_MEMORY);
        assert_null(plan);
        failed++;
    }
    assert_true(failed > 10);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_do_no_harm),
        cmocka_unit_test(test_cut_texts_are_refused),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
