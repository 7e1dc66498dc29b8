// cost/cost.c - the roofline, and collectives.
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

static bool is_sum(ps_op op)
{
    return op == PS_OP_ALL_REDUCE || op == PS_OP_LINEAR_ALL_REDUCE;
}

static uint32_t log2_up(uint32_t n)
{
    uint32_t bits = 0;
    while (bits < 31 && (1u << bits) < n) {
        bits++;
    }
    return bits;
}

// A collective of n ranks that are linked alike; `bytes` of the whole result, which a sum crosses
// twice and others once.
static double linked_ns(ps_comm_shape shape, uint32_t n, double times, double bytes, double step_ns,
                        double gbs)
{
    const double others = (double)(n - 1) / n;
    switch (shape) {
    case PS_COMM_SHAPE_RING:
        return times * (n - 1) * step_ns + times * others * bytes / gbs;
    case PS_COMM_SHAPE_MESH:
        return times * step_ns + times * others * bytes / gbs;
    case PS_COMM_SHAPE_TREE:
        return times * log2_up(n) * step_ns + times * bytes / gbs;
    default:
        return bytes / gbs;
    }
}

double ps_cost_collective_ns(const ps_machine *machine, ps_op op, uint32_t ranks, uint64_t bytes)
{
    const ps_machine_profile *p = &machine->profile;
    const ps_comm_shape shape = (ps_comm_shape)p->comm_shape;
    const double times = is_sum(op) ? 2 : 1;
    const double share = p->element_bytes == 0 ? 1 : p->element_bytes / (double)sizeof(float);
    double whole = (double)bytes * share;
    if (shape == PS_COMM_SHAPE_FLAT || ranks <= 1) {
        return machine->comm_ns + whole / machine->comm_gbs;
    }
    if (op == PS_OP_REDUCE_SCATTER || op == PS_OP_ALL_GATHER_ROWS) { // those of the others
        whole *= (double)ranks / (ranks - 1);
    }
    const bool is_one = p->server_ranks == 0 || ranks <= p->server_ranks;
    const uint32_t inside = is_one ? ranks : p->server_ranks;
    double ns = machine->comm_ns;
    ns += linked_ns(shape, inside, times, whole, p->comm_step_ns, machine->comm_gbs);
    if (!is_one) {
        const uint32_t servers = (ranks + inside - 1) / inside;
        ns += p->server_comm_ns + linked_ns(shape, servers, times, whole / inside,
                                            p->server_step_ns, p->server_comm_gbs);
    }
    return ns;
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

double ps_cost_chunk_ns(const ps_machine *machine, uint32_t ranks, uint64_t bytes)
{
    const double chunk_ns = machine->profile.chunk_ns;
    const double ns = ps_cost_collective_ns(machine, PS_OP_LINEAR_ALL_REDUCE, ranks, bytes);
    return chunk_ns == 0 ? ns : ns - machine->comm_ns + chunk_ns;
}

uint64_t ps_cost_fused_ns(const ps_machine *machine, uint64_t work_ns, uint32_t ranks,
                          uint64_t bytes, uint32_t chunks)
{
    const double work = (double)work_ns / chunks;
    const double moving = ps_cost_chunk_ns(machine, ranks, bytes / chunks);
    const double first = ps_cost_collective_ns(machine, PS_OP_LINEAR_ALL_REDUCE, ranks,
                                               bytes / chunks);
    return (uint64_t)(work + (chunks - 1) * (work > moving ? work : moving) + first + 0.5);
}

double ps_cost_weight_gbs(const ps_machine *machine, bool is_cached)
{
    return is_cached ? machine->cache_read_gbs * machine->linear_share
                     : machine->read_gbs * ps_machine_share(machine->profile.weight_share);
}

double ps_cost_kv_gbs(const ps_machine *machine, double heads, double pieces, bool is_cached)
{
    const ps_machine_profile *p = &machine->profile;
    if (machine->workers.kv_gbs > 0 && !is_cached) { // measured
        return machine->workers.kv_gbs;
    }
    const double busy = pieces * p->attention_splits;
    const double parallel = p->attention_splits == 0 || busy >= p->cores ? 1 : busy / p->cores;
    const double share = ps_machine_share(heads >= 2 ? p->kv_strided_share : p->kv_share);
    return parallel * (is_cached ? machine->cache_read_gbs * ps_machine_share(p->kv_cache_share)
                                 : machine->read_gbs * share);
}
