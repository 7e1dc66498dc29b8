// plan/plan_verify.c - everything that a runner relies on.
//
// A plan that passes cannot make a runner read or write outside of its workspaces, its weights and
// its KV, nor race, whatever text it came from. It may still compute nonsense.
//   1. Limits, names, every value alone, and its place in a workspace.
//   2. Every step in order: operands exist, fit (base/shapes.h) and have been written; what the
//      rules of graphs leave to the plan; its split and its barrier (verify_workers.c).
//   3. One value is the output; values alive at the same time share no byte.
#include "base/names.h"
#include "base/shapes.h"
#include "plan/plan_internal.h"

#include <stdlib.h>
#include <string.h>

// Of the arrays that verifying takes: fewer than 200 bytes a value and 16 a step.
#define ARENA_BYTES ((size_t)64 << 20)

static ps_status check_key(const ps_plan *plan)
{
    PS_TRY(ps_range_check("rows_max", plan->rows_max, 1, PS_PLAN_ROWS_MAX));
    PS_TRY(ps_range_check("logits_max", plan->logits_max, 0, plan->rows_max));
    PS_TRY(ps_range_check("context_max", plan->context_max, 1, PS_PLAN_CONTEXT_MAX));
    PS_TRY(ps_range_check("ranks", plan->ranks, 0, PS_RANKS_MAX));
    PS_TRY(ps_range_check("rank", plan->rank, 0, plan->ranks == 0 ? 0 : plan->ranks - 1));
    PS_TRY(ps_range_check("vocabulary", plan->vocabulary, 1, PS_COLUMNS_MAX));
    PS_TRY(ps_range_check("kv groups", plan->kv_group_count, 0, PS_KV_GROUPS_LIMIT));
    for (uint32_t i = plan->kv_group_count; i < PS_KV_GROUPS_LIMIT; i++) {
        PS_TRY(ps_range_check("window of a kv group that is not there", plan->kv_windows[i], 0, 0));
    }
    PS_TRY(ps_range_check("values", plan->value_count, 1, PS_PLAN_VALUES_MAX));
    PS_TRY(ps_range_check("steps", plan->step_count, 1, PS_PLAN_STEPS_MAX));
    const uint64_t bytes = plan->shared_bytes > plan->private_bytes ? plan->shared_bytes
                                                                    : plan->private_bytes;
    return bytes <= PS_PLAN_WORKSPACE_MAX_BYTES
               ? PS_OK
               : ps_fail(PS_INVALID, "workspace of %llu bytes, at most %llu would be right",
                         (unsigned long long)bytes,
                         (unsigned long long)PS_PLAN_WORKSPACE_MAX_BYTES);
}

// ---- values

static ps_status check_row_bytes(const ps_plan_value *value)
{
    const bool is_q8 = value->is.dtype == PS_DTYPE_Q8_ROW;
    const uint64_t least = is_q8 ? ps_q8_row_bytes(value->is.columns)
                                 : value->is.columns * (uint64_t)sizeof(float);
    const uint64_t unit = is_q8 ? PS_CACHE_LINE_BYTES : sizeof(float);
    return value->row_bytes >= least && value->row_bytes % unit == 0
               ? PS_OK
               : ps_fail(PS_INVALID, "rows of %llu bytes, a multiple of %llu from %llu on is right",
                         (unsigned long long)value->row_bytes, (unsigned long long)unit,
                         (unsigned long long)least);
}

// Of a value with its own storage.
static ps_status check_place(const ps_plan *plan, const ps_plan_value *value)
{
    PS_TRY(check_row_bytes(value));
    if (value->offset_bytes % PS_CACHE_LINE_BYTES != 0) {
        return ps_fail(PS_INVALID, "offset %llu, a multiple of %d would be right",
                       (unsigned long long)value->offset_bytes, PS_CACHE_LINE_BYTES);
    }
    const uint64_t limit = value->is_private ? plan->private_bytes : plan->shared_bytes;
    const uint64_t rows = ps_plan_rows(plan, &value->is, plan->rows_max, plan->logits_max);
    uint64_t end;
    if (!ps_checked_mul(rows, value->row_bytes, &end) ||
        !ps_checked_add(end, value->offset_bytes, &end) || end > limit) {
        return ps_fail(PS_INVALID,
                       "%llu rows of %llu bytes at %llu do not fit into a workspace of %llu",
                       (unsigned long long)rows, (unsigned long long)value->row_bytes,
                       (unsigned long long)value->offset_bytes, (unsigned long long)limit);
    }
    return PS_OK;
}

