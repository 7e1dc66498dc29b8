// exec/op_experts.c - all tokens and all experts of a layer in one call over the workers.
//
// Each expert's weights are read once, for all rows that chose it. Its results go to rows of their
// own, one for each pair (row, choice), so that neither the order of experts nor who computes them
// shows in a sum.
#include "exec/linear_internal.h"

#include <string.h>

// Which pairs go to which expert: pairs sorted by expert, in order of rows within one. Every worker
// sorts for itself; that is cheaper than a barrier.
typedef struct grouping {
    uint32_t *pairs;    // [rows * top_k]
    uint32_t *starts;   // [experts + 1] into pairs
    uint32_t *distinct; // experts that have pairs
    uint32_t distinct_count;
} grouping;

static uint64_t grouping_bytes(uint32_t experts, uint32_t pairs)
{
    return ps_round_up((2 * (uint64_t)experts + 1 + pairs) * sizeof(uint32_t), PS_CACHE_LINE_BYTES);
}

static int32_t routed_expert(const ps_walk *walk, const ps_operand *route, uint32_t pair,
                             uint32_t top_k)
{
    int32_t expert;
    memcpy(&expert, ps_row_f32(walk, route, pair / top_k) + pair % top_k, sizeof expert);
    return expert;
}

static grouping group_pairs(const ps_walk *walk, const ps_bound_step *step, char *memory)
{
    const ps_operand *route = &step->inputs[1];
    const uint32_t experts = step->plan->attributes.experts;
    const uint32_t top_k = step->plan->attributes.top_k;
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

// One pass over the weights of some experts: gate and up with what follows them, or one linear.
typedef struct expert_pass {
    const ps_operand *x, *y;
    const ps_weight *weight, *up; // up NULL: a linear
    bool is_pair;                 // x has a row for each pair; otherwise one for each token
} expert_pass;

// Output columns [begin, end) of one expert for a panel of its pairs.
static void run_panel(const ps_walk *walk, const ps_bound_step *step, const expert_pass *pass,
                      uint32_t expert, const uint32_t *pairs, uint32_t count, uint32_t begin,
                      uint32_t end)
{
    const uint32_t per_row = pass->is_pair ? 1 : step->plan->attributes.top_k;
    ps_panel rows = {.rows = count};
    for (uint32_t t = 0; t < count; t++) {
        rows.x[t] = ps_row(walk, pass->x, pairs[t] / per_row);
    }
    if (pass->up == NULL) {
        for (uint32_t t = 0; t < count; t++) {
            rows.y[t] = ps_row_f32(walk, pass->y, pairs[t]) + begin;
        }
        ps_linear_tile_rows(walk, pass->x->dtype, pass->x->columns, &rows);
        ps_linear_run_outputs(walk, pass->weight, ps_weight_expert(pass->weight, expert), begin,
                              end, &rows);
        return;
    }
    ps_gate_up part = {.gate = pass->weight,
                       .up = pass->up,
                       .gate_data = ps_weight_expert(pass->weight, expert),
                       .up_data = ps_weight_expert(pass->up, expert),
                       .activation = (ps_activation)step->plan->attributes.activation,
                       .x_dtype = pass->x->dtype,
                       .x_columns = pass->x->columns,
                       .y_dtype = pass->y->dtype,
                       .y_columns = pass->y->columns};
    for (uint32_t t = 0; t < count; t++) {
        part.output[t] = ps_row(walk, pass->y, pairs[t]);
    }
    ps_linear_run_gate_up(walk, &part, &rows, begin, end);
}

// Shares (expert, unit of columns) evenly; each worker's share is contiguous, so that it streams.
static void run_pass(const ps_walk *walk, const ps_bound_step *step, const grouping *by,
                     const uint32_t *experts, uint32_t expert_count, const expert_pass *pass)
{
    const uint32_t outputs = pass->y->columns;
    const uint32_t unit = pass->up != NULL ? PS_BLOCK_COLUMNS : PS_GROUP_ROWS;
    const uint64_t units = ps_divide_up(outputs, unit);
    uint64_t begin, end;
    ps_plan_share(expert_count * units, walk->worker, walk->workers, &begin, &end);
    while (begin < end) {
        const uint64_t nth = begin / units;
        const uint64_t stop = end < (nth + 1) * units ? end : (nth + 1) * units;
        const uint32_t expert = experts[nth];
        const uint32_t first = (uint32_t)(begin - nth * units) * unit;
        const uint64_t last = (stop - nth * units) * unit;
        for (uint32_t p = by->starts[expert]; p < by->starts[expert + 1]; p += PS_PANEL_ROWS) {
            const uint32_t left = by->starts[expert + 1] - p;
            run_panel(walk, step, pass, expert, by->pairs + p,
                      left < PS_PANEL_ROWS ? left : PS_PANEL_ROWS, first,
                      last < outputs ? (uint32_t)last : outputs);
        }
        begin = stop;
    }
}

static uint64_t rows_scratch_bytes(const ps_bound_step *step)
{
    return ps_linear_scratch_bytes(step->inputs[0].dtype, step->inputs[0].columns);
}

static void run_all(const ps_walk *walk, const ps_bound_step *step, const expert_pass *pass)
{
    const grouping by = group_pairs(walk, step, walk->scratch + rows_scratch_bytes(step));
    run_pass(walk, step, &by, by.distinct, by.distinct_count, pass);
}

void ps_exec_op_EXPERT_GATE_UP(const ps_walk *walk, const ps_bound_step *step)
{
    run_all(walk, step,
            &(expert_pass){.x = &step->inputs[0],
                           .y = &step->output,
                           .weight = step->inputs[2].weight,
                           .up = step->inputs[3].weight});
}

void ps_exec_op_EXPERT_LINEAR(const ps_walk *walk, const ps_bound_step *step)
{
    run_all(walk, step,
            &(expert_pass){.x = &step->inputs[0],
                           .y = &step->output,
                           .weight = step->inputs[2].weight,
                           .is_pair = step->inputs[0].value->is.row_multiplier > 1});
}

uint64_t ps_exec_experts_scratch_bytes(const ps_plan *plan, const ps_bound_step *step)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    return rows_scratch_bytes(step) +
           grouping_bytes(attributes->experts, plan->rows_max * attributes->top_k);
}
