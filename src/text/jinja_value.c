// text/jinja_value.c - the values of a template.
#include "text/jinja_value.h"

#include "text/jinja_unicode.h"

#include <math.h>
#include <string.h>

#define BYTES_PER_STEP 64

ps_status ps_jinja_spend(ps_jinja_budget *budget, uint64_t steps)
{
    if (steps > budget->steps_max - budget->steps) {
        return ps_jinja_fail(budget, PS_EXHAUSTED, "the template's limit of %llu steps is reached",
                             (unsigned long long)budget->steps_max);
    }
    budget->steps += steps;
    return PS_OK;
}

ps_status ps_jinja_enter(ps_jinja_budget *budget)
{
    if (budget->depth >= budget->depth_max) {
        return ps_jinja_fail(budget, PS_EXHAUSTED,
                             "the template's limit of %u nested levels is reached",
                             budget->depth_max);
    }
    budget->depth++;
    return PS_OK;
}

void ps_jinja_leave(ps_jinja_budget *budget)
{
    budget->depth--;
}

void *ps_jinja_alloc(ps_jinja_budget *budget, uint64_t count, uint64_t size_bytes)
{
    return ps_arena_alloc(budget->arena, count, size_bytes);
}

void ps_jinja_memory_failed(const ps_jinja_budget *budget)
{
    (void)ps_jinja_fail(budget, PS_EXHAUSTED,
                        "the template's memory limit of %zu bytes is reached (%zu in use)",
                        budget->arena->limit_bytes, budget->arena->used_bytes);
}

const char *ps_jinja_type_name(const ps_jinja_value *value)
{
    static const char *const sequences[] = {"list", "tuple", "range", "dict view", "generator"};
    static const char *const names[] = {
        [PS_JINJA_ABSENT] = "nothing",      [PS_JINJA_UNDEFINED] = "undefined",
        [PS_JINJA_NONE] = "none",           [PS_JINJA_BOOLEAN] = "bool",
        [PS_JINJA_INTEGER] = "int",         [PS_JINJA_REAL] = "float",
        [PS_JINJA_STRING] = "str",          [PS_JINJA_DICT] = "dict",
        [PS_JINJA_NAMESPACE] = "namespace", [PS_JINJA_LOOP] = "loop",
        [PS_JINJA_MACRO] = "macro",         [PS_JINJA_FUNCTION] = "function",
        [PS_JINJA_METHOD] = "method",
    };
    return value->kind == PS_JINJA_LIST ? sequences[value->as.list->flavour] : names[value->kind];
}

ps_jinja_value ps_jinja_literal(const char *literal)
{
    return ps_jinja_of_string(
        (ps_jinja_string){.data = literal, .length = strlen(literal), .trusted = true});
}

ps_jinja_string ps_jinja_cut(ps_jinja_string string, size_t begin, size_t end)
{
    ps_assert(begin <= end && end <= string.length);
    string.data += begin;
    string.marks = string.marks == NULL ? NULL : string.marks + begin;
    string.length = end - begin;
    return string;
}

ps_status ps_jinja_list_create(ps_jinja_budget *budget, ps_jinja_flavour flavour, size_t capacity,
                               ps_jinja_value *out)
{
    ps_jinja_list *list = NULL;
    PS_JINJA_NEW(budget, list, 1);
    list->flavour = flavour;
    if (capacity > 0) {
        PS_JINJA_NEW(budget, list->items, capacity);
        list->capacity = capacity;
    }
    *out = (ps_jinja_value){.kind = PS_JINJA_LIST, .as.list = list};
    return PS_OK;
}

ps_status ps_jinja_list_append(ps_jinja_budget *budget, ps_jinja_list *list, ps_jinja_value item)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 4 : list->capacity * 2;
        ps_jinja_value *items = NULL;
        PS_JINJA_NEW(budget, items, capacity);
        if (list->count > 0) {
            memcpy(items, list->items, list->count * sizeof *items);
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return PS_OK;
}

ps_status ps_jinja_dict_create(ps_jinja_budget *budget, ps_jinja_kind kind, size_t capacity,
                               ps_jinja_value *out)
{
    ps_jinja_dict *dict = NULL;
    PS_JINJA_NEW(budget, dict, 1);
    if (capacity > 0) {
        PS_JINJA_NEW(budget, dict->entries, capacity);
        dict->capacity = capacity;
    }
    *out = (ps_jinja_value){.kind = kind, .as.dict = dict};
    return PS_OK;
}

