// format/gguf_values.c - metadata values: conversions that lose nothing, and text for people.
//
// Bounds were checked at open (gguf_parse.c, invariant 3); here only types and ranges can be wrong.
#include "format/gguf_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DESCRIBE_STRING_BYTES ((uint64_t)80)
#define DESCRIBE_ITEM_BYTES ((uint64_t)24)
#define NUMBER_TEXT_BYTES 32
#define DESCRIBE_ITEMS ((uint64_t)6)

// --- numbers -----------------------------------------------------------------------------------

typedef struct number {
    enum { NO_NUMBER, WHOLE, NEGATIVE, REAL } kind;
    uint64_t whole;   // WHOLE: the value
    int64_t negative; // NEGATIVE: the value, < 0
    double real;      // the value, for every kind; rounded where a double is too narrow
} number;

static number of_unsigned(uint64_t value)
{
    return (number){.kind = WHOLE, .whole = value, .real = (double)value};
}

static number of_signed(int64_t value)
{
    if (value >= 0) {
        return of_unsigned((uint64_t)value);
    }
    return (number){.kind = NEGATIVE, .negative = value, .real = (double)value};
}

static number of_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return (number){.kind = REAL, .real = (double)value};
}

static number of_f64(uint64_t bits)
{
    number result = {.kind = REAL};
    memcpy(&result.real, &bits, sizeof result.real);
    return result;
}

// NO_NUMBER for strings.
static number load_number(ps_gguf_type type, const uint8_t *bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, bytes, ps_gguf_type_get(type)->size_bytes);
    switch (type) {
    case PS_GGUF_U8:
    case PS_GGUF_BOOL:
    case PS_GGUF_U16:
    case PS_GGUF_U32:
    case PS_GGUF_U64:
        return of_unsigned(bits);
    case PS_GGUF_I8:
        return of_signed((int8_t)bits);
    case PS_GGUF_I16:
        return of_signed((int16_t)bits);
    case PS_GGUF_I32:
        return of_signed((int32_t)bits);
    case PS_GGUF_I64:
        return of_signed((int64_t)bits);
    case PS_GGUF_F32:
        return of_f32((uint32_t)bits);
    case PS_GGUF_F64:
        return of_f64(bits);
    case PS_GGUF_STRING:
    case PS_GGUF_ARRAY:
    case PS_GGUF_TYPE_COUNT:
        break;
    }
    return (number){.kind = NO_NUMBER};
}

// Each writes *out and returns true when the number is of a type that `out` can hold without loss
// (f32: rounded).
typedef bool (*convert_function)(number value, void *out);

static bool to_u64(number value, void *out)
{
    if (value.kind != WHOLE) {
        return false;
    }
    memcpy(out, &value.whole, sizeof value.whole);
    return true;
}

static bool to_i32(number value, void *out)
{
    const bool fits = (value.kind == WHOLE && value.whole <= INT32_MAX) ||
                      (value.kind == NEGATIVE && value.negative >= INT32_MIN);
    if (!fits) {
        return false;
    }
    const int32_t result = (int32_t)value.real; // exact: 32 bits fit a double
    memcpy(out, &result, sizeof result);
    return true;
}

static bool to_f32(number value, void *out)
{
    // A number past the range of a float would be undefined to convert, not infinite. From half a
    // unit above FLT_MAX on it would round to infinity.
    const double limit = 0x1.ffffffp127;
    if (value.kind == NO_NUMBER || !(fabs(value.real) < limit)) {
        return false;
    }
    const float result = (float)value.real;
    memcpy(out, &result, sizeof result);
    return true;
}

static bool to_bool(number value, void *out)
{
    if (value.kind != WHOLE || value.whole > 1) {
        return false;
    }
    const bool result = value.whole == 1;
    memcpy(out, &result, sizeof result);
    return true;
}

static void print_number(ps_gguf_type type, number value, char text[NUMBER_TEXT_BYTES])
{
    if (type == PS_GGUF_BOOL) {
        (void)snprintf(text, NUMBER_TEXT_BYTES, "%s", value.whole == 1 ? "true" : "false");
    } else if (value.kind == WHOLE) {
        (void)snprintf(text, NUMBER_TEXT_BYTES, "%" PRIu64, value.whole);
    } else if (value.kind == NEGATIVE) {
        (void)snprintf(text, NUMBER_TEXT_BYTES, "%" PRId64, value.negative);
    } else {
        const int digits = type == PS_GGUF_F32 ? 7 : 16;
        (void)snprintf(text, NUMBER_TEXT_BYTES, "%.*g", digits, value.real);
    }
}

