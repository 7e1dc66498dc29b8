// fuzz-links: ps_experts
//
// Goal: no bytes whatever make the reader of route logs read outside them, loop, or give a call
// that breaks a promise of routes_file.h. Each input is read as it is, and, because checksums are
// in the way of chance, once more with those of its header, blocks and end made right.
#include "base/hash.h"
#include "experts/routes_file.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 40u
#define HEAD_BYTES 16u

static void check_call(const ps_routes_shape *shape, const ps_routes_call *call)
{
    ps_assert(call->layer < shape->layers);
    ps_assert(call->rows > 0 && call->rows <= PS_ROUTES_ROWS_MAX);
    for (uint32_t i = 0; i < call->rows; i++) {
        ps_assert(call->row[i].phase < PS_ROUTES_PHASES);
        const uint16_t *ids = call->ids + (size_t)i * shape->top_k;
        for (uint32_t j = 0; j < shape->top_k; j++) {
            ps_assert(ids[j] < shape->experts);
            for (uint32_t k = 0; k < j; k++) {
                ps_assert(ids[j] != ids[k]);
            }
        }
    }
}

static void read_all(uint8_t *bytes, size_t size_bytes)
{
    FILE *stream = size_bytes == 0 ? fopen("/dev/null", "r") : fmemopen(bytes, size_bytes, "r");
    ps_assert(stream != NULL);
    ps_routes_reader *reader = NULL;
    ps_status status = ps_routes_reader_open_stream(stream, "input", &reader);
    ps_assert((status == PS_OK) == (reader != NULL));
    bool is_end = false;
    for (uint64_t calls = 0; status == PS_OK && !is_end; calls++) {
        ps_routes_call call;
        ps_assert(calls <= size_bytes);
        status = ps_routes_reader_next(reader, &call, &is_end);
        if (status == PS_OK && !is_end) {
            check_call(ps_routes_reader_shape(reader), &call);
        }
    }
    ps_assert(status == PS_OK || strncmp(ps_error_message(), "input: ", 7) == 0);
    ps_routes_reader_close(reader);
}

static void put_hash(uint8_t *at, const void *bytes, size_t length, uint64_t seed)
{
    const uint64_t hash = ps_hash(bytes, length, seed);
    memcpy(at, &hash, sizeof hash);
}

static void repair(uint8_t *bytes, size_t size_bytes)
{
    if (size_bytes < HEADER_BYTES) {
        return;
    }
    put_hash(bytes + 32, bytes, 32, 0);
    uint64_t calls = 0;
    for (size_t at = HEADER_BYTES; size_bytes - at >= HEAD_BYTES;) {
        uint32_t head[2];
        memcpy(head, bytes + at, sizeof head);
        if (head[0] == 0) {
            put_hash(bytes + at + 8, &calls, sizeof calls, 0);
            return;
        }
        if (head[0] > size_bytes - at - HEAD_BYTES) {
            return;
        }
        put_hash(bytes + at + 8, bytes + at + HEAD_BYTES, head[0], at);
        calls += head[1];
        at += HEAD_BYTES + head[0];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes + (size_bytes == 0));
    ps_assert(copy != NULL);
    if (size_bytes > 0) {
        memcpy(copy, bytes, size_bytes);
    }
    read_all(copy, size_bytes);
    repair(copy, size_bytes);
    read_all(copy, size_bytes);
    free(copy);
    return 0;
}
