// ctest-labels: file;prop
// ctest-links: ps_ir
// Goal: the parts of all ranks are the whole model, each once, whatever the heads, the number of
// ranks and the blocks of the weights are; and every query head finds its KV head.
// Method: one layer as text, of many shapes, through the pass for every rank; the slices are laid
// side by side, and the rule of attention (which local KV head a local query head reads) is held
// against the whole model's. Counts that the model cannot be shared by are refused with the one
// that it can.
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"

typedef struct model {
    uint32_t heads, kv_heads, head_dim, ffn, vocabulary;
    const char *o_format, *down_format;
    uint32_t head_unit, ffn_unit; // heads and columns that stay together, by the blocks of these
    bool is_tied, has_bias, has_norms, is_capped;
} model;

static const model MODELS[] = {
    {9, 3, 64, 512, 1000, "F16", "F16", 1, 32, true, false, false, false},
    {9, 3, 32, 480, 1000, "Q4_1", "Q8_0", 1, 32, true, true, false, true},
    {14, 2, 64, 4864, 1600, "Q8_0", "Q4_0", 1, 32, true, true, false, false},
    {28, 4, 64, 4864, 1600, "Q4_K", "Q6_K", 4, 256, false, true, true, false},
    {32, 4, 128, 2048, 3000, "Q6_K", "Q4_K", 2, 256, false, false, true, false},
    {32, 4, 64, 5632, 3000, "Q5_0", "Q8_0", 1, 32, false, false, false, true},
    {4, 1, 256, 2048, 300, "Q4_K", "Q5_K", 1, 256, true, false, true, true},
    {8, 8, 40, 256, 150, "BF16", "F32", 1, 32, false, false, true, false},
    {6, 3, 24, 100, 129, "F32", "F32", 1, 32, true, true, true, true},
    {16, 4, 16, 96, 500, "Q8_0", "Q4_1", 2, 32, false, true, false, false},
    {5, 1, 8, 64, 64, "F32", "F16", 1, 32, true, false, false, false},
    {12, 4, 48, 768, 700, "Q8_0", "Q6_K", 2, 256, false, false, false, false},
};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

#define TEXT_BYTES 8192

static void add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char *text, const char *format, ...)
{
    va_list arguments;
    const size_t length = strlen(text);
    va_start(arguments, format);
    (void)vsnprintf(text + length, TEXT_BYTES - length, format, arguments);
    va_end(arguments);
    assert_true(strlen(text) + 1 < TEXT_BYTES);
}

static void write_values(const model *m, char *text)
{
    const uint32_t q = m->heads * m->head_dim;
    const uint32_t kv = m->kv_heads * m->head_dim;
    add(text, "vocabulary %u\nkv_group window=0\n%%embd = weight F16 [%u, 256]\n", m->vocabulary,
        m->vocabulary);
    add(text, "%%out = weight F16 [%u, 256]\n%%norm = weight F32 [1, 256]\n", m->vocabulary);
    add(text, "%%q.w = weight F16 [%u, 256]\n%%k.w = weight F16 [%u, 256]\n", q, kv);
    add(text, "%%v.w = weight F16 [%u, 256]\n%%o.w = weight %s [256, %u]\n", kv, m->o_format, q);
    add(text, "%%q.b = weight F32 [1, %u]\n%%o.b = weight F32 [1, 256]\n", q);
    add(text, "%%q.n = weight F32 [1, %u]\n%%kv = kv F16 [%u] {group=0 head_dim=%u}\n", m->head_dim,
        kv, m->head_dim);
    add(text, "%%gate.w = weight F16 [%u, 256]\n%%up.w = weight F16 [%u, 256]\n", m->ffn, m->ffn);
    add(text, "%%down.w = weight %s [256, %u]\n", m->down_format, m->ffn);
    for (const char *const *name = (const char *const[]){"x", "n", "o", "ob", "r", "d", "y", NULL};
         *name != NULL; name++) {
        add(text, "%%%s = activation F32 [T, 256]\n", *name);
    }
    for (const char *const *name = (const char *const[]){"q", "qb", "qn", "qr", "a", NULL};
         *name != NULL; name++) {
        add(text, "%%%s = activation F32 [T, %u]\n", *name, q);
    }
    add(text, "%%k = activation F32 [T, %u]\n%%v = activation F32 [T, %u]\n", kv, kv);
    add(text, "%%table = activation F32 [T, 8]\n%%g = activation F32 [T, %u]\n", m->ffn);
    add(text, "%%u = activation F32 [T, %u]\n%%h = activation F32 [T, %u]\n", m->ffn, m->ffn);
    add(text, "%%last = activation F32 [L, 256]\n");
    add(text, "%%raw = activation F32 [L, %u]%s\n", m->vocabulary, m->is_capped ? "" : " output");
    add(text, m->is_capped ? "%%logits = activation F32 [L, %u] output\n" : "#%u\n", m->vocabulary);
}

