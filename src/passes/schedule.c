// passes/schedule.c - a graph becomes the list of steps that all workers walk.
//
// 1. Every step gets a split, and every value that is computed column by column remembers which
//    worker owns which columns (its partition). A columnwise operator follows the partition of its
//    input.
// 2. A barrier goes before a step when a value that it reads may have been written, in the part
//    that a worker reads, by another worker, and no barrier stands between already.
// 3. The workspace is laid out (place.c): shared values by the barriers between which they live,
//    private ones by steps.
#include "cost/cost.h"
#include "passes/passes.h"
#include "passes/place.h"

#include <string.h>

typedef struct scheduler {
    const ps_graph *graph;
    const ps_pass_options *options;
    ps_plan *plan;
    uint32_t *writer;  // [values] the step that writes a value's storage, PS_NO_VALUE: none yet
    bool small;        // few rows: replicate
    uint32_t *started; // [steps] collectives up to and with the step
} scheduler;

static uint64_t rows_of(const scheduler *s, const ps_value *value)
{
    return ps_plan_rows(s->plan, value, s->options->rows_max, s->options->logits_max);
}

// ---- steps

static ps_plan_value *value_of(const scheduler *s, ps_value_id id)
{
    return &s->plan->values[id];
}

static ps_plan_value *storage_of(const scheduler *s, ps_value_id id)
{
    const ps_value_id alias = s->plan->values[id].is.alias_of;
    return &s->plan->values[alias == PS_NO_VALUE ? id : alias];
}

static void add_step(const scheduler *s, const ps_node *node, ps_op op, uint32_t input_count,
                     const ps_value_id *inputs, ps_value_id output)
{
    ps_plan_step *step = &s->plan->steps[s->plan->step_count++];
    *step = (ps_plan_step){
        .op = op, .input_count = input_count, .output = output, .attributes = node->attributes};
    memcpy(step->inputs, inputs, input_count * sizeof *inputs);
}

// With few rows attention is shared by chunks of the context, whose results are merged afterwards.
static ps_status add_attention(scheduler *s, const ps_node *node)
{
    const ps_value_id output = node->output;
    const ps_value *kv = &value_of(s, node->inputs[1])->is;
    const uint32_t heads = value_of(s, output)->is.columns / kv->head_dim;
    const uint64_t positions = ps_context_share(&node->attributes, s->options->context_max);
    const uint64_t chunks = ps_divide_up(positions, PS_ATTENTION_CHUNK_POSITIONS);
    const uint64_t columns = chunks * heads * (kv->head_dim + 2);
    if (columns > PS_COLUMNS_MAX) {
        return ps_fail(PS_UNSUPPORTED, "attention over %u positions with %u heads of %u: too large",
                       (uint32_t)positions, heads, kv->head_dim);
    }
    const ps_value_id partial = s->plan->value_count++;
    ps_plan_value *value = value_of(s, partial);
    value->is = value_of(s, output)->is;
    value->is.name = ps_arena_printf(s->graph->arena, "%s.partial", value->is.name);
    value->is.columns = (uint32_t)columns;
    if (value->is.name == NULL) {
        return PS_NO_MEMORY;
    }
    add_step(s, node, PS_OP_ATTENTION_PARTIAL, 2, node->inputs, partial);
    ps_node merge = *node;
    merge.attributes.window = PS_WINDOW_VECTOR;
    const ps_value_id inputs[] = {partial, node->inputs[1]};
    add_step(s, &merge, PS_OP_ATTENTION_MERGE, 2, inputs, output);
    return PS_OK;
}

static ps_status add_steps(scheduler *s)
{
    for (uint32_t i = 0; i < s->graph->node_count; i++) {
        const ps_node *node = &s->graph->nodes[i];
        if (node->op == PS_OP_ATTENTION && s->small) {
            PS_TRY(add_attention(s, node));
        } else {
            add_step(s, node, node->op, node->input_count, node->inputs, node->output);
        }
    }
    return PS_OK;
}

// ---- splits

static uint32_t common_multiple(uint32_t a, uint32_t b)
{
    uint32_t multiple = a;
    while (multiple % b != 0) {
        multiple += a;
    }
    return multiple;
}

static void set_partition(ps_plan_value *value, uint32_t columns, uint32_t unit, uint32_t offset)
{
    value->part_columns = columns;
    value->part_unit = unit;
    value->part_offset = offset;
}

