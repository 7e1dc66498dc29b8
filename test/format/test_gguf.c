// Goal: a good file gives back exactly what was written into it, and a key of another type, a value
// out of range and an absent key can be told apart.
// Method: files from test/fuzz/make_gguf_corpus.py, which shares no code with the reader.
#include "format/gguf.h"
#include "format/gguf_test.h"

#include <float.h>

static guarded memory;
static ps_gguf *file;

static int open_all_values(void **state)
{
    (void)state;
    memory = guarded_load("good_all_values");
    return ps_gguf_open_bytes(memory.bytes, memory.size_bytes, &file) == PS_OK ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    ps_gguf_close(file);
    guarded_destroy(&memory);
    return 0;
}

static void test_file_reports_version_size_and_counts(void **state)
{
    (void)state;
    assert_int_equal(3, ps_gguf_version(file));
    assert_int_equal(memory.size_bytes, ps_gguf_size_bytes(file));
    assert_int_equal(7, ps_gguf_tensor_count(file));
    assert_int_equal(40, ps_gguf_key_count(file));
    assert_string_equal("general.architecture", ps_gguf_key_at(file, 0));
    assert_string_equal("array.string.empty", ps_gguf_key_at(file, 39));
}

static void test_u64_takes_every_integer_type(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint64_t value;
    } CASES[] = {
        {"u8", 255},         {"u16", 65535},      {"u32", UINT32_MAX},
        {"u64", UINT64_MAX}, {"i32.positive", 7}, {"i64.positive", 1ull << 40},
        {"bool.true", 1},    {"bool.false", 0},   {"one", 1},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        uint64_t value = 99;
        assert_int_equal(PS_OK, ps_gguf_get_u64(file, CASES[i].key, &value));
        assert_int_equal(CASES[i].value, value);
    }
}

// Each line: the key and what the message must say besides its name.
static void assert_u64_refused(const char *key, const char *said)
{
    uint64_t value = 99;
    assert_int_equal(PS_INVALID, ps_gguf_get_u64(file, key, &value));
    assert_int_equal(99, value);
    assert_non_null(strstr(ps_error_message(), key));
    assert_non_null(strstr(ps_error_message(), said));
    assert_non_null(strstr(ps_error_message(), "an integer >= 0"));
}

static void test_u64_refuses_other_types_and_negative_values(void **state)
{
    (void)state;
    assert_u64_refused("i8", "i8 -128");
    assert_u64_refused("i16", "i16 -32768");
    assert_u64_refused("i32", "i32 -2147483648");
    assert_u64_refused("i64", "i64 -9223372036854775808");
    assert_u64_refused("f32", "type f32");
    assert_u64_refused("f64", "type f64");
    assert_u64_refused("string", "type string");
    assert_u64_refused("array.u8", "an array of u8");
    assert_u64_refused("array.string", "an array of string");
}

static void test_f32_takes_floats_and_integers(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        float value;
    } CASES[] = {
        {"f32", 1e-5f},        {"f64", 0.1f},     {"u8", 255.0f},   {"i8", -128.0f},
        {"u64", 0x1p64f},      {"i64", -0x1p63f}, {"u32", 0x1p32f}, {"i64.positive", 0x1p40f},
        {"f64.float", FLT_MAX}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        float value = 99.0f;
        assert_int_equal(PS_OK, ps_gguf_get_f32(file, CASES[i].key, &value));
        assert_true(value == CASES[i].value);
    }
}

static void test_f32_refuses_what_is_not_finite_and_other_types(void **state)
{
    (void)state;
    static const char *const KEYS[] = {"f32.infinite", "f32.nan", "f64.large", "f64.past",
                                       "bool.true",    "string",  "array.f32"};
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        float value = 99.0f;
        assert_int_equal(PS_INVALID, ps_gguf_get_f32(file, KEYS[i], &value));
        assert_true(value == 99.0f);
        assert_non_null(strstr(ps_error_message(), KEYS[i]));
        assert_non_null(strstr(ps_error_message(), "a finite 32-bit float"));
    }
}

static void test_bool_takes_bools_and_0_and_1(void **state)
{
    (void)state;
    bool value = false;
    assert_int_equal(PS_OK, ps_gguf_get_bool(file, "bool.true", &value));
    assert_true(value);
    assert_int_equal(PS_OK, ps_gguf_get_bool(file, "bool.false", &value));
    assert_false(value);
    assert_int_equal(PS_OK, ps_gguf_get_bool(file, "one", &value));
    assert_true(value);
    assert_int_equal(PS_INVALID, ps_gguf_get_bool(file, "u8", &value));
    assert_int_equal(PS_INVALID, ps_gguf_get_bool(file, "i8", &value));
    assert_int_equal(PS_INVALID, ps_gguf_get_bool(file, "f32", &value));
    assert_int_equal(PS_INVALID, ps_gguf_get_bool(file, "string", &value));
    assert_true(value);
}

