// engine/additional_config.c - --additional-config, strictly: in other systems a misspelt key, a
// ratio of 0 and one of 1.5 have all meant "the whole weight", and "enable" for "enabled" nothing.
#include "base/scan.h"
#include "base/status.h"
#include "engine/json_values.h"

#include <prestage/prestage.h>

#include <stdio.h>
#include <string.h>

#define ROOT "weight_prefetch_config"
#define PATH_BYTES 128

static const char *const MODULES[PS_MODULE_COUNT] = {"attn", "mlp", "moe"};

static const struct {
    const char *key;
    ps_ratio_module module;
    double ratio; // the default
} RATIOS[PS_RATIO_COUNT] = {
    [PS_RATIO_ATTN_QKV] = {"qkv", PS_MODULE_ATTN, 1.0},
    [PS_RATIO_ATTN_O] = {"o", PS_MODULE_ATTN, 1.0},
    [PS_RATIO_MLP_GATE_UP] = {"gate_up", PS_MODULE_MLP, 1.0},
    [PS_RATIO_MLP_DOWN] = {"down", PS_MODULE_MLP, 1.0},
    [PS_RATIO_MOE_GATE_UP] = {"gate_up", PS_MODULE_MOE, 0.8},
};

ps_prefetch_ratios ps_prefetch_ratios_default(void)
{
    ps_prefetch_ratios ratios = {0};
    for (size_t i = 0; i < PS_RATIO_COUNT; i++) {
        ratios.ratio[i] = RATIOS[i].ratio;
    }
    for (size_t m = 0; m < PS_MODULE_COUNT; m++) {
        ratios.max_tokens[m] = UINT32_MAX;
    }
    return ratios;
}

// ---- values; `path` is for messages

static ps_status unknown_key(const char *path, const char *key, const char *const *keys,
                             uint32_t count)
{
    return ps_fail(PS_INVALID, "%s%s%s: there is no such key; %s would be right", path,
                   path[0] == '\0' ? "" : ".", key, ps_nearest(ps_str_of(key), keys, count));
}

static ps_status check_object(const char *path, const json_t *value)
{
    return json_is_object(value)
               ? PS_OK
               : ps_fail(PS_INVALID, "%s: an object would be right", path[0] == '\0' ? "it" : path);
}

static ps_status read_ratio(const char *path, const json_t *value, double *out)
{
    const double ratio = json_number_value(value);
    if (!json_is_number(value) || !(ratio >= 0 && ratio <= 1)) {
        return ps_fail(PS_INVALID, "%s: a number from 0 to 1 would be right", path);
    }
    *out = ratio;
    return PS_OK;
}

static ps_status read_count(const char *path, const json_t *value, json_int_t lowest,
                            json_int_t highest, json_int_t *out)
{
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= lowest && *out <= highest
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "%s: a whole number from %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT
                         " would be right",
                         path, lowest, highest);
}

// ---- objects

static ps_status read_module(const char *path, json_t *object, ps_ratio_module module,
                             ps_additional_config *out)
{
    PS_TRY(check_object(path, object));
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const char *keys[PS_RATIO_COUNT] = {0};
        size_t i = 0;
        while (i < PS_RATIO_COUNT &&
               (RATIOS[i].module != module || strcmp(RATIOS[i].key, key) != 0)) {
            keys[i] = RATIOS[i].module == module ? RATIOS[i].key : NULL;
            i++;
        }
        if (i == PS_RATIO_COUNT) {
            return unknown_key(path, key, keys, PS_RATIO_COUNT);
        }
        char at[PATH_BYTES];
        (void)snprintf(at, sizeof at, "%s.%s", path, key);
        PS_TRY(read_ratio(at, value, &out->ratios.ratio[i]));
    }
    return PS_OK;
}

static ps_status find_module(const char *path, const char *key, uint32_t *out)
{
    *out = 0;
    while (*out < PS_MODULE_COUNT && strcmp(MODULES[*out], key) != 0) {
        (*out)++;
    }
    return *out < PS_MODULE_COUNT ? PS_OK : unknown_key(path, key, MODULES, PS_MODULE_COUNT);
}

