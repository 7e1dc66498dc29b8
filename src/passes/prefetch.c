// passes/prefetch.c - what to move while a collective is under way.
//
// The graph is a list in the order in which it runs. What stands between a collective and the next
// one waits for the first and not for the second: a walk over successors (the paper's) leaks past
// the next collective through the residual stream, and is not made.
#include "passes/prefetch_internal.h"

#include "cost/cost.h"

#include <string.h>

const char *ps_prefetch_policy_name(ps_prefetch_policy policy)
{
    static const char *const NAMES[PS_PREFETCH_POLICY_COUNT] = {"default", "auto", "off",
                                                                "preserve", "ratio"};
    return (unsigned)policy < PS_PREFETCH_POLICY_COUNT ? NAMES[policy] : NULL;
}

// With one rank nobody pays for what has not been shown to pay: it has to be asked for. Without
// collectives there is nothing that preserve would do.
ps_prefetch_policy ps_prefetch_policy_of(ps_prefetch_policy policy, uint32_t ranks)
{
    if (ranks <= 1 && (policy == PS_PREFETCH_DEFAULT || policy == PS_PREFETCH_PRESERVE)) {
        return PS_PREFETCH_OFF;
    }
    return policy == PS_PREFETCH_DEFAULT ? PS_PREFETCH_AUTO : policy;
}

// What one collective's time may be used for.
typedef struct budget {
    ps_prefetch_policy policy;
    ps_prefetch_budget is; // preserve: the sum stays below what is left
    bool is_over;          // preserve: something did not fit
    bool is_ahead;         // auto: the next segment is at hand
    // [values] bytes that earlier waits have moved, and that nobody has read since.
    uint64_t *ahead;
} budget;

