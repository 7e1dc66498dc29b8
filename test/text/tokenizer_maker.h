// test/text/tokenizer_maker.h - vocabularies made by hand.
#ifndef PS_TEST_TOKENIZER_MAKER_H
#define PS_TEST_TOKENIZER_MAKER_H

#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAKER_TOKENS_MAX 1024

// Zero-initialise with maker_init; texts are copies.
typedef struct maker {
    ps_vocab vocab; // what is set here goes into the tokenizer; the arrays below are filled in
    char *texts[MAKER_TOKENS_MAX];
    ps_str tokens[MAKER_TOKENS_MAX];
    float scores[MAKER_TOKENS_MAX];
    int32_t types[MAKER_TOKENS_MAX];
    char *merge_texts[MAKER_TOKENS_MAX];
    ps_str merges[MAKER_TOKENS_MAX];
} maker;

static inline void maker_init(maker *make)
{
    memset(make, 0, sizeof *make);
    make->vocab = (ps_vocab){.bos = -1, .eos = -1, .eot = -1, .eom = -1, .unk = -1};
}

static inline void maker_deinit(maker *make)
{
    for (uint32_t i = 0; i < make->vocab.token_count; i++) {
        free(make->texts[i]);
    }
    for (uint32_t i = 0; i < make->vocab.merge_count; i++) {
        free(make->merge_texts[i]);
    }
}

static inline int32_t maker_add_token(maker *make, const char *text, float score, int32_t type)
{
    const uint32_t id = make->vocab.token_count++;
    assert_true(id < MAKER_TOKENS_MAX);
    make->texts[id] = strdup(text);
    assert_non_null(make->texts[id]);
    make->tokens[id] = ps_str_of(make->texts[id]);
    make->scores[id] = score;
    make->types[id] = type;
    return (int32_t)id;
}

static inline void maker_add_merge(maker *make, const char *left, const char *right)
{
    char merge[1024];
    snprintf(merge, sizeof merge, "%s %s", left, right);
    const uint32_t rank = make->vocab.merge_count++;
    assert_true(rank < MAKER_TOKENS_MAX);
    make->merge_texts[rank] = strdup(merge);
    assert_non_null(make->merge_texts[rank]);
    make->merges[rank] = ps_str_of(make->merge_texts[rank]);
}

// 256 tokens, in the order of bytes, spelled by GPT-2's map: what is not printable in Latin-1 takes
// the code points from U+0100 in turn.
static inline void maker_add_byte_map(maker *make)
{
    int next = 0x100;
    for (int byte = 0; byte < 256; byte++) {
        const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
        const int code_point = printable ? byte : next++;
        const char text[3] = {(char)(code_point < 0x80 ? code_point : 0xc0 | code_point >> 6),
                              (char)(code_point < 0x80 ? 0 : 0x80 | (code_point & 0x3f)), 0};
        maker_add_token(make, text, 0, PS_TOKEN_NORMAL);
    }
}

// 256 tokens <0x00> .. <0xFF>.
static inline void maker_add_byte_tokens(maker *make)
{
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        maker_add_token(make, text, 0, PS_TOKEN_BYTE);
    }
}

static inline ps_status maker_try_create(maker *make, const char *model, const char *pre,
                                         ps_tokenizer **out)
{
    make->vocab.model = ps_str_of(model);
    make->vocab.pre = ps_str_of(pre);
    make->vocab.tokens = make->tokens;
    make->vocab.scores = make->scores;
    make->vocab.types = make->types;
    make->vocab.merges = make->merges;
    return ps_tokenizer_create(&make->vocab, out);
}

static inline ps_tokenizer *maker_create(maker *make, const char *model, const char *pre)
{
    ps_tokenizer *tokenizer = NULL;
    if (maker_try_create(make, model, pre, &tokenizer) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    return tokenizer;
}

#endif