// Only what owns bytes has a place, and a view is shared out as its storage is.
static ps_status check_not_placed(const ps_plan_value *value, const ps_plan_value *base)
{
    if (value->offset_bytes != 0 || value->row_bytes != 0) {
        return ps_fail(PS_INVALID, "has a place, but no storage of its own");
    }
    const uint32_t shift = base == NULL || base->part_unit == 0 ? 0 : value->is.alias_column;
    const bool same = base == NULL ? !value->is_private && value->part_unit == 0 &&
                                         value->part_columns == 0 && value->part_offset == 0
                                   : value->is_private == base->is_private &&
                                         value->part_unit == base->part_unit &&
                                         value->part_columns == base->part_columns &&
                                         value->part_offset == (uint64_t)base->part_offset + shift;
    return same ? PS_OK
                : ps_fail(PS_INVALID, base == NULL ? "is private or shared out by columns"
                                                   : "is not shared out as what it is a view of");
}

static ps_status check_part_limits(const ps_plan_value *value)
{
    if (value->part_unit == 0) {
        return value->part_columns == 0 && value->part_offset == 0
                   ? PS_OK
                   : ps_fail(PS_INVALID, "is shared out by columns in units of 0");
    }
    PS_TRY(ps_range_check("columns shared out", value->part_columns, 1, PS_COLUMNS_MAX));
    return ps_range_check("offset in them", value->part_offset, 0, value->part_columns);
}

static ps_status check_value(const ps_plan *plan, const ps_plan_value *value)
{
    const ps_plan_value *base = NULL;
    if (value->is.alias_of != PS_NO_VALUE) {
        if (value->is.alias_of >= plan->value_count) {
            return ps_fail(PS_INVALID, "view of value %u of %u", value->is.alias_of,
                           plan->value_count);
        }
        base = &plan->values[value->is.alias_of];
    }
    PS_TRY(ps_value_check(&value->is, base == NULL ? NULL : &base->is, plan->kv_group_count));
    PS_TRY(check_part_limits(value));
    if (value->is.kind != PS_VALUE_ACTIVATION || base != NULL) {
        return check_not_placed(value, base);
    }
    return check_place(plan, value);
}

static ps_status check_values(const ps_plan *plan)
{
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const char *name = plan->values[i].is.name;
        const size_t length = name == NULL ? 0 : strlen(name);
        if (length == 0 || length > PS_NAME_BYTES_MAX) {
            return ps_fail(PS_INVALID, "value %u: name of %zu bytes, 1 to %u would be right", i,
                           length, PS_NAME_BYTES_MAX);
        }
        const ps_status status = check_value(plan, &plan->values[i]);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "value '%s'", name);
        }
    }
    return PS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ps_status check_names(const ps_plan *plan, ps_arena *arena)
{
    const char **names = PS_ARENA_NEW(arena, const char *, plan->value_count);
    if (names == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < plan->value_count; i++) {
        names[i] = plan->values[i].is.name;
    }
    qsort(names, plan->value_count, sizeof(const char *), by_name);
    for (uint32_t i = 1; i < plan->value_count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            return ps_fail(PS_INVALID, "there are two values named '%s'", names[i]);
        }
    }
    return PS_OK;
}

// ---- steps

static ps_status check_operands(const ps_plan *plan, const ps_plan_step *step)
{
    PS_TRY(ps_operand_counts_check(step->op, step->input_count, step->output != PS_NO_VALUE));
    const ps_value *inputs[PS_OP_INPUTS_MAX] = {0};
    for (uint32_t i = 0; i < step->input_count; i++) {
        if (step->inputs[i] >= plan->value_count) {
            return ps_fail(PS_INVALID, "operand %u is value %u of %u", i, step->inputs[i],
                           plan->value_count);
        }
        inputs[i] = &plan->values[step->inputs[i]].is;
    }
    if (step->output != PS_NO_VALUE && step->output >= plan->value_count) {
        return ps_fail(PS_INVALID, "output is value %u of %u", step->output, plan->value_count);
    }
    return ps_operands_check(step->op, &step->attributes, inputs, step->input_count,
                             step->output == PS_NO_VALUE ? NULL : &plan->values[step->output].is);
}

