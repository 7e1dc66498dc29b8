// test/passes/plan_race.h - plays a plan and watches every word that workers read and write.
//
// A model of a runner that shares nothing with ps_plan_verify or the scheduler: it knows which rows
// and columns each worker touches in a step, walks the steps for all workers, and remembers for
// every four bytes of the workspaces who wrote and who read them since the last barrier, and which
// value stands there. It answers false when
//   - a word outside of a workspace is touched,
//   - a word is read that does not hold the value that is asked for,
//   - a word is written by one worker and read or written by another with no barrier between.
//
// A collective is a worker of its own: worker 0 starts it, and it writes its output at any time
// until worker 0 joins it, which is when a step says so, when the next one starts, or when the plan
// ends.
#ifndef PS_TEST_PASSES_PLAN_RACE_H
#define PS_TEST_PASSES_PLAN_RACE_H

#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#define PS_RACE_NOBODY UINT32_MAX

typedef struct ps_race_word {
    uint32_t value;       // what stands here
    uint32_t writer;      // of this epoch, or nobody
    uint32_t reader;      // of this epoch, or nobody
    bool has_two_readers; // another one too
    uint32_t epoch;       // that writer and reader are of
} ps_race_word;

typedef struct ps_race {
    const ps_plan *plan;
    uint32_t workers, rows, logits;
    uint32_t epoch;
    uint32_t started, done; // collectives
    uint32_t in_flight;     // the output of the one that is under way; PS_NO_VALUE: none
    uint32_t first, last;   //   the rows of it
    ps_race_word *shared;
    ps_race_word **privates; // [workers]
    ps_race_word **kv;       // [values][K, V][rows][columns / 8]; NULL for what is no kv
    bool is_right;
    const char *what;  // the first fault
    uint32_t step;     //   where
    const char *value; //   on which value
} ps_race;

static inline void ps_race_fault(ps_race *race, const char *what, uint32_t value)
{
    if (race->is_right) {
        race->is_right = false;
        race->what = what;
        race->value = race->plan->values[value].is.name;
    }
}

static inline void ps_race_touch(ps_race *race, ps_race_word *word, uint32_t value, uint32_t worker,
                                 bool writes)
{
    if (word->epoch != race->epoch) {
        word->epoch = race->epoch;
        word->writer = PS_RACE_NOBODY;
        word->reader = PS_RACE_NOBODY;
        word->has_two_readers = false;
    }
    if (word->writer != PS_RACE_NOBODY && word->writer != worker) {
        ps_race_fault(race, "another worker writes it", value);
    }
    if (!writes) {
        if (word->value != value) {
            ps_race_fault(race, "something else stands there", value);
        }
        word->has_two_readers |= word->reader != PS_RACE_NOBODY && word->reader != worker;
        word->reader = worker;
        return;
    }
    if (word->has_two_readers || (word->reader != PS_RACE_NOBODY && word->reader != worker)) {
        ps_race_fault(race, "another worker reads what stood there", value);
    }
    word->value = value;
    word->writer = worker;
}

// Bytes [begin, end) of a row of a value's storage.
static inline void ps_race_bytes(ps_race *race, uint32_t storage, uint32_t row, uint64_t begin,
                                 uint64_t end, uint32_t worker, bool writes)
{
    const ps_plan_value *value = &race->plan->values[storage];
    const uint64_t at = value->offset_bytes + row * value->row_bytes;
    const uint64_t size = value->is_private ? race->plan->private_bytes : race->plan->shared_bytes;
    if (at + end > size) {
        ps_race_fault(race, "outside of its workspace", storage);
        return;
    }
    ps_race_word *words = value->is_private ? race->privates[worker] : race->shared;
    for (uint64_t word = (at + begin) / 4; word < (at + end + 3) / 4; word++) {
        ps_race_touch(race, &words[word], storage, worker, writes);
    }
}

// Columns [begin, end) of a row of a value.
static inline void ps_race_columns(ps_race *race, uint32_t id, uint32_t row, uint32_t begin,
                                   uint32_t end, uint32_t worker, bool writes)
{
    const ps_value *value = &race->plan->values[id].is;
    if (begin >= end) {
        return;
    }
    if (value->dtype != PS_DTYPE_Q8_ROW) {
        const bool is_view = value->alias_of != PS_NO_VALUE;
        const uint64_t shift = is_view ? value->alias_column : 0;
        ps_race_bytes(race, is_view ? value->alias_of : id, row, (shift + begin) * 4,
                      (shift + end) * 4, worker, writes);
        return;
    }
    ps_race_bytes(race, id, row, begin, end, worker, writes);
    for (uint64_t plane = 0; plane < 3; plane++) { // four bytes for each block of 32 columns
        const uint64_t start = value->columns + plane * (value->columns / 32) * 4;
        ps_race_bytes(race, id, row, start + begin / 32 * 4, start + (end + 31) / 32 * 4, worker,
                      writes);
    }
}

