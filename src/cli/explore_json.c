// cli/explore_json.c - see explore_json.h.
#include "cli/explore_json.h"

#include "base/scan.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void ps_spec_path(char out[PS_SPEC_PATH_BYTES], const char *path, const char *key)
{
    (void)snprintf(out, PS_SPEC_PATH_BYTES, "%s%s%s", path, path[0] == '\0' ? "" : ".", key);
}

void ps_spec_path_index(char out[PS_SPEC_PATH_BYTES], const char *path, size_t index)
{
    (void)snprintf(out, PS_SPEC_PATH_BYTES, "%s[%zu]", path, index);
}

ps_status ps_spec_is_object(const char *path, const json_t *value)
{
    return json_is_object(value) ? PS_OK
                                 : ps_fail(PS_INVALID, "%s: an object would be right",
                                           path[0] == '\0' ? "the spec" : path);
}

static bool is_one_of(const char *key, const char *const *keys, uint32_t count, uint32_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(key, keys[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

ps_status ps_spec_keys(const char *path, const json_t *object, const char *const *keys,
                       uint32_t count)
{
    PS_TRY(ps_spec_is_object(path, object));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        char at[PS_SPEC_PATH_BYTES];
        uint32_t index;
        if (!is_one_of(key, keys, count, &index)) {
            ps_spec_path(at, path, key);
            return ps_fail(PS_INVALID, "%s: there is no such key; the nearest is '%s'", at,
                           ps_nearest(ps_str_of(key), keys, count));
        }
    }
    return PS_OK;
}

ps_status ps_spec_list(const char *path, const json_t *value, size_t most)
{
    const size_t count = json_array_size(value);
    return count >= 1 && count <= most
               ? PS_OK
               : ps_fail(PS_INVALID, "%s: a list of 1 to %zu values would be right", path, most);
}

ps_status ps_spec_text(const char *path, const json_t *object, const char *key, const char **out)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return PS_OK;
    }
    const char *text = json_string_value(value);
    const size_t length = json_string_length(value);
    if (text == NULL || length == 0 || length > PS_SPEC_TEXT_BYTES_MAX) {
        char at[PS_SPEC_PATH_BYTES];
        ps_spec_path(at, path, key);
        return ps_fail(PS_INVALID, "%s: a text of 1 to %zu bytes would be right", at,
                       PS_SPEC_TEXT_BYTES_MAX);
    }
    *out = text;
    return PS_OK;
}

ps_status ps_spec_text_required(const char *path, const json_t *object, const char *key,
                                const char **out)
{
    if (json_object_get(object, key) == NULL) {
        char at[PS_SPEC_PATH_BYTES];
        ps_spec_path(at, path, key);
        return ps_fail(PS_INVALID, "%s is missing", at);
    }
    return ps_spec_text(path, object, key, out);
}

ps_status ps_spec_number(const char *path, const json_t *object, const char *key, double lowest,
                         double highest, double *out)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return PS_OK;
    }
    const double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= lowest && number <= highest)) {
        char at[PS_SPEC_PATH_BYTES];
        ps_spec_path(at, path, key);
        return ps_fail(PS_INVALID, "%s: a number from %g to %g would be right", at, lowest,
                       highest);
    }
    *out = number;
    return PS_OK;
}

ps_status ps_spec_whole(const char *path, const json_t *object, const char *key, uint64_t lowest,
                        uint64_t highest, uint64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return PS_OK;
    }
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number < lowest ||
        (uint64_t)number > highest) {
        char at[PS_SPEC_PATH_BYTES];
        ps_spec_path(at, path, key);
        return ps_fail(PS_INVALID,
                       "%s: a whole number from %" PRIu64 " to %" PRIu64 " would be right", at,
                       lowest, highest);
    }
    *out = (uint64_t)number;
    return PS_OK;
}

ps_status ps_spec_choice(const char *path, const json_t *object, const char *key,
                         const char *const *words, uint32_t count, uint32_t *out)
{
    const char *word = NULL;
    PS_TRY(ps_spec_text(path, object, key, &word));
    if (word == NULL || is_one_of(word, words, count, out)) {
        return PS_OK;
    }
    char at[PS_SPEC_PATH_BYTES];
    ps_spec_path(at, path, key);
    return ps_fail(PS_INVALID, "%s: '%s' is none of its values; the nearest is '%s'", at, word,
                   ps_nearest(ps_str_of(word), words, count));
}
