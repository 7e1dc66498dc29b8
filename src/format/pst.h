// format/pst.h - compiled model files (.pst): packed weights that are mapped, not copied.
//
// A file, little endian, offsets from its first byte:
//
//     page 0     ps_pst_header: magic, version, layout, sizes, fingerprint, table of sections
//     gguf-head  what stands before the tensor data in the GGUF file, byte for byte: tokenizer,
//                template, hyperparameters and shapes are read from it by format/gguf.h; of a
//                split file that of each part, one behind the other
//     weights    table of ps_pst_entry, sorted by name
//     data       the weights as base/layout.h packs them, each at a multiple of 64 bytes, and
//                behind them those of experts; the section starts at a multiple of 4096
//     experts    table of ps_pst_stack_entry, one a layer with experts, in the order of data;
//                missing where there are none
//     expert-sums  the checksum of each expert's record, u64, layer after layer
//     plans      may be missing: a plan file (docs/plan-text.md), byte for byte
//
// An expert is one record, so that one read fetches all of it: its gate, up and down matrices one
// behind the other, each at a multiple of 64 bytes. Records start at multiples of 4096 bytes, those
// of one layer equally far apart.
//
// Readers ignore sections that they do not know and refuse a file that lacks one of the first
// three.
//
// A file is hostile until it has been opened: then every entry lies in its section or its record,
// has a unique name and the type of the head's tensor of that name. Whether shapes are those of a
// graph is the engine's to check. Checksums (XXH3) are compared by ps_pst_verify alone, because
// that reads the whole file; they find damage, not forgery.
//
// Threads: an open file is never written; any number of threads may read it at once.
#ifndef PS_FORMAT_PST_H
#define PS_FORMAT_PST_H

#include "format/gguf.h"

#define PS_PST_VERSION 2u
#define PS_PST_SECTIONS_MAX 64u
#define PS_PST_STACK_WEIGHTS_MAX 3u // gate, up, down

typedef struct ps_pst ps_pst;
typedef struct ps_pst_weight ps_pst_weight;

// The experts of one layer, a record each.
typedef struct ps_pst_stack {
    uint32_t experts;      // > 0
    uint32_t weight_count; // 1 to PS_PST_STACK_WEIGHTS_MAX; 0: nobody uses it
    const ps_pst_weight *weights[PS_PST_STACK_WEIGHTS_MAX]; // by name
    const void *data;                                       // the record of expert 0,
    uint64_t offset_bytes;     //   which is there in the file, a multiple of 4096
    uint64_t stride_bytes;     // from one record to the next; a multiple of 4096
    uint64_t record_bytes;     // that are used of each
    const uint64_t *checksums; // [experts] of record_bytes
} ps_pst_stack;

struct ps_pst_weight {
    const char *name;
    ps_dtype dtype;
    uint32_t outputs, inputs;
    uint32_t experts;             // 0: one matrix
    bool is_vector;               // f32 [inputs], not packed
    const void *data;             // of experts the first one's; the others' are
    uint64_t expert_stride_bytes; // so far apart
    uint64_t size_bytes;          // of all matrices together, without what is between them
    // Filled in by the reader:
    uint64_t offset_bytes;     // of data in the file
    const ps_pst_stack *stack; // NULL: none
    uint64_t checksum;         // of data; 0 in a stack
};

// Maps a compiled file and checks its structure. Touches header, head and table.
//
// PS_NOT_FOUND, PS_IO  as ps_gguf_open
// PS_INVALID           no compiled file, damaged, or cut short
// PS_UNSUPPORTED       a newer version, or another layout of weights: to be compiled again
// PS_NO_MEMORY
//
// Messages start with the path. On failure *out is untouched.
PS_MUST_USE ps_status ps_pst_open(const char *path, ps_pst **out);

// The same for bytes in memory, which must outlive *out; data is aligned as well as they are.
PS_MUST_USE ps_status ps_pst_open_bytes(const void *bytes, size_t size_bytes, ps_pst **out);
void ps_pst_close(ps_pst *file); // NULL is allowed

uint64_t ps_pst_size_bytes(const ps_pst *file);

// The GGUF file's head, owned by `file`. Tensors that are vectors have their data, others NULL.
ps_gguf *ps_pst_gguf(const ps_pst *file);

// The section "plans", unchecked text in the file; length 0: there is none.
ps_str ps_pst_plans(const ps_pst *file);

uint32_t ps_pst_weight_count(const ps_pst *file);
const ps_pst_weight *ps_pst_weight_at(const ps_pst *file, uint32_t index);     // index < count
const ps_pst_weight *ps_pst_weight_find(const ps_pst *file, const char *name); // NULL when absent

uint32_t ps_pst_stack_count(const ps_pst *file);
const ps_pst_stack *ps_pst_stack_at(const ps_pst *file, uint32_t index); // index < count

// Asks the system to read all weights ahead: a hint. May take as long as reading them does.
void ps_pst_read_ahead(const ps_pst *file);

typedef struct ps_pst_listener {
    // Called for each part that differs: what is "header", "section", "weight" or "expert", name
    // which one; of an expert "3 of blk.7".
    void (*report)(void *context, const char *what, const char *name);
    // Called with 0..1, once a weight or an expert; NULL: not called.
    void (*progress)(void *context, double fraction);
    void *context; // of both
} ps_pst_listener;

// Reads the whole file and compares all checksums. Answers how many differ.
uint32_t ps_pst_verify(const ps_pst *file, const ps_pst_listener *listener);

// ---- writing

// Weights of equally many experts that become records.
typedef struct ps_pst_stack_content {
    uint32_t weights[PS_PST_STACK_WEIGHTS_MAX]; // in their order in a record
    uint32_t weight_count;
} ps_pst_stack_content;

typedef struct ps_pst_content {
    const ps_gguf *gguf;          // a whole file, no head
    const ps_pst_weight *weights; // [weight_count], sorted by name
    uint32_t weight_count;
    const ps_pst_stack_content *stacks; // [stack_count]; each weight in one at most
    uint32_t stack_count;
    ps_str plans; // a plan file; length 0: none
    bool replace; // a file of that name
    // Called with 0..1; NULL: not called.
    void (*progress)(void *context, double fraction);
    void *progress_context;
    const volatile bool *cancel; // looked at every 16 MiB; NULL: never
} ps_pst_content;

// Writes `path`, whole or not at all (format/new_file.h).
//
// PS_INVALID    as ps_new_file_check
// PS_IO         the system refuses, or the disk is full
// PS_CANCELLED
//
// Messages start with the path.
PS_MUST_USE ps_status ps_pst_write(const char *path, const ps_pst_content *content,
                                   uint64_t *out_bytes);

// ---- either kind

// A model file of either kind, told apart by its first bytes.
typedef struct ps_model_file {
    ps_gguf *gguf;
    ps_pst *pst; // NULL: a GGUF file
} ps_model_file;

// As ps_gguf_open and ps_pst_open.
PS_MUST_USE ps_status ps_model_file_open(const char *path, ps_model_file *out);
void ps_model_file_close(ps_model_file *file);
uint64_t ps_model_file_bytes(const ps_model_file *file);

#endif
