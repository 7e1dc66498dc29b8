// text/jinja_literal.c - strings and numbers as templates write them.
#include "text/jinja_parse_internal.h"
#include "text/jinja_unicode.h"
#include "text/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// One escape behind a backslash: the value of `digits` digits of `base`, or false.
static bool read_digits(ps_str text, size_t at, size_t digits, unsigned base, uint32_t *out)
{
    uint32_t value = 0;
    if (digits > text.length - at) {
        return false;
    }
    for (size_t i = at; i < at + digits; i++) {
        const char c = text.data[i];
        const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                               : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                               : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                      : 99;
        if (digit >= base) {
            return false;
        }
        value = value * base + digit;
    }
    *out = value;
    return true;
}

static ps_status hex_escape(const ps_jinja_parser *p, ps_str text, size_t at, size_t digits,
                            char *copy, size_t *out_bytes)
{
    uint32_t code = 0;
    if (!read_digits(text, at, digits, 16, &code) || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000)) {
        return ps_jinja_fail(p->budget, PS_INVALID,
                             "a \\x, \\u or \\U in a string needs 2, 4 or 8 hex digits of a "
                             "character that is no surrogate");
    }
    *out_bytes = ps_utf8_encode(code, copy);
    return PS_OK;
}

// Decodes the escape whose letter is text[*at] into copy; moves *at behind it.
static ps_status read_escape(const ps_jinja_parser *p, ps_str text, size_t *at, char *copy,
                             size_t *out_bytes)
{
    static const char letters[] = "ntr\\'\"abfv";
    static const char values[] = "\n\t\r\\'\"\a\b\f\v";
    const char c = text.data[(*at)++];
    const char *letter = c == '\0' ? NULL : strchr(letters, c);
    *out_bytes = 1;
    if (letter != NULL) {
        copy[0] = values[letter - letters];
    } else if (c == '\n') {
        *out_bytes = 0;
    } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        PS_TRY(hex_escape(p, text, *at, digits, copy, out_bytes));
        *at += digits;
    } else if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t digits = 1;
        (*at)--;
        for (uint32_t next; digits <= 3 && read_digits(text, *at, digits, 8, &next); digits++) {
            code = next;
        }
        *at += digits - 1;
        *out_bytes = ps_utf8_encode(code, copy);
    } else if (c == 'N') {
        return ps_jinja_fail(p->budget, PS_UNSUPPORTED, "\\N in a string is not supported");
    } else { // Python keeps what it does not know
        copy[0] = '\\';
        copy[1] = c;
        *out_bytes = 2;
    }
    return PS_OK;
}

// Adjacent strings are one. No escape gets longer by decoding it.
ps_status ps_jinja_parse_string(ps_jinja_parser *p, ps_jinja_expr **out)
{
    ps_jinja_value value = ps_jinja_literal("");
    const uint32_t line = p->token.line;
    while (p->token.kind == PS_JINJA_TOKEN_STRING) {
        const ps_str text = p->token.text;
        const size_t before = value.as.string.length;
        char *copy = NULL;
        PS_JINJA_NEW(p->budget, copy, before + text.length + 1);
        memcpy(copy, value.as.string.data, before);
        size_t length = before;
        for (size_t at = 0; at < text.length;) {
            if (text.data[at] != '\\') {
                copy[length++] = text.data[at++];
                continue;
            }
            size_t bytes = 0;
            at++;
            PS_TRY(read_escape(p, text, &at, copy + length, &bytes));
            length += bytes;
        }
        value.as.string.data = copy;
        value.as.string.length = length;
        PS_TRY(ps_jinja_advance(p));
    }
    PS_TRY(ps_jinja_new_literal(p, value, out));
    (*out)->line = line;
    return PS_OK;
}

ps_status ps_jinja_parse_number(ps_jinja_parser *p, ps_jinja_expr **out)
{
    char digits[64];
    size_t length = 0;
    for (size_t i = 0; i < p->token.text.length; i++) {
        if (p->token.text.data[i] == '_') {
            continue;
        }
        if (length == sizeof digits - 1) {
            return ps_jinja_fail(p->budget, PS_UNSUPPORTED,
                                 "a number of more than 63 digits is not supported");
        }
        digits[length++] = p->token.text.data[i];
    }
    digits[length] = '\0';
    if (p->token.kind == PS_JINJA_TOKEN_REAL) {
        PS_TRY(ps_jinja_new_literal(p, ps_jinja_of_real(strtod(digits, NULL)), out));
        return ps_jinja_advance(p);
    }
    errno = 0;
    const long long integer = strtoll(digits, NULL, 10);
    if (errno != 0) {
        return ps_jinja_fail(p->budget, PS_UNSUPPORTED,
                             "integers beyond 64 bits are not supported: %s", digits);
    }
    if (length > 1 && digits[0] == '0' && integer != 0) {
        return ps_jinja_fail(p->budget, PS_INVALID, "a number cannot begin with 0: %s", digits);
    }
    PS_TRY(ps_jinja_new_literal(p, ps_jinja_of_integer(integer), out));
    return ps_jinja_advance(p);
}
