// text/jinja_json.h - JSON to template values and back. The one file of text/ that knows jansson.
#ifndef PS_TEXT_JINJA_JSON_H
#define PS_TEXT_JINJA_JSON_H

#include "text/jinja_text.h"

// Reads one JSON object, the variables of a rendering, into a dict (members keep their order, of
// equal names the last one counts).
//
// Everything inside the members "messages", "tools" and "documents" is untrusted; the other
// members are the caller's own and trusted. One exception: a message's "role" that is a known role
// (system, user, assistant, tool, ...) is trusted, because templates build special tokens of it.
//
// PS_INVALID for what is no JSON object, with the place; PS_EXHAUSTED at a limit of the budget.
PS_MUST_USE ps_status ps_jinja_read_context(ps_jinja_budget *budget, ps_str json,
                                            ps_jinja_value *out);

// How json.dumps is asked to write.
typedef struct ps_jinja_json_style {
    const char *indent; // what one level is indented by; NULL: all on one line
    size_t indent_bytes;
    ps_str item_separator; // ", " or ","
    ps_str key_separator;  // ": "
    bool ascii;            // \uXXXX for everything else
    bool sort_keys;
} ps_jinja_json_style;

// What Python's json.dumps writes, as one untrusted string.
// PS_INVALID for a value or a key that JSON does not have.
PS_MUST_USE ps_status ps_jinja_write_json(ps_jinja_budget *budget, const ps_jinja_value *value,
                                          const ps_jinja_json_style *style, ps_jinja_value *out);

#endif
