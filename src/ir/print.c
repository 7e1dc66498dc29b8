// ir/print.c - a graph as text: docs/graph-text.md.
#include "base/value_text.h"
#include "ir/graph.h"

static ps_status print_values(const ps_graph *graph, bool late, ps_buffer *out)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const ps_value *value = &graph->values[i];
        if (ps_value_is_late(value, i) == late) {
            const ps_value_id base = ps_graph_storage(graph, i);
            PS_TRY(ps_value_print(value, graph->values[base].name, out));
            PS_TRY(ps_buffer_append(out, "\n", 1));
        }
    }
    return PS_OK;
}

static ps_status print_node(const ps_graph *graph, const ps_node *node, ps_buffer *out)
{
    const ps_value *inputs[PS_OP_INPUTS_MAX] = {0};
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = &graph->values[node->inputs[i]];
    }
    PS_TRY(ps_operation_print(node->op, &node->attributes, inputs, node->input_count,
                              node->output == PS_NO_VALUE ? NULL : &graph->values[node->output],
                              out));
    return ps_buffer_append(out, "\n", 1);
}

ps_status ps_graph_print(const ps_graph *graph, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "vocabulary %u\n", graph->vocabulary));
    for (uint32_t i = 0; i < graph->kv_group_count; i++) {
        PS_TRY(ps_buffer_printf(out, "kv_group window=%u\n", graph->kv_groups[i].window));
    }
    PS_TRY(ps_buffer_append(out, "\n", 1));
    PS_TRY(print_values(graph, false, out));
    PS_TRY(print_values(graph, true, out));
    PS_TRY(ps_buffer_append(out, "\n", 1));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        PS_TRY(print_node(graph, &graph->nodes[i], out));
    }
    return PS_OK;
}
