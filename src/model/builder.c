// model/builder.c - weight lookup, operators and the blocks made of them.
#include "model/builder.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 96 // "blk.1023." and a tensor's name

// What a weight has to look like; 1 row is a vector.
typedef struct shape {
    uint32_t columns, rows, experts; // experts 0: a plain matrix
} shape;

static const char *full_name(const ps_builder *builder, const char *name, const char *suffix,
                             char *text)
{
    if (builder->layer == NULL) {
        (void)snprintf(text, NAME_BYTES_MAX, "%s%s", name, suffix);
    } else {
        (void)snprintf(text, NAME_BYTES_MAX, "blk.%u.%s%s", builder->layer_index, name, suffix);
    }
    return text;
}

static const char *shape_text(const uint64_t *dimensions, uint32_t count, char *text, size_t bytes)
{
    size_t used = 0;
    for (uint32_t i = 0; i < count && used < bytes; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%llu", i == 0 ? "" : ", ",
                                 (unsigned long long)dimensions[i]);
    }
    return text;
}

static ps_status check_shape(const ps_gguf_tensor *tensor, shape expected)
{
    const uint64_t want[PS_GGUF_DIMENSIONS_MAX] = {expected.columns, expected.rows,
                                                   expected.experts == 0 ? 1 : expected.experts, 1};
    bool is_equal = true;
    for (uint32_t i = 0; i < PS_GGUF_DIMENSIONS_MAX; i++) {
        is_equal = is_equal && tensor->dimensions[i] == want[i];
    }
    if (!is_equal) {
        char got_text[96] = "";
        char want_text[96] = "";
        const uint32_t count = expected.experts > 0 ? 3 : expected.rows > 1 ? 2 : 1;
        return ps_fail(
            PS_INVALID, "tensor '%s' has shape [%s]; [%s] expected", tensor->name,
            shape_text(tensor->dimensions, tensor->dimension_count, got_text, sizeof got_text),
            shape_text(want, count, want_text, sizeof want_text));
    }
    return PS_OK;
}

static bool is_computed(ps_dtype dtype)
{
    return dtype != PS_DTYPE_COUNT && dtype != PS_DTYPE_I32 && ps_dtype_get(dtype)->gguf_id >= 0;
}

static ps_status check_dtype(const ps_gguf_tensor *tensor, bool is_vector)
{
    if (is_vector ? tensor->dtype == PS_DTYPE_F32 : is_computed(tensor->dtype)) {
        return PS_OK;
    }
    char supported[128] = "";
    size_t used = 0;
    for (int i = 0; i < PS_DTYPE_COUNT && used < sizeof supported; i++) {
        if (is_vector ? i == PS_DTYPE_F32 : is_computed((ps_dtype)i)) {
            used += (size_t)snprintf(supported + used, sizeof supported - used, " %s",
                                     ps_dtype_get((ps_dtype)i)->name);
        }
    }
    return ps_fail(PS_UNSUPPORTED,
                   "tensor '%s' is %s, which prestage does not compute%s;"
                   " supported:%s",
                   tensor->name, tensor->type_name, is_vector ? " in a norm or bias" : "",
                   supported);
}

// NULL: there is none, or no file.
static const ps_gguf_tensor *find_tensor(const ps_builder *builder, const char *name)
{
    return builder->file == NULL ? NULL : ps_gguf_tensor_find(builder->file, name);
}

static ps_status check_tensor(const ps_gguf_tensor *tensor, const char *name, shape expected,
                              bool is_vector)
{
    if (tensor == NULL) {
        return ps_fail(PS_INVALID, "the file has no tensor '%s'", name);
    }
    PS_TRY(check_shape(tensor, expected));
    return check_dtype(tensor, is_vector);
}

