// Goal: what an architecture means is in its graph: every operator, its operands' shapes, its
// attributes. Method: graphs of made files and of the golden fixtures against hand-written
// expectations.
#include "model/model_maker.h"

#include <math.h>

#define ARENA_BYTES ((size_t)8 << 20)

typedef struct built {
    ps_gguf *file;
    ps_arena arena;
    const ps_model_config *config;
    ps_graph graph;
} built;

static made_model model;

static int free_model(void **state)
{
    (void)state;
    free(model.bytes);
    model.bytes = NULL;
    return 0;
}

static void build(built *b, ps_gguf *file)
{
    *b = (built){.file = file};
    ps_arena_init(&b->arena, ARENA_BYTES);
    ps_graph_init(&b->graph, &b->arena);
    if (ps_model_read(file, &b->arena, &b->config) != PS_OK ||
        ps_model_build(b->config, file, &b->graph) != PS_OK ||
        ps_graph_verify(&b->graph, "build") != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
}

static void unbuild(built *b)
{
    ps_arena_deinit(&b->arena);
    ps_gguf_close(b->file);
}

static void build_golden(built *b, const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR, name);
    ps_gguf *file = NULL;
    if (ps_gguf_open(path, &file) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    build(b, file);
}

static uint32_t count_ops(const ps_graph *graph, ps_op op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        count += graph->nodes[i].op == op;
    }
    return count;
}

// The node that writes the value of that name.
static const ps_node *writer_of(const ps_graph *graph, const char *name)
{
    const ps_value_id id = ps_graph_find(graph, ps_str_of(name));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (id != PS_NO_VALUE && graph->nodes[i].output == id) {
            return &graph->nodes[i];
        }
    }
    fail_msg("nothing writes '%s'", name);
    return NULL;
}

static const char *name_of(const ps_graph *graph, const ps_node *node, uint32_t input)
{
    assert_true(input < node->input_count);
    return graph->values[node->inputs[input]].name;
}

// Names of the operators of layer `layer` (1-based; 0: the frame), in order, with spaces between.
static void assert_layer(const ps_graph *graph, uint32_t layer, const char *expected)
{
    char text[1024] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].attributes.layer == layer) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "",
                                     ps_op_get(graph->nodes[i].op)->name);
        }
    }
    assert_string_equal(expected, text);
}

#define FRAME "embed rope_table select_logits rms_norm linear"
#define PLAIN_FFN "rms_norm linear linear act_mul linear add"
#define EXPERT_FFN                                                                                 \
    "rms_norm linear route expert_linear expert_linear act_mul expert_linear expert_sum add"
#define ATTENTION_TAIL "rope rope kv_write attention linear add "

static void test_each_architecture_has_its_operators(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        const char *frame;
        const char *layer;
        uint32_t layers;
    } CASES[] = {
        {"llama-f16", FRAME, "rms_norm linear linear linear " ATTENTION_TAIL PLAIN_FFN, 2},
        {"smollm-q8_0", FRAME, "rms_norm linear linear linear " ATTENTION_TAIL PLAIN_FFN, 2},
        {"kmix-k", FRAME, "rms_norm linear linear linear " ATTENTION_TAIL PLAIN_FFN, 1},
        {"mixtral-f16", FRAME, "rms_norm linear linear linear " ATTENTION_TAIL EXPERT_FFN, 2},
        {"qwen2-f32", FRAME,
         "rms_norm linear add_bias linear add_bias linear add_bias " ATTENTION_TAIL PLAIN_FFN, 2},
        {"qwen3-f16", FRAME,
         "rms_norm linear rms_norm linear rms_norm linear " ATTENTION_TAIL PLAIN_FFN, 2},
        {"qwen3moe-bf16", FRAME,
         "rms_norm linear rms_norm linear rms_norm linear " ATTENTION_TAIL EXPERT_FFN, 2},
        {"qwen3moe-wide-q4_k", FRAME,
         "rms_norm linear rms_norm linear rms_norm linear " ATTENTION_TAIL EXPERT_FFN, 1},
        {"gemma3-bf16", "embed rope_table rope_table select_logits rms_norm linear",
         "rms_norm linear rms_norm linear rms_norm linear rope rope kv_write attention linear "
         "rms_norm add rms_norm linear linear act_mul linear rms_norm add",
         6},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        built b;
        build_golden(&b, CASES[i].file);
        assert_int_equal(CASES[i].layers, b.config->layers);
        assert_layer(&b.graph, 0, CASES[i].frame);
        for (uint32_t layer = 1; layer <= CASES[i].layers; layer++) {
            assert_layer(&b.graph, layer, CASES[i].layer);
        }
        unbuild(&b);
    }
}

