// engine/json_fields.h - a struct as a JSON object, by a table of its fields.
#ifndef PS_ENGINE_JSON_FIELDS_H
#define PS_ENGINE_JSON_FIELDS_H

#include "base/status.h"
#include "engine/json_values.h"

typedef enum ps_json_kind {
    PS_JSON_TEXT, // char [highest], no control characters
    PS_JSON_U32,
    PS_JSON_U64,
    PS_JSON_F64,
    PS_JSON_BOOL,
    // uint32_t, one of an enum: its name. No range.
    PS_JSON_COMM_SHAPE,
    PS_JSON_JOIN,
    PS_JSON_POLICY,
    PS_JSON_COMM_SCHEDULE,
} ps_json_kind;

typedef struct ps_json_field {
    const char *key;
    ps_json_kind kind;
    size_t offset; // in the struct
    double lowest, highest;
} ps_json_field;

#define PS_JSON_FIELDS_MAX 64u
#define PS_JSON_FILE_BYTES_MAX ((size_t)8 << 20)

// Reads an object of these keys and no others. With `all` every one has to be there; otherwise what
// is left out stays as it is. On failure *out may hold a part.
//
// PS_INVALID  no such object; the message names the key and what would be right
PS_MUST_USE ps_status ps_json_fields_read(const json_t *object, const ps_json_field *fields,
                                          size_t count, bool all, void *out);

// One value of a field. On failure *out is untouched; the message names the key.
PS_MUST_USE ps_status ps_json_value_read(const ps_json_field *field, const json_t *value,
                                         void *out);

// What a field of an enum says in the struct `from`; NULL for fields of other kinds.
const char *ps_json_value_name(const ps_json_field *field, const void *from);

// PS_INVALID: `key` is none of keys[count]; the message names the nearest.
PS_MUST_USE ps_status ps_json_refuse_key(const char *key, const char *const *keys, size_t count);

// A new reference; NULL without memory.
json_t *ps_json_fields_write(const ps_json_field *fields, size_t count, const void *from);

// PS_INVALID: two structs differ; the message names the first field, and both sides of it: X
// threads is 2, here it is 1".
PS_MUST_USE ps_status ps_json_fields_compare(const ps_json_field *fields, size_t count,
                                             const void *its, const void *here);

// Takes a member out of an object, so that what nobody takes can be refused; *out: a reference.
// PS_INVALID: it is missing.
PS_MUST_USE ps_status ps_json_take(json_t *object, const char *key, json_t **out);

// A whole text as one JSON value: a reference for json_decref. PS_INVALID names the line.
PS_MUST_USE ps_status ps_json_text_read(const char *text, size_t bytes, json_t **out);

// The same of a file of at most PS_JSON_FILE_BYTES_MAX. `wanted` names the right kind of file in
// messages, which do not name the path.
//
// PS_NOT_FOUND, PS_IO, PS_INVALID
PS_MUST_USE ps_status ps_json_file_read(const char *path, const char *wanted, json_t **out);

#endif
