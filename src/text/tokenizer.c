// text/tokenizer.c - what both kinds of tokenizer share: checks, special tokens, BOS and EOS,
// decoding.
#include "text/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX ((uint32_t)16 << 20)
#define ARENA_MAX_BYTES ((size_t)2 << 30)

// Tokens that end a turn, a message or a file in models whose files name only some of them.
static const char *const end_texts[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|eot|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<turn|>",
    "<end_of_utterance>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|END_OF_TURN_TOKEN|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
};

// --- tokens -------------------------------------------------------------------------------------

ps_status ps_tokens_append(ps_tokens *tokens, int32_t id)
{
    if (tokens->count == tokens->capacity) {
        const size_t capacity = tokens->capacity == 0 ? 64 : tokens->capacity * 2;
        int32_t *ids = realloc(tokens->ids, capacity * sizeof *ids);
        if (ids == NULL) {
            return ps_fail(PS_NO_MEMORY, "out of memory: %zu tokens", capacity);
        }
        tokens->ids = ids;
        tokens->capacity = capacity;
    }
    tokens->ids[tokens->count++] = id;
    return PS_OK;
}

void ps_tokens_deinit(ps_tokens *tokens)
{
    free(tokens->ids);
    *tokens = (ps_tokens){0};
}

// --- creation -----------------------------------------------------------------------------------

static ps_status check_id(const char *key, int64_t id, uint32_t token_count)
{
    if (id < -1 || id >= (int64_t)token_count) {
        return ps_fail(PS_INVALID, "tokenizer.ggml.%s_token_id is %lld, the model has %u tokens",
                       key, (long long)id, token_count);
    }
    return PS_OK;
}

static ps_status check_vocab(const ps_vocab *vocab)
{
    if (vocab->token_count == 0 || vocab->tokens == NULL) {
        return ps_fail(PS_INVALID, "tokenizer.ggml.tokens is empty");
    }
    if (vocab->token_count > TOKENS_MAX || vocab->merge_count > TOKENS_MAX) {
        return ps_fail(PS_EXHAUSTED, "tokenizer of %u tokens and %u merges, at most %u of each",
                       vocab->token_count, vocab->merge_count, TOKENS_MAX);
    }
    for (uint32_t id = 0; vocab->types != NULL && id < vocab->token_count; id++) {
        if (vocab->types[id] < 0 || vocab->types[id] > PS_TOKEN_BYTE) {
            return ps_fail(PS_INVALID, "tokenizer.ggml.token_type[%u] is %d, expected 0..%d", id,
                           vocab->types[id], PS_TOKEN_BYTE);
        }
    }
    PS_TRY(check_id("bos", vocab->bos, vocab->token_count));
    PS_TRY(check_id("eos", vocab->eos, vocab->token_count));
    PS_TRY(check_id("eot", vocab->eot, vocab->token_count));
    PS_TRY(check_id("eom", vocab->eom, vocab->token_count));
    return check_id("unknown", vocab->unk, vocab->token_count);
}

static void add_end(ps_tokenizer *tokenizer, int64_t id)
{
    if (id >= 0 && !ps_tokenizer_is_end(tokenizer, (int32_t)id)) {
        ps_assert(tokenizer->end_count < PS_TOKENIZER_END_MAX);
        tokenizer->ends[tokenizer->end_count++] = (int32_t)id;
    }
}

// The control or user-defined token with exactly this text, -1: none.
static int32_t find_special(const ps_tokenizer *tokenizer, const char *text)
{
    const ps_vocab *vocab = &tokenizer->vocab;
    const size_t length = strlen(text);
    const int32_t id = ps_special_index_match(&tokenizer->special, vocab, text, length, length);
    return id >= 0 && vocab->tokens[id].length == length &&
                   ps_vocab_type(vocab, (uint32_t)id) != PS_TOKEN_UNKNOWN
               ? id
               : -1;
}