static ps_status write_value(ps_plan_check *check, uint32_t id, uint32_t step)
{
    const ps_value *value = &check->plan->values[id].is;
    if (value->alias_of != PS_NO_VALUE) {
        return ps_fail(PS_INVALID, "'%s' is a view; write '%s' in whole", value->name,
                       check->plan->values[value->alias_of].is.name);
    }
    if (check->writer[id] != PS_NO_VALUE) {
        return ps_fail(PS_INVALID, "'%s' is written twice", value->name);
    }
    check->writer[id] = step;
    check->last_read[id] = step;
    return PS_OK;
}

static ps_status check_order(ps_plan_check *check, uint32_t index)
{
    const ps_plan_step *step = &check->plan->steps[index];
    for (uint32_t i = 0; i < step->input_count; i++) {
        const ps_value *value = &check->plan->values[step->inputs[i]].is;
        if (value->kind == PS_VALUE_WEIGHT || step->op == PS_OP_PREFETCH) {
            continue; // of a kv, what earlier runs have written
        }
        if (value->kind == PS_VALUE_KV && step->op == PS_OP_KV_WRITE) {
            PS_TRY(write_value(check, step->inputs[i], index));
            continue;
        }
        const uint32_t storage = ps_plan_storage(check->plan, step->inputs[i]);
        if (check->writer[storage] == PS_NO_VALUE) {
            return ps_fail(PS_INVALID, "'%s' is read before it is written", value->name);
        }
        check->last_read[storage] = index;
    }
    return step->output == PS_NO_VALUE ? PS_OK : write_value(check, step->output, index);
}

// The kernels of a weight read rows of one format: int8 for quantised weights, f32 for the others.
static ps_status check_formats(const ps_plan *plan, const ps_plan_step *step)
{
    const ps_value *x = &plan->values[step->inputs[0]].is;
    // Rows between the linears of an expert_ffn have the type that its last weight wants.
    const uint32_t count = step->op == PS_OP_EXPERT_FFN ? 4 : step->input_count;
    for (uint32_t i = 1; i < count; i++) {
        const ps_value *weight = &plan->values[step->inputs[i]].is;
        const ps_dtype right = ps_dtype_of_rows(weight->dtype);
        if (weight->kind == PS_VALUE_WEIGHT && x->dtype != right) {
            return ps_fail(PS_INVALID, "'%s' is %s but '%s' is %s, %s rows would be right", x->name,
                           ps_dtype_get(x->dtype)->name, weight->name,
                           ps_dtype_get(weight->dtype)->name, ps_dtype_get(right)->name);
        }
    }
    return PS_OK;
}

// A collective is one of all ranks of the plan, or, where context_shards ranks that follow each
// other share the positions of a KV, an all_reduce of those. A runner of one rank has nobody to
// ask.
static ps_status check_collective(const ps_plan *plan, const ps_plan_step *step)
{
    if (plan->ranks <= 1) {
        return ps_fail(PS_INVALID, "a collective in a plan of one rank");
    }
    const ps_op_attributes *a = &step->attributes;
    const uint32_t shards = step->op == PS_OP_ALL_REDUCE ? a->context_shards : 0;
    if (shards > 1 && plan->ranks % shards != 0) {
        return ps_fail(PS_INVALID, "context_shards=%u, a divisor of the %u ranks would be right",
                       shards, plan->ranks);
    }
    const uint32_t ranks = shards > 1 ? shards : plan->ranks;
    return a->ranks == ranks && a->rank == plan->rank % ranks
               ? PS_OK
               : ps_fail(PS_INVALID, "is of rank %u of %u, the plan of rank %u of %u", a->rank,
                         a->ranks, plan->rank % ranks, ranks);
}

// The step that wrote what an operand shows in whole.
static ps_status find_writer(const ps_plan_check *check, uint32_t id, ps_op op,
                             const ps_plan_step **out)
{
    const ps_plan *plan = check->plan;
    const ps_plan_step *writer = &plan->steps[check->writer[ps_plan_storage(plan, id)]];
    if (plan->values[id].is.alias_of != PS_NO_VALUE || writer->op != op) {
        return ps_fail(PS_INVALID, "'%s' is not what a %s wrote", plan->values[id].is.name,
                       ps_op_get(op)->name);
    }
    *out = writer;
    return PS_OK;
}

