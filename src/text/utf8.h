// text/utf8.h - one code point at a time (RFC 3629: no surrogates, no overlong forms, at most
// U+10FFFF).
#ifndef PS_TEXT_UTF8_H
#define PS_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define PS_UTF8_MAX_BYTES 4

// The bytes (1..4) of the code point at the start of bytes[0..length), and the code point in
// *out_code_point. 0, and *out_code_point untouched, when there is none: empty, cut off or invalid.
size_t ps_utf8_decode(const char *bytes, size_t length, uint32_t *out_code_point);

// Writes the 1..4 bytes of a code point and answers how many. code_point <= 0x10ffff.
size_t ps_utf8_encode(uint32_t code_point, char out_bytes[PS_UTF8_MAX_BYTES]);

#endif
