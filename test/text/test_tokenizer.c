// Goal: the rules of tokenizer.h hold: which vocabularies are refused, where special tokens are
// found, what BOS, EOS and prefixes do, and that decoding undoes encoding whatever the bytes.
// Method: small vocabularies made by hand; random ones against a merge loop that tries every pair.
#include "gen.h"
#include "text/tokenizer_maker.h"

enum {
    BOS = 256, // ids behind the bytes in chat_vocab
    EOS,
    TURN,
    END,
    TAG,
    NEWLINES,
    WORD_HI,
};

// Bytes, special tokens and the word "hi", which takes a merge.
static void chat_vocab(maker *make)
{
    maker_init(make);
    maker_add_byte_map(make);
    maker_add_token(make, "<bos>", 0, PS_TOKEN_CONTROL);
    maker_add_token(make, "<eos>", 0, PS_TOKEN_CONTROL);
    maker_add_token(make, "<turn>", 0, PS_TOKEN_CONTROL);
    maker_add_token(make, "<|im_end|>", 0, PS_TOKEN_CONTROL);
    maker_add_token(make, "<tag>", 0, PS_TOKEN_USER_DEFINED);
    maker_add_token(make, "\n\n\n", 0, PS_TOKEN_USER_DEFINED);
    maker_add_token(make, "hi", 0, PS_TOKEN_NORMAL);
    maker_add_merge(make, "h", "i");
    make->vocab.bos = BOS;
    make->vocab.eos = EOS;
}

static void assert_encodes(const ps_tokenizer *tokenizer, const char *text, unsigned flags,
                           const int32_t *expected, size_t count)
{
    ps_tokens ids = {0};
    assert_int_equal(PS_OK, ps_tokenizer_encode(tokenizer, text, strlen(text), flags, &ids));
    if (ids.count != count ||
        (count > 0 && memcmp(ids.ids, expected, count * sizeof *expected) != 0)) {
        printf("'%s' gave", text);
        for (size_t i = 0; i < ids.count; i++) {
            printf(" %d", ids.ids[i]);
        }
        printf("\n");
        fail();
    }
    ps_tokens_deinit(&ids);
}

#define ASSERT_ENCODES(tokenizer, text, flags, ...)                                                \
    assert_encodes((tokenizer), (text), (flags), (const int32_t[]){__VA_ARGS__},                   \
                   sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

// --- vocabularies that are refused --------------------------------------------------------------

static void assert_refused(maker *make, const char *model, const char *pre, ps_status expected,
                           const char *message_part)
{
    ps_tokenizer *tokenizer = NULL;
    assert_int_equal(expected, maker_try_create(make, model, pre, &tokenizer));
    assert_null(tokenizer);
    if (strstr(ps_error_message(), message_part) == NULL) {
        fail_msg("'%s' does not mention '%s'", ps_error_message(), message_part);
    }
}

static void test_unknown_names_are_refused_with_the_known_ones(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    assert_refused(&make, "bert", "", PS_UNSUPPORTED, "known are: gpt2 llama");
    assert_refused(&make, "", "", PS_UNSUPPORTED, "known are: gpt2 llama");
    assert_refused(&make, "gpt2", "qwen99", PS_UNSUPPORTED, "tokenizer.ggml.pre 'qwen99'");
    assert_refused(&make, "gpt2", "qwen99", PS_UNSUPPORTED, "llama-bpe");
    maker_deinit(&make);
}

static void test_missing_pre_means_default(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "");
    ASSERT_ENCODES(tokenizer, "hi", 0, WORD_HI);
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

static void test_ids_out_of_range_are_refused(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    int64_t *const ids[] = {&make.vocab.bos, &make.vocab.eos, &make.vocab.eot, &make.vocab.eom,
                            &make.vocab.unk};
    static const int64_t wrong[] = {WORD_HI + 1, -2, INT64_MIN, INT64_MAX, (int64_t)1 << 32};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const int64_t kept = *ids[i];
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            *ids[i] = wrong[k];
            assert_refused(&make, "gpt2", "gpt-2", PS_INVALID, "_token_id is");
        }
        *ids[i] = kept;
    }
    maker_deinit(&make);
}

