// Goal: the parts of a split file open as one, and each way in which they can fail to go together
// is refused with one clear line that names the part.
// Method: the corpus of test/fuzz/make_gguf_split_corpus.py, opened from memory and as files beside
// each other.
#include "format/gguf.h"
#include "format/gguf_test.h"
#include "fuzz/gguf_parts.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SPLIT_CORPUS PS_SOURCE_DIR "/test/fuzz/corpus/gguf_split/"
#define PARTS_MAX 8
#define FILE_BYTES_MAX 4096

// The parts of one model, as files "m-0000i-of-0000N.gguf" of a folder of their own.
typedef struct model {
    uint8_t bytes[FILE_BYTES_MAX];
    ps_str parts[PARTS_MAX];
    uint32_t count; // of parts
    char folder[40];
    char paths[PARTS_MAX][96];
} model;

static void write_bytes(const char *path, ps_str bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(bytes.length, fwrite(bytes.data, 1, bytes.length, file));
    assert_int_equal(0, fclose(file));
}

// of: parts that the names say there are; 0: as many as there are.
static void setup(model *m, const char *name, uint32_t of)
{
    char path[512];
    (void)snprintf(path, sizeof path, SPLIT_CORPUS "%s", name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    const size_t size_bytes = fread(m->bytes, 1, sizeof m->bytes, file);
    assert_true(size_bytes < sizeof m->bytes);
    assert_int_equal(0, fclose(file));
    m->count = ps_gguf_cut_parts(m->bytes, size_bytes, m->parts, PARTS_MAX);
    (void)snprintf(m->folder, sizeof m->folder, "/tmp/prestage-split-XXXXXX");
    assert_non_null(mkdtemp(m->folder));
    for (uint32_t i = 0; i < m->count; i++) {
        (void)snprintf(m->paths[i], sizeof m->paths[i], "%s/m-%05u-of-%05u.gguf", m->folder, i + 1,
                       of == 0 ? m->count : of);
        write_bytes(m->paths[i], m->parts[i]);
    }
}

static void teardown(const model *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        (void)unlink(m->paths[i]);
    }
    assert_int_equal(0, rmdir(m->folder));
}

static void assert_place(const ps_gguf *file, const ps_gguf_tensor *tensor, const char *path)
{
    uint8_t bytes[512];
    const ps_gguf_place place = ps_gguf_tensor_place(file, tensor);
    assert_string_equal(path, place.path);
    assert_true(tensor->size_bytes <= sizeof bytes);
    FILE *raw = fopen(place.path, "rb");
    assert_non_null(raw);
    assert_int_equal(0, fseek(raw, (long)place.offset_bytes, SEEK_SET));
    assert_int_equal(tensor->size_bytes, fread(bytes, 1, tensor->size_bytes, raw));
    assert_int_equal(0, fclose(raw));
    assert_memory_equal(bytes, tensor->data, tensor->size_bytes);
}

static void test_three_parts_are_one_file(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t part;
    } TENSORS[] = {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 2}};
    model m;
    setup(&m, "good_three", 0);
    ps_gguf *file = NULL;
    assert_int_equal(PS_OK, ps_gguf_open(m.paths[0], &file));
    assert_int_equal(3, ps_gguf_part_count(file));
    assert_int_equal(3, ps_gguf_version(file));
    assert_int_equal(m.parts[0].length + m.parts[1].length + m.parts[2].length,
                     ps_gguf_size_bytes(file));
    assert_int_equal(4, ps_gguf_tensor_count(file));
    assert_int_equal(4, ps_gguf_key_count(file)); // of the first part
    for (uint32_t i = 0; i < 4; i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(file, i);
        assert_string_equal(TENSORS[i].name, tensor->name);
        assert_ptr_equal(tensor, ps_gguf_tensor_find(file, TENSORS[i].name));
        assert_place(file, tensor, m.paths[TENSORS[i].part]);
        ps_gguf_forget(file, tensor->data, tensor->size_bytes);
    }
    assert_ptr_equal(ps_gguf_tensor_place(file, ps_gguf_tensor_at(file, 2)).path,
                     ps_gguf_tensor_place(file, ps_gguf_tensor_at(file, 3)).path);
    ps_str text;
    assert_int_equal(PS_OK, ps_gguf_get_string(file, "general.architecture", &text));
    assert_true(ps_str_equal(text, "llama"));
    assert_true(is_mapped(m.folder));
    ps_gguf_close(file);
    assert_false(is_mapped(m.folder));
    teardown(&m);
}

