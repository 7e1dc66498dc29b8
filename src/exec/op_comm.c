// exec/op_comm.c - collectives: worker 0 starts them where they stand in the plan, and waits for
// them where the plan joins them.
#include "exec/record.h"

#include "base/shapes.h"
#include "base/top_k.h"

#include <math.h>
#include <string.h>

static ps_trace_lane *lane_of(const ps_walk *walk)
{
    return walk->exec->options.lanes == NULL ? NULL : walk->exec->options.lanes->comm;
}

// Until the collective is done, the worker prefetches; then it has nothing else to do.
static ps_status wait_for(const ps_walk *walk)
{
    ps_comm *comm = walk->exec->options.comm;
    bool is_done = false;
    while (ps_exec_touch_next((void *)(uintptr_t)walk)) {
        PS_TRY(ps_comm_test(comm, &is_done));
        if (is_done) {
            return PS_OK;
        }
    }
    return ps_comm_wait(comm);
}

static ps_status wait(const ps_walk *walk)
{
    const ps_status status = wait_for(walk);
    ps_record_comm(lane_of(walk), walk->comm->step, walk->comm->start_ns,
                   ps_record_now(lane_of(walk)));
    return status;
}

void ps_exec_comm_poll(const ps_walk *walk)
{
    bool is_done;
    ps_comm_run *run = walk->comm;
    if (run != NULL && run->is_busy && run->status == PS_OK) {
        run->status = ps_comm_test(walk->exec->options.comm, &is_done);
    }
}

// ---- all_reduce: in the output, to which the input is copied

void ps_exec_comm_reduce(const ps_walk *walk, const ps_bound_step *step, uint32_t first,
                         uint32_t last, bool is_last)
{
    ps_comm_run *run = walk->comm;
    if (run == NULL) {
        return;
    }
    ps_exec_comm_join(walk, run->started);
    run->started += is_last;
    if (run->status == PS_OK && run->is_busy) { // the chunk before
        run->status = wait(walk);
    }
    run->step = step;
    run->start_ns = ps_record_now(lane_of(walk));
    run->is_busy = run->status == PS_OK && first < last;
    if (run->is_busy) {
        // With what stands between rows, so that it is one range.
        run->status = ps_comm_all_reduce_start(
            walk->exec->options.comm, run->tag + run->started,
            ps_row_f32(walk, &step->output, first),
            (last - first) * step->output.row_bytes / sizeof(float), walk->exec->comm_scratch);
    }
}

void ps_exec_op_ALL_REDUCE(const ps_walk *walk, const ps_bound_step *step)
{
    if (walk->comm == NULL) {
        return;
    }
    const uint32_t rows = ps_operand_rows(walk, &step->output);
    const uint64_t row_bytes = step->output.columns * sizeof(float);
    for (uint32_t r = 0; r < rows; r++) {
        memcpy(ps_row(walk, &step->output, r), ps_row(walk, &step->inputs[0], r), row_bytes);
    }
    ps_exec_comm_reduce(walk, step, 0, rows, true);
}

// ---- the others: the step is started here and finished where it is joined

// False: nothing is to be sent, or somebody else sends it. The collective before is done.
static bool begin(const ps_walk *walk, const ps_bound_step *step, uint32_t rows)
{
    ps_comm_run *run = walk->comm;
    if (run == NULL) {
        return false;
    }
    ps_exec_comm_join(walk, run->started);
    run->started++;
    run->step = step;
    run->is_busy = run->status == PS_OK && rows > 0;
    run->start_ns = ps_record_now(lane_of(walk));
    return run->is_busy;
}

// ---- all_gather: rank by rank into the scratch, from there row by row

static uint64_t slice_bytes_of(const ps_bound_step *step, uint32_t rank, uint32_t rows)
{
    uint32_t begin, end;
    ps_share_columns(step->output.columns, step->plan->attributes.unit, rank,
                     step->plan->attributes.ranks, &begin, &end);
    return (uint64_t)rows * (end - begin) * sizeof(float);
}

void ps_exec_op_ALL_GATHER(const ps_walk *walk, const ps_bound_step *step)
{
    ps_comm_run *run = walk->comm;
    const uint32_t rows = ps_operand_rows(walk, &step->output);
    if (!begin(walk, step, rows)) {
        return;
    }
    uint64_t bytes[PS_COMM_RANKS_MAX];
    uint64_t before = 0; // of the ranks before this one
    for (uint32_t rank = 0; rank < step->plan->attributes.ranks; rank++) {
        bytes[rank] = slice_bytes_of(step, rank, rows);
        before += rank < step->plan->attributes.rank ? bytes[rank] : 0;
    }
    char *own = (char *)walk->exec->comm_scratch + before;
    const uint64_t row_bytes = step->inputs[0].columns * sizeof(float);
    for (uint32_t r = 0; r < rows; r++) {
        memcpy(own + r * row_bytes, ps_row(walk, &step->inputs[0], r), row_bytes);
    }
    run->status = ps_comm_all_gather_start(walk->exec->options.comm, run->tag + run->started, own,
                                           walk->exec->comm_scratch, bytes);
}