// How many rows of the step are this rank's, when they are dealt out in order, the first ranks
// having one more; *first: where they begin.
static inline uint32_t ps_race_own_rows(const ps_race *race, uint32_t *first)
{
    const uint32_t ranks = race->plan->ranks == 0 ? 1 : race->plan->ranks;
    uint32_t at = 0;
    uint32_t count = 0;
    for (uint32_t rank = 0; rank <= race->plan->rank; rank++) {
        at += count;
        count = race->rows / ranks + (rank < race->rows % ranks ? 1 : 0);
    }
    if (first != NULL) {
        *first = at;
    }
    return count;
}

static inline uint32_t ps_race_rows_of(const ps_race *race, uint32_t id)
{
    const ps_value *value = &race->plan->values[id].is;
    const uint32_t rows = value->row_kind == PS_ROWS_LOGITS ? race->logits
                          : value->row_kind == PS_ROWS_OWN  ? ps_race_own_rows(race, NULL)
                                                            : race->rows;
    return value->row_multiplier * rows;
}

static inline void ps_race_whole(ps_race *race, uint32_t id, uint32_t worker, bool writes)
{
    for (uint32_t row = 0; row < ps_race_rows_of(race, id); row++) {
        ps_race_columns(race, id, row, 0, race->plan->values[id].is.columns, worker, writes);
    }
}

// Columns [begin, end), whole heads, of K (plane 0) or V of a row.
static inline void ps_race_kv(ps_race *race, uint32_t id, uint32_t plane, uint32_t row,
                              uint32_t begin, uint32_t end, uint32_t worker, bool writes)
{
    const uint32_t units = race->plan->values[id].is.columns / 8;
    ps_race_word *words = race->kv[id] + (uint64_t)(plane * race->rows + row) * units;
    for (uint32_t unit = begin / 8; unit < end / 8; unit++) {
        ps_race_touch(race, &words[unit], id, worker, writes);
    }
}

static inline void ps_race_whole_kv(ps_race *race, uint32_t id, uint32_t row, uint32_t worker,
                                    bool writes)
{
    const uint32_t columns = race->plan->values[id].is.columns;
    ps_race_kv(race, id, 0, row, 0, columns, worker, writes);
    ps_race_kv(race, id, 1, row, 0, columns, worker, writes);
}

// What the collective under way does: it writes, whenever it likes. Once an epoch is enough.
static inline void ps_race_collect(ps_race *race)
{
    for (uint32_t row = race->first; race->in_flight != PS_NO_VALUE && row < race->last; row++) {
        ps_race_columns(race, race->in_flight, row, 0,
                        race->plan->values[race->in_flight].is.columns, race->workers, true);
    }
}

// A barrier of all workers; collectives go on.
static inline void ps_race_meet(ps_race *race)
{
    race->epoch++;
    ps_race_collect(race);
}

// Worker 0 waits until what is under way is done.
static inline void ps_race_finish(ps_race *race)
{
    ps_race_collect(race);
    race->in_flight = PS_NO_VALUE;
}

// Worker 0 waits until `count` collectives are done.
static inline void ps_race_join(ps_race *race, uint32_t count)
{
    if (count > race->done) {
        ps_race_finish(race);
        race->done = race->started;
    }
}

// Rows [first, last) of the output are under way from now on.
static inline void ps_race_start(ps_race *race, uint32_t output, uint32_t first, uint32_t last)
{
    ps_race_finish(race);
    race->in_flight = output;
    race->first = first;
    race->last = last;
    ps_race_collect(race);
}

static inline bool ps_race_is_row(const ps_race *race, uint32_t id)
{
    return race->plan->values[id].is.kind == PS_VALUE_ACTIVATION;
}

// One row of a step that is split by rows, or of all rows: `row` is of the output, or of the step.
static inline void ps_race_row(ps_race *race, const ps_plan_step *step, uint32_t row,
                               uint32_t worker)
{
    for (uint32_t i = 0; i < step->input_count; i++) {
        const uint32_t id = step->inputs[i];
        if (!ps_race_is_row(race, id)) {
            continue;
        }
        uint32_t first = row;
        uint32_t count = 1;
        if (step->op == PS_OP_SELECT_LOGITS) { // the last rows want logits
            first = race->rows - race->logits + row;
        } else if (step->op == PS_OP_OWN_ROWS) {
            (void)ps_race_own_rows(race, &first);
            first += row;
        } else if (step->op == PS_OP_EXPERT_SUM && i == 0) {
            count = race->plan->values[id].is.row_multiplier;
            first = row * count;
        }
        for (uint32_t r = first; r < first + count; r++) {
            ps_race_columns(race, id, r, 0, race->plan->values[id].is.columns, worker, false);
        }
    }
    if (step->op == PS_OP_KV_WRITE) {
        ps_race_whole_kv(race, step->inputs[2], row, worker, true);
    } else {
        ps_race_columns(race, step->output, row, 0, race->plan->values[step->output].is.columns,
                        worker, true);
    }
}

