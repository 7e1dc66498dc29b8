// engine/model_source.h - what users name as a model: one that prestage ships, or a file.
#ifndef PS_ENGINE_MODEL_SOURCE_H
#define PS_ENGINE_MODEL_SOURCE_H

#include "format/pst.h"
#include "model/model.h"

typedef struct ps_model_source {
    ps_model_file file; // gguf NULL: an architecture, without weights
    const ps_model_config *config;
    const char *note; // of an architecture: where its numbers come from, what is simplified
} ps_model_source;

// Whether `name` is an architecture: one that prestage ships, or a file that begins as JSON does.
bool ps_model_source_is_architecture(const char *name);

// Opens for planning. `name` is first looked for among data/models ("llama3-8b"); otherwise it is
// the path of a GGUF file, of a compiled one, or of a config.json (architecture_file.h), which are
// told apart by their first bytes. config and note live in the arena.
//
// weight_bits: of an architecture's weights, 4, 8 or 16; 0: as it says, or for a file.
//
// PS_INVALID    weight_bits of a file, or others
// PS_NOT_FOUND  no such file; where `name` could be one of those that are shipped, the message
//               lists them, and the nearest
// others        as ps_model_file_open and ps_model_read, or ps_architecture_parse
//
// Messages name the model.
PS_MUST_USE ps_status ps_model_source_open(const char *name, uint32_t weight_bits, ps_arena *arena,
                                           ps_model_source *out);
void ps_model_source_close(ps_model_source *source);

// What became of opening a file called so. Where it is not there and `name` could be one of those
// that are shipped, the message lists these, and the nearest.
PS_MUST_USE ps_status ps_model_source_advise(const char *name, ps_status opened);

// Opens a file for somebody who needs weights, or the tokenizer: as ps_model_file_open, and
// PS_INVALID for an architecture.
PS_MUST_USE ps_status ps_model_source_open_file(const char *name, ps_model_file *out);

#endif
