// engine/architecture_file.h - a Hugging Face config.json as a configuration without weights.
//
// Plans and simulations need shapes alone. Of such a file the keys that decide shapes are read,
// each with its type and range; all others, of which these files have many, are left alone: what
// only changes angles of RoPE (scaling) or tokens does not change a plan. A key that is null is as
// good as absent. Aliases that other files use for the same number are known (num_local_experts,
// ff_intermediate_size, layer_norm_epsilon, rope_embedding_base, dtype); of several the first in
// the table counts.
#ifndef PS_ENGINE_ARCHITECTURE_FILE_H
#define PS_ENGINE_ARCHITECTURE_FILE_H

#include "model/model.h"

// What the text describes; `name` is what users call it. weight_dtype is what torch_dtype says,
// BF16 without one. *out_note is the key `source`, where a file of prestage's says where its
// numbers come from and what is simplified; "" without one. All that is given lives in the arena.
//
// PS_INVALID      no such text: the message names the line or the key, and what would be right
// PS_UNSUPPORTED  another model_type than those of the table, which the message lists, or layers of
//                 other kinds than full and sliding attention
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_architecture_parse(ps_str text, const char *name, ps_arena *arena,
                                            const ps_model_config **out, const char **out_note);

// Bits of a planned weight, or of a key or a value: I4, I8, F16. PS_INVALID: not 4, 8 or 16.
PS_MUST_USE ps_status ps_architecture_bits(const char *what, uint32_t bits, ps_dtype *out);

#endif