// Views are shared out as what they are views of.
static void spread_partition(const scheduler *s, ps_value_id storage)
{
    const ps_plan_value *whole = value_of(s, storage);
    for (uint32_t i = 0; i < s->plan->value_count; i++) {
        ps_plan_value *view = value_of(s, i);
        if (view->is.kind == PS_VALUE_ACTIVATION && view->is.alias_of == storage) {
            const uint32_t shift = whole->part_unit == 0 ? 0 : view->is.alias_column;
            set_partition(view, whole->part_columns, whole->part_unit, whole->part_offset + shift);
            view->is_private = whole->is_private;
        }
    }
}

// Columns that a columnwise operator needs together; a partition must not cut them.
static uint32_t columns_together(const scheduler *s, const ps_plan_step *step)
{
    switch (step->op) {
    case PS_OP_RMS_NORM:
        return value_of(s, step->inputs[1])->is.columns;
    case PS_OP_QUANTISE:
        return PS_BLOCK_COLUMNS;
    case PS_OP_ROPE:
        return step->attributes.head_dim;
    case PS_OP_KV_WRITE:
        return value_of(s, step->inputs[2])->is.head_dim;
    default:
        return 1;
    }
}

static bool same_partition(const ps_plan_value *a, const ps_plan_value *b)
{
    return a->part_unit == b->part_unit && a->part_columns == b->part_columns &&
           a->part_offset == b->part_offset;
}

// True when each worker can do the columns that it owns of the step's row inputs, without those of
// others.
static bool follows_partition(const scheduler *s, const ps_plan_step *step)
{
    if ((ps_op_get(step->op)->flags & PS_OP_COLUMNWISE) == 0 || step->input_count == 0) {
        return false;
    }
    const ps_plan_value *first = value_of(s, step->inputs[0]);
    const uint32_t together = columns_together(s, step);
    if (first->part_unit == 0 || first->part_unit % together != 0 ||
        first->part_offset % together != 0) {
        return false;
    }
    if (step->op == PS_OP_KV_WRITE) { // K and V are written apart, each where it is
        const ps_plan_value *second = value_of(s, step->inputs[1]);
        return second->part_unit != 0 && second->part_unit % together == 0 &&
               second->part_offset % together == 0;
    }
    const bool two_rows = step->op == PS_OP_ADD || step->op == PS_OP_ACT_MUL;
    return !two_rows || same_partition(first, value_of(s, step->inputs[1]));
}

static void choose_split(const scheduler *s, ps_plan_step *step)
{
    const uint8_t flags = ps_op_get(step->op)->flags;
    ps_plan_value *output = step->output == PS_NO_VALUE ? NULL : value_of(s, step->output);
    if (step->op == PS_OP_PREFETCH) {
        step->split = PS_SPLIT_UNITS;
        step->stream = step->attributes.window == PS_WINDOW_SIDE ? PS_STREAM_SIDE
                                                                 : PS_STREAM_PREFETCH;
        return;
    }
    if (step->op == PS_OP_LINEAR || step->op == PS_OP_LINEAR_ALL_REDUCE ||
        step->op == PS_OP_GATE_UP) {
        ps_assert(output != NULL);
        const uint32_t unit = step->op == PS_OP_GATE_UP ? PS_BLOCK_COLUMNS
                              : step->attributes.unit == 0
                                  ? PS_GROUP_ROWS
                                  : common_multiple(step->attributes.unit, PS_GROUP_ROWS);
        step->split = PS_SPLIT_COLUMNS;
        step->stream = (flags & PS_OP_COLLECTIVE) != 0 ? PS_STREAM_COMM : PS_STREAM_COMPUTE;
        set_partition(output, output->is.columns, unit, 0);
    } else if ((flags & PS_OP_COLLECTIVE) != 0) {
        step->split = PS_SPLIT_ONE;
        step->stream = PS_STREAM_COMM;
    } else if (follows_partition(s, step)) {
        step->split = PS_SPLIT_COLUMNS;
        if (output != NULL) {
            const ps_plan_value *first = value_of(s, step->inputs[0]);
            set_partition(output, first->part_columns, first->part_unit, first->part_offset);
        }
    } else if ((flags & PS_OP_REPLICABLE) != 0) {
        step->split = s->small ? PS_SPLIT_ALL : PS_SPLIT_ROWS;
    } else {
        step->split = step->op == PS_OP_KV_WRITE ? PS_SPLIT_ROWS : PS_SPLIT_UNITS;
    }
    if (output != NULL) {
        output->is_private = step->split == PS_SPLIT_ALL;
        spread_partition(s, step->output);
    }
}

