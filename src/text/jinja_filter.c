// text/jinja_filter.c - the table of filters, and those on strings and numbers.
#include "text/jinja_filter_internal.h"
#include "text/jinja_json.h"
#include "text/jinja_unicode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// str(slots[0])
static ps_status subject_text(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_string *out)
{
    return ps_jinja_to_string(&run->budget, &slots[0], out);
}

static ps_status filter_trim(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_string text = {0};
    ps_jinja_string chars = {0};
    const bool given = slots[1].kind != PS_JINJA_ABSENT && slots[1].kind != PS_JINJA_NONE;
    PS_TRY(subject_text(run, slots, &text));
    if (given) {
        PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &chars));
    }
    PS_TRY(ps_jinja_strip(&run->budget, text, given ? &chars : NULL, PS_JINJA_BOTH, &text));
    *out = ps_jinja_of_string(text);
    return PS_OK;
}

static ps_status convert(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_case how,
                         ps_jinja_value *out)
{
    ps_jinja_string text = {0};
    PS_TRY(subject_text(run, slots, &text));
    return ps_jinja_convert_case(&run->budget, text, how, out);
}

static ps_status filter_upper(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return convert(run, slots, PS_JINJA_UPPER, out);
}

static ps_status filter_lower(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return convert(run, slots, PS_JINJA_LOWER, out);
}

static ps_status filter_title(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    return convert(run, slots, PS_JINJA_TITLE_FILTER, out);
}

static ps_status filter_capitalize(ps_jinja_run *run, const ps_jinja_value *slots,
                                   ps_jinja_value *out)
{
    return convert(run, slots, PS_JINJA_CAPITALIZE, out);
}

static ps_status filter_replace(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_string text = {0};
    ps_jinja_string from = {0};
    ps_jinja_string to = {0};
    int64_t limit = 0;
    PS_TRY(subject_text(run, slots, &text));
    PS_TRY(ps_jinja_to_string(&run->budget, &slots[1], &from));
    PS_TRY(ps_jinja_to_string(&run->budget, &slots[2], &to));
    PS_TRY(ps_jinja_want_integer(&run->budget, &slots[3], -1, &limit));
    return ps_jinja_replace(&run->budget, text, from, to, limit, out);
}

static ps_status filter_string(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_string text = {0};
    PS_TRY(subject_text(run, slots, &text));
    *out = ps_jinja_of_string(text);
    return PS_OK;
}

static ps_status filter_escape(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    static const char *const pairs[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
    PS_TRY(filter_string(run, slots, out));
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        PS_TRY(ps_jinja_replace(&run->budget, out->as.string,
                                ps_jinja_literal(pairs[i][0]).as.string,
                                ps_jinja_literal(pairs[i][1]).as.string, -1, out));
    }
    return PS_OK;
}

static ps_status indentation(ps_jinja_run *run, const ps_jinja_value *width, ps_jinja_string *out)
{
    ps_jinja_value made = *width;
    int64_t spaces = 0;
    if (width->kind != PS_JINJA_STRING) {
        PS_TRY(ps_jinja_want_integer(&run->budget, width, 4, &spaces));
        PS_TRY(ps_jinja_repeat(&run->budget, ps_jinja_literal(" ").as.string, spaces, &made));
    }
    *out = made.as.string;
    return PS_OK;
}

static ps_status filter_indent(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_budget *budget = &run->budget;
    const bool blank = ps_jinja_truth(&slots[3]);
    ps_jinja_string text = {0};
    ps_jinja_string margin = {0};
    ps_jinja_value with_end = {0};
    ps_jinja_value lines = {0};
    ps_jinja_text result = {0};
    PS_TRY(ps_jinja_want_string(budget, &slots[0], &text));
    PS_TRY(indentation(run, &slots[1], &margin));
    // A newline more makes an empty last line one that splitting keeps.
    PS_TRY(ps_jinja_concat(budget, text, ps_jinja_literal("\n").as.string, &with_end));
    PS_TRY(ps_jinja_split_lines(budget, with_end.as.string, false, &lines));
    for (size_t i = 0; i < lines.as.list->count; i++) {
        const ps_jinja_string line = lines.as.list->items[i].as.string;
        const bool indented = i == 0 ? ps_jinja_truth(&slots[2]) : blank || line.length > 0;
        PS_TRY(ps_jinja_text_add_bytes(budget, &result, "\n", i > 0, true));
        PS_TRY(indented ? ps_jinja_text_add(budget, &result, margin) : PS_OK);
        PS_TRY(ps_jinja_text_add(budget, &result, line));
    }
    *out = ps_jinja_text_finish(&result);
    return PS_OK;
}

