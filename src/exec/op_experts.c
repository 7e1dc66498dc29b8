// exec/op_experts.c - all tokens and all experts of a layer in one call over the workers.
//
// Each expert's weights are read once, for all rows that chose it. Its results go to rows of their
// own, one for each pair (row, choice), so that neither the order of experts nor who computes them
// shows in a sum.
#include "base/clock.h"
#include "exec/check_grouped.h"
#include "exec/linear_internal.h"
#include "kernels/pack.h"

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

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
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

static const char *expert_data(const ps_walk *walk, const ps_weight *weight, uint32_t expert)
{
    return weight->data == NULL ? ps_expert_store_data(walk->exec->experts, weight->stored.layer,
                                                       expert, weight->stored.part) +
                                      weight->stored.offset_bytes
                                : ps_weight_expert(weight, expert);
}

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
        ps_linear_run_outputs(walk, pass->weight, expert_data(walk, pass->weight, expert), begin,
                              end, &rows);
        return;
    }
    ps_gate_up part = {.gate = pass->weight,
                       .up = pass->up,
                       .gate_data = expert_data(walk, pass->weight, expert),
                       .up_data = expert_data(walk, pass->up, expert),
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

static bool is_in_wave(const ps_expert_wave *wave, uint32_t expert)
{
    for (uint32_t i = 0; i < wave->count; i++) {
        if (wave->experts[i] == expert) {
            return true;
        }
    }
    return false;
}

// What a pass has given to all pairs of the wave at hand; wave NULL: of all experts, which finds
// pairs that it has left out.
static void check_pass(const ps_walk *walk, const ps_bound_step *step, const ps_expert_wave *wave,
                       const expert_pass *pass)
{
    if (walk->exec->check == NULL) {
        return;
    }
    const uint32_t top_k = step->plan->attributes.top_k;
    uint64_t begin, end;
    ps_team_barrier(walk->exec->team, NULL); // all columns are there
    ps_check_begin(walk);
    ps_plan_share((uint64_t)walk->row_count * top_k, walk->worker, walk->workers, &begin, &end);
    for (uint32_t p = (uint32_t)begin; p < end; p++) {
        const uint32_t expert = (uint32_t)routed_expert(walk, &step->inputs[1], p, top_k);
        if (wave != NULL && !is_in_wave(wave, expert)) {
            continue;
        }
        ps_check_pair pair = {.row = p / top_k,
                              .expert = expert,
                              .weight = pass->weight,
                              .up = pass->up,
                              .data = expert_data(walk, pass->weight, expert),
                              .stage = pass->is_pair ? "down" : "gate_up",
                              .y_dtype = pass->y->dtype,
                              .x = ps_row(walk, pass->x, pass->is_pair ? p : p / top_k),
                              .y = ps_row(walk, pass->y, p)};
        if (pass->up != NULL) {
            pair.up_data = expert_data(walk, pass->up, expert);
        }
        ps_check_pair_rows(walk, step, &pair);
    }
}

// For the rows that a step reads, those between its linears, and a group of weights in packing.
static uint64_t rows_scratch_bytes(const ps_bound_step *step)
{
    uint64_t bytes = ps_linear_scratch_bytes(step->inputs[0].dtype, step->inputs[0].columns);
    for (uint32_t w = 2; w < step->plan->input_count; w++) {
        const ps_weight *weight = step->inputs[w].weight;
        bytes = larger(bytes,
                       ps_linear_scratch_bytes(ps_dtype_of_rows(weight->dtype), weight->inputs));
        bytes = larger(bytes, PS_GROUP_ROWS * ps_dtype_row_bytes(weight->dtype, weight->inputs));
    }
    return ps_round_up(bytes, PS_CACHE_LINE_BYTES);
}

static void tell_routes(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_route_observer *observer = walk->exec->options.routes;
    const ps_operand *route = &step->inputs[1];
    if (observer != NULL && walk->worker == 0 && step->is_moe_begin) {
        observer->see(observer->context, &(ps_routes){.layer = step->moe_layer,
                                                      .row_count = walk->row_count,
                                                      .rows = walk->rows,
                                                      .ids = ps_row(walk, route, 0),
                                                      .row_bytes = route->row_bytes});
    }
}

static void run_all(const ps_walk *walk, const ps_bound_step *step, const expert_pass *pass)
{
    const grouping by = group_pairs(walk, step, walk->scratch + rows_scratch_bytes(step));
    tell_routes(walk, step);
    run_pass(walk, step, &by, by.distinct, by.distinct_count, pass);
    check_pass(walk, step, NULL, pass);
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

// ---- streamed: in waves, as experts come

static ps_operand between_rows(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_value between = ps_plan_between(walk->program->plan, step->plan);
    return (ps_operand){.kind = PS_VALUE_ACTIVATION,
                        .dtype = between.dtype,
                        .columns = between.columns,
                        .offset_bytes = walk->exec->between_offset_bytes,
                        .row_bytes = ps_plan_row_bytes(&between)};
}

static void want_experts(const ps_walk *walk, const ps_bound_step *step, const grouping *by)
{
    ps_expert_want *wants = walk->exec->wants;
    for (uint32_t i = 0; i < by->distinct_count; i++) {
        const uint32_t expert = by->distinct[i];
        wants[i] = (ps_expert_want){.expert = expert,
                                    .rows = by->starts[expert + 1] - by->starts[expert]};
        for (uint32_t p = by->starts[expert]; p < by->starts[expert + 1]; p++) {
            wants[i].decode_rows += !ps_step_row_is_prompt(
                walk->rows, walk->row_count, by->pairs[p] / step->plan->attributes.top_k);
        }
    }
    ps_expert_store_begin(walk->exec->experts, step->inputs[2].weight->stored.layer, wants,
                          by->distinct_count);
}

// Packs one matrix of an expert where it was read. Its groups are as long before and behind, and it
// moves towards the front by less than a page: group by group through a copy, nothing is lost.
static void pack_expert(const ps_walk *walk, const ps_weight *weight, uint32_t expert, char *copy)
{
    const ps_expert_store *store = walk->exec->experts;
    const uint32_t layer = weight->stored.layer;
    char *to = ps_expert_store_data(store, layer, expert, weight->stored.part);
    const char *from = ps_expert_store_raw(store, layer, expert, weight->stored.part);
    const uint64_t row_bytes = ps_dtype_row_bytes(weight->dtype, weight->inputs);
    const uint64_t group_bytes = ps_packed_group_bytes(weight->dtype, weight->inputs);
    for (uint32_t row = 0; row < weight->outputs; row += PS_GROUP_ROWS) {
        const uint32_t rows = weight->outputs - row < PS_GROUP_ROWS ? weight->outputs - row
                                                                    : PS_GROUP_ROWS;
        memcpy(copy, from + row * row_bytes, rows * row_bytes);
        ps_pack_groups(to, copy, row_bytes, weight->dtype, rows, weight->inputs, 0, 1);
        to += group_bytes;
    }
}

// The workers share matrices.
static bool pack_wave(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_expert_wave *wave = &walk->experts->wave;
    uint32_t matrices = 0;
    for (uint32_t i = 0; i < wave->count; i++) {
        for (uint32_t w = 2; w < 5 && wave->is_raw[i]; w++) {
            if (matrices++ % walk->workers == walk->worker) {
                pack_expert(walk, step->inputs[w].weight, wave->experts[i], walk->scratch);
            }
        }
    }
    return matrices > 0;
}

static void next_wave(const ps_walk *walk)
{
    ps_expert_run *run = walk->experts;
    if (run->status == PS_OK) {
        run->status = ps_expert_store_next(walk->exec->experts, &run->wave);
    }
    if (run->status != PS_OK) {
        run->wave.count = 0;
    }
}

// Worker 0's time since *then, which becomes now, goes to *sum.
static void take_time(const ps_walk *walk, uint64_t *then, uint64_t *sum)
{
    if (walk->worker == 0) {
        const uint64_t now = ps_clock_ns();
        *sum += now - *then;
        *then = now;
    }
}

static void check_wave(const ps_walk *walk, const ps_bound_step *step, const ps_expert_wave *wave)
{
    // A wave is empty, too, when one could not be read; before the first, worker 0 may be ahead.
    if (walk->exec->check != NULL && (wave == NULL || walk->experts->status == PS_OK)) {
        ps_check_wave(walk, step, wave);
    }
}

static void run_waves(const ps_walk *walk, const ps_bound_step *step, const grouping *by,
                      const expert_pass *gate_up, const expert_pass *down, uint64_t then)
{
    ps_team *team = walk->exec->team;
    ps_expert_times *times = &walk->experts->times;
    const ps_expert_wave *wave = &walk->experts->wave;
    if (walk->worker == 0 && walk->experts->status == PS_OK) {
        want_experts(walk, step, by);
    }
    check_wave(walk, step, NULL);
    take_time(walk, &then, &times->dispatch_ns);
    for (;;) {
        if (walk->worker == 0) {
            next_wave(walk);
        }
        ps_team_barrier(team, NULL);
        check_wave(walk, step, wave);
        if (wave->count == 0) {
            return;
        }
        if (pack_wave(walk, step)) {
            ps_team_barrier(team, NULL);
        }
        take_time(walk, &then, &times->move_ns);
        run_pass(walk, step, by, wave->experts, wave->count, gate_up);
        ps_team_barrier(team, NULL);
        check_pass(walk, step, wave, gate_up);
        run_pass(walk, step, by, wave->experts, wave->count, down);
        check_pass(walk, step, wave, down);
        ps_team_barrier(team, NULL); // the wave may leave
        take_time(walk, &then, &times->compute_ns);
    }
}

void ps_exec_op_EXPERT_FFN(const ps_walk *walk, const ps_bound_step *step)
{
    const uint64_t start = walk->worker == 0 ? ps_clock_ns() : 0;
    const ps_operand between = between_rows(walk, step);
    const expert_pass gate_up = {.x = &step->inputs[0],
                                 .y = &between,
                                 .weight = step->inputs[2].weight,
                                 .up = step->inputs[3].weight};
    const expert_pass down = {
        .x = &between, .y = &step->output, .weight = step->inputs[4].weight, .is_pair = true};
    const grouping by = group_pairs(walk, step, walk->scratch + rows_scratch_bytes(step));
    tell_routes(walk, step);
    if (gate_up.weight->data == NULL) {
        run_waves(walk, step, &by, &gate_up, &down, start);
        return;
    }
    run_pass(walk, step, &by, by.distinct, by.distinct_count, &gate_up);
    ps_team_barrier(walk->exec->team, NULL);
    check_pass(walk, step, NULL, &gate_up);
    run_pass(walk, step, &by, by.distinct, by.distinct_count, &down);
    check_pass(walk, step, NULL, &down);
}

void ps_exec_op_EXPERT_EXPECT(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_weight *weight = step->inputs[1].weight;
    const uint32_t top_k = step->plan->attributes.top_k;
    if (walk->worker != 0 || weight->data != NULL || walk->experts->status != PS_OK) {
        return;
    }
    for (uint32_t p = 0; p < walk->row_count * top_k; p++) {
        const uint32_t expert = (uint32_t)routed_expert(walk, &step->inputs[0], p, top_k);
        ps_expert_store_expect(walk->exec->experts, weight->stored.layer, expert);
    }
}

uint64_t ps_exec_experts_scratch_bytes(const ps_plan *plan, const ps_bound_step *step)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    return rows_scratch_bytes(step) +
           grouping_bytes(attributes->experts, plan->rows_max * attributes->top_k);
}
