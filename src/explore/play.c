// explore/play.c - one clock, one collective in flight, bytes of each value that are near.
#include "explore/play.h"

#include "cost/cost.h"

#include <string.h>

typedef struct player {
    const ps_plan *plan;
    const ps_machine *machine;
    const ps_play_options *options;
    double now;
    double comm_done; // of the last collective started; <= now: none in flight
    double side_done; // of the last prefetch on a stream of its own
    double *near;     // [values] bytes that prefetches have moved since they were last read
    const ps_plan_step **pending; // prefetches that stand before the next wait
    uint32_t pending_count;
    ps_play result;
} player;

static uint64_t rows_of(const player *p, const ps_plan_value *value)
{
    const uint32_t logits = p->options->rows < p->plan->logits_max ? p->options->rows
                                                                   : p->plan->logits_max;
    return ps_plan_rows(p->plan, &value->is, p->options->rows, logits);
}

// Of a stack of experts, the part that the rows use: each row others, at worst.
static double used_part(const player *p, const ps_plan_step *step, uint32_t id)
{
    const uint32_t experts = p->plan->values[id].is.experts;
    const double pairs = (double)p->options->rows * step->attributes.top_k;
    return experts == 0 || pairs >= experts ? 1 : pairs / experts;
}

// Bytes of an operand that a step reads from memory.
static double stored_bytes(const player *p, const ps_plan_step *step, uint32_t id)
{
    const ps_value *value = &p->plan->values[id].is;
    if (value->kind == PS_VALUE_WEIGHT && value->rows > 1) {
        const double whole = (double)ps_packed_bytes(value->dtype, value->rows, value->columns) *
                             (value->experts == 0 ? 1 : value->experts);
        return step->op == PS_OP_EMBED
                   ? (double)(p->options->rows * ps_dtype_row_bytes(value->dtype, value->columns))
                   : whole * used_part(p, step, id);
    }
    const bool attends = step->op == PS_OP_ATTENTION || step->op == PS_OP_ATTENTION_PARTIAL;
    return value->kind == PS_VALUE_KV && attends
               ? (double)p->options->rows *
                     (double)ps_context_share(&step->attributes, p->options->position + 1ULL) *
                     (double)ps_value_kv_bytes(value)
               : 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

// Operations of a step on int8 and on f32.
static void count_ops(const player *p, const ps_plan_step *step, double *int8, double *f32)
{
    *int8 = 0;
    *f32 = 0;
    for (uint32_t i = 0; i < step->input_count && step->op != PS_OP_EMBED; i++) {
        const ps_value *value = &p->plan->values[step->inputs[i]].is;
        const double rows = step->output == PS_NO_VALUE
                                ? p->options->rows
                                : (double)rows_of(p, &p->plan->values[step->output]);
        if (value->kind == PS_VALUE_WEIGHT && value->rows > 1) {
            double *ops = ps_dtype_is_quantised(value->dtype) ? int8 : f32;
            *ops += rows * value->rows * value->columns;
        } else if (value->kind == PS_VALUE_KV && step->op != PS_OP_KV_WRITE) {
            *f32 += p->options->rows *
                    (double)ps_context_share(&step->attributes, p->options->position + 1ULL) *
                    p->plan->values[step->inputs[0]].is.columns * 2;
        }
    }
}

static void run_step(player *p, const ps_plan_step *step)
{
    const ps_machine *machine = p->machine;
    double cold = 0;
    double warm = 0;
    double warm_ns = 0;
    double int8, f32;
    for (uint32_t i = 0; i < step->input_count; i++) {
        const uint32_t id = step->inputs[i];
        const double bytes = stored_bytes(p, step, id);
        const double near = smaller(p->near[id] * used_part(p, step, id), bytes);
        const bool is_weight = p->plan->values[id].is.kind == PS_VALUE_WEIGHT;
        warm += near;
        warm_ns += near / machine->cache_read_gbs / (is_weight ? machine->linear_share : 1);
        cold += bytes - near;
        p->near[id] = bytes > 0 ? 0 : p->near[id];
    }
    count_ops(p, step, &int8, &f32);
    if (warm > 0 && p->side_done > p->now) { // who reads what is moved waits for all that is moved
        p->result.wait_ns += p->side_done - p->now;
        p->now = p->side_done;
    }
    const double compute = larger(int8 / machine->int8_gops, f32 / machine->f32_gops);
    const double memory = cold / machine->read_gbs + warm_ns;
    const double all_cold = larger((cold + warm) / machine->read_gbs, compute);
    // What has neither weights nor KV was predicted by the scheduler for the largest step.
    const bool has_own = cold + warm > 0 || compute > 0;
    const double scaled = (double)step->predicted_ns * p->options->rows / p->plan->rows_max;
    const double ns = has_own ? larger(memory, compute) : step->stream == 0 ? scaled : 0;
    p->result.saved_ns += has_own ? all_cold - ns : 0;
    p->result.work_ns += ns;
    p->now += ns;
}

static double barrier_ns(const player *p)
{
    return p->machine->threads > 1 ? p->machine->barrier_ns : 0;
}

// Bytes that a prefetch asks for.
static double asked_bytes(const player *p, const ps_plan_step *prefetch)
{
    const ps_value *value = &p->plan->values[prefetch->inputs[0]].is;
    const double whole = value->kind == PS_VALUE_KV
                             ? (double)p->options->rows *
                                   (double)ps_context_share(&prefetch->attributes,
                                                            p->options->position) *
                                   (double)ps_value_kv_bytes(value)
                             : (double)ps_packed_bytes(value->dtype, value->rows, value->columns) *
                                       (value->experts == 0 ? 1 : value->experts) -
                                   prefetch->attributes.skip;
    return prefetch->attributes.bytes == 0 ? whole : smaller(whole, prefetch->attributes.bytes);
}

static void move(player *p, const ps_plan_step *prefetch, double bytes)
{
    p->near[prefetch->inputs[0]] += bytes;
    p->result.moved_bytes += bytes;
}

// Prefetches move bytes while something is waited for.
static void fill(player *p, double ns)
{
    double left = ns * p->machine->fill_gbs;
    p->result.fillable_bytes += left;
    for (uint32_t i = 0; i < p->pending_count; i++) {
        const double moved = smaller(asked_bytes(p, p->pending[i]), left);
        move(p, p->pending[i], moved);
        left -= moved;
    }
    p->pending_count = 0;
}

// Rows for which a prefetch is made.
static bool is_for_rows(const player *p, const ps_plan_step *prefetch)
{
    const ps_op_attributes *a = &prefetch->attributes;
    return p->options->rows >= a->tokens_min &&
           (a->tokens_max == 0 || p->options->rows <= a->tokens_max);
}

// Beside the operators where the machine has a stream for it, else in the next wait.
static void start_prefetch(player *p, const ps_plan_step *prefetch)
{
    if (prefetch->attributes.reason >= PS_REASON_DECLINED || !is_for_rows(p, prefetch)) {
        return;
    }
    if (!p->machine->has_prefetch_stream || prefetch->attributes.window != PS_WINDOW_VECTOR) {
        p->pending[p->pending_count++] = prefetch;
        return;
    }
    const double bytes = asked_bytes(p, prefetch);
    p->side_done = larger(p->side_done, p->now) + bytes / p->machine->fill_gbs;
    move(p, prefetch, bytes);
}

static void wait_for_comm(player *p)
{
    if (p->comm_done > p->now) {
        p->result.wait_ns += p->comm_done - p->now;
        fill(p, p->comm_done - p->now);
        p->now = p->comm_done;
    }
}

static void start_comm(player *p, const ps_plan_step *step)
{
    wait_for_comm(p);
    const uint32_t whole = step->op == PS_OP_REDUCE_SCATTER ? step->inputs[0] : step->output;
    const ps_plan_value *moved = &p->plan->values[whole];
    const double bytes = (double)ps_cost_moved_bytes(
        step->op, &step->attributes, (uint32_t)rows_of(p, moved), ps_plan_row_bytes(&moved->is));
    const uint32_t chunks = step->attributes.chunks == 0 ? 1 : step->attributes.chunks;
    const double chunk_ns = p->machine->comm_ns + bytes / chunks / p->machine->comm_gbs;
    const double start = p->now;
    if (step->op == PS_OP_LINEAR_ALL_REDUCE) {
        run_step(p, step);
    }
    // The last chunk starts when all has been computed, and when the ones before have gone.
    const double last = larger(p->now, start + (p->now - start) / chunks + (chunks - 1) * chunk_ns);
    p->comm_done = last + chunk_ns;
}

ps_status ps_play_plan(const ps_plan *plan, const ps_machine *machine,
                       const ps_play_options *options, ps_arena *arena, ps_play *out)
{
    ps_assert(options->rows > 0 && options->rows <= plan->rows_max);
    player p = {.plan = plan,
                .machine = machine,
                .options = options,
                .near = PS_ARENA_NEW(arena, double, plan->value_count),
                .pending = PS_ARENA_NEW(arena, const ps_plan_step *, plan->step_count)};
    if (p.near == NULL || p.pending == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        if (step->op == PS_OP_PREFETCH) {
            start_prefetch(&p, step);
            continue;
        }
        if (step->join > 0) {
            wait_for_comm(&p);
        }
        if (step->barrier) {
            p.pending_count = 0;
            p.now += barrier_ns(&p);
            p.result.barrier_ns += barrier_ns(&p);
        }
        if (step->stream == PS_STREAM_COMM) {
            start_comm(&p, step);
        } else {
            run_step(&p, step);
        }
    }
    wait_for_comm(&p);
    p.result.total_ns = p.now;
    *out = p.result;
    return PS_OK;
}
