// ir/graph.c - growing a graph in its arena, and finding values by name.
#include "ir/graph.h"

#include "base/hash.h"

#include <string.h>

#define CAPACITY_FIRST 64u

void ps_graph_init(ps_graph *graph, ps_arena *arena)
{
    *graph = (ps_graph){.arena = arena};
}

// Gives *array room for one more item. The old array stays in the arena: doubling wastes as much
// as it holds at most.
static ps_status grow(ps_arena *arena, void **array, size_t item_bytes, uint32_t count,
                      uint32_t *capacity)
{
    if (count < *capacity) {
        return PS_OK;
    }
    const uint32_t larger = *capacity == 0 ? CAPACITY_FIRST : *capacity * 2;
    void *copy = ps_arena_alloc(arena, larger, item_bytes);
    if (copy == NULL) {
        return PS_EXHAUSTED;
    }
    if (count > 0) {
        memcpy(copy, *array, count * item_bytes);
    }
    *array = copy;
    *capacity = larger;
    return PS_OK;
}

// The slot of the index that holds `name`, or the free one where it belongs. The index is never
// full.
static uint32_t slot_of(const ps_graph *graph, ps_str name)
{
    const uint32_t mask = graph->index_capacity - 1;
    uint32_t slot = (uint32_t)ps_hash(name.data, name.length, 0) & mask;
    while (graph->index[slot] != PS_NO_VALUE &&
           !ps_str_equal(name, graph->values[graph->index[slot]].name)) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

// Makes the index at least twice as large as the values, with one to come.
static ps_status grow_index(ps_graph *graph)
{
    if (graph->value_count < graph->index_capacity / 2) {
        return PS_OK;
    }
    const uint32_t capacity = graph->index_capacity == 0 ? CAPACITY_FIRST * 2
                                                         : graph->index_capacity * 2;
    uint32_t *index = PS_ARENA_NEW(graph->arena, uint32_t, capacity);
    if (index == NULL) {
        return PS_EXHAUSTED;
    }
    memset(index, 0xff, capacity * sizeof *index);
    graph->index = index;
    graph->index_capacity = capacity;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        index[slot_of(graph, ps_str_of(graph->values[i].name))] = i;
    }
    return PS_OK;
}

ps_status ps_graph_add_value(ps_graph *graph, const ps_value *value, ps_value_id *out)
{
    const ps_str name = ps_str_of(value->name);
    if (name.length == 0 || name.length > PS_VALUE_NAME_BYTES_MAX) {
        return ps_fail(PS_INVALID, "name of %zu bytes, 1 to %u would be right", name.length,
                       PS_VALUE_NAME_BYTES_MAX);
    }
    if (graph->value_count == PS_GRAPH_VALUES_MAX) {
        return ps_fail(PS_EXHAUSTED, "more than %u values", PS_GRAPH_VALUES_MAX);
    }
    if (ps_graph_find(graph, name) != PS_NO_VALUE) {
        return ps_fail(PS_INVALID, "there are two values named '%s'", value->name);
    }
    PS_TRY(grow_index(graph));
    void *values = graph->values;
    PS_TRY(grow(graph->arena, &values, sizeof *value, graph->value_count, &graph->value_capacity));
    graph->values = values;

    ps_value copy = *value;
    copy.name = ps_arena_strndup(graph->arena, name.data, name.length);
    if (copy.name == NULL) {
        return PS_EXHAUSTED;
    }
    graph->values[graph->value_count] = copy;
    graph->index[slot_of(graph, name)] = graph->value_count;
    *out = graph->value_count++;
    return PS_OK;
}

ps_status ps_graph_add_node(ps_graph *graph, const ps_node *node)
{
    if (graph->node_count == PS_GRAPH_NODES_MAX) {
        return ps_fail(PS_EXHAUSTED, "more than %u nodes", PS_GRAPH_NODES_MAX);
    }
    void *nodes = graph->nodes;
    PS_TRY(grow(graph->arena, &nodes, sizeof *node, graph->node_count, &graph->node_capacity));
    graph->nodes = nodes;
    graph->nodes[graph->node_count++] = *node;
    return PS_OK;
}

ps_value_id ps_graph_find(const ps_graph *graph, ps_str name)
{
    return graph->index_capacity == 0 ? PS_NO_VALUE : graph->index[slot_of(graph, name)];
}

ps_value_id ps_graph_storage(const ps_graph *graph, ps_value_id id)
{
    ps_assert(id < graph->value_count);
    const ps_value_id base = graph->values[id].alias_of;
    return base == PS_NO_VALUE ? id : base;
}
