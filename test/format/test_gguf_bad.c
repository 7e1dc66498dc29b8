// Goal: every way in which a file can be wrong is refused with its own status and one clear line.
// Method: the bad_* files of test/fuzz/make_gguf_corpus.py, opened by path, each with the words
// that its message must hold. A file without a line here, or a line without its file, fails.
#include "format/gguf.h"
#include "format/gguf_test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

static const struct bad_case {
    const char *name; // without bad_
    ps_status status;
    const char *said;
} CASES[] = {
    {"empty", PS_INVALID, "is empty"},
    {"magic", PS_INVALID, "starts with 'PK..', not with 'GGUF'"},
    {"magic_cut", PS_INVALID, "ends at byte 2, 2 bytes short"},
    {"web_page", PS_INVALID, "starts with '<!DO'"},
    {"header_cut", PS_INVALID, "ends at byte 20, 4 bytes short"},
    {"version_0", PS_UNSUPPORTED, "version 0; versions 2 and 3"},
    {"version_1", PS_UNSUPPORTED, "version 1; versions 2 and 3"},
    {"version_4", PS_UNSUPPORTED, "version 4; versions 2 and 3"},
    {"big_endian", PS_UNSUPPORTED, "big-endian"},
    {"split", PS_INVALID, "a part of a split file without 'split.tensors.count'"},
    {"split_type", PS_INVALID, "'split.count' holds a value of type string"},

    {"tensor_count_huge", PS_INVALID, "18446744073709551615 tensors"},
    {"tensor_count_wraps", PS_INVALID, "2305843009213693953 tensors"},
    {"tensor_count_lies", PS_INVALID, "2 tensors need at least 66 bytes"},
    {"tensor_count_million", PS_INVALID, "1048576 tensors need at least 34603008 bytes"},
    {"key_count_huge", PS_INVALID, "9223372036854775808 keys"},
    {"key_count_lies", PS_INVALID, "2 keys and 0 tensors need at least 28 bytes"},
    {"key_count_million", PS_INVALID, "1048576 keys"},
    {"key_name_length", PS_INVALID, "key 0: a string of 18446744073709551615 bytes"},
    {"key_name_long", PS_INVALID, "65536 bytes; 1 to 65535"},
    {"string_past_end", PS_INVALID, "key 's': the file ends at byte 48, 1 bytes short"},
    {"string_huge", PS_INVALID, "a string of 18446744073709551608 bytes"},
    {"string_over_limit", PS_INVALID, "a string of 1073741825 bytes; at most 1073741824"},
    {"array_count_wraps", PS_INVALID, "an array of 2305843009213693953 items"},
    {"array_count_huge", PS_INVALID, "an array of 18446744073709551615 items"},
    {"array_past_end", PS_INVALID, "key 'x': the file ends at byte 57, 4 bytes short"},
    {"array_billion", PS_INVALID, "8589934592 wanted"},
    {"string_array_count", PS_INVALID, "key 'x': the file ends at byte 58"},
    {"string_array_item", PS_INVALID, "a string of 9223372036854775808 bytes"},
    {"scalar_cut", PS_INVALID, "key 'abcdef': the file ends at byte 44, 6 bytes short"},

    {"value_type", PS_INVALID, "key 'k': unknown value type 13"},
    {"array_type", PS_INVALID, "key 'k': unknown value type 99"},
    {"nested_array", PS_INVALID, "key 'k': an array of arrays"},
    {"bool", PS_INVALID, "key 'k': a bool is the byte 2"},
    {"bool_array", PS_INVALID, "key 'k': a bool is the byte 255"},
    {"key_empty", PS_INVALID, "key 0: its name has 0 bytes"},
    {"key_nul", PS_INVALID, "byte 1 is 0x00"},
    {"key_control", PS_INVALID, "byte 1 is 0x1b"},
    {"key_control_c1", PS_INVALID, "byte 1 is 0xc2"},
    {"key_not_utf8", PS_INVALID, "byte 2 is 0xc3"},
    {"key_overlong", PS_INVALID, "byte 0 is 0xc0"},
    {"key_surrogate", PS_INVALID, "byte 0 is 0xed"},
    {"key_past_unicode", PS_INVALID, "byte 0 is 0xf4"},
    {"key_utf8_cut", PS_INVALID, "byte 2 is 0xe2"},
    {"key_twice", PS_INVALID, "key 'b' stands in the file twice"},
    {"alignment_0", PS_INVALID, "general.alignment is 0; a power of two from 8 to 65536"},
    {"alignment_1", PS_INVALID, "general.alignment is 1;"},
    {"alignment_48", PS_INVALID, "general.alignment is 48;"},
    {"alignment_large", PS_INVALID, "general.alignment is 131072;"},
    {"alignment_type", PS_INVALID, "general.alignment is no u32"},
    {"alignment_array", PS_INVALID, "general.alignment is no u32"},

    {"name_empty", PS_INVALID, "tensor 0: its name has 0 bytes"},
    {"name_64", PS_INVALID, "tensor 0: its name has 64 bytes"},
    {"name_nul", PS_INVALID, "tensor 0: its name is not UTF-8 without control characters"},
    {"name_not_utf8", PS_INVALID, "byte 1 is 0xff"},
    {"name_past_end", PS_INVALID, "tensor 0: a string of 1099511627776 bytes"},
    {"name_twice", PS_INVALID, "tensor 'a' stands in the file twice"},
    {"dimensions_0", PS_INVALID, "tensor 'a': 0 dimensions; 1 to 4"},
    {"dimensions_5", PS_INVALID, "tensor 'a': 5 dimensions; 1 to 4"},
    {"dimensions_huge", PS_INVALID, "tensor 'a': 4294967295 dimensions"},
    {"dimension_zero", PS_INVALID, "tensor 'a': dimension 1 is 0"},
    {"dimension_negative", PS_INVALID, "18446744073709551615 x 1 x 1 x 1 are too large"},
    {"dims_2_42_1", PS_INVALID, "4398046511105 x 4398046511105 x 1 x 1 are too large"},
    {"dims_int64_max", PS_INVALID, "9223372036854775807 x 2 x 1 x 1 are too large"},
    {"dims_wrap_to_small", PS_INVALID, "are too large"},
    {"dims_wrap_to_zero", PS_INVALID, "65536 x 65536 x 65536 x 65536 are too large"},
    {"bytes_wrap", PS_INVALID, "4611686018427387905 x 1 x 1 x 1 are too large"},
    {"values_wrap", PS_INVALID, "4294967296 x 4294967296 x 1 x 1 are too large"},
    {"row_not_blocks", PS_INVALID, "rows of 33 values; Q4_0 needs a multiple of 32"},
    {"row_not_superblocks", PS_INVALID, "rows of 128 values; Q4_K needs a multiple of 256"},
    {"type_removed_4", PS_UNSUPPORTED, "tensor 'a': tensor type 4 (Q4_2) has been removed"},
    {"type_removed_5", PS_UNSUPPORTED, "tensor type 5 (Q4_3)"},
    {"type_removed_31", PS_UNSUPPORTED, "tensor type 31 (Q4_0_4_4)"},
    {"type_removed_32", PS_UNSUPPORTED, "tensor type 32 (Q4_0_4_8)"},
    {"type_removed_33", PS_UNSUPPORTED, "tensor type 33 (Q4_0_8_8)"},
    {"type_removed_36", PS_UNSUPPORTED, "tensor type 36 (IQ4_NL_4_4)"},
    {"type_removed_37", PS_UNSUPPORTED, "tensor type 37 (IQ4_NL_4_8)"},
    {"type_removed_38", PS_UNSUPPORTED, "tensor type 38 (IQ4_NL_8_8)"},
    {"type_43", PS_UNSUPPORTED, "tensor 'strange.weight': unknown tensor type 43"},
    {"type_huge", PS_UNSUPPORTED, "unknown tensor type 4294967295"},
    {"offset_misaligned", PS_INVALID, "offset 4; a multiple of the alignment, 32"},
    {"offset_past_end", PS_INVALID, "tensor 'a' wants bytes 1088 to 1104; 976 bytes are missing"},
    {"offset_huge", PS_INVALID, "offset 18446744073709551584 and 16 bytes are past the end"},
    {"offset_int64", PS_INVALID, "9223372036854775728 bytes are missing"},
    {"overlap", PS_INVALID, "tensor 'b': offset 32, but the tensor before it ends at 64"},
    {"order", PS_INVALID, "tensor 'b': offset 0, but the tensor before it ends at 48"},
    {"same_bytes", PS_INVALID, "tensor 'b': offset 0, but the tensor before it ends at 16"},
    {"data_cut", PS_INVALID,
     "cut short at byte 216: tensor 'second' wants bytes 192 to 224; 8 bytes are "
     "missing, 40 to the last tensor's end"},
    {"data_one_byte_cut", PS_INVALID, "tensor 'a' wants bytes 64 to 80; 1 bytes are missing"},
    {"data_missing", PS_INVALID, "tensor 'a' wants bytes 64 to 80; 23 bytes are missing"},
    {"table_cut", PS_INVALID, "tensor 'ints': the file ends at byte"},
    {"keys_cut", PS_INVALID, "40 keys and 7 tensors need at least 791 bytes"},
};
#define CASE_COUNT (sizeof CASES / sizeof CASES[0])

