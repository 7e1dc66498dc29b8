// format/gguf.h - reads GGUF model files: metadata, the table of tensors, and their bytes.
//
// Source of the format: the GGUF specification of the ggml project (versions 2 and 3, little
// endian). A file is: header, metadata (key, type, value), tensor table (name, dimensions, type,
// offset), padding, data.
//
// A file is hostile until it has been opened. ps_gguf_open checks everything once, in time
// O(n log n) and memory bounded by the size of the file: every count, length, name, type, shape,
// offset and nested item. After it returned PS_OK no call below can read outside the file, whatever
// the file holds. What values *mean* (a head count of zero, a token id past the vocabulary) is the
// caller's to check.
//
// A model may be split into parts, files named NAME-00001-of-0000N.gguf and so on: GGUF files whose
// keys split.no, split.count and split.tensors.count say which part of what they are. The first one
// is opened, finds the others beside it, and stands for all: its metadata and the tensors of every
// part are one file object.
//
// Refused, beyond what the format itself forbids: big-endian files, version 1, arrays in arrays,
// the same key or tensor name twice, names that are empty, not UTF-8 or hold control characters,
// tensors that overlap or stand out of order, parts that are missing, do not count as the first one
// does or have other metadata, and what passes the limits below.
//
// Threads: an open file is never written; any number of threads may read it at once.
// Ownership: every pointer and ps_str handed out is borrowed and valid until ps_gguf_close.
#ifndef PS_FORMAT_GGUF_H
#define PS_FORMAT_GGUF_H

#include "base/dtype.h"

#define PS_GGUF_ENTRIES_MAX ((uint64_t)1 << 20)      // keys, and tensors
#define PS_GGUF_ITEMS_MAX ((uint64_t)1 << 30)        // of one array
#define PS_GGUF_STRING_BYTES_MAX ((uint64_t)1 << 30) // so a length always fits an int32_t
#define PS_GGUF_KEY_BYTES_MAX 65535u
#define PS_GGUF_NAME_BYTES_MAX 63u                 // of a tensor
#define PS_GGUF_FILE_BYTES_MAX ((uint64_t)1 << 56) // that a head may claim, so that sums fit
#define PS_GGUF_PARTS_MAX 1024u                    // of a split file
#define PS_GGUF_DIMENSIONS_MAX 4u
#define PS_GGUF_ALIGNMENT_DEFAULT 32u
#define PS_GGUF_ALIGNMENT_BYTES_MIN 8u
#define PS_GGUF_ALIGNMENT_BYTES_MAX 65536u

typedef struct ps_gguf ps_gguf;

// One tensor. Its bytes are rows of dimensions[0] values, a row being whole blocks of its type.
typedef struct ps_gguf_tensor {
    const char *name;      // NUL-terminated UTF-8 without control characters, 1..63 bytes
    ps_dtype dtype;        // PS_DTYPE_COUNT: known to GGUF, but this build does not compute with it
    const char *type_name; // as GGUF calls it: "Q4_K", "IQ2_XXS"; static
    uint32_t dimension_count;                    // 1..4
    uint64_t dimensions[PS_GGUF_DIMENSIONS_MAX]; // [0] is the fastest; absent ones are 1; none is 0
    const void *data;    // in the file, aligned as well as the file is; NULL in a head
    uint64_t size_bytes; // all of them in the file; > 0; no two tensors share a byte
} ps_gguf_tensor;

// Maps a file and checks it. The bytes of the tensors stay on disk until somebody reads them; the
// system is told that reading will be sequential. Cost: a pass over metadata and tensor table
// (a vocabulary of 262,144 tokens: some milliseconds).
//
// PS_NOT_FOUND    no such file, or no such part
// PS_IO           the system refuses to open or map it
// PS_INVALID      not a GGUF file, damaged, cut short (the message names the first tensor that does
//                 not fit and the bytes that are missing), not the first part of a split file (the
//                 message names that), parts that do not go together, or beyond a limit above
// PS_UNSUPPORTED  a version, byte order or tensor type that is not read here
// PS_NO_MEMORY
//
// Messages start with the path. On failure *out is untouched. A file that shrinks while it is open
// raises SIGBUS on access, as every mapped file does; do not write into a model in use.
PS_MUST_USE ps_status ps_gguf_open(const char *path, ps_gguf **out);

// The same for bytes in memory, which must outlive the file object. `bytes` may have any alignment;
// the tensors' data is then aligned no better. May be NULL when size_bytes is 0.
PS_MUST_USE ps_status ps_gguf_open_bytes(const void *bytes, size_t size_bytes, ps_gguf **out);

// The same for all parts [count > 0] of a split file, in order. The array itself is not kept.
PS_MUST_USE ps_status ps_gguf_open_parts(const ps_str *parts, uint32_t count, ps_gguf **out);

// Of the file that a head was taken from.
typedef struct ps_gguf_origin {
    uint64_t size_bytes;
    uint64_t fingerprint;
} ps_gguf_origin;

// Opens what ps_gguf_head gave: a file without the data of its tensors. All checks are the same,
// sizes against origin->size_bytes; `data` of every tensor is NULL, and the fingerprint is the
// origin's.
PS_MUST_USE ps_status ps_gguf_open_head(const void *bytes, size_t size_bytes,
                                        const ps_gguf_origin *origin, ps_gguf **out);

