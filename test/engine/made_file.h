// test/engine/made_file.h - models of model_maker.h with a tokenizer and random weights, as files.
#ifndef PS_TEST_ENGINE_MADE_FILE_H
#define PS_TEST_ENGINE_MADE_FILE_H

#include "gen.h"
#include "model/model_maker.h"

#include <unistd.h>

// Writes bytes to a new file whose name replaces the template `path`.
static inline void write_temporary(const void *bytes, size_t size_bytes, char path[64])
{
    (void)snprintf(path, 64, "/tmp/prestage-test-XXXXXX");
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(size_bytes, write(descriptor, bytes, size_bytes));
    (void)close(descriptor);
}

// A positive or negative half of magnitude 2^(exponent - 15) to twice that.
static inline uint16_t made_half(ps_gen *gen, uint32_t exponent)
{
    const uint64_t bits = ps_gen_next(gen);
    return (uint16_t)((bits & 0x83ff) | exponent << 10);
}

static inline void made_fill_tensor(ps_gen *gen, const made_tensor *tensor, unsigned char *to)
{
    const uint64_t bytes = made_tensor_bytes(tensor);
    if (tensor->type == MADE_F32) {
        const bool is_vector = tensor->dimensions[1] == 0;
        for (uint64_t i = 0; i < bytes; i += sizeof(float)) {
            const float x = ps_gen_float(gen);
            const float value = is_vector ? 1 + x / 2 : x / 4;
            memcpy(to + i, &value, sizeof value);
        }
    } else if (tensor->type == MADE_F16) {
        for (uint64_t i = 0; i < bytes; i += sizeof(uint16_t)) {
            const uint16_t half = made_half(gen, 12);
            memcpy(to + i, &half, sizeof half);
        }
    } else {
        assert_int_equal(MADE_Q8_0, tensor->type);
        for (uint64_t i = 0; i < bytes; i++) {
            to[i] = (unsigned char)ps_gen_next(gen);
            if (i % 34 == 0) {
                const uint16_t scale = made_half(gen, 5);
                memcpy(to + i, &scale, sizeof scale);
            }
            i += i % 34 == 0;
        }
    }
}

// Gives the model a tokenizer and random weights, and writes it to a new temporary file.
static inline void made_write(made_model *model, ps_gen *gen, char path[64])
{
    const uint32_t vocabulary = made_tensor_of(model, "token_embd.weight")->dimensions[1];
    made_set_string(model, "tokenizer.ggml.model", "gpt2");
    made_set_string(model, "tokenizer.ggml.pre", "llama-bpe");
    made_set(
        model,
        (made_key){.name = "tokenizer.ggml.tokens", .kind = MADE_STRINGS, .number = vocabulary});
    ps_gguf_close(made_open(model)); // makes the bytes
    // The data stands at the end of the file, in the order of the tensors that are there.
    unsigned char *data = model->bytes + model->used;
    for (uint32_t i = model->tensor_count; i-- > 0;) {
        const made_tensor *tensor = &model->tensors[i];
        if (tensor->name[0] != '\0') {
            data -= (made_tensor_bytes(tensor) + 31) / 32 * 32;
            made_fill_tensor(gen, tensor, data);
        }
    }
    write_temporary(model->bytes, model->used, path);
}

#endif
