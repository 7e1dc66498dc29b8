// exec/op_vector.c - operators that work on each row or each column alone.
#include "exec/exec_internal.h"
#include "kernels/pack.h"

#include <math.h>
#include <string.h>

void ps_quantise_columns(const ps_kernels *kernels, void *q8_row, uint32_t columns, const float *x,
                         uint32_t first, uint32_t count, void *scratch)
{
    if (count == columns) {
        kernels->quantise_q8(q8_row, x, columns);
        return;
    }
    // A row's planes are spaced by its full width, so a part is quantised apart and its planes
    // copied.
    kernels->quantise_q8(scratch, x, count);
    const uint32_t block = first / PS_BLOCK_COLUMNS;
    const uint32_t blocks = count / PS_BLOCK_COLUMNS;
    char *row = q8_row;
    const uint64_t d_plane = columns;
    const uint64_t plane_bytes = columns / PS_BLOCK_COLUMNS * sizeof(float);
    const char *part = scratch;
    memcpy(row + first, part, count);
    for (uint32_t plane = 0; plane < 3; plane++) { // d, ds and the sums are 4 bytes a block each
        memcpy(row + d_plane + plane * plane_bytes + block * sizeof(float),
               part + count + plane * blocks * sizeof(float), blocks * sizeof(float));
    }
}

void ps_exec_op_EMBED(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_weight *table = step->inputs[0].weight;
    const float scale = step->plan->attributes.scale;
    uint32_t begin, end;
    ps_rows_of(walk, step, walk->row_count, &begin, &end);
    for (uint32_t r = begin; r < end; r++) {
        float *y = ps_row_f32(walk, &step->output, r);
        ps_unpack_row(y, table->data, table->dtype, table->inputs, (uint64_t)walk->rows[r].token);
        if (scale != 0) {
            walk->kernels->scale(y, y, scale, table->inputs);
        }
    }
}

void ps_exec_op_RMS_NORM(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_weight *weight = step->inputs[1].weight;
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, ps_operand_rows(walk, &step->output), &begin, &end);
    ps_columns_of(walk, step, &step->output, &first, &last);
    for (uint32_t r = begin; r < end; r++) {
        const float *x = ps_row_f32(walk, &step->inputs[0], r);
        float *y = ps_row_f32(walk, &step->output, r);
        for (uint32_t c = first; c < last; c += weight->inputs) {
            walk->kernels->rms_norm(y + c, x + c, weight->data, weight->inputs,
                                    step->plan->attributes.eps);
        }
    }
}

void ps_exec_op_QUANTISE(const ps_walk *walk, const ps_bound_step *step)
{
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, ps_operand_rows(walk, &step->output), &begin, &end);
    ps_columns_of(walk, step, &step->output, &first, &last);
    for (uint32_t r = begin; r < end && first < last; r++) {
        ps_quantise_columns(walk->kernels, ps_row(walk, &step->output, r), step->output.columns,
                            ps_row_f32(walk, &step->inputs[0], r) + first, first, last - first,
                            walk->scratch);
    }
}

void ps_exec_op_NORM_QUANTISE(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_weight *weight = step->inputs[1].weight;
    float *normed = (float *)(void *)walk->scratch;
    uint32_t begin, end;
    ps_rows_of(walk, step, ps_operand_rows(walk, &step->output), &begin, &end);
    for (uint32_t r = begin; r < end; r++) {
        walk->kernels->rms_norm(normed, ps_row_f32(walk, &step->inputs[0], r), weight->data,
                                weight->inputs, step->plan->attributes.eps);
        walk->kernels->quantise_q8(ps_row(walk, &step->output, r), normed, weight->inputs);
    }
}

void ps_exec_op_ADD(const ps_walk *walk, const ps_bound_step *step)
{
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, ps_operand_rows(walk, &step->output), &begin, &end);
    ps_columns_of(walk, step, &step->output, &first, &last);
    for (uint32_t r = begin; r < end && first < last; r++) {
        walk->kernels->add(ps_row_f32(walk, &step->output, r) + first,
                           ps_row_f32(walk, &step->inputs[0], r) + first,
                           ps_row_f32(walk, &step->inputs[1], r) + first, last - first);
    }
}

void ps_exec_op_ADD_BIAS(const ps_walk *walk, const ps_bound_step *step)
{
    const float *bias = step->inputs[1].weight->data;
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, ps_operand_rows(walk, &step->output), &begin, &end);
    ps_columns_of(walk, step, &step->output, &first, &last);
    for (uint32_t r = begin; r < end && first < last; r++) {
        walk->kernels->add(ps_row_f32(walk, &step->output, r) + first,
                           ps_row_f32(walk, &step->inputs[0], r) + first, bias + first,
                           last - first);
    }
}

