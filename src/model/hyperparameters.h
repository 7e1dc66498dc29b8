// model/hyperparameters.h - metadata of one architecture, each value checked as it is read.
//
// Keys are given without the architecture: "block_count" reads "llama.block_count". Every failure
// is one line that names the whole key, what it holds and what would be right. Ranges are closed.
// On failure outputs are untouched.
#ifndef PS_MODEL_HYPERPARAMETERS_H
#define PS_MODEL_HYPERPARAMETERS_H

#include "model/model.h"

typedef struct ps_hyperparameters {
    const ps_gguf *file;
    const char *architecture;
    ps_arena *arena;
} ps_hyperparameters;

#define PS_HYPER_KEY_BYTES_MAX 96

// Writes "<architecture>.<key>" to text, [PS_HYPER_KEY_BYTES_MAX] bytes, and returns it.
const char *ps_hyper_key(const ps_hyperparameters *hyper, const char *key, char *text);

bool ps_hyper_has(const ps_hyperparameters *hyper, const char *key);

// A number that has to be there. PS_INVALID: absent, not a number, or outside lowest..highest.
PS_MUST_USE ps_status ps_hyper_u32(const ps_hyperparameters *hyper, const char *key,
                                   uint32_t lowest, uint32_t highest, uint32_t *out);
PS_MUST_USE ps_status ps_hyper_f32(const ps_hyperparameters *hyper, const char *key, float lowest,
                                   float highest, float *out);

// The same for a number that may be absent: then *out keeps what it holds.
PS_MUST_USE ps_status ps_hyper_u32_if(const ps_hyperparameters *hyper, const char *key,
                                      uint32_t lowest, uint32_t highest, uint32_t *out);
PS_MUST_USE ps_status ps_hyper_f32_if(const ps_hyperparameters *hyper, const char *key,
                                      float lowest, float highest, float *out);
PS_MUST_USE ps_status ps_hyper_bool_if(const ps_hyperparameters *hyper, const char *key, bool *out);

// A number for each layer: an array of `layers` items, or one number for all. *out: [layers].
PS_MUST_USE ps_status ps_hyper_u32_layers(const ps_hyperparameters *hyper, const char *key,
                                          uint32_t lowest, uint32_t highest, uint32_t layers,
                                          uint32_t **out);

// A text that may be absent: then *out is empty.
PS_MUST_USE ps_status ps_hyper_string_if(const ps_hyperparameters *hyper, const char *key,
                                         ps_str *out);

// Fills all of *config that keys say in the same way for every architecture, and the layers with
// it (out_layers is config->layer, still writable). What an architecture means without saying it
// is 0, SiLU and PS_ROPE_NORM here. A sliding window is given to no layer yet.
PS_MUST_USE ps_status ps_hyper_read_common(const ps_hyperparameters *hyper, ps_model_config *config,
                                           ps_model_layer **out_layers);

// Puts layer i into the KV group of that window, which is made when it is new. Windows that reach
// over the whole context, and 0, are group 0. PS_UNSUPPORTED: more windows than groups.
PS_MUST_USE ps_status ps_hyper_set_window(ps_model_config *config, ps_model_layer *layer,
                                          uint32_t window);

#endif
