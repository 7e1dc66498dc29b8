// plan/verify_workers.c - what workers may do side by side.
//
//   1. A split says which part of a step's output a worker computes; only parts that are disjoint
//      and together the whole are accepted.
//   2. A worker reads another's part only when a barrier stands between: the time between two
//      barriers is an epoch, and within one nothing is known of who is where.
//   3. What a collective makes is read behind a barrier that worker 0 passes when it is done; until
//      there it may be written.
//   4. Bytes of the shared workspace go from one value to the next at a barrier, bytes of a private
//      one from step to step.
#include "plan/plan_internal.h"

#include <stdlib.h>

static bool can_split(ps_op op, ps_split split)
{
    switch (op) {
    case PS_OP_LINEAR:
    case PS_OP_LINEAR_ALL_REDUCE:
    case PS_OP_GATE_UP:
        return split == PS_SPLIT_COLUMNS;
    case PS_OP_PREFETCH:
    case PS_OP_ATTENTION:
    case PS_OP_ATTENTION_PARTIAL:
    case PS_OP_EXPERT_LINEAR:
    case PS_OP_EXPERT_GATE_UP:
    case PS_OP_EXPERT_FFN:
        return split == PS_SPLIT_UNITS;
    case PS_OP_ALL_REDUCE:
    case PS_OP_ALL_GATHER:
    case PS_OP_ALL_GATHER_BEST:
    case PS_OP_REDUCE_SCATTER:
    case PS_OP_ALL_GATHER_ROWS:
        return split == PS_SPLIT_ONE;
    case PS_OP_KV_WRITE: // one cache for all: every worker writing all of it would be a race
        return split == PS_SPLIT_ROWS || split == PS_SPLIT_COLUMNS;
    default:
        return split == PS_SPLIT_ALL || split == PS_SPLIT_ROWS ||
               (split == PS_SPLIT_COLUMNS && (ps_op_get(op)->flags & PS_OP_COLUMNWISE) != 0);
    }
}

// Columns that one worker must have together for this operator.
static uint32_t columns_of_one(const ps_plan *plan, const ps_plan_step *step)
{
    switch (step->op) {
    case PS_OP_LINEAR:
    case PS_OP_LINEAR_ALL_REDUCE:
        return PS_GROUP_ROWS;
    case PS_OP_GATE_UP:
    case PS_OP_QUANTISE:
        return PS_BLOCK_COLUMNS;
    case PS_OP_RMS_NORM:
        return plan->values[step->inputs[1]].is.columns;
    case PS_OP_ROPE:
        return step->attributes.head_dim;
    case PS_OP_KV_WRITE:
        return plan->values[step->inputs[2]].is.head_dim;
    default:
        return 1;
    }
}

// The parts of all workers are cut at multiples of `together` and make up the whole value.
static ps_status check_partition(const ps_plan_value *value, uint32_t together)
{
    if (value->part_unit == 0 || value->part_unit % together != 0 ||
        value->part_offset % together != 0) {
        return ps_fail(PS_INVALID,
                       "'%s' is shared out in units of %u columns from %u on, multiples of %u "
                       "would be right",
                       value->is.name, value->part_unit, value->part_offset, together);
    }
    const uint64_t end = (uint64_t)value->part_offset + value->is.columns;
    return end <= value->part_columns
               ? PS_OK
               : ps_fail(PS_INVALID, "'%s' ends at column %llu of %u that are shared out",
                         value->is.name, (unsigned long long)end, value->part_columns);
}

// A group of 16 rows belongs to one weight.
static ps_status check_joined(const ps_plan *plan, const ps_plan_step *step)
{
    for (uint32_t i = 1; i + 1 < step->input_count; i++) {
        const ps_value *weight = &plan->values[step->inputs[i]].is;
        if (weight->rows % PS_GROUP_ROWS != 0) {
            return ps_fail(PS_INVALID,
                           "'%s' has %u rows before the next weight, a multiple of %d would be "
                           "right",
                           weight->name, weight->rows, PS_GROUP_ROWS);
        }
    }
    return PS_OK;
}

static ps_status check_columns_split(const ps_plan *plan, const ps_plan_step *step)
{
    const uint32_t together = columns_of_one(plan, step);
    if (step->op == PS_OP_KV_WRITE) {
        PS_TRY(check_partition(&plan->values[step->inputs[0]], together));
        return check_partition(&plan->values[step->inputs[1]], together);
    }
    if (step->op == PS_OP_LINEAR) {
        PS_TRY(check_joined(plan, step));
    }
    return check_partition(&plan->values[step->output], together);
}

