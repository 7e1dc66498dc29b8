// explore/play_work.c - bytes, operations and times of one step.
#include "explore/play_work.h"

#include "cost/cost.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static const ps_value *value_of(const ps_play_work *w, uint32_t id)
{
    return &w->plan->values[id].is;
}

static bool is_matrix(const ps_value *value)
{
    return value->kind == PS_VALUE_WEIGHT && value->rows > 1;
}

uint64_t ps_play_rows(const ps_play_work *w, const ps_plan_value *value)
{
    const uint32_t most = w->plan->logits_max;
    const uint32_t logits = w->options->rows < most ? w->options->rows : most;
    return ps_plan_rows(w->plan, &value->is, w->options->rows, logits);
}

// Positions of a sequence that a step reads the KV of, or a prefetch moves: of so many that are
// there, those that the layer sees, and of them those that this rank has.
static double positions(const ps_play_work *w, const ps_plan_step *step, const ps_value *kv,
                        uint64_t there)
{
    const uint32_t window = w->plan->kv_windows[kv->kv_group];
    const uint64_t seen = window == 0 || there < window ? there : window;
    return (double)ps_context_share(&step->attributes, seen);
}

// Each row uses others, at worst.
double ps_play_used_part(const ps_play_work *w, const ps_plan_step *step, uint32_t id)
{
    const uint32_t experts = value_of(w, id)->experts;
    const double pairs = (double)w->options->rows * step->attributes.top_k;
    return experts == 0 || pairs >= experts ? 1 : pairs / experts;
}

static double kv_part(const ps_play_work *w)
{
    return w->options->kv_part > 0 ? w->options->kv_part : 1;
}

// Bytes of KV at so many positions of all sequences.
static double kv_bytes(const ps_play_work *w, const ps_value *kv, double tokens)
{
    const uint32_t sequences = w->options->sequences > 0 ? w->options->sequences : w->options->rows;
    return sequences * tokens * (double)ps_value_kv_bytes(kv) * kv_part(w);
}

double ps_play_stored_bytes(const ps_play_work *w, const ps_plan_step *step, uint32_t id)
{
    const ps_value *value = value_of(w, id);
    if (is_matrix(value)) {
        return step->op == PS_OP_EMBED
                   ? (double)(w->options->rows * ps_dtype_row_bytes(value->dtype, value->columns))
                   : (double)ps_value_weight_bytes(value) * ps_play_used_part(w, step, id);
    }
    return value->kind == PS_VALUE_KV && ps_op_attends(step->op)
               ? kv_bytes(w, value, positions(w, step, value, w->options->position + 1ULL))
               : 0;
}

double ps_play_byte_words(const ps_play_work *w, uint32_t id)
{
    const ps_value *value = value_of(w, id);
    return value->kind == PS_VALUE_KV
               ? 2.0 * value->columns / (double)ps_value_kv_bytes(value)
               : (double)value->rows * value->columns /
                     (double)ps_packed_bytes(value->dtype, value->rows, value->columns);
}

double ps_play_asked_bytes(const ps_play_work *w, const ps_plan_step *prefetch)
{
    const ps_value *value = value_of(w, prefetch->inputs[0]);
    // The row that this step writes is not there yet.
    const double whole = value->kind == PS_VALUE_KV
                             ? kv_bytes(w, value,
                                        positions(w, prefetch, value, w->options->position))
                             : (double)ps_value_weight_bytes(value) - prefetch->attributes.skip;
    return prefetch->attributes.bytes == 0 ? whole : smaller(whole, prefetch->attributes.bytes);
}

double ps_play_read_gbs(const ps_play_work *w, uint32_t id, bool is_cached)
{
    const ps_value *value = value_of(w, id);
    if (value->kind != PS_VALUE_KV) {
        return ps_cost_weight_gbs(w->machine, is_cached);
    }
    const double heads = (double)value->columns / value->head_dim * kv_part(w);
    const double pieces = w->options->rows * larger(heads, 1); // parts of a head are of positions
    return ps_cost_kv_gbs(w->machine, heads, pieces, is_cached);
}

static double first_known(double measured, double otherwise)
{
    return measured > 0 ? measured : otherwise;
}

