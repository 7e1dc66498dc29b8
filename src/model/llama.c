// model/llama.c - Llama 2 and 3, Mistral, SmolLM2; with experts Mixtral.
//
// Query and key rows are stored so that RoPE turns neighbouring columns. Experts are chosen by a
// softmax over all of them, whose chosen weights are divided by their sum.
#include "model/architectures.h"

// The first Mistral limits attention to a window in every layer.
static ps_status adjust(const ps_hyperparameters *hyper, ps_model_config *config,
                        ps_model_layer *layers)
{
    uint32_t window = 0;
    PS_TRY(ps_hyper_u32_if(hyper, "attention.sliding_window", 0, UINT32_MAX, &window));
    for (uint32_t i = 0; i < config->layers; i++) {
        PS_TRY(ps_hyper_set_window(config, &layers[i], window));
    }
    return PS_OK;
}

static ps_status build_layer(ps_builder *builder, ps_value_id x, ps_value_id *out)
{
    return ps_builder_pre_norm_layer(builder, 0, x, out);
}

const ps_architecture ps_architecture_llama = {
    .name = "llama", .adjust = adjust, .build_layer = build_layer};
