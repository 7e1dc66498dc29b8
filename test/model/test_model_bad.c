// Goal: a model file that means nonsense is refused with one line that names the key or tensor.
// Method: one good file made in memory, and one thing wrong in it at a time.
#include "model/model_maker.h"

#define ARENA_BYTES ((size_t)8 << 20)

static made_model model;

static int free_model(void **state)
{
    (void)state;
    free(model.bytes);
    model.bytes = NULL;
    return 0;
}

static ps_status read_and_build(size_t arena_bytes)
{
    ps_gguf *file = made_open(&model);
    ps_arena arena;
    ps_arena_init(&arena, arena_bytes);
    ps_graph graph;
    ps_graph_init(&graph, &arena);
    const ps_model_config *config = NULL;
    ps_status status = ps_model_read(file, &arena, &config);
    if (status != PS_OK) {
        assert_null(config);
    } else {
        status = ps_model_build(config, file, &graph);
    }
    if (status == PS_OK) {
        status = ps_graph_verify(&graph, "build");
    }
    ps_arena_deinit(&arena);
    ps_gguf_close(file);
    return status;
}

// `said` and `also` are parts of the line, which is one line.
static void assert_refused(ps_status expected, const char *said, const char *also)
{
    const ps_status status = read_and_build(ARENA_BYTES);
    const char *message = ps_error_message();
    if (status != expected || strstr(message, said) == NULL || strstr(message, also) == NULL) {
        fail_msg("status %d, wanted %d: \"%s\" should have \"%s\" and \"%s\"", (int)status,
                 (int)expected, status == PS_OK ? "" : message, said, also);
    }
    assert_null(strchr(message, '\n'));
}

static void assert_accepted(void)
{
    if (read_and_build(ARENA_BYTES) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
}

static void test_the_good_file_is_accepted(void **state)
{
    (void)state;
    made_llama(&model);
    assert_accepted();
}

static void test_numbers_out_of_range_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        ps_status status;
        const char *said;
    } CASES[] = {
        {"llama.block_count", 0, PS_INVALID, "is 0; 1 to 1024"},
        {"llama.block_count", 1025, PS_INVALID, "1025"},
        {"llama.block_count", UINT32_MAX, PS_INVALID, "4294967295"},
        {"llama.embedding_length", 0, PS_INVALID, "is 0"},
        {"llama.embedding_length", UINT32_MAX, PS_INVALID, "4294967295"},
        {"llama.embedding_length", 66, PS_INVALID, "no multiple of the 4 heads"},
        {"llama.context_length", 0, PS_INVALID, "is 0"},
        {"llama.context_length", UINT32_MAX, PS_INVALID, "4294967295"},
        {"llama.feed_forward_length", 0, PS_INVALID, "is 0"},
        {"llama.feed_forward_length", 1u << 25, PS_INVALID, "33554432"},
        {"llama.attention.head_count", 0, PS_INVALID, "is 0"},
        {"llama.attention.head_count", UINT32_MAX, PS_INVALID, "4294967295"},
        {"llama.attention.head_count_kv", 0, PS_INVALID, "is 0"},
        {"llama.attention.head_count_kv", 3, PS_INVALID, "no multiple"},
        {"llama.attention.head_count_kv", 8, PS_INVALID, "no multiple"},
        {"llama.attention.key_length", 0, PS_INVALID, "is 0"},
        {"llama.attention.key_length", 17, PS_UNSUPPORTED, "17 columns"},
        {"llama.attention.key_length", 20, PS_UNSUPPORTED, "multiples of 8"},
        {"llama.attention.key_length", 520, PS_UNSUPPORTED, "up to 512"},
        {"llama.attention.key_length", UINT32_MAX, PS_INVALID, "4294967295"},
        {"llama.attention.value_length", 32, PS_UNSUPPORTED, "16"},
        {"llama.attention.causal", 0, PS_UNSUPPORTED, "false"},
        {"llama.rope.dimension_count", 0, PS_INVALID, "is 0"},
        {"llama.rope.dimension_count", 15, PS_INVALID, "even"},
        {"llama.rope.dimension_count", 18, PS_INVALID, "2 to 16"},
        {"llama.expert_count", 4097, PS_INVALID, "4097"},
        {"llama.attention.layer_norm_rms_epsilon", 0, PS_INVALID, "is 0"},
        {"llama.attention.layer_norm_rms_epsilon", 2, PS_INVALID, "is 2"},
        {"llama.rope.freq_base", 0, PS_INVALID, "is 0"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        made_llama(&model);
        made_set_u32(&model, CASES[i].key, CASES[i].value);
        // A message may name the default of a key instead, head_count for key_length.
        assert_refused(CASES[i].status, CASES[i].key, CASES[i].said);
    }
}

