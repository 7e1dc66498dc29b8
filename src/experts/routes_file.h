// experts/routes_file.h - route logs: which experts each row of each MoE layer call took.
//
// A log is a header, blocks, and a block without calls that ends it; numbers are little endian.
//
//     header  "PRESTRTE", version u32, layers u32, experts u32, top_k u32, fingerprint u64,
//             XXH3 of the 32 bytes before u64
//     block   payload bytes u32, calls u32, XXH3 of the payload u64 with the block's offset in the
//             file as its seed; the payload is calls, one behind the other
//     call    layer u16, with bit 15 set when its rows are those of the call before it in the block;
//             rows u16, > 0; unless bit 15 is set [rows]{ sequence u16, phase u16, position u32 };
//             then ids u16 [rows][top_k], of one row all different
//     end     a block of no bytes and no calls, whose third field is XXH3 of the number (u64) of all calls
//
// Layers count MoE layers from 0. Layers of a step rise, so that one that does not begins a step. A
// log of 1.4 million tokens through 48 layers with 10 of 512 experts is 1.4 to 1.6 GB; writing and
// reading take one block of memory.
#ifndef PS_EXPERTS_ROUTES_FILE_H
#define PS_EXPERTS_ROUTES_FILE_H

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

#define PS_ROUTES_MAGIC "PRESTRTE" // 8 bytes, without NUL
#define PS_ROUTES_LAYERS_MAX 4096u
#define PS_ROUTES_EXPERTS_MAX 65535u
#define PS_ROUTES_TOP_K_MAX 64u
#define PS_ROUTES_ROWS_MAX 65535u

typedef enum ps_routes_phase {
    PS_ROUTES_PROMPT,
    PS_ROUTES_DECODE,
    PS_ROUTES_PHASES
} ps_routes_phase;

typedef struct ps_routes_shape {
    uint64_t fingerprint; // of the model; 0: of none
    uint32_t layers;      // MoE layers, 1..PS_ROUTES_LAYERS_MAX
    uint32_t experts;     // of a layer, 1..PS_ROUTES_EXPERTS_MAX
    uint32_t top_k;       // 1..PS_ROUTES_TOP_K_MAX, <= experts
} ps_routes_shape;

// PS_INVALID: the first number that is out of range.
PS_MUST_USE ps_status ps_routes_shape_check(const ps_routes_shape *shape);

typedef struct ps_routes_row {
    uint16_t sequence;
    uint16_t phase;    // ps_routes_phase: prompt where the step has more rows of the sequence
    uint32_t position; // of the token in its sequence
} ps_routes_row;

// One MoE layer call.
typedef struct ps_routes_call {
    uint32_t layer;
    uint32_t rows;            // 1..PS_ROUTES_ROWS_MAX
    const ps_routes_row *row; // [rows]
    const uint16_t *ids;      // [rows][top_k]
} ps_routes_call;

// ---- writing

typedef struct ps_routes_writer ps_routes_writer;

// The file is written under another name beside `path` and takes its place at the end; one that is
// there is replaced. `path` is copied.
//
// PS_INVALID    the shape; `path` is there and no regular file
// PS_IO         the system refuses
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_routes_writer_create(const char *path, const ps_routes_shape *shape,
                                              ps_routes_writer **out);

// The call's arrays are read before this returns; its numbers have to be right. It cannot fail: what
// goes wrong, finish() says.
void ps_routes_writer_add(ps_routes_writer *writer, const ps_routes_call *call);

// Puts the file in its place and frees the writer. PS_IO, PS_NO_MEMORY: any write has failed, and
// then the file is not there, or is the old one.
PS_MUST_USE ps_status ps_routes_writer_finish(ps_routes_writer *writer);
void ps_routes_writer_abandon(ps_routes_writer *writer); // leaves nothing; NULL is allowed

// ---- reading

typedef struct ps_routes_reader ps_routes_reader;

// PS_NOT_FOUND, PS_IO, PS_NO_MEMORY
// PS_INVALID    no route log, of another version, damaged, or without an end: it was not finished
PS_MUST_USE ps_status ps_routes_reader_open(const char *path, ps_routes_reader **out);

// The same of a stream that can be read and sought; `name` is for messages and copied. The stream
// is closed with the reader, also when this fails.
PS_MUST_USE ps_status ps_routes_reader_open_stream(FILE *stream, const char *name,
                                                   ps_routes_reader **out);
void ps_routes_reader_close(ps_routes_reader *reader); // NULL is allowed

const ps_routes_shape *ps_routes_reader_shape(const ps_routes_reader *reader);

// The next call, valid until the next one is asked for; *out_is_end is set behind the last, and
// then *out is untouched. PS_INVALID: damaged, with file and offset. PS_IO.
PS_MUST_USE ps_status ps_routes_reader_next(ps_routes_reader *reader, ps_routes_call *out,
                                            bool *out_is_end);
PS_MUST_USE ps_status ps_routes_reader_rewind(ps_routes_reader *reader); // before the first call

#endif
