// ctest-labels: unit
// Goal: a config.json is planned as the model file of the same shape would be; the architectures
// that are shipped are those of their names; what is wrong in a config.json is said. Method:
// configurations of the golden models, as scripts/make-golden.py has them, against the graphs of
// their files; sizes of parameters and of one layer's bytes on N devices against published ones and
// against those of the note on PRESERVE (batch 4, 16384 positions, a byte each), which are made
// here of the shapes alone; then one thing is wrong at a time.
#include "engine/engine_test.h"

#include "engine/architecture_file.h"
#include "engine/data_files.h"
#include "engine/model_source.h"
#include "passes/passes.h"

#include <math.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)256 << 20)

// ---- configurations and files

static const struct {
    const char *golden, *config;
} GOLDEN[] = {
    {"smollm-q8_0",
     "{'model_type': 'llama', 'hidden_size': 96, 'num_hidden_layers': 2, 'num_attention_heads': 9, "
     "'num_key_value_heads': 3, 'head_dim': 32, 'intermediate_size': 96, 'vocab_size': 272, "
     "'max_position_embeddings': 1024, 'rms_norm_eps': 1e-5, 'rope_theta': 100000, "
     "'tie_word_embeddings': true, 'torch_dtype': 'float32'}"},
    {"mixtral-q8_0",
     "{'model_type': 'mixtral', 'hidden_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': "
     "4, 'num_key_value_heads': 2, 'intermediate_size': 64, 'num_local_experts': 4, "
     "'num_experts_per_tok': 2, 'vocab_size': 272, 'max_position_embeddings': 1024, "
     "'rms_norm_eps': 1e-5, 'rope_theta': 1000000.0, 'tie_word_embeddings': false, "
     "'sliding_window': null}"},
    {"qwen2-q8_0",
     "{'model_type': 'qwen2', 'hidden_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 4, "
     "'num_key_value_heads': 2, 'intermediate_size': 96, 'vocab_size': 272, "
     "'max_position_embeddings': 1024, 'rms_norm_eps': 1e-5, 'rope_theta': 1000000.0, "
     "'tie_word_embeddings': true, 'sliding_window': 32, 'max_window_layers': 0, "
     "'use_sliding_window': false}"},
    {"qwen3-q8_0",
     "{'model_type': 'qwen3', 'hidden_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 4, "
     "'num_key_value_heads': 2, 'head_dim': 32, 'intermediate_size': 96, 'vocab_size': 272, "
     "'max_position_embeddings': 1024, 'rms_norm_eps': 1e-5, 'rope_theta': 1000000.0, "
     "'tie_word_embeddings': true, 'layer_types': ['full_attention', 'full_attention']}"},
    {"qwen3moe-q8_0",
     "{'model_type': 'qwen3_moe', 'hidden_size': 64, 'num_hidden_layers': 2, "
     "'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 32, 'num_experts': 6, "
     "'num_experts_per_tok': 2, 'moe_intermediate_size': 32, 'decoder_sparse_step': 1, "
     "'mlp_only_layers': [], 'norm_topk_prob': true, 'vocab_size': 272, "
     "'max_position_embeddings': 1024, 'rms_norm_eps': 1e-5, 'rope_theta': 1000000.0, "
     "'tie_word_embeddings': true, 'intermediate_size': 96}"},
    {"gemma3-q8_0",
     "{'model_type': 'gemma3_text', 'hidden_size': 64, 'num_hidden_layers': 6, "
     "'num_attention_heads': 2, 'num_key_value_heads': 1, 'head_dim': 32, 'intermediate_size': 64, "
     "'vocab_size': 272, 'max_position_embeddings': 1024, 'rms_norm_eps': 1e-6, 'rope_theta': "
     "1000000.0, 'query_pre_attn_scalar': 32, 'sliding_window': 12, 'sliding_window_pattern': 6}"},
};

// JSON with single quotes; another text is overwritten.
static ps_str json_of(const char *text)
{
    static char json[4096];
    const size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i <= length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    return (ps_str){json, length};
}

static ps_status parse(const char *text, ps_arena *arena, const ps_model_config **out)
{
    const char *note;
    return ps_architecture_parse(json_of(text), "made", arena, out, &note);
}

