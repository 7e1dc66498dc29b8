// passes/fuse.c - explicit quantisation, merged linears.
//
// Each rewrite walks the nodes once and marks those that it replaces; `compact` takes them out.
// Readers are counted anew for each rewrite: graphs have a few thousand nodes and are built once.
#include "passes/passes.h"

#include <string.h>

#define DEAD PS_OP_COUNT // op of a node that a rewrite replaced
#define JOINED_MAX 3u    // weights of a linear

static void compact(ps_graph *graph)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].op != DEAD) {
            graph->nodes[kept++] = graph->nodes[i];
        }
    }
    graph->node_count = kept;
}

// Who reads each value: how many nodes, itself or through views, and the last that reads itself.
typedef struct readers {
    uint32_t *count; // [values]
    uint32_t *last;  // [values] a node's index
    bool *is_viewed; // [values] it has views, read or not
} readers;

static ps_status find_readers(const ps_graph *graph, readers *out)
{
    out->count = PS_ARENA_NEW(graph->arena, uint32_t, graph->value_count);
    out->last = PS_ARENA_NEW(graph->arena, uint32_t, graph->value_count);
    out->is_viewed = PS_ARENA_NEW(graph->arena, bool, graph->value_count);
    if (out->count == NULL || out->last == NULL || out->is_viewed == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (graph->values[i].alias_of != PS_NO_VALUE) {
            out->is_viewed[graph->values[i].alias_of] = true;
        }
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        for (uint32_t j = 0; j < graph->nodes[i].input_count; j++) {
            const ps_value_id id = graph->nodes[i].inputs[j];
            out->count[id]++;
            out->last[id] = i;
            if (graph->values[id].alias_of != PS_NO_VALUE) {
                out->count[graph->values[id].alias_of]++;
            }
        }
    }
    return PS_OK;
}

// The index of the weight operands of an operator that takes activations with weights; 0: it takes
// none.
static uint32_t first_weight(ps_op op)
{
    switch (op) {
    case PS_OP_LINEAR:
    case PS_OP_GATE_UP:
        return 1;
    case PS_OP_EXPERT_LINEAR:
    case PS_OP_EXPERT_GATE_UP:
        return 2;
    default:
        return 0;
    }
}

static bool wants_q8(const ps_graph *graph, const ps_node *node)
{
    const uint32_t weight = first_weight(node->op);
    return weight > 0 && ps_dtype_is_quantised(graph->values[node->inputs[weight]].dtype);
}

static ps_status add_derived(ps_graph *graph, ps_value_id from, const char *suffix, ps_dtype dtype,
                             ps_value_id *out)
{
    ps_value value = graph->values[from];
    value.name = ps_arena_printf(graph->arena, "%s.%s", value.name, suffix);
    if (value.name == NULL) {
        return PS_NO_MEMORY;
    }
    value.dtype = dtype;
    value.alias_of = PS_NO_VALUE;
    value.alias_column = 0;
    value.is_output = false;
    return ps_graph_add_value(graph, &value, out);
}

// Puts a quantise before the first linear that reads a value, and lets all of them read its result.
static ps_status make_quantisation_explicit(ps_graph *graph)
{
    const uint32_t count = graph->node_count;
    const uint32_t values = graph->value_count;
    ps_node *old = PS_ARENA_NEW(graph->arena, ps_node, count);
    ps_value_id *quantised = PS_ARENA_NEW(graph->arena, ps_value_id, values); // 0: not yet
    if (old == NULL || quantised == NULL) {
        return PS_NO_MEMORY;
    }
    memcpy(old, graph->nodes, count * sizeof *old);
    graph->node_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        ps_node node = old[i];
        const ps_value_id x = node.input_count > 0 ? node.inputs[0] : PS_NO_VALUE;
        if (wants_q8(graph, &node) && graph->values[x].dtype == PS_DTYPE_F32) {
            if (quantised[x] == 0) {
                PS_TRY(add_derived(graph, x, "q8", PS_DTYPE_Q8_ROW, &quantised[x]));
                PS_TRY(ps_graph_add_node(
                    graph, &(ps_node){.op = PS_OP_QUANTISE,
                                      .input_count = 1,
                                      .inputs = {x},
                                      .output = quantised[x],
                                      .attributes = {.layer = node.attributes.layer}}));
            }
            node.inputs[0] = quantised[x];
        }
        PS_TRY(ps_graph_add_node(graph, &node));
    }
    return PS_OK;
}

