// model/model.h - from a model file to the graph of one step.
//
// Two steps: ps_model_read turns the metadata of a file into checked numbers, ps_model_build turns
// numbers and tensors into an un-fused graph. After both returned PS_OK every size in the graph is
// in range, every weight stands in the file with exactly the expected shape, and every weight has a
// type that prestage computes with; so nothing above has to check a model file again.
//
// Pure: no clock, no threads, no files; memory comes from the arena that is handed in. The bytes of
// weights are not read, but for the few factors of `rope_freqs.weight`.
#ifndef PS_MODEL_H
#define PS_MODEL_H

#include "format/gguf.h"
#include "ir/graph.h"

#define PS_MODEL_LAYERS_MAX 1024u
#define PS_MODEL_HEAD_DIM_MAX 512u      // what the attention kernels take
#define PS_MODEL_CONTEXT_MAX (1u << 30) // positions; keeps them far inside an int32_t
#define PS_MODEL_NAME_BYTES_MAX ((size_t)255)
#define PS_ROPE_FACTOR_MIN 1e-6f // divisors of frequencies: the inverse has to be a float
#define PS_ROPE_FACTOR_MAX 1e6f

// One layer. Query rows are heads * head_dim columns, key and value rows kv_heads * head_dim.
typedef struct ps_model_layer {
    uint32_t heads;    // >= 1, a multiple of kv_heads
    uint32_t kv_heads; // >= 1
    uint32_t head_dim; // a multiple of 8, <= PS_MODEL_HEAD_DIM_MAX
    uint32_t ffn;      // columns between gate_up and down; 0 in a layer of experts
    uint32_t kv_group; // index into kv_groups of the configuration
    bool is_moe;       // experts instead of one feed-forward network
    float rope_base;   // > 0
    float rope_scale;  // factor of every frequency; 1: none
} ps_model_layer;

// The hyperparameters of a model, all in range. Immutable once read.
typedef struct ps_model_config {
    const char *architecture; // as general.architecture says it; static
    const char *name;         // general.name, or "" - any bytes but NUL, cut at the limit above
    uint32_t layers;          // 1..PS_MODEL_LAYERS_MAX
    uint32_t dim;             // columns of the residual stream
    uint32_t vocabulary;      // rows of token_embd.weight; no fewer than the tokens of the file
    uint32_t context_tokens;  // that the model was made for

    uint32_t experts;      // 0: the model has none
    uint32_t experts_used; // per row, 1..experts
    uint32_t expert_ffn;   // columns inside one expert
    ps_gating expert_gating;
    bool expert_normalise; // divide the chosen weights by their sum
    float expert_scale;    // factor of the chosen weights; 0: none

    float norm_eps; // > 0
    ps_rope_style rope_style;
    uint32_t rotary_dim; // even, <= head_dim of every layer
    ps_activation activation;
    float embedding_scale;   // factor of the embedded row; 0: none
    float attention_scale;   // factor of attention scores
    float attention_softcap; // 0: none
    float logits_softcap;    // 0: none

    // Of a configuration without a model file; otherwise the file says it.
    ps_dtype weight_dtype; // of all weights but vectors
    bool ties_embedding;   // logits are made with token_embd.weight

    ps_kv_group kv_groups[PS_KV_GROUPS_MAX]; // [0] sees all positions, used or not
    uint32_t kv_group_count;
    const ps_model_layer *layer; // [layers]
} ps_model_config;

// Reads and checks the hyperparameters. *out and all it points to live in `arena`; the file may be
// closed afterwards.
//
// PS_INVALID      a key is missing or out of range: the message names it and the range
// PS_UNSUPPORTED  an architecture that is not in the table (the message lists those that are), or a
//                 variation that is not computed here, such as YaRN: the message names the key
// PS_NO_MEMORY    the arena is spent
PS_MUST_USE ps_status ps_model_read(const ps_gguf *file, ps_arena *arena,
                                    const ps_model_config **out);

// Builds the graph of one step into `graph`, which has just been initialised. `config` was read
// from `file`; or `file` is NULL, and then every weight has the shape that the architecture expects
// and the type that `config` says, vectors are F32, and what a file may have or not (biases that
// the architecture does not ask for, factors of RoPE) is not there. The graph borrows neither. Operators: embed, rms_norm, linear with one weight,
// add_bias, add, act_mul, softcap, rope_table, rope, kv_write, attention, select_logits, route,
// expert_linear, expert_sum. Every weight is named as its tensor is; the KV of layer i is
// "blk.<i>.kv"; the one output is "logits".
//
// PS_INVALID      a tensor is missing or has another shape: the message names it and both shapes
// PS_UNSUPPORTED  a tensor has a type that prestage does not compute with: name, type, and the
//                 types that it does
// PS_NO_MEMORY, PS_EXHAUSTED
//
// On failure the graph holds a part and is good for nothing.
PS_MUST_USE ps_status ps_model_build(const ps_model_config *config, const ps_gguf *file,
                                     ps_graph *graph);

// The architectures that ps_model_read knows. index < count; names are static.
size_t ps_model_architecture_count(void);
const char *ps_model_architecture_name(size_t index);

// Counts the tensors of the file that the graph does not read, and writes the names of the first
// `capacity` of them, in file order, to names (borrowed from the file). Such a file works, but its
// author meant more than prestage does: say so to the user. Memory comes from graph->arena;
// O((tensors + values) log values).
PS_MUST_USE ps_status ps_model_unused_tensors(const ps_graph *graph, const ps_gguf *file,
                                              const char **names, uint32_t capacity,
                                              uint32_t *out_count);

#endif