// Without what a config.json does not say: types of weights, scaling of RoPE.
static char *print(ps_graph *graph)
{
    ps_buffer text = {0};
    for (uint32_t i = 0; i < graph->value_count; i++) {
        ps_value *value = &graph->values[i];
        if (value->kind == PS_VALUE_WEIGHT && value->rows > 1) {
            value->dtype = PS_DTYPE_F32;
        }
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph->nodes[i].attributes.freq_scale = 1;
    }
    expect_ok(ps_graph_print(graph, &text));
    return text.data;
}

static void test_configurations_are_their_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GOLDEN / sizeof GOLDEN[0]; i++) {
        char path[512];
        ps_arena arena;
        ps_graph of_file, of_config;
        ps_model_source source;
        const ps_model_config *config = NULL;
        ps_arena_init(&arena, ARENA_BYTES);
        ps_graph_init(&of_file, &arena);
        ps_graph_init(&of_config, &arena);
        (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR,
                       GOLDEN[i].golden);
        expect_ok(ps_model_source_open(path, 0, &arena, &source));
        assert_non_null(source.file.gguf);
        expect_ok(ps_model_build(source.config, source.file.gguf, &of_file));
        expect_ok(parse(GOLDEN[i].config, &arena, &config));
        expect_ok(ps_model_build(config, NULL, &of_config));
        expect_ok(ps_graph_verify(&of_config, "build"));
        assert_int_equal(source.config->context_tokens, config->context_tokens);
        char *left = print(&of_file);
        char *right = print(&of_config);
        assert_string_equal(left, right);
        free(left);
        free(right);
        ps_model_source_close(&source);
        ps_arena_deinit(&arena);
    }
}

// ---- what is shipped

// Parameters as the models' authors publish them, in 10^9; of flash-next the 48 x 512 experts of
// 3 x 2560 x 640, and at most two more for what is assumed.
static const struct {
    const char *name;
    double least, most;
} SHIPPED[] = {
    {"llama3-8b", 8.02, 8.04}, {"llama3-70b", 70.5, 70.7},        {"qwen2-7b", 7.61, 7.62},
    {"qwen2-72b", 72.6, 72.8}, {"phi3-small", 7.35, 7.45},        {"phi3-medium", 13.9, 14.1},
    {"qwen3-32b", 32.7, 32.9}, {"qwen3-235b-a22b", 234.5, 235.5}, {"flash-next", 120.8, 122.8},
};
#define SHIPPED_COUNT (sizeof SHIPPED / sizeof SHIPPED[0])

static double count_parameters(const ps_graph *graph)
{
    double sum = 0;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const ps_value *value = &graph->values[i];
        if (value->kind == PS_VALUE_WEIGHT) {
            sum += (double)value->rows * value->columns *
                   (value->experts == 0 ? 1 : value->experts);
        }
    }
    return sum;
}

static void test_shipped_architectures(void **state)
{
    (void)state;
    uint32_t count = 0;
    (void)ps_data_folder("models", &count);
    assert_int_equal(SHIPPED_COUNT, count);
    for (size_t i = 0; i < SHIPPED_COUNT; i++) {
        ps_arena arena;
        ps_graph graph;
        ps_model_source source;
        ps_arena_init(&arena, ARENA_BYTES);
        ps_graph_init(&graph, &arena);
        expect_ok(ps_model_source_open(SHIPPED[i].name, 0, &arena, &source));
        assert_null(source.file.gguf);
        assert_true(strlen(source.note) > 20);
        assert_string_equal(SHIPPED[i].name, source.config->name);
        assert_int_equal(PS_DTYPE_BF16, source.config->weight_dtype);
        expect_ok(ps_model_build(source.config, NULL, &graph));
        expect_ok(ps_graph_verify(&graph, "build"));
        const double billions = count_parameters(&graph) / 1e9;
        if (!(billions >= SHIPPED[i].least && billions <= SHIPPED[i].most)) {
            fail_msg("%s has %.3f billion parameters", SHIPPED[i].name, billions);
        }
        ps_model_source_close(&source);
        ps_arena_deinit(&arena);
    }
}

// ---- bytes of one layer on N devices

#define POSITIONS (4.0 * 16384)
static const uint32_t DEVICES[] = {1, 2, 4, 8, 16};

