// ir/graph.h - operators and values of one step of a model.
//
// A graph is built once per bucket in an arena, changed by passes and read by the scheduler. Nodes
// are in an order in which every value is written before it is read. A value is written by one node
// at most. Not thread-safe; pure but for the arena.
#ifndef PS_IR_GRAPH_H
#define PS_IR_GRAPH_H

#include "base/names.h"
#include "base/value.h"

// Limits that keep every graph printable.
#define PS_GRAPH_VALUES_MAX 200000u
#define PS_GRAPH_NODES_MAX 200000u

typedef ps_operation ps_node;

// Layers whose KV lives equally long share block tables.
typedef struct ps_kv_group {
    uint32_t window; // positions a row sees, itself included; 0: all
} ps_kv_group;
#define PS_KV_GROUPS_MAX 4

typedef struct ps_graph {
    ps_arena *arena;
    ps_value *values;
    uint32_t value_count, value_capacity;
    ps_node *nodes;
    uint32_t node_count, node_capacity;
    ps_kv_group kv_groups[PS_KV_GROUPS_MAX];
    uint32_t kv_group_count;
    uint32_t vocabulary; // columns of the logits
    ps_names names;      // their numbers are the values' ids
} ps_graph;

// An empty graph whose memory comes from `arena` (borrowed, outlives the graph).
void ps_graph_init(ps_graph *graph, ps_arena *arena);

// Appends and gives the index. Names are copied, have 1 to PS_NAME_BYTES_MAX bytes and stay
// as they are: values may be changed in place, but not renamed, moved or removed.
//
// PS_INVALID    the name is empty, too long or taken
// PS_EXHAUSTED  a limit above, or the arena has no more
//
// On failure the graph is as it was.
PS_MUST_USE ps_status ps_graph_add_value(ps_graph *graph, const ps_value *value, ps_value_id *out);
PS_MUST_USE ps_status ps_graph_add_node(ps_graph *graph, const ps_node *node);

// The index of the value with that name, or PS_NO_VALUE. O(1).
ps_value_id ps_graph_find(const ps_graph *graph, ps_str name);

// The value whose storage `id` names: itself, or what it is a view of (views have no views).
ps_value_id ps_graph_storage(const ps_graph *graph, ps_value_id id);

// Checks everything that passes and the scheduler rely on: operand counts and kinds, shapes
// (ops.def), order of writing and reading, one writer a value, views inside their values, limits,
// unique names, and that the graph has one output. PS_INVALID names the node and what is wrong.
// `after` names the pass for the message.
PS_MUST_USE ps_status ps_graph_verify(const ps_graph *graph, const char *after);

// The text form (docs/graph-text.md), appended to *out, and back into an empty graph
// (ps_graph_init). Parsing accepts what printing gives of a verified graph, and checks syntax,
// names and limits only: verify afterwards. PS_INVALID names the line, and the nearest word for an
// unknown one; the graph is then good for nothing. Linear in the text.
PS_MUST_USE ps_status ps_graph_print(const ps_graph *graph, ps_buffer *out);
PS_MUST_USE ps_status ps_graph_parse(ps_str text, ps_graph *graph);

#endif
