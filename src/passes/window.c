// passes/window.c - where the memory system has room.
#include "passes/passes.h"

ps_status ps_pass_window(ps_graph *graph, const ps_pass_options *options)
{
    (void)options;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const uint8_t flags = ps_op_get(graph->nodes[i].op)->flags;
        graph->nodes[i].attributes.window = (flags & PS_OP_COLLECTIVE) != 0 ? PS_WINDOW_COMM
                                            : (flags & PS_OP_VECTOR) != 0   ? PS_WINDOW_VECTOR
                                                                            : PS_WINDOW_NONE;
    }
    return PS_OK;
}