// MB of attention weights, KV and MLP; 0 where a device has more than its share of KV heads, of
// which the table counts fractions.
typedef struct layer_mb {
    double attention, kv, mlp;
} layer_mb;

typedef struct layer_table {
    const char *name;
    uint32_t dim, heads, kv_heads, ffn; // of 128 columns a head
    layer_mb mb[5];
} layer_table;

static const layer_table LAYERS[] = {
    {"llama3-8b",
     4096,
     32,
     8,
     14336,
     {{41.9, 134.2, 176.2},
      {21.0, 67.1, 88.1},
      {10.5, 33.6, 44.0},
      {5.2, 16.8, 22.0},
      {3.1, 16.8, 11.0}}},
    {"phi3-small",
     4096,
     32,
     8,
     14336,
     {{41.9, 134.2, 176.2},
      {21.0, 67.1, 88.1},
      {10.5, 33.6, 44.0},
      {5.2, 16.8, 22.0},
      {3.1, 16.8, 11.0}}},
    {"qwen2-7b",
     3584,
     28,
     4,
     18944,
     {{29.4, 67.1, 203.7},
      {14.7, 33.6, 101.8},
      {7.3, 16.8, 50.9},
      {4.1, 16.8, 25.5},
      {2.5, 16.8, 12.7}}},
    {"phi3-medium",
     5120,
     40,
     10,
     17920,
     {{65.5, 167.8, 275.3}, {32.8, 83.9, 137.6}, {0, 0, 68.8}, {0, 0, 34.4}, {0, 0, 17.2}}},
    {"llama3-70b",
     8192,
     64,
     8,
     28672,
     {{151.0, 134.2, 704.6},
      {75.5, 67.1, 352.3},
      {37.7, 33.6, 176.2},
      {18.9, 16.8, 88.1},
      {10.5, 16.8, 44.0}}},
    {"qwen2-72b",
     8192,
     64,
     8,
     29568,
     {{151.0, 134.2, 726.7},
      {75.5, 67.1, 363.3},
      {37.7, 33.6, 181.7},
      {18.9, 16.8, 90.8},
      {10.5, 16.8, 45.4}}},
};

// Means over the devices, where heads are dealt out as evenly as whole ones can be, and each device
// has the KV heads that its query heads read.
static layer_mb mean_of(const layer_table *is, uint32_t devices)
{
    layer_mb sum = {0, 0, 0};
    const uint32_t group = is->heads / is->kv_heads;
    for (uint32_t d = 0; d < devices; d++) {
        const uint32_t first = is->heads * d / devices;
        const uint32_t last = is->heads * (d + 1) / devices - 1;
        const double queries = last - first + 1;
        const double kv = last / group - first / group + 1;
        sum.attention += (2 * queries + 2 * kv) * 128 * is->dim;
        sum.kv += 2 * kv * 128 * POSITIONS;
        sum.mlp += 3.0 * is->dim * is->ffn / devices;
    }
    return (layer_mb){sum.attention / devices / 1e6, sum.kv / devices / 1e6,
                      sum.mlp / devices / 1e6};
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name);
    return length >= strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

// What the passes leave a device of one layer.
static void add_rank(const ps_model_config *config, uint32_t rank, uint32_t ranks, layer_mb *sum)
{
    static const char *const ATTENTION[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight",
                                            "attn_output.weight"};
    ps_arena arena;
    ps_graph graph;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_graph_init(&graph, &arena);
    const ps_pass_options options = {
        .ranks = ranks, .rank = rank, .k_dtype = PS_DTYPE_I8, .v_dtype = PS_DTYPE_I8};
    expect_ok(ps_model_build(config, NULL, &graph));
    expect_ok(ps_pass_kv_format(&graph, &options));
    expect_ok(ps_pass_shard(&graph, &options));
    expect_ok(ps_graph_verify(&graph, "shard"));
    for (uint32_t i = 0; i < graph.value_count; i++) {
        const ps_value *value = &graph.values[i];
        if (value->kind == PS_VALUE_KV) {
            sum->kv += POSITIONS * (double)ps_value_kv_bytes(value) / 1e6;
        }
        if (value->kind != PS_VALUE_WEIGHT || value->rows == 1) {
            continue;
        }
        const double mb = (double)ps_packed_bytes(value->dtype, value->rows, value->columns) / 1e6;
        for (size_t a = 0; a < 4; a++) {
            sum->attention += ends_with(value->name, ATTENTION[a]) ? mb : 0;
        }
        sum->mlp += strstr(value->name, "ffn_") != NULL ? mb : 0;
    }
    ps_arena_deinit(&arena);
}