static ps_status filter_length(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int64_t length = 0;
    PS_TRY(ps_jinja_length(&run->budget, &slots[0], &length));
    *out = ps_jinja_of_integer(length);
    return PS_OK;
}

static ps_status filter_default(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    const bool replaced = slots[0].kind == PS_JINJA_UNDEFINED ||
                          (ps_jinja_truth(&slots[2]) && !ps_jinja_truth(&slots[0]));
    *out = slots[0];
    if (replaced) {
        *out = slots[1].kind == PS_JINJA_ABSENT ? ps_jinja_literal("") : slots[1];
    }
    return PS_OK;
}

static ps_status filter_attr(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_string name = {0};
    PS_TRY(ps_jinja_want_string(&run->budget, &slots[1], &name));
    if (slots[0].kind == PS_JINJA_DICT) { // no items here, attributes only
        const ps_jinja_builtin *method = NULL;
        PS_TRY(ps_jinja_find_method(&run->budget, &slots[0], ps_jinja_bytes(name), &method));
        if (method == NULL) {
            *out = ps_jinja_undefined(ps_jinja_bytes(name));
            return PS_OK;
        }
    }
    return ps_jinja_get_attribute(run, &slots[0], ps_jinja_bytes(name), out);
}

// A copy without white space around it and without the underscores that Python lets stand between
// digits; false when it is longer than any number.
static bool number_text(ps_jinja_string string, char out[128])
{
    const size_t begin = ps_jinja_space_prefix(ps_jinja_bytes(string));
    string = ps_jinja_cut(string, begin, string.length);
    string = ps_jinja_cut(string, 0, string.length - ps_jinja_space_suffix(ps_jinja_bytes(string)));
    size_t length = 0;
    for (size_t i = 0; i < string.length; i++) {
        const char c = string.data[i];
        const bool between = i > 0 && i + 1 < string.length && string.data[i - 1] >= '0' &&
                             string.data[i - 1] <= '9';
        if (c == '_' && between) {
            continue;
        }
        if (length == 127 || c == '\0' || c == '_' || c == '(' || c == ' ') {
            return false;
        }
        out[length++] = c;
    }
    out[length] = '\0';
    return length > 0;
}

// False when the text is no number of that kind, or out of range.
static bool parse_integer(const char *text, int base, int64_t *out)
{
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    char *end = NULL;
    if (digits[0] == '-' || digits[0] == '+' || digits[0] == '\0') {
        return false;
    }
    errno = 0;
    *out = strtoll(text, &end, base);
    return errno == 0 && *end == '\0';
}