static void find_ends(ps_tokenizer *tokenizer)
{
    const ps_vocab *vocab = &tokenizer->vocab;
    // Where messages end with <|return|> or <|call|>, <|end|> only ends one of several.
    const bool has_channels = find_special(tokenizer, "<|return|>") >= 0 &&
                              find_special(tokenizer, "<|call|>") >= 0;
    for (size_t i = 0; i < sizeof end_texts / sizeof end_texts[0]; i++) {
        if (!has_channels || strcmp(end_texts[i], "<|end|>") != 0) {
            add_end(tokenizer, find_special(tokenizer, end_texts[i]));
        }
    }
    add_end(tokenizer, vocab->eos);
    add_end(tokenizer, vocab->eot);
    add_end(tokenizer, vocab->eom);
}

static ps_status init(ps_tokenizer *tokenizer)
{
    const ps_vocab *vocab = &tokenizer->vocab;
    PS_TRY(ps_token_table_init(&tokenizer->table, vocab, &tokenizer->arena));
    PS_TRY(ps_special_index_init(&tokenizer->special, vocab, &tokenizer->arena));
    PS_TRY(tokenizer->is_spm ? ps_spm_init(tokenizer) : ps_bpe_init(tokenizer));
    if (vocab->add_bos >= 0) {
        tokenizer->add_bos = vocab->add_bos != 0;
    }
    if (vocab->add_space_prefix >= 0) {
        tokenizer->add_space_prefix = vocab->add_space_prefix != 0;
    }
    tokenizer->add_bos = tokenizer->add_bos && vocab->bos >= 0;
    tokenizer->add_eos = vocab->add_eos > 0 && vocab->eos >= 0;
    tokenizer->add_space_prefix = tokenizer->add_space_prefix && tokenizer->is_spm;
    find_ends(tokenizer);
    return PS_OK;
}

ps_status ps_tokenizer_create(const ps_vocab *vocab, ps_tokenizer **out)
{
    const bool is_spm = ps_str_equal(vocab->model, "llama");
    if (!is_spm && !ps_str_equal(vocab->model, "gpt2")) {
        const int shown = vocab->model.length < 64 ? (int)vocab->model.length : 64;
        return ps_fail(PS_UNSUPPORTED,
                       "tokenizer.ggml.model '%.*s' is not known; known are: gpt2 llama", shown,
                       vocab->model.length == 0 ? "" : vocab->model.data);
    }
    PS_TRY(check_vocab(vocab));
    ps_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer == NULL) {
        return ps_fail(PS_NO_MEMORY, "out of memory: tokenizer");
    }
    tokenizer->vocab = *vocab;
    tokenizer->is_spm = is_spm;
    ps_arena_init(&tokenizer->arena, ARENA_MAX_BYTES);
    const ps_status status = init(tokenizer);
    if (status != PS_OK) {
        ps_tokenizer_destroy(tokenizer);
        return status;
    }
    *out = tokenizer;
    return PS_OK;
}

void ps_tokenizer_destroy(ps_tokenizer *tokenizer)
{
    if (tokenizer == NULL) {
        return;
    }
    ps_pretokenizer_destroy(tokenizer->pretokenizer);
    ps_arena_deinit(&tokenizer->arena);
    free(tokenizer);
}

// --- encoding -----------------------------------------------------------------------------------

// Segments joined, and where trust changes.
typedef struct text_run {
    size_t end; // in the joined text
    bool trusted;
} text_run;

typedef struct joined_text {
    const char *text;
    size_t length;
    text_run *runs; // neighbours differ in trust; the last ends at length
    size_t run_count;
} joined_text;

ps_status ps_encoding_append_unknown(ps_encoding *encoding, char byte)
{
    const int64_t unk = encoding->tokenizer->vocab.unk;
    if (unk < 0) {
        return ps_fail(PS_INVALID, "byte 0x%02x has no token, and the vocabulary no unknown token",
                       (unsigned)(unsigned char)byte);
    }
    return ps_tokens_append(encoding->out, (int32_t)unk);
}