static void test_missing_keys_are_named(void **state)
{
    (void)state;
    static const char *const KEYS[] = {
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        made_llama(&model);
        made_remove_key(&model, KEYS[i]);
        assert_refused(PS_INVALID, KEYS[i], "no '");
    }
}

static void test_keys_of_another_type_are_named(void **state)
{
    (void)state;
    static const char *const KEYS[] = {
        "llama.block_count",
        "llama.attention.head_count",
        "llama.attention.head_count_kv",
        "llama.attention.layer_norm_rms_epsilon",
        "llama.attention.sliding_window",
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        made_llama(&model);
        made_set_string(&model, KEYS[i], "12");
        assert_refused(PS_INVALID, KEYS[i], "string");
    }
    made_llama(&model);
    made_set_u32(&model, "general.architecture", 7);
    assert_refused(PS_INVALID, "general.architecture", "u32");
    made_llama(&model);
    made_set_u32(&model, "llama.rope.scaling.type", 7);
    assert_refused(PS_INVALID, "llama.rope.scaling.type", "u32");
}

static void test_an_unknown_architecture_lists_the_known_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < ps_model_architecture_count(); i++) {
        made_llama(&model);
        made_set_string(&model, "general.architecture", "fal\ncon");
        assert_refused(PS_UNSUPPORTED, "'fal?con'", ps_model_architecture_name(i));
    }
    assert_int_equal(5, ps_model_architecture_count());
}

static void test_per_layer_numbers_are_checked_one_by_one(void **state)
{
    (void)state;
    made_llama(&model);
    made_set(&model, (made_key){.name = "llama.attention.head_count_kv",
                                .kind = MADE_ARRAY,
                                .number = 2,
                                .array = {2, 3}});
    assert_refused(PS_INVALID, "llama.attention.head_count_kv", "layer 1");

    made_llama(&model);
    made_set(&model, (made_key){.name = "llama.attention.head_count",
                                .kind = MADE_ARRAY,
                                .number = 3,
                                .array = {4, 4, 4}});
    assert_refused(PS_INVALID, "llama.attention.head_count", "3");

    made_llama(&model);
    made_set(&model, (made_key){.name = "llama.feed_forward_length",
                                .kind = MADE_ARRAY,
                                .number = 2,
                                .array = {96, 0}});
    assert_refused(PS_INVALID, "llama.feed_forward_length", "is 0");
}

static void test_experts_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        ps_status status;
        const char *said;
    } CASES[] = {
        {"llama.expert_used_count", 5, PS_INVALID, "1 to 4"},
        {"llama.expert_used_count", 0, PS_INVALID, "is 0"},
        {"llama.expert_feed_forward_length", 0, PS_INVALID, "is 0"},
        {"llama.expert_shared_count", 1, PS_UNSUPPORTED, "is 1"},
        {"llama.expert_gating_func", 2, PS_UNSUPPORTED, "is 2"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        made_llama(&model);
        made_set_u32(&model, "llama.expert_count", 4);
        made_set_u32(&model, "llama.expert_used_count", 2);
        made_set_u32(&model, CASES[i].key, CASES[i].value);
        assert_refused(CASES[i].status, CASES[i].key, CASES[i].said);
    }
    made_llama(&model);
    made_set_u32(&model, "llama.expert_count", 4);
    assert_refused(PS_INVALID, "llama.expert_used_count", "no '");
    made_set_u32(&model, "llama.expert_used_count", 2);
    assert_refused(PS_INVALID, "blk.0.ffn_gate_inp.weight", "no tensor");
}

