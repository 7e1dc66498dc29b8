// fuzz-links: ps_format
//
// Goal: no bytes whatever in any part of a split file make the reader read outside it or break a
// promise of gguf.h, and the heads of the parts open as those of the whole.
#include "fuzz/fuzz.h"
#include "fuzz/gguf_parts.h"
#include "fuzz/gguf_walk.h"

#define PARTS_MAX 8

static void check_head(const ps_gguf *whole)
{
    const ps_str head = ps_gguf_head(whole);
    const ps_gguf_origin origin = {.size_bytes = ps_gguf_size_bytes(whole),
                                   .fingerprint = ps_gguf_fingerprint(whole)};
    ps_gguf *again = NULL;
    ps_assert(ps_gguf_open_head(head.data, head.length, &origin, &again) == PS_OK);
    ps_assert(ps_gguf_part_count(again) == ps_gguf_part_count(whole));
    ps_assert(ps_gguf_tensor_count(again) == ps_gguf_tensor_count(whole));
    ps_assert(ps_gguf_fingerprint(again) == origin.fingerprint);
    for (uint32_t i = 0; i < ps_gguf_tensor_count(whole); i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_at(whole, i);
        const ps_gguf_tensor *found = ps_gguf_tensor_find(again, tensor->name);
        ps_assert(found != NULL && found->size_bytes == tensor->size_bytes && found->data == NULL);
    }
    ps_gguf_close(again);
}

static void check_parts(const ps_str *parts, uint32_t count)
{
    ps_gguf *file = NULL;
    if (ps_gguf_open_parts(parts, count, &file) != PS_OK) {
        ps_assert(file == NULL);
        ps_assert(ps_error_message()[0] != '\0');
        return;
    }
    ps_assert(ps_gguf_part_count(file) == count);
    ps_gguf_walk(file);
    check_head(file);
    ps_gguf_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_str parts[PARTS_MAX];
    char *copies[PARTS_MAX];
    const uint32_t count = ps_gguf_cut_parts(bytes, size_bytes, parts, PARTS_MAX);
    for (uint32_t i = 0; i < count; i++) { // a sanitizer sees where each ends
        copies[i] = malloc(parts[i].length > 0 ? parts[i].length : 1);
        ps_assert(copies[i] != NULL);
        memcpy(copies[i], parts[i].length > 0 ? parts[i].data : "", parts[i].length);
        parts[i].data = copies[i];
    }
    check_parts(parts, count);
    for (uint32_t i = 0; i < count; i++) {
        free(copies[i]);
    }
    return 0;
}
