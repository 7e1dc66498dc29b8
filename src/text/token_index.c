// text/token_index.c - finding tokens by their text.
#include "text/tokenizer_internal.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

// The smallest power of two that keeps a table of `count` entries at most half full.
static uint32_t slot_count(uint32_t count)
{
    uint32_t slots = 16;
    while (slots < 2 * count) {
        slots *= 2;
    }
    return slots;
}

static bool same_text(ps_str token, const char *text, size_t length)
{
    return token.length == length && memcmp(token.data, text, length) == 0;
}

// The slot that holds the token with this text, or the free one where it belongs.
static uint32_t *find_slot(const ps_token_table *table, const char *text, size_t length)
{
    uint32_t at = (uint32_t)ps_hash(text, length, 0) & table->mask;
    while (table->slots[at] != 0 && !same_text(table->tokens[table->slots[at] - 1], text, length)) {
        at = (at + 1) & table->mask;
    }
    return &table->slots[at];
}

static bool is_ordinary(ps_token_type type)
{
    return type == PS_TOKEN_NORMAL || type == PS_TOKEN_USER_DEFINED || type == PS_TOKEN_UNUSED;
}

ps_status ps_token_table_init(ps_token_table *table, const ps_vocab *vocab, ps_arena *arena)
{
    const uint32_t slots = slot_count(vocab->token_count);
    table->tokens = vocab->tokens;
    table->mask = slots - 1;
    table->slots = PS_ARENA_NEW(arena, uint32_t, slots);
    if (table->slots == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t id = 0; id < vocab->token_count; id++) {
        const ps_str text = vocab->tokens[id];
        if (text.length == 0 || !is_ordinary(ps_vocab_type(vocab, id))) {
            continue;
        }
        *find_slot(table, text.data, text.length) = id + 1;
        if (text.length > table->longest_bytes) {
            table->longest_bytes = text.length;
        }
    }
    return PS_OK;
}

int32_t ps_token_table_find(const ps_token_table *table, const char *text, size_t length)
{
    return length > table->longest_bytes ? -1 : (int32_t)*find_slot(table, text, length) - 1;
}

static bool is_special(const ps_vocab *vocab, uint32_t id)
{
    const ps_token_type type = ps_vocab_type(vocab, id);
    const size_t length = vocab->tokens[id].length;
    return length > 0 && length <= PS_TOKENIZER_SPECIAL_MAX_BYTES &&
           (type == PS_TOKEN_CONTROL || type == PS_TOKEN_USER_DEFINED || type == PS_TOKEN_UNKNOWN);
}

// By text, a prefix before what it starts; equal texts by id.
static int compare_tokens(const void *a, const void *b, void *context)
{
    const ps_str *tokens = context;
    const int32_t left = *(const int32_t *)a;
    const int32_t right = *(const int32_t *)b;
    const size_t left_length = tokens[left].length;
    const size_t right_length = tokens[right].length;
    const size_t shared = left_length < right_length ? left_length : right_length;
    const int order = memcmp(tokens[left].data, tokens[right].data, shared);
    if (order != 0) {
        return order;
    }
    if (left_length != right_length) {
        return left_length < right_length ? -1 : 1;
    }
    return left < right ? -1 : left > right;
}

ps_status ps_special_index_init(ps_special_index *index, const ps_vocab *vocab, ps_arena *arena)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocab->token_count; id++) {
        count += is_special(vocab, id);
    }
    index->tokens = vocab->tokens;
    index->ids = PS_ARENA_NEW(arena, int32_t, count);
    if (index->ids == NULL) {
        return PS_NO_MEMORY;
    }
    count = 0;
    for (uint32_t id = 0; id < vocab->token_count; id++) {
        if (is_special(vocab, id)) {
            index->ids[count++] = (int32_t)id;
            index->first[(unsigned char)vocab->tokens[id].data[0] + 1]++;
        }
    }
    for (int b = 0; b < 256; b++) {
        index->first[b + 1] += index->first[b];
    }
    // The comparison only reads the array that it is handed.
    qsort_r(index->ids, count, sizeof index->ids[0], compare_tokens,
            (void *)(uintptr_t)vocab->tokens);
    return PS_OK;
}

// The first of ids[from..to) whose byte at `depth` is >= value. All are longer than depth.
static uint32_t lower_bound(const ps_special_index *index, uint32_t from, uint32_t to, size_t depth,
                            int value)
{
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if ((unsigned char)index->tokens[index->ids[middle]].data[depth] < value) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

int32_t ps_special_index_match(const ps_special_index *index, const ps_vocab *vocab,
                               const char *text, size_t length, size_t trusted_length)
{
    int32_t best = -1;
    uint32_t from = index->first[(unsigned char)text[0]];
    uint32_t to = index->first[(unsigned char)text[0] + 1];
    for (size_t depth = 1; from < to; depth++) {
        // Here ids[from..to) are the tokens that start with text[0..depth), in order of length.
        for (; from < to && index->tokens[index->ids[from]].length == depth; from++) {
            const int32_t id = index->ids[from];
            if (depth <= trusted_length ||
                ps_vocab_type(vocab, (uint32_t)id) == PS_TOKEN_USER_DEFINED) {
                best = id;
            }
        }
        if (depth == length) {
            break;
        }
        const int byte = (unsigned char)text[depth];
        from = lower_bound(index, from, to, depth, byte);
        to = lower_bound(index, from, to, depth, byte + 1);
    }
    return best;
}
