// ctest-labels: unit;model
//
// Goal: real files are read as their makers wrote them.
// Method: three models of the cache folder (PRESTAGE_CACHE, else $XDG_CACHE_HOME/prestage, else
// ~/.cache/prestage, below it models/), against values taken from them with another reader.
#include "format/gguf.h"
#include "format/gguf_test.h"
#include "fuzz/gguf_walk.h"

#include <stdlib.h>

typedef struct expected_model {
    const char *file_name;
    uint64_t size_bytes;
    uint32_t key_count;
    uint32_t tensor_count;
    const char *architecture;
    const char *embedding_key;
    uint64_t embedding_length;
    const char *epsilon_key;
    float epsilon;
    uint64_t token_count;
    const char *first_token;
    const char *last_tensor;
    struct {
        const char *name;
        ps_dtype dtype;
        uint64_t dimensions[2];
    } tensors[2];
} expected_model;

static const expected_model SMOLLM2 = {
    .file_name = "SmolLM2-135M-Instruct.Q4_1.gguf",
    .size_bytes = 98362432,
    .key_count = 33,
    .tensor_count = 272,
    .architecture = "llama",
    .embedding_key = "llama.embedding_length",
    .embedding_length = 576,
    .epsilon_key = "llama.attention.layer_norm_rms_epsilon",
    .epsilon = 1e-5f,
    .token_count = 49152,
    .first_token = "<|endoftext|>",
    .last_tensor = "output_norm.weight",
    .tensors = {{"token_embd.weight", PS_DTYPE_Q8_0, {576, 49152}},
                {"blk.0.attn_norm.weight", PS_DTYPE_F32, {576, 1}}},
};

static const expected_model GEMMA3 = {
    .file_name = "gemma3-270m-q4_k_m.gguf",
    .size_bytes = 253113024,
    .key_count = 33,
    .tensor_count = 236,
    .architecture = "gemma3",
    .embedding_key = "gemma3.embedding_length",
    .embedding_length = 640,
    .epsilon_key = "gemma3.attention.layer_norm_rms_epsilon",
    .epsilon = 1e-6f,
    .token_count = 262144,
    .first_token = "<pad>",
    .last_tensor = "blk.17.post_ffw_norm.weight",
    .tensors = {{"token_embd.weight", PS_DTYPE_Q8_0, {640, 262144}},
                {"output_norm.weight", PS_DTYPE_F32, {640, 1}}},
};

static const expected_model QWEN2 = {
    .file_name = "sns2-0.5b-q4.gguf",
    .size_bytes = 491400064,
    .key_count = 26,
    .tensor_count = 291,
    .architecture = "qwen2",
    .embedding_key = "qwen2.embedding_length",
    .embedding_length = 896,
    .epsilon_key = "qwen2.attention.layer_norm_rms_epsilon",
    .epsilon = 1e-6f,
    .token_count = 151936,
    .first_token = "!",
    .last_tensor = "output_norm.weight",
    .tensors = {{"output.weight", PS_DTYPE_Q8_0, {896, 151936}},
                {"token_embd.weight", PS_DTYPE_Q5_0, {896, 151936}}},
};

static void model_path(const char *file_name, char path[512])
{
    const char *cache = getenv("PRESTAGE_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache != NULL) {
        (void)snprintf(path, 512, "%s/models/%s", cache, file_name);
    } else if (xdg != NULL) {
        (void)snprintf(path, 512, "%s/prestage/models/%s", xdg, file_name);
    } else {
        (void)snprintf(path, 512, "%s/.cache/prestage/models/%s", home == NULL ? "" : home,
                       file_name);
    }
}

static bool is_present(const expected_model *model)
{
    char path[512];
    model_path(model->file_name, path);
    return access(path, R_OK) == 0;
}

static void assert_tokens(const ps_gguf *file, const expected_model *model)
{
    uint64_t count = 0;
    assert_int_equal(PS_OK, ps_gguf_get_array_count(file, "tokenizer.ggml.tokens", &count));
    assert_int_equal(model->token_count, count);
    ps_str *tokens = calloc(count, sizeof *tokens);
    int32_t *types = calloc(count, sizeof *types);
    assert_true(tokens != NULL && types != NULL);
    assert_int_equal(PS_OK, ps_gguf_get_string_array(file, "tokenizer.ggml.tokens", tokens, count));
    assert_true(ps_str_equal(tokens[0], model->first_token));
    assert_int_equal(PS_OK, ps_gguf_get_i32_array(file, "tokenizer.ggml.token_type", types, count));
    for (uint64_t i = 0; i < count; i++) {
        assert_in_range(types[i], 1, 6);
    }
    free(types);
    free(tokens);
}

static void assert_model(const ps_gguf *file, const expected_model *model)
{
    assert_int_equal(3, ps_gguf_version(file));
    assert_int_equal(model->size_bytes, ps_gguf_size_bytes(file));
    assert_int_equal(model->key_count, ps_gguf_key_count(file));
    assert_int_equal(model->tensor_count, ps_gguf_tensor_count(file));

    ps_str architecture;
    uint64_t embedding_length = 0;
    float epsilon = 0.0f;
    assert_int_equal(PS_OK, ps_gguf_get_string(file, "general.architecture", &architecture));
    assert_true(ps_str_equal(architecture, model->architecture));
    assert_int_equal(PS_OK, ps_gguf_get_u64(file, model->embedding_key, &embedding_length));
    assert_int_equal(model->embedding_length, embedding_length);
    assert_int_equal(PS_OK, ps_gguf_get_f32(file, model->epsilon_key, &epsilon));
    assert_true(epsilon == model->epsilon);

    const ps_gguf_tensor *last = ps_gguf_tensor_at(file, model->tensor_count - 1);
    assert_string_equal(model->last_tensor, last->name);
    for (int i = 0; i < 2; i++) {
        const ps_gguf_tensor *tensor = ps_gguf_tensor_find(file, model->tensors[i].name);
        assert_non_null(tensor);
        assert_int_equal(model->tensors[i].dtype, tensor->dtype);
        assert_int_equal(model->tensors[i].dimensions[0], tensor->dimensions[0]);
        assert_int_equal(model->tensors[i].dimensions[1], tensor->dimensions[1]);
        assert_int_equal(0, (uintptr_t)tensor->data % 32);
    }
}

static void test_model(void **state)
{
    const expected_model *model = *state;
    char path[512];
    model_path(model->file_name, path);
    if (!is_present(model)) {
        print_message("skipped: no model %s\n", path);
        skip();
    }
    ps_gguf *file = NULL;
    ps_gguf *again = NULL;
    if (ps_gguf_open(path, &file) != PS_OK || ps_gguf_open(path, &again) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    assert_model(file, model);
    assert_tokens(file, model);
    ps_gguf_walk(file);
    assert_true(ps_gguf_fingerprint(file) == ps_gguf_fingerprint(again));
    ps_gguf_close(again);
    ps_gguf_close(file);
}

int main(void)
{
    if (!is_present(&SMOLLM2) && !is_present(&GEMMA3) && !is_present(&QWEN2)) {
        (void)printf("skipped: none of the three models is in the cache folder\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        {"smollm2", test_model, NULL, NULL, (void *)(uintptr_t)&SMOLLM2},
        {"gemma3", test_model, NULL, NULL, (void *)(uintptr_t)&GEMMA3},
        {"qwen2", test_model, NULL, NULL, (void *)(uintptr_t)&QWEN2},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