static void test_strings_are_any_bytes(void **state)
{
    (void)state;
    ps_str value = {0};
    assert_int_equal(PS_OK, ps_gguf_get_string(file, "general.architecture", &value));
    assert_true(ps_str_equal(value, "llama"));
    assert_int_equal(PS_OK, ps_gguf_get_string(file, "string.empty", &value));
    assert_int_equal(0, value.length);
    assert_int_equal(PS_OK, ps_gguf_get_string(file, "string.bytes", &value));
    assert_int_equal(4, value.length);
    assert_memory_equal("\xff\x00\x80z", value.data, 4);
    assert_int_equal(PS_INVALID, ps_gguf_get_string(file, "u32", &value));
    assert_int_equal(PS_INVALID, ps_gguf_get_string(file, "array.string", &value));
    assert_int_equal(4, value.length);
}

static void test_absent_keys_are_not_found(void **state)
{
    (void)state;
    uint64_t whole = 99;
    float real = 99.0f;
    bool truth = true;
    ps_str string = ps_str_of("old");
    int32_t token = 99;
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_u64(file, "none", &whole));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_f32(file, "none", &real));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_bool(file, "none", &truth));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_string(file, "none", &string));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_array_count(file, "none", &whole));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_u64_array(file, "none", &whole, 1));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_f32_array(file, "none", &real, 1));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_i32_array(file, "none", &token, 1));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_string_array(file, "none", &string, 1));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_u64(file, "", &whole));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_u64(file, "u", &whole));
    assert_int_equal(PS_NOT_FOUND, ps_gguf_get_u64(file, "u88", &whole));
    assert_true(whole == 99 && real == 99.0f && truth && token == 99);
    assert_true(ps_str_equal(string, "old"));
    assert_non_null(strstr(ps_error_message(), "u88"));
}

static void test_array_counts(void **state)
{
    (void)state;
    uint64_t count = 99;
    assert_int_equal(PS_OK, ps_gguf_get_array_count(file, "array.u32", &count));
    assert_int_equal(10, count);
    assert_int_equal(PS_OK, ps_gguf_get_array_count(file, "array.empty", &count));
    assert_int_equal(0, count);
    assert_int_equal(PS_OK, ps_gguf_get_array_count(file, "array.string", &count));
    assert_int_equal(4, count);
    assert_int_equal(PS_INVALID, ps_gguf_get_array_count(file, "u32", &count));
    assert_int_equal(4, count);
}

static void test_u64_arrays(void **state)
{
    (void)state;
    uint64_t items[10] = {0};
    assert_int_equal(PS_OK, ps_gguf_get_u64_array(file, "array.u32", items, 10));
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(i, items[i]);
    }
    assert_int_equal(PS_OK, ps_gguf_get_u64_array(file, "array.u64", items, 2));
    assert_true(items[0] == 1ull << 63 && items[1] == 1);
    assert_int_equal(PS_OK, ps_gguf_get_u64_array(file, "array.bool", items, 3));
    assert_true(items[0] == 0 && items[1] == 1 && items[2] == 1);
    // Of floats: the type is wrong even without items.
    assert_int_equal(PS_INVALID, ps_gguf_get_u64_array(file, "array.empty", items, 0));

    assert_int_equal(PS_INVALID, ps_gguf_get_u64_array(file, "array.u32", items, 9));
    assert_non_null(strstr(ps_error_message(), "10 items; 9 are wanted"));
    assert_int_equal(PS_INVALID, ps_gguf_get_u64_array(file, "array.u32", items, 11));
    assert_int_equal(PS_INVALID, ps_gguf_get_u64_array(file, "array.i16", items, 3));
    assert_non_null(strstr(ps_error_message(), "'array.i16'[0]"));
    assert_int_equal(PS_INVALID, ps_gguf_get_u64_array(file, "array.string", items, 4));
}

