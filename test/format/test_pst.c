// Goal: compiled files open as written, and each that is bad is refused with words that say what.
// Method: files that test/fuzz/make_pst_corpus.py makes from the description of the format, at a
// guard page; files written and read back.
#include "format/gguf_test.h"

#include "base/hash.h"
#include "format/new_file.h"
#include "format/pst.h"

#include <stdlib.h>
#include <sys/stat.h>

#define PST_CORPUS PS_SOURCE_DIR "/test/fuzz/corpus/pst/"
#define FILE_BYTES_MAX 65536

static guarded load(const char *name)
{
    static uint8_t bytes[FILE_BYTES_MAX];
    char path[512];
    (void)snprintf(path, sizeof path, "%s%s", PST_CORPUS, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_true(size < sizeof bytes);
    (void)fclose(file);
    return guarded_create(bytes, size);
}

static const struct {
    const char *name;
    ps_status status;
    const char *says;
} BAD[] = {
    {"bad_empty", PS_INVALID, "no compiled file"},
    {"bad_magic", PS_INVALID, "no compiled file"},
    {"bad_gguf", PS_INVALID, "a GGUF file"},
    {"bad_header_cut", PS_INVALID, "cut short"},
    {"bad_version_newer", PS_UNSUPPORTED, "newer prestage"},
    {"bad_version_0", PS_UNSUPPORTED, "compile it again"},
    {"bad_layout", PS_UNSUPPORTED, "this build reads"},
    {"bad_cut", PS_INVALID, "cut short"},
    {"bad_longer", PS_INVALID, "follow the file's end"},
    {"bad_section_count", PS_INVALID, "65 sections"},
    {"bad_section_name", PS_INVALID, "section 3: its name"},
    {"bad_section_no_name", PS_INVALID, "section 3: its name"},
    {"bad_section_twice", PS_INVALID, "'data' stands in the file twice"},
    {"bad_section_past_end", PS_INVALID, "section 'plan': 2 bytes"},
    {"bad_section_wraps", PS_INVALID, "section 'plan'"},
    {"bad_no_gguf-head", PS_INVALID, "no section 'gguf-head'"},
    {"bad_no_weights", PS_INVALID, "no section 'weights'"},
    {"bad_no_data", PS_INVALID, "no section 'data'"},
    {"bad_head_cut", PS_INVALID, "the file ends"},
    {"bad_head_bytes", PS_INVALID, "'unused'"},
    {"bad_head_huge", PS_INVALID, "a head of"},
    {"bad_head_small", PS_INVALID, "a head of"},
    {"bad_table_bytes", PS_INVALID, "a table of 111 bytes"},
    {"bad_data_place", PS_INVALID, "a multiple of 4096"},
    {"bad_name_no_end", PS_INVALID, "weight 0: its name has no end"},
    {"bad_name_unknown", PS_INVALID, "weight 'c.weight': no tensor"},
    {"bad_name_twice", PS_INVALID, "behind 'a.weight'"},
    {"bad_order", PS_INVALID, "behind 'b.weight'"},
    {"bad_type", PS_INVALID, "weight 'b.weight': type 0"},
    {"bad_vector_flag", PS_INVALID, "a vector of 16 bytes"},
    {"bad_vector_type", PS_INVALID, "a vector of 544 bytes"},
    {"bad_vector_bytes", PS_INVALID, "a vector of 20 bytes"},
    {"bad_offset_misaligned", PS_INVALID, "a multiple of 64"},
    {"bad_offset_huge", PS_INVALID, "a multiple of 64"},
    {"bad_overlap", PS_INVALID, "from 16 on"},
    {"bad_bytes_past_end", PS_INVALID, "inside 608 bytes"},
    {"bad_bytes_huge", PS_INVALID, "inside 608 bytes"},
};

static void test_bad_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        guarded memory = load(BAD[i].name);
        ps_pst *file = NULL;
        const ps_status status = ps_pst_open_bytes(memory.bytes, memory.size_bytes, &file);
        if (status != BAD[i].status || strstr(ps_error_message(), BAD[i].says) == NULL) {
            fail_msg("%s: status %d, '%s' does not say '%s'", BAD[i].name, status,
                     ps_error_message(), BAD[i].says);
        }
        assert_null(file);
        guarded_destroy(&memory);
    }
}