static void write_nodes(const model *m, char *text)
{
    const char *q = "q";
    add(text, "%%x = embed %%embd\n%%table = rope_table {rotary_dim=8 freq_base=1000}\n"
              "%%n = rms_norm %%x, %%norm {layer=1 eps=1}\n");
    add(text, "%%q = linear %%n, %%q.w {layer=1 site=attn.qkv}\n");
    add(text, "%%k = linear %%n, %%k.w {layer=1 site=attn.qkv}\n");
    add(text, "%%v = linear %%n, %%v.w {layer=1 site=attn.qkv}\n");
    if (m->has_bias) {
        add(text, "%%qb = add_bias %%q, %%q.b {layer=1}\n");
        q = "qb";
    }
    if (m->has_norms) {
        add(text, "%%qn = rms_norm %%%s, %%q.n {layer=1 eps=1}\n", q);
        q = "qn";
    }
    add(text, "%%qr = rope %%%s, %%table {layer=1 head_dim=%u}\n", q, m->head_dim);
    add(text, "kv_write %%k, %%v, %%kv {layer=1 site=kv}\n");
    add(text,
        "%%a = attention %%qr, %%kv {layer=1 site=kv heads=%u kv_heads=%u head_dim=%u scale=1}\n",
        m->heads, m->kv_heads, m->head_dim);
    add(text, "%%o = linear %%a, %%o.w {layer=1 site=attn.o}\n");
    if (m->has_bias) {
        add(text, "%%ob = add_bias %%o, %%o.b {layer=1}\n");
    }
    add(text, "%%r = add %%x, %%%s {layer=1}\n", m->has_bias ? "ob" : "o");
    add(text,
        "%%g = linear %%r, %%gate.w {layer=1 site=mlp.gate_up}\n"
        "%%u = linear %%r, %%up.w {layer=1 site=mlp.gate_up}\n"
        "%%h = act_mul %%g, %%u {layer=1}\n%%d = linear %%h, %%down.w {layer=1 site=mlp.down}\n"
        "%%y = add %%r, %%d {layer=1}\n%%last = select_logits %%y\n");
    add(text, "%%raw = linear %%last, %%%s {site=lm_head}\n", m->is_tied ? "embd" : "out");
    if (m->is_capped) {
        add(text, "%%logits = softcap %%raw {softcap=30}\n");
    }
}

// ---- what a rank has

static const ps_value *value_of(const ps_graph *graph, const char *name)
{
    const ps_value_id id = ps_graph_find(graph, ps_str_of(name));
    if (id == PS_NO_VALUE) {
        fail_msg("no value '%s'", name);
    }
    return &graph->values[id];
}

static const ps_node *node_of(const ps_graph *graph, ps_op op, const char *output)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const ps_node *node = &graph->nodes[i];
        if (node->op == op && node->output != PS_NO_VALUE &&
            strcmp(graph->values[node->output].name, output) == 0) {
            return node;
        }
    }
    fail_msg("no %s to '%s'", ps_op_get(op)->name, output);
    return NULL;
}

// A range of rows or columns that ranks share in order: where the next rank's has to begin.
typedef struct tiling {
    uint32_t next, least, most; // units of the smallest and the largest part
} tiling;

// [first, first + count) of `whole` follows what came before, in whole units but for the end.
static void lay(tiling *t, uint32_t first, uint32_t count, uint32_t unit, uint32_t whole)
{
    const uint32_t end = first + count;
    assert_int_equal(t->next, first);
    assert_true(count > 0 && end <= whole);
    assert_true(first % unit == 0 && (end % unit == 0 || end == whole));
    const uint32_t units = (count + unit - 1) / unit;
    t->least = first == 0 || units < t->least ? units : t->least;
    t->most = units > t->most ? units : t->most;
    t->next = end;
}

static void expect_even(const tiling *t, uint32_t whole)
{
    assert_int_equal(whole, t->next);
    assert_true(t->most - t->least <= 1);
}