// Within a percent, and what rounding to a tenth does.
static void expect_near(const char *what, uint32_t devices, double got, double right, double slack)
{
    if (fabs(got - right) > 0.01 * right + slack) {
        fail_msg("%s on %u devices: %.3f MB, %.3f would be right", what, devices, got, right);
    }
}

static void check_layer(const layer_table *is, const ps_model_config *config, uint32_t column)
{
    const uint32_t devices = DEVICES[column];
    const layer_mb *table = &is->mb[column];
    const layer_mb right = mean_of(is, devices);
    layer_mb got = {0, 0, 0};
    for (uint32_t rank = 0; rank < devices; rank++) {
        add_rank(config, rank, devices, &got);
    }
    got.attention /= devices;
    got.kv /= devices;
    got.mlp /= devices;
    expect_near(is->name, devices, got.attention, right.attention, 0);
    expect_near(is->name, devices, got.kv, right.kv, 0);
    expect_near(is->name, devices, got.mlp, right.mlp, 0);
    expect_near(is->name, devices, got.mlp, table->mlp, 0.05);
    if (table->kv > 0) {
        expect_near(is->name, devices, got.attention, table->attention, 0.05);
        expect_near(is->name, devices, got.kv, table->kv, 0.05);
    }
}

static void test_bytes_of_a_layer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++) {
        ps_arena arena;
        ps_model_source source;
        ps_arena_init(&arena, ARENA_BYTES);
        expect_ok(ps_model_source_open(LAYERS[i].name, 8, &arena, &source));
        ps_model_config one_layer = *source.config;
        one_layer.layers = 1;
        for (uint32_t column = 0; column < sizeof DEVICES / sizeof DEVICES[0]; column++) {
            check_layer(&LAYERS[i], &one_layer, column);
        }
        ps_model_source_close(&source);
        ps_arena_deinit(&arena);
    }
}

// ---- what is wrong

// A good configuration, in which `find` is replaced.
#define GOOD                                                                                       \
    "{'model_type': 'qwen3_moe', 'hidden_size': 64, 'num_hidden_layers': 4, "                      \
    "'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 32, 'intermediate_size': "    \
    "96, 'num_experts': 6, 'num_experts_per_tok': 2, 'moe_intermediate_size': 32, "                \
    "'decoder_sparse_step': 1, 'mlp_only_layers': [0], 'vocab_size': 272, "                        \
    "'max_position_embeddings': 1024, 'rms_norm_eps': 1e-5, 'rope_theta': 1e6, 'layer_types': "    \
    "null, 'torch_dtype': 'float16', 'transformers_version': 4, 'eos_token_id': [1, 2]}"

