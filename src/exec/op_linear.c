// exec/op_linear.c - linears: weights stay where they are, activations come in panels.
#include "exec/exec_internal.h"

#include "kernels/q8_tile.h"

#include <string.h>

// The rows of a panel, as the kernels take them.
typedef struct panel {
    const void *x[PS_PANEL_ROWS]; // rows, or tiles of rows
    float *y[PS_PANEL_ROWS];
    uint32_t rows;
} panel;

// What lies in a worker's scratch, one after the other.
static uint64_t gate_up_bytes(void) // gate and up of a part, and a quantised part of one row
{
    return 2 * (uint64_t)PS_GATE_UP_RESULTS * sizeof(float) + ps_q8_row_bytes(PS_GATE_UP_RESULTS);
}

static uint64_t tiles_bytes(ps_dtype dtype, uint32_t columns)
{
    return dtype == PS_DTYPE_Q8_ROW ? ps_q8_tiles_bytes(PS_PANEL_ROWS, columns) : 0;
}

static uint64_t grouping_bytes(uint32_t experts, uint32_t pairs)
{
    return ps_round_up((2 * (uint64_t)experts + 1 + pairs) * sizeof(uint32_t), PS_CACHE_LINE_BYTES);
}

// Turns the rows of a panel into tiles where the kernels take tiles. Every worker does it for
// itself: that is cheaper than a barrier.
static void tile_rows(const ps_walk *walk, const ps_operand *x, panel *rows)
{
    if (x->dtype == PS_DTYPE_Q8_ROW) {
        const void *tiles[PS_PANEL_ROWS];
        ps_q8_tiles_pack(tiles, walk->scratch + gate_up_bytes(), rows->x, rows->rows, x->columns);
        memcpy(rows->x, tiles, ps_divide_up(rows->rows, PS_TILE_TOKENS) * sizeof *tiles);
    }
}

// Outputs [first, last) of one matrix into y[t] + (output - first), `first` a multiple of 16. The
// last group of a matrix may be partly padding: its 16 results go through a spare row, so that
// nothing is written past `last`.
static void run_outputs(const ps_walk *walk, const ps_weight *weight, const char *data,
                        uint32_t first, uint32_t last, const panel *rows)
{
    ps_linear_fn *linear = ps_kernels_linear(walk->kernels, weight->dtype);
    const uint64_t group_bytes = ps_packed_group_bytes(weight->dtype, weight->inputs);
    const uint32_t whole = (last - first) / PS_GROUP_ROWS;
    const uint32_t rest = (last - first) % PS_GROUP_ROWS;
    const char *group = data + first / PS_GROUP_ROWS * group_bytes;
    ps_linear args = {.y = rows->y,
                      .w = group,
                      .group_count = whole,
                      .inputs = weight->inputs,
                      .tokens = rows->rows,
                      .x = rows->x,
                      .hints = walk->kernels->linear_hints};
    if (whole > 0) {
        linear(&args);
    }
    if (rest > 0) {
        float spare[PS_PANEL_ROWS][PS_GROUP_ROWS];
        float *y[PS_PANEL_ROWS];
        for (uint32_t t = 0; t < rows->rows; t++) {
            y[t] = spare[t];
        }
        args.y = y;
        args.w = group + whole * group_bytes;
        args.group_count = 1;
        linear(&args);
        for (uint32_t t = 0; t < rows->rows; t++) {
            memcpy(rows->y[t] + whole * PS_GROUP_ROWS, spare[t], rest * sizeof(float));
        }
    }
}

// The part of one weight in columns [begin, end) of the step's output, of which the weight's are
// [column, column + outputs), for output rows from `r` on.
static void run_weight(const ps_walk *walk, const ps_bound_step *step, const ps_weight *weight,
                       uint32_t column, uint32_t begin, uint32_t end, uint32_t r, panel *rows)
{
    const uint32_t first = begin > column ? begin - column : 0;
    const uint32_t last = end < column + weight->outputs ? end - column : weight->outputs;
    if (end <= column || first >= last) {
        return;
    }
    for (uint32_t t = 0; t < rows->rows; t++) {
        rows->y[t] = ps_row_f32(walk, &step->output, r + t) + column + first;
    }
    run_outputs(walk, weight, weight->data, first, last, rows);
}

