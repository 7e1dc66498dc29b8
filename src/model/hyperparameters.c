// model/hyperparameters.c - reads metadata and holds every number against its range.
#include "model/hyperparameters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEADS_MAX 65536u
#define EPS_MIN 1e-12f
#define ROPE_BASE_MAX 1e15f

const char *ps_hyper_key(const ps_hyperparameters *hyper, const char *key, char *text)
{
    (void)snprintf(text, PS_HYPER_KEY_BYTES_MAX, "%s.%s", hyper->architecture, key);
    return text;
}

bool ps_hyper_has(const ps_hyperparameters *hyper, const char *key)
{
    char name[PS_HYPER_KEY_BYTES_MAX];
    uint64_t ignored = 0;
    return ps_gguf_get_u64(hyper->file, ps_hyper_key(hyper, key, name), &ignored) != PS_NOT_FOUND;
}

static ps_status missing(const char *name)
{
    return ps_fail(PS_INVALID, "the file has no '%s'", name);
}

static ps_status check_range(const char *name, uint64_t value, uint32_t lowest, uint32_t highest)
{
    if (value < lowest || value > highest) {
        return ps_fail(PS_INVALID, "'%s' is %llu; %u to %u expected", name,
                       (unsigned long long)value, lowest, highest);
    }
    return PS_OK;
}

// PS_NOT_FOUND stands for a key that is absent; every other failure is final.
static ps_status try_u32(const char *name, const ps_gguf *file, uint32_t lowest, uint32_t highest,
                         uint32_t *out)
{
    uint64_t value = 0;
    PS_TRY(ps_gguf_get_u64(file, name, &value));
    PS_TRY(check_range(name, value, lowest, highest));
    *out = (uint32_t)value;
    return PS_OK;
}

static ps_status try_f32(const char *name, const ps_gguf *file, float lowest, float highest,
                         float *out)
{
    float value = 0.0f;
    PS_TRY(ps_gguf_get_f32(file, name, &value));
    if (!(value >= lowest && value <= highest)) {
        return ps_fail(PS_INVALID, "'%s' is %g; %g to %g expected", name, (double)value,
                       (double)lowest, (double)highest);
    }
    *out = value;
    return PS_OK;
}

ps_status ps_hyper_u32(const ps_hyperparameters *hyper, const char *key, uint32_t lowest,
                       uint32_t highest, uint32_t *out)
{
    char name[PS_HYPER_KEY_BYTES_MAX];
    const ps_status status = try_u32(ps_hyper_key(hyper, key, name), hyper->file, lowest, highest,
                                     out);
    return status == PS_NOT_FOUND ? missing(name) : status;
}

ps_status ps_hyper_f32(const ps_hyperparameters *hyper, const char *key, float lowest,
                       float highest, float *out)
{
    char name[PS_HYPER_KEY_BYTES_MAX];
    const ps_status status = try_f32(ps_hyper_key(hyper, key, name), hyper->file, lowest, highest,
                                     out);
    return status == PS_NOT_FOUND ? missing(name) : status;
}

ps_status ps_hyper_u32_if(const ps_hyperparameters *hyper, const char *key, uint32_t lowest,
                          uint32_t highest, uint32_t *out)
{
    char name[PS_HYPER_KEY_BYTES_MAX];
    const ps_status status = try_u32(ps_hyper_key(hyper, key, name), hyper->file, lowest, highest,
                                     out);
    return status == PS_NOT_FOUND ? PS_OK : status;
}

ps_status ps_hyper_f32_if(const ps_hyperparameters *hyper, const char *key, float lowest,
                          float highest, float *out)
{
    char name[PS_HYPER_KEY_BYTES_MAX];
    const ps_status status = try_f32(ps_hyper_key(hyper, key, name), hyper->file, lowest, highest,
                                     out);
    return status == PS_NOT_FOUND ? PS_OK : status;
}

