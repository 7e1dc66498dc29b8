// ctest-labels: model
// ctest-links: ps_format;PkgConfig::JANSSON
// Goal: vocabularies of real models give the ids that the reference implementation gives, and the
// text back.
// Method: every text of fixtures/tokenizer-models.json on the models found under
// $PRESTAGE_CACHE/models; a model that is not there is left out, without any the test is skipped.
#include "format/gguf.h"
#include "text/tokenizer_fixture.h"

typedef struct loaded_model {
    ps_gguf *file;
    ps_str *tokens;
    float *scores;
    int32_t *types;
    ps_str *merges;
    ps_vocab vocab;
    ps_tokenizer *tokenizer;
} loaded_model;

static void model_path(const char *file, char *out, size_t size)
{
    const char *cache = getenv("PRESTAGE_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache != NULL) {
        snprintf(out, size, "%s/models/%s", cache, file);
    } else if (xdg != NULL) {
        snprintf(out, size, "%s/prestage/models/%s", xdg, file);
    } else {
        snprintf(out, size, "%s/.cache/prestage/models/%s", home == NULL ? "" : home, file);
    }
}

static int64_t optional_id(const ps_gguf *file, const char *key)
{
    uint64_t id = 0;
    return ps_gguf_get_u64(file, key, &id) == PS_OK ? (int64_t)id : -1;
}

static int optional_flag(const ps_gguf *file, const char *key)
{
    bool flag = false;
    return ps_gguf_get_bool(file, key, &flag) == PS_OK ? flag : -1;
}

static void *allocate(uint64_t count, size_t size_bytes)
{
    void *memory = calloc(count + 1, size_bytes);
    assert_non_null(memory);
    return memory;
}

static void read_arrays(loaded_model *model)
{
    const ps_gguf *file = model->file;
    uint64_t count = 0;
    assert_int_equal(PS_OK, ps_gguf_get_array_count(file, "tokenizer.ggml.tokens", &count));
    model->tokens = allocate(count, sizeof *model->tokens);
    model->scores = allocate(count, sizeof *model->scores);
    model->types = allocate(count, sizeof *model->types);
    ps_vocab *vocab = &model->vocab;
    vocab->token_count = (uint32_t)count;
    vocab->tokens = model->tokens;
    assert_int_equal(PS_OK,
                     ps_gguf_get_string_array(file, "tokenizer.ggml.tokens", model->tokens, count));
    assert_int_equal(PS_OK,
                     ps_gguf_get_i32_array(file, "tokenizer.ggml.token_type", model->types, count));
    vocab->types = model->types;
    if (ps_gguf_get_f32_array(file, "tokenizer.ggml.scores", model->scores, count) == PS_OK) {
        vocab->scores = model->scores;
    }
    if (ps_gguf_get_array_count(file, "tokenizer.ggml.merges", &count) == PS_OK) {
        model->merges = allocate(count, sizeof *model->merges);
        assert_int_equal(
            PS_OK, ps_gguf_get_string_array(file, "tokenizer.ggml.merges", model->merges, count));
        vocab->merge_count = (uint32_t)count;
        vocab->merges = model->merges;
    }
}