static void spread_gathered(const ps_walk *walk, const ps_bound_step *step)
{
    const uint32_t rows = ps_operand_rows(walk, &step->output);
    const char *slice = (const char *)walk->exec->comm_scratch;
    uint64_t column_bytes = 0;
    for (uint32_t rank = 0; rank < step->plan->attributes.ranks; rank++) {
        const uint64_t row_bytes = slice_bytes_of(step, rank, 1);
        for (uint32_t r = 0; r < rows; r++, slice += row_bytes) {
            memcpy(ps_row(walk, &step->output, r) + column_bytes, slice, row_bytes);
        }
        column_bytes += row_bytes;
    }
}

// ---- all_gather_best: rank by rank and row by row into the scratch, from there each to its column

static uint32_t columns_of_rank(const ps_bound_step *step, uint32_t rank, uint32_t *first)
{
    uint32_t end;
    ps_share_columns(step->output.columns, step->plan->attributes.unit, rank,
                     step->plan->attributes.ranks, first, &end);
    return end - *first;
}

static uint32_t best_of_rank(const ps_bound_step *step, uint32_t rank)
{
    uint32_t first;
    const uint32_t columns = columns_of_rank(step, rank, &first);
    const uint32_t top_k = step->plan->attributes.top_k;
    return top_k < columns ? top_k : columns;
}

// Of what is not finite, one tells.
static void find_best(const float *logits, uint32_t columns, uint32_t kept, ps_candidate *out)
{
    bool is_finite = true;
    for (uint32_t i = 0; i < columns; i++) {
        is_finite &= logits[i] < INFINITY; // false for NaN, too
    }
    ps_top_k(logits, columns, kept, out);
    if (!is_finite) {
        out[0] = (ps_candidate){.logit = NAN};
    }
}

void ps_exec_op_ALL_GATHER_BEST(const ps_walk *walk, const ps_bound_step *step)
{
    ps_comm_run *run = walk->comm;
    const uint32_t rows = ps_operand_rows(walk, &step->output);
    if (!begin(walk, step, rows)) {
        return;
    }
    uint64_t bytes[PS_COMM_RANKS_MAX];
    ps_candidate *all = (ps_candidate *)(void *)walk->exec->comm_scratch;
    ps_candidate *own = all;
    for (uint32_t rank = 0; rank < step->plan->attributes.ranks; rank++) {
        const uint64_t count = (uint64_t)rows * best_of_rank(step, rank);
        bytes[rank] = count * sizeof *all;
        own += rank < step->plan->attributes.rank ? count : 0;
    }
    const uint32_t kept = best_of_rank(step, step->plan->attributes.rank);
    for (uint32_t r = 0; r < rows; r++) {
        find_best(ps_row_f32(walk, &step->inputs[0], r), step->inputs[0].columns, kept,
                  own + (uint64_t)r * kept);
    }
    run->status = ps_comm_all_gather_start(walk->exec->options.comm, run->tag + run->started, own,
                                           all, bytes);
}

static ps_status spread_best(const ps_walk *walk, const ps_bound_step *step)
{
    const uint32_t rows = ps_operand_rows(walk, &step->output);
    const ps_candidate *next = (const ps_candidate *)(const void *)walk->exec->comm_scratch;
    for (uint32_t r = 0; r < rows; r++) {
        float *logits = ps_row_f32(walk, &step->output, r);
        for (uint32_t i = 0; i < step->output.columns; i++) {
            logits[i] = -INFINITY;
        }
    }
    for (uint32_t rank = 0; rank < step->plan->attributes.ranks; rank++) {
        uint32_t first;
        const uint32_t columns = columns_of_rank(step, rank, &first);
        const uint64_t count = (uint64_t)rows * best_of_rank(step, rank);
        for (uint64_t i = 0; i < count; i++, next++) {
            if ((uint32_t)next->id >= columns) {
                return ps_fail(PS_INVALID, "rank %u sent the logit of its token %d of %u", rank,
                               next->id, columns);
            }
            const uint32_t row = (uint32_t)(i / best_of_rank(step, rank));
            ps_row_f32(walk, &step->output, row)[first + (uint32_t)next->id] = next->logit;
        }
    }
    return PS_OK;
}

// ---- reduce_scatter: from the scratch, to which the input is copied, behind it what others send