ps_status ps_hyper_bool_if(const ps_hyperparameters *hyper, const char *key, bool *out)
{
    char name[PS_HYPER_KEY_BYTES_MAX];
    const ps_status status = ps_gguf_get_bool(hyper->file, ps_hyper_key(hyper, key, name), out);
    return status == PS_NOT_FOUND ? PS_OK : status;
}

ps_status ps_hyper_u32_layers(const ps_hyperparameters *hyper, const char *key, uint32_t lowest,
                              uint32_t highest, uint32_t layers, uint32_t **out)
{
    char name[PS_HYPER_KEY_BYTES_MAX];
    ps_hyper_key(hyper, key, name);
    uint64_t *wide = PS_ARENA_NEW(hyper->arena, uint64_t, layers);
    uint32_t *values = PS_ARENA_NEW(hyper->arena, uint32_t, layers);
    if (wide == NULL || values == NULL) {
        return PS_NO_MEMORY;
    }
    const ps_status status = ps_gguf_get_u64_array(hyper->file, name, wide, layers);
    if (status == PS_NOT_FOUND) {
        return missing(name);
    }
    PS_TRY(status);
    for (uint32_t i = 0; i < layers; i++) {
        PS_TRY(check_range(name, wide[i], lowest, highest));
        values[i] = (uint32_t)wide[i];
    }
    *out = values;
    return PS_OK;
}

ps_status ps_hyper_string_if(const ps_hyperparameters *hyper, const char *key, ps_str *out)
{
    char name[PS_HYPER_KEY_BYTES_MAX];
    ps_str text = {.data = "", .length = 0};
    const ps_status status = ps_gguf_get_string(hyper->file, ps_hyper_key(hyper, key, name), &text);
    if (status != PS_OK && status != PS_NOT_FOUND) {
        return status;
    }
    *out = text;
    return PS_OK;
}

ps_status ps_hyper_set_window(ps_model_config *config, ps_model_layer *layer, uint32_t window)
{
    if (window >= config->context_tokens) {
        window = 0;
    }
    for (uint32_t i = 0; i < config->kv_group_count; i++) {
        if (config->kv_groups[i].window == window) {
            layer->kv_group = i;
            return PS_OK;
        }
    }
    if (config->kv_group_count == PS_KV_GROUPS_MAX) {
        return ps_fail(PS_UNSUPPORTED, "the layers have more than %d different sliding windows",
                       PS_KV_GROUPS_MAX - 1);
    }
    layer->kv_group = config->kv_group_count++;
    config->kv_groups[layer->kv_group] = (ps_kv_group){.window = window};
    return PS_OK;
}

static ps_status read_name(const ps_hyperparameters *hyper, ps_model_config *config)
{
    ps_str name = {.data = "", .length = 0};
    const ps_status status = ps_gguf_get_string(hyper->file, "general.name", &name);
    if (status != PS_OK && status != PS_NOT_FOUND) {
        return status;
    }
    const size_t length = name.length < PS_MODEL_NAME_BYTES_MAX ? name.length
                                                                : PS_MODEL_NAME_BYTES_MAX;
    config->name = ps_arena_strndup(hyper->arena, name.data, length);
    return config->name == NULL ? PS_NO_MEMORY : PS_OK;
}

// The embedding table has the last word on the size of the vocabulary: some files pad it, some have
// no key for it. What must not be is a token without a row.
static ps_status read_vocabulary(const ps_hyperparameters *hyper, ps_model_config *config)
{
    const ps_gguf_tensor *table = ps_gguf_tensor_find(hyper->file, "token_embd.weight");
    if (table == NULL) {
        return ps_fail(PS_INVALID, "the file has no tensor 'token_embd.weight'");
    }
    const uint64_t rows = table->dimensions[1];
    if (rows > PS_COLUMNS_MAX) {
        return ps_fail(PS_INVALID, "tensor 'token_embd.weight' has %llu rows; at most %u expected",
                       (unsigned long long)rows, PS_COLUMNS_MAX);
    }
    uint64_t tokens = 0;
    const ps_status status = ps_gguf_get_array_count(hyper->file, "tokenizer.ggml.tokens", &tokens);
    if (status != PS_NOT_FOUND) {
        PS_TRY(status);
    }
    if (tokens > rows) {
        return ps_fail(PS_INVALID,
                       "'tokenizer.ggml.tokens' has %llu tokens, but tensor 'token_embd.weight' "
                       "only %llu rows",
                       (unsigned long long)tokens, (unsigned long long)rows);
    }
    config->vocabulary = (uint32_t)rows;
    return PS_OK;
}