// The tensor of that name as a value, checked; without a file, as it should be. A vector (one row,
// no experts) is F32.
static ps_status add_weight(ps_builder *builder, const char *name, shape expected, ps_value_id *out)
{
    const bool is_vector = expected.rows == 1 && expected.experts == 0;
    ps_dtype dtype = is_vector ? PS_DTYPE_F32 : builder->config->weight_dtype;
    if (builder->file != NULL) {
        const ps_gguf_tensor *tensor = find_tensor(builder, name);
        PS_TRY(check_tensor(tensor, name, expected, is_vector));
        dtype = tensor->dtype;
    }
    const ps_value value = {.name = name,
                            .kind = PS_VALUE_WEIGHT,
                            .dtype = dtype,
                            .rows = expected.rows,
                            .columns = expected.columns,
                            .experts = expected.experts,
                            .alias_of = PS_NO_VALUE};
    return ps_graph_add_value(builder->graph, &value, out);
}

// Which rows the result of an operator has; most have those of their first operand.
static void set_rows(const ps_graph *graph, const ps_node *node, ps_value *result)
{
    result->row_kind = PS_ROWS_STEP;
    result->row_multiplier = 1;
    switch (node->op) {
    case PS_OP_EMBED:
    case PS_OP_ROPE_TABLE:
    case PS_OP_EXPERT_SUM:
        break;
    case PS_OP_SELECT_LOGITS:
        result->row_kind = PS_ROWS_LOGITS;
        break;
    case PS_OP_EXPERT_LINEAR:
        result->row_multiplier = node->attributes.top_k;
        break;
    default:
        result->row_kind = graph->values[node->inputs[0]].row_kind;
        result->row_multiplier = graph->values[node->inputs[0]].row_multiplier;
        break;
    }
}

// Appends `node`, whose operands and attributes are filled in, and its result of `columns` columns.
static ps_status emit(ps_builder *builder, const char *name, ps_node node, uint32_t columns,
                      ps_value_id *out)
{
    char text[NAME_BYTES_MAX];
    ps_value result = {.name = full_name(builder, name, "", text),
                       .kind = PS_VALUE_ACTIVATION,
                       .dtype = PS_DTYPE_F32,
                       .columns = columns,
                       .alias_of = PS_NO_VALUE};
    set_rows(builder->graph, &node, &result);
    PS_TRY(ps_graph_add_value(builder->graph, &result, &node.output));
    node.attributes.layer = builder->layer == NULL ? 0 : builder->layer_index + 1;
    PS_TRY(ps_graph_add_node(builder->graph, &node));
    *out = node.output;
    return PS_OK;
}

static uint32_t columns_of(const ps_builder *builder, ps_value_id id)
{
    return builder->graph->values[id].columns;
}

ps_status ps_builder_norm(ps_builder *builder, const char *tensor, uint32_t width, ps_value_id x,
                          ps_value_id *out)
{
    char name[NAME_BYTES_MAX];
    ps_value_id weight = 0;
    PS_TRY(add_weight(builder, full_name(builder, tensor, ".weight", name),
                      (shape){.columns = width, .rows = 1}, &weight));
    const ps_node node = {.op = PS_OP_RMS_NORM,
                          .input_count = 2,
                          .inputs = {x, weight},
                          .attributes = {.eps = builder->config->norm_eps}};
    return emit(builder, tensor, node, columns_of(builder, x), out);
}

ps_status ps_builder_add(ps_builder *builder, const char *name, ps_value_id a, ps_value_id b,
                         ps_value_id *out)
{
    const ps_node node = {.op = PS_OP_ADD, .input_count = 2, .inputs = {a, b}};
    return emit(builder, name, node, columns_of(builder, a), out);
}

static ps_status add_bias(ps_builder *builder, const ps_linear_spec *spec, ps_value_id *x)
{
    char name[NAME_BYTES_MAX];
    full_name(builder, spec->tensor, ".bias", name);
    if (!spec->bias_required && find_tensor(builder, name) == NULL) {
        return PS_OK;
    }
    ps_value_id bias = 0;
    PS_TRY(add_weight(builder, name, (shape){.columns = spec->outputs, .rows = 1}, &bias));
    const ps_node node = {.op = PS_OP_ADD_BIAS, .input_count = 2, .inputs = {*x, bias}};
    char result[NAME_BYTES_MAX];
    (void)snprintf(result, sizeof result, "%s.biased", spec->tensor);
    return emit(builder, result, node, spec->outputs, x);
}