// ---- barriers

// True when the part of `id` that a worker reads in `step` may be another worker's.
static bool crosses_workers(const scheduler *s, const ps_plan_step *step, ps_value_id id)
{
    const ps_plan_value *value = value_of(s, id);
    const uint32_t writer = s->writer[value->is.alias_of == PS_NO_VALUE ? id : value->is.alias_of];
    if (writer == PS_NO_VALUE) {
        return false; // a weight
    }
    const ps_split split = s->plan->steps[writer].split;
    switch (split) {
    case PS_SPLIT_ALL:
        return false;
    case PS_SPLIT_ROWS: {
        const ps_plan_value *output = step->output == PS_NO_VALUE ? value
                                                                  : value_of(s, step->output);
        return step->split != PS_SPLIT_ROWS || value->is.kind == PS_VALUE_KV ||
               value->is.row_kind != output->is.row_kind ||
               value->is.row_multiplier != output->is.row_multiplier;
    }
    case PS_SPLIT_COLUMNS:
        // Among column-split steps only those that follow a partition read nothing else; a linear
        // reads all columns, and rope its whole table.
        return step->split != PS_SPLIT_COLUMNS || !follows_partition(s, step) ||
               value->part_unit == 0 || (step->op == PS_OP_ROPE && id == step->inputs[1]);
    default:
        return true;
    }
}

static void place_barriers(scheduler *s)
{
    uint32_t last = 0; // the last step with a barrier before it; the start of the plan is one
    uint32_t started = 0;
    uint32_t joined = 0;
    for (uint32_t i = 0; i < s->plan->step_count; i++) {
        ps_plan_step *step = &s->plan->steps[i];
        choose_split(s, step);
        s->started[i] = started;
        if (step->op == PS_OP_PREFETCH) {
            continue;
        }
        for (uint32_t j = 0; j < step->input_count; j++) {
            const ps_value_id id = step->inputs[j];
            const ps_value_id alias = value_of(s, id)->is.alias_of;
            const uint32_t writer = s->writer[alias == PS_NO_VALUE ? id : alias];
            if (crosses_workers(s, step, id) && writer >= last) {
                step->barrier = true;
            }
            // Worker 0 comes to the barrier when the collective is done.
            if (writer != PS_NO_VALUE && s->plan->steps[writer].stream == PS_STREAM_COMM &&
                s->started[writer] > joined) {
                step->join = s->started[writer];
                step->barrier = true;
            }
        }
        joined = step->join > joined ? step->join : joined;
        started += step->stream == PS_STREAM_COMM;
        s->started[i] = started;
        last = step->barrier ? i : last;
        if (step->output != PS_NO_VALUE) {
            s->writer[step->output] = i;
        }
        if (step->op == PS_OP_KV_WRITE) {
            s->writer[step->inputs[2]] = i;
        }
    }
}

// ---- workspace

// Lives are counted in steps for private values, and in barriers for shared ones: a worker may be
// anywhere between two barriers while others are elsewhere between the same two.
static ps_status place_values(scheduler *s, bool is_private, uint64_t *out_bytes)
{
    const ps_plan *plan = s->plan;
    ps_life *lives = PS_ARENA_NEW(s->graph->arena, ps_life, plan->value_count);
    uint32_t *life_of = PS_ARENA_NEW(s->graph->arena, uint32_t, plan->value_count);
    if (lives == NULL || life_of == NULL) {
        return PS_NO_MEMORY;
    }
    uint32_t count = 0;
    uint32_t time = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        time += is_private || step->barrier;
        for (uint32_t j = 0; j < step->input_count; j++) {
            const ps_plan_value *value = storage_of(s, step->inputs[j]);
            if (value->is.kind == PS_VALUE_ACTIVATION && value->is_private == is_private) {
                lives[life_of[value - plan->values]].last = time;
            }
        }
        if (step->output != PS_NO_VALUE && value_of(s, step->output)->is_private == is_private) {
            ps_plan_value *value = value_of(s, step->output);
            value->row_bytes = ps_plan_row_bytes(&value->is);
            life_of[step->output] = count;
            lives[count++] = (ps_life){.value = step->output,
                                       .size_bytes = rows_of(s, &value->is) * value->row_bytes,
                                       .first = time,
                                       .last = value->is.is_output ? UINT32_MAX : time};
        }
    }
    PS_TRY(ps_place_lives(lives, count, s->graph->arena, out_bytes));
    for (uint32_t i = 0; i < count; i++) {
        value_of(s, lives[i].value)->offset_bytes = lives[i].offset_bytes;
    }
    return PS_OK;
}