static ps_status read_head_dim(const ps_hyperparameters *hyper, const ps_model_config *config,
                               uint32_t heads, uint32_t *out)
{
    uint32_t head_dim = 0;
    PS_TRY(ps_hyper_u32_if(hyper, "attention.key_length", 1, PS_COLUMNS_MAX, &head_dim));
    if (head_dim == 0) {
        if (config->dim % heads != 0) {
            return ps_fail(PS_INVALID,
                           "'%s.embedding_length' %u is no multiple of the %u heads, and there is "
                           "no '%s.attention.key_length'",
                           hyper->architecture, config->dim, heads, hyper->architecture);
        }
        head_dim = config->dim / heads;
    }
    uint32_t value_length = head_dim;
    PS_TRY(ps_hyper_u32_if(hyper, "attention.value_length", 1, PS_COLUMNS_MAX, &value_length));
    if (value_length != head_dim) {
        return ps_fail(PS_UNSUPPORTED,
                       "'%s.attention.value_length' is %u, but keys have %u columns; prestage "
                       "takes them equal",
                       hyper->architecture, value_length, head_dim);
    }
    if (head_dim % 8 != 0 || head_dim > PS_MODEL_HEAD_DIM_MAX) {
        return ps_fail(PS_UNSUPPORTED,
                       "heads of %u columns ('%s.attention.key_length', or embedding_length / "
                       "head_count); prestage takes multiples of 8 up to %u",
                       head_dim, hyper->architecture, PS_MODEL_HEAD_DIM_MAX);
    }
    *out = head_dim;
    return PS_OK;
}

static ps_status check_heads(const ps_hyperparameters *hyper, const ps_model_layer *layer,
                             uint32_t index)
{
    if (layer->heads % layer->kv_heads != 0) {
        return ps_fail(PS_INVALID,
                       "'%s.attention.head_count' is %u in layer %u, no multiple of "
                       "'%s.attention.head_count_kv' %u",
                       hyper->architecture, layer->heads, index, hyper->architecture,
                       layer->kv_heads);
    }
    if ((uint64_t)layer->heads * layer->head_dim > PS_COLUMNS_MAX) {
        return ps_fail(PS_INVALID,
                       "'%s.attention.head_count' is %u in layer %u: at most %u columns in all "
                       "expected, %u a head",
                       hyper->architecture, layer->heads, index, PS_COLUMNS_MAX, layer->head_dim);
    }
    return PS_OK;
}

static ps_status read_layers(const ps_hyperparameters *hyper, const ps_model_config *config,
                             ps_model_layer *layers)
{
    const uint32_t count = config->layers;
    uint32_t *heads = NULL;
    PS_TRY(ps_hyper_u32_layers(hyper, "attention.head_count", 1, HEADS_MAX, count, &heads));
    uint32_t *kv_heads = heads;
    if (ps_hyper_has(hyper, "attention.head_count_kv")) {
        PS_TRY(
            ps_hyper_u32_layers(hyper, "attention.head_count_kv", 1, HEADS_MAX, count, &kv_heads));
    }
    uint32_t head_dim = 0;
    PS_TRY(read_head_dim(hyper, config, heads[0], &head_dim));

    uint32_t *ffn = NULL;
    if (config->experts == 0) {
        PS_TRY(ps_hyper_u32_layers(hyper, "feed_forward_length", 1, PS_COLUMNS_MAX, count, &ffn));
    }
    for (uint32_t i = 0; i < count; i++) {
        layers[i] = (ps_model_layer){.heads = heads[i],
                                     .kv_heads = kv_heads[i],
                                     .head_dim = head_dim,
                                     .ffn = ffn == NULL ? 0 : ffn[i],
                                     .is_moe = config->experts > 0};
        PS_TRY(check_heads(hyper, &layers[i], i));
    }
    return PS_OK;
}