static bool model_open(loaded_model *model, const char *file_name)
{
    char path[1024];
    model_path(file_name, path, sizeof path);
    *model = (loaded_model){0};
    if (ps_gguf_open(path, &model->file) != PS_OK) {
        printf("left out: %s\n", ps_error_message());
        return false;
    }
    const ps_gguf *file = model->file;
    ps_vocab *vocab = &model->vocab;
    assert_int_equal(PS_OK, ps_gguf_get_string(file, "tokenizer.ggml.model", &vocab->model));
    assert_int_equal(PS_OK, ps_gguf_get_string(file, "tokenizer.ggml.pre", &vocab->pre));
    vocab->bos = optional_id(file, "tokenizer.ggml.bos_token_id");
    vocab->eos = optional_id(file, "tokenizer.ggml.eos_token_id");
    vocab->eot = optional_id(file, "tokenizer.ggml.eot_token_id");
    vocab->eom = optional_id(file, "tokenizer.ggml.eom_token_id");
    vocab->unk = optional_id(file, "tokenizer.ggml.unknown_token_id");
    vocab->add_bos = optional_flag(file, "tokenizer.ggml.add_bos_token");
    vocab->add_eos = optional_flag(file, "tokenizer.ggml.add_eos_token");
    vocab->add_space_prefix = optional_flag(file, "tokenizer.ggml.add_space_prefix");
    read_arrays(model);
    assert_int_equal(PS_OK, ps_tokenizer_create(vocab, &model->tokenizer));
    return true;
}

static void model_close(loaded_model *model)
{
    ps_tokenizer_destroy(model->tokenizer);
    free(model->tokens);
    free(model->scores);
    free(model->types);
    free(model->merges);
    ps_gguf_close(model->file);
}

static void check_case(const loaded_model *model, const json_t *entry, const char *file)
{
    static const struct {
        const char *key;
        unsigned flags;
    } ways[] = {
        {"plain", 0},
        {"parsed", PS_TOKENIZE_PARSE_SPECIAL},
        {"prompt", PS_TOKENIZE_PARSE_SPECIAL | PS_TOKENIZE_ADD_SPECIAL},
    };
    const ps_str text = fixture_str(json_object_get(entry, "text"));
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const json_t *expected = json_object_get(entry, ways[i].key);
        if (expected == NULL && i == 1) { // the same either way
            expected = json_object_get(entry, "plain");
        }
        if (expected == NULL) {
            continue;
        }
        ps_tokens ids = {0};
        assert_int_equal(PS_OK, ps_tokenizer_encode(model->tokenizer, text.data, text.length,
                                                    ways[i].flags, &ids));
        assert_ids(expected, &ids, file, text.data);

        // BOS is the one token that was not in the text.
        const size_t skipped = ids.count > 0 && i == 2 && model->vocab.add_bos == 1;
        ps_buffer back = {0};
        assert_int_equal(PS_OK, ps_tokenizer_decode(model->tokenizer, ids.ids + skipped,
                                                    ids.count - skipped, true, &back));
        assert_int_equal(text.length, back.length);
        assert_true(text.length == 0 || memcmp(text.data, back.data, text.length) == 0);
        ps_buffer_deinit(&back);
        ps_tokens_deinit(&ids);
    }
}

static void test_ids_equal_the_reference(void **state)
{
    (void)state;
    json_t *root = fixture_load("tokenizer-models.json");
    const json_t *models = json_object_get(root, "models");
    size_t tried = 0;
    for (size_t i = 0; i < json_array_size(models); i++) {
        const json_t *entry = json_array_get(models, i);
        const char *file = json_string_value(json_object_get(entry, "file"));
        loaded_model model;
        if (model_open(&model, file)) {
            const json_t *cases = json_object_get(entry, "cases");
            assert_true(json_array_size(cases) > 0);
            for (size_t k = 0; k < json_array_size(cases); k++) {
                check_case(&model, json_array_get(cases, k), file);
            }
            tried++;
        }
        model_close(&model);
    }
    json_decref(root);
    if (tried == 0) {
        skip();
    }
}

int main(void)
{
    static const char *const files[] = {"SmolLM2-135M-Instruct.Q4_1.gguf",
                                        "gemma3-270m-q4_k_m.gguf", "sns2-0.5b-q4.gguf"};
    bool found = false;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[1024];
        model_path(files[i], path, sizeof path);
        FILE *file = fopen(path, "rb");
        found = found || file != NULL;
        if (file != NULL) {
            fclose(file);
        }
    }
    if (!found) {
        printf("skipped: none of the models of fixtures/tokenizer-models.json is in the cache\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids_equal_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
