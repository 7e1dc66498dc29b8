// passes/shard.c - the part of a model that one of several ranks computes (Megatron-LM, arXiv
// 1909.08053, section 3).
//
// 1. A linear that starts a block (q, k, v; gate, up; logits) is cut by rows: the rank makes some
//    columns of the result. What works column by column or head by head follows.
// 2. The linear that ends the block (attention output, down) is cut by columns to fit; its result
//    is one of the parts of a sum, which an all_reduce makes whole. Only that crosses ranks, twice
//    a layer, and the logits, which are gathered.
// 3. Attention is cut between query heads; a KV head is on every rank that has one of its query
//    heads. Cuts stand at whole blocks of the weight that is cut by columns.
// 4. With context_shards, so many ranks that follow each other are a group, and attention is cut over
//    groups. The ranks of a group have the same heads and project q, k and v all alike, but each
//    attends to its share of the positions; an all_reduce inside the group makes the results whole
//    (its bytes stand for those of the partial results), and of those each takes a share of the
//    columns into its part of the attention output (Helix Parallelism, arXiv 2507.07120).
// Norms, residuals, embedding and routers are on every rank; or, with sequence_parallel (Reducing
// Activation Recomputation, arXiv 2205.05198, section 4.2.2), norms and residuals from the first
// sum on are of each rank's own rows, which a reduce_scatter gives and an all_gather_rows takes.
// The embedding is looked up by all, so that the first layer waits for nobody.
#include "passes/passes.h"

#include "base/shapes.h"

#include <stdio.h>
#include <string.h>

// How the blocks of one layer can be cut.
typedef struct layer_cut {
    uint32_t heads, kv_heads, head_dim;
    uint32_t head_unit; // query heads that stay together
    uint32_t o_unit;    // columns of the attention output's weight that do
    uint32_t ffn;       // columns between gate_up and down
    uint32_t ffn_unit;
} layer_cut;

// The columns of a value that this rank has: [first, first + its columns). `is_cut` false: all.
typedef struct part {
    bool is_cut;
    bool is_sum; // whole columns, but one of the ranks' parts of a sum
    uint32_t first;
} part;

typedef struct sharder {
    ps_graph *graph;
    uint32_t ranks, rank;
    uint32_t shards;      // ranks of a group
    bool by_rows;         // sequence_parallel
    uint32_t best_logits; // 0: all are gathered
    layer_cut *layers;    // [layer_count], by the attribute `layer`
    uint32_t layer_count;
    part *parts;          // [values] of the graph as it came
    ps_value_id *instead; // [values] who is read in place of a value
    ps_value_id *other;   // [values] of own rows: its whole; of all: its own rows; PS_NO_VALUE
    uint32_t *readers;    // [values] nodes that read a weight
} sharder;

// a > 0.
static uint32_t divisor(uint32_t a, uint32_t b)
{
    ps_assert(a > 0);
    return b == 0 ? a : divisor(b, a % b);
}

// Columns at multiples of which rows of the weight can be cut.
static uint32_t cut_unit(const ps_value *weight)
{
    const uint32_t block = ps_dtype_get(weight->dtype)->block_columns;
    return block > PS_BLOCK_COLUMNS ? block : PS_BLOCK_COLUMNS;
}

// Attention is cut over so many groups of ranks, and this one is of this group.
static uint32_t group_count(const sharder *s)
{
    return s->ranks / s->shards;
}
static uint32_t group_of(const sharder *s)
{
    return s->rank / s->shards;
}

// ---- what can be cut

static void note_node(const sharder *s, const ps_node *node)
{
    layer_cut *cut = &s->layers[node->attributes.layer];
    const ps_value *values = s->graph->values;
    if (node->op == PS_OP_ATTENTION) {
        cut->heads = node->attributes.heads;
        cut->kv_heads = node->attributes.kv_heads;
        cut->head_dim = node->attributes.head_dim;
        cut->head_unit = cut->head_unit == 0 ? 1 : cut->head_unit;
    } else if (node->op == PS_OP_LINEAR && node->attributes.site == PS_SITE_ATTN_O) {
        const ps_value *weight = &values[node->inputs[1]];
        const uint32_t block = ps_dtype_get(weight->dtype)->block_columns;
        cut->head_unit = cut->head_dim == 0 ? 1 : block / divisor(block, cut->head_dim);
        cut->o_unit = cut_unit(weight);
    } else if (node->attributes.site == PS_SITE_MLP_DOWN ||
               node->attributes.site == PS_SITE_MOE_DOWN) {
        const ps_value *weight = &values[node->inputs[node->input_count - 1]];
        cut->ffn = weight->columns;
        cut->ffn_unit = cut_unit(weight);
    }
}

