// ctest-labels: unit
// Goal: what the library holds of data/ is what lies there, byte for byte, and is found by name and
// by folder. Method: every file of the source tree is read again with stdio and compared.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/data_files.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA PS_SOURCE_DIR "/data"

static uint32_t files_seen;

static int compare_file(const char *path, const struct stat *about, int kind)
{
    if (kind != FTW_F) {
        return 0;
    }
    const char *name = path + sizeof DATA; // behind the slash
    const ps_data_file *file = ps_data_find(ps_str_of(name));
    if (file == NULL) {
        fail_msg("%s is not in the library", name);
        return 1;
    }
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    char *bytes = malloc((size_t)about->st_size + 1);
    assert_non_null(bytes);
    const size_t length = fread(bytes, 1, (size_t)about->st_size + 1, stream);
    (void)fclose(stream);
    assert_int_equal(length, file->length);
    assert_memory_equal(bytes, file->text, length);
    assert_int_equal(file->text[length], '\0');
    free(bytes);
    files_seen++;
    return 0;
}

static void test_all_files_are_there(void **state)
{
    (void)state;
    files_seen = 0;
    assert_int_equal(ftw(DATA, compare_file, 8), 0);
    assert_true(files_seen > 0);
    assert_int_equal(files_seen, ps_data_table_count);
}

static void test_folders(void **state)
{
    (void)state;
    uint32_t count = 0;
    const ps_data_file *first = ps_data_folder("models", &count);
    assert_non_null(first);
    assert_true(count > 0);
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        assert_memory_equal(first[i].name, "models/", 7);
        assert_true(i == 0 || strcmp(first[i - 1].name, first[i].name) < 0);
        found = found || ps_str_equal(ps_data_short_name(&first[i]), "llama3-8b");
    }
    assert_true(found);
    assert_null(ps_data_folder("model", &count));
    assert_int_equal(count, 0);
    assert_null(ps_data_folder("", &count));
}

static void test_names(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"",
                                        "models",
                                        "models/",
                                        "llama3-8b.json",
                                        "models/llama3-8b.jso",
                                        "models/llama3-8b.json "};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        assert_null(ps_data_find(ps_str_of(WRONG[i])));
    }
    static const struct {
        const char *name, *is;
    } SHORT[] = {{"a/b/c.json", "c"}, {"c.json", "c"}, {"a/c.txt", "c.txt"}, {"a/.json", ".json"}};
    for (size_t i = 0; i < sizeof SHORT / sizeof SHORT[0]; i++) {
        const ps_data_file file = {.name = SHORT[i].name};
        assert_true(ps_str_equal(ps_data_short_name(&file), SHORT[i].is));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_files_are_there),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
