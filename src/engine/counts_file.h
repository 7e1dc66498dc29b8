// engine/counts_file.h - how often a model's experts were chosen, as a file.
//
// Little endian, without gaps: the header below, then u64 expert_bytes[layers], then u64
// uses[half][phase][layers][experts] as in experts/route_counts.h, then the XXH3 of all before it.
#ifndef PS_ENGINE_COUNTS_FILE_H
#define PS_ENGINE_COUNTS_FILE_H

#include "experts/route_counts.h"

#define PS_COUNTS_MAGIC "PSCOUNTS" // 8 bytes, without NUL
#define PS_COUNTS_VERSION 1u
#define PS_COUNTS_TOKENS_MAX ((uint64_t)1 << 48) // sums of counts stay far from wrapping

typedef struct ps_counts_header {
    char magic[8];
    uint32_t version;
    uint32_t layers, experts, top_k; // of the layers that have experts
    uint32_t dim, expert_ffn;
    uint64_t fingerprint;  // of the model, as ps_model_info has it
    char model[64];        // its name; printable ASCII, NUL-padded, at least one NUL
    char quantisation[64]; // types of the experts' tensors, such as "Q4_K Q6_K"; the same
    uint64_t tokens[PS_ROUTE_HALVES][PS_ROUTES_PHASES];
} ps_counts_header;
_Static_assert(sizeof(ps_counts_header) == 200, "the header has no gaps");

typedef struct ps_counts_file {
    ps_counts_header header;
    uint64_t *expert_bytes; // [layers] packed, of gate, up and down
    ps_route_counts counts;
} ps_counts_file;

// Reads and checks all of it; memory comes from the arena. Messages name the path.
//
// PS_NOT_FOUND, PS_IO, PS_NO_MEMORY
// PS_INVALID      no such file, cut short, damaged, or it contradicts itself
// PS_UNSUPPORTED  another version
PS_MUST_USE ps_status ps_counts_file_read(const char *path, ps_arena *arena, ps_counts_file *out);

// The same of the bytes of a file; messages do not name it.
PS_MUST_USE ps_status ps_counts_file_parse(const void *bytes, uint64_t size_bytes, ps_arena *arena,
                                           ps_counts_file *out);

// PS_INVALID: the header is not that of `model`; the message has the name and fingerprint of both.
PS_MUST_USE ps_status ps_counts_file_check_model(const ps_counts_header *header,
                                                 const ps_counts_header *model);

// Writes the file, whole or not at all; magic, version and tokens of the header are its own.
// Messages name the path.
//
// PS_INVALID  `path` is there and `replace` is false, or is no regular file
// PS_IO, PS_NO_MEMORY
PS_MUST_USE ps_status ps_counts_file_write(const char *path, const ps_counts_file *file,
                                           bool replace);

#endif