static ps_status note_layers(sharder *s)
{
    const ps_graph *graph = s->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const uint32_t layer = graph->nodes[i].attributes.layer;
        s->layer_count = layer >= s->layer_count ? layer + 1 : s->layer_count;
    }
    s->layers = PS_ARENA_NEW(graph->arena, layer_cut, s->layer_count);
    if (s->layers == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        note_node(s, &graph->nodes[i]);
    }
    return PS_OK;
}

// How many ranks something can be cut for, as everyone gets a part: `count` things, `unit` of them
// together.
typedef struct limit {
    uint32_t ranks;
    const char *what; // static
    uint32_t count, unit;
} limit;

static void tighten(limit *most, uint32_t count, uint32_t unit, const char *what)
{
    if (count > 0 && ps_divide_up(count, unit) < most->ranks) {
        *most = (limit){.ranks = (uint32_t)ps_divide_up(count, unit),
                        .what = what,
                        .count = count,
                        .unit = unit};
    }
}

static ps_status check_ranks(const sharder *s)
{
    limit most = {.ranks = PS_RANKS_MAX, .what = "ranks", .count = PS_RANKS_MAX, .unit = 1};
    tighten(&most, s->graph->vocabulary, PS_GROUP_ROWS, "tokens of the vocabulary");
    for (uint32_t i = 0; i < s->layer_count; i++) {
        const layer_cut *cut = &s->layers[i];
        tighten(&most, cut->ffn, cut->ffn_unit, "columns between gate_up and down");
        if (s->shards == 1) {
            tighten(&most, cut->heads, cut->head_unit, "query heads");
        }
    }
    return s->ranks <= most.ranks
               ? PS_OK
               : ps_fail(PS_UNSUPPORTED,
                         "%u ranks: this model can be shared by 1 to %u (%u %s, %u stay together)",
                         s->ranks, most.ranks, most.count, most.what, most.unit);
}

// With context_shards: every group gets heads, and every rank of a group columns of them.
static ps_status check_groups(const sharder *s)
{
    for (uint32_t i = 0; i < s->layer_count && s->shards > 1; i++) {
        const layer_cut *cut = &s->layers[i];
        const uint32_t units = cut->heads == 0 ? 0 : cut->heads / cut->head_unit / group_count(s);
        if (cut->heads > 0 && units * cut->head_unit * cut->head_dim < s->shards * cut->o_unit) {
            return ps_fail(PS_UNSUPPORTED,
                           "%u groups of %u ranks: the %u query heads of %u columns cannot be "
                           "shared by so many",
                           group_count(s), s->shards, cut->heads, cut->head_dim);
        }
    }
    return PS_OK;
}

// ---- cutting

// Rows [*begin, *end) of the weights of a linear that are this rank's; false: all of them.
static bool rows_of(const sharder *s, const ps_node *node, uint32_t rows, uint32_t *begin,
                    uint32_t *end)
{
    const layer_cut *cut = &s->layers[node->attributes.layer];
    switch (node->attributes.site) {
    case PS_SITE_ATTN_QKV: {
        const uint32_t group = cut->heads / cut->kv_heads;
        ps_share_columns(cut->heads, cut->head_unit, group_of(s), group_count(s), begin, end);
        if (rows != cut->heads * cut->head_dim) { // k or v
            *begin = *begin / group;
            *end = (uint32_t)ps_divide_up(*end, group);
        }
        *begin *= cut->head_dim;
        *end *= cut->head_dim;
        return true;
    }
    case PS_SITE_MLP_GATE_UP:
    case PS_SITE_MOE_GATE_UP:
        ps_share_columns(rows, cut->ffn_unit, s->rank, s->ranks, begin, end);
        return true;
    case PS_SITE_LM_HEAD:
        ps_share_columns(rows, PS_GROUP_ROWS, s->rank, s->ranks, begin, end);
        return true;
    default:
        return false;
    }
}

// The slice of a weight, as the value itself, or, when others read the tensor too, as a new one.
static ps_status slice(sharder *s, ps_value_id *weight, const ps_value *cut)
{
    ps_graph *graph = s->graph;
    if (s->readers[*weight] == 1) {
        ps_value *value = &graph->values[*weight];
        const char *name = value->name;
        *value = *cut;
        value->name = name;
        return PS_OK;
    }
    ps_value copy = *cut;
    copy.name = ps_arena_printf(graph->arena, "%s@slice", cut->name);
    return copy.name == NULL ? PS_NO_MEMORY : ps_graph_add_value(graph, &copy, weight);
}

