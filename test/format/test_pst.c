// Goal: compiled files open as written, and each that is bad is refused with words that say what.
// Method: files that test/fuzz/make_pst_corpus.py makes from the description of the format, at a
// guard page; files written and read back.
#include "format/gguf_test.h"

#include "base/hash.h"
#include "format/new_file.h"
#include "format/pst.h"

#include <dirent.h>
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
    {"bad_version_older", PS_UNSUPPORTED, "version 1, this build reads 2: compile it again"},
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
    {"bad_split_head", PS_INVALID, "part 2 of 2: tensor 'unused': the file ends"},
    {"bad_stack_number", PS_INVALID, "exps.weight': stack 2; the file has 1"},
    {"bad_stack_experts", PS_INVALID, "3 experts, in records of 2"},
    {"bad_stack_no_experts", PS_INVALID, "0 experts, in records of 2"},
    {"bad_stack_four", PS_INVALID, "ffn_up_exps.weight': 2 experts, in records of 2, behind 3"},
    {"bad_stack_outside", PS_INVALID, "544 bytes at 1216; a multiple of 64, in a record of 1696"},
    {"bad_stack_far_outside", PS_INVALID, "544 bytes at 18446744073709551552; a multiple"},
    {"bad_stack_before", PS_INVALID,
     "544 bytes at 0; a multiple of 64, in a record of 1696 at 4096"},
    {"bad_stack_overlap", PS_INVALID, "'blk.0.ffn_up_exps.weight': matrices of 544 bytes at 576"},
    {"bad_stack_same_place", PS_INVALID, "apart from others"},
    {"bad_stack_misaligned", PS_INVALID, "544 bytes at 32; a multiple of 64"},
    {"bad_stack_vector", PS_INVALID, "weight 'norm': 16 bytes of 2 experts"},
    {"bad_experts_bytes", PS_INVALID, "1087 bytes of 2 experts; equally large matrices"},
    {"bad_records_none", PS_INVALID, "experts of layer 0: 0 records"},
    {"bad_records_empty", PS_INVALID, "experts of layer 0: 2 records of 0 bytes"},
    {"bad_records_stride", PS_INVALID, "one every 2048 bytes"},
    {"bad_records_stride_0", PS_INVALID, "one every 0 bytes"},
    {"bad_records_larger_than_stride", PS_INVALID, "records of 4097 bytes, one every 4096"},
    {"bad_records_offset", PS_INVALID, "from 64 on; multiples of 4096 from 0 on"},
    {"bad_records_past_end", PS_INVALID, "inside 5791 bytes"},
    {"bad_records_far_past_end", PS_INVALID, "from 18446744073709547520 on"},
    {"bad_records_wrap", PS_INVALID, "one every 9223372036854775808 bytes"},
    {"bad_records_many", PS_INVALID, "4294967295 records"},
    {"bad_records_overlap", PS_INVALID, "experts of layer 1: 2 records of 1696 bytes"},
    {"bad_records_order", PS_INVALID, "experts of layer 1: 2 records of 1696 bytes"},
    {"bad_records_in_weights", PS_INVALID, "experts at 0; behind all other weights, from 16 on"},
    {"bad_stacks_bytes", PS_INVALID, "section 'experts': a table of 33 bytes; entries of 32"},
    {"bad_sums_missing", PS_INVALID, "no section 'expert-sums'"},
    {"bad_sums_few", PS_INVALID, "2 experts; section 'expert-sums' has 1 more"},
    {"bad_sums_many", PS_INVALID, "has 3 checksums for 2 experts"},
    {"bad_sums_bytes", PS_INVALID, "has 17 bytes; a multiple of 8"},
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
    static const struct {
        const char *name;
        uint32_t tensors, weights, stacks, parts;
    } GOOD[] = {
        {"good", 3, 2, 0, 1},
        {"good_unknown_section", 3, 2, 0, 1},
        {"good_no_weights", 3, 0, 0, 1},
        {"good_gap", 3, 2, 0, 1},
        {"good_split_head", 3, 2, 0, 2},
        {"good_experts", 5, 3, 1, 1},
        {"good_experts_behind_weights", 5, 4, 1, 1},
        {"good_experts_two_layers", 5, 2, 2, 1},
        {"good_experts_alone", 5, 1, 0, 1},
        {"good_experts_unused", 5, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        guarded memory = load(GOOD[i].name);
        ps_pst *file = NULL;
        if (ps_pst_open_bytes(memory.bytes, memory.size_bytes, &file) != PS_OK) {
            fail_msg("%s: %s", GOOD[i].name, ps_error_message());
        }
        assert_int_equal(0x0123456789abcdef, ps_gguf_fingerprint(ps_pst_gguf(file)));
        assert_int_equal(GOOD[i].tensors, ps_gguf_tensor_count(ps_pst_gguf(file)));
        assert_int_equal(GOOD[i].weights, ps_pst_weight_count(file));
        assert_int_equal(GOOD[i].stacks, ps_pst_stack_count(file));
        assert_int_equal(GOOD[i].parts, ps_gguf_part_count(ps_pst_gguf(file)));
        ps_pst_close(file);
        guarded_destroy(&memory);
    }
}

