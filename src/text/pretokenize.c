// text/pretokenize.c - the one file that knows PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenize.h"

#include "base/log.h"
#include "text/utf8.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define PASSES_MAX 6
#define NAMES_MAX 20
#define HEAP_LIMIT_KIB (64u << 10)
#define INVALID_STAND_IN '\x01' // neither letter, digit, space, punctuation nor symbol

// Unicode's White_Space for use inside a class. PCRE2's own \s also has U+180E, which lost the
// property in Unicode 6.3 and which the tokenizers these patterns come from do not take for space.
#define WS                                                                                         \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define SPACES "[" WS "]+(?![^" WS "])|[" WS "]+" // a word keeps the space before it
#define LINES "[" WS "]*[\\r\\n]+|" SPACES
#define SUFFIXES "(?:[sdmt]|ll|ve|re)"
#define CONTRACTION "'" SUFFIXES
#define CONTRACTION_ANY "(?i:'" SUFFIXES ")"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SYMBOLS " ?[^" WS "\\p{L}\\p{N}]+"
#define ASCII_PUNCTUATION "!-/:-@\\[-`{-~"

#define GPT2_CUT CONTRACTION "| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|" SPACES

// Words whose capitals come first: HTTPServer is HTTP|Server, camelCase is camel|Case.
#define CASED_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(suffix)                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?" CASED_UPPER "*" CASED_LOWER "+" suffix                                \
    "|[^\\r\\n\\p{L}\\p{N}]?" CASED_UPPER "+" CASED_LOWER "*" suffix

#define KANJI_KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define EAST_ASIAN "[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"

// DeepSeek's first list of letters that have case, as its tokenizer spells it out.
#define CASED_LETTERS                                                                              \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                 \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"                  \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                       \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}"                 \
    "\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}"         \
    "\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}"                           \
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}"                 \
    "\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"                  \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"         \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}"                  \
    "\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}"                 \
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"                 \
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}"         \
    "\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

typedef struct behaviour {
    const char *names[NAMES_MAX];
    const char *passes[PASSES_MAX];
    bool takes_whole_words;
    bool adds_bos;
} behaviour;