static ps_status slice_rows(sharder *s, ps_value_id *weight, uint32_t begin, uint32_t end)
{
    ps_value cut = s->graph->values[*weight];
    cut.row_first += begin;
    cut.rows = end - begin;
    return slice(s, weight, &cut);
}

static ps_status slice_columns(sharder *s, ps_value_id *weight, uint32_t first, uint32_t columns)
{
    ps_value cut = s->graph->values[*weight];
    cut.column_first += first;
    cut.columns = columns;
    return slice(s, weight, &cut);
}

static void cut_value(const sharder *s, ps_value_id id, uint32_t first, uint32_t columns)
{
    s->graph->values[id].columns = columns;
    s->parts[id] = (part){.is_cut = true, .first = first};
}

// A linear of whole rows becomes one of some outputs; one of some columns becomes part of a sum.
static ps_status cut_linear(sharder *s, ps_node *node)
{
    const part input = s->parts[node->inputs[0]];
    ps_value_id *weight = &node->inputs[node->input_count - 1];
    if (input.is_cut) {
        s->parts[node->output].is_sum = true;
        return slice_columns(s, weight, input.first, s->graph->values[node->inputs[0]].columns);
    }
    uint32_t begin = 0;
    uint32_t end = 0;
    if (!rows_of(s, node, s->graph->values[*weight].rows, &begin, &end)) {
        return PS_OK;
    }
    cut_value(s, node->output, begin, end - begin);
    return slice_rows(s, weight, begin, end);
}

static void cut_attention(const sharder *s, ps_node *node)
{
    ps_op_attributes *a = &node->attributes;
    const uint32_t group = a->heads / a->kv_heads;
    const uint32_t first = s->parts[node->inputs[0]].first / a->head_dim;
    const ps_value *q = &s->graph->values[node->inputs[0]];
    a->heads = q->columns / a->head_dim;
    a->kv_heads = s->graph->values[node->inputs[1]].columns / a->head_dim;
    const bool whole_groups = first % group == 0 && a->heads % group == 0;
    a->group = whole_groups ? 0 : group;
    a->head_offset = whole_groups ? 0 : first % group;
    a->context_shards = s->shards == 1 ? 0 : s->shards;
    cut_value(s, node->output, s->parts[node->inputs[0]].first, q->columns);
}

static ps_status cut_node(sharder *s, ps_node *node)
{
    const part input = node->input_count > 0 ? s->parts[node->inputs[0]] : (part){0};
    ps_value *values = s->graph->values;
    if (node->op == PS_OP_LINEAR || node->op == PS_OP_EXPERT_LINEAR) {
        return cut_linear(s, node);
    }
    if (node->op == PS_OP_EXPERT_SUM) {
        s->parts[node->output].is_sum = input.is_sum;
        return PS_OK;
    }
    if (!input.is_cut) {
        return PS_OK;
    }
    const uint32_t columns = values[node->inputs[0]].columns;
    switch (node->op) {
    case PS_OP_KV_WRITE:
        values[node->inputs[2]].columns = columns;
        node->attributes.kv_heads = columns / values[node->inputs[2]].head_dim;
        return PS_OK;
    case PS_OP_ATTENTION:
        cut_attention(s, node);
        return PS_OK;
    case PS_OP_ADD_BIAS:
        PS_TRY(slice_columns(s, &node->inputs[1], input.first, columns));
        break;
    case PS_OP_ROPE:
        node->attributes.heads = 0; // the columns say how many
        break;
    default:
        if ((ps_op_get(node->op)->flags & PS_OP_COLUMNWISE) == 0) {
            return ps_fail(PS_UNSUPPORTED, "%s of '%s': cannot be shared by ranks",
                           ps_op_get(node->op)->name, values[node->inputs[0]].name);
        }
        break;
    }
    cut_value(s, node->output, input.first, columns);
    return PS_OK;
}

// ---- collectives

