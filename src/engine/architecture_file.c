// engine/architecture_file.c - a table of keys, a table of model types, and what layers make of
// both.
#include "engine/architecture_file.h"

#include "base/scan.h"
#include "engine/json_fields.h"
#include "model/hyperparameters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORD_BYTES 64
#define HEADS_MAX 65536

// Where attention has a sliding window, unless layer_types says it layer by layer.
typedef enum windows {
    WINDOWS_NONE,
    WINDOWS_ALL,      // sliding_window is for every layer
    WINDOWS_LATE,     // with use_sliding_window, from layer max_window_layers on
    WINDOWS_PATTERNED // in all layers but each sliding_window_pattern-th
} windows;

// A model_type, and what it means without saying it.
typedef struct family {
    const char *model_type;
    const char *architecture; // of model/
    ps_rope_style rope_style; // as the architecture's model files have it
    windows windows;
    bool has_experts; // must have them
    bool is_gemma;    // GELU, scaled embedding, a RoPE base of its own in layers with a window
} family;

static const family FAMILIES[] = {
    {.model_type = "llama", .architecture = "llama"},
    {.model_type = "mistral", .architecture = "llama", .windows = WINDOWS_ALL},
    {.model_type = "mixtral", .architecture = "llama", .windows = WINDOWS_ALL, .has_experts = true},
    {.model_type = "phi3", .architecture = "llama", .windows = WINDOWS_ALL},
    {.model_type = "phi3small", .architecture = "llama"},
    {.model_type = "qwen2",
     .architecture = "qwen2",
     .rope_style = PS_ROPE_NEOX,
     .windows = WINDOWS_LATE},
    {.model_type = "qwen3",
     .architecture = "qwen3",
     .rope_style = PS_ROPE_NEOX,
     .windows = WINDOWS_LATE},
    {.model_type = "qwen3_moe",
     .architecture = "qwen3moe",
     .rope_style = PS_ROPE_NEOX,
     .windows = WINDOWS_LATE,
     .has_experts = true},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .rope_style = PS_ROPE_NEOX,
     .windows = WINDOWS_PATTERNED,
     .is_gemma = true},
};
#define FAMILY_COUNT (sizeof FAMILIES / sizeof *FAMILIES)

// What the keys say; 0 where they are absent and nothing else is said below.
typedef struct keys {
    char model_type[WORD_BYTES], dtype[WORD_BYTES];
    uint32_t dim, layers, heads, kv_heads, head_dim, ffn, vocabulary, context;
    uint32_t experts, experts_used, expert_ffn, sparse_step;
    uint32_t window, window_layers, window_pattern;
    double eps, rope_base, local_rope_base, query_scalar, attention_softcap, logits_softcap;
    bool normalises, ties, uses_window;
    const json_t *dense_layers, *layer_types; // arrays of the file, or NULL
} keys;

#define AT(member) offsetof(keys, member)