// An object with a number of tokens a module.
static ps_status read_tokens(const char *path, json_t *object, uint32_t out[PS_MODULE_COUNT])
{
    PS_TRY(check_object(path, object));
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        uint32_t module;
        json_int_t count;
        char at[PATH_BYTES];
        PS_TRY(find_module(path, key, &module));
        (void)snprintf(at, sizeof at, "%s.%s", path, key);
        PS_TRY(read_count(at, value, 0, UINT32_MAX, &count));
        out[module] = (uint32_t)count;
    }
    return PS_OK;
}

static ps_status read_enabled(const char *path, json_t *value, ps_additional_config *out)
{
    out->is_enabled = json_is_true(value);
    return json_is_boolean(value) ? PS_OK
                                  : ps_fail(PS_INVALID, "%s: true or false would be right", path);
}

static ps_status read_prefetch_ratio(const char *path, json_t *object, ps_additional_config *out)
{
    PS_TRY(check_object(path, object));
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        uint32_t module;
        char at[PATH_BYTES];
        PS_TRY(find_module(path, key, &module));
        (void)snprintf(at, sizeof at, "%s.%s", path, key);
        PS_TRY(read_module(at, value, (ps_ratio_module)module, out));
    }
    return PS_OK;
}

static ps_status read_max_bytes(const char *path, json_t *value, ps_additional_config *out)
{
    json_int_t bytes;
    PS_TRY(read_count(path, value, 1, (json_int_t)1 << 50, &bytes));
    out->ratios.max_bytes = (uint64_t)bytes;
    return PS_OK;
}

static ps_status read_min(const char *path, json_t *value, ps_additional_config *out)
{
    return read_tokens(path, value, out->ratios.min_tokens);
}

static ps_status read_max(const char *path, json_t *value, ps_additional_config *out)
{
    return read_tokens(path, value, out->ratios.max_tokens);
}

static ps_status read_config(const char *path, json_t *object, ps_additional_config *out);

typedef struct field {
    const char *key;
    ps_status (*read)(const char *path, json_t *value, ps_additional_config *out);
} field;

static const field FIELDS[] = {
    {"enabled", read_enabled},
    {"prefetch_ratio", read_prefetch_ratio},
    {"max_prefetch_bytes", read_max_bytes},
    {"min_tokens", read_min},
    {"max_tokens", read_max},
};
#define FIELD_COUNT (sizeof FIELDS / sizeof FIELDS[0])
static const field TOP[] = {{ROOT, read_config}};

static ps_status read_fields(const char *path, json_t *object, const field *fields, uint32_t count,
                             ps_additional_config *out)
{
    PS_TRY(check_object(path, object));
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const char *keys[FIELD_COUNT] = {0};
        uint32_t i = 0;
        while (i < count && strcmp(fields[i].key, key) != 0) {
            keys[i] = fields[i].key;
            i++;
        }
        if (i == count) {
            return unknown_key(path, key, keys, count);
        }
        char at[PATH_BYTES];
        (void)snprintf(at, sizeof at, "%s%s%s", path, path[0] == '\0' ? "" : ".", key);
        PS_TRY(fields[i].read(at, value, out));
    }
    return PS_OK;
}

static ps_status read_config(const char *path, json_t *object, ps_additional_config *out)
{
    PS_TRY(read_fields(path, object, FIELDS, FIELD_COUNT, out));
    out->is_given = true;
    out->is_idle = json_object_get(object, "enabled") == NULL &&
                   json_object_get(object, "prefetch_ratio") != NULL;
    for (size_t m = 0; m < PS_MODULE_COUNT; m++) {
        if (out->ratios.min_tokens[m] > out->ratios.max_tokens[m]) {
            return ps_fail(PS_INVALID, "%s: min_tokens.%s is above max_tokens.%s", path, MODULES[m],
                           MODULES[m]);
        }
    }
    return PS_OK;
}

ps_status ps_additional_config_read(const char *json, ps_additional_config *out)
{
    json_error_t error;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    ps_additional_config config = {.ratios = ps_prefetch_ratios_default()};
    const ps_status status = object == NULL ? ps_fail(PS_INVALID, "line %d, column %d: %s",
                                                      error.line, error.column, error.text)
                                            : read_fields("", object, TOP, 1, &config);
    json_decref(object);
    if (status == PS_OK) {
        *out = config;
    }
    return status;
}
