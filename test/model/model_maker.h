// test/model/model_maker.h - small GGUF files made in memory: a good model, then one thing wrong.
//
// Writes the bytes of the format itself and shares no code with src/format. Names and values are
// borrowed until made_open returns.
#ifndef PS_TEST_MODEL_MAKER_H
#define PS_TEST_MODEL_MAKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MADE_F32 = 0, MADE_F16 = 1, MADE_Q8_0 = 8, MADE_IQ2_XXS = 16 };
enum { MADE_KEYS_MAX = 48, MADE_TENSORS_MAX = 96, MADE_BYTES_MAX = 1 << 23 };

typedef enum made_kind {
    MADE_U32 = 4,
    MADE_FLOAT = 6,
    MADE_BOOL = 7,
    MADE_STRING = 8,
    MADE_ARRAY = 9, // of u32, the numbers of `array`
    MADE_STRINGS,   // an array of `number` strings
} made_kind;

typedef struct made_key {
    const char *name; // NULL: taken out
    made_kind kind;
    uint32_t number;
    float real;
    const char *text;
    uint32_t array[4];
} made_key;

typedef struct made_tensor {
    char name[64]; // "": taken out
    uint32_t type;
    uint32_t dimensions[3]; // 0: absent
    float fill;             // of F32 tensors
} made_tensor;

typedef struct made_model {
    const char *architecture;
    made_key keys[MADE_KEYS_MAX];
    uint32_t key_count;
    made_tensor tensors[MADE_TENSORS_MAX];
    uint32_t tensor_count;
    unsigned char *bytes;
    size_t used;
} made_model;

static inline void made_set(made_model *model, made_key key)
{
    for (uint32_t i = 0; i < model->key_count; i++) {
        if (model->keys[i].name != NULL && strcmp(model->keys[i].name, key.name) == 0) {
            model->keys[i] = key;
            return;
        }
    }
    assert_true(model->key_count < MADE_KEYS_MAX);
    model->keys[model->key_count++] = key;
}

static inline void made_set_u32(made_model *model, const char *name, uint32_t number)
{
    made_set(model, (made_key){.name = name, .kind = MADE_U32, .number = number});
}

static inline void made_set_f32(made_model *model, const char *name, float real)
{
    made_set(model, (made_key){.name = name, .kind = MADE_FLOAT, .real = real});
}

static inline void made_set_string(made_model *model, const char *name, const char *text)
{
    made_set(model, (made_key){.name = name, .kind = MADE_STRING, .text = text});
}

static inline void made_remove_key(made_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->key_count; i++) {
        if (model->keys[i].name != NULL && strcmp(model->keys[i].name, name) == 0) {
            model->keys[i].name = NULL;
            return;
        }
    }
    fail_msg("no key %s", name);
}

// Changes the tensor of that name, or adds it. Absent dimensions are 0.
static inline void made_set_tensor(made_model *model, const char *name, uint32_t type,
                                   uint32_t columns, uint32_t rows, uint32_t experts)
{
    made_tensor *tensor = NULL;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (strcmp(model->tensors[i].name, name) == 0) {
            tensor = &model->tensors[i];
        }
    }
    if (tensor == NULL) {
        assert_true(model->tensor_count < MADE_TENSORS_MAX);
        tensor = &model->tensors[model->tensor_count++];
    }
    *tensor = (made_tensor){.type = type, .dimensions = {columns, rows, experts}, .fill = 1.0f};
    (void)snprintf(tensor->name, sizeof tensor->name, "%s", name);
}

