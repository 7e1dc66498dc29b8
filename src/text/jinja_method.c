// text/jinja_method.c - the methods of Python's str, list and dict that templates use, and those of
// the loop variable.
#include "text/jinja_filter_internal.h"
#include "text/jinja_unicode.h"

#include <string.h>

static ps_status strip(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_side side,
                       ps_jinja_value *out)
{
    ps_jinja_string chars = {0};
    ps_jinja_string result = {0};
    const bool given = slots[1].kind != PS_JINJA_ABSENT && slots[1].kind != PS_JINJA_NONE;
    if (given) {
        PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &chars));
    }
    PS_TRY(ps_jinja_strip(&run->budget, slots[0].as.string, given ? &chars : NULL, side, &result));
    *out = ps_jinja_of_string(result);
    return PS_OK;
}

static ps_status str_strip(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return strip(run, slots, PS_JINJA_BOTH, out);
}

static ps_status str_lstrip(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return strip(run, slots, PS_JINJA_LEFT, out);
}

static ps_status str_rstrip(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return strip(run, slots, PS_JINJA_RIGHT, out);
}

static ps_status split(ps_jinja_run *run, const ps_jinja_value *slots, bool from_right,
                       ps_jinja_value *out)
{
    ps_jinja_string separator = {0};
    int64_t limit = 0;
    const bool given = slots[1].kind != PS_JINJA_ABSENT && slots[1].kind != PS_JINJA_NONE;
    if (given) {
        PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &separator));
    }
    PS_TRY(ps_jinja_want_integer(&run->budget, &slots[2], -1, &limit));
    return ps_jinja_split(&run->budget, slots[0].as.string, given ? &separator : NULL, limit,
                          from_right, out);
}

static ps_status str_split(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return split(run, slots, false, out);
}

static ps_status str_rsplit(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return split(run, slots, true, out);
}

static ps_status str_splitlines(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return ps_jinja_split_lines(&run->budget, slots[0].as.string, ps_jinja_truth(&slots[1]), out);
}

static ps_status str_upper(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return ps_jinja_convert_case(&run->budget, slots[0].as.string, PS_JINJA_UPPER, out);
}

static ps_status str_lower(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return ps_jinja_convert_case(&run->budget, slots[0].as.string, PS_JINJA_LOWER, out);
}

static ps_status str_title(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return ps_jinja_convert_case(&run->budget, slots[0].as.string, PS_JINJA_TITLE_METHOD, out);
}

static ps_status str_capitalize(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return ps_jinja_convert_case(&run->budget, slots[0].as.string, PS_JINJA_CAPITALIZE, out);
}

static ps_status str_replace(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_string from = {0};
    ps_jinja_string to = {0};
    int64_t limit = 0;
    PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &from));
    PS_TRY(ps_jinja_want_string(&run->budget, &slots[2], &to));
    PS_TRY(ps_jinja_want_integer(&run->budget, &slots[3], -1, &limit));
    return ps_jinja_replace(&run->budget, slots[0].as.string, from, to, limit, out);
}

static bool has_affix(ps_jinja_string string, ps_jinja_string affix, bool at_end)
{
    if (affix.length == 0 || affix.length > string.length) {
        return affix.length == 0;
    }
    const size_t begin = at_end ? string.length - affix.length : 0;
    return memcmp(string.data + begin, affix.data, affix.length) == 0;
}

// With one affix or a tuple of them.
static ps_status test_affix(ps_jinja_run *run, const ps_jinja_value *slots, bool at_end,
                            ps_jinja_value *out)
{
    ps_jinja_string affix = {0};
    const bool several = slots[1].kind == PS_JINJA_LIST &&
                         slots[1].as.list->flavour == PS_JINJA_TUPLE;
    const ps_jinja_value *affixes = several ? slots[1].as.list->items : &slots[1];
    const size_t count = several ? slots[1].as.list->count : 1;
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        PS_TRY(ps_jinja_want_string(&run->budget, &affixes[i], &affix));
        PS_TRY(ps_jinja_spend(&run->budget, 1 + affix.length / 64));
        found = has_affix(slots[0].as.string, affix, at_end);
    }
    *out = ps_jinja_of_boolean(found);
    return PS_OK;
}

static ps_status str_startswith(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return test_affix(run, slots, false, out);
}

static ps_status str_endswith(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return test_affix(run, slots, true, out);
}

static ps_status remove_affix(ps_jinja_run *run, const ps_jinja_value *slots, bool at_end,
                              ps_jinja_value *out)
{
    ps_jinja_string affix = {0};
    const ps_jinja_string string = slots[0].as.string;
    PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &affix));
    *out = slots[0];
    if (has_affix(string, affix, at_end)) {
        const size_t begin = at_end ? 0 : affix.length;
        const size_t end = at_end ? string.length - affix.length : string.length;
        *out = ps_jinja_of_string(ps_jinja_cut(string, begin, end));
    }
    return PS_OK;
}