// Rows [first, last) of this worker's columns. After each panel the collective in flight goes on:
// some back ends move nothing by themselves.
static void run_rows(const ps_walk *walk, const ps_bound_step *step, uint32_t first_row,
                     uint32_t last_row)
{
    uint32_t begin, end;
    ps_columns_of(walk, step, &step->output, &begin, &end);
    for (uint32_t r = first_row; r < last_row; r += PS_PANEL_ROWS) {
        panel rows = {.rows = last_row - r < PS_PANEL_ROWS ? last_row - r : PS_PANEL_ROWS};
        for (uint32_t t = 0; t < rows.rows; t++) {
            rows.x[t] = ps_row(walk, &step->inputs[0], r + t);
        }
        tile_rows(walk, &step->inputs[0], &rows);
        uint32_t column = 0;
        for (uint32_t i = 1; i < step->plan->input_count; i++) {
            const ps_weight *weight = step->inputs[i].weight;
            run_weight(walk, step, weight, column, begin, end, r, &rows);
            column += weight->outputs;
        }
        ps_exec_comm_poll(walk);
    }
}

void ps_exec_op_LINEAR(const ps_walk *walk, const ps_bound_step *step)
{
    run_rows(walk, step, 0, ps_operand_rows(walk, &step->output));
}

void ps_exec_op_LINEAR_ALL_REDUCE(const ps_walk *walk, const ps_bound_step *step)
{
    const uint32_t rows = ps_operand_rows(walk, &step->output);
    const uint32_t chunks = step->plan->attributes.chunks;
    for (uint32_t c = 0; c < chunks; c++) {
        const uint32_t first = (uint32_t)((uint64_t)rows * c / chunks);
        const uint32_t last = (uint32_t)((uint64_t)rows * (c + 1) / chunks);
        run_rows(walk, step, first, last);
        ps_team_barrier(walk->exec->team, NULL); // all columns of the chunk are there
        ps_exec_comm_reduce(walk, step, first, last, c + 1 == chunks);
    }
}

// One part of a gate_up: outputs [first, last) of both matrices for the rows of a panel, at most
// `width` of them, activated and stored as the output's dtype asks.
typedef struct gate_up_part {
    const ps_weight *gate, *up;
    const char *gate_data, *up_data;
    uint32_t first, last, width;
    char *output[PS_PANEL_ROWS]; // rows of the output
} gate_up_part;

static void run_gate_up_part(const ps_walk *walk, const ps_bound_step *step, gate_up_part *part,
                             panel *rows)
{
    const uint32_t count = part->last - part->first;
    float *gate = (float *)(void *)walk->scratch;
    float *up = gate + PS_GATE_UP_RESULTS;
    void *spare = up + PS_GATE_UP_RESULTS;
    for (uint32_t t = 0; t < rows->rows; t++) {
        rows->y[t] = gate + t * part->width;
    }
    run_outputs(walk, part->gate, part->gate_data, part->first, part->last, rows);
    for (uint32_t t = 0; t < rows->rows; t++) {
        rows->y[t] = up + t * part->width;
    }
    run_outputs(walk, part->up, part->up_data, part->first, part->last, rows);

    ps_act_mul_fn *act = step->plan->attributes.activation == PS_ACTIVATION_GELU
                             ? walk->kernels->gelu_mul
                             : walk->kernels->silu_mul;
    for (uint32_t t = 0; t < rows->rows; t++) {
        const uint32_t at = t * part->width;
        if (step->output.dtype == PS_DTYPE_Q8_ROW) {
            act(gate + at, gate + at, up + at, count);
            ps_quantise_columns(walk->kernels, part->output[t], step->output.columns, gate + at,
                                part->first, count, spare);
        } else {
            act((float *)(void *)part->output[t] + part->first, gate + at, up + at, count);
        }
    }
}

