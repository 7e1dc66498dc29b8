// text/jinja_filter_list.c - filters on sequences and dicts.
#include "text/jinja_filter_internal.h"

#include <string.h>

ps_status ps_jinja_length(const ps_jinja_budget *budget, const ps_jinja_value *value, int64_t *out)
{
    switch (value->kind) {
    case PS_JINJA_UNDEFINED:
        *out = 0;
        return PS_OK;
    case PS_JINJA_STRING:
        *out = (int64_t)ps_jinja_characters(value->as.string);
        return PS_OK;
    case PS_JINJA_DICT:
        *out = (int64_t)value->as.dict->count;
        return PS_OK;
    case PS_JINJA_LOOP:
        *out = (int64_t)value->as.loop->items->count;
        return PS_OK;
    case PS_JINJA_LIST:
        if (value->as.list->flavour != PS_JINJA_GENERATOR) {
            *out = (int64_t)value->as.list->count;
            return PS_OK;
        }
        break;
    default:
        break;
    }
    return ps_jinja_fail(budget, PS_INVALID, "a %s has no length", ps_jinja_type_name(value));
}

ps_status ps_jinja_dict_items(ps_jinja_budget *budget, const ps_jinja_dict *dict,
                              ps_jinja_flavour flavour, ps_jinja_value *out)
{
    PS_TRY(ps_jinja_spend(budget, dict->count));
    PS_TRY(ps_jinja_list_create(budget, flavour, dict->count, out));
    for (size_t i = 0; i < dict->count; i++) {
        ps_jinja_value pair = {0};
        PS_TRY(ps_jinja_list_create(budget, PS_JINJA_TUPLE, 2, &pair));
        PS_TRY(ps_jinja_list_append(budget, pair.as.list, dict->entries[i].key));
        PS_TRY(ps_jinja_list_append(budget, pair.as.list, dict->entries[i].value));
        PS_TRY(ps_jinja_list_append(budget, out->as.list, pair));
    }
    return PS_OK;
}

// A list of its own with the items of `value`.
static ps_status copy_items(ps_jinja_run *run, const ps_jinja_value *value,
                            ps_jinja_flavour flavour, ps_jinja_value *out)
{
    const ps_jinja_list *items = NULL;
    PS_TRY(ps_jinja_iterate(&run->budget, value, &items));
    PS_TRY(ps_jinja_spend(&run->budget, items->count / 8));
    PS_TRY(ps_jinja_list_create(&run->budget, flavour, items->count, out));
    if (items->count > 0) {
        memcpy(out->as.list->items, items->items, items->count * sizeof items->items[0]);
    }
    out->as.list->count = items->count;
    return PS_OK;
}

// An attribute path such as "function.name" or "0", followed item by item. What is undefined on the
// way becomes `otherwise`, unless that is NULL or none.
static ps_status follow_path(ps_jinja_run *run, const ps_jinja_value *item,
                             const ps_jinja_value *path, const ps_jinja_value *otherwise,
                             ps_jinja_value *out)
{
    const bool replaces = otherwise != NULL && otherwise->kind != PS_JINJA_NONE;
    *out = *item;
    if (path->kind != PS_JINJA_STRING) {
        PS_TRY(ps_jinja_get_item(run, item, path, out));
        *out = replaces && out->kind == PS_JINJA_UNDEFINED ? *otherwise : *out;
        return PS_OK;
    }
    ps_jinja_value parts = {0};
    const ps_jinja_string dot = ps_jinja_literal(".").as.string;
    PS_TRY(ps_jinja_split(&run->budget, path->as.string, &dot, -1, false, &parts));
    for (size_t i = 0; i < parts.as.list->count; i++) {
        ps_jinja_value key = parts.as.list->items[i];
        const ps_jinja_string text = key.as.string;
        int64_t index = 0;
        bool digits = text.length > 0 && text.length < 10;
        for (size_t k = 0; digits && k < text.length; k++) {
            digits = text.data[k] >= '0' && text.data[k] <= '9';
            index = index * 10 + (text.data[k] - '0');
        }
        const ps_jinja_value subject = *out;
        key = digits ? ps_jinja_of_integer(index) : key;
        PS_TRY(ps_jinja_get_item(run, &subject, &key, out));
        *out = replaces && out->kind == PS_JINJA_UNDEFINED ? *otherwise : *out;
    }
    return PS_OK;
}

