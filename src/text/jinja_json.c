// text/jinja_json.c - JSON to template values.
#include "text/jinja_json.h"

#include <jansson.h>
#include <string.h>

static ps_status convert(ps_jinja_budget *budget, const json_t *json, bool trusted,
                         ps_jinja_value *out);

// jansson's memory ends with the reading, so text is copied.
static ps_status copy_string(ps_jinja_budget *budget, const char *data, size_t length, bool trusted,
                             ps_jinja_value *out)
{
    char *copy = NULL;
    PS_JINJA_NEW(budget, copy, length == 0 ? 1 : length);
    if (length > 0) {
        memcpy(copy, data, length);
    }
    *out = ps_jinja_of_string(
        (ps_jinja_string){.data = copy, .length = length, .trusted = trusted});
    return PS_OK;
}

static ps_status convert_array(ps_jinja_budget *budget, const json_t *json, bool trusted,
                               ps_jinja_value *out)
{
    const size_t count = json_array_size(json);
    PS_TRY(ps_jinja_list_create(budget, PS_JINJA_PLAIN, count, out));
    for (size_t i = 0; i < count; i++) {
        ps_jinja_value item = {0};
        PS_TRY(convert(budget, json_array_get(json, i), trusted, &item));
        PS_TRY(ps_jinja_list_append(budget, out->as.list, item));
    }
    return PS_OK;
}

static ps_status convert_object(ps_jinja_budget *budget, json_t *json, bool trusted,
                                ps_jinja_value *out)
{
    PS_TRY(ps_jinja_dict_create(budget, PS_JINJA_DICT, json_object_size(json), out));
    const char *name = NULL;
    json_t *member = NULL;
    json_object_foreach(json, name, member)
    {
        ps_jinja_value key = {0};
        ps_jinja_value value = {0};
        PS_TRY(copy_string(budget, name, strlen(name), trusted, &key));
        PS_TRY(convert(budget, member, trusted, &value));
        PS_TRY(ps_jinja_dict_append(budget, out->as.dict, key, value));
    }
    return PS_OK;
}

static ps_status convert_nested(ps_jinja_budget *budget, const json_t *json, bool trusted,
                                ps_jinja_value *out)
{
    PS_TRY(ps_jinja_enter(budget));
    if (json_is_array(json)) {
        PS_TRY(convert_array(budget, json, trusted, out));
    } else {
        // jansson iterates only over what it may change; nothing is changed here.
        PS_TRY(convert_object(budget, (json_t *)(uintptr_t)json, trusted, out));
    }
    ps_jinja_leave(budget);
    return PS_OK;
}

static ps_status convert(ps_jinja_budget *budget, const json_t *json, bool trusted,
                         ps_jinja_value *out)
{
    switch (json_typeof(json)) {
    case JSON_NULL:
        *out = ps_jinja_none();
        return PS_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = ps_jinja_of_boolean(json_is_true(json));
        return PS_OK;
    case JSON_INTEGER:
        *out = ps_jinja_of_integer(json_integer_value(json));
        return PS_OK;
    case JSON_REAL:
        *out = ps_jinja_of_real(json_real_value(json));
        return PS_OK;
    case JSON_STRING:
        return copy_string(budget, json_string_value(json), json_string_length(json), trusted, out);
    default:
        return convert_nested(budget, json, trusted, out);
    }
}

static bool is_untrusted_member(ps_str name)
{
    return ps_str_equal(name, "messages") || ps_str_equal(name, "tools") ||
           ps_str_equal(name, "documents");
}

static bool is_known_role(ps_str role)
{
    static const char *const roles[] = {"system",  "user",      "assistant",
                                        "tool",    "developer", "function",
                                        "ipython", "model",     "observation"};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (ps_str_equal(role, roles[i])) {
            return true;
        }
    }
    return false;
}

static void trust_role(ps_jinja_value *message)
{
    if (message->kind != PS_JINJA_DICT) {
        return;
    }
    for (size_t i = 0; i < message->as.dict->count; i++) {
        ps_jinja_entry *entry = &message->as.dict->entries[i];
        if (ps_str_equal(ps_jinja_bytes(entry->key.as.string), "role") &&
            entry->value.kind == PS_JINJA_STRING &&
            is_known_role(ps_jinja_bytes(entry->value.as.string))) {
            entry->value.as.string.trusted = true;
        }
    }
}

// Works on the finished values: which member a string stands in decides its trust.
static ps_status convert_context(ps_jinja_budget *budget, json_t *json, ps_jinja_value *out)
{
    PS_TRY(ps_jinja_dict_create(budget, PS_JINJA_DICT, json_object_size(json), out));
    const char *name = NULL;
    json_t *member = NULL;
    json_object_foreach(json, name, member)
    {
        ps_jinja_value key = {0};
        ps_jinja_value value = {0};
        const ps_str text = ps_str_of(name);
        PS_TRY(copy_string(budget, name, text.length, true, &key));
        PS_TRY(convert(budget, member, !is_untrusted_member(text), &value));
        if (ps_str_equal(text, "messages") && value.kind == PS_JINJA_LIST) {
            for (size_t i = 0; i < value.as.list->count; i++) {
                trust_role(&value.as.list->items[i]);
            }
        }
        PS_TRY(ps_jinja_dict_append(budget, out->as.dict, key, value));
    }
    return PS_OK;
}

ps_status ps_jinja_read_context(ps_jinja_budget *budget, ps_str json, ps_jinja_value *out)
{
    json_error_t error;
    json_t *root = json_loadb(json.data, json.length, JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        return ps_fail(PS_INVALID, "the template's variables are not JSON: %s (byte %d)",
                       error.text, error.position);
    }
    ps_status status = PS_OK;
    if (json_is_object(root)) {
        status = convert_context(budget, root, out);
    } else {
        status = ps_fail(PS_INVALID, "the template's variables must be one JSON object");
    }
    json_decref(root);
    return status;
}