// ---- cost

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// Of a collective. Of a reduce_scatter it is the input that is whole.
static uint64_t moved_bytes(const scheduler *s, const ps_plan_step *step)
{
    const uint32_t whole = step->op == PS_OP_REDUCE_SCATTER ? step->inputs[0] : step->output;
    const ps_value *value = &value_of(s, whole)->is;
    return ps_cost_moved_bytes(step->op, &step->attributes, (uint32_t)rows_of(s, value),
                               ps_plan_row_bytes(value));
}

// Bytes and operations of a step of the bucket's size; weights that a step does not read whole are
// counted in part.
static void measure_step(const scheduler *s, ps_plan_step *step)
{
    const ps_machine *machine = s->options->machine;
    const uint32_t workers = machine->threads;
    ps_work work = {0};
    if (step->op == PS_OP_PREFETCH) { // its bytes are its reader's, its time is the wait's
        return;
    }
    const ps_value *output = step->output == PS_NO_VALUE ? NULL : &value_of(s, step->output)->is;
    const uint64_t rows = output == NULL ? s->options->rows_max : rows_of(s, output);
    for (uint32_t i = 0; i < step->input_count; i++) {
        const ps_value *input = &value_of(s, step->inputs[i])->is;
        if (input->kind == PS_VALUE_WEIGHT && input->rows > 1) {
            const uint64_t matrix = ps_packed_bytes(input->dtype, input->rows, input->columns);
            const uint64_t used = input->experts == 0 ? 1 : smaller(input->experts, rows);
            const bool gathers = step->op == PS_OP_EMBED;
            step->weight_bytes += gathers ? rows * ps_dtype_row_bytes(input->dtype, input->columns)
                                          : used * matrix;
            step->row_ops += gathers ? 0 : (uint64_t)input->rows * input->columns;
            uint64_t *ops = ps_dtype_is_quantised(input->dtype) ? &work.int8_ops : &work.f32_ops;
            *ops += rows * (gathers ? 0 : (uint64_t)input->rows * input->columns);
        } else if (input->kind == PS_VALUE_KV && ps_op_attends(step->op)) {
            // Decode reads the KV of one sequence; with many rows it stays in cache.
            const uint64_t positions = ps_context_share(&step->attributes, s->options->context_max);
            const uint64_t q_columns = value_of(s, step->inputs[0])->is.columns;
            work.memory_bytes += s->small ? positions * ps_value_kv_bytes(input) : 0;
            work.f32_ops += rows * positions * q_columns * 2;
        } else if (input->kind == PS_VALUE_ACTIVATION) {
            work.cache_bytes += rows_of(s, input) * ps_plan_row_bytes(input);
        }
    }
    work.memory_bytes += step->weight_bytes;
    work.cache_bytes += output == NULL ? 0 : rows * ps_plan_row_bytes(output);
    work.cache_bytes *= step->split == PS_SPLIT_ALL ? workers
                                                    : 1; // all workers' rate, each does all
    const bool is_collective = output != NULL &&
                               (ps_op_get(step->op)->flags & PS_OP_COLLECTIVE) != 0;
    const uint64_t moved = is_collective ? moved_bytes(s, step) : 0;
    const uint64_t work_ns = ps_cost_work_ns(machine, &work);
    const uint64_t all_ns = step->op == PS_OP_LINEAR_ALL_REDUCE
                                ? ps_cost_fused_ns(machine, work_ns, step->attributes.ranks, moved,
                                                   step->attributes.chunks)
                            : is_collective
                                ? (uint64_t)(ps_cost_collective_ns(machine, step->op,
                                                                   step->attributes.ranks, moved) +
                                             0.5)
                                : work_ns;
    step->predicted_ns = all_ns +
                         (step->barrier && workers > 1 ? (uint64_t)machine->barrier_ns : 0);
}