// Pages that were given back are read again from the right part.
static void test_forgotten_pages_come_back(void **state)
{
    (void)state;
    model m;
    setup(&m, "good_three", 0);
    ps_gguf *file = NULL;
    assert_int_equal(PS_OK, ps_gguf_open(m.paths[0], &file));
    const ps_gguf_tensor *b = ps_gguf_tensor_find(file, "b");
    const uintptr_t page = (uintptr_t)b->data / 4096 * 4096;
    uint8_t before[102];
    assert_int_equal(sizeof before, b->size_bytes);
    memcpy(before, b->data, sizeof before);
    ps_gguf_forget(file, (const void *)page, 4096);
    assert_memory_equal(before, b->data, sizeof before);
    ps_gguf_close(file);
    teardown(&m);
}

static uint64_t fingerprint_of(const ps_str *parts, uint32_t count)
{
    ps_gguf *file = NULL;
    assert_int_equal(PS_OK, ps_gguf_open_parts(parts, count, &file));
    const uint64_t fingerprint = ps_gguf_fingerprint(file);
    ps_gguf_close(file);
    return fingerprint;
}

static void test_fingerprint_covers_all_parts(void **state)
{
    (void)state;
    model m;
    setup(&m, "good_three", 0);
    const uint64_t original = fingerprint_of(m.parts, m.count);
    ps_gguf *file = NULL;
    assert_int_equal(PS_OK, ps_gguf_open(m.paths[0], &file));
    assert_int_equal(original, ps_gguf_fingerprint(file));
    ps_gguf_close(file);
    for (uint32_t i = 0; i < m.count; i++) {
        uint8_t *last = (uint8_t *)(uintptr_t)m.parts[i].data + m.parts[i].length - 1;
        *last ^= 1; // of the last tensor's data
        assert_true(fingerprint_of(m.parts, m.count) != original);
        *last ^= 1;
    }
    assert_true(fingerprint_of(m.parts, m.count) == original);
    teardown(&m);
}

// Opens a good one from memory, from files, and its heads alone: all have the same tensors.
static void assert_opens(const char *name)
{
    model m;
    setup(&m, name, 0);
    ps_gguf *from_memory = NULL;
    ps_gguf *from_files = NULL;
    ps_gguf *head = NULL;
    if (ps_gguf_open_parts(m.parts, m.count, &from_memory) != PS_OK ||
        ps_gguf_open(m.paths[0], &from_files) != PS_OK) {
        fail_msg("%s: %s", name, ps_error_message());
    }
    const ps_gguf_origin origin = {.size_bytes = ps_gguf_size_bytes(from_files),
                                   .fingerprint = ps_gguf_fingerprint(from_files)};
    const ps_str bytes = ps_gguf_head(from_files);
    assert_int_equal(PS_OK, ps_gguf_open_head(bytes.data, bytes.length, &origin, &head));
    assert_int_equal(origin.fingerprint, ps_gguf_fingerprint(from_memory));
    assert_int_equal(origin.fingerprint, ps_gguf_fingerprint(head));
    assert_int_equal(origin.size_bytes, ps_gguf_size_bytes(head));
    assert_int_equal(m.count, ps_gguf_part_count(head));
    assert_int_equal(bytes.length, ps_gguf_head(head).length);
    assert_int_equal(ps_gguf_tensor_count(from_files), ps_gguf_tensor_count(head));
    for (uint32_t i = 0; i < ps_gguf_tensor_count(from_files); i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(from_files, i);
        const ps_gguf_tensor *other = ps_gguf_tensor_at(from_memory, i);
        assert_string_equal(tensor->name, other->name);
        assert_string_equal(tensor->name, ps_gguf_tensor_at(head, i)->name);
        assert_memory_equal(tensor->data, other->data, tensor->size_bytes);
        assert_null(ps_gguf_tensor_place(from_memory, other).path);
        assert_null(ps_gguf_tensor_place(head, ps_gguf_tensor_at(head, i)).path);
    }
    ps_gguf_close(head);
    ps_gguf_close(from_memory);
    ps_gguf_close(from_files);
    teardown(&m);
}

