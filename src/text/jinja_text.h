// text/jinja_text.h - strings of a template: building, printing and Python's string operations.
#ifndef PS_TEXT_JINJA_TEXT_H
#define PS_TEXT_JINJA_TEXT_H

#include "text/jinja_value.h"

// Text under construction; zero-initialised is empty. Grows in the budget's arena, up to the
// budget's output_bytes (PS_EXHAUSTED behind it).
typedef struct ps_jinja_text {
    char *data;     // [length]
    uint8_t *marks; // [length], 1: trusted
    size_t length;
    size_t capacity;
} ps_jinja_text;

PS_MUST_USE ps_status ps_jinja_text_add(ps_jinja_budget *budget, ps_jinja_text *text,
                                        ps_jinja_string string);
PS_MUST_USE ps_status ps_jinja_text_add_bytes(ps_jinja_budget *budget, ps_jinja_text *text,
                                              const char *bytes, size_t length, bool trusted);
// The text as a string that shares its memory; nothing may be added afterwards.
ps_jinja_value ps_jinja_text_finish(const ps_jinja_text *text);

// Python's str(): a string as it is, everything else as Python prints it, and undefined as "".
// Numbers, booleans and None print as trusted text, lists and dicts as untrusted text.
// PS_UNSUPPORTED for what Python prints with an address (functions, generators).
PS_MUST_USE ps_status ps_jinja_to_string(ps_jinja_budget *budget, const ps_jinja_value *value,
                                         ps_jinja_string *out);
// Python's repr(), appended as untrusted text.
PS_MUST_USE ps_status ps_jinja_repr(ps_jinja_budget *budget, const ps_jinja_value *value,
                                    ps_jinja_text *text);
// The shortest digits that read back as the same double, written as Python writes them.
void ps_jinja_format_real(double real, char out[32]);

PS_MUST_USE ps_status ps_jinja_concat(ps_jinja_budget *budget, ps_jinja_string a, ps_jinja_string b,
                                      ps_jinja_value *out);
PS_MUST_USE ps_status ps_jinja_repeat(ps_jinja_budget *budget, ps_jinja_string string,
                                      int64_t times, ps_jinja_value *out);

// Length in code points, and the byte index of a code point (count or more: the length).
size_t ps_jinja_characters(ps_jinja_string string);
size_t ps_jinja_byte_index(ps_jinja_string string, size_t character);

typedef enum ps_jinja_side {
    PS_JINJA_LEFT = 1,
    PS_JINJA_RIGHT = 2,
    PS_JINJA_BOTH = 3,
} ps_jinja_side;

// Without white space, or (chars not NULL) without any of those characters, at the ends.
PS_MUST_USE ps_status ps_jinja_strip(ps_jinja_budget *budget, ps_jinja_string string,
                                     const ps_jinja_string *chars, ps_jinja_side side,
                                     ps_jinja_string *out);

// At most `limit` replacements, all when it is negative.
PS_MUST_USE ps_status ps_jinja_replace(ps_jinja_budget *budget, ps_jinja_string string,
                                       ps_jinja_string from, ps_jinja_string to, int64_t limit,
                                       ps_jinja_value *out);

// A list of parts between separators; separator NULL: between runs of white space, without empty
// parts. At most `limit` cuts, all when it is negative; from the right when `from_right`.
PS_MUST_USE ps_status ps_jinja_split(ps_jinja_budget *budget, ps_jinja_string string,
                                     const ps_jinja_string *separator, int64_t limit,
                                     bool from_right, ps_jinja_value *out);
PS_MUST_USE ps_status ps_jinja_split_lines(ps_jinja_budget *budget, ps_jinja_string string,
                                           bool keep_ends, ps_jinja_value *out);

typedef enum ps_jinja_case {
    PS_JINJA_UPPER,
    PS_JINJA_LOWER,
    PS_JINJA_CAPITALIZE,   // the first character up, the rest down
    PS_JINJA_TITLE_METHOD, // a word begins behind everything that has no case
    PS_JINJA_TITLE_FILTER, // a word begins behind white space and -({[<
} ps_jinja_case;

PS_MUST_USE ps_status ps_jinja_convert_case(ps_jinja_budget *budget, ps_jinja_string string,
                                            ps_jinja_case how, ps_jinja_value *out);

#endif