static const struct {
    ps_status status;
    const char *says, *find, *replace;
} FAULTS[] = {
    {PS_INVALID, "line 1: ", "{'model_type'", "'model_type'"},
    {PS_INVALID, "line 1: ", ", 'eos_token_id': [1, 2]}", ""},
    {PS_INVALID, "'model_type' is missing", "'model_type'", "'model_typ'"},
    {PS_UNSUPPORTED, "'' is not known; the nearest is", "'qwen3_moe'", "3"},
    {PS_UNSUPPORTED,
     "model_type 'qwen3_mo' is not known; the nearest is 'qwen3_moe' of llama, mistral, mixtral, "
     "phi3, phi3small, qwen2, qwen3, qwen3_moe, gemma3_text",
     "'qwen3_moe'", "'qwen3_mo'"},
    {PS_INVALID, "'hidden_size' is missing", "'hidden_size': 64", "'hidden_size': null"},
    {PS_INVALID, "hidden_size: a whole number from 1 to 16777216 would be right",
     "'hidden_size': 64", "'hidden_size': '64'"},
    {PS_INVALID, "hidden_size: a whole number", "'hidden_size': 64", "'hidden_size': 64.0"},
    {PS_INVALID, "hidden_size: a whole number", "'hidden_size': 64", "'hidden_size': -64"},
    {PS_INVALID, "hidden_size: a whole number", "'hidden_size': 64",
     "'hidden_size': 9223372036854775807"},
    {PS_INVALID, "'num_hidden_layers' is missing", "'num_hidden_layers': 4, ", ""},
    {PS_INVALID, "num_hidden_layers: a whole number from 1 to 1024", "'num_hidden_layers': 4",
     "'num_hidden_layers': 1025"},
    {PS_INVALID, "'num_attention_heads' is missing", "'num_attention_heads': 4, ", ""},
    {PS_INVALID, "num_key_value_heads: a divisor of the 4 num_attention_heads would be right",
     "'num_key_value_heads': 2", "'num_key_value_heads': 3"},
    {PS_INVALID, "num_key_value_heads: a divisor", "'num_key_value_heads': 2",
     "'num_key_value_heads': 8"},
    {PS_INVALID, "head_dim: a whole number from 8 to 512", "'head_dim': 32", "'head_dim': 1024"},
    {PS_INVALID, "head_dim, or hidden_size / num_attention_heads: a multiple of 8 up to 512",
     "'head_dim': 32", "'head_dim': 36"},
    {PS_INVALID, "head_dim, or hidden_size / num_attention_heads",
     "'hidden_size': 64, 'num_hidden_layers': 4, 'num_attention_heads': 4, "
     "'num_key_value_heads': 2, 'head_dim': 32",
     "'hidden_size': 66, 'num_hidden_layers': 4, 'num_attention_heads': 4"},
    {PS_INVALID, "num_attention_heads times head_dim: at most 16777216",
     "'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 32",
     "'num_attention_heads': 65536, 'num_key_value_heads': 2, 'head_dim': 512"},
    {PS_INVALID, "'vocab_size' is missing", "'vocab_size': 272, ", ""},
    {PS_INVALID, "'max_position_embeddings' is missing", "'max_position_embeddings': 1024, ", ""},
    {PS_INVALID, "'num_experts' is missing", "'num_experts': 6, ", ""},
    {PS_INVALID, "num_experts: a whole number from 0 to 4096", "'num_experts': 6",
     "'num_experts': 4097"},
    {PS_INVALID, "'num_experts_per_tok' is missing", "'num_experts_per_tok': 2, ", ""},
    {PS_INVALID, "num_experts_per_tok: a number from 1 to 6", "'num_experts_per_tok': 2",
     "'num_experts_per_tok': 7"},
    {PS_INVALID, "'moe_intermediate_size' is missing",
     "'intermediate_size': 96, 'num_experts': 6, 'num_experts_per_tok': 2, "
     "'moe_intermediate_size': 32, ",
     "'num_experts': 6, 'num_experts_per_tok': 2, "},
    {PS_INVALID, "'intermediate_size' is missing", "'intermediate_size': 96, ", ""},
    {PS_INVALID, "decoder_sparse_step: a whole number from 1", "'decoder_sparse_step': 1",
     "'decoder_sparse_step': 0"},
    {PS_INVALID, "mlp_only_layers: an array would be right", "[0]", "0"},
    {PS_INVALID, "mlp_only_layers: up to 4 numbers from 0 to 3", "[0]", "[4]"},
    {PS_INVALID, "mlp_only_layers: up to 4 numbers from 0 to 3", "[0]", "[0, 0, 0, 0, 0]"},
    {PS_INVALID, "mlp_only_layers: up to 4 numbers from 0 to 3", "[0]", "['0']"},
    {PS_INVALID, "layer_types: an array would be right", "'layer_types': null",
     "'layer_types': 'full_attention'"},
    {PS_INVALID, "layer_types: an array of 4 names would be right", "'layer_types': null",
     "'layer_types': ['full_attention']"},
    {PS_UNSUPPORTED, "layer_types: 'linear_attention' in layer 1; prestage has",
     "'layer_types': null",
     "'layer_types': ['full_attention', 'linear_attention', 'full_attention', 'full_attention']"},
    {PS_INVALID, "rms_norm_eps: a number from 1e-12 to 1", "'rms_norm_eps': 1e-5",
     "'rms_norm_eps': 0"},
    {PS_INVALID, "rope_theta: a number from 1 to 1e+15", "'rope_theta': 1e6", "'rope_theta': 0.5"},
    {PS_INVALID, "torch_dtype: bfloat16, float16 or float32 would be right", "'float16'",
     "'float8'"},
    {PS_INVALID, "torch_dtype: a text of at most 63 bytes", "'float16'", "16"},
};