// --- reading -----------------------------------------------------------------------------------

typedef struct wanted {
    const char *what; // for messages
    convert_function convert;
    size_t size_bytes;
    bool takes_bool;
} wanted;

static const wanted WANTED_U64 = {"an integer >= 0", to_u64, sizeof(uint64_t), true};
static const wanted WANTED_I32 = {"a 32-bit integer", to_i32, sizeof(int32_t), true};
static const wanted WANTED_F32 = {"a finite 32-bit float", to_f32, sizeof(float), false};
static const wanted WANTED_BOOL = {"a bool", to_bool, sizeof(bool), true};

static ps_status find(const ps_gguf *file, const char *name, const ps_gguf_key **out)
{
    *out = ps_gguf_key_find(file, name);
    return *out != NULL ? PS_OK : ps_fail(PS_NOT_FOUND, "the file has no key '%.100s'", name);
}

static ps_status wrong_type(const ps_gguf_key *key, const char *want)
{
    return ps_fail(PS_INVALID, "key '%.100s' holds %s%s; %s is wanted", key->name,
                   key->is_array ? "an array of " : "a value of type ",
                   ps_gguf_type_get(key->type)->name, want);
}

static ps_status wrong_value(const ps_gguf_key *key, uint64_t index, number value, const char *want)
{
    char place[32] = "";
    if (key->is_array) {
        (void)snprintf(place, sizeof place, "[%" PRIu64 "]", index);
    }
    char text[NUMBER_TEXT_BYTES];
    print_number(key->type, value, text);
    return ps_fail(PS_INVALID, "key '%.100s'%s is the %s %s; %s is wanted", key->name, place,
                   ps_gguf_type_get(key->type)->name, text, want);
}

static bool is_type_wanted(const ps_gguf_key *key, const wanted *want)
{
    const bool is_real = key->type == PS_GGUF_F32 || key->type == PS_GGUF_F64;
    if (key->type == PS_GGUF_STRING || (key->type == PS_GGUF_BOOL && !want->takes_bool)) {
        return false;
    }
    return !is_real || want->convert == to_f32;
}

static ps_status read_number(const ps_gguf_key *key, uint64_t index, const wanted *want, void *out)
{
    const uint32_t stride = ps_gguf_type_get(key->type)->size_bytes;
    const number value = load_number(key->type, key->bytes + index * stride);
    return want->convert(value, out) ? PS_OK : wrong_value(key, index, value, want->what);
}

static ps_status get_scalar(const ps_gguf *file, const char *name, const wanted *want, void *out)
{
    const ps_gguf_key *key;
    PS_TRY(find(file, name, &key));
    if (key->is_array || !is_type_wanted(key, want)) {
        return wrong_type(key, want->what);
    }
    return read_number(key, 0, want, out);
}

static ps_status wrong_count(const ps_gguf_key *key, uint64_t count)
{
    return ps_fail(PS_INVALID, "key '%.100s' holds %" PRIu64 " items; %" PRIu64 " are wanted",
                   key->name, key->count, count);
}

static ps_status get_array(const ps_gguf *file, const char *name, const wanted *want, void *out,
                           uint64_t count)
{
    const ps_gguf_key *key;
    PS_TRY(find(file, name, &key));
    if (!is_type_wanted(key, want)) {
        return wrong_type(key, want->what);
    }
    if (key->is_array && key->count != count) {
        return wrong_count(key, count);
    }
    for (uint64_t i = 0; i < count; i++) {
        PS_TRY(read_number(key, key->is_array ? i : 0, want, (char *)out + i * want->size_bytes));
    }
    return PS_OK;
}

ps_status ps_gguf_get_u64(const ps_gguf *file, const char *key, uint64_t *out)
{
    return get_scalar(file, key, &WANTED_U64, out);
}

ps_status ps_gguf_get_f32(const ps_gguf *file, const char *key, float *out)
{
    return get_scalar(file, key, &WANTED_F32, out);
}

ps_status ps_gguf_get_bool(const ps_gguf *file, const char *key, bool *out)
{
    return get_scalar(file, key, &WANTED_BOOL, out);
}

ps_status ps_gguf_get_u64_array(const ps_gguf *file, const char *key, uint64_t *out, uint64_t count)
{
    return get_array(file, key, &WANTED_U64, out, count);
}

ps_status ps_gguf_get_f32_array(const ps_gguf *file, const char *key, float *out, uint64_t count)
{
    return get_array(file, key, &WANTED_F32, out, count);
}

