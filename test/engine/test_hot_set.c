// Goal: a hot set comes back as it was written, every size can be cut from it, and a file that is
// of another model, damaged or contradicts itself is refused with what is wrong. Method: random
// rankings both ways; a small file whose text is changed in one place at a time.
#include "engine/hot_set.h"

#include "engine/engine_test.h"
#include "gen.h"

#include <math.h>
#include <unistd.h>

static char path[] = "/tmp/prestage-hot-set-XXXXXX";

// 3 layers of 4 experts, of which 6 were chosen.
static uint32_t KEYS[] = {9, 1, 2, 11, 0, 5};
static uint64_t USES[] = {90, 40, 40, 7, 3, 1};

static ps_hot_set small_set(void)
{
    return (ps_hot_set){.fingerprint = "00ab00000000cd12",
                        .model = "a \"model\"",
                        .quantisation = "Q4_K Q6_K",
                        .layers = 3,
                        .experts = 4,
                        .top_k = 2,
                        .phases = "all",
                        .prompt_tokens = 50,
                        .decode_tokens = 41,
                        .size_count = 3,
                        .sizes = {{2, 0.5, 0.25, 0.125}, {4, 1, 0.75, NAN}, {8, NAN, 1, 1}},
                        .count = 6,
                        .keys = KEYS,
                        .uses = USES};
}
#define FINGERPRINT 0x00ab00000000cd12u

static void write_text(const char *text, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(length, fwrite(text, 1, length, file));
    assert_int_equal(0, fclose(file));
}

static void write_set(const ps_hot_set *set)
{
    ps_buffer text = {0};
    expect_ok(ps_hot_set_print(set, &text));
    write_text(text.data, text.length);
    ps_buffer_deinit(&text);
}

static bool is_same(double a, double b)
{
    return isnan(a) ? isnan(b) : fabs(a - b) <= 1e-5 * fabs(b);
}

static void assert_same_set(const ps_hot_set *a, const ps_hot_set *b)
{
    assert_string_equal(a->fingerprint, b->fingerprint);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->quantisation, b->quantisation);
    assert_string_equal(a->phases, b->phases);
    assert_true(a->layers == b->layers && a->experts == b->experts && a->top_k == b->top_k);
    assert_true(a->prompt_tokens == b->prompt_tokens && a->decode_tokens == b->decode_tokens);
    assert_int_equal(a->size_count, b->size_count);
    for (uint32_t i = 0; i < a->size_count; i++) {
        assert_int_equal(a->sizes[i].experts, b->sizes[i].experts);
        assert_true(is_same(a->sizes[i].gib, b->sizes[i].gib));
        assert_true(is_same(a->sizes[i].coverage, b->sizes[i].coverage));
        assert_true(is_same(a->sizes[i].held_out, b->sizes[i].held_out));
    }
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->keys, b->keys, a->count * sizeof *a->keys);
    assert_memory_equal(a->uses, b->uses, a->count * sizeof *a->uses);
}

static void test_sets_come_back(void **state)
{
    (void)state;
    ps_arena arena;
    ps_hot_set back;
    ps_gen gen = ps_gen_start();
    ps_arena_init(&arena, 1 << 26);
    const ps_hot_set small = small_set();
    write_set(&small);
    expect_ok(ps_hot_set_load(path, &arena, &back));
    assert_same_set(&small, &back);
    for (int round = 0; round < 30; round++) {
        uint32_t keys[512] = {0};
        uint64_t uses[512] = {0};
        ps_hot_set set = small_set();
        set.layers = ps_gen_range(&gen, 1, 16);
        set.experts = ps_gen_range(&gen, 2, 32);
        set.size_count = 1;
        set.sizes[0].experts = set.layers * set.experts;
        set.count = ps_gen_range(&gen, 0, set.sizes[0].experts);
        uint64_t use = (uint64_t)1 << 50;
        for (uint32_t i = 0; i < set.sizes[0].experts; i++) { // a random order
            const uint32_t other = ps_gen_range(&gen, 0, i);
            keys[i] = keys[other];
            keys[other] = i;
        }
        for (uint32_t i = 0; i < set.count; i++) { // of equal ones the lower key stands first
            const bool may_be_equal = i > 0 && keys[i] > keys[i - 1];
            use -= may_be_equal && ps_gen_range(&gen, 0, 1) == 0 ? 0 : 1 + ps_gen_range(&gen, 0, 9);
            uses[i] = use;
        }
        set.keys = keys;
        set.uses = uses;
        write_set(&set);
        expect_ok(ps_hot_set_load(path, &arena, &back));
        assert_same_set(&set, &back);
    }
    ps_arena_deinit(&arena);
}

static void test_sizes_are_cut(void **state)
{
    (void)state;
    ps_arena arena;
    const uint32_t *keys = NULL;
    uint32_t count = 99;
    ps_hot_set_size cut;
    ps_arena_init(&arena, 1 << 24);
    const ps_hot_set set = small_set();
    write_set(&set);
    for (uint32_t size = 1; size <= 8; size++) { // those between the sizes of the file, too
        expect_ok(ps_hot_set_read(path, FINGERPRINT, 3, 4, size, &arena, &keys, &count, &cut));
        assert_int_equal(size < 6 ? size : 6, count); // 6 were ever chosen: a start, not a limit
        assert_memory_equal(KEYS, keys, count * sizeof *keys);
    }
    expect_ok(ps_hot_set_read(path, FINGERPRINT, 3, 4, 0, &arena, &keys, &count, &cut));
    assert_int_equal(6, count);
    expect_failure(PS_INVALID, "largest set has 8 experts, 9 are wanted",
                   ps_hot_set_read(path, FINGERPRINT, 3, 4, 9, &arena, &keys, &count, &cut));
    expect_failure(PS_INVALID, "00ab00000000cd12; this one has 00ab00000000cd13",
                   ps_hot_set_read(path, FINGERPRINT + 1, 3, 4, 2, &arena, &keys, &count, &cut));
    expect_failure(PS_INVALID, "the model 3 of 5",
                   ps_hot_set_read(path, FINGERPRINT, 3, 5, 2, &arena, &keys, &count, &cut));
    expect_failure(PS_INVALID, path,
                   ps_hot_set_read(path, FINGERPRINT, 2, 4, 2, &arena, &keys, &count, &cut));
    expect_failure(
        PS_NOT_FOUND, "none-there",
        ps_hot_set_read("none-there", FINGERPRINT, 2, 4, 2, &arena, &keys, &count, &cut));
    ps_arena_deinit(&arena);
}