// GOOD with `find` replaced; another text is overwritten.
static const char *replaced(const char *find, const char *replace)
{
    static char text[4096];
    const char *at = strstr(GOOD, find);
    if (at == NULL) {
        fail_msg("'%s' does not stand in the configuration", find);
        return NULL;
    }
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - GOOD), GOOD, replace,
                   at + strlen(find));
    return text;
}

static void test_faults_are_said(void **state)
{
    (void)state;
    const ps_model_config *config = NULL;
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    expect_ok(parse(GOOD, &arena, &config));
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        const ps_model_config *none = NULL;
        expect_failure(FAULTS[i].status, FAULTS[i].says,
                       parse(replaced(FAULTS[i].find, FAULTS[i].replace), &arena, &none));
        assert_null(none);
    }
    expect_failure(PS_INVALID, "a JSON object, as a config.json is, would be right",
                   parse("[1]", &arena, &config));
    expect_failure(PS_INVALID, "line ", parse("", &arena, &config));
    ps_arena_deinit(&arena);
}

// What each key does to the layers.
static void test_layers_may_differ(void **state)
{
    (void)state;
    const ps_model_config *config = NULL;
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    expect_ok(parse(GOOD, &arena, &config));
    assert_int_equal(PS_DTYPE_F16, config->weight_dtype);
    assert_true(!config->layer[0].is_moe && config->layer[0].ffn == 96);
    assert_true(config->layer[1].is_moe && config->layer[1].ffn == 0 && config->expert_ffn == 32);
    expect_ok(parse(
        replaced("'decoder_sparse_step': 1, 'mlp_only_layers': [0]", "'decoder_sparse_step': 2"),
        &arena, &config));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(i % 2 == 1, config->layer[i].is_moe);
    }
    expect_ok(parse(replaced("'layer_types': null",
                             "'sliding_window': 100, 'layer_types': ['full_attention', "
                             "'sliding_attention', 'sliding_attention', 'full_attention']"),
                    &arena, &config));
    assert_int_equal(2, config->kv_group_count);
    assert_int_equal(100, config->kv_groups[config->layer[2].kv_group].window);
    assert_int_equal(0, config->kv_groups[config->layer[3].kv_group].window);
    expect_ok(
        parse(replaced("'layer_types': null", "'sliding_window': 100, 'use_sliding_window': true, "
                                              "'max_window_layers': 3"),
              &arena, &config));
    assert_int_equal(0, config->layer[2].kv_group);
    assert_int_equal(100, config->kv_groups[config->layer[3].kv_group].window);
    expect_ok(parse("{'model_type': 'mistral', 'hidden_size': 64, 'num_hidden_layers': 1, "
                    "'num_attention_heads': 4, 'intermediate_size': 96, 'vocab_size': 272, "
                    "'max_position_embeddings': 1024, 'sliding_window': 512}",
                    &arena, &config));
    assert_int_equal(512, config->kv_groups[config->layer[0].kv_group].window);
    assert_int_equal(4, config->layer[0].kv_heads); // as many as query heads
    assert_int_equal(16, config->layer[0].head_dim);
    assert_int_equal(PS_DTYPE_BF16, config->weight_dtype);
    ps_arena_deinit(&arena);
}

// ---- names and paths

static void write_config(const char *text, char path[64])
{
    const ps_str json = json_of(text);
    (void)snprintf(path, 64, "/tmp/prestage-test-XXXXXX");
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(json.length, write(descriptor, json.data, json.length));
    (void)close(descriptor);
}