static void test_other_kinds_of_rope_are_named(void **state)
{
    (void)state;
    made_llama(&model);
    made_set_string(&model, "llama.rope.scaling.type", "yarn");
    assert_refused(PS_UNSUPPORTED, "llama.rope.scaling.type", "'yarn'");
    made_set_string(&model, "llama.rope.scaling.type", "longrope");
    assert_refused(PS_UNSUPPORTED, "llama.rope.scaling.type", "'longrope'");
    made_set_string(&model, "llama.rope.scaling.type", "none");
    assert_accepted();
    made_set_f32(&model, "llama.rope.scaling.attn_factor", 1.5f);
    assert_refused(PS_UNSUPPORTED, "llama.rope.scaling.attn_factor", "1.5");
    made_set_f32(&model, "llama.rope.scaling.attn_factor", 1.0f);
    made_set_f32(&model, "llama.rope.scaling.factor", -2.0f);
    assert_refused(PS_INVALID, "llama.rope.scaling.factor", "-2");
    made_set_f32(&model, "llama.rope.scaling.factor", 1e-40f); // its inverse is infinite
    assert_refused(PS_INVALID, "llama.rope.scaling.factor", "0 (none)");
}

static void test_more_tokens_than_rows_are_refused(void **state)
{
    (void)state;
    made_llama(&model);
    made_set(&model,
             (made_key){.name = "tokenizer.ggml.tokens", .kind = MADE_STRINGS, .number = 33});
    assert_refused(PS_INVALID, "tokenizer.ggml.tokens", "33");
    made_set(&model,
             (made_key){.name = "tokenizer.ggml.tokens", .kind = MADE_STRINGS, .number = 32});
    assert_accepted();
}

static void test_every_missing_tensor_is_named(void **state)
{
    (void)state;
    made_llama(&model);
    const uint32_t count = model.tensor_count;
    for (uint32_t i = 0; i < count; i++) {
        made_llama(&model);
        char name[64];
        memcpy(name, model.tensors[i].name, sizeof name);
        model.tensors[i].name[0] = '\0';
        assert_refused(PS_INVALID, name, "no tensor");
    }
    made_llama(&model);
    made_set_u32(&model, "llama.block_count", 1000);
    assert_refused(PS_INVALID, "blk.2.attn_norm.weight", "no tensor");
}

static void test_every_wrong_shape_is_named_with_both(void **state)
{
    (void)state;
    made_llama(&model);
    const uint32_t count = model.tensor_count;
    for (uint32_t i = 1; i < count; i++) { // the table's rows are the vocabulary
        made_llama(&model);
        made_tensor *tensor = &model.tensors[i];
        char right[64];
        char wrong[64];
        const bool is_vector = tensor->dimensions[1] == 0;
        (void)snprintf(right, sizeof right, is_vector ? "[%u] expected" : "[%u, %u] expected",
                       tensor->dimensions[0], tensor->dimensions[1]);
        tensor->dimensions[1] += 32;
        (void)snprintf(wrong, sizeof wrong, "has shape [%u, %u]", tensor->dimensions[0],
                       tensor->dimensions[1]);
        char name[64];
        memcpy(name, tensor->name, sizeof name);
        assert_refused(PS_INVALID, name, right);
        assert_non_null(strstr(ps_error_message(), wrong));
    }
    made_llama(&model);
    made_tensor_of(&model, "token_embd.weight")->dimensions[0] = 96;
    assert_refused(PS_INVALID, "token_embd.weight", "[64, 32] expected");
    made_llama(&model);
    made_set_tensor(&model, "blk.1.attn_q.weight", MADE_Q8_0, 64, 64, 2);
    assert_refused(PS_INVALID, "blk.1.attn_q.weight", "[64, 64, 2]");
}

