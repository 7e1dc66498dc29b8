// fuzz-links: ps_format
//
// Goal: no bytes whatever make the reader of compiled files read outside them or break a promise of
// pst.h: every weight lies in the file, is named once, and is found by its name.
#include "base/hash.h"
#include "format/pst.h"
#include "fuzz/fuzz.h"
#include "fuzz/gguf_walk.h"

#include <string.h>

static void count_damage(void *context, const char *what, const char *name)
{
    ps_assert(strlen(what) > 0 && strlen(name) < 80);
    *(uint32_t *)context += 1;
}

static void check_weight(const ps_pst *file, uint32_t i, const uint8_t *bytes, size_t size_bytes)
{
    const ps_pst_weight *weight = ps_pst_weight_at(file, i);
    const uint8_t *data = weight->data;
    ps_assert(data >= bytes && data <= bytes + size_bytes);
    ps_assert(weight->offset_bytes == (uint64_t)(data - bytes));
    ps_assert((data - bytes) % 64 == 0);
    const uint64_t matrices = weight->experts == 0 ? 1 : weight->experts;
    const uint64_t matrix = weight->size_bytes / matrices;
    const uint64_t last = weight->offset_bytes + (matrices - 1) * weight->expert_stride_bytes;
    ps_assert(last >= weight->offset_bytes && last <= size_bytes && matrix <= size_bytes - last);
    ps_assert(weight->experts == 0 || matrix <= weight->expert_stride_bytes);
    ps_assert(ps_pst_weight_find(file, weight->name) == weight);
    const ps_gguf_tensor *tensor = ps_gguf_tensor_find(ps_pst_gguf(file), weight->name);
    ps_assert(tensor != NULL && tensor->dtype == weight->dtype);
    ps_assert(tensor->data == (weight->is_vector ? weight->data : NULL));
}

static void check_stack(const ps_pst_stack *stack, size_t size_bytes)
{
    ps_assert(stack->experts > 0 && stack->weight_count <= PS_PST_STACK_WEIGHTS_MAX);
    ps_assert(stack->offset_bytes % 4096 == 0 && stack->stride_bytes % 4096 == 0);
    const uint64_t last = stack->offset_bytes + (stack->experts - 1) * stack->stride_bytes;
    ps_assert(last + stack->record_bytes <= size_bytes);
    (void)ps_hash(stack->checksums, stack->experts * sizeof *stack->checksums, 0);
    for (uint32_t i = 0; i < stack->weight_count; i++) {
        const ps_pst_weight *weight = stack->weights[i];
        ps_assert(weight->stack == stack && weight->experts == stack->experts);
        ps_assert(weight->expert_stride_bytes == stack->stride_bytes);
        ps_assert(weight->data >= stack->data);
        ps_assert(weight->offset_bytes + weight->size_bytes / weight->experts <=
                  stack->offset_bytes + stack->record_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_pst *file = NULL;
    if (ps_pst_open_bytes(bytes, size_bytes, &file) != PS_OK) {
        ps_assert(file == NULL);
        ps_assert(ps_error_message()[0] != '\0');
        return 0;
    }
    ps_assert(ps_pst_size_bytes(file) == size_bytes);
    for (uint32_t i = 0; i < ps_pst_weight_count(file); i++) {
        check_weight(file, i, bytes, size_bytes);
    }
    for (uint32_t i = 0; i < ps_pst_stack_count(file); i++) {
        check_stack(ps_pst_stack_at(file, i), size_bytes);
    }
    uint32_t reported = 0;
    const uint32_t damaged = ps_pst_verify(
        file, &(ps_pst_listener){.report = count_damage, .context = &reported});
    const ps_str plans = ps_pst_plans(file);
    ps_assert(plans.length <= size_bytes);
    (void)ps_hash(plans.data, plans.length, 0);
    ps_assert(reported == damaged);
    const ps_gguf *gguf = ps_pst_gguf(file);
    for (uint32_t i = 0; i < ps_gguf_tensor_count(gguf); i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(gguf, i);
        if (tensor->data != NULL) {
            (void)ps_hash(tensor->data, tensor->size_bytes, 0);
        }
    }
    for (uint32_t i = 0; i < ps_gguf_key_count(gguf); i++) {
        (void)ps_gguf_walk_array(gguf, ps_gguf_key_at(gguf, i));
    }
    (void)ps_gguf_fingerprint(gguf);
    ps_pst_close(file);
    return 0;
}