// A collective that makes a value whole; who read the value reads its output.
static ps_status add_collective(sharder *s, const ps_node *writer, ps_op op, uint32_t columns)
{
    ps_graph *graph = s->graph;
    const ps_value_id from = writer->output;
    const bool by_columns = op == PS_OP_ALL_GATHER || op == PS_OP_ALL_GATHER_BEST;
    ps_value whole = graph->values[from];
    whole.name = ps_arena_printf(graph->arena, "%s.%s", whole.name, by_columns ? "all" : "sum");
    whole.columns = columns;
    whole.row_kind = op == PS_OP_REDUCE_SCATTER ? PS_ROWS_OWN : whole.row_kind;
    if (whole.name == NULL) {
        return PS_NO_MEMORY;
    }
    graph->values[from].is_output = false;
    PS_TRY(ps_graph_add_value(graph, &whole, &s->instead[from]));
    return ps_graph_add_node(
        graph, &(ps_node){.op = op,
                          .input_count = 1,
                          .inputs = {from},
                          .output = s->instead[from],
                          .attributes = {.layer = writer->attributes.layer,
                                         .unit = by_columns ? PS_GROUP_ROWS : 0,
                                         .top_k = op == PS_OP_ALL_GATHER_BEST ? s->best_logits : 0,
                                         .ranks = s->ranks,
                                         .rank = s->rank}});
}

// What the ranks of a group have found in their shares of the positions, made whole; who read it
// reads this rank's share of the columns.
static ps_status combine_positions(sharder *s, const ps_node *attention)
{
    ps_graph *graph = s->graph;
    const ps_value_id from = attention->output;
    const uint32_t member = s->rank % s->shards;
    ps_value whole = graph->values[from];
    ps_value share = whole;
    uint32_t begin = 0;
    uint32_t end = 0;
    ps_share_columns(whole.columns, s->layers[attention->attributes.layer].o_unit, member,
                     s->shards, &begin, &end);
    share.name = ps_arena_printf(graph->arena, "%s.share", whole.name);
    whole.name = ps_arena_printf(graph->arena, "%s.sum", whole.name);
    if (share.name == NULL || whole.name == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(ps_graph_add_value(graph, &whole, &share.alias_of));
    share.alias_column = begin;
    share.columns = end - begin;
    PS_TRY(ps_graph_add_value(graph, &share, &s->instead[from]));
    s->parts[s->instead[from]] = (part){.is_cut = true, .first = s->parts[from].first + begin};
    return ps_graph_add_node(graph, &(ps_node){.op = PS_OP_ALL_REDUCE,
                                               .input_count = 1,
                                               .inputs = {from},
                                               .output = share.alias_of,
                                               .attributes = {.layer = attention->attributes.layer,
                                                              .ranks = s->shards,
                                                              .rank = member,
                                                              .context_shards = s->shards}});
}

// ---- own rows

// A value of own rows as all of them, or the other way around; made once.
static ps_status convert(sharder *s, const ps_node *reader, ps_op op, ps_value_id *id)
{
    ps_graph *graph = s->graph;
    const ps_value_id from = *id;
    if (s->other[from] == PS_NO_VALUE) {
        const bool is_own = op == PS_OP_OWN_ROWS;
        ps_value to = graph->values[from];
        to.name = ps_arena_printf(graph->arena, "%s.%s", to.name, is_own ? "own" : "all");
        to.row_kind = is_own ? PS_ROWS_OWN : PS_ROWS_STEP;
        if (to.name == NULL) {
            return PS_NO_MEMORY;
        }
        PS_TRY(ps_graph_add_value(graph, &to, &s->other[from]));
        PS_TRY(ps_graph_add_node(graph, &(ps_node){.op = op,
                                                   .input_count = 1,
                                                   .inputs = {from},
                                                   .output = s->other[from],
                                                   .attributes = {.layer = reader->attributes.layer,
                                                                  .ranks = is_own ? 0 : s->ranks,
                                                                  .rank = is_own ? 0 : s->rank}}));
    }
    *id = s->other[from];
    return PS_OK;
}

static bool has_own_rows(const sharder *s, ps_value_id id)
{
    const ps_value *value = &s->graph->values[id];
    return value->kind == PS_VALUE_ACTIVATION && value->row_kind == PS_ROWS_OWN;
}

// What works on each row of its operands alone, without weights that are cut.
static bool works_by_row(ps_op op)
{
    return op == PS_OP_RMS_NORM || op == PS_OP_ADD || op == PS_OP_ADD_BIAS || op == PS_OP_SOFTCAP ||
           op == PS_OP_ACT_MUL;
}

// A node with an operand of own rows does its work on them, or reads all rows.
static ps_status fit_rows(sharder *s, ps_node *node)
{
    bool is_own = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        is_own |= has_own_rows(s, node->inputs[i]);
    }
    if (is_own && node->op == PS_OP_SELECT_LOGITS) {
        node->op = PS_OP_ALL_GATHER_ROWS; // of those that want logits alone
        node->attributes.ranks = s->ranks;
        node->attributes.rank = s->rank;
        return PS_OK;
    }
    const bool stays_own = is_own && works_by_row(node->op);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const bool is_row = s->graph->values[node->inputs[i]].kind == PS_VALUE_ACTIVATION;
        if (is_own && is_row && has_own_rows(s, node->inputs[i]) != stays_own) {
            PS_TRY(convert(s, node, stays_own ? PS_OP_OWN_ROWS : PS_OP_ALL_GATHER_ROWS,
                           &node->inputs[i]));
        }
    }
    if (stays_own) {
        s->graph->values[node->output].row_kind = PS_ROWS_OWN;
    }
    return PS_OK;
}