// Expert numbers index weights, so they come from a router that chose among as many.
static ps_status check_routed(const ps_plan_check *check, const ps_plan_step *step)
{
    const ps_plan_step *router;
    const uint32_t route = step->inputs[step->op == PS_OP_EXPERT_EXPECT ? 0 : 1];
    PS_TRY(find_writer(check, route, PS_OP_ROUTE, &router));
    const bool same = step->op == PS_OP_EXPERT_SUM ||
                      router->attributes.experts == step->attributes.experts;
    return same ? PS_OK
                : ps_fail(PS_INVALID, "'%s' chooses among %u experts, %u would be right",
                          check->plan->values[route].is.name, router->attributes.experts,
                          step->attributes.experts);
}

static ps_status check_embed(const ps_plan *plan, const ps_plan_step *step)
{
    const ps_value *table = &plan->values[step->inputs[0]].is;
    return table->rows >= plan->vocabulary
               ? PS_OK
               : ps_fail(PS_INVALID, "'%s' has %u rows for a vocabulary of %u", table->name,
                         table->rows, plan->vocabulary);
}

static ps_status check_partial(const ps_plan *plan, const ps_plan_step *step)
{
    const ps_value *partial = &plan->values[step->output].is;
    const uint64_t positions = ps_context_share(&step->attributes, plan->context_max);
    const uint64_t right = ps_divide_up(positions, PS_ATTENTION_CHUNK_POSITIONS) *
                           step->attributes.heads * (step->attributes.head_dim + 2);
    return partial->columns == right
               ? PS_OK
               : ps_fail(PS_INVALID, "'%s' has %u columns, %llu would be right for %llu positions",
                         partial->name, partial->columns, (unsigned long long)right,
                         (unsigned long long)positions);
}

// A merge walks the chunks that the partial step of the same cache wrote.
static ps_status check_merge(const ps_plan_check *check, const ps_plan_step *step)
{
    const ps_plan_step *partial;
    PS_TRY(find_writer(check, step->inputs[0], PS_OP_ATTENTION_PARTIAL, &partial));
    const ps_value *output = &check->plan->values[step->output].is;
    const ps_value *q = &check->plan->values[partial->inputs[0]].is;
    return partial->inputs[1] == step->inputs[1] && q->columns == output->columns
               ? PS_OK
               : ps_fail(PS_INVALID, "'%s' has other heads or another kv than its partial results",
                         output->name);
}

// What the rules of base/shapes.h leave to plans. Operands have been written.
static ps_status check_operator(const ps_plan_check *check, const ps_plan_step *step)
{
    switch (step->op) {
    case PS_OP_EMBED:
        return check_embed(check->plan, step);
    case PS_OP_LINEAR:
    case PS_OP_GATE_UP:
        return check_formats(check->plan, step);
    case PS_OP_EXPERT_LINEAR:
    case PS_OP_EXPERT_GATE_UP:
    case PS_OP_EXPERT_FFN:
        PS_TRY(check_formats(check->plan, step));
        return check_routed(check, step);
    case PS_OP_EXPERT_SUM:
    case PS_OP_EXPERT_EXPECT:
        return check_routed(check, step);
    case PS_OP_LINEAR_ALL_REDUCE:
        PS_TRY(check_formats(check->plan, step));
        return check_collective(check->plan, step);
    case PS_OP_ALL_REDUCE:
    case PS_OP_ALL_GATHER:
    case PS_OP_ALL_GATHER_BEST:
    case PS_OP_REDUCE_SCATTER:
    case PS_OP_ALL_GATHER_ROWS:
        return check_collective(check->plan, step);
    case PS_OP_ATTENTION_PARTIAL:
        return check_partial(check->plan, step);
    case PS_OP_ATTENTION_MERGE:
        return check_merge(check, step);
    default:
        return PS_OK;
    }
}

