// test/ir/graph_maker.h - random graphs that are right by construction.
//
// A residual stream of random width goes through random blocks: norms, fused linears with views,
// feed-forward, attention (whole and in chunks), experts. Names are odd on purpose. The only thing
// shared with verify is ops.def.
//
// ps_graph_make is careless of layers and sites, and joins what passes join. ps_graph_make_layers
// builds as architectures do: plain operators with the layers and sites that sharding goes by.
#ifndef PS_TEST_IR_GRAPH_MAKER_H
#define PS_TEST_IR_GRAPH_MAKER_H

#include "gen.h"
#include "ir/graph.h"

#include <stdio.h>

typedef struct ps_graph_maker {
    ps_gen *gen;
    ps_graph *graph;
    uint32_t serial;   // makes names unique
    uint32_t columns;  // of the residual stream, a multiple of 256
    ps_value_id x;     // the residual stream
    ps_value_id table; // the embedding
    bool is_layered;   // as an architecture builds
    uint32_t layer;
} ps_graph_maker;

static inline uint32_t ps_maker_pick(ps_graph_maker *m, uint32_t lowest, uint32_t highest)
{
    return (uint32_t)ps_gen_range(m->gen, lowest, highest);
}

static inline ps_value_id ps_maker_add(ps_graph_maker *m, ps_value value)
{
    static const char *const STEMS[] = {"blk.0.attn_q.weight", "x", "a b", "\"#",
                                        "n\xc3\xa9",           "7", "-"};
    char name[64];
    (void)snprintf(name, sizeof name, "%s%u", STEMS[ps_maker_pick(m, 0, 6)], m->serial++);
    value.name = name;
    ps_value_id id = PS_NO_VALUE;
    ps_assert(ps_graph_add_value(m->graph, &value, &id) == PS_OK);
    return id;
}

static inline ps_value_id ps_maker_weight(ps_graph_maker *m, ps_dtype dtype, uint32_t experts,
                                          uint32_t rows, uint32_t columns)
{
    return ps_maker_add(m, (ps_value){.kind = PS_VALUE_WEIGHT,
                                      .dtype = dtype,
                                      .experts = experts,
                                      .rows = rows,
                                      .columns = columns,
                                      .alias_of = PS_NO_VALUE});
}

static inline ps_value_id ps_maker_vector(ps_graph_maker *m, uint32_t columns)
{
    return ps_maker_weight(m, PS_DTYPE_F32, 0, 1, columns);
}

// A weight format that any row goes with, or one that goes with F32 rows alone.
static inline ps_dtype ps_maker_format(ps_graph_maker *m, bool quantised)
{
    ps_dtype dtype;
    do {
        dtype = (ps_dtype)ps_maker_pick(m, 0, PS_DTYPE_COUNT - 1);
    } while (dtype == PS_DTYPE_I32 || dtype == PS_DTYPE_Q8_ROW ||
             (quantised && !ps_dtype_is_quantised(dtype)));
    return dtype;
}

static inline ps_value_id ps_maker_row(ps_graph_maker *m, ps_dtype dtype, uint32_t multiplier,
                                       uint32_t columns)
{
    return ps_maker_add(m, (ps_value){.kind = PS_VALUE_ACTIVATION,
                                      .dtype = dtype,
                                      .row_multiplier = multiplier,
                                      .columns = columns,
                                      .alias_of = PS_NO_VALUE});
}

static inline ps_value_id ps_maker_view(ps_graph_maker *m, ps_value_id base, uint32_t column,
                                        uint32_t columns)
{
    return ps_maker_add(m, (ps_value){.kind = PS_VALUE_ACTIVATION,
                                      .dtype = PS_DTYPE_F32,
                                      .row_multiplier = 1,
                                      .columns = columns,
                                      .alias_of = base,
                                      .alias_column = column});
}