static void run_gate_up(const ps_walk *walk, const ps_bound_step *step, gate_up_part *part,
                        panel *rows, uint32_t begin, uint32_t end)
{
    ps_assert(rows->rows > 0 && rows->rows <= PS_PANEL_ROWS);
    tile_rows(walk, &step->inputs[0], rows);
    // Few rows take long parts: going from one matrix to the other costs a memory latency or two.
    part->width = PS_GATE_UP_RESULTS / rows->rows / PS_BLOCK_COLUMNS * PS_BLOCK_COLUMNS;
    for (uint32_t c = begin; c < end; c += part->width) {
        part->first = c;
        part->last = end - c < part->width ? end : c + part->width;
        run_gate_up_part(walk, step, part, rows);
    }
}

void ps_exec_op_GATE_UP(const ps_walk *walk, const ps_bound_step *step)
{
    gate_up_part part = {.gate = step->inputs[1].weight, .up = step->inputs[2].weight};
    part.gate_data = part.gate->data;
    part.up_data = part.up->data;
    uint32_t begin, end;
    ps_columns_of(walk, step, &step->output, &begin, &end);
    const uint32_t count = ps_operand_rows(walk, &step->output);
    for (uint32_t r = 0; r < count; r += PS_PANEL_ROWS) {
        panel rows = {.rows = count - r < PS_PANEL_ROWS ? count - r : PS_PANEL_ROWS};
        for (uint32_t t = 0; t < rows.rows; t++) {
            rows.x[t] = ps_row(walk, &step->inputs[0], r + t);
            part.output[t] = ps_row(walk, &step->output, r + t);
        }
        run_gate_up(walk, step, &part, &rows, begin, end);
    }
}

// Which pairs (row, choice) go to which expert: pairs sorted by expert, in order of rows within
// one. Every worker sorts for itself; that is cheaper than a barrier.
typedef struct grouping {
    uint32_t *pairs;    // [rows * top_k]
    uint32_t *starts;   // [experts + 1] into pairs
    uint32_t *distinct; // experts that have pairs
    uint32_t distinct_count;
} grouping;

static int32_t routed_expert(const ps_walk *walk, const ps_operand *route, uint32_t pair,
                             uint32_t top_k)
{
    int32_t expert;
    memcpy(&expert, ps_row_f32(walk, route, pair / top_k) + pair % top_k, sizeof expert);
    return expert;
}

static grouping group_pairs(const ps_walk *walk, const ps_operand *route, uint32_t experts,
                            uint32_t top_k, char *memory)
{
    const uint32_t pairs = walk->row_count * top_k;
    grouping by = {.starts = (uint32_t *)(void *)memory};
    by.distinct = by.starts + experts + 1;
    by.pairs = by.distinct + experts;
    memset(by.starts, 0, (experts + 1) * sizeof *by.starts);
    for (uint32_t p = 0; p < pairs; p++) {
        by.starts[routed_expert(walk, route, p, top_k) + 1]++;
    }
    for (uint32_t e = 0; e < experts; e++) {
        if (by.starts[e + 1] > 0) {
            by.distinct[by.distinct_count++] = e;
        }
        by.starts[e + 1] += by.starts[e];
    }
    // Filling moves each start to its end, which is the next one's start; then all are moved back.
    for (uint32_t p = 0; p < pairs; p++) {
        by.pairs[by.starts[routed_expert(walk, route, p, top_k)]++] = p;
    }
    memmove(by.starts + 1, by.starts, experts * sizeof *by.starts);
    by.starts[0] = 0;
    return by;
}

// Calls `run` for the pairs of one expert, a panel at a time, with output columns [begin, end) of
// it.
typedef void expert_function(const ps_walk *walk, const ps_bound_step *step, uint32_t expert,
                             const uint32_t *pairs, uint32_t count, uint32_t begin, uint32_t end);

