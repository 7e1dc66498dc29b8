// comm/all_reduce.c - sums over ranks, built from all_gather and exchange.
//
// Both ways of an all_reduce add the same numbers in the same order, element by element, so they
// give the same bits and the choice between them is one of time alone.
#include "comm/comm_internal.h"
#include "comm/sum.h"

#include "base/memory.h"

#include <inttypes.h>

// Slices start at cache lines, so that two ranks never write to one.
#define SLICE_UNIT 16u
#define SUM_FLOATS_MAX ((uint64_t)16384) // per test

static uint64_t slice_begin(uint64_t count, uint32_t size, uint32_t rank)
{
    const uint64_t unit = ps_round_up(ps_divide_up(count, size), SLICE_UNIT);
    return unit * rank < count ? unit * rank : count;
}

static uint64_t slice_count(uint64_t count, uint32_t size, uint32_t rank)
{
    return slice_begin(count, size, rank + 1) - slice_begin(count, size, rank);
}

static bool is_gathered(const ps_comm *comm, uint64_t count)
{
    return count * sizeof(float) <= comm->gather_bytes_max || comm->size == 1;
}

uint64_t ps_comm_all_reduce_scratch(const ps_comm *comm, uint64_t count)
{
    const uint64_t row = is_gathered(comm, count) ? count : slice_count(count, comm->size, 0);
    return row * comm->size;
}

void ps_comm_set_gather_bytes_max(ps_comm *comm, uint64_t gather_bytes_max)
{
    ps_assert(!comm->is_busy);
    comm->gather_bytes_max = gather_bytes_max;
}

uint64_t ps_comm_gather_bytes_max(const ps_comm *comm)
{
    return comm->gather_bytes_max;
}

static ps_status check_count(const ps_comm *comm, uint64_t count)
{
    const uint64_t max = PS_COMM_BYTES_MAX / sizeof(float) / comm->size;
    return count <= max
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "a sum of %" PRIu64 " numbers; at most %" PRIu64 " for %" PRIu32 " ranks",
                         count, max, comm->size);
}

// The slices' sizes in bytes; of an all_gather of vectors when `is_whole`.
static void slice_sizes(const ps_comm *comm, uint64_t count, bool is_whole, uint64_t *out_bytes)
{
    for (uint32_t r = 0; r < comm->size; r++) {
        out_bytes[r] = sizeof(float) * (is_whole ? count : slice_count(count, comm->size, r));
    }
}

static void set_rows(ps_comm *comm, const float *own, const float *scratch, uint64_t count,
                     float *sum)
{
    ps_comm_reduce *reduce = &comm->reduce;
    *reduce = (ps_comm_reduce){.stage = PS_COMM_REDUCE_MOVE, .sum = sum, .count = count};
    for (uint32_t r = 0; r < comm->size; r++) {
        // The rank's own row is read where it is.
        reduce->rows[r] = r == comm->rank ? own : scratch + r * count;
    }
}

static ps_status start_set(ps_comm *comm, ps_comm_kind kind, uint32_t tag)
{
    const ps_comm_header *header = &comm->transfer.header;
    return ps_comm_transfer_start(comm, kind, tag, header->bytes, header->digest);
}

ps_status ps_comm_all_reduce_start(ps_comm *comm, uint32_t tag, float *values, uint64_t count,
                                   float *scratch)
{
    PS_TRY(ps_comm_ready(comm));
    PS_TRY(check_count(comm, count));
    uint64_t bytes[PS_COMM_RANKS_MAX];
    if (is_gathered(comm, count)) {
        slice_sizes(comm, count, true, bytes);
        PS_TRY(ps_comm_all_gather_set(comm, values, scratch, bytes));
        set_rows(comm, values, scratch, count, values);
        return start_set(comm, PS_COMM_ALL_GATHER, tag);
    }
    slice_sizes(comm, count, false, bytes);
    PS_TRY(ps_comm_exchange_set(comm, values, scratch, bytes));
    float *own = values + slice_begin(count, comm->size, comm->rank);
    set_rows(comm, own, scratch, slice_count(count, comm->size, comm->rank), own);
    comm->reduce.shared = values;
    comm->reduce.shared_count = count;
    return start_set(comm, PS_COMM_EXCHANGE, tag);
}

ps_status ps_comm_reduce_scatter_start(ps_comm *comm, uint32_t tag, const float *values,
                                       const uint64_t *counts, float *sum, float *scratch)
{
    PS_TRY(ps_comm_ready(comm));
    uint64_t bytes[PS_COMM_RANKS_MAX];
    uint64_t begin = 0;
    for (uint32_t r = 0; r < comm->size; r++) {
        PS_TRY(check_count(comm, counts[r]));
        bytes[r] = counts[r] * sizeof(float);
        begin += r < comm->rank ? counts[r] : 0;
    }
    PS_TRY(ps_comm_exchange_set(comm, values, scratch, bytes));
    set_rows(comm, values + begin, scratch, counts[comm->rank], sum);
    return start_set(comm, PS_COMM_EXCHANGE, tag);
}

// The sums of the slices to all.
static ps_status share(ps_comm *comm)
{
    ps_comm_reduce *reduce = &comm->reduce;
    uint64_t bytes[PS_COMM_RANKS_MAX];
    slice_sizes(comm, reduce->shared_count, false, bytes);
    reduce->stage = PS_COMM_REDUCE_SHARE;
    PS_TRY(ps_comm_all_gather_set(comm, reduce->sum, reduce->shared, bytes));
    comm->transfer.keeps_own = true;
    return start_set(comm, PS_COMM_ALL_GATHER, comm->transfer.header.tag);
}

ps_status ps_comm_reduce_advance(ps_comm *comm, bool *out_done)
{
    ps_comm_reduce *reduce = &comm->reduce;
    *out_done = false;
    if (reduce->stage != PS_COMM_REDUCE_SHARE) {
        const uint64_t rows_max = SUM_FLOATS_MAX / comm->size;
        const uint64_t left = reduce->count - reduce->next;
        const uint64_t end = reduce->next + (left < rows_max ? left : rows_max);
        ps_comm_sum(reduce->sum, reduce->rows, comm->size, reduce->next, end);
        reduce->next = end;
        reduce->stage = PS_COMM_REDUCE_SUM;
        if (end < reduce->count) {
            return PS_OK;
        }
        if (reduce->shared != NULL) {
            return share(comm);
        }
    }
    reduce->stage = PS_COMM_REDUCE_NONE;
    *out_done = true;
    return PS_OK;
}
