// test/engine/made_shapes.h - small models of any shape, for made_file.h to write.
#ifndef PS_TEST_ENGINE_MADE_SHAPES_H
#define PS_TEST_ENGINE_MADE_SHAPES_H

#include "engine/made_file.h"

typedef struct shape {
    uint32_t heads, kv_heads, head_dim, ffn, vocabulary;
    uint32_t experts, top_k; // 0: dense
    uint32_t type;           // of matrices
    uint32_t window;         // 0: none
    uint32_t context;
    const char *architecture; // NULL: llama
    uint32_t value_type;      // of attn_v; 0: type
} shape;

static inline void made_ffn(made_model *model, const shape *s, uint32_t layer, uint32_t type)
{
    // The columns of the way down need whole blocks.
    const uint32_t down = s->ffn % 32 == 0 ? type : s->type == MADE_F32 ? MADE_F32 : MADE_F16;
    const uint32_t gate = s->ffn == 1 && s->experts == 0 ? MADE_F32 : type;
    if (s->experts > 0) {
        for (int i = 0; i < 3; i++) {
            static const char *const OLD[] = {"ffn_gate", "ffn_up", "ffn_down"};
            char name[64];
            (void)snprintf(name, sizeof name, "blk.%u.%s.weight", layer, OLD[i]);
            made_tensor_of(model, name)->name[0] = '\0';
        }
        made_set_layer_tensor(model, layer, "ffn_gate_inp.weight", MADE_F32, MADE_DIM, s->experts,
                              0);
        made_set_layer_tensor(model, layer, "ffn_gate_exps.weight", gate, MADE_DIM, s->ffn,
                              s->experts);
        made_set_layer_tensor(model, layer, "ffn_up_exps.weight", gate, MADE_DIM, s->ffn,
                              s->experts);
        made_set_layer_tensor(model, layer, "ffn_down_exps.weight", down, s->ffn, MADE_DIM,
                              s->experts);
    } else {
        made_set_layer_tensor(model, layer, "ffn_gate.weight", gate, MADE_DIM, s->ffn, 0);
        made_set_layer_tensor(model, layer, "ffn_up.weight", gate, MADE_DIM, s->ffn, 0);
        made_set_layer_tensor(model, layer, "ffn_down.weight", down, s->ffn, MADE_DIM, 0);
    }
}

// Renames the keys of a Llama, and gives the layers what the architecture has besides.
static inline void made_change_architecture(made_model *model, const shape *s)
{
    static char keys[MADE_KEYS_MAX][64];
    made_set_string(model, "general.architecture", s->architecture);
    for (uint32_t i = 0; i < model->key_count; i++) {
        if (strncmp(model->keys[i].name, "llama.", 6) == 0) {
            (void)snprintf(keys[i], sizeof keys[i], "%s.%s", s->architecture,
                           model->keys[i].name + 6);
            model->keys[i].name = keys[i];
        }
    }
    for (uint32_t i = 0; i < MADE_LAYERS; i++) {
        if (strcmp(s->architecture, "qwen2") == 0) {
            const uint32_t kv = s->kv_heads * s->head_dim;
            made_set_layer_tensor(model, i, "attn_q.bias", MADE_F32, s->heads * s->head_dim, 0, 0);
            made_set_layer_tensor(model, i, "attn_k.bias", MADE_F32, kv, 0, 0);
            made_set_layer_tensor(model, i, "attn_v.bias", MADE_F32, kv, 0, 0);
        } else {
            made_set_layer_tensor(model, i, "attn_q_norm.weight", MADE_F32, s->head_dim, 0, 0);
            made_set_layer_tensor(model, i, "attn_k_norm.weight", MADE_F32, s->head_dim, 0, 0);
        }
        if (strcmp(s->architecture, "gemma3") == 0) {
            made_set_layer_tensor(model, i, "post_attention_norm.weight", MADE_F32, MADE_DIM, 0, 0);
            made_set_layer_tensor(model, i, "post_ffw_norm.weight", MADE_F32, MADE_DIM, 0, 0);
        }
    }
}

static inline void made_shape(made_model *model, const shape *s)
{
    made_llama(model);
    made_set_u32(model, "llama.attention.head_count", s->heads);
    made_set_u32(model, "llama.attention.head_count_kv", s->kv_heads);
    made_set_u32(model, "llama.attention.key_length", s->head_dim);
    made_set_u32(model, "llama.attention.value_length", s->head_dim);
    made_set_u32(model, "llama.rope.dimension_count", s->head_dim);
    made_set_u32(model, "llama.context_length", s->context);
    made_set_u32(model, "llama.feed_forward_length", s->ffn);
    if (s->window > 0) {
        made_set_u32(model, "llama.attention.sliding_window", s->window);
    }
    if (s->experts > 0) {
        made_set_u32(model, "llama.expert_count", s->experts);
        made_set_u32(model, "llama.expert_used_count", s->top_k);
    }
    const uint32_t q = s->heads * s->head_dim;
    const uint32_t kv = s->kv_heads * s->head_dim;
    made_set_tensor(model, "token_embd.weight", s->vocabulary == 1 ? MADE_F32 : s->type, MADE_DIM,
                    s->vocabulary, 0);
    for (uint32_t i = 0; i < MADE_LAYERS; i++) {
        made_set_layer_tensor(model, i, "attn_q.weight", s->type, MADE_DIM, q, 0);
        made_set_layer_tensor(model, i, "attn_k.weight", s->type, MADE_DIM, kv, 0);
        made_set_layer_tensor(model, i, "attn_v.weight",
                              s->value_type == 0 ? s->type : s->value_type, MADE_DIM, kv, 0);
        made_set_layer_tensor(model, i, "attn_output.weight", q % 32 == 0 ? s->type : MADE_F16, q,
                              MADE_DIM, 0);
        made_ffn(model, s, i, s->type);
    }
    if (s->architecture != NULL) {
        made_change_architecture(model, s);
    }
}

#endif