// Every fixture, every node: what sharding, fusing and reports rely on.
static void test_linears_carry_site_layer_and_unit(void **state)
{
    (void)state;
    static const char *const FILES[] = {
        "llama-f16",     "llama-q8_0",         "smollm-q8_0",  "smollm-q4_1",
        "kmix-k",        "mixtral-f16",        "mixtral-q8_0", "qwen2-f32",
        "qwen2-q8_0",    "qwen3-f16",          "qwen3-q8_0",   "qwen3moe-bf16",
        "qwen3moe-q8_0", "qwen3moe-wide-q4_k", "gemma3-bf16",  "gemma3-q8_0",
    };
    static const struct {
        const char *part; // of the weight's name
        ps_site site;
    } SITES[] = {
        {"attn_q.", PS_SITE_ATTN_QKV},           {"attn_k.", PS_SITE_ATTN_QKV},
        {"attn_v.", PS_SITE_ATTN_QKV},           {"attn_output.", PS_SITE_ATTN_O},
        {"ffn_gate.", PS_SITE_MLP_GATE_UP},      {"ffn_up.", PS_SITE_MLP_GATE_UP},
        {"ffn_down.", PS_SITE_MLP_DOWN},         {"ffn_gate_inp.", PS_SITE_MOE_ROUTER},
        {"ffn_gate_exps.", PS_SITE_MOE_GATE_UP}, {"ffn_up_exps.", PS_SITE_MOE_GATE_UP},
        {"ffn_down_exps.", PS_SITE_MOE_DOWN},    {"output.weight", PS_SITE_LM_HEAD},
        {"token_embd.weight", PS_SITE_LM_HEAD},
    };
    for (size_t f = 0; f < sizeof FILES / sizeof FILES[0]; f++) {
        built b;
        build_golden(&b, FILES[f]);
        for (uint32_t i = 0; i < b.graph.node_count; i++) {
            const ps_node *node = &b.graph.nodes[i];
            if (node->op != PS_OP_LINEAR && node->op != PS_OP_EXPERT_LINEAR) {
                continue;
            }
            const char *weight = name_of(&b.graph, node, node->op == PS_OP_LINEAR ? 1 : 2);
            ps_site site = PS_SITE_NONE;
            for (size_t s = 0; s < sizeof SITES / sizeof SITES[0] && site == PS_SITE_NONE; s++) {
                site = strstr(weight, SITES[s].part) != NULL ? SITES[s].site : PS_SITE_NONE;
            }
            uint32_t layer = 0;
            layer = sscanf(weight, "blk.%u.", &layer) == 1 ? layer + 1 : 0;
            assert_int_not_equal(PS_SITE_NONE, site);
            assert_int_equal(site, node->attributes.site);
            assert_int_equal(layer, node->attributes.layer);
            assert_int_equal(site == PS_SITE_ATTN_QKV ? b.config->layer[0].head_dim : 0,
                             node->attributes.unit);
        }
        uint32_t unused = 99;
        assert_int_equal(PS_OK, ps_model_unused_tensors(&b.graph, b.file, NULL, 0, &unused));
        assert_int_equal(0, unused);
        unbuild(&b);
    }
}

