// ctest-links: PkgConfig::JANSSON
// Goal: words and ids equal those of independent implementations.
// Method: the fixtures of scripts/make-tokenizer-fixtures.py, whose header names the oracles.
#include "text/pretokenize.h"
#include "text/tokenizer_fixture.h"

// --- reading a fixture --------------------------------------------------------------------------

static ps_str *read_strings(const json_t *array, uint32_t *out_count)
{
    const size_t count = json_array_size(array);
    ps_str *strings = calloc(count + 1, sizeof *strings);
    assert_non_null(strings);
    for (size_t i = 0; i < count; i++) {
        strings[i] = fixture_str(json_array_get(array, i));
    }
    *out_count = (uint32_t)count;
    return strings;
}

static int64_t read_id(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value == NULL ? -1 : json_integer_value(value);
}

// --- byte-level BPE -----------------------------------------------------------------------------

typedef struct word_check {
    const json_t *lengths;
    size_t index;
    size_t offset;
    bool equal;
} word_check;

static ps_status check_word(void *context, size_t offset, size_t length)
{
    word_check *check = context;
    const json_t *expected = json_array_get(check->lengths, check->index);
    check->equal = check->equal && expected != NULL && offset == check->offset &&
                   (json_int_t)length == json_integer_value(expected);
    check->index++;
    check->offset += length;
    return PS_OK;
}

static void check_words(const json_t *behaviour, const json_t *texts)
{
    const char *pre = json_string_value(json_object_get(behaviour, "pre"));
    ps_pretokenizer *pretokenizer = NULL;
    assert_int_equal(PS_OK, ps_pretokenizer_create(ps_str_of(pre), &pretokenizer));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const ps_str text = fixture_str(json_array_get(texts, i));
        word_check check = {.lengths = json_array_get(json_object_get(behaviour, "words"), i),
                            .equal = true};
        assert_int_equal(
            PS_OK, ps_pretokenizer_split(pretokenizer, text.data, text.length, check_word, &check));
        if (!check.equal || check.index != json_array_size(check.lengths)) {
            char *expected = json_dumps(check.lengths, JSON_COMPACT);
            fail_msg("%s, text %zu '%s': differs from the words %s", pre, i, text.data, expected);
        }
    }
    ps_pretokenizer_destroy(pretokenizer);
}

static void test_words_equal_the_oracle(void **state)
{
    (void)state;
    json_t *root = fixture_load("tokenizer-bpe.json");
    const json_t *behaviours = json_object_get(root, "behaviours");
    assert_true(json_array_size(behaviours) > 10);
    for (size_t i = 0; i < json_array_size(behaviours); i++) {
        check_words(json_array_get(behaviours, i), json_object_get(root, "texts"));
    }
    json_decref(root);
}

static void check_text(const ps_tokenizer *tokenizer, ps_str text, const json_t *expected,
                       const char *where)
{
    ps_tokens ids = {0};
    assert_int_equal(PS_OK, ps_tokenizer_encode(tokenizer, text.data, text.length, 0, &ids));
    assert_ids(expected, &ids, where, text.data);
    ps_tokens_deinit(&ids);
}

static void check_bpe_ids(const json_t *behaviour, const json_t *texts, ps_vocab vocab)
{
    const json_t *all_ids = json_object_get(behaviour, "ids");
    if (all_ids == NULL) {
        return;
    }
    const char *pre = json_string_value(json_object_get(behaviour, "pre"));
    vocab.pre = ps_str_of(pre);
    ps_tokenizer *tokenizer = NULL;
    assert_int_equal(PS_OK, ps_tokenizer_create(&vocab, &tokenizer));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        check_text(tokenizer, fixture_str(json_array_get(texts, i)), json_array_get(all_ids, i),
                   pre);
    }
    ps_tokenizer_destroy(tokenizer);
}

static void test_bpe_ids_equal_the_oracle(void **state)
{
    (void)state;
    json_t *root = fixture_load("tokenizer-bpe.json");
    ps_vocab vocab = {.model = ps_str_of("gpt2"),
                      .bos = -1,
                      .eos = -1,
                      .eot = -1,
                      .eom = -1,
                      .unk = -1,
                      .add_bos = -1,
                      .add_eos = -1,
                      .add_space_prefix = -1};
    ps_str *tokens = read_strings(json_object_get(root, "vocab"), &vocab.token_count);
    ps_str *merges = read_strings(json_object_get(root, "merges"), &vocab.merge_count);
    vocab.tokens = tokens;
    vocab.merges = merges;
    const json_t *behaviours = json_object_get(root, "behaviours");
    for (size_t i = 0; i < json_array_size(behaviours); i++) {
        check_bpe_ids(json_array_get(behaviours, i), json_object_get(root, "texts"), vocab);
    }
    free(tokens);
    free(merges);
    json_decref(root);
}

// --- SentencePiece ------------------------------------------------------------------------------

static void check_spm(const json_t *model, ps_vocab vocab, bool prefix)
{
    const json_t *texts = json_object_get(model, "texts");
    const json_t *all_ids = json_object_get(model, prefix ? "ids_prefixed" : "ids");
    vocab.add_space_prefix = prefix;
    ps_tokenizer *tokenizer = NULL;
    assert_int_equal(PS_OK, ps_tokenizer_create(&vocab, &tokenizer));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *expected = json_array_get(all_ids, i);
        if (!json_is_null(expected)) {
            check_text(tokenizer, fixture_str(json_array_get(texts, i)), expected,
                       prefix ? "with space prefix" : "without space prefix");
        }
    }
    ps_tokenizer_destroy(tokenizer);
}

static void check_spm_model(const json_t *model)
{
    ps_vocab vocab = {.model = ps_str_of("llama"),
                      .bos = read_id(model, "bos"),
                      .eos = read_id(model, "eos"),
                      .eot = -1,
                      .eom = -1,
                      .unk = read_id(model, "unk"),
                      .add_bos = -1,
                      .add_eos = -1};
    ps_str *tokens = read_strings(json_object_get(model, "vocab"), &vocab.token_count);
    float *scores = calloc(vocab.token_count, sizeof *scores);
    int32_t *types = calloc(vocab.token_count, sizeof *types);
    assert_non_null(scores);
    assert_non_null(types);
    for (uint32_t i = 0; i < vocab.token_count; i++) {
        scores[i] = (float)json_number_value(json_array_get(json_object_get(model, "scores"), i));
        types[i] = (int32_t)json_integer_value(json_array_get(json_object_get(model, "types"), i));
    }
    vocab.tokens = tokens;
    vocab.scores = scores;
    vocab.types = types;
    check_spm(model, vocab, false);
    check_spm(model, vocab, true);
    free(tokens);
    free(scores);
    free(types);
}

static void test_spm_ids_equal_the_oracle(void **state)
{
    (void)state;
    json_t *root = fixture_load("tokenizer-spm.json");
    const json_t *models = json_object_get(root, "models");
    assert_int_equal(2, json_array_size(models));
    check_spm_model(json_array_get(models, 0));
    check_spm_model(json_array_get(models, 1));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_equal_the_oracle),
        cmocka_unit_test(test_bpe_ids_equal_the_oracle),
        cmocka_unit_test(test_spm_ids_equal_the_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