ps_status ps_plan_check_split(const ps_plan *plan, const ps_plan_step *step)
{
    if ((unsigned)step->split >= PS_SPLIT_COUNT) {
        return ps_fail(PS_INVALID, "split %d is unknown", (int)step->split);
    }
    if (!can_split(step->op, step->split)) {
        return ps_fail(PS_INVALID, "cannot be split by %s", ps_split_name(step->split));
    }
    if (step->output != PS_NO_VALUE) {
        const ps_plan_value *output = &plan->values[step->output];
        if (output->is_private != (step->split == PS_SPLIT_ALL)) {
            return ps_fail(PS_INVALID, "'%s' is %s, but the step is split by %s", output->is.name,
                           output->is_private ? "private" : "shared", ps_split_name(step->split));
        }
        if (output->part_unit != 0 && step->split != PS_SPLIT_COLUMNS) {
            return ps_fail(PS_INVALID, "'%s' is shared out by columns, but the step by %s",
                           output->is.name, ps_split_name(step->split));
        }
    }
    return step->split == PS_SPLIT_COLUMNS ? check_columns_split(plan, step) : PS_OK;
}

// ---- barriers

static bool reads_own_rows(const ps_plan *plan, const ps_plan_step *step,
                           const ps_plan_value *value)
{
    if (step->split != PS_SPLIT_ROWS) {
        return false;
    }
    // The rows that are shared out: those of the output, or of the step where there is none.
    const bool none = step->output == PS_NO_VALUE;
    const ps_rows kind = none ? PS_ROWS_STEP : plan->values[step->output].is.row_kind;
    const uint32_t multiplier = none ? 1 : plan->values[step->output].is.row_multiplier;
    return value->is.row_kind == kind && value->is.row_multiplier == multiplier;
}

static bool reads_own_columns(const ps_plan *plan, const ps_plan_step *step, uint32_t operand)
{
    const bool needs_all = step->op == PS_OP_LINEAR || step->op == PS_OP_LINEAR_ALL_REDUCE ||
                           step->op == PS_OP_GATE_UP || (step->op == PS_OP_ROPE && operand == 1);
    if (step->split != PS_SPLIT_COLUMNS || needs_all) {
        return false;
    }
    if (step->op == PS_OP_KV_WRITE) { // K and V go by their own partitions
        return true;
    }
    const ps_plan_value *value = &plan->values[step->inputs[operand]];
    const ps_plan_value *output = &plan->values[step->output];
    return value->part_columns == output->part_columns && value->part_unit == output->part_unit &&
           value->part_offset == output->part_offset;
}

// True when a worker finds what it reads of an operand in what it has itself written.
static bool reads_own(const ps_plan *plan, const ps_plan_step *step, uint32_t operand,
                      ps_split written)
{
    const ps_plan_value *value = &plan->values[step->inputs[operand]];
    if (value->is.kind == PS_VALUE_KV) {
        return false;
    }
    switch (written) {
    case PS_SPLIT_ALL:
        return true;
    case PS_SPLIT_ROWS:
        return reads_own_rows(plan, step, value);
    case PS_SPLIT_COLUMNS:
        return reads_own_columns(plan, step, operand);
    default:
        return false;
    }
}

ps_status ps_plan_check_barriers(const ps_plan_check *check, uint32_t index)
{
    const ps_plan *plan = check->plan;
    const ps_plan_step *step = &plan->steps[index];
    for (uint32_t i = 0; i < step->input_count && step->op != PS_OP_PREFETCH; i++) {
        const ps_plan_value *value = &plan->values[step->inputs[i]];
        const uint32_t writer = check->writer[ps_plan_storage(plan, step->inputs[i])];
        if (value->is.kind != PS_VALUE_WEIGHT && writer != index &&
            plan->steps[writer].stream == PS_STREAM_COMM &&
            check->joined[index] < check->started[writer]) {
            return ps_fail(PS_INVALID,
                           "reads '%s' before the collective of step %u has been joined",
                           value->is.name, writer);
        }
        if (value->is.kind == PS_VALUE_WEIGHT || writer == index || // a kv_write's own cache
            check->epoch[writer] != check->epoch[index] ||
            reads_own(plan, step, i, plan->steps[writer].split)) {
            continue;
        }
        return ps_fail(PS_INVALID,
                       "reads parts of '%s' that other workers write in step %u, without a barrier "
                       "between",
                       value->is.name, writer);
    }
    return PS_OK;
}

// ---- bytes

// A value's bytes and the closed range of times in which they are its own.
typedef struct lifetime {
    const ps_plan_value *value;
    uint64_t begin, end; // bytes
    uint32_t first, last;
} lifetime;

static int by_first(const void *a, const void *b)
{
    const uint32_t left = ((const lifetime *)a)->first;
    const uint32_t right = ((const lifetime *)b)->first;
    return (left > right) - (left < right);
}

static int by_last(const void *a, const void *b)
{
    const uint32_t left = (*(const lifetime *const *)a)->last;
    const uint32_t right = (*(const lifetime *const *)b)->last;
    return (left > right) - (left < right);
}

