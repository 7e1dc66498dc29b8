// fuzz-links: ps_text
//
// Goal: no text and no vocabulary whatever make the tokenizer read outside them, hang or break a
// promise of tokenizer.h.
// Form of an input: one byte that chooses, then either text for a fixed vocabulary (0..127) or a
// vocabulary of the input's own (128..255): [count][type, length, bytes] tokens, [count][length,
// bytes] merges, the rest is text.
#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

#include <string.h>

#define ITEMS_MAX 255

typedef struct reader {
    const uint8_t *bytes;
    size_t left;
} reader;

static unsigned take_byte(reader *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->bytes++;
}

static ps_str take_string(reader *in)
{
    const size_t wanted = take_byte(in);
    const size_t length = wanted < in->left ? wanted : in->left;
    const ps_str string = {.data = (const char *)in->bytes, .length = length};
    in->bytes += length;
    in->left -= length;
    return string;
}

static const char *const pres[] = {"default",      "llama-bpe",      "glm4",       "qwen2",
                                   "qwen35",       "bailingmoe",     "gpt-2",      "smollm",
                                   "falcon",       "seed-coder",     "gpt-4o",     "tekken",
                                   "deepseek-llm", "deepseek-coder", "deepseek-v3"};

#define PRE_COUNT (sizeof pres / sizeof pres[0])

// Encodes with and without trust; when `whole` is set, decoding must give the text back.
static void use(const ps_tokenizer *tokenizer, const char *text, size_t length, bool whole)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        ps_tokens ids = {0};
        const ps_status status = ps_tokenizer_encode(tokenizer, text, length, flags, &ids);
        ps_assert(status == PS_OK || (ids.count == 0 && !whole));
        ps_buffer back = {0};
        ps_assert(ps_tokenizer_decode(tokenizer, ids.ids, ids.count, true, &back) == PS_OK);
        ps_assert(!whole ||
                  (back.length == length && (length == 0 || memcmp(back.data, text, length) == 0)));
        for (size_t i = 0; i < ids.count; i++) {
            ps_assert(ids.ids[i] >= 0 &&
                      (uint32_t)ids.ids[i] < ps_tokenizer_token_count(tokenizer));
            (void)ps_tokenizer_is_end(tokenizer, ids.ids[i]);
        }
        ps_buffer_deinit(&back);
        ps_tokens_deinit(&ids);
    }
    const ps_text_segment segments[] = {{text, length / 3, true},
                                        {text + length / 3, length - length / 3, false}};
    ps_tokens ids = {0};
    const ps_status status = ps_tokenizer_encode_segments(tokenizer, segments, 2, 0, &ids);
    ps_assert(status == PS_OK || !whole);
    ps_tokens_deinit(&ids);
}

// All bytes, some merges over them and special tokens; one tokenizer for each `pre`.
static const ps_tokenizer *fixed_tokenizer(size_t pre)
{
    static ps_tokenizer *tokenizers[PRE_COUNT];
    static char spelled[256][3];
    static ps_str tokens[264];
    static int32_t types[264];
    static ps_str merges[4];
    if (tokenizers[pre] != NULL) {
        return tokenizers[pre];
    }
    int next = 0x100;
    for (int byte = 0; byte < 256; byte++) {
        const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
        const int code_point = printable ? byte : next++;
        spelled[byte][0] = (char)(code_point < 0x80 ? code_point : 0xc0 | code_point >> 6);
        spelled[byte][1] = (char)(code_point < 0x80 ? 0 : 0x80 | (code_point & 0x3f));
        tokens[byte] = ps_str_of(spelled[byte]);
        types[byte] = PS_TOKEN_NORMAL;
    }
    static const char *const more[] = {"aa",  "aaaa",       "12",   "\xc4\xa0\x61",
                                       "<s>", "<|im_end|>", "\n\n", "<t>"};
    for (size_t i = 0; i < 8; i++) {
        tokens[256 + i] = ps_str_of(more[i]);
        types[256 + i] = i < 4 ? PS_TOKEN_NORMAL : i < 6 ? PS_TOKEN_CONTROL : PS_TOKEN_USER_DEFINED;
    }
    static const char *const merge_texts[] = {"a a", "aa aa", "1 2", "\xc4\xa0 a"};
    for (size_t i = 0; i < 4; i++) {
        merges[i] = ps_str_of(merge_texts[i]);
    }
    // No BOS: what is decoded must be the text alone.
    const ps_vocab vocab = {.model = ps_str_of("gpt2"),
                            .pre = ps_str_of(pres[pre]),
                            .token_count = 264,
                            .tokens = tokens,
                            .types = types,
                            .merge_count = 4,
                            .merges = merges,
                            .bos = -1,
                            .eos = 257,
                            .eot = -1,
                            .eom = -1,
                            .unk = -1};
    ps_assert(ps_tokenizer_create(&vocab, &tokenizers[pre]) == PS_OK);
    return tokenizers[pre];
}

static void use_own_vocabulary(unsigned choice, reader *in)
{
    ps_str tokens[ITEMS_MAX];
    int32_t types[ITEMS_MAX];
    float scores[ITEMS_MAX];
    ps_str merges[ITEMS_MAX];
    const uint32_t token_count = take_byte(in);
    for (uint32_t i = 0; i < token_count; i++) {
        const unsigned type = take_byte(in);
        types[i] = (int32_t)(type % 8);
        scores[i] = (float)(type / 8);
        tokens[i] = take_string(in);
    }
    const uint32_t merge_count = take_byte(in);
    for (uint32_t i = 0; i < merge_count; i++) {
        merges[i] = take_string(in);
    }
    const unsigned ids = take_byte(in);
    const ps_vocab vocab = {.model = ps_str_of(choice & 1 ? "llama" : "gpt2"),
                            .pre = ps_str_of(pres[choice / 2 % PRE_COUNT]),
                            .token_count = token_count,
                            .tokens = tokens,
                            .scores = scores,
                            .types = choice & 64 ? NULL : types,
                            .merge_count = merge_count,
                            .merges = merges,
                            .bos = (int64_t)(ids & 15) - 1,
                            .eos = (int64_t)(ids >> 4) - 1,
                            .eot = -1,
                            .eom = -1,
                            .unk = (int64_t)(ids & 3) - 1,
                            .add_bos = -1,
                            .add_eos = (int)(ids & 1),
                            .add_space_prefix = -1};
    ps_tokenizer *tokenizer = NULL;
    if (ps_tokenizer_create(&vocab, &tokenizer) != PS_OK) {
        ps_assert(tokenizer == NULL);
        ps_assert(ps_error_message()[0] != '\0');
        return;
    }
    use(tokenizer, (const char *)in->bytes, in->left, false);
    ps_tokenizer_destroy(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    reader in = {.bytes = bytes, .left = size_bytes};
    const unsigned choice = take_byte(&in);
    if (choice >= 128) {
        use_own_vocabulary(choice, &in);
    } else {
        const size_t length = in.left;
        use(fixed_tokenizer(choice % PRE_COUNT), (const char *)in.bytes, length, true);
    }
    return 0;
}
