// text/tokenizer.h - text to token ids and back, as the model's file says.
//
// Two kinds of model, named by `tokenizer.ggml.model`:
//
// "gpt2"   byte-level BPE (Sennrich 2016; GPT-2). Text is cut into words (text/pretokenize.h), the
//          bytes of a word are joined by the file's merges, best rank first. Token texts spell
//          bytes by GPT-2's map from bytes to printable characters.
// "llama"  SentencePiece BPE (Kudo 2018). A space becomes U+2581, symbols are joined when the
//          result is a token, best score first; a character without a token becomes byte tokens
//          <0xXX>, or the unknown token where the vocabulary has no such bytes.
//
// Special tokens are found first: at each place the longest that matches. Text between them is
// tokenized on its own. User-defined tokens are always found, control and unknown tokens only in
// text that is trusted: what a user types never becomes a control token.
//
// Any bytes are accepted, also invalid UTF-8 and NUL. Encoding takes O(n log n) at worst.
#ifndef PS_TEXT_TOKENIZER_H
#define PS_TEXT_TOKENIZER_H

#include "base/memory.h"

// One call encodes at most so much text. At worst, all of it one word, it takes some 60 times as
// much memory while it runs.
#define PS_TOKENIZER_TEXT_MAX_BYTES ((size_t)64 << 20)
// Longer special tokens exist only in broken files; they are never found in text.
#define PS_TOKENIZER_SPECIAL_MAX_BYTES ((size_t)256)

typedef enum ps_token_type { // GGUF's numbers; 0 and a file without types count as normal
    PS_TOKEN_NORMAL = 1,
    PS_TOKEN_UNKNOWN = 2,
    PS_TOKEN_CONTROL = 3,
    PS_TOKEN_USER_DEFINED = 4,
    PS_TOKEN_UNUSED = 5,
    PS_TOKEN_BYTE = 6,
} ps_token_type;

// What a model file says. Everything is borrowed and must outlive the tokenizer.
typedef struct ps_vocab {
    ps_str model; // "gpt2" or "llama"
    ps_str pre;   // tokenizer.ggml.pre, only read for "gpt2"; length 0 when absent
    uint32_t token_count;
    const ps_str *tokens; // [token_count]
    const float *scores;  // [token_count], NULL when absent; "llama" needs them
    const int32_t *types; // [token_count] ps_token_type, NULL when absent
    uint32_t merge_count;
    const ps_str *merges; // [merge_count], "left right", best first; only read for "gpt2"
    int64_t bos, eos, eot, eom, unk; // ids, -1: absent
    // 0 no, 1 yes, -1: the file does not say. Then "llama" adds BOS and the space prefix, "gpt2"
    // adds BOS where its `pre` does (text/pretokenize.h); nothing else is added.
    int add_bos, add_eos, add_space_prefix;
} ps_vocab;

typedef struct ps_tokenizer ps_tokenizer;

// PS_INVALID      no tokens, an id or type out of range, a malformed merge, "llama" without finite
//                 scores; the message names the key
// PS_UNSUPPORTED  an unknown model or pre; the message lists the known ones
// PS_NO_MEMORY, PS_EXHAUSTED (more than 16 Mi tokens or merges)
//
// Of several tokens with one text the last is used, and merges that no token is the result of are
// left out with a warning: real files have both. O(bytes of tokens and merges).
// The result is immutable: any number of threads may use it at once.
PS_MUST_USE ps_status ps_tokenizer_create(const ps_vocab *vocab, ps_tokenizer **out);
void ps_tokenizer_destroy(ps_tokenizer *tokenizer); // NULL is fine

// A growing list of ids on the heap. Zero-initialise.
typedef struct ps_tokens {
    int32_t *ids;
    size_t count;
    size_t capacity;
} ps_tokens;

PS_MUST_USE ps_status ps_tokens_append(ps_tokens *tokens, int32_t id); // PS_NO_MEMORY
void ps_tokens_deinit(ps_tokens *tokens);                              // frees and zeroes

enum {
    // BOS and EOS as the model asks for them; never a second BOS when the text starts with one
    // that is parsed as such, nor a second EOS.
    PS_TOKENIZE_ADD_SPECIAL = 1,
    // The text is trusted: control and unknown tokens written in it become their ids.
    PS_TOKENIZE_PARSE_SPECIAL = 2,
};

// Appends the ids of text[0..length) to *out. On failure *out holds what it held before.
//
// PS_EXHAUSTED  longer than PS_TOKENIZER_TEXT_MAX_BYTES
// PS_INVALID    a byte that has no token, in a vocabulary without an unknown token
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_tokenizer_encode(const ps_tokenizer *tokenizer, const char *text,
                                          size_t length, unsigned flags, ps_tokens *out);

// A run of text with its own trust: a chat template's is trusted, a user's is not.
typedef struct ps_text_segment {
    const char *text;
    size_t length;
    bool parse_special;
} ps_text_segment;

// As ps_tokenizer_encode of the joined segments, but a control or unknown token is found only where
// all of its text lies in trusted segments that follow each other. Of the flags only
// PS_TOKENIZE_ADD_SPECIAL counts: trust is the segments'.
PS_MUST_USE ps_status ps_tokenizer_encode_segments(const ps_tokenizer *tokenizer,
                                                   const ps_text_segment *segments, size_t count,
                                                   unsigned flags, ps_tokens *out);

// Appends the bytes of one token, which may be part of a UTF-8 sequence. Control and unknown tokens
// give nothing unless show_special. "llama": U+2581 comes back as a space.
//
// PS_INVALID (no such id), PS_NO_MEMORY, PS_EXHAUSTED (the buffer's limit)
PS_MUST_USE ps_status ps_tokenizer_decode_piece(const ps_tokenizer *tokenizer, int32_t id,
                                                bool show_special, ps_buffer *out);

// Appends the text of ids[0..count). Where the model has a space prefix, drops the space that
// encoding puts at the start and behind a control or user-defined token, so that decoding with
// show_special what was encoded gives the text back. On failure *out may hold a part.
PS_MUST_USE ps_status ps_tokenizer_decode(const ps_tokenizer *tokenizer, const int32_t *ids,
                                          size_t count, bool show_special, ps_buffer *out);

// Generation stops at this token: eos, eot, eom, and control or user-defined tokens whose text is a
// usual end of turn, message or file (list in tokenizer.c). False for ids out of range.
bool ps_tokenizer_is_end(const ps_tokenizer *tokenizer, int32_t id);

uint32_t ps_tokenizer_token_count(const ps_tokenizer *tokenizer);
int64_t ps_tokenizer_bos(const ps_tokenizer *tokenizer); // -1: none
int64_t ps_tokenizer_eos(const ps_tokenizer *tokenizer); // -1: none

#endif
