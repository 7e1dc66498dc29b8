// base/scan.c - a scanner over borrowed text, its writers, and the nearest word.
#include "base/scan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES_MAX 63
#define NEAREST_BYTES_MAX 64

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool starts_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

static bool continues_word(char c)
{
    return starts_word(c) || c == '-' || c == '/';
}

static bool continues_number(char c)
{
    return is_digit(c) || c == '.' || c == '+' || c == '-' || c == 'e' || c == 'E';
}

static size_t span(ps_str text, bool (*belongs)(char))
{
    size_t length = 0;
    while (length < text.length && belongs(text.data[length])) {
        length++;
    }
    return length;
}

static ps_str take(ps_scan *scan, size_t length)
{
    const ps_str taken = {.data = scan->line.data, .length = length};
    scan->line.data += length;
    scan->line.length -= length;
    return taken;
}

ps_scan ps_scan_start(ps_str text)
{
    return (ps_scan){.rest = text, .line = {.data = text.data}};
}

bool ps_scan_line(ps_scan *scan)
{
    while (scan->rest.length > 0) {
        const char *end = memchr(scan->rest.data, '\n', scan->rest.length);
        const size_t length = end == NULL ? scan->rest.length : (size_t)(end - scan->rest.data);
        scan->line = (ps_str){.data = scan->rest.data, .length = length};
        const size_t consumed = length + (end != NULL);
        scan->rest.data += consumed;
        scan->rest.length -= consumed;
        scan->line_number++;
        if (!ps_scan_at_end(scan)) {
            return true;
        }
    }
    scan->line.length = 0;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

char ps_scan_peek(ps_scan *scan)
{
    if (scan->line.length > 0) {
        (void)take(scan, span(scan->line, is_blank));
    }
    if (scan->line.length == 0 || scan->line.data[0] == '#') {
        return '\0';
    }
    // A NUL in the text is a mark that nobody expects, not the end of the line.
    return scan->line.data[0] == '\0' ? '\x01' : scan->line.data[0];
}

bool ps_scan_at_end(ps_scan *scan)
{
    return ps_scan_peek(scan) == '\0';
}

void ps_scan_fail_at(const ps_scan *scan, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)ps_fail(PS_INVALID, "line %u: %s", scan->line_number, text);
}

ps_status ps_scan_prefix(const ps_scan *scan, ps_status code)
{
    return ps_fail_prefix(code, "line %u", scan->line_number);
}

// "expected <what> before '<rest of the line>'"
static ps_status expected(ps_scan *scan, const char *what)
{
    if (ps_scan_at_end(scan)) {
        return ps_scan_fail(scan, "expected %s at the end of the line", what);
    }
    const int shown = scan->line.length < 40 ? (int)scan->line.length : 40;
    return ps_scan_fail(scan, "expected %s at '%.*s'", what, shown, scan->line.data);
}

ps_status ps_scan_line_end(ps_scan *scan)
{
    return ps_scan_at_end(scan) ? PS_OK : expected(scan, "the end of the line");
}

bool ps_scan_try_mark(ps_scan *scan, char mark)
{
    if (ps_scan_at_end(scan) || scan->line.data[0] != mark) {
        return false;
    }
    (void)take(scan, 1);
    return true;
}

ps_status ps_scan_mark(ps_scan *scan, char mark)
{
    const char what[] = {'\'', mark, '\'', '\0'};
    return ps_scan_try_mark(scan, mark) ? PS_OK : expected(scan, what);
}

ps_status ps_scan_word(ps_scan *scan, const char *what, ps_str *out)
{
    if (!starts_word(ps_scan_peek(scan))) {
        return expected(scan, what);
    }
    *out = take(scan, span(scan->line, continues_word));
    return PS_OK;
}

bool ps_scan_try_word(ps_scan *scan, const char *word)
{
    ps_scan ahead = *scan;
    if (!starts_word(ps_scan_peek(&ahead)) ||
        !ps_str_equal(take(&ahead, span(ahead.line, continues_word)), word)) {
        return false;
    }
    *scan = ahead;
    return true;
}