static ps_status str_removeprefix(ps_jinja_run *run, const ps_jinja_value *slots,
                                  ps_jinja_value *out)
{
    return remove_affix(run, slots, false, out);
}

static ps_status str_removesuffix(ps_jinja_run *run, const ps_jinja_value *slots,
                                  ps_jinja_value *out)
{
    return remove_affix(run, slots, true, out);
}

// The byte where `needle` stands last, or SIZE_MAX.
static ps_status find_last(ps_jinja_budget *budget, ps_str haystack, ps_str needle,
                           size_t *out_index)
{
    size_t found = 0;
    *out_index = SIZE_MAX;
    PS_TRY(ps_jinja_spend(budget, haystack.length / 8));
    if (needle.length == 0) {
        *out_index = haystack.length;
        return PS_OK;
    }
    for (size_t at = 0;; at = found + 1) {
        PS_TRY(ps_jinja_find(budget, haystack, needle, at, &found));
        if (found == SIZE_MAX) {
            return PS_OK;
        }
        *out_index = found;
    }
}

// The index in characters, -1 for none.
static ps_status find(ps_jinja_run *run, const ps_jinja_value *slots, bool last, int64_t *out)
{
    const ps_jinja_string string = slots[0].as.string;
    ps_jinja_string needle = {0};
    int64_t start = 0;
    size_t found = 0;
    PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &needle));
    PS_TRY(ps_jinja_want_integer(&run->budget, &slots[2], 0, &start));
    PS_TRY(ps_jinja_spend(&run->budget, string.length / 16));
    if (start != 0 && last) {
        return ps_jinja_fail(&run->budget, PS_UNSUPPORTED, "'rfind' from a start is not supported");
    }
    const int64_t count = (int64_t)ps_jinja_characters(string);
    start = start < 0 ? (start + count < 0 ? 0 : start + count) : start;
    *out = -1;
    if (start > count) {
        return PS_OK;
    }
    const size_t from = ps_jinja_byte_index(string, (size_t)start);
    if (last) {
        PS_TRY(find_last(&run->budget, ps_jinja_bytes(string), ps_jinja_bytes(needle), &found));
    } else {
        PS_TRY(ps_jinja_find(&run->budget, ps_jinja_bytes(string), ps_jinja_bytes(needle), from,
                             &found));
    }
    *out = found == SIZE_MAX ? -1 : (int64_t)ps_jinja_characters(ps_jinja_cut(string, 0, found));
    return PS_OK;
}

static ps_status str_find(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int64_t index = 0;
    PS_TRY(find(run, slots, false, &index));
    *out = ps_jinja_of_integer(index);
    return PS_OK;
}

static ps_status str_rfind(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int64_t index = 0;
    PS_TRY(find(run, slots, true, &index));
    *out = ps_jinja_of_integer(index);
    return PS_OK;
}

static ps_status str_index(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    PS_TRY(str_find(run, slots, out));
    return out->as.integer >= 0
               ? PS_OK
               : ps_jinja_fail(&run->budget, PS_INVALID, "'index' did not find the text");
}

static ps_status str_count(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    const ps_jinja_string string = slots[0].as.string;
    ps_jinja_string needle = {0};
    int64_t count = 0;
    PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &needle));
    if (needle.length == 0) {
        *out = ps_jinja_of_integer((int64_t)ps_jinja_characters(string) + 1);
        return ps_jinja_spend(&run->budget, string.length / 64);
    }
    size_t found = 0;
    for (size_t at = 0;; at = found + needle.length) {
        PS_TRY(ps_jinja_find(&run->budget, ps_jinja_bytes(string), ps_jinja_bytes(needle), at,
                             &found));
        if (found == SIZE_MAX) {
            break;
        }
        count++;
    }
    *out = ps_jinja_of_integer(count);
    return PS_OK;
}

static ps_status str_join(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    const ps_jinja_list *items = NULL;
    ps_jinja_text text = {0};
    PS_TRY(ps_jinja_want_defined(&run->budget, &slots[1]));
    PS_TRY(ps_jinja_iterate(&run->budget, &slots[1], &items));
    for (size_t i = 0; i < items->count; i++) {
        ps_jinja_string item = {0};
        PS_TRY(ps_jinja_spend(&run->budget, 1));
        PS_TRY(ps_jinja_want_string(&run->budget, &items->items[i], &item));
        PS_TRY(i > 0 ? ps_jinja_text_add(&run->budget, &text, slots[0].as.string) : PS_OK);
        PS_TRY(ps_jinja_text_add(&run->budget, &text, item));
    }
    *out = ps_jinja_text_finish(&text);
    return PS_OK;
}