// Sources: the `pre_tokenizer` entries of the models' tokenizer.json and, for "default", what GGUF
// files without the key were made for.
static const behaviour behaviours[] = {
    {.names = {"default"}, .passes = {"[\\p{P}$+<=>^~|]+", GPT2_CUT, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
               "lfm2"},
     .passes = {CONTRACTION_ANY "|" WORD "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES},
     .takes_whole_words = true,
     .adds_bos = true},
    {.names = {"smaug-bpe", "dbrx", "glm4", "chatglm-bpe"},
     .passes = {CONTRACTION_ANY "|" WORD "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES}},
    {.names = {"qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "grok-2"},
     .passes = {CONTRACTION_ANY "|" WORD "|\\p{N}|" SYMBOLS "[\\r\\n]*|" LINES}},
    {.names = {"qwen35"},
     .passes = {CONTRACTION_ANY "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS
                                "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES}},
    {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
     .passes = {CONTRACTION_ANY "|" WORD "|\\p{N}|" SYMBOLS "[\\r\\n]*|[" WS "]*[\\r\\n]|" SPACES}},
    {.names = {"seed-coder"}, .passes = {CONTRACTION_ANY "|" WORD "|\\p{N}|" SYMBOLS "|" LINES}},
    {.names = {"gpt-2", "phi-2", "olmo", "mpt", "exaone4", "jina-es", "jina-de", "jina-v2-es",
               "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "jais", "trillion",
               "granite-docling"},
     .passes = {GPT2_CUT}},
    {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     .passes = {"\\p{N}", GPT2_CUT}},
    {.names = {"falcon"}, .passes = {"[\\p{P}$+<=>^~|`]+", GPT2_CUT, "[0-9][0-9][0-9]"}},
    {.names = {"gpt-4o", "llama4", "kanana2", "minimax-m2"},
     .passes = {CASED(CONTRACTION_ANY "?") "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n/]*|" LINES}},
    {.names = {"tekken"},
     .passes = {CASED("") "|\\p{N}|" SYMBOLS "[\\r\\n/]*|" LINES},
     .takes_whole_words = true,
     .adds_bos = true},
    // The look behind changes no match. It keeps PCRE2's interpreter, which runs where JIT may not,
    // from trying a long run of spaces at each of them.
    {.names = {"deepseek-llm"},
     .passes = {"[\\r\\n]", "[" WS "]?[" CASED_LETTERS "]+",
                "[" WS "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}"
                "\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
                "(?<![" WS "])[" WS "]+\\z", EAST_ASIAN, "\\p{N}+"}},
    {.names = {"deepseek-coder"},
     .passes = {"[\\r\\n]", "[" WS "]?\\p{L}+", "[" WS "]?\\p{P}+", EAST_ASIAN, "\\p{N}"}},
    {.names = {"deepseek-v3", "hunyuan-dense"},
     .passes = {"\\p{N}{1,3}", KANJI_KANA,
                "[" ASCII_PUNCTUATION "][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES}},
};

#define BEHAVIOUR_COUNT (sizeof behaviours / sizeof behaviours[0])

struct ps_pretokenizer {
    const behaviour *behaviour;
    pcre2_code *passes[PASSES_MAX]; // NULL behind the last
};

// One call of ps_pretokenizer_split.
typedef struct splitting {
    const ps_pretokenizer *pretokenizer;
    const char *text; // valid UTF-8, same length as the caller's
    pcre2_match_data *match_data;
    pcre2_match_context *match_context;
    ps_pretokenizer_word word;
    void *context;
} splitting;

static const behaviour *find_behaviour(ps_str name)
{
    for (size_t i = 0; i < BEHAVIOUR_COUNT; i++) {
        for (size_t k = 0; k < NAMES_MAX && behaviours[i].names[k] != NULL; k++) {
            if (ps_str_equal(name, behaviours[i].names[k])) {
                return &behaviours[i];
            }
        }
    }
    return NULL;
}

static ps_status fail_unknown(ps_str name)
{
    ps_buffer known = {0};
    ps_status status = PS_OK;
    for (size_t i = 0; i < BEHAVIOUR_COUNT && status == PS_OK; i++) {
        for (size_t k = 0; k < NAMES_MAX && behaviours[i].names[k] != NULL; k++) {
            status = ps_buffer_printf(&known, " %s", behaviours[i].names[k]);
        }
    }
    if (status == PS_OK) {
        const int shown = name.length < 64 ? (int)name.length : 64;
        status = ps_fail(PS_UNSUPPORTED, "tokenizer.ggml.pre '%.*s' is not known; known are:%s",
                         shown, name.data, known.data);
    }
    ps_buffer_deinit(&known);
    return status;
}

static ps_status compile_pass(const char *pattern, pcre2_code **out)
{
    int error = 0;
    size_t offset = 0;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP, &error, &offset, NULL);
    if (code == NULL) {
        return ps_fail(error == PCRE2_ERROR_HEAP_FAILED ? PS_NO_MEMORY : PS_INTERNAL,
                       "word pattern refused by PCRE2: error %d at %zu", error, offset);
    }
    // Without JIT (a hardened kernel, say) the interpreter gives the same matches, only slower.
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    *out = code;
    return PS_OK;
}

ps_status ps_pretokenizer_create(ps_str name, ps_pretokenizer **out)
{
    if (name.length == 0) {
        ps_log(PS_LOG_WARNING, "the model file has no tokenizer.ggml.pre: its text is cut into "
                               "words by an old rule that may not be the one it was trained with");
        name = ps_str_of("default");
    }
    const behaviour *found = find_behaviour(name);
    if (found == NULL) {
        return fail_unknown(name);
    }
    ps_pretokenizer *pretokenizer = calloc(1, sizeof *pretokenizer);
    if (pretokenizer == NULL) {
        return ps_fail(PS_NO_MEMORY, "out of memory: word patterns");
    }
    pretokenizer->behaviour = found;
    for (size_t i = 0; i < PASSES_MAX && found->passes[i] != NULL; i++) {
        const ps_status status = compile_pass(found->passes[i], &pretokenizer->passes[i]);
        if (status != PS_OK) {
            ps_pretokenizer_destroy(pretokenizer);
            return status;
        }
    }
    *out = pretokenizer;
    return PS_OK;
}

void ps_pretokenizer_destroy(ps_pretokenizer *pretokenizer)
{
    if (pretokenizer == NULL) {
        return;
    }
    for (size_t i = 0; i < PASSES_MAX; i++) {
        pcre2_code_free(pretokenizer->passes[i]);
    }
    free(pretokenizer);
}

bool ps_pretokenizer_takes_whole_words(const ps_pretokenizer *pretokenizer)
{
    return pretokenizer->behaviour->takes_whole_words;
}

bool ps_pretokenizer_adds_bos(const ps_pretokenizer *pretokenizer)
{
    return pretokenizer->behaviour->adds_bos;
}

// The next match at or after `from` in piece[0..length). *out_start == length: there is none.
static ps_status next_match(const splitting *split, const pcre2_code *code, const char *piece,
                            size_t length, size_t from, size_t *out_start, size_t *out_end)
{
    int count = pcre2_match(code, (PCRE2_SPTR)piece, length, from, PCRE2_NO_UTF_CHECK,
                            split->match_data, split->match_context);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
        count = pcre2_match(code, (PCRE2_SPTR)piece, length, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, split->match_data,
                            split->match_context);
    }
    if (count == PCRE2_ERROR_NOMATCH) {
        *out_start = length;
        *out_end = length;
        return PS_OK;
    }
    if (count < 0) {
        return ps_fail(count == PCRE2_ERROR_NOMEMORY ? PS_NO_MEMORY : PS_EXHAUSTED,
                       "cutting %zu bytes of text into words: PCRE2 error %d", length, count);
    }
    const size_t *span = pcre2_get_ovector_pointer(split->match_data);
    ps_assert(span[0] >= from && span[1] > span[0] && span[1] <= length);
    *out_start = span[0];
    *out_end = span[1];
    return PS_OK;
}

// Recursion is as deep as the behaviour has passes, at most PASSES_MAX.
static ps_status cut(const splitting *split, size_t pass, size_t offset, size_t length)
{
    const pcre2_code *code = pass < PASSES_MAX ? split->pretokenizer->passes[pass] : NULL;
    if (code == NULL) {
        return length == 0 ? PS_OK : split->word(split->context, offset, length);
    }
    for (size_t from = 0; from < length;) {
        size_t start = 0;
        size_t end = 0;
        PS_TRY(next_match(split, code, split->text + offset, length, from, &start, &end));
        PS_TRY(cut(split, pass + 1, offset + from, start - from));
        PS_TRY(cut(split, pass + 1, offset + start, end - start));
        from = end;
    }
    return PS_OK;
}

// A copy of text with every byte outside valid UTF-8 replaced, or NULL in *out when none is.
static ps_status copy_if_invalid(const char *text, size_t length, char **out)
{
    char *copy = NULL;
    uint32_t code_point = 0;
    for (size_t i = 0; i < length;) {
        const size_t count = ps_utf8_decode(text + i, length - i, &code_point);
        if (count == 0 && copy == NULL) {
            copy = malloc(length);
            if (copy == NULL) {
                return ps_fail(PS_NO_MEMORY, "out of memory: %zu bytes asked", length);
            }
            memcpy(copy, text, length);
        }
        if (count == 0) {
            copy[i] = INVALID_STAND_IN;
        }
        i += count == 0 ? 1 : count;
    }
    *out = copy;
    return PS_OK;
}

static ps_status run_split(splitting *split, size_t length)
{
    split->match_data = pcre2_match_data_create(1, NULL);
    split->match_context = pcre2_match_context_create(NULL);
    ps_status status = PS_OK;
    if (split->match_data == NULL || split->match_context == NULL) {
        status = ps_fail(PS_NO_MEMORY, "out of memory: word patterns");
    } else {
        // No pattern takes more than a few steps a character; the limits hold if one ever does.
        const uint64_t steps = 4096 + 64 * (uint64_t)length;
        pcre2_set_match_limit(split->match_context,
                              steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
        pcre2_set_heap_limit(split->match_context, HEAP_LIMIT_KIB);
        status = cut(split, 0, 0, length);
    }
    pcre2_match_context_free(split->match_context);
    pcre2_match_data_free(split->match_data);
    return status;
}

ps_status ps_pretokenizer_split(const ps_pretokenizer *pretokenizer, const char *text,
                                size_t length, ps_pretokenizer_word word, void *context)
{
    char *copy = NULL;
    PS_TRY(copy_if_invalid(text, length, &copy));
    splitting split = {.pretokenizer = pretokenizer,
                       .text = copy != NULL ? copy : text,
                       .word = word,
                       .context = context};
    const ps_status status = run_split(&split, length);
    free(copy);
    return status;
}