static bool can_join(const ps_graph *graph, const readers *by, const ps_node *first,
                     const ps_node *node)
{
    const uint32_t unit = first->attributes.unit;
    const ps_value *weight = &graph->values[node->inputs[1]];
    return node->op == PS_OP_LINEAR && node->input_count == 2 &&
           node->inputs[0] == first->inputs[0] && node->attributes.site == first->attributes.site &&
           node->attributes.layer == first->attributes.layer && node->attributes.unit == unit &&
           weight->rows % PS_GROUP_ROWS == 0 && weight->rows % (unit == 0 ? 1 : unit) == 0 &&
           !by->is_viewed[node->output]; // it will be a view, and views have none
}

// The listed nodes become one linear in the place of the first; their outputs become views of its
// output.
static ps_status join_listed(ps_graph *graph, const uint32_t *list, uint32_t count)
{
    ps_node *first = &graph->nodes[list[0]];
    ps_value_id joined;
    PS_TRY(add_derived(graph, first->output, "joined", PS_DTYPE_F32, &joined));
    uint32_t column = 0;
    for (uint32_t i = 0; i < count; i++) {
        const ps_node *node = &graph->nodes[list[i]];
        ps_value *view = &graph->values[node->output];
        view->alias_of = joined;
        view->alias_column = column;
        column += view->columns;
        first->inputs[1 + i] = node->inputs[1];
    }
    graph->values[joined].columns = column;
    first->output = joined;
    first->input_count = 1 + count;
    for (uint32_t i = 1; i < count; i++) {
        graph->nodes[list[i]].op = DEAD;
    }
    return PS_OK;
}

// On a machine with a stream for prefetches vector operators are a time of their own: the
// activation stays one, and gate and up are one linear before it.
static bool keeps_activations(const ps_pass_options *options)
{
    return options->machine != NULL && options->machine->has_prefetch_stream;
}

// Other operators may stand between the linears of a layer: they read what is there at the first
// one already, so the later linears can move up to it.
static ps_status join_linears_of(ps_graph *graph, ps_site site)
{
    readers by;
    PS_TRY(find_readers(graph, &by));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const ps_node *first = &graph->nodes[i];
        if (first->op != PS_OP_LINEAR || (ps_site)first->attributes.site != site ||
            !can_join(graph, &by, first, first)) {
            continue;
        }
        uint32_t list[JOINED_MAX] = {i};
        uint32_t count = 1;
        for (uint32_t j = i + 1; j < graph->node_count && count < JOINED_MAX &&
                                 graph->nodes[j].attributes.layer == first->attributes.layer;
             j++) {
            if (can_join(graph, &by, first, &graph->nodes[j])) {
                list[count++] = j;
            }
        }
        if (count > 1) {
            PS_TRY(join_listed(graph, list, count));
        }
    }
    compact(graph);
    return PS_OK;
}

// gate and up linears (or expert linears) read only by one act_mul: the act_mul becomes the fused
// operator.
static ps_status fuse_gate_up(ps_graph *graph)
{
    readers by;
    PS_TRY(find_readers(graph, &by));
    uint32_t *writer = PS_ARENA_NEW(graph->arena, uint32_t, graph->value_count);
    if (writer == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        ps_node *act = &graph->nodes[i];
        if (act->output != PS_NO_VALUE) {
            writer[act->output] = i;
        }
        if (act->op != PS_OP_ACT_MUL) {
            continue;
        }
        ps_node *gate = &graph->nodes[writer[act->inputs[0]]];
        ps_node *up = &graph->nodes[writer[act->inputs[1]]];
        const uint32_t weight = first_weight(gate->op);
        if ((gate->op != PS_OP_LINEAR && gate->op != PS_OP_EXPERT_LINEAR) || up->op != gate->op ||
            gate == up || gate->output != act->inputs[0] || up->output != act->inputs[1] ||
            gate->input_count != weight + 1 || up->input_count != weight + 1 ||
            memcmp(gate->inputs, up->inputs, weight * sizeof gate->inputs[0]) != 0 ||
            by.count[gate->output] != 1 || by.count[up->output] != 1 ||
            (gate->op == PS_OP_EXPERT_LINEAR &&
             graph->values[gate->inputs[0]].row_multiplier != 1)) { // it takes tokens, not pairs
            continue;
        }
        const uint32_t activation = act->attributes.activation;
        act->op = gate->op == PS_OP_LINEAR ? PS_OP_GATE_UP : PS_OP_EXPERT_GATE_UP;
        memcpy(act->inputs, gate->inputs, (weight + 1) * sizeof act->inputs[0]);
        act->inputs[weight + 1] = up->inputs[weight];
        act->input_count = weight + 2;
        act->attributes = gate->attributes;
        act->attributes.activation = activation;
        gate->op = DEAD;
        up->op = DEAD;
    }
    compact(graph);
    return PS_OK;
}

