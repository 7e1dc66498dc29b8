// text/jinja_text.c - strings of a template: building and Python's string operations.
#include "text/jinja_text.h"

#include "text/jinja_unicode.h"
#include "text/utf8.h"

#include <string.h>

#define BYTES_PER_STEP 64

static ps_status reserve(ps_jinja_budget *budget, ps_jinja_text *text, size_t extra)
{
    if (text->length > budget->output_bytes || extra > budget->output_bytes - text->length) {
        return ps_jinja_fail(budget, PS_EXHAUSTED,
                             "the template's output limit of %zu bytes is reached",
                             budget->output_bytes);
    }
    const size_t needed = text->length + extra;
    if (needed <= text->capacity) {
        return PS_OK;
    }
    size_t capacity = text->capacity < 128 ? 128 : text->capacity * 2;
    capacity = capacity < needed ? needed : capacity;
    char *data = NULL;
    uint8_t *marks = NULL;
    PS_JINJA_NEW(budget, data, capacity);
    PS_JINJA_NEW(budget, marks, capacity);
    if (text->length > 0) {
        memcpy(data, text->data, text->length);
        memcpy(marks, text->marks, text->length);
    }
    text->data = data;
    text->marks = marks;
    text->capacity = capacity;
    return PS_OK;
}

ps_status ps_jinja_text_add(ps_jinja_budget *budget, ps_jinja_text *text, ps_jinja_string string)
{
    if (string.length == 0) {
        return PS_OK;
    }
    PS_TRY(ps_jinja_spend(budget, string.length / BYTES_PER_STEP));
    PS_TRY(reserve(budget, text, string.length));
    memcpy(text->data + text->length, string.data, string.length);
    if (string.marks != NULL) {
        memcpy(text->marks + text->length, string.marks, string.length);
    } else {
        memset(text->marks + text->length, string.trusted, string.length);
    }
    text->length += string.length;
    return PS_OK;
}

ps_status ps_jinja_text_add_bytes(ps_jinja_budget *budget, ps_jinja_text *text, const char *bytes,
                                  size_t length, bool trusted)
{
    return ps_jinja_text_add(
        budget, text, (ps_jinja_string){.data = bytes, .length = length, .trusted = trusted});
}

ps_jinja_value ps_jinja_text_finish(const ps_jinja_text *text)
{
    if (text->length == 0) {
        return ps_jinja_literal("");
    }
    ps_jinja_string string = {
        .data = text->data, .length = text->length, .marks = text->marks, .trusted = false};
    const bool first = text->marks[0];
    if (memchr(text->marks, first ? 0 : 1, text->length) == NULL) {
        string.marks = NULL;
        string.trusted = first;
    }
    return ps_jinja_of_string(string);
}

ps_status ps_jinja_concat(ps_jinja_budget *budget, ps_jinja_string a, ps_jinja_string b,
                          ps_jinja_value *out)
{
    if (a.length == 0 || b.length == 0) {
        *out = ps_jinja_of_string(a.length == 0 ? b : a);
        return PS_OK;
    }
    ps_jinja_text text = {0};
    PS_TRY(reserve(budget, &text, a.length + b.length));
    PS_TRY(ps_jinja_text_add(budget, &text, a));
    PS_TRY(ps_jinja_text_add(budget, &text, b));
    *out = ps_jinja_text_finish(&text);
    return PS_OK;
}

ps_status ps_jinja_repeat(ps_jinja_budget *budget, ps_jinja_string string, int64_t times,
                          ps_jinja_value *out)
{
    ps_jinja_text text = {0};
    for (int64_t i = 0; i < times && string.length > 0; i++) {
        PS_TRY(ps_jinja_text_add(budget, &text, string));
    }
    *out = ps_jinja_text_finish(&text);
    return PS_OK;
}

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xC0u) != 0x80u;
}

size_t ps_jinja_characters(ps_jinja_string string)
{
    size_t count = 0;
    for (size_t i = 0; i < string.length; i++) {
        count += begins_character(string.data[i]);
    }
    return count;
}