typedef struct tilings {
    tiling heads, ffn, vocabulary;
} tilings;

static void check_attention(const model *m, const ps_graph *graph, tiling *heads)
{
    const uint32_t group = m->heads / m->kv_heads;
    const ps_value *q = value_of(graph, "q.w");
    const ps_value *k = value_of(graph, "k.w");
    const ps_value *v = value_of(graph, "v.w");
    const ps_value *o = value_of(graph, "o.w");
    const ps_op_attributes *a = &node_of(graph, PS_OP_ATTENTION, "a")->attributes;
    assert_true(q->rows % m->head_dim == 0 && q->row_first % m->head_dim == 0);
    const uint32_t first = q->row_first / m->head_dim;
    const uint32_t count = q->rows / m->head_dim;
    lay(heads, first, count, m->head_unit, m->heads);
    assert_int_equal(count, a->heads);
    assert_true(o->columns == q->rows && o->column_first == q->row_first && o->rows == 256);
    assert_true(k->rows == v->rows && k->row_first == v->row_first);
    assert_int_equal(k->rows, value_of(graph, "kv")->columns);
    assert_int_equal(k->rows, a->kv_heads * m->head_dim);
    const uint32_t kv_first = k->row_first / m->head_dim;
    for (uint32_t h = 0; h < count; h++) {
        const uint32_t local = a->group == 0 ? h / (a->heads / a->kv_heads)
                                             : (a->head_offset + h) / a->group;
        assert_int_equal((first + h) / group, kv_first + local);
    }
    // None that no head of this rank reads.
    assert_int_equal((first + count - 1) / group, kv_first + a->kv_heads - 1);
    if (m->has_bias) {
        const ps_value *bias = value_of(graph, "q.b");
        assert_true(bias->columns == q->rows && bias->column_first == q->row_first);
        assert_true(value_of(graph, "o.b")->columns == 256); // added once, to the sum
        const ps_node *add_bias = node_of(graph, PS_OP_ADD_BIAS, "ob");
        assert_string_equal("o.sum", graph->values[add_bias->inputs[0]].name);
    }
}

static void check_rank(const model *m, const ps_graph *graph, tilings *all)
{
    check_attention(m, graph, &all->heads);
    const ps_value *gate = value_of(graph, "gate.w");
    const ps_value *up = value_of(graph, "up.w");
    const ps_value *down = value_of(graph, "down.w");
    lay(&all->ffn, gate->row_first, gate->rows, m->ffn_unit, m->ffn);
    assert_true(up->rows == gate->rows && up->row_first == gate->row_first);
    assert_true(down->columns == gate->rows && down->column_first == gate->row_first);
    const ps_value *head = value_of(graph, m->is_tied ? "embd@slice" : "out");
    lay(&all->vocabulary, head->row_first, head->rows, 16, m->vocabulary);
    assert_int_equal(m->vocabulary,
                     value_of(graph, "embd")->rows); // tokens are looked up everywhere
    (void)node_of(graph, PS_OP_ALL_REDUCE, "o.sum");
    (void)node_of(graph, PS_OP_ALL_REDUCE, "d.sum");
    const char *logits = m->is_capped ? "logits.all" : "raw.all";
    (void)node_of(graph, PS_OP_ALL_GATHER, logits);
    assert_true(value_of(graph, logits)->is_output);
}

static ps_status shard_with(const char *text, const ps_pass_options *options, ps_arena *arena,
                            ps_graph *graph)
{
    ps_graph_init(graph, arena);
    ps_graph_text_require(ps_graph_parse(ps_str_of(text), graph), text);
    ps_graph_text_require(ps_graph_verify(graph, "parsing"), text);
    const ps_status status = ps_pass_shard(graph, options);
    if (status == PS_OK) {
        ps_graph_text_require(ps_graph_verify(graph, "shard"), text);
    }
    return status;
}

static ps_status shard_rank(const char *text, uint32_t rank, uint32_t ranks, ps_arena *arena,
                            ps_graph *graph)
{
    const ps_pass_options options = {.ranks = ranks, .rank = rank};
    return shard_with(text, &options, arena, graph);
}