// Shares (distinct expert, unit of columns) evenly; each worker's share is contiguous, so that it
// streams.
static void run_experts(const ps_walk *walk, const ps_bound_step *step, uint32_t outputs,
                        uint32_t unit, expert_function *run)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    const ps_operand *route = &step->inputs[1];
    const grouping by = group_pairs(
        walk, route, attributes->experts, attributes->top_k,
        walk->scratch + gate_up_bytes() +
            tiles_bytes(step->inputs[0].dtype, step->inputs[0].columns));
    const uint64_t units = ps_divide_up(outputs, unit);
    uint64_t begin, end;
    ps_plan_share(by.distinct_count * units, walk->worker, walk->workers, &begin, &end);
    while (begin < end) {
        const uint64_t nth = begin / units;
        const uint64_t stop = end < (nth + 1) * units ? end : (nth + 1) * units;
        const uint32_t expert = by.distinct[nth];
        const uint32_t first = (uint32_t)(begin - nth * units) * unit;
        const uint64_t last = (stop - nth * units) * unit;
        for (uint32_t p = by.starts[expert]; p < by.starts[expert + 1]; p += PS_PANEL_ROWS) {
            const uint32_t left = by.starts[expert + 1] - p;
            run(walk, step, expert, by.pairs + p, left < PS_PANEL_ROWS ? left : PS_PANEL_ROWS,
                first, last < outputs ? (uint32_t)last : outputs);
        }
        begin = stop;
    }
}

static const char *expert_data(const ps_weight *weight, uint32_t expert)
{
    return (const char *)weight->data +
           expert * ps_packed_bytes(weight->dtype, weight->outputs, weight->inputs);
}

// The input row of a pair: its own row, or its token's where all choices of a token share one.
static const void *pair_input(const ps_walk *walk, const ps_bound_step *step, uint32_t pair)
{
    const ps_operand *x = &step->inputs[0];
    const bool own = x->value->is.row_multiplier > 1;
    return ps_row(walk, x, own ? pair : pair / step->plan->attributes.top_k);
}

static void run_expert_gate_up(const ps_walk *walk, const ps_bound_step *step, uint32_t expert,
                               const uint32_t *pairs, uint32_t count, uint32_t begin, uint32_t end)
{
    gate_up_part part = {.gate = step->inputs[2].weight, .up = step->inputs[3].weight};
    part.gate_data = expert_data(part.gate, expert);
    part.up_data = expert_data(part.up, expert);
    panel rows = {.rows = count};
    for (uint32_t t = 0; t < count; t++) {
        rows.x[t] = pair_input(walk, step, pairs[t]);
        part.output[t] = ps_row(walk, &step->output, pairs[t]);
    }
    run_gate_up(walk, step, &part, &rows, begin, end);
}

void ps_exec_op_EXPERT_GATE_UP(const ps_walk *walk, const ps_bound_step *step)
{
    run_experts(walk, step, step->output.columns, PS_BLOCK_COLUMNS, run_expert_gate_up);
}

static void run_expert_linear(const ps_walk *walk, const ps_bound_step *step, uint32_t expert,
                              const uint32_t *pairs, uint32_t count, uint32_t begin, uint32_t end)
{
    const ps_weight *weight = step->inputs[2].weight;
    panel rows = {.rows = count};
    for (uint32_t t = 0; t < count; t++) {
        rows.x[t] = pair_input(walk, step, pairs[t]);
        rows.y[t] = ps_row_f32(walk, &step->output, pairs[t]) + begin;
    }
    tile_rows(walk, &step->inputs[0], &rows);
    run_outputs(walk, weight, expert_data(weight, expert), begin, end, &rows);
}

void ps_exec_op_EXPERT_LINEAR(const ps_walk *walk, const ps_bound_step *step)
{
    run_experts(walk, step, step->output.columns, PS_GROUP_ROWS, run_expert_linear);
}

uint64_t ps_exec_linear_scratch_bytes(const ps_plan *plan, const ps_bound_step *step)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    return gate_up_bytes() + tiles_bytes(step->inputs[0].dtype, step->inputs[0].columns) +
           (attributes->top_k > 0
                ? grouping_bytes(attributes->experts, plan->rows_max * attributes->top_k)
                : 0);
}
