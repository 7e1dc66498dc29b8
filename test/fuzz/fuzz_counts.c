// fuzz-links: ps_engine
//
// Goal: no bytes whatever make the reader of counts files read outside or fail without a message,
// and what it accepts can be ranked. Method: the bytes as they are, and with the checksum that they
// should have, which lets changed ones come as far as the checks behind it.
#include "base/hash.h"
#include "engine/counts_file.h"
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

static void rank(const ps_counts_file *file, ps_arena *arena)
{
    ps_hot_ranking ranking;
    if (ps_hot_ranking_make(&file->counts, 3, arena, &ranking) != PS_OK) {
        return; // the arena is spent
    }
    const double all = ps_hot_coverage(&ranking, ranking.keys);
    ps_assert(ranking.count <= ranking.keys && (isnan(all) || all == 1));
    const double held_out = ps_hot_coverage_held_out(&ranking, ranking.keys);
    ps_assert(isnan(held_out) || (held_out >= 0 && held_out <= 1));
}

static void parse(const void *bytes, size_t size_bytes)
{
    ps_arena arena;
    ps_counts_file file;
    ps_arena_init(&arena, ARENA_BYTES);
    if (ps_counts_file_parse(bytes, size_bytes, &arena, &file) == PS_OK) {
        ps_assert(memchr(file.header.model, '\0', sizeof file.header.model) != NULL);
        rank(&file, &arena);
    } else {
        ps_assert(ps_error_message()[0] != '\0');
    }
    ps_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    parse(bytes, size_bytes);
    if (size_bytes >= sizeof(uint64_t)) {
        uint8_t *copy = malloc(size_bytes);
        ps_assert(copy != NULL);
        memcpy(copy, bytes, size_bytes);
        const size_t before = size_bytes - sizeof(uint64_t);
        const uint64_t checksum = ps_hash(copy, before, 0);
        memcpy(copy + before, &checksum, sizeof checksum);
        parse(copy, size_bytes);
        free(copy);
    }
    return 0;
}