static void test_malformed_tables_are_refused(void **state)
{
    (void)state;
    static const char *const merges[] = {"", " ", "a", "ab", " a", "a ", "abc"};
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        maker make;
        chat_vocab(&make);
        make.merges[0] = ps_str_of(merges[i]);
        assert_refused(&make, "gpt2", "gpt-2", PS_INVALID, "tokenizer.ggml.merges[0]");
        maker_deinit(&make);
    }
    maker make;
    chat_vocab(&make);
    make.types[3] = 7;
    assert_refused(&make, "gpt2", "gpt-2", PS_INVALID, "token_type[3] is 7");
    make.types[3] = -1;
    assert_refused(&make, "gpt2", "gpt-2", PS_INVALID, "token_type[3] is -1");
    make.types[3] = PS_TOKEN_NORMAL;
    make.scores[2] = 0.0f / (make.scores[2] * 0.0f);
    assert_refused(&make, "llama", "", PS_INVALID, "scores[2]");
    const uint32_t count = make.vocab.token_count;
    make.vocab.token_count = 0;
    assert_refused(&make, "gpt2", "gpt-2", PS_INVALID, "tokenizer.ggml.tokens");
    make.vocab.token_count = count;

    ps_vocab vocab = make.vocab;
    vocab.model = ps_str_of("llama");
    vocab.scores = NULL;
    ps_tokenizer *tokenizer = NULL;
    assert_int_equal(PS_INVALID, ps_tokenizer_create(&vocab, &tokenizer));
    assert_non_null(strstr(ps_error_message(), "tokenizer.ggml.scores"));
    maker_deinit(&make);
}