static void assert_refused(const char *path, ps_status status, const char *said)
{
    ps_gguf *file = NULL;
    const ps_status answer = ps_gguf_open(path, &file);
    const char *message = ps_error_message();
    if (answer != status || strstr(message, said) == NULL) {
        fail_msg("%s: status %d with '%s'; wanted %d with '%s'", path, answer, message, status,
                 said);
    }
    assert_null(file);
    assert_int_equal(0, strncmp(message, path, strlen(path)));
    assert_null(strchr(message, '\n'));
    assert_true(path[0] == '\0' || !is_mapped(path));
}

static void test_bad_files_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/bad_%s", CORPUS, CASES[i].name);
        assert_refused(path, CASES[i].status, CASES[i].said);
    }
}

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        if (strcmp(CASES[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void assert_opens(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", CORPUS, name);
    ps_gguf *file = NULL;
    if (ps_gguf_open(path, &file) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    assert_true(is_mapped(path));
    ps_gguf_close(file);
    assert_false(is_mapped(path));
}

static void test_good_files_open_and_no_file_is_forgotten(void **state)
{
    (void)state;
    DIR *folder = opendir(CORPUS);
    assert_non_null(folder);
    size_t good = 0;
    size_t bad = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strncmp(entry->d_name, "good_", 5) == 0) {
            assert_opens(entry->d_name);
            good++;
        } else if (strncmp(entry->d_name, "bad_", 4) == 0) {
            if (!is_listed(entry->d_name + 4)) {
                fail_msg("%s has no line in this test", entry->d_name);
            }
            bad++;
        }
    }
    assert_int_equal(0, closedir(folder));
    assert_int_equal(CASE_COUNT, bad);
    assert_true(good >= 10);
}

// A folder of its own for what no corpus can hold.
static void test_paths_that_are_no_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/prestage-gguf-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[64];
    (void)snprintf(path, sizeof path, "%s/f", folder);

    assert_refused(folder, PS_INVALID, "is a folder");
    assert_refused(path, PS_NOT_FOUND, "cannot open the file: No such file");
    assert_int_equal(0, mkfifo(path, 0600));
    assert_refused(path, PS_INVALID, "is no regular file"); // and does not wait for a writer
    assert_int_equal(0, unlink(path));
    assert_refused("/dev/null", PS_INVALID, "is no regular file");
    assert_refused("/dev/null/x", PS_NOT_FOUND, "Not a directory");
    assert_refused("", PS_NOT_FOUND, "cannot open the file");
    assert_int_equal(0, rmdir(folder));
}

// Root may read every file, so root becomes nobody for the length of this test.
static void test_no_permission(void **state)
{
    (void)state;
    char path[] = "/tmp/prestage-gguf-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(0, close(descriptor));
    assert_int_equal(0, chmod(path, 0));
    const uid_t user = geteuid();
    const bool is_stuck = user == 0 && seteuid(65534) != 0;
    if (!is_stuck) {
        assert_refused(path, PS_IO, "cannot open the file: Permission denied");
        assert_int_equal(0, seteuid(user));
    }
    assert_int_equal(0, unlink(path));
    if (is_stuck) {
        print_message("skipped: root cannot become another user here\n");
        skip();
    }
}

static void test_a_very_long_path_leaves_room_for_the_message(void **state)
{
    (void)state;
    char path[3001];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    ps_gguf *file = NULL;
    assert_int_equal(PS_IO, ps_gguf_open(path, &file)); // ENAMETOOLONG
    assert_non_null(strstr(ps_error_message(), "pppp: cannot open the file: "));
    assert_null(file);
}

static void test_no_bytes_at_all(void **state)
{
    (void)state;
    ps_gguf *file = NULL;
    assert_int_equal(PS_INVALID, ps_gguf_open_bytes(NULL, 0, &file));
    assert_null(file);
    ps_gguf_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files_are_refused_by_name),
        cmocka_unit_test(test_good_files_open_and_no_file_is_forgotten),
        cmocka_unit_test(test_paths_that_are_no_files),
        cmocka_unit_test(test_no_permission),
        cmocka_unit_test(test_a_very_long_path_leaves_room_for_the_message),
        cmocka_unit_test(test_no_bytes_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
