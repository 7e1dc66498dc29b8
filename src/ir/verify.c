// ir/verify.c - what holds for every graph between two passes.
//
// Values are checked one by one, then nodes in order with a record of what has been written:
//   1. every value alone is in the limits and makes sense for its kind;
//   2. a node's operands exist, have been written, and fit it (shapes.c);
//   3. a value is written once, in whole: never through a view;
//   4. keys and values are written before attention reads them;
//   5. one value, [L, vocabulary], is the output.
#include "base/shapes.h"
#include "ir/graph.h"

static ps_status check_value(const ps_graph *graph, ps_value_id id)
{
    const ps_value *value = &graph->values[id];
    if (ps_graph_find(graph, ps_str_of(value->name)) != id) {
        return ps_fail(PS_INVALID, "another value has this name, or it was renamed or moved");
    }
    if (value->alias_of == PS_NO_VALUE) {
        return ps_value_check(value, NULL, graph->kv_group_count);
    }
    return value->alias_of < graph->value_count
               ? ps_value_check(value, &graph->values[value->alias_of], graph->kv_group_count)
               : ps_fail(PS_INVALID, "view of value %u of %u", value->alias_of, graph->value_count);
}

static ps_status check_operands(const ps_graph *graph, const ps_node *node)
{
    PS_TRY(ps_operand_counts_check(node->op, node->input_count, node->output != PS_NO_VALUE));
    const ps_value *inputs[PS_OP_INPUTS_MAX] = {0};
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] >= graph->value_count) {
            return ps_fail(PS_INVALID, "operand %u is value %u of %u", i, node->inputs[i],
                           graph->value_count);
        }
        inputs[i] = &graph->values[node->inputs[i]];
    }
    if (node->output != PS_NO_VALUE && node->output >= graph->value_count) {
        return ps_fail(PS_INVALID, "output is value %u of %u", node->output, graph->value_count);
    }
    return ps_operands_check(node->op, &node->attributes, inputs, node->input_count,
                             node->output == PS_NO_VALUE ? NULL : &graph->values[node->output]);
}

static ps_status mark_written(const ps_graph *graph, ps_value_id id, bool *written)
{
    const ps_value *value = &graph->values[id];
    if (value->alias_of != PS_NO_VALUE) {
        return ps_fail(PS_INVALID, "'%s' is a view; write '%s' in whole", value->name,
                       graph->values[value->alias_of].name);
    }
    if (written[id]) {
        return ps_fail(PS_INVALID, "'%s' is written twice", value->name);
    }
    written[id] = true;
    return PS_OK;
}

static ps_status check_order(const ps_graph *graph, const ps_node *node, bool *written)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ps_value *value = &graph->values[node->inputs[i]];
        if (value->kind == PS_VALUE_WEIGHT || node->op == PS_OP_PREFETCH) {
            continue; // of a kv, what earlier steps have written
        }
        if (value->kind == PS_VALUE_KV && node->op == PS_OP_KV_WRITE) {
            PS_TRY(mark_written(graph, node->inputs[i], written));
        } else if (!written[ps_graph_storage(graph, node->inputs[i])]) {
            return ps_fail(PS_INVALID, "'%s' is read before it is written", value->name);
        }
    }
    return node->output == PS_NO_VALUE ? PS_OK : mark_written(graph, node->output, written);
}

static ps_status check_node(const ps_graph *graph, const ps_node *node, bool *written)
{
    PS_TRY(check_operands(graph, node));
    return check_order(graph, node, written);
}

static ps_status check_output(const ps_graph *graph, const bool *written)
{
    const ps_value *output = NULL;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const ps_value *value = &graph->values[i];
        if (!value->is_output) {
            continue;
        }
        if (output != NULL) {
            return ps_fail(PS_INVALID, "'%s' and '%s' are both outputs", output->name, value->name);
        }
        output = value;
        PS_TRY(ps_value_check_output(value, graph->vocabulary));
        if (!written[i]) {
            return ps_fail(PS_INVALID, "output '%s' is not written", value->name);
        }
    }
    return output != NULL ? PS_OK : ps_fail(PS_INVALID, "no value is the output");
}

static ps_status check_nodes(const ps_graph *graph, bool *written)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const ps_node *node = &graph->nodes[i];
        if ((unsigned)node->op >= PS_OP_COUNT) {
            return ps_fail(PS_INVALID, "node %u: operator %d is unknown", i, (int)node->op);
        }
        const ps_status status = check_node(graph, node, written);
        if (status != PS_OK) {
            const bool named = node->output < graph->value_count;
            return ps_fail_prefix(status, "node %u, %s%s%s%s", i, ps_op_get(node->op)->name,
                                  named ? " to '" : "",
                                  named ? graph->values[node->output].name : "", named ? "'" : "");
        }
    }
    return check_output(graph, written);
}

static ps_status verify(const ps_graph *graph)
{
    PS_TRY(ps_range_check("kv groups", graph->kv_group_count, 0, PS_KV_GROUPS_MAX));
    PS_TRY(ps_range_check("vocabulary", graph->vocabulary, 1, PS_COLUMNS_MAX));
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const ps_status status = check_value(graph, i);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "value '%s'", graph->values[i].name);
        }
    }
    bool *written = PS_ARENA_NEW(graph->arena, bool, graph->value_count);
    return written == NULL ? PS_EXHAUSTED : check_nodes(graph, written);
}

ps_status ps_graph_verify(const ps_graph *graph, const char *after)
{
    ps_assert(graph->value_count <= PS_GRAPH_VALUES_MAX);
    ps_assert(graph->node_count <= PS_GRAPH_NODES_MAX);
    const ps_status status = verify(graph);
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "after %s", after);
}