ps_status ps_builder_linear(ps_builder *builder, const ps_linear_spec *spec, ps_value_id x,
                            ps_value_id *out)
{
    char name[NAME_BYTES_MAX];
    ps_value_id weight = 0;
    PS_TRY(add_weight(builder, full_name(builder, spec->tensor, ".weight", name),
                      (shape){.columns = columns_of(builder, x), .rows = spec->outputs}, &weight));
    const ps_node node = {.op = PS_OP_LINEAR,
                          .input_count = 2,
                          .inputs = {x, weight},
                          .attributes = {.site = spec->site, .unit = spec->unit}};
    ps_value_id result = 0;
    PS_TRY(emit(builder, spec->tensor, node, spec->outputs, &result));
    PS_TRY(add_bias(builder, spec, &result));
    *out = result;
    return PS_OK;
}

// NULL: there is no table for that layer yet.
static const ps_rope_key *find_rope(const ps_builder *builder, const ps_model_layer *layer)
{
    for (uint32_t i = 0; i < builder->rope_count; i++) {
        if (builder->rope[i].base == layer->rope_base &&
            builder->rope[i].scale == layer->rope_scale) {
            return &builder->rope[i];
        }
    }
    return NULL;
}

static ps_status rope(ps_builder *builder, const char *name, ps_value_id x, ps_value_id *out)
{
    const ps_rope_key *key = find_rope(builder, builder->layer);
    ps_assert(key != NULL);
    const ps_node node = {.op = PS_OP_ROPE,
                          .input_count = 2,
                          .inputs = {x, key->table},
                          .attributes = {.rope_style = builder->config->rope_style,
                                         .head_dim = builder->layer->head_dim,
                                         .rotary_dim = builder->config->rotary_dim}};
    return emit(builder, name, node, columns_of(builder, x), out);
}

// One of q, k, v before RoPE. norm NULL: none.
static ps_status head_rows(ps_builder *builder, unsigned options, const char *tensor,
                           const char *norm, uint32_t heads, ps_value_id *x)
{
    const uint32_t head_dim = builder->layer->head_dim;
    const ps_linear_spec spec = {.tensor = tensor,
                                 .outputs = heads * head_dim,
                                 .site = PS_SITE_ATTN_QKV,
                                 .unit = head_dim,
                                 .bias_required = (options & PS_ATTENTION_QKV_BIAS) != 0};
    PS_TRY(ps_builder_linear(builder, &spec, *x, x));
    if (norm != NULL && (options & PS_ATTENTION_QK_NORM) != 0) {
        PS_TRY(ps_builder_norm(builder, norm, head_dim, *x, x));
    }
    return PS_OK;
}

// Stores k and v of the step's rows and gives the KV value.
static ps_status kv_write(ps_builder *builder, ps_value_id k, ps_value_id v, ps_value_id *out)
{
    char name[NAME_BYTES_MAX];
    const ps_model_layer *layer = builder->layer;
    const ps_value kv = {.name = full_name(builder, "kv", "", name),
                         .kind = PS_VALUE_KV,
                         .dtype = PS_DTYPE_F16,
                         .v_dtype = PS_DTYPE_F16,
                         .columns = layer->kv_heads * layer->head_dim,
                         .kv_group = layer->kv_group,
                         .head_dim = layer->head_dim,
                         .alias_of = PS_NO_VALUE};
    PS_TRY(ps_graph_add_value(builder->graph, &kv, out));
    const ps_node node = {.op = PS_OP_KV_WRITE,
                          .input_count = 3,
                          .inputs = {k, v, *out},
                          .output = PS_NO_VALUE,
                          .attributes = {.layer = builder->layer_index + 1,
                                         .site = PS_SITE_KV,
                                         .kv_heads = layer->kv_heads,
                                         .head_dim = layer->head_dim}};
    return ps_graph_add_node(builder->graph, &node);
}

