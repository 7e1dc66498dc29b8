// model/architectures.h - the table of architectures; one file and one line each.
//
// docs/adding-a-model.md shows how to add one.
#ifndef PS_MODEL_ARCHITECTURES_H
#define PS_MODEL_ARCHITECTURES_H

#include "model/builder.h"
#include "model/hyperparameters.h"

typedef struct ps_architecture {
    const char *name; // general.architecture

    // Adds to *config what the architecture means without saying it, and what only it has keys for.
    // Called once ps_hyper_read_common has filled config and its layers, which are still writable.
    ps_status (*adjust)(const ps_hyperparameters *hyper, ps_model_config *config,
                        ps_model_layer *layers);

    ps_layer_fn *build_layer;
} ps_architecture;

extern const ps_architecture ps_architecture_gemma3;
extern const ps_architecture ps_architecture_llama;
extern const ps_architecture ps_architecture_qwen2;
extern const ps_architecture ps_architecture_qwen3;
extern const ps_architecture ps_architecture_qwen3moe;

#endif