static void test_good_files_open(void **state)
{
    (void)state;
    static const char *const GOOD[] = {"good", "good_unknown_section", "good_no_weights",
                                       "good_gap"};
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        guarded memory = load(GOOD[i]);
        ps_pst *file = NULL;
        if (ps_pst_open_bytes(memory.bytes, memory.size_bytes, &file) != PS_OK) {
            fail_msg("%s: %s", GOOD[i], ps_error_message());
        }
        assert_int_equal(0x0123456789abcdef, ps_gguf_fingerprint(ps_pst_gguf(file)));
        assert_int_equal(3, ps_gguf_tensor_count(ps_pst_gguf(file)));
        assert_int_equal(strcmp(GOOD[i], "good_no_weights") == 0 ? 0 : 2,
                         ps_pst_weight_count(file));
        ps_pst_close(file);
        guarded_destroy(&memory);
    }
}

// ---- writing

typedef struct written {
    char folder[40];
    char path[64];
    ps_gguf *gguf;
    float norm[7];
    uint8_t rows[1100 * 4];
    ps_pst_weight weights[2];
    ps_pst_content content;
} written;

static void setup(written *w)
{
    (void)snprintf(w->folder, sizeof w->folder, "/tmp/prestage-test-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    (void)snprintf(w->path, sizeof w->path, "%s/a.pst", w->folder);
    assert_int_equal(PS_OK, ps_gguf_open(CORPUS "/good_large_tensor", &w->gguf));
    for (size_t i = 0; i < sizeof w->rows; i++) {
        w->rows[i] = (uint8_t)(i * 7);
    }
    w->norm[0] = 1.5f;
    w->norm[1] = -2.0f;
    w->weights[0] = (ps_pst_weight){.name = "a",
                                    .dtype = PS_DTYPE_F32,
                                    .outputs = 1,
                                    .inputs = 1100,
                                    .data = w->rows,
                                    .size_bytes = sizeof w->rows};
    w->weights[1] = (ps_pst_weight){.name = "b",
                                    .dtype = PS_DTYPE_F32,
                                    .outputs = 1,
                                    .inputs = 3,
                                    .is_vector = true,
                                    .data = w->norm,
                                    .size_bytes = 3 * sizeof(float)};
    w->content = (ps_pst_content){.gguf = w->gguf, .weights = w->weights, .weight_count = 2};
}

static void teardown(written *w)
{
    ps_gguf_close(w->gguf);
    (void)unlink(w->path);
    assert_int_equal(0, rmdir(w->folder)); // nothing else was left
}

static void note(void *context, const char *what, const char *name)
{
    (void)snprintf(context, 64, "%s %s", what, name);
}

static void test_written_files_read_back(void **state)
{
    (void)state;
    written w = {0};
    uint64_t bytes = 0;
    setup(&w);
    assert_int_equal(PS_OK, ps_pst_write(w.path, &w.content, &bytes));
    struct stat stat_now;
    assert_int_equal(0, stat(w.path, &stat_now));
    assert_int_equal(bytes, stat_now.st_size);

    ps_pst *file = NULL;
    assert_int_equal(PS_OK, ps_pst_open(w.path, &file));
    assert_int_equal(ps_gguf_fingerprint(w.gguf), ps_gguf_fingerprint(ps_pst_gguf(file)));
    assert_int_equal(ps_gguf_size_bytes(w.gguf), ps_gguf_size_bytes(ps_pst_gguf(file)));
    const ps_pst_weight *a = ps_pst_weight_find(file, "a");
    const ps_pst_weight *b = ps_pst_weight_find(file, "b");
    assert_non_null(a);
    assert_non_null(b);
    assert_null(ps_pst_weight_find(file, "c"));
    assert_memory_equal(w.rows, a->data, sizeof w.rows);
    assert_memory_equal(w.norm, b->data, 3 * sizeof(float));
    assert_int_equal(0, (uintptr_t)a->data % 4096);
    assert_int_equal(0, (uintptr_t)b->data % 64);
    assert_int_equal(1100, a->inputs);
    assert_true(b->is_vector && !a->is_vector);
    assert_null(ps_gguf_tensor_find(ps_pst_gguf(file), "a")->data);
    assert_ptr_equal(b->data, ps_gguf_tensor_find(ps_pst_gguf(file), "b")->data);
    char damage[64] = "";
    assert_int_equal(0, ps_pst_verify(file, &(ps_pst_listener){.report = note, .context = damage}));
    assert_string_equal("", damage);
    assert_int_equal(0, ps_pst_plans(file).length);
    ps_pst_close(file);
    teardown(&w);
}

static void note_last(void *context, double fraction)
{
    double *last = context;
    assert_true(fraction >= *last && fraction <= 1);
    *last = fraction;
}

static void note_nothing(void *context, const char *what, const char *name)
{
    fail_msg("%s %s of %p is damaged", what, name, context);
}

static void test_plans_come_along(void **state)
{
    (void)state;
    static const char PLANS[] = "any text\n";
    written w = {0};
    uint64_t bytes = 0;
    setup(&w);
    w.content.plans = ps_str_of(PLANS);
    assert_int_equal(PS_OK, ps_pst_write(w.path, &w.content, &bytes));
    ps_pst *file = NULL;
    assert_int_equal(PS_OK, ps_pst_open(w.path, &file));
    const ps_str plans = ps_pst_plans(file);
    assert_true(ps_str_equal(plans, PLANS));
    assert_memory_equal(w.rows, ps_pst_weight_find(file, "a")->data, sizeof w.rows);
    double last = 0;
    const ps_pst_listener listener = {note_nothing, note_last, &last};
    assert_int_equal(0, ps_pst_verify(file, &listener));
    assert_true(last == 1);
    ps_pst_close(file);
    teardown(&w);
}

static void test_targets(void **state)
{
    (void)state;
    const volatile bool cancel = true;
    written w = {0};
    uint64_t bytes = 0;
    setup(&w);
    w.content.cancel = &cancel;
    assert_int_equal(PS_CANCELLED, ps_pst_write(w.path, &w.content, &bytes));
    assert_int_equal(-1, access(w.path, F_OK));
    w.content.cancel = NULL;
    assert_int_equal(PS_OK, ps_pst_write(w.path, &w.content, &bytes));
    assert_int_equal(PS_INVALID, ps_pst_write(w.path, &w.content, &bytes));
    w.content.replace = true;
    assert_int_equal(PS_OK, ps_pst_write(w.path, &w.content, &bytes));
    assert_int_equal(PS_INVALID, ps_new_file_check(w.folder, true));
    teardown(&w);
}

static void test_either_kind(void **state)
{
    (void)state;
    written w = {0};
    uint64_t bytes = 0;
    setup(&w);
    assert_int_equal(PS_OK, ps_pst_write(w.path, &w.content, &bytes));
    ps_model_file file;
    assert_int_equal(PS_OK, ps_model_file_open(w.path, &file));
    assert_non_null(file.pst);
    assert_int_equal(bytes, ps_model_file_bytes(&file));
    ps_model_file_close(&file);
    assert_int_equal(PS_OK, ps_model_file_open(CORPUS "/good_large_tensor", &file));
    assert_null(file.pst);
    assert_int_equal(ps_gguf_size_bytes(w.gguf), ps_model_file_bytes(&file));
    ps_model_file_close(&file);
    assert_int_equal(PS_NOT_FOUND, ps_model_file_open("/tmp/prestage-test-none", &file));
    teardown(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files_are_refused),
        cmocka_unit_test(test_good_files_open),
        cmocka_unit_test(test_written_files_read_back),
        cmocka_unit_test(test_plans_come_along),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_either_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
