// cost/cost.c - the roofline.
#include "cost/cost.h"

#include "base/shapes.h"
#include "base/top_k.h"

uint64_t ps_cost_work_ns(const ps_machine *machine, const ps_work *work)
{
    const double times[] = {
        (double)work->memory_bytes / machine->read_gbs,
        (double)work->cache_bytes / machine->cache_read_gbs,
        (double)work->int8_ops / machine->int8_gops,
        (double)work->f32_ops / machine->f32_gops,
    };
    double longest = 0;
    for (unsigned i = 0; i < sizeof times / sizeof times[0]; i++) {
        longest = times[i] > longest ? times[i] : longest;
    }
    return (uint64_t)(longest + 0.5);
}

uint64_t ps_cost_collective_ns(const ps_machine *machine, uint64_t bytes)
{
    return (uint64_t)(machine->comm_ns + (double)bytes / machine->comm_gbs + 0.5);
}

uint64_t ps_cost_moved_bytes(ps_op op, const ps_op_attributes *attributes, uint32_t rows,
                             uint64_t row_bytes)
{
    uint32_t begin = 0;
    uint32_t end = 0;
    if (op == PS_OP_ALL_GATHER_BEST) {
        row_bytes = (uint64_t)attributes->top_k * attributes->ranks * sizeof(ps_candidate);
    } else if (op == PS_OP_REDUCE_SCATTER || op == PS_OP_ALL_GATHER_ROWS) {
        ps_share_rows(rows, attributes->rank, attributes->ranks, &begin, &end);
    }
    return (rows - (end - begin)) * row_bytes;
}

uint64_t ps_cost_fused_ns(const ps_machine *machine, uint64_t work_ns, uint64_t bytes,
                          uint32_t chunks)
{
    const uint64_t work = work_ns / chunks;
    const uint64_t moving = ps_cost_collective_ns(machine, bytes / chunks);
    return work + (chunks - 1) * (work > moving ? work : moving) + moving;
}