static void test_a_scalar_stands_for_equal_items(void **state)
{
    (void)state;
    uint64_t whole[3] = {0};
    float real[2] = {0};
    int32_t token[2] = {0};
    ps_str string;
    assert_int_equal(PS_OK, ps_gguf_get_u64_array(file, "u8", whole, 3));
    assert_true(whole[0] == 255 && whole[1] == 255 && whole[2] == 255);
    assert_int_equal(PS_OK, ps_gguf_get_f32_array(file, "f32", real, 2));
    assert_true(real[0] == 1e-5f && real[1] == 1e-5f);
    assert_int_equal(PS_OK, ps_gguf_get_i32_array(file, "i8", token, 2));
    assert_true(token[0] == -128 && token[1] == -128);
    assert_int_equal(PS_INVALID, ps_gguf_get_string_array(file, "string", &string, 1));
    assert_int_equal(PS_INVALID, ps_gguf_get_u64_array(file, "string", whole, 3));
}

static void test_f32_and_i32_arrays(void **state)
{
    (void)state;
    float real[3] = {0};
    int32_t whole[3] = {0};
    assert_int_equal(PS_OK, ps_gguf_get_f32_array(file, "array.f32", real, 2));
    assert_true(real[0] == 0.5f && real[1] == -1.5f);
    assert_int_equal(PS_OK, ps_gguf_get_f32_array(file, "array.f64", real, 2));
    assert_true(real[0] == 0.25f && real[1] == 4.0f);
    assert_int_equal(PS_OK, ps_gguf_get_f32_array(file, "array.empty", real, 0));
    assert_int_equal(PS_INVALID, ps_gguf_get_f32_array(file, "array.bool", real, 3));

    assert_int_equal(PS_OK, ps_gguf_get_i32_array(file, "array.i16", whole, 3));
    assert_true(whole[0] == -1 && whole[1] == 0 && whole[2] == 1);
    assert_int_equal(PS_INVALID, ps_gguf_get_i32_array(file, "array.u64", whole, 2));
    assert_int_equal(PS_INVALID, ps_gguf_get_i32_array(file, "array.i64", whole, 1));
    assert_int_equal(PS_INVALID, ps_gguf_get_i32_array(file, "array.f32", whole, 2));
    assert_int_equal(PS_INVALID, ps_gguf_get_i32_array(file, "u32", whole, 1));
    assert_int_equal(PS_INVALID, ps_gguf_get_i32_array(file, "int.past", whole, 1));
    assert_int_equal(PS_INVALID, ps_gguf_get_i32_array(file, "int.below", whole, 1));
    assert_int_equal(PS_OK, ps_gguf_get_i32_array(file, "int.max", whole, 1));
    assert_int_equal(INT32_MAX, whole[0]);
    assert_int_equal(PS_OK, ps_gguf_get_i32_array(file, "i32", whole, 1));
    assert_int_equal(INT32_MIN, whole[0]);
}

static void test_string_arrays(void **state)
{
    (void)state;
    ps_str items[4] = {0};
    assert_int_equal(PS_OK, ps_gguf_get_string_array(file, "array.string", items, 4));
    assert_true(ps_str_equal(items[0], "a"));
    assert_true(ps_str_equal(items[1], ""));
    assert_true(ps_str_equal(items[2], "\xc4\xa0the"));
    assert_true(ps_str_equal(items[3], "\xf0\x9f"));
    assert_int_equal(PS_OK, ps_gguf_get_string_array(file, "array.string.empty", items, 0));
    assert_int_equal(PS_INVALID, ps_gguf_get_string_array(file, "array.string", items, 3));
    assert_int_equal(PS_INVALID, ps_gguf_get_string_array(file, "array.u8", items, 3));
}

static void assert_described(const char *key, const char *text)
{
    for (uint32_t i = 0; i < ps_gguf_key_count(file); i++) {
        if (strcmp(key, ps_gguf_key_at(file, i)) == 0) {
            ps_buffer out = {0};
            assert_int_equal(PS_OK, ps_gguf_describe(file, i, &out));
            assert_string_equal(text, out.data);
            ps_buffer_deinit(&out);
            return;
        }
    }
    fail_msg("no key %s", key);
}