// Appends what text[from..to), which holds no special token, becomes.
static ps_status append_text(ps_encoding *encoding, const joined_text *in, size_t from, size_t to)
{
    if (from == to) {
        return PS_OK;
    }
    return encoding->tokenizer->is_spm ? ps_spm_encode(encoding, in->text + from, to - from)
                                       : ps_bpe_encode(encoding, in->text + from, to - from);
}

// Appends special tokens where they are found and what other text becomes between them.
static ps_status append_all(ps_encoding *encoding, const joined_text *in)
{
    const ps_tokenizer *tokenizer = encoding->tokenizer;
    const text_run *run = in->runs;
    size_t text_start = 0;
    for (size_t at = 0; at < in->length;) {
        while (at >= run->end) {
            run++;
        }
        const int32_t id = ps_special_index_match(&tokenizer->special, &tokenizer->vocab,
                                                  in->text + at, in->length - at,
                                                  run->trusted ? run->end - at : 0);
        if (id < 0) {
            at++;
            continue;
        }
        PS_TRY(append_text(encoding, in, text_start, at));
        PS_TRY(ps_tokens_append(encoding->out, id));
        at += tokenizer->vocab.tokens[id].length;
        text_start = at;
    }
    return append_text(encoding, in, text_start, in->length);
}

static ps_status add_bos_and_eos(ps_encoding *encoding, const joined_text *in)
{
    const ps_tokenizer *tokenizer = encoding->tokenizer;
    ps_tokens *out = encoding->out;
    const size_t start = out->count;
    if (tokenizer->add_bos) {
        PS_TRY(ps_tokens_append(out, (int32_t)tokenizer->vocab.bos));
    }
    PS_TRY(append_all(encoding, in));
    const bool twice = tokenizer->add_bos && out->count >= start + 2 &&
                       out->ids[start + 1] == (int32_t)tokenizer->vocab.bos;
    if (twice) {
        out->count--;
        memmove(out->ids + start, out->ids + start + 1, (out->count - start) * sizeof *out->ids);
    }
    const bool ends_so = out->count > start &&
                         out->ids[out->count - 1] == (int32_t)tokenizer->vocab.eos;
    return tokenizer->add_eos && !ends_so ? ps_tokens_append(out, (int32_t)tokenizer->vocab.eos)
                                          : PS_OK;
}

static ps_status encode_joined(const ps_tokenizer *tokenizer, const joined_text *in, unsigned flags,
                               ps_tokens *out)
{
    const size_t count_before = out->count;
    ps_encoding encoding = {.tokenizer = tokenizer, .out = out};
    const ps_status status = flags & PS_TOKENIZE_ADD_SPECIAL ? add_bos_and_eos(&encoding, in)
                                                             : append_all(&encoding, in);
    ps_merger_deinit(&encoding.merger);
    ps_buffer_deinit(&encoding.scratch);
    if (status != PS_OK) {
        out->count = count_before;
    }
    return status;
}

static ps_status fail_too_long(void)
{
    return ps_fail(PS_EXHAUSTED, "text to tokenize is longer than %zu bytes",
                   PS_TOKENIZER_TEXT_MAX_BYTES);
}

ps_status ps_tokenizer_encode(const ps_tokenizer *tokenizer, const char *text, size_t length,
                              unsigned flags, ps_tokens *out)
{
    if (length > PS_TOKENIZER_TEXT_MAX_BYTES) {
        return fail_too_long();
    }
    text_run run = {.end = length, .trusted = (flags & PS_TOKENIZE_PARSE_SPECIAL) != 0};
    const joined_text in = {.text = text, .length = length, .runs = &run, .run_count = 1};
    return encode_joined(tokenizer, &in, flags, out);
}

// Appends one segment to buffer and runs.
static ps_status join(const ps_text_segment *segment, ps_buffer *buffer, joined_text *in)
{
    PS_TRY(ps_buffer_append(buffer, segment->text, segment->length));
    if (segment->length == 0) {
        return PS_OK;
    }
    if (in->run_count == 0 || in->runs[in->run_count - 1].trusted != segment->parse_special) {
        in->runs[in->run_count++].trusted = segment->parse_special;
    }
    in->runs[in->run_count - 1].end = buffer->length;
    return PS_OK;
}