static bool parse_real(const char *text, double *out)
{
    char *end = NULL;
    if (strpbrk(text, "xX") != NULL || (text[0] >= 9 && text[0] <= 13)) {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0' && end != text;
}

static bool real_of(const ps_jinja_value *value, double *out)
{
    char text[128];
    switch (value->kind) {
    case PS_JINJA_BOOLEAN:
        *out = value->as.boolean;
        return true;
    case PS_JINJA_INTEGER:
        *out = (double)value->as.integer;
        return true;
    case PS_JINJA_REAL:
        *out = value->as.real;
        return true;
    case PS_JINJA_STRING:
        return number_text(value->as.string, text) && parse_real(text, out);
    default:
        return false;
    }
}

static ps_status filter_int(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    char text[128];
    int64_t base = 0;
    int64_t integer = 0;
    double real = 0.0;
    PS_TRY(ps_jinja_want_defined(&run->budget, &slots[0]));
    PS_TRY(ps_jinja_want_integer(&run->budget, &slots[2], 10, &base));
    if (base != 2 && base != 8 && base != 10 && base != 16) {
        return ps_jinja_fail(&run->budget, PS_UNSUPPORTED,
                             "filter 'int' supports the bases 2, 8, 10 and 16 only");
    }
    if (slots[0].kind == PS_JINJA_INTEGER) {
        *out = slots[0];
    } else if (slots[0].kind == PS_JINJA_STRING && number_text(slots[0].as.string, text) &&
               parse_integer(text, (int)base, &integer)) {
        *out = ps_jinja_of_integer(integer);
    } else if (real_of(&slots[0], &real) && fabs(real) < 0x1p63) {
        *out = ps_jinja_of_integer((int64_t)real);
    } else if (slots[1].kind != PS_JINJA_ABSENT) {
        *out = slots[1];
    } else {
        *out = ps_jinja_of_integer(0);
    }
    return PS_OK;
}

static ps_status filter_float(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    double real = 0.0;
    PS_TRY(ps_jinja_want_defined(&run->budget, &slots[0]));
    if (real_of(&slots[0], &real)) {
        *out = ps_jinja_of_real(real);
    } else {
        *out = slots[1].kind == PS_JINJA_ABSENT ? ps_jinja_of_real(0.0) : slots[1];
    }
    return PS_OK;
}

static ps_status want_number(ps_jinja_run *run, const ps_jinja_value *value)
{
    PS_TRY(ps_jinja_want_defined(&run->budget, value));
    if (value->kind != PS_JINJA_BOOLEAN && value->kind != PS_JINJA_INTEGER &&
        value->kind != PS_JINJA_REAL) {
        return ps_jinja_fail(&run->budget, PS_INVALID, "expected a number, found a %s",
                             ps_jinja_type_name(value));
    }
    return PS_OK;
}

static ps_status filter_abs(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    PS_TRY(want_number(run, &slots[0]));
    const bool negative = slots[0].kind == PS_JINJA_REAL
                              ? signbit(slots[0].as.real)
                              : slots[0].kind == PS_JINJA_INTEGER && slots[0].as.integer < 0;
    return ps_jinja_negate(&run->budget, &slots[0], !negative, out);
}

static ps_status filter_round(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    int64_t precision = 0;
    ps_jinja_string method = ps_jinja_literal("common").as.string;
    char text[400];
    PS_TRY(want_number(run, &slots[0]));
    PS_TRY(ps_jinja_want_integer(&run->budget, &slots[1], 0, &precision));
    if (slots[2].kind != PS_JINJA_ABSENT) {
        PS_TRY(ps_jinja_want_string(&run->budget, &slots[2], &method));
    }
    if (precision < 0 || precision > 20) {
        return ps_jinja_fail(&run->budget, PS_UNSUPPORTED,
                             "filter 'round' supports a precision of 0 to 20 only");
    }
    double real = 0.0;
    (void)real_of(&slots[0], &real);
    if (ps_str_equal(ps_jinja_bytes(method), "common")) {
        if (slots[0].kind != PS_JINJA_REAL) {
            return ps_jinja_negate(&run->budget, &slots[0], true, out);
        }
        (void)snprintf(text, sizeof text, "%.*f", (int)precision, real);
        *out = ps_jinja_of_real(strtod(text, NULL));
        return PS_OK;
    }
    const bool up = ps_str_equal(ps_jinja_bytes(method), "ceil");
    if (!up && !ps_str_equal(ps_jinja_bytes(method), "floor")) {
        return ps_jinja_fail(&run->budget, PS_INVALID,
                             "filter 'round' takes the methods common, ceil and floor");
    }
    const double scale = pow(10.0, (double)precision);
    *out = ps_jinja_of_real((up ? ceil(real * scale) : floor(real * scale)) / scale);
    return PS_OK;
}

static ps_status read_separators(ps_jinja_run *run, const ps_jinja_value *value,
                                 ps_jinja_json_style *style)
{
    if (value->kind == PS_JINJA_ABSENT || value->kind == PS_JINJA_NONE) {
        return PS_OK;
    }
    const ps_jinja_list *list = value->kind == PS_JINJA_LIST ? value->as.list : NULL;
    if (list == NULL || list->count != 2 || list->items[0].kind != PS_JINJA_STRING ||
        list->items[1].kind != PS_JINJA_STRING) {
        return ps_jinja_fail(&run->budget, PS_INVALID,
                             "tojson: separators must be two strings, as (', ', ': ')");
    }
    style->item_separator = ps_jinja_bytes(list->items[0].as.string);
    style->key_separator = ps_jinja_bytes(list->items[1].as.string);
    return PS_OK;
}

// The arguments are those of the function that Hugging Face installs, in its order.
static ps_status filter_tojson(ps_jinja_run *run, const ps_jinja_value *slots, ps_jinja_value *out)
{
    ps_jinja_json_style style = {.item_separator = ps_str_of(", "),
                                 .key_separator = ps_str_of(": "),
                                 .ascii = ps_jinja_truth(&slots[1]),
                                 .sort_keys = ps_jinja_truth(&slots[4])};
    if (slots[2].kind != PS_JINJA_ABSENT && slots[2].kind != PS_JINJA_NONE) {
        ps_jinja_string margin = {0};
        PS_TRY(indentation(run, &slots[2], &margin));
        style.indent = margin.data;
        style.indent_bytes = margin.length;
        style.item_separator = ps_str_of(",");
    }
    PS_TRY(read_separators(run, &slots[3], &style));
    return ps_jinja_write_json(&run->budget, &slots[0], &style, out);
}

static const ps_jinja_builtin filters[] = {
    {"abs", "", filter_abs, NULL},
    {"attr", "name", filter_attr, NULL},
    {"capitalize", "", filter_capitalize, NULL},
    {"count", "", filter_length, NULL},
    {"d", "default_value? boolean?", filter_default, NULL},
    {"default", "default_value? boolean?", filter_default, NULL},
    {"dictsort", "case_sensitive? by? reverse?", ps_jinja_filter_dictsort, NULL},
    {"e", "", filter_escape, NULL},
    {"escape", "", filter_escape, NULL},
    {"first", "", ps_jinja_filter_first, NULL},
    {"float", "default?", filter_float, NULL},
    {"indent", "width? first? blank?", filter_indent, NULL},
    {"int", "default? base?", filter_int, NULL},
    {"items", "", ps_jinja_filter_items, NULL},
    {"join", "d? attribute?", ps_jinja_filter_join, NULL},
    {"last", "", ps_jinja_filter_last, NULL},
    {"length", "", filter_length, NULL},
    {"list", "", ps_jinja_filter_list, NULL},
    {"lower", "", filter_lower, NULL},
    {"map", NULL, NULL, ps_jinja_filter_map},
    {"max", "case_sensitive? attribute?", ps_jinja_filter_max, NULL},
    {"min", "case_sensitive? attribute?", ps_jinja_filter_min, NULL},
    {"reject", NULL, NULL, ps_jinja_filter_reject},
    {"rejectattr", NULL, NULL, ps_jinja_filter_rejectattr},
    {"replace", "old new count?", filter_replace, NULL},
    {"reverse", "", ps_jinja_filter_reverse, NULL},
    {"round", "precision? method?", filter_round, NULL},
    {"safe", "", filter_string, NULL},
    {"select", NULL, NULL, ps_jinja_filter_select},
    {"selectattr", NULL, NULL, ps_jinja_filter_selectattr},
    {"sort", "reverse? case_sensitive? attribute?", ps_jinja_filter_sort, NULL},
    {"string", "", filter_string, NULL},
    {"sum", "attribute? start?", ps_jinja_filter_sum, NULL},
    {"title", "", filter_title, NULL},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson, NULL},
    {"trim", "chars?", filter_trim, NULL},
    {"unique", "case_sensitive? attribute?", ps_jinja_filter_unique, NULL},
    {"upper", "", filter_upper, NULL},
};

const ps_jinja_builtin *ps_jinja_find_filter(ps_str name)
{
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        if (ps_str_equal(name, filters[i].name)) {
            return &filters[i];
        }
    }
    return NULL;
}