// Gives a tensor of a head its data back: all size_bytes of the tensor `name`, which is there.
// Before the file is shared with other threads.
void ps_gguf_tensor_attach(ps_gguf *file, const char *name, const void *data);

// The bytes before the data: header, metadata and tensor table; of a split file those of all parts,
// one behind the other.
ps_str ps_gguf_head(const ps_gguf *file);

void ps_gguf_close(ps_gguf *file); // NULL is allowed

uint64_t ps_gguf_size_bytes(const ps_gguf *file); // of the whole file, all parts together
uint32_t ps_gguf_part_count(const ps_gguf *file); // 1: not split
uint32_t ps_gguf_version(const ps_gguf *file);    // 2 or 3

// Tensors in file order, part by part, which is also the order of their bytes. May be 0 (vocabulary
// only).
uint32_t ps_gguf_tensor_count(const ps_gguf *file);
const ps_gguf_tensor *ps_gguf_tensor_at(const ps_gguf *file, uint32_t index); // index < count

// NULL when absent. O(log count): names are kept sorted and not hashed, so that no choice of names
// makes opening or looking up slow.
const ps_gguf_tensor *ps_gguf_tensor_find(const ps_gguf *file, const char *name);

// Where the data of a tensor starts, for reading pieces of it without the mapping.
typedef struct ps_gguf_place {
    const char *path; // of the file, or of the part; NULL: bytes in memory, or a head
    uint64_t offset_bytes;
} ps_gguf_place;

// Places in one file have the same pointer as path.
ps_gguf_place ps_gguf_tensor_place(const ps_gguf *file, const ps_gguf_tensor *tensor);

// Metadata by key. Three outcomes can be told apart, and on the last two *out is untouched:
//
// PS_OK         *out holds the value
// PS_NOT_FOUND  the file has no such key
// PS_INVALID    the key holds another type, or a value out of range; the message names the key,
//               what it holds and what is wanted

// Any integer type that holds a value >= 0, or a bool as 0 or 1.
PS_MUST_USE ps_status ps_gguf_get_u64(const ps_gguf *file, const char *key, uint64_t *out);

// f32, f64 or any integer type, rounded to nearest; neither infinite nor NaN afterwards.
PS_MUST_USE ps_status ps_gguf_get_f32(const ps_gguf *file, const char *key, float *out);

// bool, or an integer that is 0 or 1.
PS_MUST_USE ps_status ps_gguf_get_bool(const ps_gguf *file, const char *key, bool *out);

// Any bytes, at most PS_GGUF_STRING_BYTES_MAX of them: not checked for UTF-8, may hold NUL.
PS_MUST_USE ps_status ps_gguf_get_string(const ps_gguf *file, const char *key, ps_str *out);

// Arrays. PS_INVALID also when the key holds a scalar.
PS_MUST_USE ps_status ps_gguf_get_array_count(const ps_gguf *file, const char *key,
                                              uint64_t *out_count);

// out [count]. The array must have exactly `count` items, each acceptable to the scalar function of
// the same type; a scalar stands for `count` equal items, since per-layer values are stored either
// way. When an item is refused, the items of out before it are already overwritten.
PS_MUST_USE ps_status ps_gguf_get_u64_array(const ps_gguf *file, const char *key, uint64_t *out,
                                            uint64_t count);
PS_MUST_USE ps_status ps_gguf_get_f32_array(const ps_gguf *file, const char *key, float *out,
                                            uint64_t count);
PS_MUST_USE ps_status ps_gguf_get_i32_array(const ps_gguf *file, const char *key, int32_t *out,
                                            uint64_t count);

// out [count], borrowed. The array must have exactly `count` items; a scalar is refused.
PS_MUST_USE ps_status ps_gguf_get_string_array(const ps_gguf *file, const char *key, ps_str *out,
                                               uint64_t count);

// Keys in file order. NUL-terminated UTF-8 without control characters.
uint32_t ps_gguf_key_count(const ps_gguf *file);
const char *ps_gguf_key_at(const ps_gguf *file, uint32_t index); // index < count

// Appends the value of key `index` (< count) as one short line of UTF-8 without newline:
//   f32 1e-05            u32 30           bool true
//   string "a short one" string "the first bytes of a long one..." (2413 bytes)
//   string[49152] "a", "b", "c", ...
// Control characters and bytes that are not UTF-8 are shown as \xNN. PS_EXHAUSTED or PS_NO_MEMORY
// come from `out`, which may then hold a part of the line.
PS_MUST_USE ps_status ps_gguf_describe(const ps_gguf *file, uint32_t index, ps_buffer *out);

// What makes a model itself, for plans, profiles and ranks: header, metadata and tensor table as
// they stand in the file or in all its parts, then the first 4 KiB of each tensor, hashed with XXH3
// (64 bits, each piece seeded with the hash of the pieces before). Two files with one fingerprint
// are taken for the same model; it is no protection against forgery. Reads the disk: 4 KiB a
// tensor. It never fails.
uint64_t ps_gguf_fingerprint(const ps_gguf *file);

// Lets the system take back the pages of the mapping that [data, data + size_bytes), a part of a
// tensor's data, touches, and those that it has mapped around them: after copying, so that file and
// copy are not both in memory. They are read again when touched.
void ps_gguf_forget(const ps_gguf *file, const void *data, uint64_t size_bytes);

#endif