double ps_play_compute_ns(const ps_play_work *w, const ps_plan_step *step, double *ops)
{
    const ps_machine *m = w->machine;
    double int8_ns = 0;
    double f32_ns = 0;
    *ops = 0;
    for (uint32_t i = 0; i < step->input_count && step->op != PS_OP_EMBED; i++) {
        const ps_value *value = value_of(w, step->inputs[i]);
        const double rows = step->output == PS_NO_VALUE
                                ? w->options->rows
                                : (double)ps_play_rows(w, &w->plan->values[step->output]);
        double count = 0; // multiply-adds
        if (is_matrix(value)) {
            const bool is_int8 = ps_dtype_is_quantised(value->dtype);
            const double gops = first_known(m->workers.linear_gops[value->dtype],
                                            is_int8 ? m->int8_gops : m->f32_gops);
            count = rows * value->rows * value->columns;
            *(is_int8 ? &int8_ns : &f32_ns) += count / gops;
        } else if (value->kind == PS_VALUE_KV && ps_op_attends(step->op)) {
            count = w->options->rows * positions(w, step, value, w->options->position + 1ULL) *
                    value_of(w, step->inputs[0])->columns * 2;
            f32_ns += count / first_known(m->workers.attention_gops, m->f32_gops);
        }
        *ops += 2 * count;
    }
    return larger(int8_ns, f32_ns) / ps_machine_share(m->profile.compute_share);
}

double ps_play_fixed_ns(const ps_play_work *w, const ps_plan_step *step)
{
    const ps_machine_profile *p = &w->machine->profile;
    const uint8_t flags = ps_op_get(step->op)->flags;
    const bool multiplies = (flags & PS_OP_READS_WEIGHTS) != 0 && step->op != PS_OP_EMBED;
    const double more_ns = (flags & PS_OP_VECTOR) != 0             ? p->vector_ns
                           : ps_op_attends(step->op) || multiplies ? p->matmul_ns
                                                                   : 0;
    return more_ns + w->machine->workers.step_ns;
}

double ps_play_miss_ns(const ps_play_work *w, const ps_plan_step *step)
{
    const ps_machine_profile *p = &w->machine->profile;
    double bytes = 0;
    for (uint32_t i = 0; i < step->input_count; i++) {
        const ps_value *value = value_of(w, step->inputs[i]);
        if (value->kind == PS_VALUE_WEIGHT && value->experts > 0) {
            bytes += ps_play_stored_bytes(w, step, step->inputs[i]);
        }
    }
    bytes *= w->options->expert_misses;
    const double disk = bytes * w->options->disk_misses;
    const double host = bytes - disk;
    return (host > 0 ? p->host_ns + host / p->host_gbs : 0) +
           (disk > 0 ? p->disk_ns + disk / p->disk_gbs : 0);
}

uint64_t ps_play_collective_bytes(const ps_play_work *w, const ps_plan_step *step)
{
    const uint32_t whole = step->op == PS_OP_REDUCE_SCATTER ? step->inputs[0] : step->output;
    const ps_plan_value *moved = &w->plan->values[whole];
    return ps_cost_moved_bytes(step->op, &step->attributes, (uint32_t)ps_play_rows(w, moved),
                               ps_plan_row_bytes(&moved->is));
}

double ps_play_collective_ns(const ps_play_work *w, const ps_plan_step *step, double *chunk_ns)
{
    const uint32_t chunks = step->attributes.chunks == 0 ? 1 : step->attributes.chunks;
    const uint64_t bytes = ps_play_collective_bytes(w, step) / chunks;
    *chunk_ns = ps_cost_chunk_ns(w->machine, step->attributes.ranks, bytes);
    return ps_cost_collective_ns(w->machine, step->op, step->attributes.ranks, bytes);
}

bool ps_play_is_made(const ps_play_work *w, const ps_plan_step *prefetch)
{
    const ps_op_attributes *a = &prefetch->attributes;
    return a->reason < PS_REASON_DECLINED && w->options->rows >= a->tokens_min &&
           (a->tokens_max == 0 || w->options->rows <= a->tokens_max);
}