ps_status ps_builder_attention(ps_builder *builder, unsigned options, ps_value_id x,
                               ps_value_id *out)
{
    const ps_model_layer *layer = builder->layer;
    ps_value_id q = x;
    ps_value_id k = x;
    ps_value_id v = x;
    ps_value_id kv = 0;
    PS_TRY(head_rows(builder, options, "attn_q", "attn_q_norm", layer->heads, &q));
    PS_TRY(head_rows(builder, options, "attn_k", "attn_k_norm", layer->kv_heads, &k));
    PS_TRY(head_rows(builder, options, "attn_v", NULL, layer->kv_heads, &v));
    PS_TRY(rope(builder, "attn_q.rope", q, &q));
    PS_TRY(rope(builder, "attn_k.rope", k, &k));
    PS_TRY(kv_write(builder, k, v, &kv));

    const ps_node node = {.op = PS_OP_ATTENTION,
                          .input_count = 2,
                          .inputs = {q, kv},
                          .attributes = {.site = PS_SITE_KV,
                                         .heads = layer->heads,
                                         .kv_heads = layer->kv_heads,
                                         .head_dim = layer->head_dim,
                                         .scale = builder->config->attention_scale,
                                         .softcap = builder->config->attention_softcap}};
    ps_value_id mixed = 0;
    PS_TRY(emit(builder, "attn", node, layer->heads * layer->head_dim, &mixed));
    const ps_linear_spec spec = {
        .tensor = "attn_output", .outputs = builder->config->dim, .site = PS_SITE_ATTN_O};
    return ps_builder_linear(builder, &spec, mixed, out);
}

static ps_status act_mul(ps_builder *builder, ps_value_id gate, ps_value_id up, ps_value_id *out)
{
    const ps_node node = {.op = PS_OP_ACT_MUL,
                          .input_count = 2,
                          .inputs = {gate, up},
                          .attributes = {.activation = builder->config->activation}};
    return emit(builder, "ffn_act", node, columns_of(builder, gate), out);
}

static ps_status mlp(ps_builder *builder, ps_value_id x, ps_value_id *out)
{
    const uint32_t ffn = builder->layer->ffn;
    const ps_linear_spec gate = {.tensor = "ffn_gate", .outputs = ffn, .site = PS_SITE_MLP_GATE_UP};
    const ps_linear_spec up = {.tensor = "ffn_up", .outputs = ffn, .site = PS_SITE_MLP_GATE_UP};
    const ps_linear_spec down = {
        .tensor = "ffn_down", .outputs = builder->config->dim, .site = PS_SITE_MLP_DOWN};
    ps_value_id gated = 0;
    ps_value_id upped = 0;
    PS_TRY(ps_builder_linear(builder, &gate, x, &gated));
    PS_TRY(ps_builder_linear(builder, &up, x, &upped));
    PS_TRY(act_mul(builder, gated, upped, &gated));
    return ps_builder_linear(builder, &down, gated, out);
}

static ps_status expert_linear(ps_builder *builder, const ps_linear_spec *spec, ps_value_id x,
                               ps_value_id route, ps_value_id *out)
{
    const ps_model_config *config = builder->config;
    char name[NAME_BYTES_MAX];
    ps_value_id weight = 0;
    PS_TRY(add_weight(builder, full_name(builder, spec->tensor, ".weight", name),
                      (shape){.columns = columns_of(builder, x),
                              .rows = spec->outputs,
                              .experts = config->experts},
                      &weight));
    const ps_node node = {.op = PS_OP_EXPERT_LINEAR,
                          .input_count = 3,
                          .inputs = {x, route, weight},
                          .attributes = {.site = spec->site,
                                         .top_k = config->experts_used,
                                         .experts = config->experts}};
    return emit(builder, spec->tensor, node, spec->outputs, out);
}

static ps_status router(ps_builder *builder, ps_value_id x, ps_value_id *out)
{
    const ps_model_config *config = builder->config;
    const ps_linear_spec spec = {
        .tensor = "ffn_gate_inp", .outputs = config->experts, .site = PS_SITE_MOE_ROUTER};
    ps_value_id logits = 0;
    PS_TRY(ps_builder_linear(builder, &spec, x, &logits));
    const ps_node node = {.op = PS_OP_ROUTE,
                          .input_count = 1,
                          .inputs = {logits},
                          .attributes = {.top_k = config->experts_used,
                                         .experts = config->experts,
                                         .gating = config->expert_gating,
                                         .normalise = config->expert_normalise,
                                         .scale = config->expert_scale}};
    return emit(builder, "route", node, 2 * config->experts_used, out);
}