static inline void ps_race_by_rows(ps_race *race, const ps_plan_step *step, uint32_t worker,
                                   bool all)
{
    const uint32_t count = step->output == PS_NO_VALUE ? race->rows
                                                       : ps_race_rows_of(race, step->output);
    const uint64_t begin = all ? 0 : (uint64_t)count * worker / race->workers;
    const uint64_t end = all ? count : (uint64_t)count * (worker + 1) / race->workers;
    for (uint64_t row = begin; row < end; row++) {
        ps_race_row(race, step, (uint32_t)row, worker);
    }
}

// The columns of a value that a worker owns as `part` is shared out, column by column from what
// plan.h states.
static inline void ps_race_owned(const ps_race *race, const ps_plan_value *part, uint32_t worker,
                                 uint32_t *begin, uint32_t *end)
{
    *begin = 0;
    *end = 0;
    if (part->part_unit == 0) {
        return;
    }
    const uint64_t units = ((uint64_t)part->part_columns + part->part_unit - 1) / part->part_unit;
    const uint64_t first = units * worker / race->workers;
    const uint64_t last = units * (worker + 1) / race->workers;
    for (uint32_t c = 0; c < part->is.columns; c++) {
        const uint64_t unit = ((uint64_t)c + part->part_offset) / part->part_unit;
        if (unit >= first && unit < last) {
            *begin = *end == 0 ? c : *begin;
            *end = c + 1;
        }
    }
}

static inline void ps_race_kv_columns(ps_race *race, const ps_plan_step *step, uint32_t worker)
{
    for (uint32_t plane = 0; plane < 2; plane++) {
        uint32_t begin, end;
        const uint32_t id = step->inputs[plane];
        ps_race_owned(race, &race->plan->values[id], worker, &begin, &end);
        for (uint32_t row = 0; row < race->rows; row++) {
            ps_race_columns(race, id, row, begin, end, worker, false);
            ps_race_kv(race, step->inputs[2], plane, row, begin, end, worker, true);
        }
    }
}

// Rows [first, last) of the output.
static inline void ps_race_by_columns(ps_race *race, const ps_plan_step *step, uint32_t worker,
                                      uint32_t first, uint32_t last)
{
    const bool is_linear = step->op == PS_OP_LINEAR || step->op == PS_OP_GATE_UP ||
                           step->op == PS_OP_LINEAR_ALL_REDUCE;
    uint32_t begin, end;
    ps_race_owned(race, &race->plan->values[step->output], worker, &begin, &end);
    if (begin == end) {
        return;
    }
    for (uint32_t i = 0; i < step->input_count; i++) {
        if (!ps_race_is_row(race, step->inputs[i])) {
            continue;
        }
        const bool all = is_linear || (step->op == PS_OP_ROPE && i == 1);
        const uint32_t columns = race->plan->values[step->inputs[i]].is.columns;
        for (uint32_t row = first; row < last; row++) {
            ps_race_columns(race, step->inputs[i], row, all ? 0 : begin, all ? columns : end,
                            worker, false);
        }
    }
    for (uint32_t row = first; row < last; row++) {
        ps_race_columns(race, step->output, row, begin, end, worker, true);
    }
}

// Units: a worker may need anything, and writes blocks of 32 columns that lie anywhere.
static inline void ps_race_by_units(ps_race *race, const ps_plan_step *step, uint32_t worker)
{
    for (uint32_t i = 0; i < step->input_count; i++) {
        const uint32_t id = step->inputs[i];
        if (ps_race_is_row(race, id)) {
            ps_race_whole(race, id, worker, false);
        } else if (race->plan->values[id].is.kind == PS_VALUE_KV) {
            for (uint32_t row = 0; row < race->rows; row++) {
                ps_race_whole_kv(race, id, row, worker, false);
            }
        }
    }
    const uint32_t columns = race->plan->values[step->output].is.columns;
    for (uint32_t row = 0; row < ps_race_rows_of(race, step->output); row++) {
        for (uint32_t c = 0; c < columns; c += 32) {
            if ((row * 5 + c / 32) % race->workers == worker) {
                ps_race_columns(race, step->output, row, c, c + 32 < columns ? c + 32 : columns,
                                worker, true);
            }
        }
    }
}

