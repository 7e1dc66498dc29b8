// exec/check_grouped.c - what is computed beside the grouped calls, and the first difference.
#include "exec/check_grouped.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// Results of a matrix, whose last group may be partly padding.
static uint64_t results_bytes(uint32_t outputs)
{
    return ps_round_up(outputs * sizeof(float), PS_GROUP_ROWS * sizeof(float));
}

uint64_t ps_check_scratch_bytes(const ps_bound_step *step)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < step->plan->input_count; i++) {
        if (step->inputs[i].kind == PS_VALUE_WEIGHT && step->inputs[i].weight->experts > 0) {
            const uint32_t outputs = step->inputs[i].weight->outputs;
            const uint64_t whole = ps_round_up(outputs, PS_BLOCK_COLUMNS); // may be of f32 rows
            bytes = larger(bytes, 2 * results_bytes(outputs) + ps_q8_row_bytes(whole));
        }
    }
    return step->plan->op == PS_OP_ROUTE
               ? (attributes->experts + 2 * (uint64_t)attributes->top_k) * sizeof(float)
               : bytes;
}

ps_status ps_check_create(ps_arena *arena, uint32_t workers, uint64_t scratch_bytes,
                          uint32_t experts_max, ps_grouped_check **out)
{
    ps_grouped_check *check = PS_ARENA_NEW(arena, ps_grouped_check, 1);
    if (check == NULL) {
        return PS_NO_MEMORY;
    }
    check->scratch_bytes = ps_round_up(scratch_bytes, PS_CACHE_LINE_BYTES);
    check->workers = PS_ARENA_NEW(arena, ps_grouped_finding, workers);
    check->scratch = PS_ARENA_NEW(arena, char, workers * check->scratch_bytes);
    if (check->workers == NULL || check->scratch == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t w = 0; w < workers; w++) {
        check->workers[w].came = PS_ARENA_NEW(arena, bool, experts_max);
        if (check->workers[w].came == NULL) {
            return PS_NO_MEMORY;
        }
    }
    *out = check;
    return PS_OK;
}

static char *scratch_of(const ps_walk *walk)
{
    return walk->exec->check->scratch + walk->worker * walk->exec->check->scratch_bytes;
}

void ps_check_begin(const ps_walk *walk)
{
    walk->exec->check->workers[walk->worker].calls++;
}

static void note(const ps_walk *walk, const ps_bound_step *step, ps_grouped_difference difference)
{
    ps_grouped_finding *finding = &walk->exec->check->workers[walk->worker];
    const uint32_t layer = step->plan->attributes.layer; // from 1
    if (!finding->is_different) {
        finding->is_different = true;
        difference.call = finding->calls;
        difference.layer = layer > 0 ? layer - 1 : 0;
        finding->first = difference;
    }
}

static bool is_same(float a, float b)
{
    uint32_t bits[2];
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    return bits[0] == bits[1] || (isnan(a) && isnan(b));
}

static void compare_values(const ps_walk *walk, const ps_bound_step *step, const char *stage,
                           uint32_t row, int32_t expert, const float *grouped, const float *alone,
                           uint32_t count)
{
    for (uint32_t c = 0; c < count; c++) {
        if (!is_same(grouped[c], alone[c])) {
            note(walk, step,
                 (ps_grouped_difference){.stage = stage,
                                         .expert = expert,
                                         .row = row,
                                         .column = c,
                                         .grouped = grouped[c],
                                         .alone = alone[c]});
            return;
        }
    }
}

// ---- router

// The best `top_k` of p [experts]: a pass for each.
static void choose_alone(const float *p, uint32_t experts, uint32_t top_k, int32_t *ids)
{
    for (uint32_t i = 0; i < top_k; i++) {
        int32_t best = -1;
        for (uint32_t e = 0; e < experts; e++) {
            bool is_taken = false;
            for (uint32_t j = 0; j < i && !is_taken; j++) {
                is_taken = ids[j] == (int32_t)e;
            }
            if (!is_taken && (best < 0 || p[e] > p[best])) {
                best = (int32_t)e;
            }
        }
        ids[i] = best;
    }
}

static bool has_nan(const float *p, uint32_t count)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        found |= isnan(p[i]);
    }
    return found;
}

static void weigh_alone(const ps_walk *walk, const ps_op_attributes *is, const float *p,
                        const int32_t *ids, float *weights)
{
    float sum = 0;
    for (uint32_t i = 0; i < is->top_k; i++) {
        weights[i] = p[ids[i]];
        sum += weights[i];
    }
    if (is->gating != PS_GATING_SOFTMAX) {
        walk->kernels->softmax(weights, weights, is->top_k);
    }
    for (uint32_t i = 0; i < is->top_k; i++) {
        if (is->gating == PS_GATING_SOFTMAX && is->normalise != 0) {
            weights[i] *= 1 / sum;
        }
        if (is->scale != 0) {
            weights[i] *= is->scale;
        }
    }
}