void ps_exec_op_REDUCE_SCATTER(const ps_walk *walk, const ps_bound_step *step)
{
    ps_comm_run *run = walk->comm;
    const uint32_t rows = ps_operand_rows(walk, &step->inputs[0]);
    if (!begin(walk, step, rows)) {
        return;
    }
    // With what stands between rows of the output, so that each share is one range.
    const uint64_t row_floats = step->output.row_bytes / sizeof(float);
    float *values = walk->exec->comm_scratch;
    for (uint32_t r = 0; r < rows; r++) {
        memcpy(values + r * row_floats, ps_row(walk, &step->inputs[0], r),
               step->output.columns * sizeof(float));
    }
    uint64_t counts[PS_COMM_RANKS_MAX];
    for (uint32_t rank = 0; rank < step->plan->attributes.ranks; rank++) {
        uint32_t first, last;
        ps_share_rows(rows, rank, step->plan->attributes.ranks, &first, &last);
        counts[rank] = (last - first) * row_floats;
    }
    run->status = ps_comm_reduce_scatter_start(walk->exec->options.comm, run->tag + run->started,
                                               values, counts, ps_row_f32(walk, &step->output, 0),
                                               values + rows * row_floats);
}

// ---- all_gather_rows: in the output, to which the own rows are copied

// Rows of the step before `row` that want logits.
static uint32_t logits_before(const ps_walk *walk, uint32_t row)
{
    uint32_t count = 0;
    while (count < walk->logit_count && walk->exec->logit_rows[count] < row) {
        count++;
    }
    return count;
}

// The rows [*begin, *end) of the output that are rank's; returns the first of the step that is.
static uint32_t gathered_rows(const ps_walk *walk, const ps_bound_step *step, uint32_t rank,
                              uint32_t *begin, uint32_t *end)
{
    ps_share_rows(walk->row_count, rank, step->plan->attributes.ranks, begin, end);
    const uint32_t first = *begin;
    if (step->output.value->is.row_kind == PS_ROWS_LOGITS) {
        *begin = logits_before(walk, *begin);
        *end = logits_before(walk, *end);
    }
    return first;
}

void ps_exec_op_ALL_GATHER_ROWS(const ps_walk *walk, const ps_bound_step *step)
{
    ps_comm_run *run = walk->comm;
    if (!begin(walk, step, ps_operand_rows(walk, &step->output))) {
        return;
    }
    uint32_t begin_row, end_row;
    uint64_t bytes[PS_COMM_RANKS_MAX];
    for (uint32_t rank = 0; rank < step->plan->attributes.ranks; rank++) {
        (void)gathered_rows(walk, step, rank, &begin_row, &end_row);
        bytes[rank] = (end_row - begin_row) * step->output.row_bytes;
    }
    const uint32_t first = gathered_rows(walk, step, step->plan->attributes.rank, &begin_row,
                                         &end_row);
    const bool is_logits = step->output.value->is.row_kind == PS_ROWS_LOGITS;
    const uint64_t row_bytes = ps_dtype_row_bytes(step->output.dtype, step->output.columns);
    for (uint32_t r = begin_row; r < end_row; r++) {
        const uint32_t of_step = is_logits ? walk->exec->logit_rows[r] : r;
        memcpy(ps_row(walk, &step->output, r), ps_row(walk, &step->inputs[0], of_step - first),
               row_bytes);
    }
    run->status = ps_comm_all_gather_start(walk->exec->options.comm, run->tag + run->started,
                                           ps_row(walk, &step->output, begin_row),
                                           ps_row(walk, &step->output, 0), bytes);
}

// ---- all

void ps_exec_comm_join(const ps_walk *walk, uint32_t count)
{
    ps_comm_run *run = walk->comm;
    for (; run->done < count; run->done++) {
        if (run->status == PS_OK && run->is_busy) {
            run->status = wait(walk);
        }
        run->is_busy = false;
        if (run->status == PS_OK && run->step->plan->op == PS_OP_ALL_GATHER) {
            spread_gathered(walk, run->step);
        } else if (run->status == PS_OK && run->step->plan->op == PS_OP_ALL_GATHER_BEST) {
            run->status = spread_best(walk, run->step);
        }
    }
}

uint64_t ps_exec_comm_scratch_bytes(const ps_comm *comm, const ps_plan *plan,
                                    const ps_bound_step *step)
{
    const uint64_t rows = ps_plan_rows(plan, &step->output.value->is, plan->rows_max,
                                       plan->logits_max);
    const uint64_t bytes = rows * step->output.row_bytes;
    switch (step->plan->op) {
    case PS_OP_ALL_GATHER:
        return bytes;
    case PS_OP_ALL_GATHER_BEST:
        return rows * step->plan->attributes.ranks * step->plan->attributes.top_k *
               sizeof(ps_candidate);
    case PS_OP_ALL_GATHER_ROWS:
        return 0;
    case PS_OP_REDUCE_SCATTER:
        return plan->rows_max * step->output.row_bytes + ps_comm_size(comm) * bytes;
    default:
        return sizeof(float) * ps_comm_all_reduce_scratch(comm, bytes / sizeof(float));
    }
}
