// passes/comm_schedule.c - a linear and the sum of its result over the ranks, one after the other
// or chunk by chunk.
#include "passes/passes.h"

#include "base/shapes.h"
#include "cost/cost.h"

#include <string.h>

#define ROWS_LEAST 16u // of a chunk: below, weights would be read again for few rows

const char *ps_comm_schedule_name(ps_comm_schedule schedule)
{
    static const char *const NAMES[PS_COMM_SCHEDULE_COUNT] = {"auto", "serial", "fused"};
    return (unsigned)schedule < PS_COMM_SCHEDULE_COUNT ? NAMES[schedule] : NULL;
}

// Of one rank, when all have the same share. Every rank has to come to the same answer, whatever
// its own share is.
static uint64_t linear_ns(const ps_pass_options *options, const ps_value *weight)
{
    const uint64_t columns = ps_divide_up(weight->columns, options->ranks);
    const uint64_t ops = options->rows_max * weight->rows * columns;
    const bool is_int8 = ps_dtype_is_quantised(weight->dtype);
    const uint64_t bytes = ps_packed_bytes(weight->dtype, weight->rows, weight->columns);
    const ps_work work = {.memory_bytes = bytes / options->ranks,
                          .int8_ops = is_int8 ? ops : 0,
                          .f32_ops = is_int8 ? 0 : ops};
    return ps_cost_work_ns(options->machine, &work);
}

// How many chunks; 1: one after the other. Fused takes the most that rows allow, up to 8; auto the
// number that should take the least time.
static uint32_t choose_chunks(const ps_pass_options *options, const ps_value *weight)
{
    const uint32_t most = options->rows_max / ROWS_LEAST < 8 ? options->rows_max / ROWS_LEAST : 8;
    const uint64_t work_ns = linear_ns(options, weight);
    const uint64_t bytes = options->rows_max * (uint64_t)weight->rows * sizeof(float);
    uint32_t best = 1;
    for (uint32_t chunks = 2; chunks <= most; chunks *= 2) {
        if (options->comm_schedule == PS_COMM_FUSED ||
            ps_cost_fused_ns(options->machine, work_ns, options->ranks, bytes, chunks) <
                ps_cost_fused_ns(options->machine, work_ns, options->ranks, bytes, best)) {
            best = chunks;
        }
    }
    return best;
}

static bool is_serial(const ps_pass_options *options)
{
    return options->ranks <= 1 || options->comm_schedule == PS_COMM_SERIAL ||
           options->sequence_parallel;
}

ps_status ps_pass_comm_chunks(ps_graph *graph, const ps_pass_options *options)
{
    if (is_serial(options)) {
        return PS_OK;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        ps_node *node = &graph->nodes[i];
        if (node->op == PS_OP_LINEAR && node->input_count == 2) {
            node->attributes.chunks = choose_chunks(options, &graph->values[node->inputs[1]]);
        }
    }
    return PS_OK;
}

ps_status ps_pass_comm_schedule(ps_graph *graph, const ps_pass_options *options)
{
    if (is_serial(options)) {
        return PS_OK;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        ps_node node = graph->nodes[i];
        const ps_node *next = i + 1 < graph->node_count ? &graph->nodes[i + 1] : NULL;
        // A sum of linears has one reader, the all_reduce that the sharding put behind it.
        if (node.op == PS_OP_LINEAR && node.attributes.chunks > 1 && next != NULL &&
            next->op == PS_OP_ALL_REDUCE && next->inputs[0] == node.output) {
            node.op = PS_OP_LINEAR_ALL_REDUCE;
            node.output = next->output;
            node.attributes.ranks = next->attributes.ranks;
            node.attributes.rank = next->attributes.rank;
            node.attributes.window = PS_WINDOW_COMM;
            i++;
        } else if (node.op == PS_OP_LINEAR) {
            node.attributes.chunks = 0;
        }
        graph->nodes[kept++] = node;
    }
    graph->node_count = kept;
    return PS_OK;
}