// What an item is compared by: an attribute of it, in lower case unless case_sensitive.
static ps_status sort_key(ps_jinja_run *run, const ps_jinja_value *item,
                          const ps_jinja_value *attribute, bool case_sensitive, ps_jinja_value *out)
{
    *out = *item;
    if (attribute->kind != PS_JINJA_ABSENT && attribute->kind != PS_JINJA_NONE) {
        PS_TRY(follow_path(run, item, attribute, NULL, out));
    }
    if (out->kind == PS_JINJA_STRING && !case_sensitive) {
        return ps_jinja_convert_case(&run->budget, out->as.string, PS_JINJA_LOWER, out);
    }
    return PS_OK;
}

ps_status ps_jinja_filter_first(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    const ps_jinja_list *items = NULL;
    PS_TRY(ps_jinja_iterate(&run->budget, &slots[0], &items));
    *out = items->count == 0 ? ps_jinja_undefined(ps_str_of("the first item")) : items->items[0];
    return PS_OK;
}

ps_status ps_jinja_filter_last(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    const ps_jinja_list *items = NULL;
    if (slots[0].kind == PS_JINJA_LIST && slots[0].as.list->flavour == PS_JINJA_GENERATOR) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "a generator has no last item");
    }
    PS_TRY(ps_jinja_iterate(&run->budget, &slots[0], &items));
    *out = items->count == 0 ? ps_jinja_undefined(ps_str_of("the last item"))
                             : items->items[items->count - 1];
    return PS_OK;
}

ps_status ps_jinja_filter_list(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return copy_items(run, &slots[0], PS_JINJA_PLAIN, out);
}

ps_status ps_jinja_filter_join(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_text text = {0};
    ps_jinja_string separator = {0};
    const ps_jinja_list *items = NULL;
    if (slots[1].kind != PS_JINJA_ABSENT) {
        PS_TRY(ps_jinja_to_string(&run->budget, &slots[1], &separator));
    }
    PS_TRY(ps_jinja_iterate(&run->budget, &slots[0], &items));
    for (size_t i = 0; i < items->count; i++) {
        ps_jinja_value item = {0};
        ps_jinja_string string = {0};
        PS_TRY(sort_key(run, &items->items[i], &slots[2], true, &item));
        PS_TRY(ps_jinja_to_string(&run->budget, &item, &string));
        PS_TRY(i > 0 ? ps_jinja_text_add(&run->budget, &text, separator) : PS_OK);
        PS_TRY(ps_jinja_text_add(&run->budget, &text, string));
        PS_TRY(ps_jinja_spend(&run->budget, 1));
    }
    *out = ps_jinja_text_finish(&text);
    return PS_OK;
}

typedef struct keyed {
    ps_jinja_value key;
    ps_jinja_value item;
} keyed;

// Merges the sorted a[0..middle) and a[middle..count); equal keys keep their order.
static ps_status merge(ps_jinja_run *run, keyed *a, keyed *scratch, size_t middle, size_t count,
                       bool reverse)
{
    size_t left = 0;
    size_t right = middle;
    for (size_t i = 0; i < count; i++) {
        bool take_right = left == middle;
        if (left < middle && right < count) {
            int order = 0;
            PS_TRY(ps_jinja_compare(&run->budget, &a[right].key, &a[left].key, &order));
            take_right = order == (reverse ? 1 : -1);
        }
        scratch[i] = take_right ? a[right++] : a[left++];
    }
    memcpy(a, scratch, count * sizeof *a);
    return PS_OK;
}

// Bottom up, so that no recursion needs a bound.
static ps_status sort_keyed(ps_jinja_run *run, keyed *items, size_t count, bool reverse)
{
    keyed *scratch = NULL;
    PS_JINJA_NEW(&run->budget, scratch, count);
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin + width < count; begin += 2 * width) {
            const size_t rest = count - begin;
            PS_TRY(merge(run, items + begin, scratch, width, rest < 2 * width ? rest : 2 * width,
                         reverse));
        }
    }
    return PS_OK;
}