static ps_status read_rope_scale(const ps_hyperparameters *hyper, float *out)
{
    ps_str type = {.data = "", .length = 0};
    PS_TRY(ps_hyper_string_if(hyper, "rope.scaling.type", &type));
    const bool is_none = ps_str_equal(type, "none");
    if (!is_none && type.length > 0 && !ps_str_equal(type, "linear")) {
        return ps_fail(PS_UNSUPPORTED,
                       "'%s.rope.scaling.type' is '%.*s'; prestage does none and "
                       "linear",
                       hyper->architecture, type.length > 32 ? 32 : (int)type.length, type.data);
    }
    float attention_factor = 1.0f;
    PS_TRY(ps_hyper_f32_if(hyper, "rope.scaling.attn_factor", 0.0f, 1e6f, &attention_factor));
    if (attention_factor != 1.0f) {
        return ps_fail(PS_UNSUPPORTED, "'%s.rope.scaling.attn_factor' is %g; prestage does 1",
                       hyper->architecture, (double)attention_factor);
    }
    // Old files say scale_linear. Both are divisors of the frequency; 0 means none.
    float factor = 0.0f;
    PS_TRY(ps_hyper_f32_if(hyper, "rope.scale_linear", 0.0f, PS_ROPE_FACTOR_MAX, &factor));
    PS_TRY(ps_hyper_f32_if(hyper, "rope.scaling.factor", 0.0f, PS_ROPE_FACTOR_MAX, &factor));
    if (factor > 0.0f && factor < PS_ROPE_FACTOR_MIN) {
        return ps_fail(PS_INVALID, "'%s.rope.scaling.factor' is %g; 0 (none) or %g to %g expected",
                       hyper->architecture, (double)factor, (double)PS_ROPE_FACTOR_MIN,
                       (double)PS_ROPE_FACTOR_MAX);
    }
    *out = is_none || factor == 0.0f ? 1.0f : 1.0f / factor;
    return PS_OK;
}

static ps_status read_rope(const ps_hyperparameters *hyper, ps_model_config *config,
                           ps_model_layer *layers)
{
    float base = 10000.0f;
    float scale = 1.0f;
    PS_TRY(ps_hyper_f32_if(hyper, "rope.freq_base", 1.0f, ROPE_BASE_MAX, &base));
    PS_TRY(read_rope_scale(hyper, &scale));
    for (uint32_t i = 0; i < config->layers; i++) {
        layers[i].rope_base = base;
        layers[i].rope_scale = scale;
    }
    config->rotary_dim = layers[0].head_dim;
    PS_TRY(
        ps_hyper_u32_if(hyper, "rope.dimension_count", 2, layers[0].head_dim, &config->rotary_dim));
    if (config->rotary_dim % 2 != 0) {
        return ps_fail(PS_INVALID, "'%s.rope.dimension_count' is %u; an even number expected",
                       hyper->architecture, config->rotary_dim);
    }
    return PS_OK;
}

static ps_status read_attention(const ps_hyperparameters *hyper, ps_model_config *config,
                                const ps_model_layer *layers)
{
    bool causal = true;
    PS_TRY(ps_hyper_bool_if(hyper, "attention.causal", &causal));
    if (!causal) {
        return ps_fail(PS_UNSUPPORTED,
                       "'%s.attention.causal' is false; prestage generates text and has no "
                       "attention to later tokens",
                       hyper->architecture);
    }
    PS_TRY(
        ps_hyper_f32(hyper, "attention.layer_norm_rms_epsilon", EPS_MIN, 1.0f, &config->norm_eps));
    float scale = 0.0f;
    PS_TRY(ps_hyper_f32_if(hyper, "attention.scale", 0.0f, 1e6f, &scale));
    config->attention_scale = scale > 0.0f ? scale : 1.0f / sqrtf((float)layers[0].head_dim);
    PS_TRY(
        ps_hyper_f32_if(hyper, "attn_logit_softcapping", 0.0f, 1e6f, &config->attention_softcap));
    return ps_hyper_f32_if(hyper, "final_logit_softcapping", 0.0f, 1e6f, &config->logits_softcap);
}