static void test_logits_are_the_one_output(void **state)
{
    (void)state;
    built b;
    build_golden(&b, "llama-f16");
    const ps_value_id id = ps_graph_find(&b.graph, ps_str_of("logits"));
    assert_int_not_equal(PS_NO_VALUE, id);
    for (uint32_t i = 0; i < b.graph.value_count; i++) {
        assert_int_equal(i == id, b.graph.values[i].is_output);
    }
    assert_int_equal(272, b.graph.values[id].columns);
    assert_int_equal(272, b.graph.vocabulary);
    assert_int_equal(PS_ROWS_LOGITS, b.graph.values[id].row_kind);
    assert_string_equal("output.weight", name_of(&b.graph, writer_of(&b.graph, "logits"), 1));
    unbuild(&b);

    // Tied: the table once more, and not twice among the values.
    build_golden(&b, "smollm-q8_0");
    const ps_node *head = writer_of(&b.graph, "logits");
    assert_int_equal(writer_of(&b.graph, "token_embd")->inputs[0], head->inputs[1]);
    unbuild(&b);
}

static void test_llama_turns_neighbours_and_divides_frequencies(void **state)
{
    (void)state;
    built b;
    build_golden(&b, "llama-f16");
    const ps_node *table = writer_of(&b.graph, "rope_table.0");
    assert_string_equal("rope_freqs.weight", name_of(&b.graph, table, 0));
    assert_true(table->attributes.freq_base == 10000.0f);
    assert_int_equal(24, table->attributes.rotary_dim);
    const ps_node *rope = writer_of(&b.graph, "blk.1.attn_q.rope");
    assert_int_equal(PS_ROPE_NORM, rope->attributes.rope_style);
    assert_int_equal(24, rope->attributes.head_dim);
    assert_int_equal(table->output, rope->inputs[1]);
    const ps_node *attention = writer_of(&b.graph, "blk.1.attn");
    assert_int_equal(4, attention->attributes.heads);
    assert_int_equal(2, attention->attributes.kv_heads);
    assert_true(fabsf(attention->attributes.scale - 1.0f / sqrtf(24.0f)) < 1e-6f);
    const ps_value *kv = &b.graph.values[attention->inputs[1]];
    assert_string_equal("blk.1.kv", kv->name);
    assert_int_equal(48, kv->columns);
    assert_int_equal(24, kv->head_dim);
    assert_int_equal(1, b.graph.kv_group_count);
    assert_int_equal(0, b.graph.kv_groups[0].window);
    assert_int_equal(PS_ACTIVATION_SILU,
                     writer_of(&b.graph, "blk.0.ffn_act")->attributes.activation);
    unbuild(&b);
}

static void test_qwen_turns_halves(void **state)
{
    (void)state;
    static const char *const FILES[] = {"qwen2-f32", "qwen3-f16", "qwen3moe-bf16", "gemma3-bf16"};
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        built b;
        build_golden(&b, FILES[i]);
        const ps_node *rope = writer_of(&b.graph, "blk.0.attn_k.rope");
        assert_int_equal(PS_ROPE_NEOX, rope->attributes.rope_style);
        unbuild(&b);
    }
}

static void test_norms_of_heads_come_before_rope(void **state)
{
    (void)state;
    built b;
    build_golden(&b, "qwen3-f16");
    const ps_node *norm = writer_of(&b.graph, "blk.0.attn_q_norm");
    assert_int_equal(32, b.graph.values[norm->inputs[1]].columns);
    assert_int_equal(128, b.graph.values[norm->output].columns);
    assert_int_equal(norm->output, writer_of(&b.graph, "blk.0.attn_q.rope")->inputs[0]);
    unbuild(&b);
}

