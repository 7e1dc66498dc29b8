// test/fuzz/gguf_parts.h - the parts of a split file that stand one behind the other in one input.
#ifndef PS_TEST_FUZZ_GGUF_PARTS_H
#define PS_TEST_FUZZ_GGUF_PARTS_H

#include "base/memory.h"

#include <string.h>

// Cuts before each "GGUF" but the first byte's, into at most `most` parts.
static inline uint32_t ps_gguf_cut_parts(const uint8_t *bytes, size_t size_bytes, ps_str *parts,
                                         uint32_t most)
{
    uint32_t count = 1;
    parts[0] = (ps_str){(const char *)bytes, size_bytes};
    for (size_t at = 1; at + 4 <= size_bytes && count < most; at++) {
        if (memcmp(bytes + at, "GGUF", 4) == 0) {
            parts[count - 1].length -= size_bytes - at;
            parts[count++] = (ps_str){(const char *)bytes + at, size_bytes - at};
        }
    }
    return count;
}

#endif
