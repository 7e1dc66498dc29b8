// engine/json_fields.c - strict reading, and the other way.
#include "engine/json_fields.h"

#include "base/scan.h"
#include "format/file_map.h"
#include "hw/machine.h"

#include <prestage/prestage.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- names

static bool is_enum(const ps_json_field *field)
{
    return field->kind >= PS_JSON_COMM_SHAPE;
}

// NULL behind the last.
static const char *enum_name(ps_json_kind kind, uint32_t value)
{
    switch (kind) {
    case PS_JSON_COMM_SHAPE:
        return ps_comm_shape_name((ps_comm_shape)value);
    case PS_JSON_JOIN:
        return ps_prefetch_join_name((ps_prefetch_join)value);
    case PS_JSON_POLICY:
        return ps_prefetch_policy_name((ps_prefetch_policy)value);
    case PS_JSON_COMM_SCHEDULE:
        return ps_comm_schedule_name((ps_comm_schedule)value);
    default:
        return NULL;
    }
}

const char *ps_json_value_name(const ps_json_field *field, const void *from)
{
    const void *at = (const char *)from + field->offset;
    return is_enum(field) ? enum_name(field->kind, *(const uint32_t *)at) : NULL;
}

// ---- reading

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

static ps_status read_text(const ps_json_field *field, const json_t *value, char *out)
{
    const char *text = json_string_value(value);
    const size_t bytes = (size_t)field->highest;
    if (text == NULL || strlen(text) >= bytes || !is_printable(text)) {
        return ps_fail(PS_INVALID,
                       "%s: a text of at most %zu bytes, without control characters, would be "
                       "right",
                       field->key, bytes - 1);
    }
    (void)snprintf(out, bytes, "%s", text);
    return PS_OK;
}

static ps_status read_name(const ps_json_field *field, const json_t *value, uint32_t *out)
{
    const char *text = json_string_value(value);
    const char *names[8];
    char all[128] = "";
    uint32_t count = 0;
    while (count < 8 && (names[count] = enum_name(field->kind, count)) != NULL) {
        if (text != NULL && strcmp(text, names[count]) == 0) {
            *out = count;
            return PS_OK;
        }
        const size_t length = strlen(all);
        (void)snprintf(all + length, sizeof all - length, "%s\"%s\"", count == 0 ? "" : ", ",
                       names[count]);
        count++;
    }
    return text == NULL || !is_printable(text)
               ? ps_fail(PS_INVALID, "%s: one of %s would be right", field->key, all)
               : ps_fail(PS_INVALID, "%s: '%s' is none of %s; the nearest is \"%s\"", field->key,
                         text, all, ps_nearest(ps_str_of(text), names, count));
}

static ps_status read_bool(const ps_json_field *field, const json_t *value, bool *out)
{
    if (!json_is_boolean(value)) {
        return ps_fail(PS_INVALID, "%s: true or false would be right", field->key);
    }
    *out = json_is_true(value);
    return PS_OK;
}

ps_status ps_json_value_read(const ps_json_field *field, const json_t *value, void *out)
{
    void *at = (char *)out + field->offset;
    if (field->kind == PS_JSON_TEXT) {
        return read_text(field, value, at);
    }
    if (field->kind == PS_JSON_BOOL) {
        return read_bool(field, value, at);
    }
    if (is_enum(field)) {
        return read_name(field, value, at);
    }
    const double number = json_number_value(value);
    const bool is_whole = field->kind == PS_JSON_F64 || json_is_integer(value);
    if (!json_is_number(value) || !is_whole ||
        !(number >= field->lowest && number <= field->highest)) {
        return field->kind == PS_JSON_F64
                   ? ps_fail(PS_INVALID, "%s: a number from %g to %g would be right", field->key,
                             field->lowest, field->highest)
                   : ps_fail(PS_INVALID, "%s: a whole number from %.0f to %.0f would be right",
                             field->key, field->lowest, field->highest);
    }
    if (field->kind == PS_JSON_U32) {
        *(uint32_t *)at = (uint32_t)number;
    } else if (field->kind == PS_JSON_U64) {
        *(uint64_t *)at = (uint64_t)json_integer_value(value);
    } else {
        *(double *)at = number;
    }
    return PS_OK;
}