// A linear of all workers, chunk by chunk: behind each all of them meet, and worker 0 starts its
// sum.
static inline void ps_race_chunks(ps_race *race, const ps_plan_step *step)
{
    const uint64_t rows = ps_race_rows_of(race, step->output);
    const uint32_t chunks = step->attributes.chunks;
    for (uint32_t c = 0; c < chunks; c++) {
        const uint32_t first = (uint32_t)(rows * c / chunks);
        const uint32_t last = (uint32_t)(rows * (c + 1) / chunks);
        for (uint32_t w = 0; w < race->workers; w++) {
            ps_race_by_columns(race, step, w, first, last);
        }
        ps_race_meet(race);
        ps_race_start(race, step->output, first, last);
    }
    race->done = race->started++;
}

static inline void ps_race_one(ps_race *race, const ps_plan_step *step)
{
    ps_race_finish(race);
    ps_race_whole(race, step->inputs[0], 0, false);
    ps_race_start(race, step->output, 0, ps_race_rows_of(race, step->output));
    race->done = race->started++;
}

static inline void ps_race_worker(ps_race *race, const ps_plan_step *step, uint32_t worker)
{
    switch (step->split) {
    case PS_SPLIT_ALL:
    case PS_SPLIT_ROWS:
        ps_race_by_rows(race, step, worker, step->split == PS_SPLIT_ALL);
        break;
    case PS_SPLIT_COLUMNS:
        if (step->op == PS_OP_KV_WRITE) {
            ps_race_kv_columns(race, step, worker);
        } else {
            ps_race_by_columns(race, step, worker, 0, ps_race_rows_of(race, step->output));
        }
        break;
    default:
        ps_race_by_units(race, step, worker);
        break;
    }
}

static inline void ps_race_step(ps_race *race, const ps_plan_step *step)
{
    if (step->op == PS_OP_PREFETCH) { // reads weights, and KV of earlier runs
        return;
    }
    if (step->op == PS_OP_LINEAR_ALL_REDUCE) {
        ps_race_chunks(race, step);
    } else if (step->split == PS_SPLIT_ONE) {
        ps_race_one(race, step);
    } else {
        for (uint32_t w = 0; w < race->workers; w++) {
            ps_race_worker(race, step, w);
        }
    }
}

static inline ps_race_word *ps_race_words(uint64_t count)
{
    ps_race_word *words = calloc(count + 1, sizeof *words);
    ps_assert(words != NULL);
    for (uint64_t i = 0; i < count; i++) {
        words[i].value = PS_NO_VALUE;
    }
    return words;
}

// Plays the plan with `rows` rows, the last `logits` of which want logits. The plan need not
// verify, but its operands must exist and fit. False: race->what happened in race->step.
static inline bool ps_race_play(ps_race *race, const ps_plan *plan, uint32_t workers, uint32_t rows,
                                uint32_t logits)
{
    *race = (ps_race){.plan = plan,
                      .workers = workers,
                      .rows = rows,
                      .logits = logits,
                      .epoch = 1,
                      .in_flight = PS_NO_VALUE,
                      .is_right = true,
                      .shared = ps_race_words(plan->shared_bytes / 4),
                      .kv = calloc(plan->value_count, sizeof(ps_race_word *)),
                      .privates = calloc(workers, sizeof(ps_race_word *))};
    ps_assert(race->privates != NULL && race->kv != NULL);
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const ps_value *value = &plan->values[i].is;
        race->kv[i] = value->kind != PS_VALUE_KV
                          ? NULL
                          : ps_race_words((uint64_t)2 * rows * value->columns / 8);
    }
    for (uint32_t w = 0; w < workers; w++) {
        race->privates[w] = ps_race_words(plan->private_bytes / 4);
    }
    for (race->step = 0; race->step < plan->step_count; race->step++) {
        ps_race_join(race, plan->steps[race->step].join);
        if (plan->steps[race->step].barrier) {
            ps_race_meet(race);
        }
        ps_race_step(race, &plan->steps[race->step]);
        if (!race->is_right) {
            break;
        }
    }
    ps_race_join(race, race->started);
    race->epoch++; // the run has ended: whoever drives it reads the output
    for (uint32_t i = 0; i < plan->value_count && race->is_right; i++) {
        if (plan->values[i].is.is_output) {
            ps_race_whole(race, i, 0, false);
        }
    }
    for (uint32_t w = 0; w < workers; w++) {
        free(race->privates[w]);
    }
    for (uint32_t i = 0; i < plan->value_count; i++) {
        free(race->kv[i]);
    }
    free(race->privates);
    free(race->shared);
    free(race->kv);
    return race->is_right;
}

#endif
