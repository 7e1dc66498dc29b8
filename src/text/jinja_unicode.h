// text/jinja_unicode.h - code points, as far as templates meet them.
#ifndef PS_TEXT_JINJA_UNICODE_H
#define PS_TEXT_JINJA_UNICODE_H

#include "base/memory.h"

// Reads one code point at text[0] and sets *out_bytes (1..4). U+FFFD, and one byte, for what is
// not UTF-8. length > 0.
uint32_t ps_jinja_decode(const char *text, size_t length, size_t *out_bytes);

// The byte index of the first byte that is not UTF-8, or the length.
size_t ps_jinja_valid_bytes(ps_str text);

// What Python's str.isspace says.
bool ps_jinja_is_space(uint32_t code);

// Whether Python's repr shows the character as it is. Exact for assigned characters of the basic
// plane; unassigned ones count as printable.
bool ps_jinja_is_printable(uint32_t code);

// Simple case mappings of the C library's UTF-8 locale (ASCII alone where there is none).
uint32_t ps_jinja_upper(uint32_t code);
uint32_t ps_jinja_lower(uint32_t code);

// How many bytes of white space text begins with, and ends with.
size_t ps_jinja_space_prefix(ps_str text);
size_t ps_jinja_space_suffix(ps_str text);

#endif