// Whether every character is in the class, and there is one.
static ps_status all_are(ps_jinja_run *run, ps_jinja_string string, bool (*in_class)(uint32_t),
                         ps_jinja_value *out)
{
    bool all = string.length > 0;
    PS_TRY(ps_jinja_spend(&run->budget, string.length / 16));
    for (size_t at = 0; at < string.length && all;) {
        size_t bytes = 0;
        all = in_class(ps_jinja_decode(string.data + at, string.length - at, &bytes));
        at += bytes;
    }
    *out = ps_jinja_of_boolean(all);
    return PS_OK;
}

static bool is_digit(uint32_t code)
{
    return code >= '0' && code <= '9';
}

static ps_status str_isdigit(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return all_are(run, slots[0].as.string, is_digit, out);
}

static ps_status str_isspace(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return all_are(run, slots[0].as.string, ps_jinja_is_space, out);
}

static ps_status case_test(ps_jinja_run *run, const ps_jinja_value *slots, const char *name,
                           ps_jinja_value *out)
{
    const ps_jinja_arguments none = {0};
    return ps_jinja_call_builtin(run, ps_jinja_find_test(ps_str_of(name)), &slots[0], &none, out);
}

static ps_status str_islower(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return case_test(run, slots, "lower", out);
}

static ps_status str_isupper(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return case_test(run, slots, "upper", out);
}

static ps_status dict_get(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_value *found = NULL;
    PS_TRY(ps_jinja_dict_find(&run->budget, slots[0].as.dict, &slots[1], &found));
    if (found != NULL) {
        *out = *found;
    } else {
        *out = slots[2].kind == PS_JINJA_ABSENT ? ps_jinja_none() : slots[2];
    }
    return PS_OK;
}

static ps_status dict_items(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return ps_jinja_dict_items(&run->budget, slots[0].as.dict, PS_JINJA_VIEW, out);
}

static ps_status dict_column(ps_jinja_run *run, const ps_jinja_dict *dict, bool keys,
                             ps_jinja_value *out)
{
    PS_TRY(ps_jinja_spend(&run->budget, dict->count / 8));
    PS_TRY(ps_jinja_list_create(&run->budget, PS_JINJA_VIEW, dict->count, out));
    for (size_t i = 0; i < dict->count; i++) {
        PS_TRY(ps_jinja_list_append(&run->budget, out->as.list,
                                    keys ? dict->entries[i].key : dict->entries[i].value));
    }
    return PS_OK;
}

static ps_status dict_keys(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return dict_column(run, slots[0].as.dict, true, out);
}

static ps_status dict_values(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return dict_column(run, slots[0].as.dict, false, out);
}

static ps_status count_equal(ps_jinja_run *run, const ps_jinja_value *slots, int64_t *out_count,
                             int64_t *out_first)
{
    const ps_jinja_list *list = slots[0].as.list;
    *out_count = 0;
    *out_first = -1;
    for (size_t i = 0; i < list->count; i++) {
        bool equal = false;
        PS_TRY(ps_jinja_equal(&run->budget, &list->items[i], &slots[1], &equal));
        *out_first = equal && *out_count == 0 ? (int64_t)i : *out_first;
        *out_count += equal;
    }
    return PS_OK;
}

static ps_status list_count(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int64_t count = 0;
    int64_t first = 0;
    PS_TRY(count_equal(run, slots, &count, &first));
    *out = ps_jinja_of_integer(count);
    return PS_OK;
}

static ps_status list_index(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int64_t count = 0;
    int64_t first = 0;
    PS_TRY(count_equal(run, slots, &count, &first));
    *out = ps_jinja_of_integer(first);
    return count > 0 ? PS_OK
                     : ps_jinja_fail(&run->budget, PS_INVALID, "'index' did not find the item");
}

static ps_status loop_cycle(ps_jinja_run *run, const ps_jinja_value *subject,
                            const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    if (arguments->count == 0 || arguments->named_count > 0) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "'loop.cycle' needs values to take");
    }
    *out = arguments->values[subject->as.loop->index % arguments->count];
    return PS_OK;
}

static ps_status loop_changed(ps_jinja_run *run, const ps_jinja_value *subject,
                              const ps_jinja_arguments *arguments, ps_jinja_value *out)
{
    ps_jinja_value values = {0};
    bool same = false;
    PS_TRY(ps_jinja_list_create(&run->budget, PS_JINJA_TUPLE, arguments->count, &values));
    for (size_t i = 0; i < arguments->count; i++) {
        PS_TRY(ps_jinja_list_append(&run->budget, values.as.list, arguments->values[i]));
    }
    PS_TRY(ps_jinja_equal(&run->budget, &values, &subject->as.loop->changed, &same));
    subject->as.loop->changed = values;
    *out = ps_jinja_of_boolean(!same);
    return PS_OK;
}