static const ps_json_field FIELDS[] = {
    {"model_type", PS_JSON_TEXT, AT(model_type), 0, WORD_BYTES},
    {"torch_dtype", PS_JSON_TEXT, AT(dtype), 0, WORD_BYTES},
    {"dtype", PS_JSON_TEXT, AT(dtype), 0, WORD_BYTES},
    {"hidden_size", PS_JSON_U32, AT(dim), 1, PS_COLUMNS_MAX},
    {"num_hidden_layers", PS_JSON_U32, AT(layers), 1, PS_MODEL_LAYERS_MAX},
    {"num_attention_heads", PS_JSON_U32, AT(heads), 1, HEADS_MAX},
    {"num_key_value_heads", PS_JSON_U32, AT(kv_heads), 1, HEADS_MAX},
    {"head_dim", PS_JSON_U32, AT(head_dim), 8, PS_MODEL_HEAD_DIM_MAX},
    {"intermediate_size", PS_JSON_U32, AT(ffn), 1, PS_COLUMNS_MAX},
    {"ff_intermediate_size", PS_JSON_U32, AT(ffn), 1, PS_COLUMNS_MAX},
    {"vocab_size", PS_JSON_U32, AT(vocabulary), 1, PS_COLUMNS_MAX},
    {"max_position_embeddings", PS_JSON_U32, AT(context), 1, PS_MODEL_CONTEXT_MAX},
    {"num_experts", PS_JSON_U32, AT(experts), 0, PS_EXPERTS_MAX},
    {"num_local_experts", PS_JSON_U32, AT(experts), 0, PS_EXPERTS_MAX},
    {"num_experts_per_tok", PS_JSON_U32, AT(experts_used), 0, PS_EXPERTS_MAX},
    {"moe_intermediate_size", PS_JSON_U32, AT(expert_ffn), 1, PS_COLUMNS_MAX},
    {"decoder_sparse_step", PS_JSON_U32, AT(sparse_step), 1, PS_MODEL_LAYERS_MAX},
    {"norm_topk_prob", PS_JSON_BOOL, AT(normalises), 0, 1},
    {"sliding_window", PS_JSON_U32, AT(window), 0, UINT32_MAX},
    {"use_sliding_window", PS_JSON_BOOL, AT(uses_window), 0, 1},
    {"max_window_layers", PS_JSON_U32, AT(window_layers), 0, UINT32_MAX},
    {"sliding_window_pattern", PS_JSON_U32, AT(window_pattern), 1, PS_MODEL_LAYERS_MAX},
    {"tie_word_embeddings", PS_JSON_BOOL, AT(ties), 0, 1},
    {"rms_norm_eps", PS_JSON_F64, AT(eps), 1e-12, 1},
    {"layer_norm_epsilon", PS_JSON_F64, AT(eps), 1e-12, 1},
    {"rope_theta", PS_JSON_F64, AT(rope_base), 1, 1e15},
    {"rope_embedding_base", PS_JSON_F64, AT(rope_base), 1, 1e15},
    {"rope_local_base_freq", PS_JSON_F64, AT(local_rope_base), 1, 1e15},
    {"query_pre_attn_scalar", PS_JSON_F64, AT(query_scalar), 1e-3, 1e6},
    {"attn_logit_softcapping", PS_JSON_F64, AT(attention_softcap), 0, 1e6},
    {"final_logit_softcapping", PS_JSON_F64, AT(logits_softcap), 0, 1e6},
};
#define FIELD_COUNT (sizeof FIELDS / sizeof *FIELDS)
_Static_assert(FIELD_COUNT <= PS_JSON_FIELDS_MAX, "");

// ---- keys

static const json_t *value_of(const json_t *file, const char *key)
{
    const json_t *value = json_object_get(file, key);
    return json_is_null(value) ? NULL : value;
}

// The keys of the table that say something, each number once.
static ps_status pick_known(const json_t *file, json_t *known)
{
    size_t taken[FIELD_COUNT];
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const json_t *value = value_of(file, FIELDS[i].key);
        bool is_new = value != NULL;
        for (size_t j = 0; j < i; j++) {
            is_new = is_new && taken[j] != FIELDS[i].offset;
        }
        taken[i] = value == NULL ? SIZE_MAX : FIELDS[i].offset;
        if (is_new && json_object_set(known, FIELDS[i].key, (json_t *)(uintptr_t)value) != 0) {
            return ps_fail(PS_NO_MEMORY, "no memory for a configuration");
        }
    }
    return PS_OK;
}

static ps_status take_array(const json_t *file, const char *key, const json_t **out)
{
    *out = value_of(file, key);
    return *out == NULL || json_is_array(*out)
               ? PS_OK
               : ps_fail(PS_INVALID, "%s: an array would be right", key);
}

static ps_status read_keys(const json_t *file, keys *k)
{
    json_t *known = json_object();
    ps_status status = known == NULL ? ps_fail(PS_NO_MEMORY, "no memory for a configuration")
                                     : pick_known(file, known);
    if (status == PS_OK) {
        status = ps_json_fields_read(known, FIELDS, FIELD_COUNT, false, k);
    }
    json_decref(known);
    PS_TRY(status);
    PS_TRY(take_array(file, "mlp_only_layers", &k->dense_layers));
    return take_array(file, "layer_types", &k->layer_types);
}

// ---- the model type

static ps_status find_family(const json_t *file, const family **out)
{
    const json_t *value = value_of(file, "model_type");
    const char *names[FAMILY_COUNT];
    char known[256] = "";
    size_t used = 0;
    if (value == NULL) {
        return ps_fail(PS_INVALID, "'model_type' is missing");
    }
    const ps_str word = json_is_string(value) ? ps_str_of(json_string_value(value)) : ps_str_of("");
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        names[i] = FAMILIES[i].model_type;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                                 names[i]);
        if (ps_str_equal(word, names[i])) {
            *out = &FAMILIES[i];
            return PS_OK;
        }
    }
    return ps_fail(PS_UNSUPPORTED, "model_type '%.*s' is not known; the nearest is '%s' of %s",
                   word.length > WORD_BYTES ? WORD_BYTES : (int)word.length, word.data,
                   ps_nearest(word, names, FAMILY_COUNT), known);
}

// What the model type means; keys that are there say otherwise.
static keys defaults_of(const family *is)
{
    return (keys){.dtype = "bfloat16",
                  .sparse_step = 1,
                  .window_pattern = 6,
                  .eps = 1e-6,
                  .rope_base = 10000,
                  .local_rope_base = 10000,
                  .normalises = strcmp(is->model_type, "mixtral") == 0,
                  .ties = is->is_gemma};
}