// The numbers of the gguf format: 1 softmax, 2 sigmoid, 3 softmax over the chosen ones.
static ps_status read_gating(const ps_hyperparameters *hyper, ps_model_config *config)
{
    uint32_t gating = 1;
    PS_TRY(ps_hyper_u32_if(hyper, "expert_gating_func", 0, UINT32_MAX, &gating));
    switch (gating) {
    case 0:
    case 1:
        config->expert_gating = PS_GATING_SOFTMAX;
        return PS_OK;
    case 3:
        config->expert_gating = PS_GATING_SOFTMAX_SELECTED;
        return PS_OK;
    default:
        return ps_fail(PS_UNSUPPORTED,
                       "'%s.expert_gating_func' is %u; prestage does 1 (softmax) and 3 (softmax "
                       "over the chosen experts)",
                       hyper->architecture, gating);
    }
}

static ps_status read_experts(const ps_hyperparameters *hyper, ps_model_config *config)
{
    PS_TRY(ps_hyper_u32_if(hyper, "expert_count", 0, PS_EXPERTS_MAX, &config->experts));
    if (config->experts == 0) {
        return PS_OK;
    }
    PS_TRY(ps_hyper_u32(hyper, "expert_used_count", 1, config->experts, &config->experts_used));
    uint32_t shared = 0;
    PS_TRY(ps_hyper_u32_if(hyper, "expert_shared_count", 0, UINT32_MAX, &shared));
    if (shared > 0) {
        return ps_fail(PS_UNSUPPORTED, "'%s.expert_shared_count' is %u; prestage does none",
                       hyper->architecture, shared);
    }
    if (ps_hyper_has(hyper, "expert_feed_forward_length")) {
        PS_TRY(ps_hyper_u32(hyper, "expert_feed_forward_length", 1, PS_COLUMNS_MAX,
                            &config->expert_ffn));
    } else {
        PS_TRY(ps_hyper_u32(hyper, "feed_forward_length", 1, PS_COLUMNS_MAX, &config->expert_ffn));
    }
    PS_TRY(read_gating(hyper, config));
    config->expert_normalise = true;
    PS_TRY(ps_hyper_bool_if(hyper, "expert_weights_norm", &config->expert_normalise));
    PS_TRY(ps_hyper_f32_if(hyper, "expert_weights_scale", 0.0f, 1e6f, &config->expert_scale));
    if (config->expert_scale == 1.0f) {
        config->expert_scale = 0.0f;
    }
    return PS_OK;
}

ps_status ps_hyper_read_common(const ps_hyperparameters *hyper, ps_model_config *config,
                               ps_model_layer **out_layers)
{
    *config = (ps_model_config){.architecture = hyper->architecture, .kv_group_count = 1};
    PS_TRY(read_name(hyper, config));
    PS_TRY(ps_hyper_u32(hyper, "block_count", 1, PS_MODEL_LAYERS_MAX, &config->layers));
    PS_TRY(ps_hyper_u32(hyper, "embedding_length", 1, PS_COLUMNS_MAX, &config->dim));
    PS_TRY(ps_hyper_u32(hyper, "context_length", 1, PS_MODEL_CONTEXT_MAX, &config->context_tokens));
    PS_TRY(read_vocabulary(hyper, config));
    PS_TRY(read_experts(hyper, config));

    ps_model_layer *layers = PS_ARENA_NEW(hyper->arena, ps_model_layer, config->layers);
    if (layers == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(read_layers(hyper, config, layers));
    PS_TRY(read_rope(hyper, config, layers));
    PS_TRY(read_attention(hyper, config, layers));
    config->layer = layers;
    *out_layers = layers;
    return PS_OK;
}
