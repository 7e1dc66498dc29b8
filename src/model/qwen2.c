// model/qwen2.c - Qwen2 and Qwen2.5: Llama with a bias on q, k and v, and RoPE on halves of a head.
#include "model/architectures.h"

static ps_status adjust(const ps_hyperparameters *hyper, ps_model_config *config,
                        ps_model_layer *layers)
{
    (void)hyper;
    (void)layers;
    config->rope_style = PS_ROPE_NEOX;
    return PS_OK;
}

static ps_status build_layer(ps_builder *builder, ps_value_id x, ps_value_id *out)
{
    return ps_builder_pre_norm_layer(builder, PS_ATTENTION_QKV_BIAS, x, out);
}

const ps_architecture ps_architecture_qwen2 = {
    .name = "qwen2", .adjust = adjust, .build_layer = build_layer};
