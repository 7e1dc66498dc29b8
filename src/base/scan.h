// base/scan.h - reads the line-based text forms (graphs, plans, profiles), and writes their words.
//
// A text is lines; a line is words, numbers, quoted strings and marks (any other byte), with blanks
// between them where they would run together. '#' starts a comment outside of quotes. Empty lines
// do not count. The scanner borrows the text and allocates nothing; every call is linear in what it
// reads, and every failure is PS_INVALID with "line N: " in front. Not thread-safe.
//
//     ps_scan scan = ps_scan_start(text);
//     while (ps_scan_line(&scan)) {
//         ps_str key;
//         uint64_t bytes;
//         PS_TRY(ps_scan_word(&scan, "a key", &key));
//         PS_TRY(ps_scan_mark(&scan, '='));
//         PS_TRY(ps_scan_u64(&scan, UINT32_MAX, &bytes));
//         PS_TRY(ps_scan_line_end(&scan));
//     }
#ifndef PS_BASE_SCAN_H
#define PS_BASE_SCAN_H

#include "base/memory.h"

typedef struct ps_scan {
    ps_str rest;          // of the text, after the current line
    ps_str line;          // what is left of the current line
    uint32_t line_number; // of the current line, from 1
} ps_scan;

ps_scan ps_scan_start(ps_str text);

// Goes to the next line that holds more than blanks and a comment. False at the end of the text.
// What is left of the current line is skipped: ps_scan_line_end first.
bool ps_scan_line(ps_scan *scan);

// True when nothing is left on the line but blanks and a comment.
bool ps_scan_at_end(ps_scan *scan);
PS_MUST_USE ps_status ps_scan_line_end(ps_scan *scan);

// The next byte of the line after blanks, not consumed; '\0' at its end.
char ps_scan_peek(ps_scan *scan);

// Consumes `mark` if it comes next (after blanks).
bool ps_scan_try_mark(ps_scan *scan, char mark);
PS_MUST_USE ps_status ps_scan_mark(ps_scan *scan, char mark);

// A word: letters, digits, '_', '.', '-', '/', starting with none of the last two. Borrowed from
// the text. `what` is for the message: "a key".
PS_MUST_USE ps_status ps_scan_word(ps_scan *scan, const char *what, ps_str *out);

// Consumes the word `word` if it comes next as a whole word.
bool ps_scan_try_word(ps_scan *scan, const char *word);

// A word or a quoted string, without its quotes and escapes (\" \\ \n \t \xHH), NUL-terminated in
// out[capacity]; a NUL inside or a longer string is an error.
PS_MUST_USE ps_status ps_scan_string(ps_scan *scan, const char *what, char *out, size_t capacity);

// A word that is one of words[count]; the message for others names the nearest. NULL entries are
// skipped.
PS_MUST_USE ps_status ps_scan_choice(ps_scan *scan, const char *what, const char *const *words,
                                     uint32_t count, uint32_t *out_index);

// Decimal digits, at most `max`. No sign.
PS_MUST_USE ps_status ps_scan_u64(ps_scan *scan, uint64_t max, uint64_t *out);
PS_MUST_USE ps_status ps_scan_u32(ps_scan *scan, uint32_t max, uint32_t *out);

// A finite decimal number; hexadecimal, infinity and NaN are errors. What ps_buffer_f32 and
// ps_buffer_double wrote comes back bit for bit.
PS_MUST_USE ps_status ps_scan_f32(ps_scan *scan, float *out);
PS_MUST_USE ps_status ps_scan_double(ps_scan *scan, double *out);

// PS_INVALID with "line N: " before the message.
#define ps_scan_fail(scan, ...) (ps_scan_fail_at((scan), __VA_ARGS__), PS_INVALID)
void ps_scan_fail_at(const ps_scan *scan, const char *format, ...) PS_PRINTF(2, 3);
// The same in front of the message that is already there, with its code.
PS_MUST_USE ps_status ps_scan_prefix(const ps_scan *scan, ps_status code);

// Write what ps_scan_string, _f32 and _double read. Strings are quoted only where they must be.
PS_MUST_USE ps_status ps_buffer_string(ps_buffer *buffer, ps_str string);
PS_MUST_USE ps_status ps_buffer_f32(ps_buffer *buffer, float value);
PS_MUST_USE ps_status ps_buffer_double(ps_buffer *buffer, double value);

// The one of words[count] with the smallest edit distance (insert, delete, replace, swap of
// neighbours) from `word`, the first of equals; NULL when there are none. NULL entries are skipped.
// Words are compared in their first 64 bytes; O(64 * 64 * count).
const char *ps_nearest(ps_str word, const char *const *words, uint32_t count);

#endif
