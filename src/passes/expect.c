// passes/expect.c - which experts the next layer will want, guessed a layer early.
//
// The next layer's router is asked with what this layer's router reads: the residual stream changes
// little from layer to layer (facts: 70 to 89 % of the guesses are right). Its logits and route are
// values of their own, which nothing but an expert_expect reads.
#include "passes/passes.h"

#include <string.h>

// The router of a layer, its linear, and the first weight of its experts.
typedef struct router {
    uint32_t linear, route; // nodes
    ps_value_id experts;
} router;

static uint32_t find_routers(const ps_graph *graph, router *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const ps_node *node = &graph->nodes[i];
        if (node->op == PS_OP_LINEAR && (ps_site)node->attributes.site == PS_SITE_MOE_ROUTER) {
            out[count] = (router){.linear = i, .experts = PS_NO_VALUE};
        } else if (node->op == PS_OP_ROUTE &&
                   node->inputs[0] == graph->nodes[out[count].linear].output) {
            out[count++].route = i;
        } else if (node->op == PS_OP_EXPERT_LINEAR && count > 0 &&
                   node->inputs[1] == graph->nodes[out[count - 1].route].output &&
                   out[count - 1].experts == PS_NO_VALUE) {
            out[count - 1].experts = node->inputs[2];
        }
    }
    return count;
}

static ps_status add_copy(ps_graph *graph, const char *prefix, ps_value_id of, ps_value_id *out)
{
    ps_value value = graph->values[of];
    value.name = ps_arena_printf(graph->arena, "%s.%s", prefix, value.name);
    return value.name == NULL ? PS_NO_MEMORY : ps_graph_add_value(graph, &value, out);
}

// A node of a later layer for the layer of `here`.
static ps_node moved(const ps_node *node, const ps_node *here, ps_value_id input,
                     ps_value_id output)
{
    ps_node copy = *node;
    copy.inputs[0] = input;
    copy.output = output;
    copy.attributes.layer = here->attributes.layer;
    return copy;
}

static ps_status add_expectation(ps_graph *graph, const ps_node *old, const router *here,
                                 const router *next, ps_value_id *logits)
{
    ps_value_id route;
    PS_TRY(add_copy(graph, "expect", old[next->route].output, &route));
    const ps_node guess = moved(&old[next->route], &old[here->route], *logits, route);
    PS_TRY(ps_graph_add_node(graph, &guess));
    return ps_graph_add_node(
        graph, &(ps_node){.op = PS_OP_EXPERT_EXPECT,
                          .input_count = 2,
                          .inputs = {route, next->experts},
                          .output = PS_NO_VALUE,
                          .attributes = {.layer = old[here->route].attributes.layer,
                                         .top_k = old[next->route].attributes.top_k,
                                         .experts = old[next->route].attributes.experts}});
}

ps_status ps_pass_expect(ps_graph *graph, const ps_pass_options *options)
{
    if (!options->streams_experts || options->rows_max > PS_REPLICATED_ROWS_MAX) {
        return PS_OK;
    }
    const uint32_t count = graph->node_count;
    ps_node *old = PS_ARENA_NEW(graph->arena, ps_node, count);
    router *routers = PS_ARENA_NEW(graph->arena, router, count + 1);
    if (old == NULL || routers == NULL) {
        return PS_NO_MEMORY;
    }
    memcpy(old, graph->nodes, count * sizeof *old);
    const uint32_t router_count = find_routers(graph, routers);
    graph->node_count = 0;
    uint32_t at = 0;
    ps_value_id logits = PS_NO_VALUE;
    for (uint32_t i = 0; i < count; i++) {
        const bool has_next = at + 1 < router_count;
        PS_TRY(ps_graph_add_node(graph, &old[i]));
        if (has_next && i == routers[at].linear) {
            const ps_node *next = &old[routers[at + 1].linear];
            PS_TRY(add_copy(graph, "expect", next->output, &logits));
            const ps_node guess = moved(next, &old[i], old[i].inputs[0], logits);
            PS_TRY(ps_graph_add_node(graph, &guess));
        } else if (has_next && i == routers[at].route) {
            PS_TRY(add_expectation(graph, old, &routers[at], &routers[at + 1], &logits));
            at++;
        }
    }
    return PS_OK;
}