// Adds the node with what it has in common with all, and gives its output.
static inline ps_value_id ps_maker_node(ps_graph_maker *m, ps_node node)
{
    while (node.input_count < PS_OP_INPUTS_MAX && node.inputs[node.input_count] != PS_NO_VALUE) {
        node.input_count++;
    }
    for (uint32_t i = node.input_count; i < PS_OP_INPUTS_MAX; i++) {
        node.inputs[i] = 0;
    }
    node.attributes.layer = m->is_layered ? m->layer : ps_maker_pick(m, 0, 3);
    if (!m->is_layered) {
        node.attributes.site = ps_maker_pick(m, 0, PS_SITE_COUNT - 1);
    }
    ps_assert(ps_graph_add_node(m->graph, &node) == PS_OK);
    return node.output;
}

#define PS_MAKER_NODE(m, OP, OUTPUT, A, B, C, D, ...)                                              \
    ps_maker_node((m), (ps_node){.op = PS_OP_##OP,                                                 \
                                 .output = (OUTPUT),                                               \
                                 .inputs = {(A), (B), (C), (D), PS_NO_VALUE},                      \
                                 .attributes = {__VA_ARGS__}})
#define PS_MAKER_NONE PS_NO_VALUE

static inline float ps_maker_positive(ps_graph_maker *m)
{
    return ps_gen_float(m->gen) + 1.0009765625f;
}

static inline void ps_maker_residual(ps_graph_maker *m, ps_value_id y)
{
    const ps_value_id out = ps_maker_row(m, PS_DTYPE_F32, 1, m->columns);
    m->x = PS_MAKER_NODE(m, ADD, out, y, m->x, PS_MAKER_NONE, PS_MAKER_NONE, .layer = 0);
}

// The residual stream, normed; q8_row or F32.
static inline ps_value_id ps_maker_norm(ps_graph_maker *m, bool quantised)
{
    const ps_value_id weight = ps_maker_vector(m, m->columns);
    const float eps = ps_maker_positive(m);
    if (quantised && ps_maker_pick(m, 0, 1) == 0) {
        return PS_MAKER_NODE(m, NORM_QUANTISE, ps_maker_row(m, PS_DTYPE_Q8_ROW, 1, m->columns),
                             m->x, weight, PS_MAKER_NONE, PS_MAKER_NONE, .eps = eps);
    }
    const ps_value_id y = PS_MAKER_NODE(m, RMS_NORM, ps_maker_row(m, PS_DTYPE_F32, 1, m->columns),
                                        m->x, weight, PS_MAKER_NONE, PS_MAKER_NONE, .eps = eps);
    return quantised ? PS_MAKER_NODE(m, QUANTISE, ps_maker_row(m, PS_DTYPE_Q8_ROW, 1, m->columns),
                                     y, PS_MAKER_NONE, PS_MAKER_NONE, PS_MAKER_NONE, .layer = 0)
                     : y;
}

static inline ps_value_id ps_maker_gate_up(ps_graph_maker *m, ps_value_id x, ps_value_id gate,
                                           ps_value_id up, uint32_t inner)
{
    const uint32_t activation = ps_maker_pick(m, 0, 1);
    if (!m->is_layered) {
        const ps_dtype dtype = ps_maker_pick(m, 0, 1) == 0 ? PS_DTYPE_Q8_ROW : PS_DTYPE_F32;
        return PS_MAKER_NODE(m, GATE_UP, ps_maker_row(m, dtype, 1, inner), x, gate, up,
                             PS_MAKER_NONE, .activation = activation);
    }
    const ps_value_id g = PS_MAKER_NODE(m, LINEAR, ps_maker_row(m, PS_DTYPE_F32, 1, inner), x, gate,
                                        PS_MAKER_NONE, PS_MAKER_NONE, .site = PS_SITE_MLP_GATE_UP);
    const ps_value_id u = PS_MAKER_NODE(m, LINEAR, ps_maker_row(m, PS_DTYPE_F32, 1, inner), x, up,
                                        PS_MAKER_NONE, PS_MAKER_NONE, .site = PS_SITE_MLP_GATE_UP);
    return PS_MAKER_NODE(m, ACT_MUL, ps_maker_row(m, PS_DTYPE_F32, 1, inner), g, u, PS_MAKER_NONE,
                         PS_MAKER_NONE, .activation = activation);
}