size_t ps_jinja_byte_index(ps_jinja_string string, size_t character)
{
    size_t seen = 0;
    for (size_t i = 0; i < string.length; i++) {
        if (begins_character(string.data[i]) && seen++ == character) {
            return i;
        }
    }
    return string.length;
}

// Whether the character at data[0..bytes) is one of chars.
static bool is_one_of(ps_jinja_string chars, const char *data, size_t bytes)
{
    return bytes <= chars.length && memmem(chars.data, chars.length, data, bytes) != NULL;
}

static size_t strip_left(ps_jinja_string string, ps_jinja_string chars)
{
    size_t at = 0;
    while (at < string.length) {
        size_t bytes = 0;
        (void)ps_jinja_decode(string.data + at, string.length - at, &bytes);
        if (!is_one_of(chars, string.data + at, bytes)) {
            break;
        }
        at += bytes;
    }
    return at;
}

static size_t strip_right(ps_jinja_string string, ps_jinja_string chars)
{
    size_t end = string.length;
    while (end > 0) {
        size_t begin = end - 1;
        while (begin > 0 && !begins_character(string.data[begin])) {
            begin--;
        }
        if (!is_one_of(chars, string.data + begin, end - begin)) {
            break;
        }
        end = begin;
    }
    return end;
}

ps_status ps_jinja_strip(ps_jinja_budget *budget, ps_jinja_string string,
                         const ps_jinja_string *chars, ps_jinja_side side, ps_jinja_string *out)
{
    const uint64_t factor = chars == NULL ? 1 : 1 + chars->length;
    PS_TRY(ps_jinja_spend(budget, string.length * factor / BYTES_PER_STEP));
    if ((side & PS_JINJA_LEFT) != 0) {
        const size_t begin = chars == NULL ? ps_jinja_space_prefix(ps_jinja_bytes(string))
                                           : strip_left(string, *chars);
        string = ps_jinja_cut(string, begin, string.length);
    }
    if ((side & PS_JINJA_RIGHT) != 0) {
        const size_t end = chars == NULL
                               ? string.length - ps_jinja_space_suffix(ps_jinja_bytes(string))
                               : strip_right(string, *chars);
        string = ps_jinja_cut(string, 0, end);
    }
    *out = string;
    return PS_OK;
}

// An empty `from` stands before every character and at the end.
static ps_status replace_empty(ps_jinja_budget *budget, ps_jinja_string string, ps_jinja_string to,
                               int64_t limit, ps_jinja_text *text)
{
    size_t at = 0;
    for (int64_t done = 0; limit < 0 || done < limit; done++) {
        PS_TRY(ps_jinja_text_add(budget, text, to));
        if (at == string.length) {
            return PS_OK;
        }
        size_t bytes = 0;
        (void)ps_jinja_decode(string.data + at, string.length - at, &bytes);
        PS_TRY(ps_jinja_text_add(budget, text, ps_jinja_cut(string, at, at + bytes)));
        at += bytes;
    }
    return ps_jinja_text_add(budget, text, ps_jinja_cut(string, at, string.length));
}

ps_status ps_jinja_replace(ps_jinja_budget *budget, ps_jinja_string string, ps_jinja_string from,
                           ps_jinja_string to, int64_t limit, ps_jinja_value *out)
{
    ps_jinja_text text = {0};
    size_t at = 0;
    if (from.length == 0) {
        PS_TRY(replace_empty(budget, string, to, limit, &text));
        at = string.length;
    }
    for (int64_t done = 0; from.length > 0 && (limit < 0 || done < limit); done++) {
        size_t found = 0;
        PS_TRY(ps_jinja_find(budget, ps_jinja_bytes(string), ps_jinja_bytes(from), at, &found));
        if (found == SIZE_MAX) {
            break;
        }
        PS_TRY(ps_jinja_text_add(budget, &text, ps_jinja_cut(string, at, found)));
        PS_TRY(ps_jinja_text_add(budget, &text, to));
        at = found + from.length;
    }
    PS_TRY(ps_jinja_text_add(budget, &text, ps_jinja_cut(string, at, string.length)));
    *out = ps_jinja_text_finish(&text);
    return PS_OK;
}