ps_status ps_tokenizer_encode_segments(const ps_tokenizer *tokenizer,
                                       const ps_text_segment *segments, size_t count,
                                       unsigned flags, ps_tokens *out)
{
    joined_text in = {.runs = calloc(count == 0 ? 1 : count, sizeof *in.runs)};
    if (in.runs == NULL) {
        return ps_fail(PS_NO_MEMORY, "out of memory: %zu pieces of text", count);
    }
    ps_buffer buffer = {0};
    ps_status status = PS_OK;
    for (size_t i = 0; i < count && status == PS_OK; i++) {
        status = segments[i].length > PS_TOKENIZER_TEXT_MAX_BYTES - buffer.length
                     ? fail_too_long()
                     : join(&segments[i], &buffer, &in);
    }
    if (status == PS_OK) {
        in.text = buffer.data;
        in.length = buffer.length;
        status = encode_joined(tokenizer, &in, flags, out);
    }
    ps_buffer_deinit(&buffer);
    free(in.runs);
    return status;
}

// --- decoding -----------------------------------------------------------------------------------

ps_status ps_tokenizer_decode_piece(const ps_tokenizer *tokenizer, int32_t id, bool show_special,
                                    ps_buffer *out)
{
    const ps_vocab *vocab = &tokenizer->vocab;
    if (id < 0 || (uint32_t)id >= vocab->token_count) {
        return ps_fail(PS_INVALID, "token id %d, the model has ids 0..%u", id,
                       vocab->token_count - 1);
    }
    const ps_str text = vocab->tokens[id];
    const ps_token_type type = ps_vocab_type(vocab, (uint32_t)id);
    if (type == PS_TOKEN_CONTROL || type == PS_TOKEN_UNKNOWN) {
        return show_special ? ps_buffer_append(out, text.data, text.length) : PS_OK;
    }
    if (type == PS_TOKEN_USER_DEFINED) {
        return ps_buffer_append(out, text.data, text.length);
    }
    return tokenizer->is_spm ? ps_spm_decode(tokenizer, id, out) : ps_bpe_decode(text, out);
}

ps_status ps_tokenizer_decode(const ps_tokenizer *tokenizer, const int32_t *ids, size_t count,
                              bool show_special, ps_buffer *out)
{
    bool prefixed = tokenizer->add_space_prefix;
    for (size_t i = 0; i < count; i++) {
        const size_t start = out->length;
        PS_TRY(ps_tokenizer_decode_piece(tokenizer, ids[i], show_special, out));
        const ps_token_type type = ps_vocab_type(&tokenizer->vocab, (uint32_t)ids[i]);
        if (type == PS_TOKEN_CONTROL || type == PS_TOKEN_USER_DEFINED) {
            prefixed = tokenizer->add_space_prefix;
            continue;
        }
        if (prefixed && out->length > start && out->data[start] == ' ') {
            out->length--;
            memmove(out->data + start, out->data + start + 1, out->length - start + 1);
        }
        prefixed = false;
    }
    return PS_OK;
}

bool ps_tokenizer_is_end(const ps_tokenizer *tokenizer, int32_t id)
{
    for (uint32_t i = 0; i < tokenizer->end_count; i++) {
        if (tokenizer->ends[i] == id) {
            return true;
        }
    }
    return false;
}

uint32_t ps_tokenizer_token_count(const ps_tokenizer *tokenizer)
{
    return tokenizer->vocab.token_count;
}

int64_t ps_tokenizer_bos(const ps_tokenizer *tokenizer)
{
    return tokenizer->vocab.bos;
}

int64_t ps_tokenizer_eos(const ps_tokenizer *tokenizer)
{
    return tokenizer->vocab.eos;
}