static uint32_t units(uint32_t whole, uint32_t unit)
{
    return (whole + unit - 1) / unit;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void test_parts_make_the_whole(void **state)
{
    const model *m = *state;
    static char text[TEXT_BYTES];
    char says[64];
    text[0] = '\0';
    write_values(m, text);
    write_nodes(m, text);
    const uint32_t most = smaller(units(m->heads, m->head_unit),
                                  smaller(units(m->ffn, m->ffn_unit), units(m->vocabulary, 16)));
    (void)snprintf(says, sizeof says, "can be shared by 1 to %u (", most);
    for (uint32_t ranks = 1; ranks <= most + 1; ranks++) {
        tilings all = {0};
        for (uint32_t rank = 0; rank < ranks; rank++) {
            ps_arena arena;
            ps_graph graph;
            ps_arena_init(&arena, (size_t)16 << 20);
            const ps_status status = shard_rank(text, rank, ranks, &arena, &graph);
            if (ranks > most) {
                assert_int_equal(PS_UNSUPPORTED, status);
                ps_graph_text_expect_message(status, says);
            } else if (ranks > 1) {
                ps_graph_text_require(status, "shard");
                check_rank(m, &graph, &all);
            } else {
                assert_int_equal(m->heads * m->head_dim, value_of(&graph, "q.w")->rows);
            }
            ps_arena_deinit(&arena);
        }
        if (ranks > 1 && ranks <= most) {
            expect_even(&all.heads, m->heads);
            expect_even(&all.ffn, m->ffn);
            expect_even(&all.vocabulary, m->vocabulary);
        }
    }
}

// ---- groups of ranks that share positions

static const uint32_t GROUPS[][2] = {{2, 2}, {4, 2}, {4, 4}, {6, 2}, {6, 3}, {8, 4}, {16, 8}};

// What a group is to have; the weights are those of the model without such groups.
typedef struct grouped {
    tilings all;
    tiling o;                     // columns of the attention output, of all ranks
    uint32_t q_first, q_rows;     // of the group that is being looked at
    uint32_t k_first, kv_columns; //
} grouped;

static void check_member(const model *m, const ps_graph *graph, uint32_t rank, uint32_t shards,
                         grouped *g)
{
    const ps_value *q = value_of(graph, "q.w");
    const ps_value *k = value_of(graph, "k.w");
    const ps_value *o = value_of(graph, "o.w");
    const ps_node *sum = node_of(graph, PS_OP_ALL_REDUCE, "a.sum");
    const ps_value *share = value_of(graph, "a.share");
    const ps_op_attributes *a = &node_of(graph, PS_OP_ATTENTION, "a")->attributes;
    if (rank % shards == 0) {
        lay(&g->all.heads, q->row_first / m->head_dim, q->rows / m->head_dim, m->head_unit,
            m->heads);
        *g = (grouped){.all = g->all,
                       .o = g->o,
                       .q_first = q->row_first,
                       .q_rows = q->rows,
                       .k_first = k->row_first,
                       .kv_columns = k->rows};
    }
    assert_true(q->row_first == g->q_first && q->rows == g->q_rows);
    assert_true(k->row_first == g->k_first && k->rows == g->kv_columns);
    assert_int_equal(g->kv_columns, value_of(graph, "kv")->columns);
    assert_int_equal(shards, a->context_shards);
    assert_int_equal(q->rows / m->head_dim, a->heads);
    assert_true(sum->attributes.ranks == shards && sum->attributes.rank == rank % shards &&
                sum->attributes.context_shards == shards);
    assert_string_equal("a", graph->values[sum->inputs[0]].name);
    assert_int_equal(q->rows, value_of(graph, "a.sum")->columns);
    // The linear reads the columns of its weight's slice.
    assert_int_equal(share->alias_of, sum->output);
    assert_int_equal(o->column_first, g->q_first + share->alias_column);
    assert_int_equal(o->columns, share->columns);
    lay(&g->o, o->column_first, o->columns, 1, m->heads * m->head_dim);
}

// Groups that cannot all have heads, or ranks that cannot all have columns, are refused.
static bool groups_fit(const model *m, uint32_t ranks, uint32_t shards)
{
    const uint32_t columns = m->heads / m->head_unit / (ranks / shards) * m->head_unit *
                             m->head_dim;
    const uint32_t unit = strchr(m->o_format, 'K') != NULL ? 256 : 32;
    return columns >= shards * unit && units(m->ffn, m->ffn_unit) >= ranks &&
           units(m->vocabulary, 16) >= ranks;
}

static uint32_t check_groups(const model *m, const char *text, uint32_t ranks, uint32_t shards)
{
    grouped g = {.q_first = 0};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        ps_arena arena;
        ps_graph graph;
        ps_arena_init(&arena, (size_t)16 << 20);
        const ps_pass_options options = {.ranks = ranks, .rank = rank, .context_shards = shards};
        const ps_status status = shard_with(text, &options, &arena, &graph);
        if (!groups_fit(m, ranks, shards)) {
            assert_int_equal(PS_UNSUPPORTED, status);
            ps_arena_deinit(&arena);
            return 0;
        }
        ps_graph_text_require(status, "shard");
        check_member(m, &graph, rank, shards, &g);
        const ps_value *gate = value_of(&graph, "gate.w");
        lay(&g.all.ffn, gate->row_first, gate->rows, m->ffn_unit, m->ffn);
        assert_int_equal(ranks, node_of(&graph, PS_OP_ALL_REDUCE, "o.sum")->attributes.ranks);
        ps_arena_deinit(&arena);
    }
    expect_even(&g.all.heads, m->heads);
    expect_even(&g.all.ffn, m->ffn);
    assert_int_equal(m->heads * m->head_dim, g.o.next);
    return 1;
}