static int hex_value(char c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// Decodes what follows a backslash; '\0' when it is no escape.
static char take_escape(ps_scan *scan)
{
    const char c = scan->line.length > 0 ? take(scan, 1).data[0] : '\0';
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case '"':
    case '\\':
        return c;
    case 'x': {
        if (scan->line.length < 2) {
            return '\0';
        }
        const ps_str digits = take(scan, 2);
        const int high = hex_value(digits.data[0]);
        const int low = hex_value(digits.data[1]);
        return high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
    }
    default:
        return '\0';
    }
}

static ps_status scan_quoted(ps_scan *scan, const char *what, char *out, size_t capacity)
{
    (void)take(scan, 1);
    size_t length = 0;
    while (scan->line.length > 0) {
        char c = take(scan, 1).data[0];
        if (c == '"') {
            out[length] = '\0';
            return PS_OK;
        }
        if (c == '\\') {
            c = take_escape(scan);
        }
        if (c == '\0') {
            return ps_scan_fail(
                scan, "%s holds a NUL or an escape other than \\\" \\\\ \\n \\t \\xHH", what);
        }
        if (length + 1 == capacity) {
            return ps_scan_fail(scan, "%s is longer than %zu bytes", what, capacity - 1);
        }
        out[length++] = c;
    }
    return ps_scan_fail(scan, "%s lacks its closing quote", what);
}

ps_status ps_scan_string(ps_scan *scan, const char *what, char *out, size_t capacity)
{
    ps_assert(capacity > 0);
    if (ps_scan_peek(scan) == '"') {
        return scan_quoted(scan, what, out, capacity);
    }
    ps_str word;
    PS_TRY(ps_scan_word(scan, what, &word));
    if (word.length >= capacity) {
        return ps_scan_fail(scan, "%s is longer than %zu bytes", what, capacity - 1);
    }
    memcpy(out, word.data, word.length);
    out[word.length] = '\0';
    return PS_OK;
}

ps_status ps_scan_choice(ps_scan *scan, const char *what, const char *const *words, uint32_t count,
                         uint32_t *out_index)
{
    ps_str word;
    PS_TRY(ps_scan_word(scan, what, &word));
    for (uint32_t i = 0; i < count; i++) {
        if (words[i] != NULL && ps_str_equal(word, words[i])) {
            *out_index = i;
            return PS_OK;
        }
    }
    const char *nearest = ps_nearest(word, words, count);
    return ps_scan_fail(scan, "'%.*s' is not %s; the nearest is '%s'",
                        (int)(word.length < 64 ? word.length : 64), word.data, what,
                        nearest == NULL ? "" : nearest);
}

ps_status ps_scan_u64(ps_scan *scan, uint64_t max, uint64_t *out)
{
    if (!is_digit(ps_scan_peek(scan))) {
        return expected(scan, "a whole number");
    }
    const ps_str digits = take(scan, span(scan->line, is_digit));
    uint64_t value = 0;
    for (size_t i = 0; i < digits.length; i++) {
        if (!ps_checked_mul(value, 10, &value) ||
            !ps_checked_add(value, (uint64_t)(digits.data[i] - '0'), &value) || value > max) {
            return ps_scan_fail(scan, "%.*s is too large, at most %llu would be right",
                                (int)(digits.length < 40 ? digits.length : 40), digits.data,
                                (unsigned long long)max);
        }
    }
    *out = value;
    return PS_OK;
}

ps_status ps_scan_u32(ps_scan *scan, uint32_t max, uint32_t *out)
{
    uint64_t value = 0;
    PS_TRY(ps_scan_u64(scan, max, &value));
    *out = (uint32_t)value;
    return PS_OK;
}