ps_status ps_gguf_get_i32_array(const ps_gguf *file, const char *key, int32_t *out, uint64_t count)
{
    return get_array(file, key, &WANTED_I32, out, count);
}

ps_status ps_gguf_get_array_count(const ps_gguf *file, const char *name, uint64_t *out_count)
{
    const ps_gguf_key *key;
    PS_TRY(find(file, name, &key));
    if (!key->is_array) {
        return wrong_type(key, "an array");
    }
    *out_count = key->count;
    return PS_OK;
}

// --- strings -----------------------------------------------------------------------------------

static ps_str load_string(const uint8_t *bytes)
{
    return (ps_str){.data = (const char *)bytes + sizeof(uint64_t),
                    .length = ps_gguf_load_u64(bytes)};
}

static const uint8_t *behind(ps_str string)
{
    return (const uint8_t *)string.data + string.length;
}

ps_status ps_gguf_get_string(const ps_gguf *file, const char *name, ps_str *out)
{
    const ps_gguf_key *key;
    PS_TRY(find(file, name, &key));
    if (key->is_array || key->type != PS_GGUF_STRING) {
        return wrong_type(key, "a string");
    }
    *out = load_string(key->bytes);
    return PS_OK;
}

ps_status ps_gguf_get_string_array(const ps_gguf *file, const char *name, ps_str *out,
                                   uint64_t count)
{
    const ps_gguf_key *key;
    PS_TRY(find(file, name, &key));
    if (!key->is_array || key->type != PS_GGUF_STRING) {
        return wrong_type(key, "an array of strings");
    }
    if (key->count != count) {
        return wrong_count(key, count);
    }
    const uint8_t *at = key->bytes;
    for (uint64_t i = 0; i < count; i++) {
        out[i] = load_string(at);
        at = behind(out[i]);
    }
    return PS_OK;
}

// --- text --------------------------------------------------------------------------------------

// Cuts between characters, never inside one.
static ps_status describe_string(ps_str string, uint64_t bytes_max, ps_buffer *out)
{
    const uint8_t *text = (const uint8_t *)string.data;
    uint64_t at = 0;
    PS_TRY(ps_buffer_append(out, "\"", 1));
    while (at < string.length && at < bytes_max) {
        const uint32_t length = ps_gguf_shown_length(text + at, string.length - at);
        if (length == 0) {
            PS_TRY(ps_buffer_printf(out, "\\x%02x", text[at]));
        } else if (text[at] == '"' || text[at] == '\\') {
            PS_TRY(ps_buffer_printf(out, "\\%c", text[at]));
        } else {
            PS_TRY(ps_buffer_append(out, (const char *)text + at, length));
        }
        at += length == 0 ? 1 : length;
    }
    return at == string.length ? ps_buffer_append(out, "\"", 1)
                               : ps_buffer_printf(out, "...\" (%zu bytes)", string.length);
}

static ps_status describe_items(const ps_gguf_key *key, uint64_t count, uint64_t bytes_max,
                                ps_buffer *out)
{
    const uint8_t *at = key->bytes;
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0) {
            PS_TRY(ps_buffer_append(out, ", ", 2));
        }
        if (key->type == PS_GGUF_STRING) {
            const ps_str string = load_string(at);
            PS_TRY(describe_string(string, bytes_max, out));
            at = behind(string);
        } else {
            char text[NUMBER_TEXT_BYTES];
            print_number(key->type, load_number(key->type, at), text);
            PS_TRY(ps_buffer_append(out, text, strlen(text)));
            at += ps_gguf_type_get(key->type)->size_bytes;
        }
    }
    return PS_OK;
}

ps_status ps_gguf_describe(const ps_gguf *file, uint32_t index, ps_buffer *out)
{
    ps_assert(index < file->key_count);
    const ps_gguf_key *key = &file->keys[index];
    PS_TRY(ps_buffer_printf(out, "%s", ps_gguf_type_get(key->type)->name));
    if (!key->is_array) {
        PS_TRY(ps_buffer_append(out, " ", 1));
        return describe_items(key, 1, DESCRIBE_STRING_BYTES, out);
    }
    PS_TRY(ps_buffer_printf(out, "[%" PRIu64 "]%s", key->count, key->count > 0 ? " " : ""));
    const bool is_cut = key->count > DESCRIBE_ITEMS;
    PS_TRY(describe_items(key, is_cut ? DESCRIBE_ITEMS : key->count, DESCRIBE_ITEM_BYTES, out));
    return is_cut ? ps_buffer_append(out, ", ...", 5) : PS_OK;
}