// Each file of the corpus has a line above.
static void test_no_file_is_forgotten(void **state)
{
    (void)state;
    size_t bad = 0;
    DIR *folder = opendir(PST_CORPUS);
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        bad += strncmp(entry->d_name, "bad_", 4) == 0;
    }
    assert_int_equal(0, closedir(folder));
    assert_int_equal(sizeof BAD / sizeof BAD[0], bad);
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

// ---- experts

#define EXPERTS 3
#define MATRICES 3
#define EXPERTS_BYTES 2048

// Three weights of as many experts, with gaps between their matrices, and a norm before them.
typedef struct layer {
    written w;
    ps_pst_weight weights[1 + MATRICES];
    uint8_t bytes[MATRICES][EXPERTS_BYTES];
    ps_pst_stack_content stack;
} layer;

static void setup_layer(layer *l)
{
    static const char *const NAMES[MATRICES] = {"t0001", "t0002", "t0003"};
    static const uint32_t COLUMNS[MATRICES] = {25, 128, 16};
    setup(&l->w);
    ps_gguf_close(l->w.gguf);
    assert_int_equal(PS_OK, ps_gguf_open(CORPUS "/good_many", &l->w.gguf));
    l->weights[0] = l->w.weights[1];
    l->weights[0].name = "t0000";
    l->weights[0].inputs = 1;
    l->weights[0].size_bytes = sizeof(float);
    for (uint32_t i = 0; i < MATRICES; i++) {
        for (uint32_t b = 0; b < EXPERTS_BYTES; b++) {
            l->bytes[i][b] = (uint8_t)(b * 7 + b / 256 + i * 31 + 1);
        }
        l->weights[1 + i] = (ps_pst_weight){.name = NAMES[i],
                                            .dtype = PS_DTYPE_F32,
                                            .outputs = 1,
                                            .inputs = COLUMNS[i],
                                            .experts = EXPERTS,
                                            .data = l->bytes[i],
                                            .size_bytes = 4 * EXPERTS * COLUMNS[i],
                                            .expert_stride_bytes = 4 * COLUMNS[i] + 8 * i};
    }
    l->stack = (ps_pst_stack_content){.weights = {2, 3, 1}, .weight_count = MATRICES};
    l->w.content = (ps_pst_content){.gguf = l->w.gguf,
                                    .weights = l->weights,
                                    .weight_count = 1 + MATRICES,
                                    .stacks = &l->stack,
                                    .stack_count = 1};
    uint64_t bytes = 0;
    assert_int_equal(PS_OK, ps_pst_write(l->w.path, &l->w.content, &bytes));
    struct stat stat_now;
    assert_int_equal(0, stat(l->w.path, &stat_now));
    assert_int_equal(bytes, stat_now.st_size);
}