ps_status ps_jinja_check_key(const ps_jinja_budget *budget, const ps_jinja_value *key)
{
    if (key->kind == PS_JINJA_DICT ||
        (key->kind == PS_JINJA_LIST && key->as.list->flavour != PS_JINJA_TUPLE)) {
        return ps_jinja_fail(budget, PS_INVALID, "a %s cannot be the key of a dict",
                             ps_jinja_type_name(key));
    }
    return PS_OK;
}

ps_status ps_jinja_dict_find(ps_jinja_budget *budget, const ps_jinja_dict *dict,
                             const ps_jinja_value *key, ps_jinja_value **out_value)
{
    PS_TRY(ps_jinja_check_key(budget, key));
    PS_TRY(ps_jinja_spend(budget, dict->count / 8));
    for (size_t i = 0; i < dict->count; i++) {
        bool equal = false;
        PS_TRY(ps_jinja_equal(budget, &dict->entries[i].key, key, &equal));
        if (equal) {
            *out_value = &dict->entries[i].value;
            return PS_OK;
        }
    }
    *out_value = NULL;
    return PS_OK;
}

ps_status ps_jinja_dict_set(ps_jinja_budget *budget, ps_jinja_dict *dict, ps_jinja_value key,
                            ps_jinja_value value)
{
    ps_jinja_value *existing = NULL;
    PS_TRY(ps_jinja_dict_find(budget, dict, &key, &existing));
    if (existing != NULL) {
        *existing = value;
        return PS_OK;
    }
    return ps_jinja_dict_append(budget, dict, key, value);
}

ps_status ps_jinja_dict_append(ps_jinja_budget *budget, ps_jinja_dict *dict, ps_jinja_value key,
                               ps_jinja_value value)
{
    if (dict->count == dict->capacity) {
        const size_t capacity = dict->capacity == 0 ? 4 : dict->capacity * 2;
        ps_jinja_entry *entries = NULL;
        PS_JINJA_NEW(budget, entries, capacity);
        if (dict->count > 0) {
            memcpy(entries, dict->entries, dict->count * sizeof *entries);
        }
        dict->entries = entries;
        dict->capacity = capacity;
    }
    dict->entries[dict->count++] = (ps_jinja_entry){.key = key, .value = value};
    return PS_OK;
}

bool ps_jinja_truth(const ps_jinja_value *value)
{
    switch (value->kind) {
    case PS_JINJA_ABSENT:
    case PS_JINJA_UNDEFINED:
    case PS_JINJA_NONE:
        return false;
    case PS_JINJA_BOOLEAN:
        return value->as.boolean;
    case PS_JINJA_INTEGER:
        return value->as.integer != 0;
    case PS_JINJA_REAL:
        return value->as.real != 0.0;
    case PS_JINJA_STRING:
        return value->as.string.length > 0;
    case PS_JINJA_LIST:
        return value->as.list->flavour == PS_JINJA_GENERATOR || value->as.list->count > 0;
    case PS_JINJA_DICT:
        return value->as.dict->count > 0;
    default:
        return true;
    }
}

static bool is_number(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_BOOLEAN || value->kind == PS_JINJA_INTEGER ||
           value->kind == PS_JINJA_REAL;
}

static int64_t integer_of(const ps_jinja_value *value)
{
    return value->kind == PS_JINJA_BOOLEAN ? value->as.boolean : value->as.integer;
}

static int order_of_numbers(const ps_jinja_value *a, const ps_jinja_value *b)
{
    if (a->kind != PS_JINJA_REAL && b->kind != PS_JINJA_REAL) {
        const int64_t left = integer_of(a);
        const int64_t right = integer_of(b);
        return (left > right) - (left < right);
    }
    const double left = a->kind == PS_JINJA_REAL ? a->as.real : (double)integer_of(a);
    const double right = b->kind == PS_JINJA_REAL ? b->as.real : (double)integer_of(b);
    return isnan(left) || isnan(right) ? 2 : (left > right) - (left < right);
}

static ps_status order_of_strings(ps_jinja_budget *budget, ps_jinja_string a, ps_jinja_string b,
                                  int *out_order)
{
    // Bytes of UTF-8 order as their code points do.
    const size_t common = a.length < b.length ? a.length : b.length;
    PS_TRY(ps_jinja_spend(budget, common / BYTES_PER_STEP));
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order == 0) {
        order = (a.length > b.length) - (a.length < b.length);
    }
    *out_order = (order > 0) - (order < 0);
    return PS_OK;
}

