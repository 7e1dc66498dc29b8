// model/gemma3.c - Gemma 3 (text): norms before and after each block, GELU, and windows of
// attention in five layers of six, which have a RoPE base of their own.
//
// Norm weights are stored as they multiply (the model itself adds 1). Source: Gemma 3 technical
// report, section 2.
#include "model/architectures.h"

#include <math.h>

#define PATTERN_DEFAULT 6u // the last of so many layers sees all positions
#define LOCAL_ROPE_BASE 10000.0f
#define LAYERS_OF_27B 62u

static ps_status adjust_windows(const ps_hyperparameters *hyper, ps_model_config *config,
                                ps_model_layer *layers)
{
    uint32_t window = 0;
    PS_TRY(ps_hyper_u32_if(hyper, "attention.sliding_window", 0, UINT32_MAX, &window));
    uint32_t pattern = PATTERN_DEFAULT;
    PS_TRY(ps_hyper_u32_if(hyper, "attention.sliding_window_pattern", 1, PS_MODEL_LAYERS_MAX,
                           &pattern));
    float base = LOCAL_ROPE_BASE;
    PS_TRY(ps_hyper_f32_if(hyper, "rope.freq_base_swa", 1.0f, 1e15f, &base));
    for (uint32_t i = 0; i < config->layers; i++) {
        if (window == 0 || i % pattern == pattern - 1) {
            continue;
        }
        PS_TRY(ps_hyper_set_window(config, &layers[i], window));
        layers[i].rope_base = base;
        layers[i].rope_scale = 1.0f; // long contexts were learnt by the other layers alone
    }
    return PS_OK;
}

static ps_status adjust(const ps_hyperparameters *hyper, ps_model_config *config,
                        ps_model_layer *layers)
{
    config->rope_style = PS_ROPE_NEOX;
    config->activation = PS_ACTIVATION_GELU;
    config->embedding_scale = sqrtf((float)config->dim);
    // The 27B alone scales by the columns that a head would have if heads shared dim.
    if (config->layers == LAYERS_OF_27B && !ps_hyper_has(hyper, "attention.scale")) {
        config->attention_scale = 1.0f / sqrtf((float)(config->dim / layers[0].heads));
    }
    return adjust_windows(hyper, config, layers);
}

static ps_status build_layer(ps_builder *builder, ps_value_id x, ps_value_id *out)
{
    const uint32_t dim = builder->config->dim;
    ps_value_id y = 0;
    PS_TRY(ps_builder_norm(builder, "attn_norm", dim, x, &y));
    PS_TRY(ps_builder_attention(builder, PS_ATTENTION_QK_NORM, y, &y));
    PS_TRY(ps_builder_norm(builder, "post_attention_norm", dim, y, &y));
    PS_TRY(ps_builder_add(builder, "attn_residual", x, y, &x));
    PS_TRY(ps_builder_norm(builder, "ffn_norm", dim, x, &y));
    PS_TRY(ps_builder_ffn(builder, y, &y));
    PS_TRY(ps_builder_norm(builder, "post_ffw_norm", dim, y, &y));
    return ps_builder_add(builder, "ffn_residual", x, y, out);
}

const ps_architecture ps_architecture_gemma3 = {
    .name = "gemma3", .adjust = adjust, .build_layer = build_layer};