static inline void ps_maker_feed_forward(ps_graph_maker *m)
{
    const bool quantised = ps_maker_pick(m, 0, 1) == 0;
    const uint32_t inner = 256 * ps_maker_pick(m, 1, 3);
    const ps_dtype dtype = ps_maker_format(m, quantised);
    const ps_value_id x = ps_maker_norm(m, quantised);
    const ps_value_id gate = ps_maker_weight(m, dtype, 0, inner, m->columns);
    const ps_value_id up = ps_maker_weight(m, dtype, 0, inner, m->columns);
    const ps_value_id down = ps_maker_weight(m, ps_maker_format(m, true), 0, m->columns, inner);
    const ps_value_id h = ps_maker_gate_up(m, x, gate, up, inner);
    ps_maker_residual(m, PS_MAKER_NODE(m, LINEAR, ps_maker_row(m, PS_DTYPE_F32, 1, m->columns), h,
                                       down, PS_MAKER_NONE, PS_MAKER_NONE, .site = PS_SITE_MLP_DOWN,
                                       .unit = ps_maker_pick(m, 0, 32)));
}

static inline ps_value_id ps_maker_rope(ps_graph_maker *m, ps_value_id x, uint32_t columns,
                                        uint32_t head_dim)
{
    const uint32_t rotary_dim = 2 * ps_maker_pick(m, 1, head_dim / 2);
    const bool has_factors = ps_maker_pick(m, 0, 1) == 0;
    const ps_value_id table = PS_MAKER_NODE(
        m, ROPE_TABLE, ps_maker_row(m, PS_DTYPE_F32, 1, rotary_dim),
        has_factors ? ps_maker_vector(m, rotary_dim / 2) : PS_MAKER_NONE, PS_MAKER_NONE,
        PS_MAKER_NONE, PS_MAKER_NONE, .rotary_dim = rotary_dim,
        .freq_base = 10000 * ps_maker_positive(m), .freq_scale = ps_gen_float(m->gen) + 1);
    return PS_MAKER_NODE(m, ROPE, ps_maker_row(m, PS_DTYPE_F32, 1, columns), x, table,
                         PS_MAKER_NONE, PS_MAKER_NONE, .head_dim = head_dim,
                         .rope_style = ps_maker_pick(m, 0, 1));
}

static inline ps_value_id ps_maker_attend(ps_graph_maker *m, ps_value_id q, ps_value_id kv,
                                          uint32_t heads, uint32_t kv_heads, uint32_t head_dim)
{
    const ps_op_attributes attributes = {.heads = heads,
                                         .kv_heads = kv_heads,
                                         .head_dim = head_dim,
                                         .scale = ps_maker_positive(m),
                                         .softcap = ps_maker_positive(m)};
    const ps_value_id out = ps_maker_row(m, PS_DTYPE_F32, 1, heads * head_dim);
    ps_node node = {.op = PS_OP_ATTENTION,
                    .inputs = {q, kv, PS_MAKER_NONE},
                    .output = out,
                    .attributes = attributes};
    if (m->is_layered || ps_maker_pick(m, 0, 1) == 0) {
        return ps_maker_node(m, node);
    }
    node.op = PS_OP_ATTENTION_PARTIAL;
    node.output = ps_maker_row(m, PS_DTYPE_F32, 1, ps_maker_pick(m, 1, 4) * heads * (head_dim + 2));
    const ps_value_id partial = ps_maker_node(m, node);
    return PS_MAKER_NODE(m, ATTENTION_MERGE, out, partial, kv, PS_MAKER_NONE, PS_MAKER_NONE,
                         .heads = heads, .head_dim = head_dim);
}

static inline ps_dtype ps_maker_kv_format(ps_graph_maker *m, uint32_t head_dim)
{
    return head_dim % 32 == 0 && ps_maker_pick(m, 0, 1) == 0 ? PS_DTYPE_Q8_0 : PS_DTYPE_F16;
}