static bool is_collective(const ps_node *node)
{
    return (ps_op_get(node->op)->flags & PS_OP_COLLECTIVE) != 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// What can be moved while a collective is under way.
static uint64_t time_bytes(const ps_graph *graph, const ps_pass_options *options,
                           const ps_node *collective)
{
    const ps_machine *machine = options->machine;
    const uint64_t bytes = ps_cost_moved_bytes(
        collective->op, &collective->attributes, options->rows_max,
        ps_plan_row_bytes(&graph->values[collective->output]));
    return (uint64_t)(ps_cost_collective_ns(machine, collective->op, collective->attributes.ranks,
                                            bytes) *
                      machine->fill_gbs);
}

// What L2 gives up goes to a last level that is large beside it, and is still read faster from
// there than from memory: half of L2 beyond its size gains, as much as L2 no more (bench/ranks.py
// at 40 and 80 us on a Zen 4 core).
static uint64_t spill_bytes(const ps_machine *machine)
{
    const uint64_t l2 = ps_machine_l2_bytes(machine);
    return machine->llc_bytes >= 4 * l2 ? l2 / 2 : 0;
}

// ahead_bytes: of the next readers, that earlier waits have moved.
static budget start_budget(const ps_graph *graph, const ps_pass_options *options,
                           const ps_node *collective, uint64_t ahead_bytes)
{
    const ps_machine *machine = options->machine;
    if (options->prefetch == PS_PREFETCH_PRESERVE) {
        return (budget){.policy = PS_PREFETCH_PRESERVE,
                        .is.left_bytes = ps_machine_l2_bytes(machine)};
    }
    const uint64_t most = ps_prefetch_cache_bytes(machine) + spill_bytes(machine);
    const uint64_t room = most > ahead_bytes ? most - ahead_bytes : 0;
    return (budget){.policy = PS_PREFETCH_AUTO,
                    .is = ps_prefetch_budget_of(time_bytes(graph, options, collective), room)};
}

static ps_prefetch_operand operand_of(const ps_graph *graph, const ps_node *node, uint32_t index)
{
    return (ps_prefetch_operand){.op = node->op,
                                 .attributes = &node->attributes,
                                 .value = &graph->values[node->inputs[index]],
                                 .query_columns = graph->values[node->inputs[0]].columns};
}

static uint64_t stored_bytes(const ps_graph *graph, const ps_pass_options *options,
                             const ps_node *node, uint32_t index)
{
    const ps_prefetch_operand operand = operand_of(graph, node, index);
    return ps_prefetch_operand_bytes(options, &operand);
}

// preserve: all of it, while the sum stays below the capacity; nothing behind the first misfit.
static ps_reason take_whole(budget *b, uint64_t bytes)
{
    if (b->is_over) {
        return PS_REASON_AFTER_MISFIT;
    }
    if (bytes >= b->is.left_bytes) {
        b->is_over = true;
        return PS_REASON_NO_CAPACITY;
    }
    b->is.left_bytes -= bytes;
    return PS_REASON_WHOLE;
}

static ps_status prefetch_operand(ps_graph *graph, const ps_pass_options *options, budget *b,
                                  const ps_node *reader, uint32_t index, uint64_t bytes)
{
    const ps_value_id id = reader->inputs[index];
    const ps_prefetch_operand operand = operand_of(graph, reader, index);
    const bool is_kv = operand.value->kind == PS_VALUE_KV;
    const uint64_t skip = b->ahead[id];
    // All of it has been moved, or is for whoever reads it before; of a KV, what there is of it.
    if (skip >= bytes || (is_kv && (b->is_ahead || skip > 0))) {
        return PS_OK;
    }
    bytes -= skip;
    ps_reason reason;
    if (b->policy == PS_PREFETCH_PRESERVE) {
        reason = take_whole(b, bytes);
    } else if (!ps_prefetch_is_bound_by_memory(options, &operand, bytes)) {
        reason = PS_REASON_COMPUTE_BOUND;
    } else {
        reason = ps_prefetch_take_part(&b->is, is_kv, &bytes);
    }
    if (b->is_ahead && reason >= PS_REASON_DECLINED) {
        return PS_OK; // its own wait will say so
    }
    const bool is_whole = reason == PS_REASON_WHOLE;
    const ps_node node = {
        .op = PS_OP_PREFETCH,
        .input_count = 1,
        .inputs = {id},
        .output = PS_NO_VALUE,
        .attributes = {.layer = reader->attributes.layer,
                       .site = reader->attributes.site,
                       .bytes = is_whole ? 0 : (uint32_t)smaller(bytes, UINT32_MAX),
                       .skip = (uint32_t)smaller(skip, UINT32_MAX),
                       .context_shards = reader->attributes.context_shards,
                       .reason = reason}};
    b->ahead[id] += reason >= PS_REASON_DECLINED ? 0 : bytes;
    return ps_graph_add_node(graph, &node);
}

static ps_status prefetch_operands(ps_graph *graph, const ps_pass_options *options, budget *b,
                                   const ps_node *reader)
{
    for (uint32_t i = 0; i < reader->input_count; i++) {
        const uint64_t bytes = stored_bytes(graph, options, reader, i);
        if (bytes > 0) {
            PS_TRY(prefetch_operand(graph, options, b, reader, i, bytes));
        }
    }
    return PS_OK;
}

// What stands from `begin` up to the next collective, which is at *end.
static ps_status prefetch_segment(ps_graph *graph, const ps_pass_options *options, budget *b,
                                  const ps_node *nodes, uint32_t count, uint32_t begin,
                                  uint32_t *end)
{
    uint32_t i = begin;
    for (; i < count; i++) {
        // A linear that is reduced as it goes reads its weight before it waits.
        if (!is_collective(&nodes[i]) || nodes[i].op == PS_OP_LINEAR_ALL_REDUCE) {
            PS_TRY(prefetch_operands(graph, options, b, &nodes[i]));
        }
        if (is_collective(&nodes[i])) {
            break;
        }
    }
    *end = i;
    return PS_OK;
}

// Bytes of the operands up to the next collective that earlier waits have moved.
static uint64_t ahead_of(const ps_node *nodes, uint32_t count, uint32_t begin,
                         const uint64_t *ahead)
{
    uint64_t bytes = 0;
    for (uint32_t i = begin; i < count && !is_collective(&nodes[i]); i++) {
        for (uint32_t j = 0; j < nodes[i].input_count; j++) {
            bytes += ahead[nodes[i].inputs[j]];
        }
    }
    return bytes;
}

// Bytes that the operators up to the next collective read of what can be prefetched.
static uint64_t segment_bytes(const ps_graph *graph, const ps_pass_options *options,
                              const ps_node *nodes, uint32_t count, uint32_t begin)
{
    uint64_t bytes = 0;
    for (uint32_t i = begin; i < count && !is_collective(&nodes[i]); i++) {
        for (uint32_t j = 0; j < nodes[i].input_count; j++) {
            bytes += stored_bytes(graph, options, &nodes[i], j);
        }
    }
    return bytes;
}

// What is moved for the next segment is older than what this one reads before it: caches that give
// up the oldest lines keep it only if all of this segment and the next wait's own bytes fit beside
// it.
static uint64_t room_ahead(const ps_graph *graph, const ps_pass_options *options,
                           const ps_node *nodes, uint32_t count, uint32_t collective, uint32_t end)
{
    const uint64_t room = ps_prefetch_cache_bytes(options->machine);
    const uint64_t own = segment_bytes(graph, options, nodes, count, collective + 1);
    const uint64_t next = smaller(segment_bytes(graph, options, nodes, count, end + 1),
                                  time_bytes(graph, options, &nodes[end]));
    return room > own + next ? room - own - next : 0;
}

static ps_status fill_wait(ps_graph *graph, const ps_pass_options *options, const ps_node *nodes,
                           uint32_t count, uint32_t collective, uint64_t *ahead)
{
    budget b = start_budget(graph, options, &nodes[collective],
                            ahead_of(nodes, count, collective + 1, ahead));
    uint32_t end = count;
    b.ahead = ahead;
    PS_TRY(prefetch_segment(graph, options, &b, nodes, count, collective + 1, &end));
    if (b.policy != PS_PREFETCH_AUTO || end + 1 >= count) {
        return PS_OK;
    }
    // A wait that outlasts its own segment is used for the next one.
    b.is_ahead = true;
    b.is.left_bytes = smaller(b.is.left_bytes,
                              room_ahead(graph, options, nodes, count, collective, end));
    return b.is.left_bytes < PS_PREFETCH_LEAST_BYTES
               ? PS_OK
               : prefetch_segment(graph, options, &b, nodes, count, end + 1, &end);
}

// What has been read may be gone when it is needed again: it can be moved again.
static void note_reads(const ps_node *node, uint64_t *ahead)
{
    // A kv_write reads nothing of what is there.
    const uint32_t reads = node->op == PS_OP_KV_WRITE ? 2 : node->input_count;
    for (uint32_t i = 0; i < reads; i++) {
        ahead[node->inputs[i]] = 0;
    }
}

ps_status ps_pass_prefetch(ps_graph *graph, const ps_pass_options *options)
{
    if (options->prefetch == PS_PREFETCH_OFF || options->prefetch == PS_PREFETCH_RATIO) {
        return PS_OK;
    }
    const uint32_t count = graph->node_count;
    for (uint32_t i = 0; i < count; i++) {
        if (graph->nodes[i].op == PS_OP_PREFETCH) {
            return ps_fail(PS_INVALID,
                           "the graph has prefetches already (node %u); the policy off "
                           "would leave it as it is",
                           i);
        }
    }
    ps_node *old = PS_ARENA_NEW(graph->arena, ps_node, count);
    uint64_t *ahead = PS_ARENA_NEW(graph->arena, uint64_t, graph->value_count);
    if (old == NULL || ahead == NULL) {
        return PS_NO_MEMORY;
    }
    memcpy(old, graph->nodes, count * sizeof *old);
    graph->node_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(ps_graph_add_node(graph, &old[i]));
        note_reads(&old[i], ahead);
        if (is_collective(&old[i])) {
            PS_TRY(fill_wait(graph, options, old, count, i, ahead));
        }
    }
    return PS_OK;
}