static void test_experts_are_routed(void **state)
{
    (void)state;
    built b;
    build_golden(&b, "qwen3moe-bf16");
    const ps_node *route = writer_of(&b.graph, "blk.0.route");
    assert_int_equal(6, route->attributes.experts);
    assert_int_equal(2, route->attributes.top_k);
    assert_int_equal(1, route->attributes.normalise);
    assert_int_equal(PS_GATING_SOFTMAX, route->attributes.gating);
    assert_true(route->attributes.scale == 0.0f);
    const ps_node *down = writer_of(&b.graph, "blk.0.ffn_down_exps");
    assert_int_equal(route->output, down->inputs[1]);
    assert_int_equal(2, b.graph.values[down->output].row_multiplier);
    const ps_value *weight = &b.graph.values[down->inputs[2]];
    assert_int_equal(6, weight->experts);
    assert_int_equal(64, weight->rows);
    assert_int_equal(32, weight->columns);
    assert_int_equal(1,
                     b.graph.values[writer_of(&b.graph, "blk.0.ffn_out")->output].row_multiplier);
    unbuild(&b);
}

static void test_gemma_has_windows_with_a_rope_of_their_own(void **state)
{
    (void)state;
    built b;
    build_golden(&b, "gemma3-bf16");
    assert_int_equal(2, b.graph.kv_group_count);
    assert_int_equal(0, b.graph.kv_groups[0].window);
    assert_int_equal(12, b.graph.kv_groups[1].window);
    for (uint32_t i = 0; i < 6; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "blk.%u.attn", i);
        const ps_value *kv = &b.graph.values[writer_of(&b.graph, name)->inputs[1]];
        (void)snprintf(name, sizeof name, "blk.%u.attn_q.rope", i);
        const ps_node *rope = writer_of(&b.graph, name);
        const ps_node *table = writer_of(&b.graph, name_of(&b.graph, rope, 1));
        assert_int_equal(i == 5 ? 0 : 1, kv->kv_group);
        assert_true(table->attributes.freq_base == (i == 5 ? 1e6f : 1e4f));
        assert_true(table->attributes.freq_scale == (i == 5 ? 0.125f : 1.0f));
    }
    assert_true(writer_of(&b.graph, "token_embd")->attributes.scale == 8.0f);
    assert_int_equal(PS_ACTIVATION_GELU,
                     writer_of(&b.graph, "blk.0.ffn_act")->attributes.activation);
    unbuild(&b);
}

static void test_heads_and_ffn_may_differ_by_layer(void **state)
{
    (void)state;
    made_llama(&model);
    made_set(&model, (made_key){.name = "llama.attention.head_count_kv",
                                .kind = MADE_ARRAY,
                                .number = 2,
                                .array = {2, 1}});
    made_set(&model, (made_key){.name = "llama.feed_forward_length",
                                .kind = MADE_ARRAY,
                                .number = 2,
                                .array = {96, 32}});
    made_set_layer_tensor(&model, 1, "attn_k.weight", MADE_Q8_0, 64, 16, 0);
    made_set_layer_tensor(&model, 1, "attn_v.weight", MADE_Q8_0, 64, 16, 0);
    made_set_layer_tensor(&model, 1, "ffn_gate.weight", MADE_Q8_0, 64, 32, 0);
    made_set_layer_tensor(&model, 1, "ffn_up.weight", MADE_Q8_0, 64, 32, 0);
    made_set_layer_tensor(&model, 1, "ffn_down.weight", MADE_Q8_0, 32, 64, 0);
    built b;
    build(&b, made_open(&model));
    assert_int_equal(2, writer_of(&b.graph, "blk.0.attn")->attributes.kv_heads);
    assert_int_equal(1, writer_of(&b.graph, "blk.1.attn")->attributes.kv_heads);
    assert_int_equal(32, b.config->layer[1].ffn);
    unbuild(&b);
}