static const ps_jinja_builtin str_methods[] = {
    {"capitalize", "", str_capitalize, NULL},
    {"count", "sub", str_count, NULL},
    {"endswith", "suffix", str_endswith, NULL},
    {"find", "sub start?", str_find, NULL},
    {"index", "sub start?", str_index, NULL},
    {"isdigit", "", str_isdigit, NULL},
    {"islower", "", str_islower, NULL},
    {"isspace", "", str_isspace, NULL},
    {"isupper", "", str_isupper, NULL},
    {"join", "iterable", str_join, NULL},
    {"lower", "", str_lower, NULL},
    {"lstrip", "chars?", str_lstrip, NULL},
    {"removeprefix", "prefix", str_removeprefix, NULL},
    {"removesuffix", "suffix", str_removesuffix, NULL},
    {"replace", "old new count?", str_replace, NULL},
    {"rfind", "sub start?", str_rfind, NULL},
    {"rsplit", "sep? maxsplit?", str_rsplit, NULL},
    {"rstrip", "chars?", str_rstrip, NULL},
    {"split", "sep? maxsplit?", str_split, NULL},
    {"splitlines", "keepends?", str_splitlines, NULL},
    {"startswith", "prefix", str_startswith, NULL},
    {"strip", "chars?", str_strip, NULL},
    {"title", "", str_title, NULL},
    {"upper", "", str_upper, NULL},
    {NULL, NULL, NULL, NULL},
};

static const ps_jinja_builtin dict_methods[] = {
    {"get", "key default?", dict_get, NULL},
    {"items", "", dict_items, NULL},
    {"keys", "", dict_keys, NULL},
    {"values", "", dict_values, NULL},
    {NULL, NULL, NULL, NULL},
};

static const ps_jinja_builtin list_methods[] = {
    {"count", "value", list_count, NULL},
    {"index", "value", list_index, NULL},
    {NULL, NULL, NULL, NULL},
};

static const ps_jinja_builtin loop_methods[] = {
    {"changed", NULL, NULL, loop_changed},
    {"cycle", NULL, NULL, loop_cycle},
    {NULL, NULL, NULL, NULL},
};

// What Python has besides: refused by name. Changing a list or dict is refused by Hugging Face's
// environment too.
static const char *const missing_str[] = {
    "casefold",    "center",     "encode",   "expandtabs", "format",       "format_map",
    "isalnum",     "isalpha",    "isascii",  "isdecimal",  "isidentifier", "isnumeric",
    "isprintable", "istitle",    "ljust",    "maketrans",  "partition",    "rindex",
    "rjust",       "rpartition", "swapcase", "translate",  "zfill",        NULL};
static const char *const missing_dict[] = {"clear",   "copy",       "fromkeys", "pop",
                                           "popitem", "setdefault", "update",   NULL};
static const char *const missing_list[] = {"append", "clear",  "copy",    "extend", "insert",
                                           "pop",    "remove", "reverse", "sort",   NULL};

typedef struct method_set {
    const char *type;
    const ps_jinja_builtin *methods;
    const char *const *missing;
} method_set;

static method_set methods_of(const ps_jinja_value *subject)
{
    static const char *const none[] = {NULL};
    switch (subject->kind) {
    case PS_JINJA_STRING:
        return (method_set){"str", str_methods, missing_str};
    case PS_JINJA_DICT:
        return (method_set){"dict", dict_methods, missing_dict};
    case PS_JINJA_LIST:
        return subject->as.list->flavour <= PS_JINJA_RANGE
                   ? (method_set){"list", list_methods, missing_list}
                   : (method_set){"list", NULL, none};
    case PS_JINJA_LOOP:
        return (method_set){"loop", loop_methods, none};
    default:
        return (method_set){"", NULL, none};
    }
}

ps_status ps_jinja_find_method(const ps_jinja_budget *budget, const ps_jinja_value *subject,
                               ps_str name, const ps_jinja_builtin **out)
{
    const method_set set = methods_of(subject);
    *out = NULL;
    for (const ps_jinja_builtin *m = set.methods; m != NULL && m->name != NULL; m++) {
        if (ps_str_equal(name, m->name)) {
            *out = m;
            return PS_OK;
        }
    }
    for (size_t i = 0; set.missing[i] != NULL; i++) {
        if (ps_str_equal(name, set.missing[i])) {
            return ps_jinja_fail(budget, PS_UNSUPPORTED, "method '%s.%s' is not supported",
                                 set.type, set.missing[i]);
        }
    }
    return PS_OK;
}