static void test_values_are_described(void **state)
{
    (void)state;
    assert_described("u64", "u64 18446744073709551615");
    assert_described("i64", "i64 -9223372036854775808");
    assert_described("f32", "f32 1e-05");
    assert_described("f64", "f64 0.1");
    assert_described("f32.nan", "f32 nan");
    assert_described("bool.true", "bool true");
    assert_described("string", "string \"gr\xc3\xbc\xc3\x9f \\\"x\\\"\\x0a\"");
    assert_described("string.bytes", "string \"\\xff\\x00\\x80z\"");
    assert_described("string.long",
                     "string \"01234567890123456789012345678901234567890123456789012345678901234567"
                     "890123456789...\" (200 bytes)");
    assert_described("array.u32", "u32[10] 0, 1, 2, 3, 4, 5, ...");
    assert_described("array.six", "u8[6] 0, 1, 2, 3, 4, 5");
    assert_described("array.bool", "bool[3] false, true, true");
    assert_described("array.empty", "f32[0]");
    assert_described("array.string", "string[4] \"a\", \"\", \"\xc4\xa0the\", \"\\xf0\\x9f\"");
}

// A file with one key, whose name is `text` and whose value, the last bytes of the file, is too.
static guarded one_key(const char *text)
{
    static const uint8_t HEADER[] = {'G', 'G', 'U', 'F', 3, 0, 0, 0, 0, 0, 0, 0,
                                     0,   0,   0,   0,   1, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t STRING_TYPE[] = {8, 0, 0, 0};
    const uint64_t length = strlen(text);
    uint8_t bytes[128];
    uint8_t *at = mempcpy(bytes, HEADER, sizeof HEADER);
    at = mempcpy(mempcpy(at, &length, 8), text, length);
    at = mempcpy(at, STRING_TYPE, 4);
    at = mempcpy(mempcpy(at, &length, 8), text, length);
    return guarded_create(bytes, (size_t)(at - bytes));
}

static void assert_name_allowed(const char *text, bool is_allowed)
{
    guarded bytes = one_key(text);
    ps_gguf *one = NULL;
    const ps_status status = ps_gguf_open_bytes(bytes.bytes, bytes.size_bytes, &one);
    if ((status == PS_OK) != is_allowed) {
        fail_msg("a name that starts with byte 0x%02x: %d", (uint8_t)text[0], status);
    }
    if (status == PS_OK) {
        assert_string_equal(text, ps_gguf_key_at(one, 0));
    }
    ps_gguf_close(one);
    guarded_destroy(&bytes);
}

// Both sides of every border of UTF-8 (the Unicode Standard, table 3-7) and of the control codes.
static void test_names_are_utf8_without_control_characters(void **state)
{
    (void)state;
    static const char *const ALLOWED[] = {" ",
                                          "~",
                                          "\xc2\xa0",
                                          "\xdf\xbf",
                                          "\xe0\xa0\x80",
                                          "\xe1\x80\x80",
                                          "\xec\xbf\xbf",
                                          "\xed\x9f\xbf",
                                          "\xee\x80\x80",
                                          "\xef\xbf\xbf",
                                          "\xf0\x90\x80\x80",
                                          "\xf3\xbf\xbf\xbf",
                                          "\xf4\x8f\xbf\xbf",
                                          "a\xc3\xa4z"};
    static const char *const REFUSED[] = {"\x1f",
                                          "\x7f",
                                          "\xc2\x80",
                                          "\xc2\x9f",
                                          "\x80",
                                          "\xbf",
                                          "\xc0\x80",
                                          "\xc1\xbf",
                                          "\xe0\x9f\xbf",
                                          "\xed\xa0\x80",
                                          "\xed\xbf\xbf",
                                          "\xf0\x8f\xbf\xbf",
                                          "\xf4\x90\x80\x80",
                                          "\xf5\x80\x80\x80",
                                          "\xf8\x88\x80\x80\x80",
                                          "\xff",
                                          "\xfe",
                                          "\xc3",
                                          "a\xe2\x82",
                                          "\xf0\x9f\x98",
                                          "\xc3\x41",
                                          "\xe2\x82\x41",
                                          "\xe2\x82\xc0",
                                          "\xf0\x9f\x98\x7f",
                                          "\xc2\xa0\x80"};
    for (size_t i = 0; i < sizeof ALLOWED / sizeof ALLOWED[0]; i++) {
        assert_name_allowed(ALLOWED[i], true);
    }
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        assert_name_allowed(REFUSED[i], false);
    }
}

// The value of a string may be cut within a character, at the very end of the file.
static void test_a_cut_character_at_the_end_of_the_file_is_described(void **state)
{
    (void)state;
    guarded bytes = one_key("key ");
    memcpy(bytes.bytes + bytes.size_bytes - 3, "\xf0\x9f\x98", 3);
    ps_gguf *one = NULL;
    ps_buffer out = {0};
    assert_int_equal(PS_OK, ps_gguf_open_bytes(bytes.bytes, bytes.size_bytes, &one));
    assert_int_equal(PS_OK, ps_gguf_describe(one, 0, &out));
    assert_string_equal("string \"k\\xf0\\x9f\\x98\"", out.data);
    ps_buffer_deinit(&out);
    ps_gguf_close(one);
    guarded_destroy(&bytes);
}

