// exec/op_linear.c - linears: weights stay where they are, activations come in panels.
#include "exec/linear_internal.h"

#include "kernels/q8_tile.h"

#include <string.h>

// What lies in a worker's scratch, one after the other.
static uint64_t gate_up_bytes(void) // gate and up of a part, and a quantised part of one row
{
    return 2 * (uint64_t)PS_GATE_UP_RESULTS * sizeof(float) + ps_q8_row_bytes(PS_GATE_UP_RESULTS);
}

static uint64_t tiles_bytes(ps_dtype dtype, uint32_t columns)
{
    return dtype == PS_DTYPE_Q8_ROW ? ps_q8_tiles_bytes(PS_PANEL_ROWS, columns) : 0;
}

// Every worker does it for itself: that is cheaper than a barrier.
void ps_linear_tile_rows(const ps_walk *walk, ps_dtype dtype, uint32_t columns, ps_panel *rows)
{
    if (dtype == PS_DTYPE_Q8_ROW) {
        const void *tiles[PS_PANEL_ROWS];
        ps_q8_tiles_pack(tiles, walk->scratch + gate_up_bytes(), rows->x, rows->rows, columns);
        memcpy(rows->x, tiles, ps_divide_up(rows->rows, PS_TILE_TOKENS) * sizeof *tiles);
    }
}

// The last group of a matrix may be partly padding: its 16 results go through a spare row, so that
// nothing is written past `last`.
void ps_linear_run_outputs(const ps_walk *walk, const ps_weight *weight, const char *data,
                           uint32_t first, uint32_t last, const ps_panel *rows)
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
                       uint32_t column, uint32_t begin, uint32_t end, uint32_t r, ps_panel *rows)
{
    const uint32_t first = begin > column ? begin - column : 0;
    const uint32_t last = end < column + weight->outputs ? end - column : weight->outputs;
    if (end <= column || first >= last) {
        return;
    }
    for (uint32_t t = 0; t < rows->rows; t++) {
        rows->y[t] = ps_row_f32(walk, &step->output, r + t) + column + first;
    }
    ps_linear_run_outputs(walk, weight, weight->data, first, last, rows);
}

// Rows [first, last) of this worker's columns. After each panel the collective in flight goes on:
// some back ends move nothing by themselves.
static void run_rows(const ps_walk *walk, const ps_bound_step *step, uint32_t first_row,
                     uint32_t last_row)
{
    uint32_t begin, end;
    ps_columns_of(walk, step, &step->output, &begin, &end);
    for (uint32_t r = first_row; r < last_row; r += PS_PANEL_ROWS) {
        ps_panel rows = {.rows = last_row - r < PS_PANEL_ROWS ? last_row - r : PS_PANEL_ROWS};
        for (uint32_t t = 0; t < rows.rows; t++) {
            rows.x[t] = ps_row(walk, &step->inputs[0], r + t);
        }
        ps_linear_tile_rows(walk, step->inputs[0].dtype, step->inputs[0].columns, &rows);
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

static void run_gate_up_part(const ps_walk *walk, ps_gate_up *part, ps_panel *rows)
{
    const uint32_t count = part->last - part->first;
    float *gate = (float *)(void *)walk->scratch;
    float *up = gate + PS_GATE_UP_RESULTS;
    void *spare = up + PS_GATE_UP_RESULTS;
    for (uint32_t t = 0; t < rows->rows; t++) {
        rows->y[t] = gate + t * part->width;
    }
    ps_linear_run_outputs(walk, part->gate, part->gate_data, part->first, part->last, rows);
    for (uint32_t t = 0; t < rows->rows; t++) {
        rows->y[t] = up + t * part->width;
    }
    ps_linear_run_outputs(walk, part->up, part->up_data, part->first, part->last, rows);

    ps_act_mul_fn *act = part->activation == PS_ACTIVATION_GELU ? walk->kernels->gelu_mul
                                                                : walk->kernels->silu_mul;
    for (uint32_t t = 0; t < rows->rows; t++) {
        const uint32_t at = t * part->width;
        if (part->y_dtype == PS_DTYPE_Q8_ROW) {
            act(gate + at, gate + at, up + at, count);
            ps_quantise_columns(walk->kernels, part->output[t], part->y_columns, gate + at,
                                part->first, count, spare);
        } else {
            act((float *)(void *)part->output[t] + part->first, gate + at, up + at, count);
        }
    }
}

void ps_linear_run_gate_up(const ps_walk *walk, ps_gate_up *part, ps_panel *rows, uint32_t begin,
                           uint32_t end)
{
    ps_assert(rows->rows > 0 && rows->rows <= PS_PANEL_ROWS);
    ps_linear_tile_rows(walk, part->x_dtype, part->x_columns, rows);
    // Few rows take long parts: going from one matrix to the other costs a memory latency or two.
    part->width = PS_GATE_UP_RESULTS / rows->rows / PS_BLOCK_COLUMNS * PS_BLOCK_COLUMNS;
    for (uint32_t c = begin; c < end; c += part->width) {
        part->first = c;
        part->last = end - c < part->width ? end : c + part->width;
        run_gate_up_part(walk, part, rows);
    }
}

void ps_exec_op_GATE_UP(const ps_walk *walk, const ps_bound_step *step)
{
    ps_gate_up part = {.gate = step->inputs[1].weight,
                       .up = step->inputs[2].weight,
                       .activation = (ps_activation)step->plan->attributes.activation,
                       .x_dtype = step->inputs[0].dtype,
                       .x_columns = step->inputs[0].columns,
                       .y_dtype = step->output.dtype,
                       .y_columns = step->output.columns};
    part.gate_data = part.gate->data;
    part.up_data = part.up->data;
    uint32_t begin, end;
    ps_columns_of(walk, step, &step->output, &begin, &end);
    const uint32_t count = ps_operand_rows(walk, &step->output);
    for (uint32_t r = 0; r < count; r += PS_PANEL_ROWS) {
        ps_panel rows = {.rows = count - r < PS_PANEL_ROWS ? count - r : PS_PANEL_ROWS};
        for (uint32_t t = 0; t < rows.rows; t++) {
            rows.x[t] = ps_row(walk, &step->inputs[0], r + t);
            part.output[t] = ps_row(walk, &step->output, r + t);
        }
        ps_linear_run_gate_up(walk, &part, &rows, begin, end);
    }
}

uint64_t ps_linear_scratch_bytes(ps_dtype dtype, uint32_t columns)
{
    return gate_up_bytes() + tiles_bytes(dtype, columns);
}