// *out_items = the items of `value` with their keys.
static ps_status with_keys(ps_jinja_run *run, const ps_jinja_value *value,
                           const ps_jinja_value *attribute, bool case_sensitive, keyed **out_items,
                           size_t *out_count)
{
    const ps_jinja_list *items = NULL;
    PS_TRY(ps_jinja_iterate(&run->budget, value, &items));
    keyed *made = NULL;
    PS_JINJA_NEW(&run->budget, made, items->count);
    for (size_t i = 0; i < items->count; i++) {
        made[i].item = items->items[i];
        PS_TRY(sort_key(run, &items->items[i], attribute, case_sensitive, &made[i].key));
        PS_TRY(ps_jinja_spend(&run->budget, 1));
    }
    *out_items = made;
    *out_count = items->count;
    return PS_OK;
}

static ps_status list_of_items(ps_jinja_run *run, const keyed *items, size_t count,
                               ps_jinja_flavour flavour, ps_jinja_value *out)
{
    PS_TRY(ps_jinja_list_create(&run->budget, flavour, count, out));
    for (size_t i = 0; i < count; i++) {
        PS_TRY(ps_jinja_list_append(&run->budget, out->as.list, items[i].item));
    }
    return PS_OK;
}

ps_status ps_jinja_filter_sort(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    keyed *items = NULL;
    size_t count = 0;
    if (slots[3].kind == PS_JINJA_STRING && slots[3].as.string.length > 0 &&
        memchr(slots[3].as.string.data, ',', slots[3].as.string.length) != NULL) {
        return ps_jinja_fail(&run->budget, PS_UNSUPPORTED,
                             "sorting by several attributes is not supported");
    }
    PS_TRY(with_keys(run, &slots[0], &slots[3], ps_jinja_truth(&slots[2]), &items, &count));
    PS_TRY(sort_keyed(run, items, count, ps_jinja_truth(&slots[1])));
    return list_of_items(run, items, count, PS_JINJA_PLAIN, out);
}

ps_status ps_jinja_filter_unique(ps_jinja_run *run, const ps_jinja_value *slots,
                                 ps_jinja_value *out)
{
    keyed *items = NULL;
    size_t count = 0;
    size_t kept = 0;
    PS_TRY(with_keys(run, &slots[0], &slots[2], ps_jinja_truth(&slots[1]), &items, &count));
    for (size_t i = 0; i < count; i++) {
        bool seen = false;
        PS_TRY(ps_jinja_check_key(&run->budget, &items[i].key));
        for (size_t k = 0; !seen && k < kept; k++) {
            PS_TRY(ps_jinja_equal(&run->budget, &items[k].key, &items[i].key, &seen));
        }
        if (!seen) {
            items[kept++] = items[i];
        }
    }
    return list_of_items(run, items, kept, PS_JINJA_GENERATOR, out);
}

