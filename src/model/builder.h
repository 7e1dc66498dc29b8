// model/builder.h - the blocks that architectures are made of, each appending to one graph.
//
// An architecture is a function that joins these blocks for one layer; the frame around the layers
// (embedding, RoPE tables, final norm, logits) is here and the same for all. Values are rows of the
// step unless said otherwise. Tensors are named without "blk.<i>." and without ".weight"; both are
// put around the name, the first while a layer is being built.
//
// Every function gives PS_INVALID for a tensor that is missing or has the wrong shape,
// PS_UNSUPPORTED for one of a type that is not computed here (messages: model.h), and what adding
// to a graph gives. On failure *out is untouched and the graph is good for nothing.
#ifndef PS_MODEL_BUILDER_H
#define PS_MODEL_BUILDER_H

#include "model/model.h"

typedef struct ps_rope_key {
    float base, scale;
    ps_value_id table;
} ps_rope_key;
#define PS_ROPE_TABLES_MAX 4u

// Set up and walked by ps_builder_run; architectures read config and layer.
typedef struct ps_builder {
    const ps_model_config *config;
    const ps_gguf *file; // NULL: weights are as config says
    ps_graph *graph;
    const ps_model_layer *layer; // being built; NULL in the frame
    uint32_t layer_index;        // 0-based, as tensors are named; attributes are 1-based
    ps_value_id embedding;       // the weight, which tied models use again for the logits
    ps_rope_key rope[PS_ROPE_TABLES_MAX];
    uint32_t rope_count;
} ps_builder;

// Appends one layer: x [T, dim] -> *out [T, dim].
typedef ps_status ps_layer_fn(ps_builder *builder, ps_value_id x, ps_value_id *out);

// Appends the whole graph, calling build_layer once a layer.
PS_MUST_USE ps_status ps_builder_run(ps_builder *builder, ps_layer_fn *build_layer);

// x [T, n * width] -> [T, n * width], RMS norm over each run of `width` columns, times the tensor.
PS_MUST_USE ps_status ps_builder_norm(ps_builder *builder, const char *tensor, uint32_t width,
                                      ps_value_id x, ps_value_id *out);

// a [T, C] + b [T, C]; `name` is for the result.
PS_MUST_USE ps_status ps_builder_add(ps_builder *builder, const char *name, ps_value_id a,
                                     ps_value_id b, ps_value_id *out);

typedef struct ps_linear_spec {
    const char *tensor;
    uint32_t outputs;
    ps_site site;
    uint32_t unit;      // output columns that stay together when a linear is split; 0: any
    bool bias_required; // "<tensor>.bias" must be there; without this it is added when it is
} ps_linear_spec;

// x [T, C] -> [T, outputs].
PS_MUST_USE ps_status ps_builder_linear(ps_builder *builder, const ps_linear_spec *spec,
                                        ps_value_id x, ps_value_id *out);

typedef enum ps_attention_option {
    PS_ATTENTION_QKV_BIAS = 1, // attn_{q,k,v}.bias are required
    PS_ATTENTION_QK_NORM = 2,  // attn_q_norm and attn_k_norm over each head, before RoPE
} ps_attention_option;

// x [T, dim] (already normed) -> [T, dim]: attn_q, attn_k, attn_v, RoPE, attention, attn_output.
// options: a sum of ps_attention_option.
PS_MUST_USE ps_status ps_builder_attention(ps_builder *builder, unsigned options, ps_value_id x,
                                           ps_value_id *out);

// x [T, dim] (already normed) -> [T, dim]: ffn_down(activation(ffn_gate x) * ffn_up x), or in a
// layer of experts ffn_gate_inp and the same with ffn_{gate,up,down}_exps.
PS_MUST_USE ps_status ps_builder_ffn(ps_builder *builder, ps_value_id x, ps_value_id *out);

// The layer that most architectures have: x + attention(norm x), then x + ffn(norm x).
PS_MUST_USE ps_status ps_builder_pre_norm_layer(ps_builder *builder, unsigned options,
                                                ps_value_id x, ps_value_id *out);

#endif