static ps_status moe(ps_builder *builder, ps_value_id x, ps_value_id *out)
{
    const ps_model_config *config = builder->config;
    const ps_linear_spec gate = {
        .tensor = "ffn_gate_exps", .outputs = config->expert_ffn, .site = PS_SITE_MOE_GATE_UP};
    const ps_linear_spec up = {
        .tensor = "ffn_up_exps", .outputs = config->expert_ffn, .site = PS_SITE_MOE_GATE_UP};
    const ps_linear_spec down = {
        .tensor = "ffn_down_exps", .outputs = config->dim, .site = PS_SITE_MOE_DOWN};
    ps_value_id route = 0;
    ps_value_id gated = 0;
    ps_value_id upped = 0;
    PS_TRY(router(builder, x, &route));
    PS_TRY(expert_linear(builder, &gate, x, route, &gated));
    PS_TRY(expert_linear(builder, &up, x, route, &upped));
    PS_TRY(act_mul(builder, gated, upped, &gated));
    PS_TRY(expert_linear(builder, &down, gated, route, &gated));
    const ps_node sum = {.op = PS_OP_EXPERT_SUM,
                         .input_count = 2,
                         .inputs = {gated, route},
                         .attributes = {.top_k = config->experts_used}};
    return emit(builder, "ffn_out", sum, config->dim, out);
}

ps_status ps_builder_ffn(ps_builder *builder, ps_value_id x, ps_value_id *out)
{
    return builder->layer->is_moe ? moe(builder, x, out) : mlp(builder, x, out);
}

ps_status ps_builder_pre_norm_layer(ps_builder *builder, unsigned options, ps_value_id x,
                                    ps_value_id *out)
{
    const uint32_t dim = builder->config->dim;
    ps_value_id y = 0;
    PS_TRY(ps_builder_norm(builder, "attn_norm", dim, x, &y));
    PS_TRY(ps_builder_attention(builder, options, y, &y));
    PS_TRY(ps_builder_add(builder, "attn_residual", x, y, &x));
    PS_TRY(ps_builder_norm(builder, "ffn_norm", dim, x, &y));
    PS_TRY(ps_builder_ffn(builder, y, &y));
    return ps_builder_add(builder, "ffn_residual", x, y, out);
}

static ps_status embed(ps_builder *builder, ps_value_id *out)
{
    const ps_model_config *config = builder->config;
    PS_TRY(add_weight(builder, "token_embd.weight",
                      (shape){.columns = config->dim, .rows = config->vocabulary},
                      &builder->embedding));
    const ps_node node = {.op = PS_OP_EMBED,
                          .input_count = 1,
                          .inputs = {builder->embedding},
                          .attributes = {.scale = config->embedding_scale}};
    return emit(builder, "token_embd", node, config->dim, out);
}

// The factors divide frequencies, so that a zero or a NaN would reach every token.
static ps_status check_factors(const ps_gguf_tensor *tensor, uint32_t count)
{
    if (tensor->data == NULL) { // a head, of a compiled file that lacks it
        return ps_fail(PS_INVALID, "tensor '%s' has no data", tensor->name);
    }
    for (uint32_t i = 0; i < count; i++) {
        float factor = 0.0f;
        memcpy(&factor, (const char *)tensor->data + i * sizeof factor, sizeof factor);
        if (!(factor >= PS_ROPE_FACTOR_MIN && factor <= PS_ROPE_FACTOR_MAX)) {
            return ps_fail(PS_INVALID, "tensor '%s' holds %g at %u; %g to %g expected",
                           tensor->name, (double)factor, i, (double)PS_ROPE_FACTOR_MIN,
                           (double)PS_ROPE_FACTOR_MAX);
        }
    }
    return PS_OK;
}

// The frequency factors of Llama 3.1 and later, or PS_NO_VALUE.
static ps_status rope_factors(ps_builder *builder, ps_value_id *out)
{
    const uint32_t count = builder->config->rotary_dim / 2;
    const ps_gguf_tensor *tensor = find_tensor(builder, "rope_freqs.weight");
    *out = PS_NO_VALUE;
    if (tensor == NULL) {
        return PS_OK;
    }
    PS_TRY(add_weight(builder, tensor->name, (shape){.columns = count, .rows = 1}, out));
    return check_factors(tensor, count);
}

