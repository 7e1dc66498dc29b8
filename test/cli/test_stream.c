// Goal: what reaches stdout is every byte in order, and never a part of a UTF-8 sequence while more
// may come.
// Method: stdout is a file in memory; random texts in random pieces, from a printed seed; the
// lengths of the characters that were written are the oracle.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/answer.h"
#include "gen.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 300
#define TEXT_MAX 200

static int screen = -1;
static int real_stdout = -1;

static void redirect(void)
{
    (void)fflush(stdout);
    real_stdout = dup(STDOUT_FILENO);
    screen = memfd_create("screen", 0);
    assert_true(real_stdout >= 0 && screen >= 0);
    assert_true(dup2(screen, STDOUT_FILENO) >= 0);
}

// What was written; stdout is the real one again.
static size_t restore(char *out, size_t capacity)
{
    (void)fflush(stdout);
    const ssize_t length = pread(screen, out, capacity, 0);
    (void)dup2(real_stdout, STDOUT_FILENO);
    (void)close(real_stdout);
    (void)close(screen);
    assert_true(length >= 0);
    return (size_t)length;
}

static size_t written(void)
{
    const off_t length = lseek(screen, 0, SEEK_END);
    return length < 0 ? 0 : (size_t)length;
}

static void test_characters_come_whole(void **state)
{
    (void)state;
    static const char *const CHARACTERS[] = {"a", "\n", "\xc3\xa9", "\xe6\xb0\xb4",
                                             "\xf0\x9f\x98\x80"};
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        char text[TEXT_MAX + 4];
        bool is_boundary[TEXT_MAX + 5] = {true};
        size_t length = 0;
        while (length < TEXT_MAX) {
            const char *character = CHARACTERS[ps_gen_range(&gen, 0, 4)];
            memcpy(text + length, character, strlen(character));
            length += strlen(character);
            is_boundary[length] = true;
        }
        ps_cli_stream stream = {0};
        bool all_whole = true;
        size_t behind_max = 0;
        redirect();
        for (size_t at = 0; at < length;) {
            size_t piece = (size_t)ps_gen_range(&gen, 0, 5);
            piece = piece > length - at ? length - at : piece;
            ps_cli_stream_write(&stream, text + at, piece);
            at += piece;
            all_whole = all_whole && is_boundary[written()];
            behind_max = at - written() > behind_max ? at - written() : behind_max;
        }
        const size_t before_end = written();
        ps_cli_stream_end(&stream);
        char got[TEXT_MAX + 8];
        const size_t got_length = restore(got, sizeof got);
        assert_true(all_whole);
        assert_true(behind_max <= 3);
        assert_int_equal(before_end, length);
        assert_int_equal(got_length, length);
        assert_memory_equal(got, text, length);
    }
}

static void test_any_bytes_arrive_in_the_end(void **state)
{
    (void)state;
    static const unsigned char BYTES[] = {0x00, 'a', 0x80, 0xbf, 0xc3, 0xe6, 0xf0, 0xff, 0xc0};
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        char text[TEXT_MAX];
        for (size_t i = 0; i < TEXT_MAX; i++) {
            text[i] = (char)BYTES[ps_gen_range(&gen, 0, sizeof BYTES - 1)];
        }
        ps_cli_stream stream = {0};
        size_t behind_max = 0;
        redirect();
        for (size_t at = 0; at < TEXT_MAX;) {
            size_t piece = (size_t)ps_gen_range(&gen, 0, 5);
            piece = piece > TEXT_MAX - at ? TEXT_MAX - at : piece;
            ps_cli_stream_write(&stream, text + at, piece);
            at += piece;
            behind_max = at - written() > behind_max ? at - written() : behind_max;
        }
        ps_cli_stream_end(&stream);
        char got[TEXT_MAX + 8];
        const size_t got_length = restore(got, sizeof got);
        assert_true(behind_max <= 3);
        assert_int_equal(got_length, TEXT_MAX);
        assert_memory_equal(got, text, TEXT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_characters_come_whole),
        cmocka_unit_test(test_any_bytes_arrive_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