static void test_experts_are_records(void **state)
{
    (void)state;
    static const uint32_t OFFSETS[MATRICES] = {576, 0, 512}; // in a record
    layer l = {0};
    ps_pst *file = NULL;
    setup_layer(&l);
    assert_int_equal(PS_OK, ps_pst_open(l.w.path, &file));
    assert_int_equal(1, ps_pst_stack_count(file));
    const ps_pst_stack *stack = ps_pst_stack_at(file, 0);
    assert_int_equal(EXPERTS, stack->experts);
    assert_int_equal(576 + 100, stack->record_bytes);
    assert_int_equal(4096, stack->stride_bytes);
    assert_int_equal(0, stack->offset_bytes % 4096);
    assert_int_equal(stack->offset_bytes + 3 * 4096, ps_pst_size_bytes(file));
    assert_int_equal(MATRICES, stack->weight_count);
    for (uint32_t i = 0; i < MATRICES; i++) {
        const ps_pst_weight *in = &l.weights[1 + i];
        const ps_pst_weight *out = ps_pst_weight_find(file, in->name);
        assert_ptr_equal(out, stack->weights[i]);
        assert_ptr_equal(stack, out->stack);
        assert_int_equal(stack->offset_bytes + OFFSETS[i], out->offset_bytes);
        assert_int_equal(in->size_bytes, out->size_bytes);
        assert_int_equal(4096, out->expert_stride_bytes);
        for (uint32_t e = 0; e < EXPERTS; e++) {
            assert_memory_equal((const char *)in->data + e * in->expert_stride_bytes,
                                (const char *)out->data + e * out->expert_stride_bytes,
                                in->size_bytes / EXPERTS);
        }
    }
    const ps_pst_weight *norm = ps_pst_weight_find(file, "t0000");
    assert_null(norm->stack);
    assert_true(norm->offset_bytes < stack->offset_bytes);
    // What a reader of pieces gets.
    FILE *raw = fopen(l.w.path, "rb");
    assert_non_null(raw);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        char record[576 + 100];
        const uint64_t at = stack->offset_bytes + e * stack->stride_bytes;
        assert_int_equal(0, fseek(raw, (long)at, SEEK_SET));
        assert_int_equal(sizeof record, fread(record, 1, sizeof record, raw));
        assert_true(ps_hash(record, sizeof record, 0) == stack->checksums[e]);
        assert_memory_equal(record, (const char *)stack->data + e * 4096, sizeof record);
    }
    assert_int_equal(0, fclose(raw));
    ps_pst_close(file);
    teardown(&l.w);
}

// Flips a bit of the file, and gives what verifying says of it.
static void verify_changed(const char *path, uint64_t at, char damage[64])
{
    FILE *raw = fopen(path, "r+b");
    assert_non_null(raw);
    assert_int_equal(0, fseek(raw, (long)at, SEEK_SET));
    const int byte = fgetc(raw);
    assert_int_equal(0, fseek(raw, (long)at, SEEK_SET));
    assert_true(fputc(byte ^ 0x10, raw) != EOF);
    assert_int_equal(0, fclose(raw));
    ps_pst *file = NULL;
    assert_int_equal(PS_OK, ps_pst_open(path, &file));
    damage[0] = '\0';
    const ps_pst_listener listener = {.report = note, .context = damage};
    const uint32_t damaged = ps_pst_verify(file, &listener);
    assert_int_equal(damage[0] != '\0', damaged);
    ps_pst_close(file);
}

static void test_damaged_experts_are_named(void **state)
{
    (void)state;
    layer l = {0};
    ps_pst *file = NULL;
    setup_layer(&l);
    assert_int_equal(PS_OK, ps_pst_open(l.w.path, &file));
    const uint64_t first = ps_pst_stack_at(file, 0)->offset_bytes;
    const uint64_t record_bytes = ps_pst_stack_at(file, 0)->record_bytes;
    ps_pst_close(file);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        const uint64_t places[] = {0, 520, record_bytes - 1};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            char damage[64];
            char wanted[64];
            (void)snprintf(wanted, sizeof wanted, "expert %u of t0001", e);
            verify_changed(l.w.path, first + e * 4096 + places[i], damage);
            assert_string_equal(wanted, damage);
            verify_changed(l.w.path, first + e * 4096 + places[i], damage); // back again
            assert_string_equal("", damage);
        }
    }
    teardown(&l.w);
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
        cmocka_unit_test(test_no_file_is_forgotten),
        cmocka_unit_test(test_written_files_read_back),
        cmocka_unit_test(test_experts_are_records),
        cmocka_unit_test(test_damaged_experts_are_named),
        cmocka_unit_test(test_plans_come_along),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_either_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