static ps_status equal_lists(ps_jinja_budget *budget, const ps_jinja_list *a,
                             const ps_jinja_list *b, bool *out)
{
    *out = a == b ||
           (a->flavour == b->flavour && a->count == b->count && a->flavour != PS_JINJA_GENERATOR);
    for (size_t i = 0; *out && a != b && i < a->count; i++) {
        PS_TRY(ps_jinja_equal(budget, &a->items[i], &b->items[i], out));
    }
    return PS_OK;
}

static ps_status equal_dicts(ps_jinja_budget *budget, const ps_jinja_dict *a,
                             const ps_jinja_dict *b, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        ps_jinja_value *other = NULL;
        PS_TRY(ps_jinja_dict_find(budget, b, &a->entries[i].key, &other));
        *out = other != NULL;
        if (other != NULL) {
            PS_TRY(ps_jinja_equal(budget, &a->entries[i].value, other, out));
        }
    }
    return PS_OK;
}

static ps_status equal_same_kind(ps_jinja_budget *budget, const ps_jinja_value *a,
                                 const ps_jinja_value *b, bool *out)
{
    switch (a->kind) {
    case PS_JINJA_STRING: {
        const ps_jinja_string left = a->as.string;
        const ps_jinja_string right = b->as.string;
        PS_TRY(ps_jinja_spend(budget, left.length == right.length ? left.length / 64 : 0));
        *out = left.length == right.length &&
               (left.length == 0 || memcmp(left.data, right.data, left.length) == 0);
        return PS_OK;
    }
    case PS_JINJA_LIST:
        return equal_lists(budget, a->as.list, b->as.list, out);
    case PS_JINJA_DICT:
        return equal_dicts(budget, a->as.dict, b->as.dict, out);
    case PS_JINJA_NAMESPACE:
        *out = a->as.dict == b->as.dict;
        return PS_OK;
    case PS_JINJA_LOOP:
        *out = a->as.loop == b->as.loop;
        return PS_OK;
    case PS_JINJA_MACRO:
        *out = a->as.macro == b->as.macro;
        return PS_OK;
    case PS_JINJA_FUNCTION:
        *out = a->as.function == b->as.function;
        return PS_OK;
    case PS_JINJA_METHOD:
        *out = a->as.method == b->as.method;
        return PS_OK;
    default:
        *out = true;
        return PS_OK;
    }
}

ps_status ps_jinja_equal(ps_jinja_budget *budget, const ps_jinja_value *a, const ps_jinja_value *b,
                         bool *out)
{
    PS_TRY(ps_jinja_spend(budget, 1));
    if (is_number(a) && is_number(b)) {
        *out = order_of_numbers(a, b) == 0;
        return PS_OK;
    }
    if (a->kind != b->kind) {
        *out = false;
        return PS_OK;
    }
    PS_TRY(ps_jinja_enter(budget));
    PS_TRY(equal_same_kind(budget, a, b, out));
    ps_jinja_leave(budget);
    return PS_OK;
}

static ps_status order_of_lists(ps_jinja_budget *budget, const ps_jinja_list *a,
                                const ps_jinja_list *b, int *out_order)
{
    const size_t common = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < common; i++) {
        bool equal = false;
        PS_TRY(ps_jinja_equal(budget, &a->items[i], &b->items[i], &equal));
        if (!equal) {
            return ps_jinja_compare(budget, &a->items[i], &b->items[i], out_order);
        }
    }
    *out_order = (a->count > b->count) - (a->count < b->count);
    return PS_OK;
}

ps_status ps_jinja_compare(ps_jinja_budget *budget, const ps_jinja_value *a,
                           const ps_jinja_value *b, int *out_order)
{
    PS_TRY(ps_jinja_spend(budget, 1));
    if (is_number(a) && is_number(b)) {
        *out_order = order_of_numbers(a, b);
        return PS_OK;
    }
    if (a->kind == PS_JINJA_STRING && b->kind == PS_JINJA_STRING) {
        return order_of_strings(budget, a->as.string, b->as.string, out_order);
    }
    if (a->kind == PS_JINJA_LIST && b->kind == PS_JINJA_LIST &&
        a->as.list->flavour == b->as.list->flavour && a->as.list->flavour <= PS_JINJA_TUPLE) {
        PS_TRY(ps_jinja_enter(budget));
        PS_TRY(order_of_lists(budget, a->as.list, b->as.list, out_order));
        ps_jinja_leave(budget);
        return PS_OK;
    }
    return ps_jinja_fail(budget, PS_INVALID, "%s and %s have no order", ps_jinja_type_name(a),
                         ps_jinja_type_name(b));
}