static ps_status require(const char *key, uint32_t value)
{
    return value > 0 ? PS_OK : ps_fail(PS_INVALID, "'%s' is missing", key);
}

static ps_status check_keys(const family *is, const keys *k)
{
    PS_TRY(require("hidden_size", k->dim));
    PS_TRY(require("num_hidden_layers", k->layers));
    PS_TRY(require("num_attention_heads", k->heads));
    PS_TRY(require("vocab_size", k->vocabulary));
    PS_TRY(require("max_position_embeddings", k->context));
    if (k->experts > 0 || is->has_experts) {
        PS_TRY(require("num_experts", k->experts));
        PS_TRY(require("num_experts_per_tok", k->experts_used));
        PS_TRY(require("moe_intermediate_size", k->expert_ffn));
        if (k->experts_used > k->experts) {
            return ps_fail(PS_INVALID, "num_experts_per_tok: a number from 1 to %u would be right",
                           k->experts);
        }
    }
    if (k->heads % k->kv_heads != 0) {
        return ps_fail(PS_INVALID,
                       "num_key_value_heads: a divisor of the %u num_attention_heads would be "
                       "right, not %u",
                       k->heads, k->kv_heads);
    }
    if (k->head_dim == 0 || k->head_dim % 8 != 0 || k->head_dim > PS_MODEL_HEAD_DIM_MAX) {
        return ps_fail(PS_INVALID,
                       "head_dim, or hidden_size / num_attention_heads: a multiple of 8 up to %u "
                       "would be right",
                       PS_MODEL_HEAD_DIM_MAX);
    }
    return (uint64_t)k->heads * k->head_dim <= PS_COLUMNS_MAX
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "num_attention_heads times head_dim: at most %u would be right",
                         PS_COLUMNS_MAX);
}

// Numbers that follow from others where they are not given.
static void complete_keys(keys *k)
{
    k->kv_heads = k->kv_heads == 0 ? k->heads : k->kv_heads;
    k->expert_ffn = k->expert_ffn == 0 ? k->ffn : k->expert_ffn;
    if (k->head_dim == 0 && k->heads > 0 && k->dim % k->heads == 0) {
        k->head_dim = k->dim / k->heads;
    }
}

static ps_status weight_dtype_of(const keys *k, ps_dtype *out)
{
    static const struct {
        const char *name;
        ps_dtype dtype;
    } TYPES[] = {{"bfloat16", PS_DTYPE_BF16}, {"float16", PS_DTYPE_F16}, {"float32", PS_DTYPE_F32}};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strcmp(k->dtype, TYPES[i].name) == 0) {
            *out = TYPES[i].dtype;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "torch_dtype: bfloat16, float16 or float32 would be right");
}

ps_status ps_architecture_bits(const char *what, uint32_t bits, ps_dtype *out)
{
    if (bits != 4 && bits != 8 && bits != 16) {
        return ps_fail(PS_INVALID, "%s %u: 4, 8 or 16 would be right", what, bits);
    }
    *out = bits == 4 ? PS_DTYPE_I4 : bits == 8 ? PS_DTYPE_I8 : PS_DTYPE_F16;
    return PS_OK;
}

// ---- layers

static ps_status is_listed(const json_t *list, uint32_t index, uint32_t layers, bool *out)
{
    *out = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *number = json_array_get(list, i);
        if (i >= layers || !json_is_integer(number) || json_integer_value(number) < 0 ||
            json_integer_value(number) >= layers) {
            return ps_fail(PS_INVALID,
                           "mlp_only_layers: up to %u numbers from 0 to %u would be right", layers,
                           layers - 1);
        }
        *out = *out || json_integer_value(number) == index;
    }
    return PS_OK;
}

static ps_status read_layer_type(const keys *k, uint32_t index, bool *out_has_window)
{
    const char *type = json_string_value(json_array_get(k->layer_types, index));
    if (json_array_size(k->layer_types) != k->layers || type == NULL) {
        return ps_fail(PS_INVALID, "layer_types: an array of %u names would be right", k->layers);
    }
    *out_has_window = strcmp(type, "sliding_attention") == 0;
    return *out_has_window || strcmp(type, "full_attention") == 0
               ? PS_OK
               : ps_fail(PS_UNSUPPORTED,
                         "layer_types: '%.32s' in layer %u; prestage has full_attention and "
                         "sliding_attention",
                         type, index);
}

