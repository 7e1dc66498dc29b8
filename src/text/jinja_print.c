// text/jinja_print.c - values as Python prints them.
#include "text/jinja_text.h"
#include "text/jinja_unicode.h"
#include "text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Splits "-1.25e-07" into digits and a decimal exponent and writes it again as Python would:
// without an exponent from 1e-4 up to 1e16.
void ps_jinja_format_real(double real, char out[32])
{
    if (!isfinite(real)) {
        (void)snprintf(out, 32, "%s", isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
        return;
    }
    char shortest[32];
    int precision = 0;
    do {
        (void)snprintf(shortest, sizeof shortest, "%.*e", precision, real);
        precision++;
    } while (precision < 17 && strtod(shortest, NULL) != real);
    const char *exponent_text = strchr(shortest, 'e');
    ps_assert(exponent_text != NULL);
    const int exponent = atoi(exponent_text + 1);
    const int digits = precision; // precision - 1 behind the point, and one before it
    if (exponent >= -4 && exponent < 16) {
        const int decimals = digits - 1 - exponent;
        (void)snprintf(out, 32, "%.*f", decimals < 1 ? 1 : decimals, real);
        return;
    }
    (void)snprintf(out, 32, "%.*se%+03d", (int)(exponent_text - shortest), shortest, exponent);
}

static ps_status add_literal(ps_jinja_budget *budget, ps_jinja_text *text, const char *literal)
{
    return ps_jinja_text_add_bytes(budget, text, literal, strlen(literal), false);
}

// Python prefers single quotes, and takes double ones when that saves an escape.
static char quote_for(ps_jinja_string string)
{
    const bool single = string.length > 0 && memchr(string.data, '\'', string.length) != NULL;
    const bool both = single && memchr(string.data, '"', string.length) != NULL;
    return single && !both ? '"' : '\'';
}

static void escape_character(uint32_t code, char quote, char out[16])
{
    static const char names[][2] = {{'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'\\', '\\'}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (code == (uint32_t)names[i][0]) {
            (void)snprintf(out, 16, "\\%c", names[i][1]);
            return;
        }
    }
    if (code == (uint32_t)quote) {
        (void)snprintf(out, 16, "\\%c", quote);
    } else if (ps_jinja_is_printable(code)) {
        out[ps_utf8_encode(code, out)] = '\0';
    } else if (code < 0x100) {
        (void)snprintf(out, 16, "\\x%02x", code);
    } else {
        (void)snprintf(out, 16, code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    }
}

static ps_status repr_string(ps_jinja_budget *budget, ps_jinja_string string, ps_jinja_text *text)
{
    const char quote = quote_for(string);
    PS_TRY(ps_jinja_spend(budget, string.length / 8));
    PS_TRY(ps_jinja_text_add_bytes(budget, text, &quote, 1, false));
    for (size_t at = 0; at < string.length;) {
        size_t bytes = 0;
        const uint32_t code = ps_jinja_decode(string.data + at, string.length - at, &bytes);
        char escaped[16] = {0};
        if (code == 0) {
            (void)snprintf(escaped, sizeof escaped, "\\x00");
        } else {
            escape_character(code, quote, escaped);
        }
        PS_TRY(add_literal(budget, text, escaped));
        at += bytes;
    }
    return ps_jinja_text_add_bytes(budget, text, &quote, 1, false);
}

static ps_status repr_list(ps_jinja_budget *budget, const ps_jinja_list *list, ps_jinja_text *text)
{
    const bool is_tuple = list->flavour == PS_JINJA_TUPLE;
    PS_TRY(add_literal(budget, text, is_tuple ? "(" : "["));
    for (size_t i = 0; i < list->count; i++) {
        PS_TRY(add_literal(budget, text, i == 0 ? "" : ", "));
        PS_TRY(ps_jinja_repr(budget, &list->items[i], text));
    }
    if (is_tuple && list->count == 1) {
        PS_TRY(add_literal(budget, text, ","));
    }
    return add_literal(budget, text, is_tuple ? ")" : "]");
}

static ps_status repr_dict(ps_jinja_budget *budget, const ps_jinja_dict *dict, ps_jinja_text *text)
{
    PS_TRY(add_literal(budget, text, "{"));
    for (size_t i = 0; i < dict->count; i++) {
        PS_TRY(add_literal(budget, text, i == 0 ? "" : ", "));
        PS_TRY(ps_jinja_repr(budget, &dict->entries[i].key, text));
        PS_TRY(add_literal(budget, text, ": "));
        PS_TRY(ps_jinja_repr(budget, &dict->entries[i].value, text));
    }
    return add_literal(budget, text, "}");
}

// What prints without looking into other values; false for everything else.
static bool print_scalar(const ps_jinja_value *value, char out[32])
{
    switch (value->kind) {
    case PS_JINJA_NONE:
        (void)snprintf(out, 32, "None");
        return true;
    case PS_JINJA_BOOLEAN:
        (void)snprintf(out, 32, "%s", value->as.boolean ? "True" : "False");
        return true;
    case PS_JINJA_INTEGER:
        (void)snprintf(out, 32, "%" PRId64, value->as.integer);
        return true;
    case PS_JINJA_REAL:
        ps_jinja_format_real(value->as.real, out);
        return true;
    default:
        return false;
    }
}

ps_status ps_jinja_repr(ps_jinja_budget *budget, const ps_jinja_value *value, ps_jinja_text *text)
{
    char scalar[32];
    PS_TRY(ps_jinja_spend(budget, 1));
    PS_TRY(ps_jinja_enter(budget));
    if (print_scalar(value, scalar)) {
        PS_TRY(add_literal(budget, text, scalar));
    } else if (value->kind == PS_JINJA_STRING) {
        PS_TRY(repr_string(budget, value->as.string, text));
    } else if (value->kind == PS_JINJA_DICT) {
        PS_TRY(repr_dict(budget, value->as.dict, text));
    } else if (value->kind == PS_JINJA_LIST && value->as.list->flavour <= PS_JINJA_TUPLE) {
        PS_TRY(repr_list(budget, value->as.list, text));
    } else if (value->kind == PS_JINJA_UNDEFINED) {
        PS_TRY(add_literal(budget, text, "Undefined"));
    } else {
        return ps_jinja_fail(budget, PS_UNSUPPORTED, "printing a %s is not supported",
                             ps_jinja_type_name(value));
    }
    ps_jinja_leave(budget);
    return PS_OK;
}

ps_status ps_jinja_to_string(ps_jinja_budget *budget, const ps_jinja_value *value,
                             ps_jinja_string *out)
{
    char scalar[32];
    if (value->kind == PS_JINJA_STRING) {
        *out = value->as.string;
        return PS_OK;
    }
    ps_jinja_text text = {0};
    if (print_scalar(value, scalar)) {
        PS_TRY(ps_jinja_text_add_bytes(budget, &text, scalar, strlen(scalar), true));
    } else if (value->kind != PS_JINJA_UNDEFINED) {
        PS_TRY(ps_jinja_repr(budget, value, &text));
    }
    *out = ps_jinja_text_finish(&text).as.string;
    return PS_OK;
}