static const struct bad_case {
    const char *name; // without bad_
    uint32_t of;      // parts that the names of the files say; 0: those that are there
    ps_status status;
    const char *said;    // from files,
    const char *or_said; //   and from memory, where that differs
} CASES[] = {
    {"last_missing", 3, PS_NOT_FOUND, "part 3 of 3, m-00003-of-00003.gguf: it is missing",
     "part 3 of 3: it is missing"},
    {"middle_missing", 3, PS_INVALID,
     "part 2 of 3, m-00002-of-00003.gguf: split.no is 2; 1 would be right",
     "part 2 of 3: split.no is 2"},
    {"all_missing", 3, PS_NOT_FOUND, "part 2 of 3, m-00002-of-00003.gguf: it is missing",
     "part 2 of 3: it is missing"},
    {"second_first", 0, PS_INVALID, "with '-00002-of-00003.gguf'",
     "part 2 of 3 of a split file; the first one would be right"},
    {"swapped", 0, PS_INVALID, "part 2 of 3, m-00002-of-00003.gguf: split.no is 2; 1 would be",
     "part 2 of 3: split.no is 2; 1 would be right"},
    {"too_many", 2, PS_OK, NULL, "3 parts; split.count is 2"},
    {"no_number", 0, PS_INVALID, "a part of a split file without 'split.no'", NULL},
    {"no_number_in_second", 0, PS_INVALID,
     "part 2 of 2, m-00002-of-00002.gguf: a part of a split file without 'split.no'",
     "without 'split.no'"},
    {"no_total", 0, PS_INVALID, "a part of a split file without 'split.tensors.count'", NULL},
    {"no_count_in_second", 0, PS_INVALID, "split.count is 1; 2, as in part 1, would be right",
     NULL},
    {"number_type", 0, PS_INVALID, "'split.no' holds a value of type f32", NULL},
    {"number_past_count", 0, PS_INVALID, "split.no is 2; less than split.count, 2, would be", NULL},
    {"count_huge", 0, PS_INVALID, "split.count is 1025; at most 1024 parts are allowed", NULL},
    {"count_differs", 0, PS_INVALID, "split.count is 3; 2, as in part 1, would be right", NULL},
    {"total_differs", 0, PS_INVALID, "split.tensors.count is 4; 3, as in part 1, would be", NULL},
    {"total", 0, PS_INVALID, "the parts have 3 tensors, split.tensors.count is 4", NULL},
    {"total_negative", 0, PS_INVALID, "'split.tensors.count' is the i32 -1", NULL},
    {"tensor_twice", 0, PS_INVALID, "tensor 'a' stands in parts 1 and 3", NULL},
    {"other_model", 0, PS_INVALID,
     "part 2 of 2, m-00002-of-00002.gguf: key 'general.architecture' is not what it is in part 1",
     "key 'general.architecture' is not"},
    {"other_model_length", 0, PS_INVALID, "they are parts of different models", NULL},
    {"other_key", 0, PS_INVALID, "key 'general.name' is not what it is in part 1", NULL},
    {"other_type", 0, PS_INVALID, "key 'general.architecture' is not", NULL},
    {"first_cut", 0, PS_INVALID, "cut short at byte 386: tensor 'b' wants", NULL},
    {"second_cut", 0, PS_INVALID,
     "part 2 of 2, m-00002-of-00002.gguf: the file is cut short at byte 176: tensor 'c' wants",
     "part 2 of 2: the file is cut short"},
    {"second_head_cut", 0, PS_INVALID, "part 2 of 2, m-00002-of-00002.gguf: ", "part 2 of 2: "},
    {"second_version", 0, PS_UNSUPPORTED, "m-00002-of-00002.gguf: header: GGUF version 4",
     "part 2 of 2: header: GGUF version 4"},
};
#define CASE_COUNT (sizeof CASES / sizeof CASES[0])

static void assert_said(const struct bad_case *bad, ps_status status, const char *said)
{
    const char *message = ps_error_message();
    if (strstr(message, said) == NULL || strchr(message, '\n') != NULL) {
        fail_msg("%s: status %d with '%s'; wanted '%s'", bad->name, status, message, said);
    }
}

static void assert_refused(const struct bad_case *bad)
{
    char name[64];
    model m;
    ps_gguf *file = NULL;
    (void)snprintf(name, sizeof name, "bad_%s", bad->name);
    setup(&m, name, bad->of);
    const ps_status status = ps_gguf_open(m.paths[0], &file);
    assert_int_equal(bad->status, status);
    if (status != PS_OK) {
        assert_said(bad, status, bad->said);
        assert_int_equal(0, strncmp(ps_error_message(), m.paths[0], strlen(m.paths[0])));
        assert_null(file);
    }
    ps_gguf_close(file);
    assert_false(is_mapped(m.folder));
    file = NULL;
    const ps_status in_memory = ps_gguf_open_parts(m.parts, m.count, &file);
    assert_int_equal(status == PS_OK ? PS_INVALID : status, in_memory);
    assert_said(bad, in_memory, bad->or_said == NULL ? bad->said : bad->or_said);
    assert_null(file);
    teardown(&m);
}

