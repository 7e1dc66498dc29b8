// model/qwen3.c - Qwen3: every head of q and k has its norm; heads are wider than dim / heads.
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
    return ps_builder_pre_norm_layer(builder, PS_ATTENTION_QK_NORM, x, out);
}

const ps_architecture ps_architecture_qwen3 = {
    .name = "qwen3", .adjust = adjust, .build_layer = build_layer};