ps_status ps_jinja_contains(ps_jinja_budget *budget, const ps_jinja_value *container,
                            const ps_jinja_value *item, bool *out)
{
    if (container->kind == PS_JINJA_STRING) {
        if (item->kind != PS_JINJA_STRING) {
            return ps_jinja_fail(budget, PS_INVALID, "'in' a str looks for a str, not for %s",
                                 ps_jinja_type_name(item));
        }
        size_t index = 0;
        PS_TRY(ps_jinja_find(budget, ps_jinja_bytes(container->as.string),
                             ps_jinja_bytes(item->as.string), 0, &index));
        *out = index != SIZE_MAX;
        return PS_OK;
    }
    if (container->kind == PS_JINJA_DICT) {
        ps_jinja_value *value = NULL;
        PS_TRY(ps_jinja_dict_find(budget, container->as.dict, item, &value));
        *out = value != NULL;
        return PS_OK;
    }
    const ps_jinja_list *items = NULL;
    PS_TRY(ps_jinja_iterate(budget, container, &items));
    *out = false;
    for (size_t i = 0; !*out && i < items->count; i++) {
        PS_TRY(ps_jinja_equal(budget, item, &items->items[i], out));
    }
    return PS_OK;
}

static ps_status split_characters(ps_jinja_budget *budget, ps_jinja_string string,
                                  ps_jinja_value *out)
{
    PS_TRY(ps_jinja_list_create(budget, PS_JINJA_PLAIN, string.length, out));
    for (size_t at = 0; at < string.length;) {
        size_t bytes = 0;
        (void)ps_jinja_decode(string.data + at, string.length - at, &bytes);
        PS_TRY(ps_jinja_list_append(budget, out->as.list,
                                    ps_jinja_of_string(ps_jinja_cut(string, at, at + bytes))));
        at += bytes;
    }
    return ps_jinja_spend(budget, string.length / 8);
}

static ps_status dict_keys(ps_jinja_budget *budget, const ps_jinja_dict *dict, ps_jinja_value *out)
{
    PS_TRY(ps_jinja_list_create(budget, PS_JINJA_PLAIN, dict->count, out));
    for (size_t i = 0; i < dict->count; i++) {
        PS_TRY(ps_jinja_list_append(budget, out->as.list, dict->entries[i].key));
    }
    return ps_jinja_spend(budget, dict->count / 8);
}

ps_status ps_jinja_iterate(ps_jinja_budget *budget, const ps_jinja_value *value,
                           const ps_jinja_list **out)
{
    ps_jinja_value made = {0};
    switch (value->kind) {
    case PS_JINJA_UNDEFINED:
        PS_TRY(ps_jinja_list_create(budget, PS_JINJA_PLAIN, 0, &made));
        break;
    case PS_JINJA_STRING:
        PS_TRY(split_characters(budget, value->as.string, &made));
        break;
    case PS_JINJA_DICT:
        PS_TRY(dict_keys(budget, value->as.dict, &made));
        break;
    case PS_JINJA_LIST:
        if (value->as.list->flavour != PS_JINJA_GENERATOR) {
            *out = value->as.list;
            return PS_OK;
        }
        PS_TRY(ps_jinja_list_create(budget, PS_JINJA_PLAIN, 0, &made));
        made.as.list->items = value->as.list->items;
        made.as.list->count = made.as.list->capacity = value->as.list->count;
        value->as.list->count = 0;
        break;
    default:
        return ps_jinja_fail(budget, PS_INVALID, "%s cannot be iterated over",
                             ps_jinja_type_name(value));
    }
    *out = made.as.list;
    return PS_OK;
}

ps_status ps_jinja_find(ps_jinja_budget *budget, ps_str haystack, ps_str needle, size_t from,
                        size_t *out_index)
{
    *out_index = SIZE_MAX;
    if (from > haystack.length || needle.length > haystack.length - from) {
        return PS_OK;
    }
    PS_TRY(ps_jinja_spend(budget, 1 + (haystack.length - from) / BYTES_PER_STEP));
    if (needle.length == 0) {
        *out_index = from;
        return PS_OK;
    }
    const char *found = memmem(haystack.data + from, haystack.length - from, needle.data,
                               needle.length);
    if (found != NULL) {
        *out_index = (size_t)(found - haystack.data);
    }
    return PS_OK;
}