// Queries, keys or values.
static inline ps_value_id ps_maker_project(ps_graph_maker *m, ps_value_id x, uint32_t columns,
                                           uint32_t head_dim)
{
    const ps_value_id y = PS_MAKER_NODE(
        m, LINEAR, ps_maker_row(m, PS_DTYPE_F32, 1, columns), x,
        ps_maker_weight(m, ps_maker_format(m, true), 0, columns, m->columns), PS_MAKER_NONE,
        PS_MAKER_NONE, .site = PS_SITE_ATTN_QKV, .unit = head_dim);
    return ps_maker_pick(m, 0, 1) == 0
               ? y
               : PS_MAKER_NODE(m, ADD_BIAS, ps_maker_row(m, PS_DTYPE_F32, 1, columns), y,
                               ps_maker_vector(m, columns), PS_MAKER_NONE, PS_MAKER_NONE,
                               .layer = 0);
}

// The same three as views of one linear's output, or apart. out: q, k, v.
static inline void ps_maker_qkv(ps_graph_maker *m, uint32_t q_columns, uint32_t kv_columns,
                                uint32_t head_dim, ps_value_id out[3])
{
    const ps_value_id x = ps_maker_norm(m, true);
    if (m->is_layered) {
        out[0] = ps_maker_project(m, x, q_columns, head_dim);
        out[1] = ps_maker_project(m, x, kv_columns, head_dim);
        out[2] = ps_maker_project(m, x, kv_columns, head_dim);
        return;
    }
    const ps_value_id qkv = PS_MAKER_NODE(
        m, LINEAR, ps_maker_row(m, PS_DTYPE_F32, 1, q_columns + 2 * kv_columns), x,
        ps_maker_weight(m, ps_maker_format(m, true), 0, q_columns, m->columns),
        ps_maker_weight(m, ps_maker_format(m, true), 0, kv_columns, m->columns),
        ps_maker_weight(m, ps_maker_format(m, true), 0, kv_columns, m->columns), .unit = head_dim);
    out[0] = ps_maker_view(m, qkv, 0, q_columns);
    out[1] = ps_maker_view(m, qkv, q_columns, kv_columns);
    out[2] = ps_maker_view(m, qkv, q_columns + kv_columns, kv_columns);
}

// A format of which rows of so many columns can be.
static inline ps_dtype ps_maker_format_of(ps_graph_maker *m, uint32_t columns)
{
    ps_dtype dtype;
    do {
        dtype = ps_maker_format(m, false);
    } while (columns % ps_dtype_get(dtype)->block_columns != 0);
    return dtype;
}

static inline void ps_maker_attention(ps_graph_maker *m)
{
    const uint32_t kv_heads = ps_maker_pick(m, 1, 3);
    const uint32_t heads = kv_heads * ps_maker_pick(m, 1, 3);
    const uint32_t head_dim = ps_maker_pick(m, 0, 1) == 0 ? 32 * ps_maker_pick(m, 1, 3)
                                                          : 8 * ps_maker_pick(m, 1, 12);
    const uint32_t q_columns = heads * head_dim;
    const uint32_t kv_columns = kv_heads * head_dim;
    ps_value_id qkv[3];
    ps_maker_qkv(m, q_columns, kv_columns, head_dim, qkv);
    ps_value_id q = qkv[0];
    ps_value_id k = qkv[1];
    const ps_value_id v = qkv[2];
    q = PS_MAKER_NODE(m, RMS_NORM, ps_maker_row(m, PS_DTYPE_F32, 1, q_columns), q,
                      ps_maker_vector(m, head_dim), PS_MAKER_NONE, PS_MAKER_NONE,
                      .eps = ps_maker_positive(m));
    q = ps_maker_rope(m, q, q_columns, head_dim);
    k = ps_maker_rope(m, k, kv_columns, head_dim);
    const ps_value_id kv = ps_maker_add(
        m, (ps_value){.kind = PS_VALUE_KV,
                      .dtype = ps_maker_kv_format(m, head_dim),
                      .v_dtype = ps_maker_kv_format(m, head_dim),
                      .columns = kv_columns,
                      .head_dim = head_dim,
                      .kv_group = ps_maker_pick(m, 0, m->graph->kv_group_count - 1),
                      .alias_of = PS_NO_VALUE});
    (void)PS_MAKER_NODE(m, KV_WRITE, PS_NO_VALUE, k, v, kv, PS_MAKER_NONE, .kv_heads = kv_heads);
    const ps_value_id a = ps_maker_attend(m, q, kv, heads, kv_heads, head_dim);
    const ps_dtype o_dtype = m->is_layered ? ps_maker_format_of(m, q_columns) : PS_DTYPE_BF16;
    const ps_value_id o = ps_maker_weight(m, o_dtype, 0, m->columns, q_columns);
    ps_maker_residual(m, PS_MAKER_NODE(m, LINEAR, ps_maker_row(m, PS_DTYPE_F32, 1, m->columns), a,
                                       o, PS_MAKER_NONE, PS_MAKER_NONE, .site = PS_SITE_ATTN_O));
}

