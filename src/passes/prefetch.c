// passes/prefetch.c - what to move while a collective is under way.
//
// The graph is a list in the order in which it runs. What stands between a collective and the next
// one waits for the first and not for the second: a walk over successors (the paper's) leaks past the
// next collective through the residual stream, and is not made.
#include "passes/passes.h"

#include "base/shapes.h"
#include "cost/cost.h"

#include <string.h>

// Below this a prefetch is not worth its looking after.
#define LEAST_BYTES ((uint64_t)16 << 10)

const char *ps_prefetch_policy_name(ps_prefetch_policy policy)
{
    static const char *const NAMES[PS_PREFETCH_POLICY_COUNT] = {"auto", "off", "preserve"};
    return (unsigned)policy < PS_PREFETCH_POLICY_COUNT ? NAMES[policy] : NULL;
}

// What one collective's time may be used for.
typedef struct budget {
    ps_prefetch_policy policy;
    uint64_t capacity_bytes; // preserve: the sum stays below it
    uint64_t left_bytes;
    bool is_over;
} budget;

static bool is_collective(const ps_node *node)
{
    return (ps_op_get(node->op)->flags & PS_OP_COLLECTIVE) != 0;
}

static budget start_budget(const ps_graph *graph, const ps_pass_options *options,
                           const ps_node *collective)
{
    const ps_machine *machine = options->machine;
    const uint64_t caches = machine->l2_bytes * machine->threads;
    if (options->prefetch == PS_PREFETCH_PRESERVE) {
        return (budget){
            .policy = PS_PREFETCH_PRESERVE, .capacity_bytes = caches, .left_bytes = caches};
    }
    const ps_value *moved = &graph->values[collective->inputs[0]];
    const uint64_t bytes = options->rows_max * (uint64_t)moved->columns * sizeof(float);
    const uint64_t time = (uint64_t)((double)ps_cost_collective_ns(machine, bytes) *
                                     machine->fill_gbs);
    const uint64_t room = caches / 4 * 3;
    return (budget){.policy = PS_PREFETCH_AUTO,
                    .capacity_bytes = room,
                    .left_bytes = time < room ? time : room};
}

// Bytes that a node reads of an operand in a step of one row; 0: none that can be prefetched.
static uint64_t stored_bytes(const ps_graph *graph, const ps_pass_options *options,
                             const ps_node *node, uint32_t operand)
{
    const ps_value *value = &graph->values[node->inputs[operand]];
    // With many rows, attention reads a KV cache again and again, and computing bounds it.
    if (node->op == PS_OP_ATTENTION && value->kind == PS_VALUE_KV &&
        options->rows_max <= PS_REPLICATED_ROWS_MAX) {
        return options->context_max * ps_value_kv_bytes(value);
    }
    if ((node->op == PS_OP_LINEAR || node->op == PS_OP_GATE_UP) && value->kind == PS_VALUE_WEIGHT) {
        return ps_packed_bytes(value->dtype, value->rows, value->columns);
    }
    return 0;
}

// Whether reading a weight is what its linear waits for, at the rows of the bucket.
static bool is_bound_by_memory(const ps_graph *graph, const ps_pass_options *options,
                               const ps_node *node, uint32_t operand, uint64_t bytes)
{
    const ps_value *value = &graph->values[node->inputs[operand]];
    if (value->kind == PS_VALUE_KV) {
        return true;
    }
    const uint64_t ops = options->rows_max * (uint64_t)value->rows * value->columns;
    const ps_work cold = {.memory_bytes = bytes};
    const bool is_int8 = ps_dtype_is_quantised(value->dtype);
    const ps_work work = {.int8_ops = is_int8 ? ops : 0, .f32_ops = is_int8 ? 0 : ops};
    return ps_cost_work_ns(options->machine, &work) < ps_cost_work_ns(options->machine, &cold);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// How many of `bytes` to move; 0: none.
static uint64_t take(budget *b, uint64_t bytes, bool is_kv)
{
    if (b->policy == PS_PREFETCH_PRESERVE) {
        if (bytes >= b->left_bytes) {
            b->is_over = true;
            return 0;
        }
        b->left_bytes -= bytes;
        return bytes;
    }
    const uint64_t taken = smaller(bytes, b->left_bytes);
    if (taken < smaller(bytes, LEAST_BYTES)) {
        return 0;
    }
    // How much of the longest context is there will be seen in the step; then the rest of the time
    // is for what comes behind it.
    b->left_bytes -= is_kv ? 0 : taken;
    return taken;
}

static ps_status add_prefetch(ps_graph *graph, const ps_node *reader, ps_value_id id,
                              uint64_t bytes, bool whole)
{
    const ps_node node = {.op = PS_OP_PREFETCH,
                          .input_count = 1,
                          .inputs = {id},
                          .output = PS_NO_VALUE,
                          .attributes = {.layer = reader->attributes.layer,
                                         .site = reader->attributes.site,
                                         .bytes = whole ? 0 : (uint32_t)bytes}};
    return ps_graph_add_node(graph, &node);
}

static ps_status prefetch_operands(ps_graph *graph, const ps_pass_options *options, budget *b,
                                   const ps_node *node)
{
    for (uint32_t i = 0; i < node->input_count && !b->is_over; i++) {
        const uint64_t bytes = stored_bytes(graph, options, node, i);
        if (bytes == 0 || (b->policy == PS_PREFETCH_AUTO &&
                           !is_bound_by_memory(graph, options, node, i, bytes))) {
            continue;
        }
        const bool is_kv = graph->values[node->inputs[i]].kind == PS_VALUE_KV;
        const uint64_t taken = smaller(take(b, bytes, is_kv), UINT32_MAX);
        if (taken > 0) {
            PS_TRY(add_prefetch(graph, node, node->inputs[i], taken, taken == bytes));
        }
    }
    return PS_OK;
}

ps_status ps_pass_prefetch(ps_graph *graph, const ps_pass_options *options)
{
    if (options->prefetch == PS_PREFETCH_OFF) {
        return PS_OK;
    }
    const uint32_t count = graph->node_count;
    ps_node *old = PS_ARENA_NEW(graph->arena, ps_node, count);
    if (old == NULL) {
        return PS_NO_MEMORY;
    }
    memcpy(old, graph->nodes, count * sizeof *old);
    graph->node_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(ps_graph_add_node(graph, &old[i]));
        if (!is_collective(&old[i])) {
            continue;
        }
        budget b = start_budget(graph, options, &old[i]);
        for (uint32_t j = i + 1; j < count && !is_collective(&old[j]) && !b.is_over; j++) {
            PS_TRY(prefetch_operands(graph, options, &b, &old[j]));
        }
    }
    return PS_OK;
}