// Copies the number that comes next into text[NUMBER_BYTES_MAX + 1].
static ps_status copy_number(ps_scan *scan, char *text)
{
    (void)ps_scan_peek(scan);
    const size_t length = span(scan->line, continues_number);
    if (length == 0 || length > NUMBER_BYTES_MAX) {
        return expected(scan, "a number");
    }
    memcpy(text, take(scan, length).data, length);
    text[length] = '\0';
    return PS_OK;
}

static ps_status check_number(const ps_scan *scan, const char *text, const char *end, double value)
{
    return *end == '\0' && isfinite(value)
               ? PS_OK
               : ps_scan_fail(scan, "'%s' is not a finite number", text);
}

ps_status ps_scan_f32(ps_scan *scan, float *out)
{
    char text[NUMBER_BYTES_MAX + 1];
    PS_TRY(copy_number(scan, text));
    char *end;
    const float value = strtof(text, &end);
    PS_TRY(check_number(scan, text, end, (double)value));
    *out = value;
    return PS_OK;
}

ps_status ps_scan_double(ps_scan *scan, double *out)
{
    char text[NUMBER_BYTES_MAX + 1];
    PS_TRY(copy_number(scan, text));
    char *end;
    const double value = strtod(text, &end);
    PS_TRY(check_number(scan, text, end, value));
    *out = value;
    return PS_OK;
}

ps_status ps_buffer_string(ps_buffer *buffer, ps_str string)
{
    if (string.length > 0 && starts_word(string.data[0]) &&
        span(string, continues_word) == string.length) {
        return ps_buffer_append(buffer, string.data, string.length);
    }
    PS_TRY(ps_buffer_append(buffer, "\"", 1));
    for (size_t i = 0; i < string.length; i++) {
        const unsigned char c = (unsigned char)string.data[i];
        if (c == '"' || c == '\\') {
            PS_TRY(ps_buffer_printf(buffer, "\\%c", c));
        } else if (c < 0x20 || c >= 0x7f) {
            PS_TRY(ps_buffer_printf(buffer, "\\x%02x", c));
        } else {
            PS_TRY(ps_buffer_append(buffer, &string.data[i], 1));
        }
    }
    return ps_buffer_append(buffer, "\"", 1);
}

ps_status ps_buffer_f32(ps_buffer *buffer, float value)
{
    return ps_buffer_printf(buffer, "%.9g", (double)value);
}

ps_status ps_buffer_double(ps_buffer *buffer, double value)
{
    return ps_buffer_printf(buffer, "%.17g", value);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Edit distance with swaps of neighbours ("optimal string alignment"), three rows of the table.
static uint32_t distance(ps_str a, ps_str b)
{
    uint32_t rows[3][NEAREST_BYTES_MAX + 1];
    for (uint32_t j = 0; j <= b.length; j++) {
        rows[0][j] = j;
    }
    for (uint32_t i = 1; i <= a.length; i++) {
        const uint32_t *before = rows[(i + 1) % 3];
        const uint32_t *above = rows[(i - 1) % 3];
        uint32_t *row = rows[i % 3];
        row[0] = i;
        for (uint32_t j = 1; j <= b.length; j++) {
            const bool same = a.data[i - 1] == b.data[j - 1];
            row[j] = smaller(above[j - 1] + !same, smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] &&
                a.data[i - 2] == b.data[j - 1]) {
                row[j] = smaller(row[j], before[j - 2] + 1);
            }
        }
    }
    return rows[a.length % 3][b.length];
}

static ps_str cut(ps_str word)
{
    word.length = word.length < NEAREST_BYTES_MAX ? word.length : NEAREST_BYTES_MAX;
    return word;
}

const char *ps_nearest(ps_str word, const char *const *words, uint32_t count)
{
    const char *nearest = NULL;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t edits = words[i] == NULL ? UINT32_MAX
                                                : distance(cut(word), cut(ps_str_of(words[i])));
        if (edits < best) {
            best = edits;
            nearest = words[i];
        }
    }
    return nearest;
}