static void test_groups_share_positions(void **state)
{
    static char text[TEXT_BYTES];
    uint32_t done = 0;
    (void)state;
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        text[0] = '\0';
        write_values(&MODELS[i], text);
        write_nodes(&MODELS[i], text);
        for (size_t j = 0; j < sizeof GROUPS / sizeof GROUPS[0]; j++) {
            done += check_groups(&MODELS[i], text, GROUPS[j][0], GROUPS[j][1]);
        }
    }
    assert_true(done > MODEL_COUNT);
    ps_arena arena;
    ps_graph graph;
    ps_arena_init(&arena, (size_t)16 << 20);
    const ps_pass_options options = {.ranks = 4, .context_shards = 3};
    ps_graph_text_expect_message(shard_with(text, &options, &arena, &graph),
                                 "3 context shards, a divisor of the 4 ranks would be right");
    ps_arena_deinit(&arena);
}

// Attention over a share of the positions: partial results, and what is prefetched, are of that
// share alone.
static void test_plans_count_one_share(void **state)
{
    static char text[TEXT_BYTES];
    const model *m = &MODELS[5];
    uint32_t prefetches = 0;
    (void)state;
    text[0] = '\0';
    write_values(m, text);
    write_nodes(m, text);
    for (uint32_t rows = 4; rows <= 64; rows += 60) {
        ps_arena arena;
        ps_graph graph;
        ps_plan *plan = NULL;
        ps_pass_options options = PS_TEST_DECODE;
        options.rows_max = rows;
        options.logits_max = 4;
        options.ranks = 8;
        options.rank = 6;
        options.context_shards = 4;
        options.context_max = 8000;
        options.k_dtype = PS_DTYPE_I8;
        options.v_dtype = PS_DTYPE_I4;
        ps_arena_init(&arena, (size_t)16 << 20);
        ps_graph_init(&graph, &arena);
        ps_graph_text_require(ps_graph_parse(ps_str_of(text), &graph), text);
        ps_graph_text_require(ps_passes_run(&graph, &options, &plan), "passes");
        for (uint32_t i = 0; i < plan->step_count; i++) {
            const ps_plan_step *step = &plan->steps[i];
            if (step->op == PS_OP_ATTENTION_PARTIAL) { // 2000 positions are 8 chunks; 16 heads
                assert_int_equal(8 * 16 * (m->head_dim + 2), plan->values[step->output].is.columns);
            } else if (step->op == PS_OP_PREFETCH && step->attributes.site == PS_SITE_KV) {
                assert_int_equal(4, step->attributes.context_shards);
                prefetches++;
            }
        }
        ps_arena_deinit(&arena);
    }
    assert_true(prefetches > 0);
}

int main(void)
{
    static char names[MODEL_COUNT][64];
    struct CMUnitTest tests[MODEL_COUNT + 2] = {
        [MODEL_COUNT] = cmocka_unit_test(test_groups_share_positions),
        [MODEL_COUNT + 1] = cmocka_unit_test(test_plans_count_one_share),
    };
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        const model *m = &MODELS[i];
        (void)snprintf(names[i], sizeof names[i], "heads %u/%u x %u, o %s, ffn %u, down %s",
                       m->heads, m->kv_heads, m->head_dim, m->o_format, m->ffn, m->down_format);
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = test_parts_make_the_whole,
                                       .initial_state = (void *)(uintptr_t)m};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
