// ir/verify.c - what holds for every graph between two passes.
//
// Values are checked one by one, then nodes in order with a record of what has been written:
//   1. every value alone is in the limits and makes sense for its kind;
//   2. a node's operands exist, have been written, and fit it (shapes.c);
//   3. a value is written once, in whole: never through a view;
//   4. keys and values are written before attention reads them;
//   5. one value, [L, vocabulary], is the output.
#include "base/attributes.h"
#include "ir/graph.h"
#include "ir/shapes.h"

static ps_status check_between(const char *what, uint32_t value, uint32_t lowest, uint32_t highest)
{
    return value >= lowest && value <= highest
               ? PS_OK
               : ps_fail(PS_INVALID, "%s %u, %u to %u would be right", what, value, lowest,
                         highest);
}

static ps_status check_weight(const ps_value *value)
{
    if (value->dtype == PS_DTYPE_I32 || value->dtype == PS_DTYPE_Q8_ROW) {
        return ps_fail(PS_INVALID, "weights cannot be %s", ps_dtype_get(value->dtype)->name);
    }
    PS_TRY(check_between("rows", value->rows, 1, PS_COLUMNS_MAX));
    return check_between("experts", value->experts, 0, PS_EXPERTS_MAX);
}

static ps_status check_kv(const ps_graph *graph, const ps_value *value)
{
    if (value->dtype != PS_DTYPE_F16) {
        return ps_fail(PS_INVALID, "kv is %s, F16 would be right",
                       ps_dtype_get(value->dtype)->name);
    }
    if (value->kv_group >= graph->kv_group_count) {
        return ps_fail(PS_INVALID, "group %u, but there are %u kv groups", value->kv_group,
                       graph->kv_group_count);
    }
    PS_TRY(ps_head_dim_check(value->head_dim));
    return value->columns % value->head_dim == 0
               ? PS_OK
               : ps_fail(PS_INVALID, "%u columns, a multiple of head_dim=%u would be right",
                         value->columns, value->head_dim);
}

static ps_status check_view(const ps_graph *graph, const ps_value *view)
{
    if (view->alias_of >= graph->value_count) {
        return ps_fail(PS_INVALID, "view of value %u of %u", view->alias_of, graph->value_count);
    }
    const ps_value *base = &graph->values[view->alias_of];
    if (base->kind != PS_VALUE_ACTIVATION || base->alias_of != PS_NO_VALUE) {
        return ps_fail(PS_INVALID, "view of '%s', which is no activation with its own storage",
                       base->name);
    }
    if (base->dtype != PS_DTYPE_F32 || view->dtype != PS_DTYPE_F32) {
        return ps_fail(PS_INVALID, "views and what they view must be F32");
    }
    if (base->row_kind != view->row_kind || base->row_multiplier != view->row_multiplier) {
        return ps_fail(PS_INVALID, "a view must have the rows of '%s'", base->name);
    }
    const uint64_t end = (uint64_t)view->alias_column + view->columns;
    return end <= base->columns
               ? PS_OK
               : ps_fail(PS_INVALID, "view of columns %u to %llu of '%s', which has %u",
                         view->alias_column, (unsigned long long)end, base->name, base->columns);
}

static ps_status check_activation(const ps_graph *graph, const ps_value *value)
{
    if (value->dtype != PS_DTYPE_F32 && value->dtype != PS_DTYPE_Q8_ROW) {
        return ps_fail(PS_INVALID, "activation is %s, F32 or q8_row would be right",
                       ps_dtype_get(value->dtype)->name);
    }
    if (value->row_kind != PS_ROWS_STEP && value->row_kind != PS_ROWS_LOGITS) {
        return ps_fail(PS_INVALID, "row kind %d is unknown", (int)value->row_kind);
    }
    PS_TRY(check_between("row multiplier", value->row_multiplier, 1, PS_EXPERTS_MAX));
    return value->alias_of == PS_NO_VALUE ? PS_OK : check_view(graph, value);
}

static ps_status check_value(const ps_graph *graph, ps_value_id id)
{
    const ps_value *value = &graph->values[id];
    if (ps_graph_find(graph, ps_str_of(value->name)) != id) {
        return ps_fail(PS_INVALID, "another value has this name, or it was renamed or moved");
    }
    if ((unsigned)value->dtype >= PS_DTYPE_COUNT) {
        return ps_fail(PS_INVALID, "dtype %d is unknown", (int)value->dtype);
    }
    PS_TRY(check_between("columns", value->columns, 1, PS_COLUMNS_MAX));
    const ps_dtype_info *format = ps_dtype_get(value->dtype);
    if (value->columns % format->block_columns != 0) {
        return ps_fail(PS_INVALID, "%u columns, a multiple of %u would be right for %s",
                       value->columns, format->block_columns, format->name);
    }
    if (value->kind != PS_VALUE_ACTIVATION && value->alias_of != PS_NO_VALUE) {
        return ps_fail(PS_INVALID, "only activations are views");
    }
    switch (value->kind) {
    case PS_VALUE_WEIGHT:
        return check_weight(value);
    case PS_VALUE_KV:
        return check_kv(graph, value);
    case PS_VALUE_ACTIVATION:
        return check_activation(graph, value);
    default:
        return ps_fail(PS_INVALID, "value kind %d is unknown", (int)value->kind);
    }
}

static ps_status check_operands(const ps_graph *graph, const ps_node *node)
{
    const ps_op_info *info = ps_op_get(node->op);
    if (node->input_count < info->inputs_min || node->input_count > info->inputs_max) {
        return ps_fail(PS_INVALID, "%u operands, %u to %u would be right", node->input_count,
                       info->inputs_min, info->inputs_max);
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] >= graph->value_count) {
            return ps_fail(PS_INVALID, "operand %u is value %u of %u", i, node->inputs[i],
                           graph->value_count);
        }
    }
    if ((node->output != PS_NO_VALUE) != (info->outputs == 1)) {
        return ps_fail(PS_INVALID, info->outputs == 1 ? "an output is missing" : "has no output");
    }
    return node->output == PS_NO_VALUE || node->output < graph->value_count
               ? PS_OK
               : ps_fail(PS_INVALID, "output is value %u of %u", node->output, graph->value_count);
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
        if (value->kind == PS_VALUE_WEIGHT) {
            continue;
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
    PS_TRY(ps_attributes_check(&node->attributes));
    PS_TRY(ps_node_check_shapes(graph, node));
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
        if (!written[i] || value->kind != PS_VALUE_ACTIVATION || value->dtype != PS_DTYPE_F32 ||
            value->row_kind != PS_ROWS_LOGITS || value->row_multiplier != 1 ||
            value->columns != graph->vocabulary) {
            return ps_fail(PS_INVALID, "output '%s' must be a written F32 activation [L, %u]",
                           value->name, graph->vocabulary);
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
    PS_TRY(check_between("kv groups", graph->kv_group_count, 0, PS_KV_GROUPS_MAX));
    PS_TRY(check_between("vocabulary", graph->vocabulary, 1, PS_COLUMNS_MAX));
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