// Own rows whose whole is only quantised are quantised before they are gathered: fewer bytes move.
// The gathering goes to where the quantise was, which is where the whole is first read.
static ps_status quantise_before_gathering(ps_graph *graph)
{
    readers by;
    PS_TRY(find_readers(graph, &by));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        ps_node *gather = &graph->nodes[i];
        if (gather->op != PS_OP_ALL_GATHER_ROWS || by.count[gather->output] != 1) {
            continue;
        }
        ps_node *reader = &graph->nodes[by.last[gather->output]];
        if (reader->op != PS_OP_QUANTISE) {
            continue;
        }
        const ps_value_id whole = reader->output;
        const ps_node quantise = {.op = PS_OP_QUANTISE,
                                  .input_count = 1,
                                  .inputs = {gather->inputs[0]},
                                  .attributes = {.layer = gather->attributes.layer}};
        *reader = *gather;
        *gather = quantise;
        PS_TRY(add_derived(graph, quantise.inputs[0], "q8", PS_DTYPE_Q8_ROW, &gather->output));
        reader->inputs[0] = gather->output;
        reader->output = whole;
    }
    return PS_OK;
}

// A value whose only reader is a quantise is made in quantised form by its writer, where the writer
// can.
static ps_status quantise_at_the_writer(ps_graph *graph)
{
    readers by;
    PS_TRY(find_readers(graph, &by));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        ps_node *node = &graph->nodes[i];
        if (node->output == PS_NO_VALUE || by.count[node->output] != 1) {
            continue;
        }
        ps_node *reader = &graph->nodes[by.last[node->output]];
        const bool whole_norm = node->op == PS_OP_RMS_NORM &&
                                graph->values[node->inputs[1]].columns ==
                                    graph->values[node->output].columns;
        const bool can = whole_norm ||
                         ((node->op == PS_OP_GATE_UP || node->op == PS_OP_EXPERT_GATE_UP) &&
                          graph->values[node->output].columns % PS_BLOCK_COLUMNS == 0);
        if (reader->op != PS_OP_QUANTISE || !can || graph->values[node->output].is_output) {
            continue;
        }
        if (whole_norm) {
            node->op = PS_OP_NORM_QUANTISE;
        }
        node->output = reader->output;
        reader->op = DEAD;
    }
    compact(graph);
    return PS_OK;
}

// expert_gate_up and the expert_linear that is its only reader, which so is the next node: the
// first becomes both.
static ps_status fuse_experts(ps_graph *graph)
{
    readers by;
    PS_TRY(find_readers(graph, &by));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        ps_node *node = &graph->nodes[i];
        if (node->op != PS_OP_EXPERT_GATE_UP || by.count[node->output] != 1) {
            continue;
        }
        ps_node *down = &graph->nodes[by.last[node->output]];
        if (down->op == PS_OP_EXPERT_LINEAR && down->inputs[1] == node->inputs[1]) {
            node->op = PS_OP_EXPERT_FFN;
            node->inputs[node->input_count++] = down->inputs[2];
            node->output = down->output;
            down->op = DEAD;
        }
    }
    compact(graph);
    return PS_OK;
}

ps_status ps_pass_fuse(ps_graph *graph, const ps_pass_options *options)
{
    PS_TRY(make_quantisation_explicit(graph));
    PS_TRY(join_linears_of(graph, PS_SITE_ATTN_QKV));
    PS_TRY(join_linears_of(graph, PS_SITE_MOE_ROUTER)); // with that of an expectation
    if (keeps_activations(options)) {
        PS_TRY(join_linears_of(graph, PS_SITE_MLP_GATE_UP));
    }
    PS_TRY(fuse_gate_up(graph)); // those that are one linear are left
    PS_TRY(quantise_before_gathering(graph));
    PS_TRY(quantise_at_the_writer(graph));
    return options->streams_experts ? fuse_experts(graph) : PS_OK;
}