// A step can wait only for what was started before it.
static ps_status check_stream(const ps_plan_check *check, uint32_t index)
{
    const ps_plan_step *step = &check->plan->steps[index];
    const bool is_collective = (ps_op_get(step->op)->flags & PS_OP_COLLECTIVE) != 0;
    const bool is_side = step->attributes.window == PS_WINDOW_SIDE;
    const uint32_t right = is_collective                ? PS_STREAM_COMM
                           : step->op != PS_OP_PREFETCH ? PS_STREAM_COMPUTE
                           : is_side                    ? PS_STREAM_SIDE
                                                        : PS_STREAM_PREFETCH;
    if (step->stream != right) {
        return ps_fail(PS_INVALID, "stream=%u, %u would be right", step->stream, right);
    }
    if (step->join > 0 && !step->barrier) {
        return ps_fail(PS_INVALID, "join=%u without a barrier, at which the other workers wait",
                       step->join);
    }
    const uint32_t before = index == 0 ? 0 : check->started[index - 1];
    return ps_range_check("join", step->join, 0, before);
}

static ps_status check_step(ps_plan_check *check, uint32_t index)
{
    const ps_plan_step *step = &check->plan->steps[index];
    PS_TRY(check_operands(check->plan, step));
    PS_TRY(check_stream(check, index));
    PS_TRY(check_order(check, index));
    PS_TRY(check_operator(check, step));
    PS_TRY(ps_plan_check_split(check->plan, step));
    return ps_plan_check_barriers(check, index);
}

static ps_status check_steps(ps_plan_check *check)
{
    const ps_plan *plan = check->plan;
    uint32_t epoch = 0;
    uint32_t started = 0;
    uint32_t joined = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        epoch += step->barrier;
        check->epoch[i] = epoch;
        started += step->stream == PS_STREAM_COMM;
        joined = step->join > joined ? step->join : joined;
        check->started[i] = started;
        check->joined[i] = joined;
        const ps_status status = check_step(check, i);
        if (status != PS_OK) {
            const bool named = step->output < plan->value_count;
            const bool known = (unsigned)step->op < PS_OP_COUNT;
            return ps_fail_prefix(status, "step %u%s%s%s%s%s", i, known ? ", " : "",
                                  known ? ps_op_get(step->op)->name : "", named ? " to '" : "",
                                  named ? plan->values[step->output].is.name : "",
                                  named ? "'" : "");
        }
    }
    return PS_OK;
}

static ps_status check_output(const ps_plan_check *check)
{
    const ps_plan *plan = check->plan;
    const ps_value *output = NULL;
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const ps_value *value = &plan->values[i].is;
        if (!value->is_output) {
            continue;
        }
        if (output != NULL) {
            return ps_fail(PS_INVALID, "'%s' and '%s' are both outputs", output->name, value->name);
        }
        output = value;
        PS_TRY(ps_value_check_output(value, plan->vocabulary));
        if (check->writer[i] == PS_NO_VALUE) {
            return ps_fail(PS_INVALID, "output '%s' is not written", value->name);
        }
    }
    return output != NULL ? PS_OK : ps_fail(PS_INVALID, "no value is the output");
}

static ps_status verify(const ps_plan *plan, ps_arena *arena)
{
    PS_TRY(check_key(plan));
    PS_TRY(check_values(plan));
    PS_TRY(check_names(plan, arena));
    ps_plan_check check = {
        .plan = plan,
        .writer = PS_ARENA_NEW(arena, uint32_t, plan->value_count),
        .last_read = PS_ARENA_NEW(arena, uint32_t, plan->value_count),
        .epoch = PS_ARENA_NEW(arena, uint32_t, plan->step_count),
        .started = PS_ARENA_NEW(arena, uint32_t, plan->step_count),
        .joined = PS_ARENA_NEW(arena, uint32_t, plan->step_count),
    };
    if (check.writer == NULL || check.last_read == NULL || check.epoch == NULL ||
        check.started == NULL || check.joined == NULL) {
        return PS_NO_MEMORY;
    }
    memset(check.writer, 0xff, plan->value_count * sizeof *check.writer);
    PS_TRY(check_steps(&check));
    PS_TRY(check_output(&check));
    PS_TRY(ps_plan_check_prefetches(&check, arena));
    return ps_plan_check_lives(&check, arena);
}

ps_status ps_plan_verify(const ps_plan *plan)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_status status = verify(plan, &arena);
    ps_arena_deinit(&arena);
    return status;
}
