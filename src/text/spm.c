// text/spm.c - SentencePiece BPE: characters are joined when the result is a token, best score
// first; what has no token falls back to bytes.
#include "text/tokenizer_internal.h"

#include "text/utf8.h"

#include <math.h>
#include <string.h>

static const char spm_space[] = "\xe2\x96\x81"; // U+2581
#define SPM_SPACE_BYTES (sizeof spm_space - 1)

// Lower is better, as the merger wants it; the order of finite floats kept.
static uint32_t priority_of_score(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The byte that "<0xXX>" names, or -1.
static int byte_of_token(ps_str token)
{
    if (token.length != 6 || memcmp(token.data, "<0x", 3) != 0 || token.data[5] != '>') {
        return -1;
    }
    const int high = hex_digit(token.data[3]);
    const int low = hex_digit(token.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

ps_status ps_spm_init(ps_tokenizer *tokenizer)
{
    const ps_vocab *vocab = &tokenizer->vocab;
    if (vocab->scores == NULL) {
        return ps_fail(PS_INVALID, "tokenizer.ggml.scores is missing; model 'llama' needs a score "
                                   "for each token");
    }
    memset(tokenizer->byte_ids, -1, sizeof tokenizer->byte_ids);
    for (uint32_t id = 0; id < vocab->token_count; id++) {
        if (!isfinite(vocab->scores[id])) {
            return ps_fail(PS_INVALID, "tokenizer.ggml.scores[%u] is not a finite number", id);
        }
        const int byte = byte_of_token(vocab->tokens[id]);
        if (byte >= 0 && (vocab->types == NULL || ps_vocab_type(vocab, id) == PS_TOKEN_BYTE)) {
            tokenizer->byte_ids[byte] = (int32_t)id;
        }
    }
    tokenizer->add_bos = true;
    tokenizer->add_space_prefix = true;
    return PS_OK;
}

static uint32_t lookup(const void *context, const ps_merge_symbol *left,
                       const ps_merge_symbol *right, int32_t *out_id)
{
    const ps_encoding *encoding = context;
    const int32_t id = ps_token_table_find(&encoding->tokenizer->table,
                                           encoding->scratch.data + left->offset,
                                           (size_t)left->length + right->length);
    if (id < 0) {
        return PS_MERGE_NEVER;
    }
    *out_id = id;
    return priority_of_score(encoding->tokenizer->vocab.scores[id]);
}

// Puts the text, its spaces replaced and perhaps a prefix before it, into the scratch buffer.
static ps_status escape_spaces(ps_encoding *encoding, const char *text, size_t length)
{
    ps_buffer *scratch = &encoding->scratch;
    scratch->length = 0;
    if (encoding->tokenizer->add_space_prefix) {
        PS_TRY(ps_buffer_append(scratch, spm_space, SPM_SPACE_BYTES));
    }
    for (size_t i = 0; i < length;) {
        const char *space = memchr(text + i, ' ', length - i);
        const size_t run = space == NULL ? length - i : (size_t)(space - text) - i;
        PS_TRY(ps_buffer_append(scratch, text + i, run));
        i += run;
        if (space != NULL) {
            PS_TRY(ps_buffer_append(scratch, spm_space, SPM_SPACE_BYTES));
            i++;
        }
    }
    return PS_OK;
}

// One symbol a character; a byte outside valid UTF-8 is a symbol of its own.
static ps_status add_symbols(ps_encoding *encoding)
{
    const ps_buffer *text = &encoding->scratch;
    ps_merger_reset(&encoding->merger);
    for (size_t i = 0; i < text->length;) {
        uint32_t code_point = 0;
        size_t count = ps_utf8_decode(text->data + i, text->length - i, &code_point);
        count = count == 0 ? 1 : count;
        const int32_t id = ps_token_table_find(&encoding->tokenizer->table, text->data + i, count);
        PS_TRY(ps_merger_add(&encoding->merger, (uint32_t)i, (uint32_t)count, id));
        i += count;
    }
    return PS_OK;
}

// Appends the byte tokens of a symbol; false in *out_known, and nothing appended, when a byte has
// none.
static ps_status append_bytes(ps_encoding *encoding, const ps_merge_symbol *symbol, bool *out_known)
{
    const size_t count_before = encoding->out->count;
    *out_known = true;
    for (uint32_t i = 0; i < symbol->length && *out_known; i++) {
        const char byte = encoding->scratch.data[symbol->offset + i];
        const int32_t id = encoding->tokenizer->byte_ids[(unsigned char)byte];
        *out_known = id >= 0;
        if (*out_known) {
            PS_TRY(ps_tokens_append(encoding->out, id));
        }
    }
    if (!*out_known) {
        encoding->out->count = count_before;
    }
    return PS_OK;
}

// A run of unknown characters becomes one unknown token, as in SentencePiece.
static ps_status append_symbols(ps_encoding *encoding)
{
    const ps_merger *merger = &encoding->merger;
    bool after_unknown = false;
    for (int32_t i = 0; i >= 0; i = merger->symbols[i].next) {
        const ps_merge_symbol *symbol = &merger->symbols[i];
        bool known = true;
        PS_TRY(symbol->id >= 0 ? ps_tokens_append(encoding->out, symbol->id)
                               : append_bytes(encoding, symbol, &known));
        if (!known && !after_unknown) {
            PS_TRY(ps_encoding_append_unknown(encoding, encoding->scratch.data[symbol->offset]));
        }
        after_unknown = !known;
    }
    return PS_OK;
}

ps_status ps_spm_encode(ps_encoding *encoding, const char *text, size_t length)
{
    PS_TRY(escape_spaces(encoding, text, length));
    PS_TRY(add_symbols(encoding));
    PS_TRY(ps_merger_run(&encoding->merger, lookup, encoding));
    return append_symbols(encoding);
}

ps_status ps_spm_decode(const ps_tokenizer *tokenizer, int32_t id, ps_buffer *out)
{
    const ps_str token = tokenizer->vocab.tokens[id];
    const int byte = byte_of_token(token);
    if (byte >= 0 && tokenizer->byte_ids[byte] == id) {
        const char c = (char)byte;
        return ps_buffer_append(out, &c, 1);
    }
    for (size_t i = 0; i < token.length;) {
        const char *space = memmem(token.data + i, token.length - i, spm_space, SPM_SPACE_BYTES);
        const size_t run = space == NULL ? token.length - i : (size_t)(space - token.data) - i;
        PS_TRY(ps_buffer_append(out, token.data + i, run));
        i += run;
        if (space != NULL) {
            PS_TRY(ps_buffer_append(out, " ", 1));
            i += SPM_SPACE_BYTES;
        }
    }
    return PS_OK;
}
