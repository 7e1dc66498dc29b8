// format/gguf_internal.h - what the gguf_*.c files share.
#ifndef PS_FORMAT_GGUF_INTERNAL_H
#define PS_FORMAT_GGUF_INTERNAL_H

#include "format/gguf.h"

// The numbers are those of the file.
typedef enum ps_gguf_type {
    PS_GGUF_U8,
    PS_GGUF_I8,
    PS_GGUF_U16,
    PS_GGUF_I16,
    PS_GGUF_U32,
    PS_GGUF_I32,
    PS_GGUF_F32,
    PS_GGUF_BOOL,
    PS_GGUF_STRING,
    PS_GGUF_ARRAY,
    PS_GGUF_U64,
    PS_GGUF_I64,
    PS_GGUF_F64,
    PS_GGUF_TYPE_COUNT,
} ps_gguf_type;

typedef struct ps_gguf_type_info {
    const char *name;
    uint32_t size_bytes; // of one value; 0 for strings and arrays, which have none of their own
} ps_gguf_type_info;

const ps_gguf_type_info *ps_gguf_type_get(ps_gguf_type type);

// Shape of one tensor type of GGUF, whether or not prestage computes with it.
typedef struct ps_gguf_format {
    const char *name; // NULL: no such type
    uint32_t block_columns;
    uint32_t block_bytes; // 0: the type was once used and has been removed from GGUF
} ps_gguf_format;

ps_gguf_format ps_gguf_format_get(uint32_t id);

// One entry of the metadata. `bytes` and `count` are checked against the file at open, and so is
// every item behind them.
typedef struct ps_gguf_key {
    const char *name;
    ps_gguf_type type; // of the value, or of the items when is_array; never PS_GGUF_ARRAY
    bool is_array;
    uint64_t count;       // items of an array; 1 for a scalar
    const uint8_t *bytes; // the first item. A string is u64 length, bytes; so is a string item
} ps_gguf_key;

// A name and where it stands in its table; sorted by text, for lookups and for finding doubles.
typedef struct ps_gguf_name {
    const char *text;
    uint32_t index;
} ps_gguf_name;

struct ps_gguf {
    ps_arena arena;   // holds this object too
    const char *path; // in the arena; NULL: opened from memory
    const uint8_t *bytes;
    uint64_t size_bytes; // of the whole file
    uint64_t held_bytes; // of them, from the first on, stand at `bytes`
    bool is_mapped;
    bool is_head;         // the data of tensors is absent
    uint64_t fingerprint; // of a head
    uint32_t version;
    uint32_t key_count;
    uint32_t tensor_count;
    ps_gguf_key *keys;          // [key_count], in file order
    ps_gguf_name *key_names;    // [key_count], sorted
    ps_gguf_tensor *tensors;    // [tensor_count], in file order
    ps_gguf_name *tensor_names; // [tensor_count], sorted
    uint64_t table_end;         // bytes of header, metadata and tensor table
    ps_gguf **parts;            // [part_count] of a split file; owned
    uint32_t part_count;        // 0: not split
};

// An object for the bytes, of which nothing has been read; NULL: no memory. Bytes that are mapped
// (is_mapped) become its own.
ps_gguf *ps_gguf_create(const void *bytes, uint64_t size_bytes);

// Read one file, whole or a part; messages do not name it. origin: of a head; NULL: all of a file.
PS_MUST_USE ps_status ps_gguf_open_one(const char *path, ps_gguf **out);
PS_MUST_USE ps_status ps_gguf_open_one_bytes(const void *bytes, uint64_t size_bytes,
                                             const ps_gguf_origin *origin, ps_gguf **out);

// What follows the first part of a split file. One of them is set.
typedef struct ps_gguf_rest {
    const char *path;    // of the first part: the others stand beside it
    const ps_str *parts; // [count] the parts in memory, the first one too
    uint32_t count;
    const ps_gguf_origin *origin; // the heads of the other parts stand behind that of the first one
} ps_gguf_rest;

// Gives `first` itself when it is not split, otherwise what it and the rest are together. Takes it,
// also on failure.
PS_MUST_USE ps_status ps_gguf_join(ps_gguf *first, const ps_gguf_rest *rest, ps_gguf **out);

// Fills everything from `version` on, from what stands before it.
PS_MUST_USE ps_status ps_gguf_parse(ps_gguf *file);

// Sorts by text. Gives the second of two that are equal, which is behind the first; NULL: none is.
const ps_gguf_name *ps_gguf_sort_names(ps_gguf_name *names, uint32_t count);

// The entry of `names` [count] with that text, or NULL.
const ps_gguf_name *ps_gguf_name_find(const ps_gguf_name *names, uint32_t count, const char *text);
const ps_gguf_key *ps_gguf_key_find(const ps_gguf *file, const char *key); // NULL when absent

// Little-endian, from any alignment.
uint64_t ps_gguf_load_u64(const uint8_t *bytes);

// Bytes of the UTF-8 character at text[0], or 0 when there is none within `left` bytes or when it
// is a control character, which a terminal could take for a command.
uint32_t ps_gguf_shown_length(const uint8_t *text, uint64_t left);

#endif
