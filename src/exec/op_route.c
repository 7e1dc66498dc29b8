// exec/op_route.c - which experts a row goes to, and the weighted sum of what they answer.
#include "base/top_k.h"
#include "exec/check_grouped.h"

#include <string.h>

// The best `top_k` of p [experts] in falling order, equal ones by lower index. An id is valid
// whatever the numbers are.
static void choose_best(const float *p, uint32_t experts, uint32_t top_k, ps_candidate *best,
                        int32_t *ids)
{
    ps_top_k(p, experts, top_k, best);
    ps_candidates_sort(best, top_k);
    for (uint32_t i = 0; i < top_k; i++) {
        ids[i] = best[i].id;
    }
}

const uint16_t *ps_exec_forced_ids(const ps_walk *walk, const ps_bound_step *step, uint32_t row)
{
    const ps_forced_routes *forced = walk->exec->options.forced_routes;
    if (forced == NULL || step->moe_layer == PS_NO_MOE_LAYER) {
        return NULL;
    }
    const uint64_t *start = forced->starts + walk->rows[row].sequence % forced->sequences;
    const uint64_t token = start[0] + walk->rows[row].position % (start[1] - start[0]);
    return forced->ids + (token * forced->layers + step->moe_layer) * forced->top_k;
}

void ps_exec_op_ROUTE(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    const uint32_t experts = attributes->experts;
    const uint32_t top_k = attributes->top_k;
    const bool before = attributes->gating == PS_GATING_SOFTMAX;
    ps_candidate *best = (ps_candidate *)(void *)walk->scratch;
    float *p = (float *)(void *)(best + top_k);
    uint32_t begin, end;
    ps_rows_of(walk, step, walk->row_count, &begin, &end);
    for (uint32_t r = begin; r < end; r++) {
        const float *logits = ps_row_f32(walk, &step->inputs[0], r);
        float *route = ps_row_f32(walk, &step->output, r);
        float *weights = route + top_k;
        int32_t *ids = (int32_t *)(void *)(p + experts);
        if (before) {
            walk->kernels->softmax(p, logits, experts);
        } else {
            memcpy(p, logits, experts * sizeof *p);
        }
        const uint16_t *forced = ps_exec_forced_ids(walk, step, r);
        if (forced == NULL) {
            choose_best(p, experts, top_k, best, ids);
        }
        for (uint32_t i = 0; forced != NULL && i < top_k; i++) {
            ids[i] = forced[i];
        }
        float sum = 0;
        for (uint32_t i = 0; i < top_k; i++) {
            weights[i] = p[ids[i]];
            sum += weights[i];
        }
        if (!before) {
            walk->kernels->softmax(weights, weights, top_k);
        } else if (attributes->normalise != 0) {
            walk->kernels->scale(weights, weights, 1 / sum, top_k);
        }
        if (attributes->scale != 0) {
            walk->kernels->scale(weights, weights, attributes->scale, top_k);
        }
        memcpy(route, ids, top_k * sizeof *ids);
    }
    if (walk->exec->check != NULL) {
        ps_check_begin(walk);
        ps_check_route(walk, step, begin, end);
    }
}

uint64_t ps_exec_route_scratch_bytes(const ps_op_attributes *attributes)
{
    return attributes->top_k * (sizeof(ps_candidate) + sizeof(int32_t)) +
           attributes->experts * sizeof(float);
}

void ps_exec_op_EXPERT_SUM(const ps_walk *walk, const ps_bound_step *step)
{
    const uint32_t top_k = step->inputs[0].value->is.row_multiplier;
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, walk->row_count, &begin, &end);
    ps_columns_of(walk, step, &step->output, &first, &last);
    for (uint32_t r = begin; r < end && first < last; r++) {
        const float *weights = ps_row_f32(walk, &step->inputs[1], r) + top_k;
        float *y = ps_row_f32(walk, &step->output, r) + first;
        memset(y, 0, (last - first) * sizeof *y);
        for (uint32_t i = 0; i < top_k; i++) {
            walk->kernels->add_scaled(y, ps_row_f32(walk, &step->inputs[0], r * top_k + i) + first,
                                      weights[i], last - first);
        }
    }
    if (walk->exec->check != NULL) {
        ps_check_begin(walk);
        ps_check_sum(walk, step, begin, end, first, last);
    }
}
