// engine/machine_file.c - a table of keys, and a strict reader.
#include "engine/machine_file.h"

#include "base/scan.h"
#include "engine/json_values.h"
#include "format/file_map.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define BYTES_MAX ((uint64_t)1 << 50)
#define RATE_MAX 1e9

typedef enum kind { TEXT, U32, U64, F64, BOOL } kind;

static const struct {
    const char *key;
    kind kind;
    size_t offset;
    double lowest, highest;
} KEYS[] = {
    {"name", TEXT, offsetof(ps_machine, name), 0, 0},
    {"threads", U32, offsetof(ps_machine, threads), 1, 4096},
    {"measured", BOOL, offsetof(ps_machine, is_measured), 0, 1},
    {"l2_bytes", U64, offsetof(ps_machine, l2_bytes), 1, BYTES_MAX},
    {"llc_bytes", U64, offsetof(ps_machine, llc_bytes), 0, BYTES_MAX},
    {"read_gbs", F64, offsetof(ps_machine, read_gbs), 1e-3, RATE_MAX},
    {"cache_read_gbs", F64, offsetof(ps_machine, cache_read_gbs), 1e-3, RATE_MAX},
    {"int8_gops", F64, offsetof(ps_machine, int8_gops), 1e-3, RATE_MAX},
    {"f32_gops", F64, offsetof(ps_machine, f32_gops), 1e-3, RATE_MAX},
    {"barrier_ns", F64, offsetof(ps_machine, barrier_ns), 0, RATE_MAX},
    {"fill_gbs", F64, offsetof(ps_machine, fill_gbs), 1e-3, RATE_MAX},
    {"prefetch_stream", BOOL, offsetof(ps_machine, has_prefetch_stream), 0, 1},
    {"comm_ns", F64, offsetof(ps_machine, comm_ns), 0, 1e12},
    {"comm_gbs", F64, offsetof(ps_machine, comm_gbs), 1e-6, RATE_MAX},
};
#define KEY_COUNT (sizeof KEYS / sizeof KEYS[0])

static ps_status read_text(const json_t *value, char *out, size_t bytes)
{
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) >= bytes) {
        return ps_fail(PS_INVALID, "name: a text of at most %zu bytes would be right", bytes - 1);
    }
    (void)snprintf(out, bytes, "%s", text);
    return PS_OK;
}

static ps_status read_value(size_t i, const json_t *value, ps_machine *machine)
{
    void *at = (char *)machine + KEYS[i].offset;
    if (KEYS[i].kind == TEXT) {
        return read_text(value, at, sizeof machine->name);
    }
    if (KEYS[i].kind == BOOL) {
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value)
                   ? PS_OK
                   : ps_fail(PS_INVALID, "%s: true or false would be right", KEYS[i].key);
    }
    const double number = json_number_value(value);
    const bool is_whole = KEYS[i].kind == F64 || json_is_integer(value);
    if (!json_is_number(value) || !is_whole ||
        !(number >= KEYS[i].lowest && number <= KEYS[i].highest)) {
        return ps_fail(PS_INVALID, "%s: a %snumber from %g to %g would be right", KEYS[i].key,
                       KEYS[i].kind == F64 ? "" : "whole ", KEYS[i].lowest, KEYS[i].highest);
    }
    if (KEYS[i].kind == U32) {
        *(uint32_t *)at = (uint32_t)number;
    } else if (KEYS[i].kind == U64) {
        *(uint64_t *)at = (uint64_t)json_integer_value(value);
    } else {
        *(double *)at = number;
    }
    return PS_OK;
}

static ps_status read_key(const char *key, const json_t *value, ps_machine *machine)
{
    const char *keys[KEY_COUNT];
    for (size_t i = 0; i < KEY_COUNT; i++) {
        keys[i] = KEYS[i].key;
        if (strcmp(key, KEYS[i].key) == 0) {
            return read_value(i, value, machine);
        }
    }
    return ps_fail(PS_INVALID, "unknown key '%s'; the nearest is '%s'", key,
                   ps_nearest(ps_str_of(key), keys, KEY_COUNT));
}

static ps_status read_object(json_t *object, ps_machine *machine)
{
    if (!json_is_object(object)) {
        return ps_fail(PS_INVALID, "a JSON object would be right");
    }
    ps_machine read = *machine;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        PS_TRY(read_key(key, value, &read));
    }
    *machine = read;
    return PS_OK;
}

ps_status ps_machine_read(const char *path, ps_machine *machine)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    ps_status status = ps_file_map(path, "a machine as JSON", &bytes, &size_bytes);
    if (status == PS_OK) {
        json_error_t error;
        json_t *object = json_loadb(bytes == NULL ? "" : bytes, size_bytes, JSON_REJECT_DUPLICATES,
                                    &error);
        status = object == NULL ? ps_fail(PS_INVALID, "line %d: %s", error.line, error.text)
                                : read_object(object, machine);
        json_decref(object);
        ps_file_unmap(bytes, size_bytes);
    }
    return ps_file_name_error(path, status);
}

ps_status ps_machine_check_rates(const ps_machine *machine)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (KEYS[i].kind != F64) {
            continue;
        }
        double value;
        memcpy(&value, (const char *)machine + KEYS[i].offset, sizeof value);
        if (!(value >= KEYS[i].lowest && value <= KEYS[i].highest)) {
            return ps_fail(PS_INVALID, "%s is %g: %g to %g would be right", KEYS[i].key, value,
                           KEYS[i].lowest, KEYS[i].highest);
        }
    }
    return PS_OK;
}