ps_status ps_json_refuse_key(const char *key, const char *const *keys, size_t count)
{
    return ps_fail(PS_INVALID, "unknown key '%s'; the nearest is '%s'", key,
                   ps_nearest(ps_str_of(key), keys, (uint32_t)count));
}

static ps_status read_key(const char *key, const json_t *value, const ps_json_field *fields,
                          size_t count, void *out)
{
    const char *keys[PS_JSON_FIELDS_MAX];
    for (size_t i = 0; i < count; i++) {
        keys[i] = fields[i].key;
        if (strcmp(key, fields[i].key) == 0) {
            return ps_json_value_read(&fields[i], value, out);
        }
    }
    return ps_json_refuse_key(key, keys, count);
}

ps_status ps_json_fields_read(const json_t *object, const ps_json_field *fields, size_t count,
                              bool all, void *out)
{
    ps_assert(count <= PS_JSON_FIELDS_MAX);
    if (!json_is_object(object)) {
        return ps_fail(PS_INVALID, "a JSON object would be right");
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        PS_TRY(read_key(key, value, fields, count, out));
    }
    for (size_t i = 0; i < count && all; i++) {
        if (json_object_get(object, fields[i].key) == NULL) {
            return ps_fail(PS_INVALID, "'%s' is missing", fields[i].key);
        }
    }
    return PS_OK;
}

ps_status ps_json_take(json_t *object, const char *key, json_t **out)
{
    *out = json_incref(json_object_get(object, key));
    (void)json_object_del(object, key);
    return *out != NULL ? PS_OK : ps_fail(PS_INVALID, "'%s' is missing", key);
}

ps_status ps_json_text_read(const char *text, size_t bytes, json_t **out)
{
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    return *out != NULL ? PS_OK : ps_fail(PS_INVALID, "line %d: %s", error.line, error.text);
}

ps_status ps_json_file_read(const char *path, const char *wanted, json_t **out)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    PS_TRY(ps_file_map(path, wanted, &bytes, &size_bytes));
    ps_status status = PS_OK;
    if (size_bytes > PS_JSON_FILE_BYTES_MAX) {
        status = ps_fail(PS_INVALID, "%llu bytes; %s has at most %llu",
                         (unsigned long long)size_bytes, wanted,
                         (unsigned long long)PS_JSON_FILE_BYTES_MAX);
    } else {
        status = ps_json_text_read(bytes == NULL ? "" : bytes, size_bytes, out);
    }
    ps_file_unmap(bytes, size_bytes);
    return status;
}

// ---- writing

static json_t *write_value(const ps_json_field *field, const void *at)
{
    if (is_enum(field)) {
        return json_string(enum_name(field->kind, *(const uint32_t *)at));
    }
    switch (field->kind) {
    case PS_JSON_TEXT:
        return json_string(at);
    case PS_JSON_U32:
        return json_integer(*(const uint32_t *)at);
    case PS_JSON_U64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case PS_JSON_F64:
        return json_real(*(const double *)at);
    default:
        return json_boolean(*(const bool *)at);
    }
}

json_t *ps_json_fields_write(const ps_json_field *fields, size_t count, const void *from)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count && object != NULL; i++) {
        const void *at = (const char *)from + fields[i].offset;
        if (json_object_set_new(object, fields[i].key, write_value(&fields[i], at)) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

// ---- comparing

static void print_value(const ps_json_field *field, const void *from, char text[80])
{
    json_t *value = write_value(field, (const char *)from + field->offset);
    char *dumped = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    (void)snprintf(text, 80, "%s", dumped == NULL ? "?" : dumped);
    free(dumped);
    json_decref(value);
}

ps_status ps_json_fields_compare(const ps_json_field *fields, size_t count, const void *its,
                                 const void *here)
{
    for (size_t i = 0; i < count; i++) {
        char left[80];
        char right[80];
        print_value(&fields[i], its, left);
        print_value(&fields[i], here, right);
        if (strcmp(left, right) != 0) {
            return ps_fail(PS_INVALID, "its %s is %s, here it is %s", fields[i].key, left, right);
        }
    }
    return PS_OK;
}