static inline ps_value_id ps_maker_expert_linear(ps_graph_maker *m, ps_value_id x,
                                                 ps_value_id route, ps_value_id weight,
                                                 ps_site site)
{
    const ps_value *w = &m->graph->values[weight];
    const uint32_t top_k = m->graph->values[route].columns / 2;
    const uint32_t experts = w->experts;
    const ps_value_id y = ps_maker_row(m, PS_DTYPE_F32, top_k, w->rows);
    return PS_MAKER_NODE(m, EXPERT_LINEAR, y, x, route, weight, PS_MAKER_NONE, .site = site,
                         .top_k = top_k, .experts = experts);
}

static inline ps_value_id ps_maker_expert_gate_up(ps_graph_maker *m, ps_value_id x,
                                                  ps_value_id route, ps_value_id gate,
                                                  ps_value_id up)
{
    const uint32_t top_k = m->graph->values[route].columns / 2;
    const uint32_t experts = m->graph->values[gate].experts;
    const uint32_t inner = m->graph->values[gate].rows;
    if (!m->is_layered) {
        const ps_dtype dtype = ps_maker_pick(m, 0, 1) == 0 ? PS_DTYPE_Q8_ROW : PS_DTYPE_F32;
        return PS_MAKER_NODE(m, EXPERT_GATE_UP, ps_maker_row(m, dtype, top_k, inner), x, route,
                             gate, up, .top_k = top_k, .experts = experts);
    }
    const ps_value_id g = ps_maker_expert_linear(m, x, route, gate, PS_SITE_MOE_GATE_UP);
    const ps_value_id u = ps_maker_expert_linear(m, x, route, up, PS_SITE_MOE_GATE_UP);
    return PS_MAKER_NODE(m, ACT_MUL, ps_maker_row(m, PS_DTYPE_F32, top_k, inner), g, u,
                         PS_MAKER_NONE, PS_MAKER_NONE, .activation = ps_maker_pick(m, 0, 1));
}

static inline void ps_maker_experts(ps_graph_maker *m)
{
    const uint32_t experts = ps_maker_pick(m, 1, 64);
    const uint32_t top_k = ps_maker_pick(m, 1, experts);
    const uint32_t inner = 256 * ps_maker_pick(m, 1, 2);
    const ps_value_id x = ps_maker_norm(m, false);
    const ps_value_id router = ps_maker_weight(m, PS_DTYPE_F32, 0, experts, m->columns);
    const ps_value_id scores = PS_MAKER_NODE(m, LINEAR, ps_maker_row(m, PS_DTYPE_F32, 1, experts),
                                             x, router, PS_MAKER_NONE, PS_MAKER_NONE,
                                             .site = PS_SITE_MOE_ROUTER);
    const ps_value_id route = PS_MAKER_NODE(
        m, ROUTE, ps_maker_row(m, PS_DTYPE_F32, 1, 2 * top_k), scores, PS_MAKER_NONE, PS_MAKER_NONE,
        PS_MAKER_NONE, .top_k = top_k, .experts = experts, .gating = ps_maker_pick(m, 0, 1),
        .normalise = ps_maker_pick(m, 0, 1));
    const ps_dtype dtype = ps_maker_format(m, false);
    const ps_value_id gate = ps_maker_weight(m, dtype, experts, inner, m->columns);
    const ps_value_id up = ps_maker_weight(m, dtype, experts, inner, m->columns);
    const ps_value_id down = ps_maker_weight(m, ps_maker_format(m, true), experts, m->columns,
                                             inner);
    const ps_value_id h = ps_maker_expert_gate_up(m, x, route, gate, up);
    const ps_value_id y = ps_maker_expert_linear(m, h, route, down, PS_SITE_MOE_DOWN);
    ps_maker_residual(m, PS_MAKER_NODE(m, EXPERT_SUM, ps_maker_row(m, PS_DTYPE_F32, 1, m->columns),
                                       y, route, PS_MAKER_NONE, PS_MAKER_NONE, .top_k = top_k));
}