// The epoch up to which a value is written or read.
static uint32_t last_epoch(const ps_plan_check *check, uint32_t id)
{
    const ps_plan *plan = check->plan;
    const uint32_t writer = check->writer[id];
    const uint32_t read = check->epoch[check->last_read[id]];
    if (plan->values[id].is.is_output) {
        return UINT32_MAX;
    }
    if (plan->steps[writer].stream != PS_STREAM_COMM) {
        return read;
    }
    uint32_t low = writer; // the first step that has joined it
    uint32_t high = plan->step_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (check->joined[middle] < check->started[writer]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const uint32_t joined = low < plan->step_count ? check->epoch[low] : UINT32_MAX;
    return joined > read ? joined : read;
}

static uint32_t gather_lives(const ps_plan_check *check, bool is_private, lifetime *lives)
{
    const ps_plan *plan = check->plan;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const ps_plan_value *value = &plan->values[i];
        const uint32_t writer = check->writer[i];
        if (value->is.kind != PS_VALUE_ACTIVATION || writer == PS_NO_VALUE ||
            value->is_private != is_private) {
            continue;
        }
        const uint64_t rows = ps_plan_rows(plan, &value->is, plan->rows_max, plan->logits_max);
        if (rows == 0) { // of logits that nobody may want: no bytes
            continue;
        }
        lives[count++] = (lifetime){
            .value = value,
            .begin = value->offset_bytes,
            .end = value->offset_bytes + rows * value->row_bytes,
            .first = is_private ? writer : check->epoch[writer],
            .last = !is_private           ? last_epoch(check, i)
                    : value->is.is_output ? UINT32_MAX
                                          : check->last_read[i],
        };
    }
    return count;
}

// How many of the lives of one moment have a key below some number: a Fenwick tree over all keys.
typedef struct tally {
    uint64_t *keys; // [count] of all lives, rising
    uint32_t *sums; // [count + 1]
    uint32_t count;
} tally;

static uint32_t keys_below(const tally *t, uint64_t limit)
{
    uint32_t low = 0;
    uint32_t high = t->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (t->keys[middle] < limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void tally_add(tally *t, uint64_t key, uint32_t change)
{
    for (uint32_t i = keys_below(t, key) + 1; i <= t->count; i += i & -i) {
        t->sums[i] += change; // modulo 2^32, so that -1 takes away
    }
}

static uint32_t tally_below(const tally *t, uint64_t limit)
{
    uint32_t sum = 0;
    for (uint32_t i = keys_below(t, limit); i > 0; i -= i & -i) {
        sum += t->sums[i];
    }
    return sum;
}

static int by_key(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static ps_status start_tally(tally *t, const lifetime *lives, uint32_t count, bool ends,
                             ps_arena *arena)
{
    t->count = count;
    t->keys = PS_ARENA_NEW(arena, uint64_t, count);
    t->sums = PS_ARENA_NEW(arena, uint32_t, (uint64_t)count + 1);
    if (t->keys == NULL || t->sums == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        t->keys[i] = ends ? lives[i].end : lives[i].begin;
    }
    qsort(t->keys, count, sizeof *t->keys, by_key);
    return PS_OK;
}

// Names the first of lives[count] that is in the way.
static ps_status fail_shared(const lifetime *lives, uint32_t count, const lifetime *life)
{
    uint32_t i = 0;
    while (i + 1 < count && (lives[i].last < life->first || lives[i].begin >= life->end ||
                             lives[i].end <= life->begin)) {
        i++;
    }
    return ps_fail(PS_INVALID, "'%s' and '%s' share bytes while both are needed",
                   lives[i].value->is.name, life->value->is.name);
}

// Walks the lives as they begin, with counts of those that have not ended: one that begins before
// the end of a new one, and does not end before its begin, overlaps it.
static ps_status check_lives(const ps_plan_check *check, bool is_private, ps_arena *arena)
{
    lifetime *lives = PS_ARENA_NEW(arena, lifetime, check->plan->value_count);
    const lifetime **ending = PS_ARENA_NEW(arena, const lifetime *, check->plan->value_count);
    if (lives == NULL || ending == NULL) {
        return PS_NO_MEMORY;
    }
    const uint32_t count = gather_lives(check, is_private, lives);
    tally begins, ends;
    PS_TRY(start_tally(&begins, lives, count, false, arena));
    PS_TRY(start_tally(&ends, lives, count, true, arena));
    qsort(lives, count, sizeof *lives, by_first);
    for (uint32_t i = 0; i < count; i++) {
        ending[i] = &lives[i];
    }
    qsort(ending, count, sizeof(const lifetime *), by_last);
    uint32_t ended = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (; ending[ended]->last < lives[i].first; ended++) {
            tally_add(&begins, ending[ended]->begin, UINT32_MAX);
            tally_add(&ends, ending[ended]->end, UINT32_MAX);
        }
        if (tally_below(&begins, lives[i].end) != tally_below(&ends, lives[i].begin + 1)) {
            return fail_shared(lives, i, &lives[i]);
        }
        tally_add(&begins, lives[i].begin, 1);
        tally_add(&ends, lives[i].end, 1);
    }
    return PS_OK;
}

ps_status ps_plan_check_lives(const ps_plan_check *check, ps_arena *arena)
{
    PS_TRY(check_lives(check, false, arena));
    return check_lives(check, true, arena);
}
