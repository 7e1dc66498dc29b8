// ir/graph.c - growing a graph in its arena.
#include "ir/graph.h"

void ps_graph_init(ps_graph *graph, ps_arena *arena)
{
    *graph = (ps_graph){.arena = arena, .names = {.arena = arena}};
}

ps_status ps_graph_add_value(ps_graph *graph, const ps_value *value, ps_value_id *out)
{
    if (graph->value_count == PS_GRAPH_VALUES_MAX) {
        return ps_fail(PS_EXHAUSTED, "more than %u values", PS_GRAPH_VALUES_MAX);
    }
    void *values = graph->values;
    PS_TRY(ps_arena_grow(graph->arena, &values, sizeof *value, graph->value_count,
                         &graph->value_capacity));
    graph->values = values;
    PS_TRY(ps_names_add(&graph->names, ps_str_of(value->name)));
    graph->values[graph->value_count] = *value;
    graph->values[graph->value_count].name = graph->names.names[graph->value_count];
    *out = graph->value_count++;
    return PS_OK;
}

ps_status ps_graph_add_node(ps_graph *graph, const ps_node *node)
{
    if (graph->node_count == PS_GRAPH_NODES_MAX) {
        return ps_fail(PS_EXHAUSTED, "more than %u nodes", PS_GRAPH_NODES_MAX);
    }
    void *nodes = graph->nodes;
    PS_TRY(ps_arena_grow(graph->arena, &nodes, sizeof *node, graph->node_count,
                         &graph->node_capacity));
    graph->nodes = nodes;
    graph->nodes[graph->node_count++] = *node;
    return PS_OK;
}

ps_value_id ps_graph_find(const ps_graph *graph, ps_str name)
{
    return ps_names_find(&graph->names, name);
}

ps_value_id ps_graph_storage(const ps_graph *graph, ps_value_id id)
{
    ps_assert(id < graph->value_count);
    const ps_value_id base = graph->values[id].alias_of;
    return base == PS_NO_VALUE ? id : base;
}
