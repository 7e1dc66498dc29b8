// model/qwen3moe.c - Qwen3 with experts in every layer, chosen by a softmax over all of them.
#include "model/architectures.h"

static ps_status adjust(const ps_hyperparameters *hyper, ps_model_config *config,
                        ps_model_layer *layers)
{
    (void)layers;
    if (config->experts == 0) {
        return ps_fail(PS_INVALID, "'%s.expert_count' is missing or 0; 1 to %u expected",
                       hyper->architecture, PS_EXPERTS_MAX);
    }
    config->rope_style = PS_ROPE_NEOX;
    return PS_OK;
}

static ps_status build_layer(ps_builder *builder, ps_value_id x, ps_value_id *out)
{
    return ps_builder_pre_norm_layer(builder, PS_ATTENTION_QK_NORM, x, out);
}

const ps_architecture ps_architecture_qwen3moe = {
    .name = "qwen3moe", .adjust = adjust, .build_layer = build_layer};