// ---- the pass

static ps_status start_plan(scheduler *s)
{
    const ps_graph *graph = s->graph;
    ps_plan *plan = PS_ARENA_NEW(graph->arena, ps_plan, 1);
    if (plan == NULL) {
        return PS_NO_MEMORY;
    }
    // Every attention may become two steps and add a value.
    *plan = (ps_plan){.rows_max = s->options->rows_max,
                      .logits_max = s->options->logits_max,
                      .context_max = s->options->context_max,
                      .ranks = s->options->ranks <= 1 ? 0 : s->options->ranks,
                      .rank = s->options->rank,
                      .vocabulary = graph->vocabulary,
                      .kv_group_count = graph->kv_group_count,
                      .value_count = graph->value_count};
    plan->values = PS_ARENA_NEW(graph->arena, ps_plan_value,
                                (uint64_t)graph->value_count + graph->node_count);
    plan->steps = PS_ARENA_NEW(graph->arena, ps_plan_step, 2 * (uint64_t)graph->node_count);
    s->writer = PS_ARENA_NEW(graph->arena, uint32_t,
                             (uint64_t)graph->value_count + graph->node_count);
    s->started = PS_ARENA_NEW(graph->arena, uint32_t, 2 * (uint64_t)graph->node_count);
    if (plan->values == NULL || plan->steps == NULL || s->writer == NULL || s->started == NULL) {
        return PS_NO_MEMORY;
    }
    memset(s->writer, 0xff, ((uint64_t)graph->value_count + graph->node_count) * sizeof *s->writer);
    for (uint32_t i = 0; i < graph->kv_group_count; i++) {
        plan->kv_windows[i] = graph->kv_groups[i].window;
    }
    for (uint32_t i = 0; i < graph->value_count; i++) {
        plan->values[i].is = graph->values[i];
    }
    s->plan = plan;
    return PS_OK;
}

// Values that fusing left behind have no place in a plan.
static void drop_unused_values(ps_plan *plan, uint32_t *new_id)
{
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        for (uint32_t j = 0; j < step->input_count; j++) {
            new_id[step->inputs[j]] = 1;
        }
        if (step->output != PS_NO_VALUE) {
            new_id[step->output] = 1;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->value_count; i++) {
        if (new_id[i] != 0) {
            plan->values[kept] = plan->values[i];
            new_id[i] = kept++;
        }
    }
    plan->value_count = kept;
    for (uint32_t i = 0; i < kept; i++) {
        if (plan->values[i].is.kind == PS_VALUE_ACTIVATION &&
            plan->values[i].is.alias_of != PS_NO_VALUE) {
            plan->values[i].is.alias_of = new_id[plan->values[i].is.alias_of];
        }
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        ps_plan_step *step = &plan->steps[i];
        for (uint32_t j = 0; j < step->input_count; j++) {
            step->inputs[j] = new_id[step->inputs[j]];
        }
        if (step->output != PS_NO_VALUE) {
            step->output = new_id[step->output];
        }
    }
}

ps_status ps_pass_schedule(const ps_graph *graph, const ps_pass_options *options, ps_plan **out)
{
    ps_assert(options->rows_max > 0 && options->logits_max <= options->rows_max);
    scheduler s = {
        .graph = graph, .options = options, .small = options->rows_max <= PS_REPLICATED_ROWS_MAX};
    PS_TRY(start_plan(&s));
    PS_TRY(add_steps(&s));
    place_barriers(&s);
    PS_TRY(place_values(&s, false, &s.plan->shared_bytes));
    PS_TRY(place_values(&s, true, &s.plan->private_bytes));
    for (uint32_t i = 0; i < s.plan->step_count; i++) {
        measure_step(&s, &s.plan->steps[i]);
    }
    uint32_t *new_id = PS_ARENA_NEW(graph->arena, uint32_t, s.plan->value_count);
    if (new_id == NULL) {
        return PS_NO_MEMORY;
    }
    drop_unused_values(s.plan, new_id);
    *out = s.plan;
    return PS_OK;
}