static inline made_tensor *made_tensor_of(made_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (strcmp(model->tensors[i].name, name) == 0) {
            return &model->tensors[i];
        }
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

static inline void made_set_layer_tensor(made_model *model, uint32_t layer, const char *name,
                                         uint32_t type, uint32_t columns, uint32_t rows,
                                         uint32_t experts)
{
    char full[64];
    (void)snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    made_set_tensor(model, full, type, columns, rows, experts);
}

// Keys are named with the architecture, which is borrowed: one of the literals below.
#define MADE_DIM 64u
#define MADE_FFN 96u
#define MADE_VOCABULARY 32u
#define MADE_LAYERS 2u

static inline void made_layer(made_model *model, uint32_t layer)
{
    made_set_layer_tensor(model, layer, "attn_norm.weight", MADE_F32, MADE_DIM, 0, 0);
    made_set_layer_tensor(model, layer, "attn_q.weight", MADE_Q8_0, MADE_DIM, 64, 0);
    made_set_layer_tensor(model, layer, "attn_k.weight", MADE_Q8_0, MADE_DIM, 32, 0);
    made_set_layer_tensor(model, layer, "attn_v.weight", MADE_Q8_0, MADE_DIM, 32, 0);
    made_set_layer_tensor(model, layer, "attn_output.weight", MADE_Q8_0, 64, MADE_DIM, 0);
    made_set_layer_tensor(model, layer, "ffn_norm.weight", MADE_F32, MADE_DIM, 0, 0);
    made_set_layer_tensor(model, layer, "ffn_gate.weight", MADE_Q8_0, MADE_DIM, MADE_FFN, 0);
    made_set_layer_tensor(model, layer, "ffn_up.weight", MADE_Q8_0, MADE_DIM, MADE_FFN, 0);
    made_set_layer_tensor(model, layer, "ffn_down.weight", MADE_Q8_0, MADE_FFN, MADE_DIM, 0);
}

// A good Llama: two layers, four heads of 16 columns over two KV heads, tied embeddings.
static inline void made_llama(made_model *model)
{
    free(model->bytes);
    *model = (made_model){.architecture = "llama"};
    made_set_string(model, "general.architecture", "llama");
    made_set_string(model, "general.name", "made");
    made_set_u32(model, "llama.block_count", MADE_LAYERS);
    made_set_u32(model, "llama.context_length", 128);
    made_set_u32(model, "llama.embedding_length", MADE_DIM);
    made_set_u32(model, "llama.feed_forward_length", MADE_FFN);
    made_set_u32(model, "llama.attention.head_count", 4);
    made_set_u32(model, "llama.attention.head_count_kv", 2);
    made_set_f32(model, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    made_set_tensor(model, "token_embd.weight", MADE_Q8_0, MADE_DIM, MADE_VOCABULARY, 0);
    for (uint32_t i = 0; i < MADE_LAYERS; i++) {
        made_layer(model, i);
    }
    made_set_tensor(model, "output_norm.weight", MADE_F32, MADE_DIM, 0, 0);
}

static inline void made_put(made_model *model, const void *bytes, size_t count)
{
    assert_true(model->used + count <= MADE_BYTES_MAX);
    memcpy(model->bytes + model->used, bytes, count);
    model->used += count;
}

static inline void made_put_u32(made_model *model, uint32_t value)
{
    made_put(model, &value, sizeof value);
}

static inline void made_put_u64(made_model *model, uint64_t value)
{
    made_put(model, &value, sizeof value);
}

static inline void made_put_string(made_model *model, const char *text)
{
    made_put_u64(model, strlen(text));
    made_put(model, text, strlen(text));
}

static inline void made_put_value(made_model *model, const made_key *key)
{
    const unsigned char flag = key->number != 0;
    made_put_u32(model, key->kind == MADE_STRINGS ? MADE_ARRAY : (uint32_t)key->kind);
    switch (key->kind) {
    case MADE_U32:
        made_put_u32(model, key->number);
        break;
    case MADE_FLOAT:
        made_put(model, &key->real, sizeof key->real);
        break;
    case MADE_BOOL:
        made_put(model, &flag, 1);
        break;
    case MADE_STRING:
        made_put_string(model, key->text);
        break;
    case MADE_ARRAY:
        made_put_u32(model, MADE_U32);
        made_put_u64(model, key->number);
        made_put(model, key->array, key->number * sizeof key->array[0]);
        break;
    case MADE_STRINGS:
        made_put_u32(model, MADE_STRING);
        made_put_u64(model, key->number);
        for (uint32_t i = 0; i < key->number; i++) {
            made_put_string(model, "x");
        }
        break;
    }
}

static inline uint64_t made_tensor_bytes(const made_tensor *tensor)
{
    uint64_t values = 1;
    for (int i = 0; i < 3; i++) {
        values *= tensor->dimensions[i] == 0 ? 1 : tensor->dimensions[i];
    }
    switch (tensor->type) {
    case MADE_F32:
        return values * 4;
    case MADE_F16:
        return values * 2;
    case MADE_Q8_0:
        return values / 32 * 34;
    default: // IQ2_XXS
        return values / 256 * 66;
    }
}

static inline void made_put_data(made_model *model, const made_tensor *tensor)
{
    const uint64_t bytes = made_tensor_bytes(tensor);
    if (tensor->type == MADE_F32) {
        for (uint64_t i = 0; i < bytes / 4; i++) {
            made_put(model, &tensor->fill, sizeof tensor->fill);
        }
    } else {
        assert_true(model->used + bytes <= MADE_BYTES_MAX);
        memset(model->bytes + model->used, 0, bytes);
        model->used += bytes;
    }
    while (model->used % 32 != 0) {
        made_put(model, "", 1);
    }
}

static inline void made_put_table(made_model *model)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const made_tensor *tensor = &model->tensors[i];
        if (tensor->name[0] == '\0') {
            continue;
        }
        uint32_t count = 1;
        while (count < 3 && tensor->dimensions[count] != 0) {
            count++;
        }
        made_put_string(model, tensor->name);
        made_put_u32(model, count);
        for (uint32_t d = 0; d < count; d++) {
            made_put_u64(model, tensor->dimensions[d]);
        }
        made_put_u32(model, tensor->type);
        made_put_u64(model, offset);
        offset += (made_tensor_bytes(tensor) + 31) / 32 * 32;
    }
}

// The file of the model, which keeps the bytes until it is made again or freed.
static inline ps_gguf *made_open(made_model *model)
{
    free(model->bytes);
    model->bytes = malloc(MADE_BYTES_MAX);
    assert_non_null(model->bytes);
    model->used = 0;
    uint64_t keys = 0;
    uint64_t tensors = 0;
    for (uint32_t i = 0; i < model->key_count; i++) {
        keys += model->keys[i].name != NULL;
    }
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        tensors += model->tensors[i].name[0] != '\0';
    }
    made_put(model, "GGUF", 4);
    made_put_u32(model, 3);
    made_put_u64(model, tensors);
    made_put_u64(model, keys);
    for (uint32_t i = 0; i < model->key_count; i++) {
        if (model->keys[i].name != NULL) {
            made_put_string(model, model->keys[i].name);
            made_put_value(model, &model->keys[i]);
        }
    }
    made_put_table(model);
    while (model->used % 32 != 0) {
        made_put(model, "", 1);
    }
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (model->tensors[i].name[0] != '\0') {
            made_put_data(model, &model->tensors[i]);
        }
    }
    ps_gguf *file = NULL;
    if (ps_gguf_open_bytes(model->bytes, model->used, &file) != PS_OK) {
        fail_msg("the test's own file: %s", ps_error_message());
    }
    return file;
}

#endif