static void check_route(const ps_walk *walk, const ps_bound_step *step, uint32_t row)
{
    const ps_op_attributes *is = &step->plan->attributes;
    float *p = (float *)(void *)scratch_of(walk);
    float *weights = p + is->experts;
    int32_t *ids = (int32_t *)(void *)(weights + is->top_k);
    const float *answer = ps_row_f32(walk, &step->output, row);
    if (is->gating == PS_GATING_SOFTMAX) {
        walk->kernels->softmax(p, ps_row_f32(walk, &step->inputs[0], row), is->experts);
    } else {
        memcpy(p, ps_row_f32(walk, &step->inputs[0], row), is->experts * sizeof *p);
    }
    if (has_nan(p, is->experts)) {
        return; // there are no best ones, and the step fails by its logits
    }
    const uint16_t *forced = ps_exec_forced_ids(walk, step, row);
    choose_alone(p, is->experts, is->top_k, ids);
    for (uint32_t i = 0; i < is->top_k; i++) {
        int32_t id;
        memcpy(&id, answer + i, sizeof id);
        ids[i] = forced != NULL ? forced[i] : ids[i];
        if (id != ids[i]) {
            note(walk, step,
                 (ps_grouped_difference){.stage = "ids",
                                         .expert = ids[i],
                                         .row = row,
                                         .column = i,
                                         .grouped = (float)id,
                                         .alone = (float)ids[i]});
        }
    }
    weigh_alone(walk, is, p, ids, weights);
    compare_values(walk, step, "weights", row, -1, answer + is->top_k, weights, is->top_k);
}

void ps_check_route(const ps_walk *walk, const ps_bound_step *step, uint32_t begin, uint32_t end)
{
    for (uint32_t r = begin; r < end; r++) {
        check_route(walk, step, r);
    }
}

// ---- experts

static void multiply_alone(const ps_walk *walk, const ps_weight *weight, const char *data,
                           const void *x, float *y)
{
    ps_kernels_linear(walk->kernels, weight->dtype)(
        &(ps_linear){.y = &y,
                     .w = data,
                     .group_count = ps_divide_up(weight->outputs, PS_GROUP_ROWS),
                     .inputs = weight->inputs,
                     .tokens = 1,
                     .x = &x,
                     .hints = walk->kernels->linear_hints});
}

// The first column of the first plane in which rows differ; `columns` where none does.
static uint32_t differing_column(const char *grouped, const char *alone, uint32_t columns)
{
    const uint32_t blocks = columns / PS_BLOCK_COLUMNS;
    for (uint32_t c = 0; c < columns; c++) {
        if (grouped[c] != alone[c]) {
            return c;
        }
    }
    for (uint32_t b = 0; b < blocks; b++) {
        if (!is_same(ps_q8_row_d(grouped, columns)[b], ps_q8_row_d(alone, columns)[b]) ||
            !is_same(ps_q8_row_ds(grouped, columns)[b], ps_q8_row_ds(alone, columns)[b]) ||
            memcmp(ps_q8_row_sums(grouped, columns) + (size_t)2 * b,
                   ps_q8_row_sums(alone, columns) + (size_t)2 * b, 2 * sizeof(int16_t)) != 0) {
            return b * PS_BLOCK_COLUMNS;
        }
    }
    return columns;
}

static float q8_value(const char *row, uint32_t columns, uint32_t column)
{
    return (float)(int8_t)row[column] * ps_q8_row_d(row, columns)[column / PS_BLOCK_COLUMNS];
}

static void compare_rows(const ps_walk *walk, const ps_bound_step *step, const ps_check_pair *pair,
                         const char *alone)
{
    const uint32_t columns = pair->weight->outputs;
    if (pair->y_dtype != PS_DTYPE_Q8_ROW) {
        compare_values(walk, step, pair->stage, pair->row, (int32_t)pair->expert, pair->y,
                       (const float *)(const void *)alone, columns);
        return;
    }
    const uint32_t column = differing_column(pair->y, alone, columns);
    if (column < columns) {
        note(walk, step,
             (ps_grouped_difference){.stage = pair->stage,
                                     .expert = (int32_t)pair->expert,
                                     .row = pair->row,
                                     .column = column,
                                     .grouped = q8_value(pair->y, columns, column),
                                     .alone = q8_value(alone, columns, column)});
    }
}

