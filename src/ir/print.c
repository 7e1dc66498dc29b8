// ir/print.c - a graph as text: docs/graph-text.md.
#include "base/attributes.h"
#include "ir/graph.h"

static ps_status print_name(const char *name, ps_buffer *out)
{
    PS_TRY(ps_buffer_append(out, "%", 1));
    return ps_buffer_string(out, ps_str_of(name));
}

static ps_status print_weight(const ps_value *value, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "weight %s [", ps_dtype_get(value->dtype)->name));
    if (value->experts > 0) {
        PS_TRY(ps_buffer_printf(out, "%u, ", value->experts));
    }
    return ps_buffer_printf(out, "%u, %u]", value->rows, value->columns);
}

static ps_status print_kv(const ps_value *value, ps_buffer *out)
{
    return ps_buffer_printf(out, "kv %s [%u] {group=%u head_dim=%u}",
                            ps_dtype_get(value->dtype)->name, value->columns, value->kv_group,
                            value->head_dim);
}

static ps_status print_activation(const ps_graph *graph, const ps_value *value, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "activation %s [", ps_dtype_get(value->dtype)->name));
    if (value->row_multiplier != 1) {
        PS_TRY(ps_buffer_printf(out, "%u", value->row_multiplier));
    }
    PS_TRY(ps_buffer_printf(out, "%s, %u]", value->row_kind == PS_ROWS_STEP ? "T" : "L",
                            value->columns));
    if (value->alias_of != PS_NO_VALUE) {
        PS_TRY(ps_buffer_printf(out, " {of="));
        PS_TRY(print_name(graph->values[value->alias_of].name, out));
        PS_TRY(ps_buffer_printf(out, " column=%u}", value->alias_column));
    }
    return value->is_output ? ps_buffer_printf(out, " output") : PS_OK;
}

static ps_status print_value(const ps_graph *graph, const ps_value *value, ps_buffer *out)
{
    PS_TRY(print_name(value->name, out));
    PS_TRY(ps_buffer_printf(out, " = "));
    switch (value->kind) {
    case PS_VALUE_WEIGHT:
        PS_TRY(print_weight(value, out));
        break;
    case PS_VALUE_KV:
        PS_TRY(print_kv(value, out));
        break;
    default:
        PS_TRY(print_activation(graph, value, out));
        break;
    }
    return ps_buffer_append(out, "\n", 1);
}

static ps_status print_node(const ps_graph *graph, const ps_node *node, ps_buffer *out)
{
    if (node->output != PS_NO_VALUE) {
        PS_TRY(print_name(graph->values[node->output].name, out));
        PS_TRY(ps_buffer_printf(out, " = "));
    }
    PS_TRY(ps_buffer_printf(out, "%s", ps_op_get(node->op)->name));
    for (uint32_t i = 0; i < node->input_count; i++) {
        PS_TRY(ps_buffer_printf(out, i == 0 ? " " : ", "));
        PS_TRY(print_name(graph->values[node->inputs[i]].name, out));
    }
    PS_TRY(ps_attributes_print(&node->attributes, out));
    return ps_buffer_append(out, "\n", 1);
}

ps_status ps_graph_print(const ps_graph *graph, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "vocabulary %u\n", graph->vocabulary));
    for (uint32_t i = 0; i < graph->kv_group_count; i++) {
        PS_TRY(ps_buffer_printf(out, "kv_group window=%u\n", graph->kv_groups[i].window));
    }
    PS_TRY(ps_buffer_append(out, "\n", 1));
    for (uint32_t i = 0; i < graph->value_count; i++) {
        PS_TRY(print_value(graph, &graph->values[i], out));
    }
    PS_TRY(ps_buffer_append(out, "\n", 1));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        PS_TRY(print_node(graph, &graph->nodes[i], out));
    }
    return PS_OK;
}