static void test_mistral_windows_are_kept_unless_they_see_all(void **state)
{
    (void)state;
    static const struct {
        uint32_t window;
        uint32_t groups;
    } CASES[] = {{0, 1}, {100, 2}, {127, 2}, {128, 1}, {4096, 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        made_llama(&model);
        made_set_u32(&model, "llama.attention.sliding_window", CASES[i].window);
        built b;
        build(&b, made_open(&model));
        assert_int_equal(CASES[i].groups, b.graph.kv_group_count);
        if (CASES[i].groups == 2) {
            assert_int_equal(CASES[i].window, b.graph.kv_groups[1].window);
            assert_int_equal(1, b.config->layer[0].kv_group);
            assert_int_equal(1, b.config->layer[1].kv_group);
        }
        unbuild(&b);
    }
}

static void test_optional_keys_reach_the_graph(void **state)
{
    (void)state;
    made_llama(&model);
    made_set_string(&model, "llama.rope.scaling.type", "linear");
    made_set_f32(&model, "llama.rope.scaling.factor", 4.0f);
    made_set_f32(&model, "llama.attention.scale", 0.5f);
    made_set_f32(&model, "llama.attn_logit_softcapping", 50.0f);
    made_set_f32(&model, "llama.final_logit_softcapping", 30.0f);
    made_set_u32(&model, "llama.rope.dimension_count", 8);
    made_set_layer_tensor(&model, 1, "attn_output.bias", MADE_F32, 64, 0, 0);
    built b;
    build(&b, made_open(&model));
    assert_true(writer_of(&b.graph, "rope_table.0")->attributes.freq_scale == 0.25f);
    assert_int_equal(8, writer_of(&b.graph, "blk.0.attn_q.rope")->attributes.rotary_dim);
    assert_true(writer_of(&b.graph, "blk.0.attn")->attributes.scale == 0.5f);
    assert_true(writer_of(&b.graph, "blk.0.attn")->attributes.softcap == 50.0f);
    const ps_node *capped = writer_of(&b.graph, "logits");
    assert_int_equal(PS_OP_SOFTCAP, capped->op);
    assert_true(capped->attributes.softcap == 30.0f);
    assert_string_equal("output", name_of(&b.graph, capped, 0));
    assert_int_equal(1, count_ops(&b.graph, PS_OP_ADD_BIAS));
    unbuild(&b);
}

static void test_the_configuration_outlives_the_file(void **state)
{
    (void)state;
    made_llama(&model);
    ps_gguf *file = made_open(&model);
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_model_config *config = NULL;
    assert_int_equal(PS_OK, ps_model_read(file, &arena, &config));
    ps_gguf_close(file);
    memset(model.bytes, 0xff, model.used);
    assert_string_equal("made", config->name);
    assert_string_equal("llama", config->architecture);
    assert_int_equal(MADE_VOCABULARY, config->vocabulary);
    assert_int_equal(128, config->context_tokens);
    assert_int_equal(MADE_FFN, config->layer[1].ffn);
    ps_arena_deinit(&arena);
}

static void test_tensors_that_nothing_reads_are_counted(void **state)
{
    (void)state;
    made_llama(&model);
    made_set_layer_tensor(&model, 0, "attn_sinks.weight", MADE_F32, 4, 0, 0);
    made_set_layer_tensor(&model, 2, "ffn_up.weight", MADE_F32, 4, 4, 0);
    made_set_tensor(&model, "v.patch.weight", MADE_F32, 4, 0, 0);
    built b;
    build(&b, made_open(&model));
    const char *names[2] = {NULL, NULL};
    uint32_t count = 0;
    assert_int_equal(PS_OK, ps_model_unused_tensors(&b.graph, b.file, names, 2, &count));
    assert_int_equal(3, count);
    assert_string_equal("blk.0.attn_sinks.weight", names[0]);
    assert_string_equal("blk.2.ffn_up.weight", names[1]);
    unbuild(&b);
}

// Types are left out of the comparison: files mix them.
static void print_alike(ps_graph *graph, ps_buffer *out)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        ps_value *value = &graph->values[i];
        if (value->kind == PS_VALUE_WEIGHT && value->rows > 1) {
            value->dtype = PS_DTYPE_Q8_0;
        }
    }
    assert_int_equal(PS_OK, ps_graph_print(graph, out));
}

