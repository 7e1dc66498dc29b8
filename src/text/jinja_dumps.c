// text/jinja_dumps.c - template values to JSON, byte for byte as Python's json.dumps.
#include "text/jinja_json.h"
#include "text/jinja_unicode.h"
#include "text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct writer {
    ps_jinja_budget *budget;
    const ps_jinja_json_style *style;
    ps_jinja_text text;
} writer;

static ps_status write_value(writer *w, const ps_jinja_value *value, size_t level);

static ps_status add(writer *w, const char *bytes, size_t length)
{
    return ps_jinja_text_add_bytes(w->budget, &w->text, bytes, length, false);
}

static ps_status add_literal(writer *w, const char *literal)
{
    return add(w, literal, strlen(literal));
}

static void escape(uint32_t code, bool ascii, char out[16])
{
    static const char names[][2] = {{'"', '"'},  {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
                                    {'\t', 't'}, {'\b', 'b'},  {'\f', 'f'}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (code == (uint32_t)names[i][0]) {
            (void)snprintf(out, 16, "\\%c", names[i][1]);
            return;
        }
    }
    if (code < 0x20 || (ascii && code >= 0x7F && code < 0x10000 && code != 0x7F)) {
        (void)snprintf(out, 16, "\\u%04x", code);
    } else if (ascii && code >= 0x10000) {
        const uint32_t rest = code - 0x10000;
        (void)snprintf(out, 16, "\\u%04x\\u%04x", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
        out[ps_utf8_encode(code, out)] = '\0';
    }
}

static ps_status write_string(writer *w, ps_jinja_string string)
{
    PS_TRY(ps_jinja_spend(w->budget, string.length / 8));
    PS_TRY(add_literal(w, "\""));
    size_t plain = 0; // everything from here to `at` needs no escape
    for (size_t at = 0; at < string.length;) {
        size_t bytes = 0;
        const uint32_t code = ps_jinja_decode(string.data + at, string.length - at, &bytes);
        if (code < 0x20 || code == '"' || code == '\\' || (w->style->ascii && code > 0x7F)) {
            char escaped[16] = {0};
            escape(code, w->style->ascii, escaped);
            PS_TRY(add(w, string.data + plain, at - plain));
            PS_TRY(add_literal(w, escaped));
            plain = at + bytes;
        }
        at += bytes;
    }
    PS_TRY(add(w, string.data + plain, string.length - plain));
    return add_literal(w, "\"");
}

// The text of everything but strings, lists and dicts; false when JSON has no such value.
static bool scalar_text(const ps_jinja_value *value, char out[32])
{
    switch (value->kind) {
    case PS_JINJA_NONE:
        (void)snprintf(out, 32, "null");
        return true;
    case PS_JINJA_BOOLEAN:
        (void)snprintf(out, 32, "%s", value->as.boolean ? "true" : "false");
        return true;
    case PS_JINJA_INTEGER:
        (void)snprintf(out, 32, "%" PRId64, value->as.integer);
        return true;
    case PS_JINJA_REAL:
        if (isfinite(value->as.real)) {
            ps_jinja_format_real(value->as.real, out);
        } else {
            const char *sign = value->as.real > 0 ? "" : "-";
            (void)snprintf(out, 32, "%s%s", isnan(value->as.real) ? "" : sign,
                           isnan(value->as.real) ? "NaN" : "Infinity");
        }
        return true;
    default:
        return false;
    }
}

static ps_status write_key(writer *w, const ps_jinja_value *key)
{
    char text[32];
    if (key->kind == PS_JINJA_STRING) {
        return write_string(w, key->as.string);
    }
    if (!scalar_text(key, text)) {
        return ps_jinja_fail(w->budget, PS_INVALID, "tojson: a %s cannot be a key in JSON",
                             ps_jinja_type_name(key));
    }
    return write_string(w, ps_jinja_literal(text).as.string);
}

static ps_status new_line(writer *w, size_t level)
{
    if (w->style->indent == NULL) {
        return PS_OK;
    }
    PS_TRY(add_literal(w, "\n"));
    for (size_t i = 0; i < level; i++) {
        PS_TRY(add(w, w->style->indent, w->style->indent_bytes));
    }
    return PS_OK;
}

static ps_status separate(writer *w, size_t index, size_t level)
{
    if (index > 0) {
        PS_TRY(add(w, w->style->item_separator.data, w->style->item_separator.length));
    }
    return new_line(w, level);
}

static ps_status write_list(writer *w, const ps_jinja_list *list, size_t level)
{
    if (list->flavour > PS_JINJA_TUPLE) {
        return ps_jinja_fail(w->budget, PS_INVALID, "tojson: a %s has no JSON; add '|list' to it",
                             list->flavour == PS_JINJA_GENERATOR ? "generator" : "range or view");
    }
    if (list->count == 0) {
        return add_literal(w, "[]");
    }
    PS_TRY(add_literal(w, "["));
    for (size_t i = 0; i < list->count; i++) {
        PS_TRY(separate(w, i, level + 1));
        PS_TRY(write_value(w, &list->items[i], level + 1));
    }
    PS_TRY(new_line(w, level));
    return add_literal(w, "]");
}

// order[0..count) = indices of the entries, sorted by key; insertion keeps equal keys in place.
static ps_status sort_keys(writer *w, const ps_jinja_dict *dict, size_t *order)
{
    for (size_t i = 0; i < dict->count; i++) {
        size_t at = i;
        for (; at > 0; at--) {
            int relation = 0;
            PS_TRY(ps_jinja_compare(w->budget, &dict->entries[order[at - 1]].key,
                                    &dict->entries[i].key, &relation));
            if (relation != 1) {
                break;
            }
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    return PS_OK;
}

static ps_status write_dict(writer *w, const ps_jinja_dict *dict, size_t level)
{
    if (dict->count == 0) {
        return add_literal(w, "{}");
    }
    size_t *order = NULL;
    if (w->style->sort_keys) {
        PS_JINJA_NEW(w->budget, order, dict->count);
        PS_TRY(sort_keys(w, dict, order));
    }
    PS_TRY(add_literal(w, "{"));
    for (size_t i = 0; i < dict->count; i++) {
        const ps_jinja_entry *entry = &dict->entries[order == NULL ? i : order[i]];
        PS_TRY(separate(w, i, level + 1));
        PS_TRY(write_key(w, &entry->key));
        PS_TRY(add(w, w->style->key_separator.data, w->style->key_separator.length));
        PS_TRY(write_value(w, &entry->value, level + 1));
    }
    PS_TRY(new_line(w, level));
    return add_literal(w, "}");
}

static ps_status write_value(writer *w, const ps_jinja_value *value, size_t level)
{
    char text[32];
    PS_TRY(ps_jinja_spend(w->budget, 1));
    PS_TRY(ps_jinja_enter(w->budget));
    if (scalar_text(value, text)) {
        PS_TRY(add_literal(w, text));
    } else if (value->kind == PS_JINJA_STRING) {
        PS_TRY(write_string(w, value->as.string));
    } else if (value->kind == PS_JINJA_LIST) {
        PS_TRY(write_list(w, value->as.list, level));
    } else if (value->kind == PS_JINJA_DICT) {
        PS_TRY(write_dict(w, value->as.dict, level));
    } else {
        return ps_jinja_fail(w->budget, PS_INVALID, "tojson: %s has no JSON",
                             ps_jinja_type_name(value));
    }
    ps_jinja_leave(w->budget);
    return PS_OK;
}

ps_status ps_jinja_write_json(ps_jinja_budget *budget, const ps_jinja_value *value,
                              const ps_jinja_json_style *style, ps_jinja_value *out)
{
    writer w = {.budget = budget, .style = style};
    PS_TRY(write_value(&w, value, 0));
    *out = ps_jinja_text_finish(&w.text);
    return PS_OK;
}