ps_status ps_jinja_filter_reverse(ps_jinja_run *run, const ps_jinja_value *slots,
                                  ps_jinja_value *out)
{
    if (slots[0].kind == PS_JINJA_STRING) {
        const ps_jinja_value bounds[3] = {{0}, {0}, ps_jinja_of_integer(-1)};
        return ps_jinja_slice(&run->budget, &slots[0], bounds, out);
    }
    PS_TRY(copy_items(run, &slots[0], PS_JINJA_GENERATOR, out));
    ps_jinja_list *list = out->as.list;
    for (size_t i = 0; i < list->count / 2; i++) {
        const ps_jinja_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
    return PS_OK;
}

ps_status ps_jinja_filter_sum(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    keyed *items = NULL;
    size_t count = 0;
    *out = slots[2].kind == PS_JINJA_ABSENT ? ps_jinja_of_integer(0) : slots[2];
    PS_TRY(with_keys(run, &slots[0], &slots[1], true, &items, &count));
    for (size_t i = 0; i < count; i++) {
        const ps_jinja_value so_far = *out;
        PS_TRY(ps_jinja_apply_binary(&run->budget, PS_JINJA_ADD, &so_far, &items[i].key, out));
    }
    return PS_OK;
}

// The first item whose key is smaller (wanted -1) or greater (wanted 1) than all before it.
static ps_status extreme(ps_jinja_run *run, const ps_jinja_value *slots, int wanted,
                         ps_jinja_value *out)
{
    keyed *items = NULL;
    size_t count = 0;
    size_t best = 0;
    PS_TRY(with_keys(run, &slots[0], &slots[2], ps_jinja_truth(&slots[1]), &items, &count));
    for (size_t i = 1; i < count; i++) {
        int order = 0;
        PS_TRY(ps_jinja_compare(&run->budget, &items[i].key, &items[best].key, &order));
        best = order == wanted ? i : best;
    }
    *out = count == 0 ? ps_jinja_undefined(ps_str_of("the extreme of no items")) : items[best].item;
    return PS_OK;
}

ps_status ps_jinja_filter_min(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return extreme(run, slots, -1, out);
}

ps_status ps_jinja_filter_max(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return extreme(run, slots, 1, out);
}

ps_status ps_jinja_filter_items(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    if (slots[0].kind == PS_JINJA_UNDEFINED) {
        return ps_jinja_list_create(&run->budget, PS_JINJA_GENERATOR, 0, out);
    }
    if (slots[0].kind != PS_JINJA_DICT) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "filter 'items' takes a dict, not a %s",
                             ps_jinja_type_name(&slots[0]));
    }
    return ps_jinja_dict_items(&run->budget, slots[0].as.dict, PS_JINJA_GENERATOR, out);
}

ps_status ps_jinja_filter_dictsort(ps_jinja_run *run, const ps_jinja_value *slots,
                                   ps_jinja_value *out)
{
    keyed *items = NULL;
    size_t count = 0;
    ps_jinja_string by = ps_jinja_literal("key").as.string;
    if (slots[0].kind != PS_JINJA_DICT) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "filter 'dictsort' takes a dict, not a %s",
                             ps_jinja_type_name(&slots[0]));
    }
    if (slots[2].kind != PS_JINJA_ABSENT) {
        PS_TRY(ps_jinja_want_string(&run->budget, &slots[2], &by));
    }
    const bool by_value = ps_str_equal(ps_jinja_bytes(by), "value");
    if (!by_value && !ps_str_equal(ps_jinja_bytes(by), "key")) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "filter 'dictsort' sorts by key or value");
    }
    ps_jinja_value pairs = {0};
    const ps_jinja_value position = ps_jinja_of_integer(by_value);
    PS_TRY(ps_jinja_dict_items(&run->budget, slots[0].as.dict, PS_JINJA_PLAIN, &pairs));
    PS_TRY(with_keys(run, &pairs, &position, ps_jinja_truth(&slots[1]), &items, &count));
    PS_TRY(sort_keyed(run, items, count, ps_jinja_truth(&slots[3])));
    return list_of_items(run, items, count, PS_JINJA_PLAIN, out);
}

// The named argument, or NULL.
static const ps_jinja_value *named(const ps_jinja_arguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->named_count; i++) {
        if (ps_str_equal(arguments->names[i], name)) {
            return &arguments->named[i];
        }
    }
    return NULL;
}

// Jinja's map and select take everything that is false for empty, even 0.
static ps_status iterate_if_true(ps_jinja_run *run, const ps_jinja_value *value,
                                 const ps_jinja_list **out)
{
    const ps_jinja_value empty = ps_jinja_undefined(ps_str_of("nothing"));
    return ps_jinja_iterate(&run->budget, ps_jinja_truth(value) ? value : &empty, out);
}

// The builtin that values[0] names, and the arguments behind it.
static ps_status named_builtin(ps_jinja_run *run, const ps_jinja_arguments *arguments,
                               const char *what, const ps_jinja_builtin *(*find)(ps_str),
                               const ps_jinja_builtin **out, ps_jinja_arguments *out_rest)
{
    ps_jinja_string name = {0};
    if (arguments->count == 0) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "the name of a %s is missing", what);
    }
    PS_TRY(ps_jinja_want_string(&run->budget, &arguments->values[0], &name));
    *out = find(ps_jinja_bytes(name));
    if (*out == NULL) {
        return ps_jinja_fail(&run->budget, PS_UNSUPPORTED, "%s '%.*s' is not supported", what,
                             name.length > 60 ? 60 : (int)name.length, name.data);
    }
    *out_rest = *arguments;
    out_rest->values++;
    out_rest->count--;
    return PS_OK;
}