static void test_sources(void **state)
{
    (void)state;
    char path[64];
    ps_arena arena;
    ps_model_source source;
    ps_model_file file;
    ps_model *model = NULL;
    const char *golden = PS_SOURCE_DIR "/test/fixtures/golden/smollm-q8_0.gguf";
    ps_arena_init(&arena, ARENA_BYTES);
    write_config(" \n\t" GOOD, path);
    expect_ok(ps_model_source_open(path, 4, &arena, &source));
    assert_int_equal(PS_DTYPE_I4, source.config->weight_dtype);
    assert_true(source.file.gguf == NULL && source.config->layers == 4);
    ps_model_source_close(&source);
    expect_failure(PS_INVALID,
                   "is an architecture without weights; info, plan, simulate, explore and tune",
                   ps_model_source_open_file(path, &file));
    (void)unlink(path);
    write_config(replaced("'hidden_size': 64", "'hidden_size': 0"), path);
    expect_failure(PS_INVALID, path, ps_model_source_open(path, 0, &arena, &source));
    (void)unlink(path);
    expect_failure(PS_INVALID, "llama3-8b is an architecture without weights",
                   ps_model_open("llama3-8b", NULL, &model));
    expect_failure(PS_INVALID, "llama3-8b: weight bits 5: 4, 8 or 16 would be right",
                   ps_model_source_open("llama3-8b", 5, &arena, &source));
    expect_failure(PS_INVALID, "weights of 8 bits, but those of a file have types",
                   ps_model_source_open(golden, 8, &arena, &source));
    expect_failure(PS_NOT_FOUND,
                   "llama3-8: no such file, and no model that prestage ships; the nearest is "
                   "llama3-8b of flash-next, llama3-70b, llama3-8b, phi3-medium, phi3-small, "
                   "qwen2-72b, qwen2-7b, qwen3-235b-a22b, qwen3-32b",
                   ps_model_source_open("llama3-8", 0, &arena, &source));
    expect_failure(PS_NOT_FOUND, "./llama3-8b",
                   ps_model_source_open("./llama3-8b", 0, &arena, &source));
    expect_failure(PS_NOT_FOUND, "llama3-8b.gguf: cannot open",
                   ps_model_source_open("llama3-8b.gguf", 0, &arena, &source));
    ps_arena_deinit(&arena);
}

static void test_public_plans(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    ps_plan_options options = {.ranks = 4, .threads = 1, .weight_bits = 8, .kv_bits = 4};
    expect_ok(ps_plan_file("qwen2-7b", &options, PS_PLAN_TEXT, &text, &length));
    assert_non_null(strstr(text, "%blk.27.attn_q.weight = weight I8 [896, 3584]\n"));
    assert_non_null(strstr(text, "%blk.27.kv = kv I4 [128] {group=0 head_dim=128}\n"));
    ps_free(text);
    options.ranks = 8;
    options.context_shards = 2;
    expect_ok(ps_plan_file("qwen2-7b", &options, PS_PLAN_TEXT, &text, &length));
    assert_non_null(strstr(text, "%blk.27.attn_q.weight = weight I8 [896, 3584]\n"));
    assert_non_null(strstr(text, "ranks=2 context_shards=2"));
    ps_free(text);
    expect_failure(PS_INVALID, "qwen2-7b: a plan file is for sessions, and those need weights",
                   ps_plan_file("qwen2-7b", &options, PS_PLAN_SESSION, &text, &length));
    expect_failure(PS_INVALID, "context shards in a plan file, which is for sessions",
                   ps_plan_file(PS_SOURCE_DIR "/test/fixtures/golden/smollm-q8_0.gguf",
                                &(ps_plan_options){.ranks = 2, .context_shards = 2, .threads = 1},
                                PS_PLAN_SESSION, &text, &length));
    expect_failure(
        PS_INVALID, "a graph has its formats and its cut",
        ps_plan_graph(PS_SOURCE_DIR "/test/passes/prefetch.graph", &options, &text, &length));
    options.kv_bits = 2;
    expect_failure(PS_INVALID, "qwen2-7b: kv bits 2: 4, 8 or 16 would be right",
                   ps_plan_file("qwen2-7b", &options, PS_PLAN_TEXT, &text, &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configurations_are_their_files),
        cmocka_unit_test(test_shipped_architectures),
        cmocka_unit_test(test_bytes_of_a_layer),
        cmocka_unit_test(test_faults_are_said),
        cmocka_unit_test(test_layers_may_differ),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_public_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