void ps_exec_op_ACT_MUL(const ps_walk *walk, const ps_bound_step *step)
{
    ps_act_mul_fn *act = step->plan->attributes.activation == PS_ACTIVATION_GELU
                             ? walk->kernels->gelu_mul
                             : walk->kernels->silu_mul;
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, ps_operand_rows(walk, &step->output), &begin, &end);
    ps_columns_of(walk, step, &step->output, &first, &last);
    for (uint32_t r = begin; r < end && first < last; r++) {
        act(ps_row_f32(walk, &step->output, r) + first,
            ps_row_f32(walk, &step->inputs[0], r) + first,
            ps_row_f32(walk, &step->inputs[1], r) + first, last - first);
    }
}

void ps_exec_op_SOFTCAP(const ps_walk *walk, const ps_bound_step *step)
{
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, ps_operand_rows(walk, &step->output), &begin, &end);
    ps_columns_of(walk, step, &step->output, &first, &last);
    for (uint32_t r = begin; r < end && first < last; r++) {
        walk->kernels->softcap(ps_row_f32(walk, &step->output, r) + first,
                               ps_row_f32(walk, &step->inputs[0], r) + first,
                               step->plan->attributes.softcap, last - first);
    }
}

// Angles in float64: at position 100,000 an f32 product is off by 0.004 radians.
void ps_exec_op_ROPE_TABLE(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    const float *factors = step->plan->input_count > 0 ? step->inputs[0].weight->data : NULL;
    const double scale = attributes->freq_scale == 0 ? 1 : (double)attributes->freq_scale;
    const uint32_t half = step->output.columns / 2;
    double *frequency = (double *)(void *)walk->scratch;
    for (uint32_t i = 0; i < half; i++) {
        frequency[i] = scale * pow((double)attributes->freq_base, -(double)i / half) /
                       (factors == NULL ? 1 : (double)factors[i]);
    }
    uint32_t begin, end;
    ps_rows_of(walk, step, walk->row_count, &begin, &end);
    for (uint32_t r = begin; r < end; r++) {
        float *cosines = ps_row_f32(walk, &step->output, r);
        for (uint32_t i = 0; i < half; i++) {
            double s, c;
            sincos(walk->rows[r].position * frequency[i], &s, &c);
            cosines[i] = (float)c;
            cosines[half + i] = (float)s;
        }
    }
}

void ps_exec_op_ROPE(const ps_walk *walk, const ps_bound_step *step)
{
    const ps_op_attributes *attributes = &step->plan->attributes;
    ps_rope_fn *rope = attributes->rope_style == PS_ROPE_NEOX ? walk->kernels->rope_neox
                                                              : walk->kernels->rope_norm;
    uint32_t begin, end, first, last;
    ps_rows_of(walk, step, walk->row_count, &begin, &end);
    ps_columns_of(walk, step, &step->output, &first, &last);
    for (uint32_t r = begin; r < end && first < last; r++) {
        float *y = ps_row_f32(walk, &step->output, r) + first;
        memcpy(y, ps_row_f32(walk, &step->inputs[0], r) + first, (last - first) * sizeof *y);
        rope(y, ps_row_f32(walk, &step->inputs[1], r), (last - first) / attributes->head_dim,
             attributes->head_dim, step->inputs[1].columns);
    }
}

void ps_exec_op_OWN_ROWS(const ps_walk *walk, const ps_bound_step *step)
{
    uint32_t begin, end, own, own_end;
    const ps_plan *plan = walk->program->plan;
    ps_rows_of(walk, step, ps_operand_rows(walk, &step->output), &begin, &end);
    ps_share_rows(walk->row_count, plan->rank, plan->ranks, &own, &own_end);
    for (uint32_t r = begin; r < end; r++) {
        memcpy(ps_row(walk, &step->output, r), ps_row(walk, &step->inputs[0], own + r),
               step->output.columns * sizeof(float));
    }
}

void ps_exec_op_SELECT_LOGITS(const ps_walk *walk, const ps_bound_step *step)
{
    uint32_t begin, end;
    ps_rows_of(walk, step, walk->logit_count, &begin, &end);
    for (uint32_t r = begin; r < end; r++) {
        memcpy(ps_row(walk, &step->output, r),
               ps_row(walk, &step->inputs[0], walk->exec->logit_rows[r]),
               step->output.columns * sizeof(float));
    }
}