static void test_describe_passes_a_full_buffer_on(void **state)
{
    (void)state;
    ps_buffer out = {.limit = 10};
    assert_int_equal(PS_EXHAUSTED, ps_gguf_describe(file, 0, &out));
    ps_buffer_deinit(&out);
}

// Shapes and sizes worked out by hand; data as the script fills it: byte i of the section is 7 i
// + 1.
static void test_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *type_name;
        ps_dtype dtype;
        uint32_t dimension_count;
        uint64_t dimensions[4];
        uint64_t size_bytes;
        uint64_t offset;
    } CASES[] = {
        {"token_embd.weight", "Q4_0", PS_DTYPE_Q4_0, 2, {32, 3, 1, 1}, 54, 0},
        {"output_norm.weight", "F32", PS_DTYPE_F32, 1, {5, 1, 1, 1}, 20, 64},
        {"odd", "IQ2_XXS", PS_DTYPE_COUNT, 3, {256, 1, 2, 1}, 132, 96},
        {"blk.0.attn_q.weight", "Q4_K", PS_DTYPE_Q4_K, 2, {256, 2, 1, 1}, 288, 256},
        {"ints", "I32", PS_DTYPE_I32, 1, {3, 1, 1, 1}, 12, 544},
        {"two_bit", "Q2_0", PS_DTYPE_COUNT, 1, {64, 1, 1, 1}, 18, 576},
        {"cube", "F16", PS_DTYPE_F16, 4, {2, 3, 4, 5}, 240, 608},
    };
    for (uint32_t i = 0; i < 7; i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(file, i);
        assert_ptr_equal(tensor, ps_gguf_tensor_find(file, CASES[i].name));
        assert_string_equal(CASES[i].name, tensor->name);
        assert_string_equal(CASES[i].type_name, tensor->type_name);
        assert_int_equal(CASES[i].dtype, tensor->dtype);
        assert_int_equal(CASES[i].dimension_count, tensor->dimension_count);
        assert_memory_equal(CASES[i].dimensions, tensor->dimensions, sizeof tensor->dimensions);
        assert_int_equal(CASES[i].size_bytes, tensor->size_bytes);
        for (uint64_t at = 0; at < tensor->size_bytes; at++) {
            const uint8_t byte = ((const uint8_t *)tensor->data)[at];
            assert_int_equal((uint8_t)((CASES[i].offset + at) * 7 + 1), byte);
        }
    }
    assert_null(ps_gguf_tensor_find(file, "cub"));
    assert_null(ps_gguf_tensor_find(file, "cube "));
    assert_null(ps_gguf_tensor_find(file, ""));
}

// The script's table against the reader's, and dtype.def's against both.
static void test_every_type_has_its_name_and_block(void **state)
{
    (void)state;
    guarded bytes = guarded_load("good_all_types");
    ps_gguf *all = NULL;
    assert_int_equal(PS_OK, ps_gguf_open_bytes(bytes.bytes, bytes.size_bytes, &all));
    assert_int_equal(35, ps_gguf_tensor_count(all));
    for (uint32_t i = 0; i < 35; i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(all, i);
        uint64_t block_bytes = 0;
        assert_string_equal(tensor->name, tensor->type_name);
        assert_int_equal(PS_OK, ps_gguf_get_u64(all, tensor->name, &block_bytes));
        assert_int_equal(block_bytes, tensor->size_bytes);
        if (tensor->dtype != PS_DTYPE_COUNT) {
            const ps_dtype_info *info = ps_dtype_get(tensor->dtype);
            assert_string_equal(tensor->type_name, info->name);
            assert_int_equal(block_bytes, info->block_bytes);
            assert_int_equal(tensor->dimensions[0], info->block_columns);
        }
    }
    ps_gguf_close(all);
    guarded_destroy(&bytes);
}

static void test_every_entry_of_many_is_found(void **state)
{
    (void)state;
    guarded many_memory = guarded_load("good_many");
    ps_gguf *many = NULL;
    assert_int_equal(PS_OK, ps_gguf_open_bytes(many_memory.bytes, many_memory.size_bytes, &many));
    for (uint32_t i = 0; i < 1200; i++) {
        char name[32];
        uint64_t value = 0;
        (void)snprintf(name, sizeof name, "key.%04u", i);
        assert_int_equal(PS_OK, ps_gguf_get_u64(many, name, &value));
        assert_int_equal(i, value);
    }
    for (uint32_t i = 0; i < 500; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "t%04u", i);
        assert_ptr_equal(ps_gguf_tensor_at(many, i), ps_gguf_tensor_find(many, name));
    }
    ps_gguf_close(many);
    guarded_destroy(&many_memory);
}