void ps_check_pair_rows(const ps_walk *walk, const ps_bound_step *step, const ps_check_pair *pair)
{
    const uint32_t columns = pair->weight->outputs;
    char *y = scratch_of(walk);
    char *up = y + results_bytes(columns);
    char *quantised = up + results_bytes(columns);
    float *values = (float *)(void *)y;
    multiply_alone(walk, pair->weight, pair->data, pair->x, values);
    if (pair->up != NULL) {
        float *factors = (float *)(void *)up;
        multiply_alone(walk, pair->up, pair->up_data, pair->x, factors);
        (step->plan->attributes.activation == PS_ACTIVATION_GELU
             ? walk->kernels->gelu_mul
             : walk->kernels->silu_mul)(values, values, factors, columns);
    }
    if (pair->y_dtype == PS_DTYPE_Q8_ROW) {
        walk->kernels->quantise_q8(quantised, values, columns);
        y = quantised;
    }
    compare_rows(walk, step, pair, y);
}

// ---- waves

static void check_all_came(const ps_walk *walk, const ps_bound_step *step, const bool *came)
{
    const uint32_t top_k = step->plan->attributes.top_k;
    uint64_t begin, end;
    ps_check_begin(walk);
    ps_plan_share((uint64_t)walk->row_count * top_k, walk->worker, walk->workers, &begin, &end);
    for (uint64_t p = begin; p < end; p++) {
        const uint32_t row = (uint32_t)(p / top_k);
        int32_t expert;
        memcpy(&expert, ps_row_f32(walk, &step->inputs[1], row) + p % top_k, sizeof expert);
        if (!came[expert]) {
            note(walk, step,
                 (ps_grouped_difference){.stage = "waves",
                                         .expert = expert,
                                         .row = row,
                                         .column = (uint32_t)(p % top_k),
                                         .alone = 1});
        }
    }
}

void ps_check_wave(const ps_walk *walk, const ps_bound_step *step, const ps_expert_wave *wave)
{
    bool *came = walk->exec->check->workers[walk->worker].came;
    if (wave == NULL) {
        memset(came, 0, step->plan->attributes.experts * sizeof *came);
    } else if (wave->count == 0) {
        check_all_came(walk, step, came);
    } else {
        for (uint32_t i = 0; i < wave->count; i++) {
            came[wave->experts[i]] = true;
        }
    }
}

// ---- the sum

void ps_check_sum(const ps_walk *walk, const ps_bound_step *step, uint32_t begin, uint32_t end,
                  uint32_t first, uint32_t last)
{
    const uint32_t top_k = step->inputs[0].value->is.row_multiplier;
    for (uint32_t r = begin; r < end; r++) {
        const float *weights = ps_row_f32(walk, &step->inputs[1], r) + top_k;
        const float *grouped = ps_row_f32(walk, &step->output, r);
        for (uint32_t c = first; c < last; c++) {
            float sum = 0;
            for (uint32_t i = 0; i < top_k; i++) {
                sum = fmaf(ps_row_f32(walk, &step->inputs[0], r * top_k + i)[c], weights[i], sum);
            }
            if (!is_same(grouped[c], sum)) {
                note(walk, step,
                     (ps_grouped_difference){.stage = "sum",
                                             .expert = -1,
                                             .row = r,
                                             .column = c,
                                             .grouped = grouped[c],
                                             .alone = sum});
            }
        }
    }
}

// ---- the result

// Which of two comes first: all workers count the same calls, and share out their rows.
static bool is_before(const ps_grouped_difference *a, const ps_grouped_difference *b)
{
    return a->call != b->call ? a->call < b->call
           : a->row != b->row ? a->row < b->row
                              : a->column < b->column;
}

ps_status ps_check_result(ps_grouped_check *check, uint32_t workers)
{
    const ps_grouped_difference *first = NULL;
    for (uint32_t w = 0; w < workers; w++) {
        ps_grouped_finding *finding = &check->workers[w];
        if (finding->is_different && (first == NULL || is_before(&finding->first, first))) {
            first = &finding->first;
        }
        finding->is_different = false;
        finding->calls = 0;
    }
    if (first == NULL) {
        return PS_OK;
    }
    char expert[32] = "";
    if (first->expert >= 0) {
        (void)snprintf(expert, sizeof expert, ", expert %d", first->expert);
    }
    return ps_fail(PS_INTERNAL,
                   "--check-grouped: layer %u, %s%s, row %u, column %u: %.9g in the grouped call, "
                   "%.9g alone, %.3g apart",
                   first->layer, first->stage, expert, first->row, first->column,
                   (double)first->grouped, (double)first->alone,
                   (double)first->grouped - (double)first->alone);
}
