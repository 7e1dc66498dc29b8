// test/fuzz/gguf_walk.h - touches everything that an open GGUF file hands out.
#ifndef PS_TEST_FUZZ_GGUF_WALK_H
#define PS_TEST_FUZZ_GGUF_WALK_H

#include "base/hash.h"
#include "format/gguf.h"

#include <stdlib.h>
#include <string.h>

// Ends the process when the file object breaks a promise of gguf.h; reads outside the file are
// found by what surrounds it: a sanitizer, or the guard page of replay_main.c.

static inline void ps_gguf_walk_strings(const ps_gguf *file, const char *key, uint64_t count)
{
    ps_str *strings = calloc(count + 1, sizeof *strings);
    ps_assert(strings != NULL);
    if (ps_gguf_get_string_array(file, key, strings, count) == PS_OK) {
        for (uint64_t i = 0; i < count; i++) {
            ps_assert(strings[i].length <= PS_GGUF_STRING_BYTES_MAX);
            (void)ps_hash(strings[i].data, strings[i].length, 0);
        }
    }
    free(strings);
}

// Every array function on every key; what it answers is the unit test's business.
static inline uint32_t ps_gguf_walk_array(const ps_gguf *file, const char *key)
{
    uint64_t count = 2; // for a scalar, which stands for any count
    uint32_t successes = ps_gguf_get_array_count(file, key, &count) == PS_OK;
    uint64_t *out = calloc(count + 1, sizeof *out);
    ps_assert(out != NULL);
    successes += ps_gguf_get_u64_array(file, key, out, count) == PS_OK;
    successes += ps_gguf_get_f32_array(file, key, (float *)out, count) == PS_OK;
    successes += ps_gguf_get_i32_array(file, key, (int32_t *)out, count) == PS_OK;
    free(out);
    ps_gguf_walk_strings(file, key, count);
    return successes;
}

static inline void ps_gguf_walk_key(const ps_gguf *file, uint32_t index)
{
    const char *key = ps_gguf_key_at(file, index);
    uint64_t whole;
    float real;
    bool truth;
    ps_str string;
    uint32_t scalars = ps_gguf_get_u64(file, key, &whole) == PS_OK;
    scalars += ps_gguf_get_f32(file, key, &real) == PS_OK;
    scalars += ps_gguf_get_bool(file, key, &truth) == PS_OK;
    if (ps_gguf_get_string(file, key, &string) == PS_OK) {
        ps_assert(scalars == 0);
        (void)ps_hash(string.data, string.length, 0);
    }
    (void)ps_gguf_walk_array(file, key);

    ps_buffer text = {.limit = 4096};
    ps_assert(ps_gguf_describe(file, index, &text) == PS_OK);
    ps_assert(strchr(text.data, '\n') == NULL && strlen(text.data) == text.length);
    ps_buffer_deinit(&text);
}

// Returns the tensor's size.
static inline uint64_t ps_gguf_walk_tensor(const ps_gguf *file, uint32_t index)
{
    const ps_gguf_tensor *tensor = ps_gguf_tensor_at(file, index);
    ps_assert(ps_gguf_tensor_find(file, tensor->name) == tensor);
    ps_assert(tensor->size_bytes > 0 && tensor->type_name != NULL);
    const volatile uint8_t *bytes = tensor->data;
    (void)bytes[0];
    (void)bytes[tensor->size_bytes - 1];

    uint64_t rows = 1;
    for (uint32_t i = 1; i < PS_GGUF_DIMENSIONS_MAX; i++) {
        ps_assert(tensor->dimensions[i] >= 1);
        rows *= tensor->dimensions[i];
    }
    if (tensor->dtype != PS_DTYPE_COUNT) {
        const uint64_t row_bytes = ps_dtype_row_bytes(tensor->dtype, tensor->dimensions[0]);
        ps_assert(row_bytes * rows == tensor->size_bytes);
    }
    return tensor->size_bytes;
}

static inline void ps_gguf_walk(const ps_gguf *file)
{
    for (uint32_t i = 0; i < ps_gguf_key_count(file); i++) {
        ps_gguf_walk_key(file, i);
    }
    uint64_t sum_bytes = 0;
    for (uint32_t i = 0; i < ps_gguf_tensor_count(file); i++) {
        sum_bytes += ps_gguf_walk_tensor(file, i);
        ps_assert(sum_bytes < ps_gguf_size_bytes(file));
    }
    ps_assert(ps_gguf_fingerprint(file) == ps_gguf_fingerprint(file));
}

#endif
