// plan/plan.h - the treaty: what is thought out once (passes/) and carried out every step (exec/).
//
// A plan is a flat list of steps that all workers walk together. It is frozen per bucket; how many
// rows a step has, how long its contexts are and where its tokens go are run-time arguments
// (ps_step). Whoever runs a plan knows no model: everything it needs is here or in the weights that
// the plan names.
//
// A plan may come from a text file, so it is checked by ps_plan_verify before anything trusts it.
#ifndef PS_PLAN_H
#define PS_PLAN_H

#include "base/layout.h"
#include "base/shapes.h"
#include "base/value.h"

#define PS_PLAN_VALUES_MAX 200000u
#define PS_PLAN_STEPS_MAX 200000u
#define PS_PLAN_WORKSPACE_MAX_BYTES ((uint64_t)1 << 40)
#define PS_PLAN_ROWS_MAX 65536u
#define PS_PLAN_CONTEXT_MAX (1u << 24)
#define PS_KV_GROUPS_LIMIT 4u

// How the workers share a step.
typedef enum ps_split {
    PS_SPLIT_ALL,     // each worker computes everything, into its private workspace
    PS_SPLIT_ROWS,    // a contiguous range of rows each
    PS_SPLIT_COLUMNS, // the columns that each worker owns of the value (part_unit)
    PS_SPLIT_UNITS,   // the operator's own units: (row, head, chunk), (expert, columns)
    PS_SPLIT_ONE,     // worker 0 alone: collectives
    PS_SPLIT_COUNT,
} ps_split;

const char *ps_split_name(ps_split split); // "all", "rows", "columns", "units", "one"

// Where a step runs. Workers walk all steps in their order; one of another stream than theirs is
// started there, and done later: before a step that joins it, or before the end of the plan.
typedef enum ps_stream {
    PS_STREAM_COMPUTE,
    PS_STREAM_COMM,     // collectives, one after the other
    PS_STREAM_PREFETCH, // what the wait for a collective or a barrier is used for
    PS_STREAM_SIDE,     // prefetches of dedicated threads, done when their readers begin
    PS_STREAM_COUNT,
} ps_stream;

typedef struct ps_plan_value {
    ps_value is;     // kind, shape, view
    bool is_private; // activations: in every worker's own workspace
    // Activations whose columns workers compute apart: worker w of W owns the units from n w / W to
    // before n (w + 1) / W, of part_unit columns each, n = part_columns / part_unit rounded up, of
    // a range in which this value's column 0 stands at part_offset. part_unit 0: not so.
    uint32_t part_columns, part_unit, part_offset;
    uint64_t offset_bytes; // activations with own storage: in the shared or the private workspace
    uint64_t row_bytes;    //   from one row to the next
} ps_plan_value;

typedef struct ps_plan_step {
    ps_op op;
    uint32_t input_count;
    uint32_t inputs[PS_OP_INPUTS_MAX];
    uint32_t output; // PS_NO_VALUE: none
    ps_op_attributes attributes;
    bool barrier; // all workers have finished everything before this step
    ps_split split;
    uint32_t stream;       // ps_stream
    uint32_t join;         // that many collectives of the plan are done before this step; 0: any
    uint64_t weight_bytes; // read from memory by a step of rows_max rows
    uint64_t row_ops;      // multiply-adds per row
    uint64_t predicted_ns; // of a step of rows_max rows, its barrier included
} ps_plan_step;

typedef struct ps_plan {
    // The key of the plan.
    uint32_t rows_max;    // a step has 1..rows_max rows,
    uint32_t logits_max;  //   0..logits_max of which want logits
    uint32_t context_max; // no row's position reaches this
    uint32_t ranks,
        rank; // processes that share the model, and the one that runs this; 0: one alone
    // What it computes.
    uint32_t vocabulary;
    uint32_t kv_group_count;
    uint32_t kv_windows[PS_KV_GROUPS_LIMIT]; // positions that a row of the group sees; 0: all
    uint32_t value_count, step_count;
    ps_plan_value *values;
    ps_plan_step *steps;
    // Workspaces.
    uint64_t shared_bytes, private_bytes; // private: per worker
} ps_plan;

// The columns [*begin, *end) of the value that `worker` of `workers` owns; part_unit is not 0.
// Empty: begin == end.
void ps_plan_columns_of(const ps_plan_value *value, uint32_t worker, uint32_t workers,
                        uint32_t *begin, uint32_t *end);

