// fuzz-links: ps_engine
//
// Goal: no text whatever makes the reader of hot sets read outside or fail without a message, and a
// set that it accepts prints as a text that gives the same set.
#include "engine/hot_set.h"
#include "fuzz/fuzz.h"

#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

static void print_and_parse(const ps_hot_set *set)
{
    ps_arena arena;
    ps_hot_set back;
    ps_buffer text = {0};
    ps_arena_init(&arena, ARENA_BYTES);
    ps_assert(ps_hot_set_print(set, &text) == PS_OK);
    ps_assert(ps_hot_set_parse((ps_str){text.data, text.length}, &arena, &back) == PS_OK);
    ps_assert(set->count == back.count && set->size_count == back.size_count);
    ps_assert(memcmp(set->keys, back.keys, set->count * sizeof *set->keys) == 0);
    ps_assert(memcmp(set->uses, back.uses, set->count * sizeof *set->uses) == 0);
    ps_buffer_deinit(&text);
    ps_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_arena arena;
    ps_hot_set set;
    ps_arena_init(&arena, ARENA_BYTES);
    if (ps_hot_set_parse((ps_str){(const char *)bytes, size_bytes}, &arena, &set) == PS_OK) {
        for (uint32_t i = 0; i < set.count; i++) {
            ps_assert(set.keys[i] < set.layers * set.experts && set.uses[i] > 0);
        }
        print_and_parse(&set);
    } else {
        ps_assert(ps_error_message()[0] != '\0');
    }
    ps_arena_deinit(&arena);
    return 0;
}