static ps_status has_window(const family *is, const keys *k, uint32_t index, bool *out)
{
    if (k->layer_types != NULL) {
        return read_layer_type(k, index, out);
    }
    *out = is->windows == WINDOWS_ALL ||
           (is->windows == WINDOWS_LATE && k->uses_window && index >= k->window_layers) ||
           (is->windows == WINDOWS_PATTERNED && (index + 1) % k->window_pattern != 0);
    return PS_OK;
}

static ps_status make_layer(const family *is, const keys *k, uint32_t index,
                            ps_model_config *config, ps_model_layer *layer)
{
    bool is_dense = false;
    bool is_windowed = false;
    PS_TRY(is_listed(k->dense_layers, index, k->layers, &is_dense));
    PS_TRY(has_window(is, k, index, &is_windowed));
    is_dense = is_dense || k->experts == 0 || (index + 1) % k->sparse_step != 0;
    if (is_dense) {
        PS_TRY(require("intermediate_size", k->ffn));
    }
    *layer = (ps_model_layer){.heads = k->heads,
                              .kv_heads = k->kv_heads,
                              .head_dim = k->head_dim,
                              .ffn = is_dense ? k->ffn : 0,
                              .is_moe = !is_dense,
                              .rope_base = (float)k->rope_base,
                              .rope_scale = 1.0f};
    if (is_windowed && k->window > 0) {
        layer->rope_base = is->is_gemma ? (float)k->local_rope_base : layer->rope_base;
        return ps_hyper_set_window(config, layer, k->window);
    }
    return PS_OK;
}

static ps_status make_layers(const family *is, const keys *k, ps_arena *arena,
                             ps_model_config *config)
{
    ps_model_layer *layers = PS_ARENA_NEW(arena, ps_model_layer, k->layers);
    if (layers == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < k->layers; i++) {
        PS_TRY(make_layer(is, k, i, config, &layers[i]));
    }
    config->layer = layers;
    return PS_OK;
}

// ---- the whole

static ps_status make_config(const family *is, const keys *k, const char *name, ps_arena *arena,
                             const ps_model_config **out)
{
    ps_model_config *config = PS_ARENA_NEW(arena, ps_model_config, 1);
    if (config == NULL) {
        return PS_NO_MEMORY;
    }
    const double query_scalar = k->query_scalar > 0 ? k->query_scalar : k->head_dim;
    *config = (ps_model_config){
        .architecture = is->architecture,
        .name = ps_arena_strndup(arena, name, strlen(name)),
        .layers = k->layers,
        .dim = k->dim,
        .vocabulary = k->vocabulary,
        .context_tokens = k->context,
        .experts = k->experts,
        .experts_used = k->experts_used,
        .expert_ffn = k->experts == 0 ? 0 : k->expert_ffn,
        .expert_gating = PS_GATING_SOFTMAX,
        .expert_normalise = k->normalises,
        .norm_eps = (float)k->eps,
        .rope_style = is->rope_style,
        .rotary_dim = k->head_dim,
        .activation = is->is_gemma ? PS_ACTIVATION_GELU : PS_ACTIVATION_SILU,
        .embedding_scale = is->is_gemma ? sqrtf((float)k->dim) : 0,
        .attention_scale = 1.0f / sqrtf((float)query_scalar),
        .attention_softcap = (float)k->attention_softcap,
        .logits_softcap = (float)k->logits_softcap,
        .ties_embedding = k->ties,
        .kv_group_count = 1,
    };
    if (config->name == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(weight_dtype_of(k, &config->weight_dtype));
    PS_TRY(make_layers(is, k, arena, config));
    *out = config;
    return PS_OK;
}

static ps_status parse(const json_t *file, const char *name, ps_arena *arena,
                       const ps_model_config **out, const char **out_note)
{
    const family *is = NULL;
    if (!json_is_object(file)) {
        return ps_fail(PS_INVALID, "a JSON object, as a config.json is, would be right");
    }
    PS_TRY(find_family(file, &is));
    keys k = defaults_of(is);
    PS_TRY(read_keys(file, &k));
    complete_keys(&k);
    PS_TRY(check_keys(is, &k));
    const char *said = json_string_value(json_object_get(file, "source"));
    const char *note = ps_arena_strndup(arena, said == NULL ? "" : said,
                                        said == NULL ? 0 : strlen(said));
    if (note == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(make_config(is, &k, name, arena, out));
    *out_note = note;
    return PS_OK;
}

ps_status ps_architecture_parse(ps_str text, const char *name, ps_arena *arena,
                                const ps_model_config **out, const char **out_note)
{
    json_t *file = NULL;
    PS_TRY(ps_json_text_read(text.data, text.length, &file));
    const ps_status status = parse(file, name, arena, out, out_note);
    json_decref(file);
    return status;
}