static ps_status append_part(ps_jinja_budget *budget, ps_jinja_value *parts, ps_jinja_string string,
                             size_t begin, size_t end)
{
    return ps_jinja_list_append(budget, parts->as.list,
                                ps_jinja_of_string(ps_jinja_cut(string, begin, end)));
}

static ps_status split_at(ps_jinja_budget *budget, ps_jinja_string string,
                          ps_jinja_string separator, int64_t limit, ps_jinja_value *out)
{
    size_t at = 0;
    for (int64_t cuts = 0; limit < 0 || cuts < limit; cuts++) {
        size_t found = 0;
        PS_TRY(
            ps_jinja_find(budget, ps_jinja_bytes(string), ps_jinja_bytes(separator), at, &found));
        if (found == SIZE_MAX) {
            break;
        }
        PS_TRY(append_part(budget, out, string, at, found));
        at = found + separator.length;
    }
    return append_part(budget, out, string, at, string.length);
}

static void reverse(ps_jinja_list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        const ps_jinja_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

static ps_status split_at_from_right(ps_jinja_budget *budget, ps_jinja_string string,
                                     ps_jinja_string separator, int64_t limit, ps_jinja_value *out)
{
    size_t end = string.length;
    size_t at = end;
    int64_t cuts = 0;
    PS_TRY(ps_jinja_spend(budget, string.length / 8));
    while (at >= separator.length && (limit < 0 || cuts < limit)) {
        const size_t begin = at - separator.length;
        if (memcmp(string.data + begin, separator.data, separator.length) == 0) {
            PS_TRY(append_part(budget, out, string, at, end));
            cuts++;
            end = at = begin;
        } else {
            at--;
        }
    }
    PS_TRY(append_part(budget, out, string, 0, end));
    reverse(out->as.list);
    return PS_OK;
}

// Where the run of characters that are space (or are not) ends.
static size_t run_end(ps_jinja_string string, size_t at, bool space)
{
    while (at < string.length) {
        size_t bytes = 0;
        const uint32_t code = ps_jinja_decode(string.data + at, string.length - at, &bytes);
        if (ps_jinja_is_space(code) != space) {
            break;
        }
        at += bytes;
    }
    return at;
}

static ps_status split_words(ps_jinja_budget *budget, ps_jinja_string string, int64_t limit,
                             ps_jinja_value *out)
{
    PS_TRY(ps_jinja_spend(budget, string.length / BYTES_PER_STEP));
    size_t at = run_end(string, 0, true);
    for (int64_t cuts = 0; at < string.length; cuts++) {
        if (limit >= 0 && cuts == limit) {
            return append_part(budget, out, string, at, string.length);
        }
        const size_t end = run_end(string, at, false);
        PS_TRY(append_part(budget, out, string, at, end));
        at = run_end(string, end, true);
    }
    return PS_OK;
}

// A word from the right is a word from the left, except for what a limit leaves together.
static ps_status split_words_from_right(ps_jinja_budget *budget, ps_jinja_string string,
                                        int64_t limit, ps_jinja_value *out)
{
    PS_TRY(split_words(budget, string, -1, out));
    ps_jinja_list *list = out->as.list;
    if (limit < 0 || (uint64_t)limit >= list->count) {
        return PS_OK;
    }
    const size_t joined = list->count - (size_t)limit;
    const ps_jinja_string last = list->items[joined - 1].as.string;
    const size_t end = (size_t)(last.data - string.data) + last.length;
    list->items += joined - 1;
    list->count -= joined - 1;
    list->capacity -= joined - 1;
    list->items[0] = ps_jinja_of_string(ps_jinja_cut(string, 0, end));
    return PS_OK;
}

ps_status ps_jinja_split(ps_jinja_budget *budget, ps_jinja_string string,
                         const ps_jinja_string *separator, int64_t limit, bool from_right,
                         ps_jinja_value *out)
{
    PS_TRY(ps_jinja_list_create(budget, PS_JINJA_PLAIN, 0, out));
    if (separator == NULL) {
        return from_right ? split_words_from_right(budget, string, limit, out)
                          : split_words(budget, string, limit, out);
    }
    if (separator->length == 0) {
        return ps_jinja_fail(budget, PS_INVALID, "a str cannot be split at an empty separator");
    }
    return from_right ? split_at_from_right(budget, string, *separator, limit, out)
                      : split_at(budget, string, *separator, limit, out);
}

// Bytes of the line break at text[0]: 0 for none, 2 for CR LF.
static size_t line_break_bytes(const char *text, size_t length)
{
    size_t bytes = 0;
    const uint32_t code = ps_jinja_decode(text, length, &bytes);
    if (code == '\r' && length > 1 && text[1] == '\n') {
        return 2;
    }
    const bool is_break = (code >= 10 && code <= 13) || (code >= 28 && code <= 30) ||
                          code == 0x85 || code == 0x2028 || code == 0x2029;
    return is_break ? bytes : 0;
}

ps_status ps_jinja_split_lines(ps_jinja_budget *budget, ps_jinja_string string, bool keep_ends,
                               ps_jinja_value *out)
{
    PS_TRY(ps_jinja_spend(budget, string.length / BYTES_PER_STEP));
    PS_TRY(ps_jinja_list_create(budget, PS_JINJA_PLAIN, 0, out));
    size_t begin = 0;
    for (size_t at = 0; at < string.length;) {
        const size_t bytes = line_break_bytes(string.data + at, string.length - at);
        if (bytes > 0) {
            PS_TRY(append_part(budget, out, string, begin, keep_ends ? at + bytes : at));
            begin = at + bytes;
        }
        at += bytes > 0 ? bytes : 1;
    }
    return begin < string.length ? append_part(budget, out, string, begin, string.length) : PS_OK;
}

static bool begins_word_behind(uint32_t code, ps_jinja_case how)
{
    switch (how) {
    case PS_JINJA_TITLE_METHOD:
        return ps_jinja_upper(code) == code && ps_jinja_lower(code) == code;
    case PS_JINJA_TITLE_FILTER:
        return ps_jinja_is_space(code) || (code < 0x80 && code > 0 && strchr("-({[<", (int)code));
    default:
        return false;
    }
}

// Writes one character in the other case; the sharp s is the one letter in use that becomes two.
static size_t convert_character(uint32_t code, bool up, bool all_up, char out[4])
{
    if (code == 0xDF && up) {
        memcpy(out, all_up ? "SS" : "Ss", 2);
        return 2;
    }
    return ps_utf8_encode(up ? ps_jinja_upper(code) : ps_jinja_lower(code), out);
}

ps_status ps_jinja_convert_case(ps_jinja_budget *budget, ps_jinja_string string, ps_jinja_case how,
                                ps_jinja_value *out)
{
    ps_jinja_text text = {0};
    bool begins = how != PS_JINJA_LOWER;
    PS_TRY(ps_jinja_spend(budget, string.length / 8));
    for (size_t at = 0; at < string.length;) {
        size_t bytes = 0;
        const uint32_t code = ps_jinja_decode(string.data + at, string.length - at, &bytes);
        char converted[4];
        const size_t length = convert_character(code, begins, how == PS_JINJA_UPPER, converted);
        // One character has one mark, however many bytes it has on the other side.
        const bool trusted = string.marks == NULL ? string.trusted : string.marks[at] != 0;
        PS_TRY(ps_jinja_text_add_bytes(budget, &text, converted, length, trusted));
        begins = how == PS_JINJA_UPPER || begins_word_behind(code, how);
        at += bytes;
    }
    *out = ps_jinja_text_finish(&text);
    return PS_OK;
}
