// text/bpe.c - byte-level BPE: bytes are spelled as printable characters and joined by rank.
#include "text/tokenizer_internal.h"

#include "base/log.h"
#include "text/utf8.h"

#include <string.h>

// GPT-2's map. Printable Latin-1 stands for itself; the other bytes, in order, take the code points
// from U+0100: 0x00..0x20, then 0x7f..0xa0, then 0xad.
static uint32_t code_point_of_byte(unsigned char byte)
{
    if (byte <= 0x20) {
        return 0x100u + byte;
    }
    if (byte >= 0x7f && byte <= 0xa0) {
        return 0x121u + (byte - 0x7fu);
    }
    return byte == 0xad ? 0x143 : byte;
}

// The inverse, or -1 for a code point that spells no byte.
static int byte_of_code_point(uint32_t code_point)
{
    if (code_point < 0x100) {
        const unsigned char byte = (unsigned char)code_point;
        return code_point_of_byte(byte) == code_point ? byte : -1;
    }
    if (code_point <= 0x120) {
        return (int)(code_point - 0x100);
    }
    if (code_point <= 0x142) {
        return (int)(code_point - 0x121 + 0x7f);
    }
    return code_point == 0x143 ? 0xad : -1;
}

// The slot of this pair, or the free one where it belongs.
static ps_merge_slot *find_pair(const ps_tokenizer *tokenizer, uint64_t pair)
{
    uint32_t at = (uint32_t)((pair * 0x9e3779b97f4a7c15u) >> 32) & tokenizer->merge_mask;
    while (tokenizer->merges[at].id_next != 0 && tokenizer->merges[at].pair != pair) {
        at = (at + 1) & tokenizer->merge_mask;
    }
    return &tokenizer->merges[at];
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

// Enters one merge; *out_known is false when one of its three texts is no token.
static ps_status add_merge(ps_tokenizer *tokenizer, uint32_t rank, ps_buffer *joined,
                           bool *out_known)
{
    const ps_str merge = tokenizer->vocab.merges[rank];
    // The left side has at least one character, so that it may be a space itself.
    const char *space = merge.length < 3 ? NULL : memchr(merge.data + 1, ' ', merge.length - 2);
    if (space == NULL) {
        const int shown = merge.length < 64 ? (int)merge.length : 64;
        return ps_fail(PS_INVALID, "tokenizer.ggml.merges[%u] is '%.*s', expected 'left right'",
                       rank, shown, merge.data);
    }
    const size_t left_length = (size_t)(space - merge.data);
    const size_t right_length = merge.length - left_length - 1;
    joined->length = 0;
    PS_TRY(ps_buffer_append(joined, merge.data, left_length));
    PS_TRY(ps_buffer_append(joined, space + 1, right_length));

    const ps_token_table *table = &tokenizer->table;
    const int32_t left = ps_token_table_find(table, merge.data, left_length);
    const int32_t right = ps_token_table_find(table, space + 1, right_length);
    const int32_t id = ps_token_table_find(table, joined->data, joined->length);
    *out_known = left >= 0 && right >= 0 && id >= 0;
    if (*out_known) {
        ps_merge_slot *slot = find_pair(tokenizer, pair_of(left, right));
        if (slot->id_next == 0) { // of two equal merges the first, better one counts
            *slot = (ps_merge_slot){
                .pair = pair_of(left, right), .rank = rank, .id_next = (uint32_t)id + 1};
        }
    }
    return PS_OK;
}

static ps_status add_merges(ps_tokenizer *tokenizer)
{
    uint32_t slots = 16;
    while (slots < 2 * tokenizer->vocab.merge_count) {
        slots *= 2;
    }
    tokenizer->merge_mask = slots - 1;
    tokenizer->merges = PS_ARENA_NEW(&tokenizer->arena, ps_merge_slot, slots);
    if (tokenizer->merges == NULL) {
        return PS_NO_MEMORY;
    }
    ps_buffer joined = {0};
    ps_status status = PS_OK;
    uint32_t unknown_count = 0;
    for (uint32_t rank = 0; rank < tokenizer->vocab.merge_count && status == PS_OK; rank++) {
        bool known = true;
        status = add_merge(tokenizer, rank, &joined, &known);
        unknown_count += !known;
    }
    ps_buffer_deinit(&joined);
    if (status == PS_OK && unknown_count > 0) {
        ps_log(PS_LOG_WARNING, "%u of %u tokenizer merges name texts that are no tokens; left out",
               unknown_count, tokenizer->vocab.merge_count);
    }
    return status;
}

ps_status ps_bpe_init(ps_tokenizer *tokenizer)
{
    for (int byte = 0; byte < 256; byte++) {
        char spelled[PS_UTF8_MAX_BYTES];
        const size_t length = ps_utf8_encode(code_point_of_byte((unsigned char)byte), spelled);
        tokenizer->byte_ids[byte] = ps_token_table_find(&tokenizer->table, spelled, length);
    }
    PS_TRY(ps_pretokenizer_create(tokenizer->vocab.pre, &tokenizer->pretokenizer));
    tokenizer->add_bos = ps_pretokenizer_adds_bos(tokenizer->pretokenizer);
    return add_merges(tokenizer);
}

static uint32_t lookup(const void *context, const ps_merge_symbol *left,
                       const ps_merge_symbol *right, int32_t *out_id)
{
    if (left->id < 0 || right->id < 0) {
        return PS_MERGE_NEVER;
    }
    const ps_merge_slot *slot = find_pair(context, pair_of(left->id, right->id));
    if (slot->id_next == 0) {
        return PS_MERGE_NEVER;
    }
    *out_id = (int32_t)slot->id_next - 1;
    return slot->rank;
}

// The token that is this whole word, -1 in *out_id: none.
static ps_status find_whole_word(ps_encoding *encoding, const char *word, size_t length,
                                 int32_t *out_id)
{
    const ps_token_table *table = &encoding->tokenizer->table;
    *out_id = -1;
    if (length > table->longest_bytes) {
        return PS_OK;
    }
    ps_buffer *spelled = &encoding->scratch;
    spelled->length = 0;
    for (size_t i = 0; i < length; i++) {
        char bytes[PS_UTF8_MAX_BYTES];
        const size_t count = ps_utf8_encode(code_point_of_byte((unsigned char)word[i]), bytes);
        PS_TRY(ps_buffer_append(spelled, bytes, count));
    }
    *out_id = ps_token_table_find(table, spelled->data, spelled->length);
    return PS_OK;
}

typedef struct word_context {
    ps_encoding *encoding;
    const char *text;
} word_context;

static ps_status merge_word(ps_encoding *encoding, const char *word, size_t length)
{
    ps_merger *merger = &encoding->merger;
    ps_merger_reset(merger);
    for (size_t i = 0; i < length; i++) {
        const int32_t id = encoding->tokenizer->byte_ids[(unsigned char)word[i]];
        PS_TRY(ps_merger_add(merger, (uint32_t)i, 1, id));
    }
    PS_TRY(ps_merger_run(merger, lookup, encoding->tokenizer));
    for (int32_t i = 0; i >= 0; i = merger->symbols[i].next) {
        const ps_merge_symbol *symbol = &merger->symbols[i];
        PS_TRY(symbol->id >= 0 ? ps_tokens_append(encoding->out, symbol->id)
                               : ps_encoding_append_unknown(encoding, word[symbol->offset]));
    }
    return PS_OK;
}

static ps_status encode_word(void *context, size_t offset, size_t length)
{
    const word_context *in = context;
    const char *word = in->text + offset;
    if (ps_pretokenizer_takes_whole_words(in->encoding->tokenizer->pretokenizer)) {
        int32_t id = -1;
        PS_TRY(find_whole_word(in->encoding, word, length, &id));
        if (id >= 0) {
            return ps_tokens_append(in->encoding->out, id);
        }
    }
    return merge_word(in->encoding, word, length);
}

ps_status ps_bpe_encode(ps_encoding *encoding, const char *text, size_t length)
{
    word_context context = {.encoding = encoding, .text = text};
    return ps_pretokenizer_split(encoding->tokenizer->pretokenizer, text, length, encode_word,
                                 &context);
}

ps_status ps_bpe_decode(ps_str token, ps_buffer *out)
{
    for (size_t i = 0; i < token.length;) {
        uint32_t code_point = 0;
        const size_t count = ps_utf8_decode(token.data + i, token.length - i, &code_point);
        const int byte = count == 0 ? -1 : byte_of_code_point(code_point);
        const size_t step = count == 0 ? 1 : count;
        const char mapped = (char)byte;
        // What spells no byte stands for itself.
        PS_TRY(byte < 0 ? ps_buffer_append(out, token.data + i, step)
                        : ps_buffer_append(out, &mapped, 1));
        i += step;
    }
    return PS_OK;
}
