// cli/json_writer.h - JSON documents, written as they come into a buffer.
//
// Commas, indentation and escapes are the writer's; that objects and arrays are closed, and that
// members of objects have keys, is the caller's. The first failure (memory) stays in `status` and
// makes every later call do nothing, so it is looked at once, at the end. Not thread-safe.
//
//     ps_json_writer json = {0};
//     ps_json_begin(&json, NULL, '{');
//     ps_json_string(&json, "text", ps_str_of("hello"));
//     ps_json_end(&json, '}');
#ifndef PS_CLI_JSON_WRITER_H
#define PS_CLI_JSON_WRITER_H

#include "base/memory.h"

typedef struct ps_json_writer {
    ps_buffer text; // freed by the caller
    ps_status status;
    uint32_t depth;
    bool has_items;        // of the innermost object or array
    uint32_t inline_depth; // from here on items share a line; 0: none do
} ps_json_writer;

// key: NULL in arrays and at the top. bracket: '{' or '['. `_inline` keeps all on one line.
void ps_json_begin(ps_json_writer *json, const char *key, char bracket);
void ps_json_begin_inline(ps_json_writer *json, const char *key, char bracket);
void ps_json_end(ps_json_writer *json, char bracket);

// Any bytes: what is not UTF-8 becomes U+FFFD, one for each byte.
void ps_json_string(ps_json_writer *json, const char *key, ps_str value);
void ps_json_text(ps_json_writer *json, const char *key, const char *value); // NULL: null
void ps_json_integer(ps_json_writer *json, const char *key, int64_t value);
void ps_json_number(ps_json_writer *json, const char *key, double value);   // not finite: null
void ps_json_raw(ps_json_writer *json, const char *key, const char *value); // JSON already
void ps_json_bool(ps_json_writer *json, const char *key, bool value);
void ps_json_ids(ps_json_writer *json, const char *key, const int32_t *ids, size_t count);

// Writes the document and a newline to stdout, frees it, and answers the writer's status.
PS_MUST_USE ps_status ps_json_print(ps_json_writer *json);

#endif