// The share [*begin, *end) of `count` items for one worker; shares differ by at most one item.
static inline void ps_plan_share(uint64_t count, uint32_t worker, uint32_t workers, uint64_t *begin,
                                 uint64_t *end)
{
    *begin = count * worker / workers;
    *end = count * (worker + 1) / workers;
}

// Rows of an activation in a step with `rows` rows, `logits` of which want logits; not fewer in a
// step with more of both.
static inline uint32_t ps_plan_rows(const ps_plan *plan, const ps_value *value, uint32_t rows,
                                    uint32_t logits)
{
    uint32_t begin = 0;
    uint32_t end = value->row_kind == PS_ROWS_LOGITS ? logits : rows;
    if (value->row_kind == PS_ROWS_OWN) {
        ps_share_rows(rows, plan->rank, plan->ranks, &begin, &end);
    }
    return value->row_multiplier * (end - begin);
}

// Bytes of a row of an activation, as plans lay them out.
static inline uint64_t ps_plan_row_bytes(const ps_value *value)
{
    return value->dtype == PS_DTYPE_Q8_ROW
               ? ps_q8_row_bytes(value->columns)
               : ps_round_up(value->columns * sizeof(float), PS_CACHE_LINE_BYTES);
}

// Rows between the linears of an expert_ffn, one for each pair (row, choice): in no value of the
// plan, a runner has memory of its own for them. Their type is what the last weight reads.
static inline ps_value ps_plan_between(const ps_plan *plan, const ps_plan_step *step)
{
    const ps_value *down = &plan->values[step->inputs[step->input_count - 1]].is;
    return (ps_value){.kind = PS_VALUE_ACTIVATION,
                      .dtype = ps_dtype_of_rows(down->dtype),
                      .columns = down->columns,
                      .row_multiplier = step->attributes.top_k};
}
static inline uint64_t ps_plan_between_bytes(const ps_plan *plan, const ps_plan_step *step)
{
    const ps_value between = ps_plan_between(plan, step);
    return (uint64_t)plan->rows_max * between.row_multiplier * ps_plan_row_bytes(&between);
}

// Checks everything a runner relies on: operand kinds and shapes, order, views, offsets inside
// workspaces, splits that a step's operator can do, and that no step reads what another worker may
// still be writing, or overwrites what another may still be reading, without a barrier between.
// PS_INVALID names the step.
PS_MUST_USE ps_status ps_plan_verify(const ps_plan *plan);

// The text form (docs/plan-text.md), exact both ways. Parsing takes memory from the arena, and
// verifies.
PS_MUST_USE ps_status ps_plan_print(const ps_plan *plan, ps_buffer *out);
PS_MUST_USE ps_status ps_plan_parse(ps_str text, ps_arena *arena, ps_plan **out);

// The only input to a step. One block of memory without pointers: the header, then row_count rows,
// then block_count changes to block tables.
typedef struct ps_step_row {
    uint32_t sequence; // slot of the sequence
    uint32_t position; // of the token in its sequence
    int32_t token;
    uint32_t wants_logits; // 0 or 1
} ps_step_row;

// From this step on, tokens [32 * index, 32 * (index + 1)) of the sequence live in `block` of the
// group's pool. All changes of a step are made in their order, before its rows run; where copy_from
// is not PS_NO_BLOCK, that block's content is copied first.
#define PS_NO_BLOCK UINT32_MAX
typedef struct ps_step_block {
    uint32_t sequence, group, index, block, copy_from;
} ps_step_block;

typedef struct ps_step {
    uint64_t number; // counts up by one
    uint32_t row_count;
    uint32_t block_count;
} ps_step;

// Rows of one sequence follow each other with positions that count up by one.
static inline const ps_step_row *ps_step_rows(const ps_step *step)
{
    return (const ps_step_row *)(const void *)(step + 1);
}
// Whether row i of a step belongs to a prompt: its sequence has other rows in the step.
static inline bool ps_step_row_is_prompt(const ps_step_row *rows, uint32_t count, uint32_t i)
{
    return (i > 0 && rows[i - 1].sequence == rows[i].sequence) ||
           (i + 1 < count && rows[i + 1].sequence == rows[i].sequence);
}
static inline const ps_step_block *ps_step_blocks(const ps_step *step)
{
    return (const ps_step_block *)(const void *)(ps_step_rows(step) + step->row_count);
}

#endif