static void test_duplicate_tokens_and_stray_merges_are_tolerated(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    const int32_t again = maker_add_token(&make, "hi", 0, PS_TOKEN_NORMAL);
    maker_add_token(&make, "", 0, PS_TOKEN_NORMAL);
    maker_add_token(&make, "", 0, PS_TOKEN_CONTROL);
    maker_add_merge(&make, "q", "q");     // no token qq
    maker_add_merge(&make, "hi", "zz");   // no token zz
    maker_add_merge(&make, "<", "turn>"); // never gives the control token
    maker_add_merge(&make, "h", "i");
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    ASSERT_ENCODES(tokenizer, "hi", 0, again);
    ASSERT_ENCODES(tokenizer, "qq", 0, 'q', 'q');
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

// --- special tokens -----------------------------------------------------------------------------

static void test_control_tokens_are_found_only_when_trusted(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    ASSERT_ENCODES(tokenizer, "hi<turn>hi", PS_TOKENIZE_PARSE_SPECIAL, WORD_HI, TURN, WORD_HI);
    ASSERT_ENCODES(tokenizer, "hi<turn>hi", 0, WORD_HI, '<', 't', 'u', 'r', 'n', '>', WORD_HI);
    // A text that is cut off, or wrong in its last byte, is text.
    ASSERT_ENCODES(tokenizer, "<turn", PS_TOKENIZE_PARSE_SPECIAL, '<', 't', 'u', 'r', 'n');
    ASSERT_ENCODES(tokenizer, "<<turn>", PS_TOKENIZE_PARSE_SPECIAL, '<', TURN);
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

static void test_user_defined_tokens_are_always_found(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    ASSERT_ENCODES(tokenizer, "<tag>hi\n\n\n\n", 0, TAG, WORD_HI, NEWLINES, '\n');
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

static void test_the_longest_special_token_wins(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    const int32_t longer = maker_add_token(&make, "<tag><turn>", 0, PS_TOKEN_CONTROL);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    ASSERT_ENCODES(tokenizer, "<tag><turn>", PS_TOKENIZE_PARSE_SPECIAL, longer);
    ASSERT_ENCODES(tokenizer, "<tag><turn>", 0, TAG, '<', 't', 'u', 'r', 'n', '>');
    ASSERT_ENCODES(tokenizer, "<tag><turn", PS_TOKENIZE_PARSE_SPECIAL, TAG, '<', 't', 'u', 'r',
                   'n');
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

static void test_bos_and_eos_are_added_once(void **state)
{
    (void)state;
    const unsigned both = PS_TOKENIZE_ADD_SPECIAL | PS_TOKENIZE_PARSE_SPECIAL;
    maker make;
    chat_vocab(&make);
    make.vocab.add_bos = 1;
    make.vocab.add_eos = 1;
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    ASSERT_ENCODES(tokenizer, "hi", 0, WORD_HI);
    ASSERT_ENCODES(tokenizer, "hi", PS_TOKENIZE_ADD_SPECIAL, BOS, WORD_HI, EOS);
    ASSERT_ENCODES(tokenizer, "", PS_TOKENIZE_ADD_SPECIAL, BOS, EOS);
    ASSERT_ENCODES(tokenizer, "<bos>hi<eos>", both, BOS, WORD_HI, EOS);
    ASSERT_ENCODES(tokenizer, "hi<bos>", both, BOS, WORD_HI, BOS, EOS);
    ps_tokenizer_destroy(tokenizer);

    make.vocab.add_bos = 0;
    make.vocab.add_eos = -1;
    tokenizer = maker_create(&make, "gpt2", "llama-bpe");
    ASSERT_ENCODES(tokenizer, "hi", PS_TOKENIZE_ADD_SPECIAL, WORD_HI);
    ps_tokenizer_destroy(tokenizer);

    make.vocab.add_bos = -1; // what the kind of model does
    tokenizer = maker_create(&make, "gpt2", "llama-bpe");
    ASSERT_ENCODES(tokenizer, "hi", PS_TOKENIZE_ADD_SPECIAL, BOS, WORD_HI);
    ps_tokenizer_destroy(tokenizer);
    tokenizer = maker_create(&make, "gpt2", "qwen2");
    ASSERT_ENCODES(tokenizer, "hi", PS_TOKENIZE_ADD_SPECIAL, WORD_HI);
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

static void assert_segments(const ps_tokenizer *tokenizer, const ps_text_segment *segments,
                            size_t count, const int32_t *expected, size_t expected_count)
{
    ps_tokens ids = {0};
    assert_int_equal(PS_OK, ps_tokenizer_encode_segments(tokenizer, segments, count, 0, &ids));
    assert_int_equal(expected_count, ids.count);
    assert_memory_equal(expected, ids.ids, expected_count * sizeof *expected);
    ps_tokens_deinit(&ids);
}

static void test_segments_join_but_keep_their_trust(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    // A user writes a control token, and the halves of one around the border.
    const ps_text_segment injected[] = {
        {"<turn>h", 7, true}, {"i<turn>", 7, false}, {"<tu", 3, false}, {"rn>", 3, true}};
    const int32_t injected_ids[] = {TURN, WORD_HI, '<', 't', 'u', 'r', 'n',
                                    '>',  '<',     't', 'u', 'r', 'n', '>'};
    assert_segments(tokenizer, injected, 4, injected_ids, 14);
    // Trusted segments that follow each other may share one, whatever empty ones stand between.
    const ps_text_segment split[] = {{"<tu", 3, true}, {"", 0, false}, {"rn>", 3, true}};
    const int32_t split_ids[] = {TURN};
    assert_segments(tokenizer, split, 3, split_ids, 1);
    // User-defined tokens are found across any border.
    const ps_text_segment tag[] = {{"<t", 2, false}, {"ag>", 3, true}};
    const int32_t tag_ids[] = {TAG};
    assert_segments(tokenizer, tag, 2, tag_ids, 1);
    assert_segments(tokenizer, NULL, 0, tag_ids, 0);
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

static void test_ends_are_known_by_id_and_by_name(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    make.vocab.eot = TURN;
    const int32_t plain = maker_add_token(&make, "<|endoftext|>", 0, PS_TOKEN_NORMAL);
    const int32_t sentence = maker_add_token(
        &make, "<\xef\xbd\x9c\x65nd\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>", 0,
        PS_TOKEN_CONTROL);
    const int32_t end = maker_add_token(&make, "<|end|>", 0, PS_TOKEN_CONTROL);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    assert_true(ps_tokenizer_is_end(tokenizer, EOS));
    assert_true(ps_tokenizer_is_end(tokenizer, TURN));
    assert_true(ps_tokenizer_is_end(tokenizer, END));
    assert_true(ps_tokenizer_is_end(tokenizer, sentence));
    assert_true(ps_tokenizer_is_end(tokenizer, end));
    assert_false(ps_tokenizer_is_end(tokenizer, plain));
    assert_false(ps_tokenizer_is_end(tokenizer, BOS));
    assert_false(ps_tokenizer_is_end(tokenizer, WORD_HI));
    assert_false(ps_tokenizer_is_end(tokenizer, -1));
    assert_false(ps_tokenizer_is_end(tokenizer, INT32_MAX));
    assert_int_equal(make.vocab.token_count, ps_tokenizer_token_count(tokenizer));
    assert_int_equal(BOS, ps_tokenizer_bos(tokenizer));
    assert_int_equal(EOS, ps_tokenizer_eos(tokenizer));
    ps_tokenizer_destroy(tokenizer);

    maker_add_token(&make, "<|return|>", 0, PS_TOKEN_CONTROL);
    maker_add_token(&make, "<|call|>", 0, PS_TOKEN_CONTROL);
    tokenizer = maker_create(&make, "gpt2", "gpt-4o");
    assert_false(ps_tokenizer_is_end(tokenizer, end)); // one message of several
    assert_true(ps_tokenizer_is_end(tokenizer, end + 1));
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

// --- decoding -----------------------------------------------------------------------------------

static void assert_decodes(const ps_tokenizer *tokenizer, const int32_t *ids, size_t count,
                           bool show_special, const char *expected)
{
    ps_buffer text = {0};
    assert_int_equal(PS_OK, ps_tokenizer_decode(tokenizer, ids, count, show_special, &text));
    assert_string_equal(expected, text.length == 0 ? "" : text.data);
    ps_buffer_deinit(&text);
}

static void test_control_tokens_are_hidden_unless_asked_for(void **state)
{
    (void)state;
    maker make;
    chat_vocab(&make);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    const int32_t ids[] = {BOS, WORD_HI, TAG, 0xc3, 0xa9, EOS};
    assert_decodes(tokenizer, ids, 6, false, "hi<tag>\xc3\xa9");
    assert_decodes(tokenizer, ids, 6, true, "<bos>hi<tag>\xc3\xa9<eos>");

    static const int32_t wrong[] = {-1, INT32_MIN, WORD_HI + 1, INT32_MAX};
    ps_buffer text = {0};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(PS_INVALID, ps_tokenizer_decode_piece(tokenizer, wrong[i], true, &text));
        assert_int_equal(PS_INVALID, ps_tokenizer_decode(tokenizer, &wrong[i], 1, true, &text));
    }
    assert_int_equal(0, text.length);
    ps_buffer_deinit(&text);
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

static void test_byte_without_token_is_unknown_or_an_error(void **state)
{
    (void)state;
    maker make;
    maker_init(&make);
    maker_add_token(&make, "a", 0, PS_TOKEN_NORMAL);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "gpt-2");
    ps_tokens ids = {0};
    assert_int_equal(PS_OK, ps_tokens_append(&ids, 77));
    assert_int_equal(PS_INVALID, ps_tokenizer_encode(tokenizer, "ab", 2, 0, &ids));
    assert_int_equal(1, ids.count); // as before
    assert_int_equal(77, ids.ids[0]);
    ps_tokens_deinit(&ids);
    ps_tokenizer_destroy(tokenizer);

    make.vocab.unk = maker_add_token(&make, "<unk>", 0, PS_TOKEN_UNKNOWN);
    tokenizer = maker_create(&make, "gpt2", "gpt-2");
    ASSERT_ENCODES(tokenizer, "abba", 0, 0, 1, 1, 0);
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

// --- SentencePiece ------------------------------------------------------------------------------

static void spm_vocab(maker *make)
{
    maker_init(make);
    maker_add_byte_tokens(make);
    maker_add_token(make, "<s>", 0, PS_TOKEN_CONTROL);
    maker_add_token(make, "</s>", 0, PS_TOKEN_CONTROL);
    maker_add_token(make, "[INST]", 0, PS_TOKEN_CONTROL);
    maker_add_token(make, "\xe2\x96\x81", -1, PS_TOKEN_NORMAL); // 259
    maker_add_token(make, "a", -2, PS_TOKEN_NORMAL);            // 260
    maker_add_token(make, "b", -3, PS_TOKEN_NORMAL);            // 261
    maker_add_token(make, "ab", -5, PS_TOKEN_NORMAL);           // 262
    maker_add_token(make, "\xe2\x96\x81\x61", -4, PS_TOKEN_NORMAL);
    make->vocab.bos = 256;
    make->vocab.eos = 257;
    make->vocab.add_bos = -1;
    make->vocab.add_space_prefix = -1;
}

static void test_spm_prefix_comes_at_the_start_and_behind_special_tokens(void **state)
{
    (void)state;
    maker make;
    spm_vocab(&make);
    ps_tokenizer *tokenizer = maker_create(&make, "llama", "default");
    const unsigned both = PS_TOKENIZE_ADD_SPECIAL | PS_TOKENIZE_PARSE_SPECIAL;
    ASSERT_ENCODES(tokenizer, "ab", 0, 263, 261); // "_a" is worth more than "ab"
    ASSERT_ENCODES(tokenizer, "bab", 0, 259, 261, 262);
    ASSERT_ENCODES(tokenizer, " a", 0, 259, 263);
    ASSERT_ENCODES(tokenizer, "[INST]a[INST]", both, 256, 258, 263, 258);
    ASSERT_ENCODES(tokenizer, "\xc3\xa9", 0, 259, 0xc3, 0xa9);
    ASSERT_ENCODES(tokenizer, "", PS_TOKENIZE_ADD_SPECIAL, 256);
    ASSERT_ENCODES(tokenizer, "<0x41>", 0, 259, '<', '0', 'x', '4', '1', '>');

    const int32_t ids[] = {256, 258, 263, 261, 258, 259, 263};
    assert_decodes(tokenizer, ids, 7, true, "<s>[INST]ab[INST] a");
    assert_decodes(tokenizer, ids, 7, false, "ab a");
    ps_tokenizer_destroy(tokenizer);

    make.vocab.add_space_prefix = 0;
    tokenizer = maker_create(&make, "llama", "");
    ASSERT_ENCODES(tokenizer, "ab", 0, 262);
    const int32_t kept[] = {263};
    assert_decodes(tokenizer, kept, 1, false, " a");
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

// --- properties ---------------------------------------------------------------------------------

// Bytes of several tempers: any, ASCII, pieces of UTF-8 and special tokens.
static size_t random_text(ps_gen *gen, char *out, size_t capacity)
{
    static const char *const pieces[] = {"<turn>", "<tag>",  "\n\n\n",       "hi",
                                         " ",      "\xc3",   "\xe4\xb8\xad", "\xe2\x96\x81",
                                         "<s>",    "[INST]", "\x01",         "ab"};
    const size_t wanted = (size_t)ps_gen_range(gen, 0, (int64_t)capacity - 16);
    size_t length = 0;
    while (length < wanted) {
        const int64_t kind = ps_gen_range(gen, 0, 3);
        if (kind == 0) {
            out[length++] = (char)ps_gen_range(gen, 0, 255);
        } else if (kind == 1) {
            out[length++] = (char)ps_gen_range(gen, ' ', 'z');
        } else {
            const char *piece = pieces[ps_gen_range(gen, 0, 11)];
            memcpy(out + length, piece, strlen(piece));
            length += strlen(piece);
        }
    }
    return length;
}

static void assert_round_trip(const ps_tokenizer *tokenizer, const char *text, size_t length,
                              unsigned flags)
{
    ps_tokens ids = {0};
    ps_buffer back = {0};
    assert_int_equal(PS_OK, ps_tokenizer_encode(tokenizer, text, length, flags, &ids));
    assert_int_equal(PS_OK, ps_tokenizer_decode(tokenizer, ids.ids, ids.count, true, &back));
    assert_int_equal(length, back.length);
    assert_memory_equal(text, length == 0 ? "" : back.data, length);
    ps_buffer_deinit(&back);
    ps_tokens_deinit(&ids);
}

static void test_decoding_undoes_encoding(void **state)
{
    (void)state;
    static const char *const pres[] = {"default", "llama-bpe", "smollm", "gpt-4o", "deepseek-v3"};
    ps_gen gen = ps_gen_start();
    maker make;
    chat_vocab(&make);
    for (size_t p = 0; p < sizeof pres / sizeof pres[0]; p++) {
        ps_tokenizer *tokenizer = maker_create(&make, "gpt2", pres[p]);
        for (int round = 0; round < 500; round++) {
            char text[200];
            const size_t length = random_text(&gen, text, sizeof text);
            assert_round_trip(tokenizer, text, length, 0);
            assert_round_trip(tokenizer, text, length, PS_TOKENIZE_PARSE_SPECIAL);
        }
        ps_tokenizer_destroy(tokenizer);
    }
    maker_deinit(&make);
}

// "llama" gives U+2581 back as a space, so the text has none.
static void test_spm_decoding_undoes_encoding(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    maker make;
    spm_vocab(&make);
    for (int prefix = 0; prefix <= 1; prefix++) {
        make.vocab.add_space_prefix = prefix;
        ps_tokenizer *tokenizer = maker_create(&make, "llama", "");
        for (int round = 0; round < 1000; round++) {
            char text[200];
            const size_t length = random_text(&gen, text, sizeof text);
            char *space = NULL;
            while ((space = memmem(text, length, "\xe2\x96\x81", 3)) != NULL) {
                space[1] = 'x';
            }
            assert_round_trip(tokenizer, text, length, 0);
            assert_round_trip(tokenizer, text, length, PS_TOKENIZE_PARSE_SPECIAL);
        }
        ps_tokenizer_destroy(tokenizer);
    }
    maker_deinit(&make);
}

static void test_segments_of_one_trust_equal_the_joined_text(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    maker make;
    chat_vocab(&make);
    ps_tokenizer *tokenizer = maker_create(&make, "gpt2", "llama-bpe");
    for (int round = 0; round < 1000; round++) {
        char text[200];
        const size_t length = random_text(&gen, text, sizeof text);
        const bool trusted = ps_gen_range(&gen, 0, 1) == 1;
        const size_t first = (size_t)ps_gen_range(&gen, 0, (int64_t)length);
        const size_t second = (size_t)ps_gen_range(&gen, (int64_t)first, (int64_t)length);
        const ps_text_segment segments[] = {{text, first, trusted},
                                            {text + first, second - first, trusted},
                                            {text + second, length - second, trusted}};
        ps_tokens whole = {0};
        ps_tokens parts = {0};
        assert_int_equal(PS_OK,
                         ps_tokenizer_encode(tokenizer, text, length,
                                             trusted ? PS_TOKENIZE_PARSE_SPECIAL : 0, &whole));
        assert_int_equal(PS_OK, ps_tokenizer_encode_segments(tokenizer, segments, 3, 0, &parts));
        assert_int_equal(whole.count, parts.count);
        assert_true(whole.count == 0 ||
                    memcmp(whole.ids, parts.ids, whole.count * sizeof *whole.ids) == 0);
        ps_tokens_deinit(&whole);
        ps_tokens_deinit(&parts);
    }
    ps_tokenizer_destroy(tokenizer);
    maker_deinit(&make);
}

// --- merging against a loop that tries every pair -----------------------------------------------

#define LETTERS 3
#define TEXT_MAX 48

// Joins the best pair, leftmost of equals, until there is none. Ids are texts here.
static size_t merge_slowly(const maker *make, char (*symbols)[TEXT_MAX + 1], size_t count,
                           bool by_score)
{
    for (;;) {
        size_t best = count;
        double best_rank = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            char joined[2 * TEXT_MAX + 2];
            snprintf(joined, sizeof joined, by_score ? "%s%s" : "%s %s", symbols[i],
                     symbols[i + 1]);
            const uint32_t entries = by_score ? make->vocab.token_count : make->vocab.merge_count;
            for (uint32_t m = 0; m < entries; m++) {
                const ps_str entry = by_score ? make->tokens[m] : make->merges[m];
                const double rank = by_score ? -(double)make->scores[m] : m;
                if (ps_str_equal(entry, joined) && (best == count || rank < best_rank)) {
                    best = i;
                    best_rank = rank;
                }
            }
        }
        if (best == count) {
            return count;
        }
        char joined[2 * TEXT_MAX + 1];
        snprintf(joined, sizeof joined, "%s%s", symbols[best], symbols[best + 1]);
        memcpy(symbols[best], joined, sizeof symbols[best]);
        memmove(symbols[best + 1], symbols[best + 2], (count - best - 2) * sizeof *symbols);
        count--;
    }
}

static bool has_token(const maker *make, const char *text)
{
    for (uint32_t i = 0; i < make->vocab.token_count; i++) {
        if (ps_str_equal(make->tokens[i], text)) {
            return true;
        }
    }
    return false;
}

// Letters, and tokens that join two earlier ones; each join is also a merge. Scores repeat.
static void random_vocab(ps_gen *gen, maker *make)
{
    maker_init(make);
    for (int letter = 0; letter < LETTERS; letter++) {
        const char text[2] = {(char)('a' + letter), 0};
        maker_add_token(make, text, 0, PS_TOKEN_NORMAL);
    }
    const int64_t joins = ps_gen_range(gen, 1, 30);
    for (int64_t i = 0; i < joins; i++) {
        const char *left = make->texts[ps_gen_range(gen, 0, make->vocab.token_count - 1)];
        const char *right = make->texts[ps_gen_range(gen, 0, make->vocab.token_count - 1)];
        char joined[256];
        snprintf(joined, sizeof joined, "%s%s", left, right);
        if (strlen(joined) > 12) {
            continue;
        }
        maker_add_merge(make, left, right);
        if (!has_token(make, joined)) {
            maker_add_token(make, joined, (float)ps_gen_range(gen, -5, 5), PS_TOKEN_NORMAL);
        }
    }
}

static void test_merging_equals_the_slow_loop(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 600; round++) {
        const bool by_score = round % 2 == 1;
        maker make;
        random_vocab(&gen, &make);
        ps_tokenizer *tokenizer = maker_create(&make, by_score ? "llama" : "gpt2",
                                               by_score ? "" : "gpt-2");
        char text[TEXT_MAX + 1] = {0};
        char symbols[TEXT_MAX][TEXT_MAX + 1] = {{0}};
        const size_t length = (size_t)ps_gen_range(&gen, 1, TEXT_MAX);
        for (size_t i = 0; i < length; i++) {
            text[i] = (char)('a' + ps_gen_range(&gen, 0, LETTERS - 1));
            symbols[i][0] = text[i];
        }
        const size_t count = merge_slowly(&make, symbols, length, by_score);
        ps_tokens ids = {0};
        assert_int_equal(PS_OK, ps_tokenizer_encode(tokenizer, text, length, 0, &ids));
        assert_int_equal(count, ids.count);
        for (size_t i = 0; i < count; i++) {
            assert_true(ps_str_equal(make.tokens[ids.ids[i]], symbols[i]));
        }
        ps_tokens_deinit(&ids);
        ps_tokenizer_destroy(tokenizer);
        maker_deinit(&make);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_names_are_refused_with_the_known_ones),
        cmocka_unit_test(test_missing_pre_means_default),
        cmocka_unit_test(test_ids_out_of_range_are_refused),
        cmocka_unit_test(test_malformed_tables_are_refused),
        cmocka_unit_test(test_duplicate_tokens_and_stray_merges_are_tolerated),
        cmocka_unit_test(test_control_tokens_are_found_only_when_trusted),
        cmocka_unit_test(test_user_defined_tokens_are_always_found),
        cmocka_unit_test(test_the_longest_special_token_wins),
        cmocka_unit_test(test_bos_and_eos_are_added_once),
        cmocka_unit_test(test_segments_join_but_keep_their_trust),
        cmocka_unit_test(test_ends_are_known_by_id_and_by_name),
        cmocka_unit_test(test_control_tokens_are_hidden_unless_asked_for),
        cmocka_unit_test(test_byte_without_token_is_unknown_or_an_error),
        cmocka_unit_test(test_spm_prefix_comes_at_the_start_and_behind_special_tokens),
        cmocka_unit_test(test_decoding_undoes_encoding),
        cmocka_unit_test(test_spm_decoding_undoes_encoding),
        cmocka_unit_test(test_segments_of_one_trust_equal_the_joined_text),
        cmocka_unit_test(test_merging_equals_the_slow_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