ps_status ps_jinja_filter_map(ps_jinja_run *run, const ps_jinja_value *subject,
                              const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    const bool by_attribute = arguments->count == 0 && named(arguments, "attribute") != NULL;
    const ps_jinja_builtin *filter = NULL;
    ps_jinja_arguments rest = {0};
    const ps_jinja_list *items = NULL;
    if (!by_attribute) {
        PS_TRY(named_builtin(run, arguments, "filter", ps_jinja_find_filter, &filter, &rest));
    }
    PS_TRY(ps_jinja_enter(&run->budget)); // map('map', 'map', ...) nests
    PS_TRY(iterate_if_true(run, subject, &items));
    PS_TRY(ps_jinja_list_create(&run->budget, PS_JINJA_GENERATOR, items->count, out));
    for (size_t i = 0; i < items->count; i++) {
        ps_jinja_value item = {0};
        PS_TRY(ps_jinja_spend(&run->budget, 1));
        PS_TRY(by_attribute ? follow_path(run, &items->items[i], named(arguments, "attribute"),
                                          named(arguments, "default"), &item)
                            : ps_jinja_call_builtin(run, filter, &items->items[i], &rest, &item));
        PS_TRY(ps_jinja_list_append(&run->budget, out->as.list, item));
    }
    ps_jinja_leave(&run->budget);
    return PS_OK;
}

// Keeps the items whose test (or truth value, without a test) is `wanted`. path: the attribute
// that is tested, or NULL for the item itself.
static ps_status keep_items(ps_jinja_run *run, const ps_jinja_value *subject,
                            const ps_jinja_value *path, const ps_jinja_arguments *arguments,
                            bool wanted, ps_jinja_value *out)
{
    const ps_jinja_builtin *test = NULL;
    ps_jinja_arguments rest = {0};
    const ps_jinja_list *items = NULL;
    if (arguments->count > 0) {
        PS_TRY(named_builtin(run, arguments, "test", ps_jinja_find_test, &test, &rest));
    }
    PS_TRY(iterate_if_true(run, subject, &items));
    PS_TRY(ps_jinja_list_create(&run->budget, PS_JINJA_GENERATOR, items->count, out));
    for (size_t i = 0; i < items->count; i++) {
        ps_jinja_value tested = items->items[i];
        PS_TRY(ps_jinja_spend(&run->budget, 1));
        if (path != NULL) {
            PS_TRY(follow_path(run, &items->items[i], path, NULL, &tested));
        }
        if (test != NULL) {
            const ps_jinja_value value = tested;
            PS_TRY(ps_jinja_call_builtin(run, test, &value, &rest, &tested));
        }
        if (ps_jinja_truth(&tested) == wanted) {
            PS_TRY(ps_jinja_list_append(&run->budget, out->as.list, items->items[i]));
        }
    }
    return PS_OK;
}

static ps_status keep_by_attribute(ps_jinja_run *run, const ps_jinja_value *subject,
                                   const ps_jinja_arguments *arguments, bool wanted,
                                   ps_jinja_value *out)
{
    if (arguments->count == 0) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "the name of an attribute is missing");
    }
    ps_jinja_arguments rest = *arguments;
    rest.values++;
    rest.count--;
    return keep_items(run, subject, &arguments->values[0], &rest, wanted, out);
}

ps_status ps_jinja_filter_select(ps_jinja_run *run, const ps_jinja_value *subject,
                                 const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    return keep_items(run, subject, NULL, arguments, true, out);
}

ps_status ps_jinja_filter_reject(ps_jinja_run *run, const ps_jinja_value *subject,
                                 const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    return keep_items(run, subject, NULL, arguments, false, out);
}

ps_status ps_jinja_filter_selectattr(ps_jinja_run *run, const ps_jinja_value *subject,
                                     const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    return keep_by_attribute(run, subject, arguments, true, out);
}

ps_status ps_jinja_filter_rejectattr(ps_jinja_run *run, const ps_jinja_value *subject,
                                     const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    return keep_by_attribute(run, subject, arguments, false, out);
}