// One table for each (base, scale) among the layers, in order of first use.
static ps_status rope_tables(ps_builder *builder)
{
    const ps_model_config *config = builder->config;
    ps_value_id factors = PS_NO_VALUE;
    PS_TRY(rope_factors(builder, &factors));
    for (uint32_t i = 0; i < config->layers; i++) {
        const ps_model_layer *layer = &config->layer[i];
        if (find_rope(builder, layer) != NULL) {
            continue;
        }
        if (builder->rope_count == PS_ROPE_TABLES_MAX) {
            return ps_fail(PS_UNSUPPORTED, "the layers have more than %u different RoPE bases",
                           PS_ROPE_TABLES_MAX);
        }
        ps_rope_key *key = &builder->rope[builder->rope_count];
        *key = (ps_rope_key){.base = layer->rope_base, .scale = layer->rope_scale};
        const ps_node node = {.op = PS_OP_ROPE_TABLE,
                              .input_count = factors == PS_NO_VALUE ? 0 : 1,
                              .inputs = {factors},
                              .attributes = {.rotary_dim = config->rotary_dim,
                                             .freq_base = layer->rope_base,
                                             .freq_scale = layer->rope_scale}};
        char name[NAME_BYTES_MAX];
        (void)snprintf(name, sizeof name, "rope_table.%u", builder->rope_count);
        PS_TRY(emit(builder, name, node, config->rotary_dim, &key->table));
        builder->rope_count++;
    }
    return PS_OK;
}

static bool has_own_head(const ps_builder *builder)
{
    return builder->file == NULL ? !builder->config->ties_embedding
                                 : find_tensor(builder, "output.weight") != NULL;
}

// Only rows that want logits go through the final norm and the largest linear of the model.
static ps_status logits(ps_builder *builder, ps_value_id x)
{
    const ps_model_config *config = builder->config;
    const ps_node select = {.op = PS_OP_SELECT_LOGITS, .input_count = 1, .inputs = {x}};
    PS_TRY(emit(builder, "selected", select, config->dim, &x));
    PS_TRY(ps_builder_norm(builder, "output_norm", config->dim, x, &x));

    ps_value_id head = builder->embedding;
    if (has_own_head(builder)) {
        PS_TRY(add_weight(builder, "output.weight",
                          (shape){.columns = config->dim, .rows = config->vocabulary}, &head));
    }
    const bool is_capped = config->logits_softcap > 0.0f;
    const ps_node linear = {.op = PS_OP_LINEAR,
                            .input_count = 2,
                            .inputs = {x, head},
                            .attributes = {.site = PS_SITE_LM_HEAD}};
    PS_TRY(emit(builder, is_capped ? "output" : "logits", linear, config->vocabulary, &x));
    if (is_capped) {
        const ps_node softcap = {.op = PS_OP_SOFTCAP,
                                 .input_count = 1,
                                 .inputs = {x},
                                 .attributes = {.softcap = config->logits_softcap}};
        PS_TRY(emit(builder, "logits", softcap, config->vocabulary, &x));
    }
    builder->graph->values[x].is_output = true;
    return PS_OK;
}

ps_status ps_builder_run(ps_builder *builder, ps_layer_fn *build_layer)
{
    const ps_model_config *config = builder->config;
    ps_graph *graph = builder->graph;
    graph->vocabulary = config->vocabulary;
    graph->kv_group_count = config->kv_group_count;
    memcpy(graph->kv_groups, config->kv_groups, sizeof graph->kv_groups);

    ps_value_id x = 0;
    PS_TRY(embed(builder, &x));
    PS_TRY(rope_tables(builder));
    for (uint32_t i = 0; i < config->layers; i++) {
        builder->layer = &config->layer[i];
        builder->layer_index = i;
        PS_TRY(build_layer(builder, x, &x));
    }
    builder->layer = NULL;
    return logits(builder, x);
}
