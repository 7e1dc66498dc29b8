// model/gemma3.c - Gemma 3 (text): norms before and after each block, GELU, and windows of
// attention in five layers of six, which have a RoPE base of their own.
//
// Norm weights are stored as they multiply (the model itself adds 1). Source: Gemma 3 technical
// report, section 2.
#include "model/architectures.h"

#include <math.h>

#define PERIOD_DEFAULT 6u // the last of so many layers sees all positions
#define LOCAL_ROPE_BASE 10000.0f
#define LAYERS_OF_27B 62u

// The key holds a period, or says for every layer whether it has a window.
static ps_status read_pattern(const ps_hyperparameters *hyper, uint32_t layers, uint32_t **out)
{
    const char *key = "attention.sliding_window_pattern";
    char name[PS_HYPER_KEY_BYTES_MAX];
    uint64_t count = 0;
    if (ps_gguf_get_array_count(hyper->file, ps_hyper_key(hyper, key, name), &count) == PS_OK) {
        return ps_hyper_u32_layers(hyper, key, 0, 1, layers, out);
    }
    uint32_t period = PERIOD_DEFAULT;
    PS_TRY(ps_hyper_u32_if(hyper, key, 1, PS_MODEL_LAYERS_MAX, &period));
    uint32_t *is_local = PS_ARENA_NEW(hyper->arena, uint32_t, layers);
    if (is_local == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < layers; i++) {
        is_local[i] = i % period != period - 1;
    }
    *out = is_local;
    return PS_OK;
}

static ps_status adjust_windows(const ps_hyperparameters *hyper, ps_model_config *config,
                                ps_model_layer *layers)
{
    uint32_t window = 0;
    PS_TRY(ps_hyper_u32_if(hyper, "attention.sliding_window", 0, UINT32_MAX, &window));
    uint32_t *is_local = NULL;
    PS_TRY(read_pattern(hyper, config->layers, &is_local));
    float base = LOCAL_ROPE_BASE;
    PS_TRY(ps_hyper_f32_if(hyper, "rope.freq_base_swa", 1.0f, 1e15f, &base));
    for (uint32_t i = 0; i < config->layers; i++) {
        if (window == 0 || is_local[i] == 0) {
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
        config->attention_scale = 1.0f / sqrtf((float)config->dim / (float)layers[0].heads);
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