static inline void ps_maker_logits(ps_graph_maker *m)
{
    const ps_value selected = {.kind = PS_VALUE_ACTIVATION,
                               .dtype = PS_DTYPE_F32,
                               .row_kind = PS_ROWS_LOGITS,
                               .row_multiplier = 1,
                               .columns = m->columns,
                               .alias_of = PS_NO_VALUE};
    ps_value logits = selected;
    logits.columns = m->graph->vocabulary;
    logits.is_output = true;
    ps_value plain = logits;
    plain.is_output = false;
    const bool is_capped = m->is_layered && ps_maker_pick(m, 0, 1) == 0;
    const bool is_tied = m->is_layered && ps_maker_pick(m, 0, 1) == 0;
    const ps_value_id x = PS_MAKER_NODE(m, SELECT_LOGITS, ps_maker_add(m, selected), m->x,
                                        PS_MAKER_NONE, PS_MAKER_NONE, PS_MAKER_NONE, .layer = 0);
    const ps_value_id head = is_tied ? m->table
                                     : ps_maker_weight(m, ps_maker_format(m, false), 0,
                                                       m->graph->vocabulary, m->columns);
    const ps_value_id y = PS_MAKER_NODE(m, LINEAR, ps_maker_add(m, is_capped ? plain : logits), x,
                                        head, PS_MAKER_NONE, PS_MAKER_NONE,
                                        .site = PS_SITE_LM_HEAD);
    if (is_capped) {
        (void)PS_MAKER_NODE(m, SOFTCAP, ps_maker_add(m, logits), y, PS_MAKER_NONE, PS_MAKER_NONE,
                            PS_MAKER_NONE, .softcap = ps_maker_positive(m));
    }
}

static inline void ps_maker_graph(ps_graph_maker *m, uint32_t blocks)
{
    static void (*const BLOCKS[])(ps_graph_maker *) = {ps_maker_feed_forward, ps_maker_attention,
                                                       ps_maker_experts};
    ps_graph *graph = m->graph;
    m->columns = 256 * ps_maker_pick(m, 1, 3);
    graph->vocabulary = ps_maker_pick(m, 1, 5000);
    graph->kv_group_count = ps_maker_pick(m, 1, PS_KV_GROUPS_MAX);
    for (uint32_t i = 0; i < graph->kv_group_count; i++) {
        graph->kv_groups[i].window = ps_maker_pick(m, 0, 4096);
    }
    m->table = ps_maker_weight(m, ps_maker_format(m, false), 0, graph->vocabulary, m->columns);
    m->x = PS_MAKER_NODE(m, EMBED, ps_maker_row(m, PS_DTYPE_F32, 1, m->columns), m->table,
                         PS_MAKER_NONE, PS_MAKER_NONE, PS_MAKER_NONE,
                         .scale = ps_gen_float(m->gen));
    for (uint32_t i = 0; i < blocks; i++) {
        m->layer = i + 1;
        BLOCKS[ps_maker_pick(m, 0, 2)](m);
    }
    m->layer = 0;
    ps_maker_logits(m);
}

// A graph of `blocks` random blocks in `graph`, which has just been initialised.
static inline void ps_graph_make(ps_gen *gen, uint32_t blocks, ps_graph *graph)
{
    ps_maker_graph(&(ps_graph_maker){.gen = gen, .graph = graph}, blocks);
}

static inline void ps_graph_make_layers(ps_gen *gen, uint32_t blocks, ps_graph *graph)
{
    ps_maker_graph(&(ps_graph_maker){.gen = gen, .graph = graph, .is_layered = true}, blocks);
}

#endif