static uint64_t fingerprint_of(const guarded *bytes)
{
    ps_gguf *other = NULL;
    assert_int_equal(PS_OK, ps_gguf_open_bytes(bytes->bytes, bytes->size_bytes, &other));
    const uint64_t fingerprint = ps_gguf_fingerprint(other);
    ps_gguf_close(other);
    return fingerprint;
}

// The file: header 24 bytes, a key of 17 (its value is the last four), tensors a [1100] and b [3].
static void test_fingerprint_covers_metadata_table_and_4_kib_a_tensor(void **state)
{
    (void)state;
    guarded bytes = guarded_load("good_large_tensor");
    const uint64_t original = fingerprint_of(&bytes);
    const size_t key_value = 24 + 8 + 1 + 4;
    const size_t data_b = bytes.size_bytes - 12;
    const size_t data_a = data_b - 4416; // 4400 and its padding
    const struct {
        size_t at;
        bool changes;
    } CASES[] = {
        {4, true},      {key_value, true},      {data_a, true},         {data_a + 4095, true},
        {data_b, true}, {data_a + 4096, false}, {data_a + 4400, false}, {data_b + 11, true}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        bytes.bytes[CASES[i].at] ^= 1; // the version becomes 2
        assert_int_equal(CASES[i].changes, fingerprint_of(&bytes) != original);
        bytes.bytes[CASES[i].at] ^= 1;
    }
    assert_true(fingerprint_of(&bytes) == original);
    guarded_destroy(&bytes);
}

static void test_tensors_have_places_in_their_file(void **state)
{
    (void)state;
    ps_gguf *opened = NULL;
    assert_int_equal(PS_OK, ps_gguf_open(CORPUS "/good_large_tensor", &opened));
    FILE *raw = fopen(CORPUS "/good_large_tensor", "rb");
    assert_non_null(raw);
    for (uint32_t i = 0; i < 2; i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(opened, i);
        const ps_gguf_place place = ps_gguf_tensor_place(opened, tensor);
        char bytes[4400];
        assert_string_equal(CORPUS "/good_large_tensor", place.path);
        assert_int_equal(0, fseek(raw, (long)place.offset_bytes, SEEK_SET));
        assert_int_equal(tensor->size_bytes, fread(bytes, 1, tensor->size_bytes, raw));
        assert_memory_equal(bytes, tensor->data, tensor->size_bytes);
    }
    assert_int_equal(0, fclose(raw));
    ps_gguf_close(opened);
    assert_null(ps_gguf_tensor_place(file, ps_gguf_tensor_at(file, 0)).path); // in memory
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_reports_version_size_and_counts),
        cmocka_unit_test(test_u64_takes_every_integer_type),
        cmocka_unit_test(test_u64_refuses_other_types_and_negative_values),
        cmocka_unit_test(test_f32_takes_floats_and_integers),
        cmocka_unit_test(test_f32_refuses_what_is_not_finite_and_other_types),
        cmocka_unit_test(test_bool_takes_bools_and_0_and_1),
        cmocka_unit_test(test_strings_are_any_bytes),
        cmocka_unit_test(test_absent_keys_are_not_found),
        cmocka_unit_test(test_array_counts),
        cmocka_unit_test(test_u64_arrays),
        cmocka_unit_test(test_a_scalar_stands_for_equal_items),
        cmocka_unit_test(test_f32_and_i32_arrays),
        cmocka_unit_test(test_string_arrays),
        cmocka_unit_test(test_tensors_have_places_in_their_file),
        cmocka_unit_test(test_values_are_described),
        cmocka_unit_test(test_names_are_utf8_without_control_characters),
        cmocka_unit_test(test_a_cut_character_at_the_end_of_the_file_is_described),
        cmocka_unit_test(test_describe_passes_a_full_buffer_on),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_every_type_has_its_name_and_block),
        cmocka_unit_test(test_every_entry_of_many_is_found),
        cmocka_unit_test(test_fingerprint_covers_metadata_table_and_4_kib_a_tensor),
    };
    return cmocka_run_group_tests(tests, open_all_values, close_file);
}
