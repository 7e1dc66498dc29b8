// text/tokenizer_internal.h - what tokenizer.c, bpe.c, spm.c and token_index.c share.
#ifndef PS_TEXT_TOKENIZER_INTERNAL_H
#define PS_TEXT_TOKENIZER_INTERNAL_H

#include "text/merge.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"

#define PS_TOKENIZER_END_MAX 32

// --- token_index.c: from text to id -------------------------------------------------------------

// Tokens that ordinary text can become: all but control, unknown and byte tokens, so that no join
// of symbols ever gives one of those.
typedef struct ps_token_table {
    const ps_str *tokens; // borrowed
    uint32_t *slots;      // id + 1, 0: free; open addressing
    uint32_t mask;
    size_t longest_bytes;
} ps_token_table;

// Tokens that are found before text is cut, sorted by text; binary search narrows byte by byte.
typedef struct ps_special_index {
    const ps_str *tokens; // borrowed
    int32_t *ids;
    uint32_t first[257]; // ids[first[b]..first[b + 1]) start with byte b
} ps_special_index;

PS_MUST_USE ps_status ps_token_table_init(ps_token_table *table, const ps_vocab *vocab,
                                          ps_arena *arena);
int32_t ps_token_table_find(const ps_token_table *table, const char *text, size_t length); // or -1

PS_MUST_USE ps_status ps_special_index_init(ps_special_index *index, const ps_vocab *vocab,
                                            ps_arena *arena);

// The longest special token at the start of text[0..length) that is user-defined or no longer than
// trusted_length; -1: none.
int32_t ps_special_index_match(const ps_special_index *index, const ps_vocab *vocab,
                               const char *text, size_t length, size_t trusted_length);

// --- the tokenizer ------------------------------------------------------------------------------

typedef struct ps_merge_slot {
    uint64_t pair;    // left id << 32 | right id
    uint32_t rank;    // lower is sooner
    uint32_t id_next; // what the pair becomes, plus 1; 0: free slot
} ps_merge_slot;

struct ps_tokenizer {
    ps_arena arena; // owns the tables below
    ps_vocab vocab; // a copy of the struct, not of what it points to
    bool is_spm;
    bool add_bos;
    bool add_eos;
    bool add_space_prefix;
    ps_token_table table;
    ps_special_index special;
    int32_t byte_ids[256]; // the token that is just this byte, -1: none
    int32_t ends[PS_TOKENIZER_END_MAX];
    uint32_t end_count;
    ps_pretokenizer *pretokenizer; // gpt2
    ps_merge_slot *merges;         // gpt2; open addressing
    uint32_t merge_mask;
};

static inline ps_token_type ps_vocab_type(const ps_vocab *vocab, uint32_t id)
{
    const int32_t type = vocab->types == NULL ? PS_TOKEN_NORMAL : vocab->types[id];
    return type == 0 ? PS_TOKEN_NORMAL : (ps_token_type)type;
}

// What one call of encode works with.
typedef struct ps_encoding {
    const ps_tokenizer *tokenizer;
    ps_tokens *out;
    ps_merger merger;
    ps_buffer scratch;
} ps_encoding;

// Appends the unknown token, or fails with PS_INVALID where there is none. `byte` is for the
// message.
PS_MUST_USE ps_status ps_encoding_append_unknown(ps_encoding *encoding, char byte);

// --- bpe.c and spm.c: one kind of model each ----------------------------------------------------

// Fill byte_ids and what the kind needs; on failure ps_tokenizer_destroy cleans up.
PS_MUST_USE ps_status ps_bpe_init(ps_tokenizer *tokenizer);
PS_MUST_USE ps_status ps_spm_init(ps_tokenizer *tokenizer);

// Append the ids of text without special tokens, length > 0, that stands at the start or behind a
// special token; so SentencePiece's space prefix, where there is one, goes before it.
PS_MUST_USE ps_status ps_bpe_encode(ps_encoding *encoding, const char *text, size_t length);
PS_MUST_USE ps_status ps_spm_encode(ps_encoding *encoding, const char *text, size_t length);

// Append the bytes of a token whose text is not literal.
PS_MUST_USE ps_status ps_bpe_decode(ps_str token, ps_buffer *out);
PS_MUST_USE ps_status ps_spm_decode(const ps_tokenizer *tokenizer, int32_t id, ps_buffer *out);

#endif