static const struct {
    const char *old, *new, *says;
} CHANGES[] = {
    {"\"prestage_hot_set\": 1", "\"prestage_hot_set\": 2", "another format"},
    {"\"prestage_hot_set\": 1", "\"prestage_tune\": 1", "missing"},
    {"00ab0000", "00AB0000", "hexadecimal"},
    {"00ab0000", "00ab", "hexadecimal"},
    {"\"layers\": 3", "\"layers\": 4", "for each of 4 layers"},
    {"\"layers\": 3", "\"layers\": 2", "3 layers, 2 would"},
    {"\"layers\": 3", "\"layers\": 1000000", "layers"},
    {"\"layers\": 3", "\"layers\": 0", "layers"},
    {"\"experts\": 4, \"top_k\"", "\"experts\": 3, \"top_k\"", "layer"},
    {"\"top_k\": 2", "\"top_k\": 5", "top_k"},
    {"\"top_k\": 2", "\"top_q\": 2", "top_k"},
    {"\"phases\": \"all\"", "\"phases\": \"some\"", "phases"},
    {"\"ids\": [1, 2, 0]", "\"ids\": [1, 1, 0]", "does not stand there yet"},
    {"\"ids\": [1, 2, 0]", "\"ids\": [1, 2, 4]", "below 4"},
    {"\"ids\": [1, 2, 0]", "\"ids\": [1, 2, -1]", "below 4"},
    {"\"ids\": [1, 2, 0]", "\"ids\": [1, 2, true]", "below 4"},
    {"\"ids\": [1, 2, 0]", "\"ids\": [1, 2]", "as many counts"},
    {"\"ids\": [1, 2, 0]", "\"ids\": [2, 1, 0]", "hotter"},
    {"\"ids\": [1, 2, 0]", "\"ids\": [1, 2, 3]", "checksum"},
    {"\"ids\": [1, 2, 0]", "\"ids\": 5", "as many counts"},
    {"[40, 40, 3]", "[40, 41, 3]", "hotter"},
    {"[40, 40, 3]", "[40, 40, 0]", "above 0"},
    {"[40, 40, 3]", "[41, 40, 3]", "checksum"},
    {"[40, 40, 3]", "[40.0, 40, 3]", "above 0"},
    {"\"experts\": 8", "\"experts\": 4", "rise"},
    {"\"experts\": 8", "\"experts\": 5", "per_layer"},
    {"\"experts\": 8", "\"experts\": 13", "12"},
    {"\"coverage\": 0.25", "\"coverage\": 1.5", "coverage"},
    {"\"coverage\": 0.25", "\"covrage\": 0.25", "nearest is 'coverage'"},
    {"\"checksum\"", "\"checkson\"", "checksum"},
    {"\"sizes\"", "\"size\"", "sizes"},
};

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    ps_buffer text = {0};
    const ps_hot_set set = small_set();
    expect_ok(ps_hot_set_print(&set, &text));
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++) {
        ps_arena arena;
        ps_hot_set back;
        char *changed = NULL;
        size_t length = 0;
        const char *at = strstr(text.data, CHANGES[i].old);
        if (at == NULL) {
            fail_msg("'%s' is not in %s", CHANGES[i].old, text.data);
        }
        FILE *file = open_memstream(&changed, &length);
        assert_non_null(file);
        (void)fprintf(file, "%.*s%s%s", (int)(at - text.data), text.data, CHANGES[i].new,
                      at + strlen(CHANGES[i].old));
        (void)fclose(file);
        ps_arena_init(&arena, 1 << 24);
        const ps_status status = ps_hot_set_parse((ps_str){changed, length}, &arena, &back);
        assert_true(status == PS_INVALID || status == PS_UNSUPPORTED);
        if (strstr(ps_error_message(), CHANGES[i].says) == NULL) {
            fail_msg("%s: '%s' does not say '%s'", CHANGES[i].new, ps_error_message(),
                     CHANGES[i].says);
        }
        ps_arena_deinit(&arena);
        free(changed);
    }
    ps_buffer_deinit(&text);
}

static void test_cut_texts_are_refused(void **state)
{
    (void)state;
    ps_buffer text = {0};
    const ps_hot_set set = small_set();
    expect_ok(ps_hot_set_print(&set, &text));
    for (size_t length = 0; length + 2 < text.length; length++) {
        ps_arena arena;
        ps_hot_set back;
        ps_arena_init(&arena, 1 << 24);
        assert_int_equal(PS_INVALID, ps_hot_set_parse((ps_str){text.data, length}, &arena, &back));
        ps_arena_deinit(&arena);
    }
    ps_buffer_deinit(&text);
}

static int make_path(void **state)
{
    (void)state;
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_come_back),
        cmocka_unit_test(test_sizes_are_cut),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_cut_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