static void test_all_of_the_corpus(void **state)
{
    (void)state;
    DIR *folder = opendir(SPLIT_CORPUS);
    assert_non_null(folder);
    size_t good = 0;
    size_t bad = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strncmp(entry->d_name, "good_", 5) == 0) {
            assert_opens(entry->d_name);
            good++;
        }
        bad += strncmp(entry->d_name, "bad_", 4) == 0;
    }
    assert_int_equal(0, closedir(folder));
    assert_true(good >= 8);
    assert_int_equal(CASE_COUNT, bad);
    for (size_t i = 0; i < CASE_COUNT; i++) {
        assert_refused(&CASES[i]);
    }
}

static void expect_refused(const char *path, ps_status status, const char *said)
{
    ps_gguf *file = NULL;
    assert_int_equal(status, ps_gguf_open(path, &file));
    if (strstr(ps_error_message(), said) == NULL) {
        fail_msg("'%s' does not say '%s'", ps_error_message(), said);
    }
}

static void test_another_part_names_the_first(void **state)
{
    (void)state;
    model m;
    setup(&m, "good_three", 0);
    expect_refused(m.paths[1], PS_INVALID,
                   "part 2 of 3 of a split file; the first one, m-00001-of-00003.gguf, would be");
    expect_refused(m.paths[2], PS_INVALID,
                   "part 3 of 3 of a split file; the first one, m-00001-of-00003.gguf, would be");
    teardown(&m);
}

static void test_a_part_of_another_name(void **state)
{
    (void)state;
    model m;
    setup(&m, "good_two", 0);
    char path[96];
    static const char *const NAMES[] = {"m.gguf", "m-00002-of-00002.gguf.gguf",
                                        "m-00001-of-00003.gguf", "-00001-of-00002.gguf"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", m.folder, NAMES[i]);
        write_bytes(path, m.parts[0]);
        const bool has_suffix = NAMES[i][0] == '-';
        expect_refused(path, has_suffix ? PS_NOT_FOUND : PS_INVALID,
                       has_suffix ? "part 2 of 2, -00002-of-00002.gguf: it is missing"
                                  : "should end with '-00001-of-00002.gguf'");
        assert_int_equal(0, unlink(path));
    }
    teardown(&m);
}

static void test_a_part_that_is_no_file(void **state)
{
    (void)state;
    model m;
    setup(&m, "good_two", 0);
    assert_int_equal(0, unlink(m.paths[1]));
    assert_int_equal(0, mkdir(m.paths[1], 0700));
    expect_refused(m.paths[0], PS_INVALID, "part 2 of 2, m-00002-of-00002.gguf: is a folder");
    assert_int_equal(0, rmdir(m.paths[1]));
    write_bytes(m.paths[1], (ps_str){"", 0});
    expect_refused(m.paths[0], PS_INVALID, "part 2 of 2, m-00002-of-00002.gguf: is empty");
    teardown(&m);
}

static void test_a_head_of_parts_that_do_not_fit(void **state)
{
    (void)state;
    model m;
    setup(&m, "good_three", 0);
    ps_gguf *whole = NULL;
    ps_gguf *head = NULL;
    assert_int_equal(PS_OK, ps_gguf_open_parts(m.parts, m.count, &whole));
    const ps_str bytes = ps_gguf_head(whole);
    ps_gguf_origin origin = {.size_bytes = ps_gguf_size_bytes(whole)};
    assert_int_equal(PS_INVALID, ps_gguf_open_head(bytes.data, bytes.length - 1, &origin, &head));
    assert_non_null(strstr(ps_error_message(), "part 3 of 3"));
    origin.size_bytes = bytes.length;
    assert_int_equal(PS_OK, ps_gguf_open_head(bytes.data, bytes.length, &origin, &head));
    ps_gguf_close(head);
    ps_gguf_close(whole);
    teardown(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_parts_are_one_file),
        cmocka_unit_test(test_forgotten_pages_come_back),
        cmocka_unit_test(test_fingerprint_covers_all_parts),
        cmocka_unit_test(test_all_of_the_corpus),
        cmocka_unit_test(test_another_part_names_the_first),
        cmocka_unit_test(test_a_part_of_another_name),
        cmocka_unit_test(test_a_part_that_is_no_file),
        cmocka_unit_test(test_a_head_of_parts_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