// ---- the pass

// How a sum over the ranks is made.
static ps_op sum_op(const sharder *s, const ps_value *value)
{
    return s->by_rows && value->row_kind == PS_ROWS_STEP && value->row_multiplier == 1
               ? PS_OP_REDUCE_SCATTER
               : PS_OP_ALL_REDUCE;
}

// How logits are gathered: the best, a number and an id each, where that is less than all.
static ps_op logits_op(const sharder *s)
{
    return s->best_logits > 0 && (uint64_t)s->best_logits * 2 * s->ranks < s->graph->vocabulary
               ? PS_OP_ALL_GATHER_BEST
               : PS_OP_ALL_GATHER;
}

// Experts' parts of a sum are summed over experts first.
static bool ends_a_sum(const sharder *s, const ps_node *node)
{
    return node->output != PS_NO_VALUE && s->parts[node->output].is_sum &&
           node->op != PS_OP_EXPERT_LINEAR;
}

static ps_status add_node(sharder *s, ps_node node)
{
    for (uint32_t i = 0; i < node.input_count; i++) {
        const ps_value_id id = node.inputs[i];
        node.inputs[i] = s->instead[id];
    }
    PS_TRY(fit_rows(s, &node));
    PS_TRY(cut_node(s, &node));
    PS_TRY(ps_graph_add_node(s->graph, &node));
    if (node.op == PS_OP_ATTENTION && s->shards > 1) {
        return combine_positions(s, &node);
    }
    if (ends_a_sum(s, &node)) {
        const ps_value *sum = &s->graph->values[node.output];
        return add_collective(s, &node, sum_op(s, sum), sum->columns);
    }
    if (node.output != PS_NO_VALUE && s->graph->values[node.output].is_output &&
        s->parts[node.output].is_cut) {
        return add_collective(s, &node, logits_op(s), s->graph->vocabulary);
    }
    return PS_OK;
}

static ps_status shard(sharder *s)
{
    ps_graph *graph = s->graph;
    const uint32_t count = graph->node_count;
    // To a node, a collective behind it and a slice of a shared tensor, or of a collective's result,
    // add a value each at most, and other rows of its operands two.
    const uint64_t values = graph->value_count + 4 * (uint64_t)count;
    ps_node *old = PS_ARENA_NEW(graph->arena, ps_node, count);
    s->parts = PS_ARENA_NEW(graph->arena, part, values);
    s->instead = PS_ARENA_NEW(graph->arena, ps_value_id, values);
    s->other = PS_ARENA_NEW(graph->arena, ps_value_id, values);
    s->readers = PS_ARENA_NEW(graph->arena, uint32_t, values);
    if (old == NULL || s->parts == NULL || s->instead == NULL || s->other == NULL ||
        s->readers == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < values; i++) {
        s->instead[i] = i;
        s->other[i] = PS_NO_VALUE;
    }
    memcpy(old, graph->nodes, count * sizeof *old);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < old[i].input_count; j++) {
            s->readers[old[i].inputs[j]]++;
        }
    }
    graph->node_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(add_node(s, old[i]));
    }
    return PS_OK;
}

ps_status ps_pass_shard(ps_graph *graph, const ps_pass_options *options)
{
    const uint32_t shards = options->context_shards <= 1 ? 1 : options->context_shards;
    const uint32_t ranks = options->ranks == 0 ? 1 : options->ranks;
    if (ranks % shards != 0) {
        return ps_fail(PS_INVALID, "%u context shards, a divisor of the %u ranks would be right",
                       shards, ranks);
    }
    if (ranks == 1) {
        return PS_OK;
    }
    ps_assert(options->rank < options->ranks);
    ps_assert(!options->sequence_parallel || options->comm_schedule != PS_COMM_FUSED);
    sharder s = {.graph = graph,
                 .ranks = options->ranks,
                 .rank = options->rank,
                 .shards = shards,
                 .by_rows = options->sequence_parallel,
                 .best_logits = options->best_logits};
    PS_TRY(note_layers(&s));
    PS_TRY(check_ranks(&s));
    PS_TRY(check_groups(&s));
    return shard(&s);
}