// The graph of the same configuration without the file has no type but the one that it says.
static void compare_without_file(built *b, bool ties_embedding)
{
    ps_arena arena;
    ps_graph planned;
    ps_buffer with = {0};
    ps_buffer without = {0};
    ps_arena_init(&arena, ARENA_BYTES);
    ps_graph_init(&planned, &arena);
    ps_model_config config = *b->config;
    config.weight_dtype = PS_DTYPE_I4;
    config.ties_embedding = ties_embedding;
    if (ps_model_build(&config, NULL, &planned) != PS_OK ||
        ps_graph_verify(&planned, "build") != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    for (uint32_t i = 0; i < planned.value_count; i++) {
        const ps_value *value = &planned.values[i];
        if (value->kind == PS_VALUE_WEIGHT) {
            assert_int_equal(value->rows == 1 ? PS_DTYPE_F32 : PS_DTYPE_I4, value->dtype);
        }
    }
    print_alike(&planned, &without);
    print_alike(&b->graph, &with);
    assert_string_equal(with.data, without.data);
    ps_buffer_deinit(&with);
    ps_buffer_deinit(&without);
    ps_arena_deinit(&arena);
}

static void test_no_file_gives_the_same_graph(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool ties_embedding;
    } FILES[] = {{"mixtral-q8_0", false}, {"qwen2-q8_0", true},    {"qwen3-q8_0", true},
                 {"qwen3moe-q8_0", true}, {"qwen3moe-bf16", true}, {"gemma3-q8_0", true},
                 {"smollm-q4_1", true}};
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        built b;
        build_golden(&b, FILES[i].name);
        compare_without_file(&b, FILES[i].ties_embedding);
        unbuild(&b);
    }
}

// What a file may add is not there without one; what the architecture asks for is.
static void test_no_file_has_no_optional_tensors(void **state)
{
    (void)state;
    made_llama(&model);
    made_set_tensor(&model, "rope_freqs.weight", MADE_F32, 8, 0, 0);
    made_set_layer_tensor(&model, 0, "attn_output.bias", MADE_F32, MADE_DIM, 0, 0);
    built b;
    build(&b, made_open(&model));
    assert_int_equal(1, count_ops(&b.graph, PS_OP_ADD_BIAS));
    ps_graph_init(&b.graph, &b.arena);
    assert_int_equal(PS_OK, ps_model_build(b.config, NULL, &b.graph));
    assert_int_equal(0, count_ops(&b.graph, PS_OP_ADD_BIAS));
    assert_int_equal(PS_NO_VALUE, ps_graph_find(&b.graph, ps_str_of("rope_freqs.weight")));
    ps_model_config qwen2 = *b.config;
    qwen2.architecture = "qwen2";
    ps_graph_init(&b.graph, &b.arena);
    assert_int_equal(PS_OK, ps_model_build(&qwen2, NULL, &b.graph));
    assert_int_equal(3 * MADE_LAYERS, count_ops(&b.graph, PS_OP_ADD_BIAS));
    unbuild(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_file_gives_the_same_graph),
        cmocka_unit_test(test_no_file_has_no_optional_tensors),
        cmocka_unit_test(test_each_architecture_has_its_operators),
        cmocka_unit_test(test_linears_carry_site_layer_and_unit),
        cmocka_unit_test(test_logits_are_the_one_output),
        cmocka_unit_test(test_llama_turns_neighbours_and_divides_frequencies),
        cmocka_unit_test(test_qwen_turns_halves),
        cmocka_unit_test(test_norms_of_heads_come_before_rope),
        cmocka_unit_test(test_experts_are_routed),
        cmocka_unit_test(test_gemma_has_windows_with_a_rope_of_their_own),
        cmocka_unit_test(test_heads_and_ffn_may_differ_by_layer),
        cmocka_unit_test(test_mistral_windows_are_kept_unless_they_see_all),
        cmocka_unit_test(test_optional_keys_reach_the_graph),
        cmocka_unit_test(test_the_configuration_outlives_the_file),
        cmocka_unit_test(test_tensors_that_nothing_reads_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, free_model);
}