static void test_types_that_are_not_computed_are_named(void **state)
{
    (void)state;
    made_llama(&model);
    made_set_u32(&model, "llama.feed_forward_length", 256);
    for (uint32_t i = 0; i < MADE_LAYERS; i++) {
        made_set_layer_tensor(&model, i, "ffn_gate.weight", MADE_Q8_0, MADE_DIM, 256, 0);
        made_set_layer_tensor(&model, i, "ffn_up.weight", MADE_Q8_0, MADE_DIM, 256, 0);
        made_set_layer_tensor(&model, i, "ffn_down.weight", MADE_IQ2_XXS, 256, MADE_DIM, 0);
    }
    assert_refused(PS_UNSUPPORTED,
                   "tensor 'blk.0.ffn_down.weight' is IQ2_XXS, which prestage does not compute; "
                   "supported: F32 F16 BF16 Q4_0",
                   " Q6_K");
    assert_null(strstr(ps_error_message(), "I32"));

    made_llama(&model);
    made_tensor_of(&model, "blk.1.ffn_norm.weight")->type = MADE_F16;
    assert_refused(PS_UNSUPPORTED, "'blk.1.ffn_norm.weight' is F16", "supported: F32");
}

static void test_rope_factors_are_checked(void **state)
{
    (void)state;
    made_llama(&model);
    made_set_tensor(&model, "rope_freqs.weight", MADE_F32, 8, 0, 0);
    assert_accepted();
    made_tensor_of(&model, "rope_freqs.weight")->fill = 0.0f;
    assert_refused(PS_INVALID, "rope_freqs.weight", "holds 0 at 0");
    made_set_tensor(&model, "rope_freqs.weight", MADE_F32, 16, 0, 0);
    assert_refused(PS_INVALID, "rope_freqs.weight", "[8] expected");
}

// The keys of the good file under another architecture's name.
static void made_other(const char *architecture, char names[MADE_KEYS_MAX][64])
{
    made_llama(&model);
    for (uint32_t i = 0; i < model.key_count; i++) {
        const char *name = model.keys[i].name;
        if (strncmp(name, "llama.", 6) == 0) {
            (void)snprintf(names[i], 64, "%s.%s", architecture, name + 6);
            model.keys[i].name = names[i];
        }
    }
    made_set_string(&model, "general.architecture", architecture);
}

static void test_what_an_architecture_cannot_do_without_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *architecture;
        const char *said;
    } CASES[] = {
        {"qwen2", "'blk.0.attn_q.bias'"},
        {"qwen3", "'blk.0.attn_q_norm.weight'"},
        {"qwen3moe", "'qwen3moe.expert_count'"},
        {"gemma3", "'blk.0.attn_q_norm.weight'"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char names[MADE_KEYS_MAX][64];
        made_other(CASES[i].architecture, names);
        assert_refused(PS_INVALID, CASES[i].said, "");
    }
}

// Arenas that end after every possible allocation: always an error, never a crash.
static void test_a_spent_arena_is_an_error(void **state)
{
    (void)state;
    made_llama(&model);
    size_t limit = 0;
    for (ps_status status = PS_NO_MEMORY; status != PS_OK; limit += 64) {
        status = read_and_build(limit);
        assert_true(status == PS_OK || status == PS_NO_MEMORY || status == PS_EXHAUSTED);
        assert_true(limit < ARENA_BYTES);
    }
    assert_true(limit > 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_good_file_is_accepted),
        cmocka_unit_test(test_numbers_out_of_range_are_named),
        cmocka_unit_test(test_missing_keys_are_named),
        cmocka_unit_test(test_keys_of_another_type_are_named),
        cmocka_unit_test(test_an_unknown_architecture_lists_the_known_ones),
        cmocka_unit_test(test_per_layer_numbers_are_checked_one_by_one),
        cmocka_unit_test(test_experts_are_checked),
        cmocka_unit_test(test_other_kinds_of_rope_are_named),
        cmocka_unit_test(test_more_tokens_than_rows_are_refused),
        cmocka_unit_test(test_every_missing_tensor_is_named),
        cmocka_unit_test(test_every_wrong_shape_is_named_with_both),
        cmocka_unit_test(test_types_that_are_not_computed_are_named),
        cmocka_unit_test(test_rope_factors_are_checked),
        cmocka_unit_test(test_what_an_architecture_cannot_do_without_is_named),
        cmocka_unit_test(test_a_spent_arena_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, free_model);
}
