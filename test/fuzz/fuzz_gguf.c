// fuzz-links: ps_format
//
// Goal: no bytes whatever make the GGUF reader read outside them or break a promise of gguf.h.
#include "fuzz/fuzz.h"
#include "fuzz/gguf_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_gguf *file = NULL;
    if (ps_gguf_open_bytes(bytes, size_bytes, &file) != PS_OK) {
        ps_assert(file == NULL);
        ps_assert(ps_error_message()[0] != '\0');
        return 0;
    }
    ps_gguf_walk(file);
    ps_gguf_close(file);
    return 0;
}
