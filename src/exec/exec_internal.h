// exec/exec_internal.h - what the operators of a step see. For files of exec/ only.
#ifndef PS_EXEC_INTERNAL_H
#define PS_EXEC_INTERNAL_H

#include "exec/exec.h"
#include "exec/guard.h"
#include "exec/side.h"

#include <stdalign.h>

// Rows that a linear handles per pass over its weights: their activations stay in L2.
#define PS_PANEL_ROWS 64
// Results of gate, and as many of up, that a fused gate_up computes at a time: a panel of 64
// columns, or one row of 4,096. PS_PANEL_ROWS quantisation blocks at least.
#define PS_GATE_UP_RESULTS 4096
// Rows of one sequence that prefill attention handles together.
#define PS_ATTENTION_ROWS 8

// An operand with its address.
typedef struct ps_operand {
    ps_value_kind kind;
    ps_dtype dtype;
    uint32_t columns;
    bool is_private;
    uint64_t offset_bytes; // of row 0, in its workspace, the view's columns added
    uint64_t row_bytes;
    const ps_plan_value *value;
    const ps_weight *weight; // kind WEIGHT
    uint32_t kv_layer;       // kind KV: index into exec->kv_layers
} ps_operand;

#define PS_NO_MOE_LAYER UINT32_MAX // of a route that is a guess for a later layer

typedef struct ps_bound_step {
    const ps_plan_step *plan;
    const struct ps_bound_step *reader; // of a prefetch: who reads what it moves
    uint32_t next;                      // index of the next step that is no prefetch
    uint32_t prefetch_end;              // prefetches that stand before that one, since the first
    uint32_t moe_layer;                 // of steps that read experts, and of routes: counts from 0,
    bool is_moe_begin;                  //   and whether it is the first one of its layer
    ps_operand inputs[PS_OP_INPUTS_MAX];
    ps_operand output;
} ps_bound_step;

// One prefetch of one worker, and what became of it: a line of the cache each, in the order of use,
// because a wait may last no longer than a few misses.
typedef struct ps_prefetch_part {
    alignas(PS_CACHE_LINE_BYTES) const ps_bound_step *step;
    const char *from;                // of a weight; of a KV cache the blocks are found in each run,
    uint64_t skip_bytes;             //   and so many of them are left out
    uint64_t bytes;                  // of a weight; of a KV cache: at most
    uint64_t first_bytes;            // of them, up to where the next expert's matrix is elsewhere
    uint16_t slot;                   // of the guard
    bool is_side;                    // made by a dedicated thread
    uint32_t tokens_min, tokens_max; // rows of a run in which it is made
    uint32_t fired;
    uint64_t asked_bytes, moved_bytes;
} ps_prefetch_part;

// What was left of the waits that held prefetches of a slot when all they held had been moved;
// nothing of those that were too short.
typedef struct ps_wait_slack {
    uint64_t ns, waits;
} ps_wait_slack;

struct ps_program {
    ps_program *next;
    const ps_plan *plan;
    ps_bound_step *steps;
    const ps_plan_value *logits;
    ps_guard guard;
    uint32_t first, first_prefetch_end; // as next and prefetch_end, before all steps
    uint32_t prefetch_count;
    uint32_t side_count;          // of prefetches of dedicated threads, among
    ps_prefetch_part *prefetches; // [workers][prefetch_count] in the order of the plan
    ps_wait_slack *slacks;        // [PS_GUARD_SLOTS] of worker 0, where times are taken
};

typedef struct ps_kv_layer {
    const char *name;
    uint32_t group;
    uint32_t kv_heads, head_dim;
    ps_dtype k_dtype, v_dtype;
    uint64_t k_bytes, head_bytes; // of one head in a block: its K, then all of it
    uint64_t offset_bytes;        // of its heads in a block of the group
} ps_kv_layer;

struct ps_grouped_check;

struct ps_exec {
    ps_team *team;
    ps_side *side; // NULL: no dedicated threads
    ps_kernels kernels;
    ps_exec_options options;
    ps_arena arena;
    ps_program *programs;
    ps_kv_layer *kv_layers;
    uint32_t kv_layer_count;
    uint32_t kv_windows[PS_KV_GROUPS_LIMIT];
    uint32_t kv_group_count;
    uint64_t kv_block_bytes[PS_KV_GROUPS_LIMIT]; // of all layers of the group
    char *kv_pools[PS_KV_GROUPS_LIMIT];          // [group_blocks]
    uint32_t table_blocks;                       // blocks a sequence may have
    uint32_t *tables; // [sequences][groups][table_blocks], PS_NO_BLOCK where nothing lives
    char *shared;
    char *privates; // [workers][private_stride]: workspace, then scratch
    uint64_t shared_bytes, private_bytes, private_stride, scratch_bytes, kv_bytes;
    uint64_t mapped_bytes; // of KV and workspaces, whole pages
    uint32_t *logit_rows;  // [rows_max] indices of the step's rows that want logits
    uint64_t *checked;     // [sequences] `checks` when the sequence was last in a step
    uint64_t checks;       // steps that were checked
    ps_step_time *times;   // of worker 0; NULL: not asked for
    // Rows between the linears of an expert_ffn: where in `shared`, and how many bytes.
    uint64_t between_offset_bytes, between_bytes;
    ps_expert_store *experts; // NULL: all weights are in memory
    ps_expert_times expert_times;
    _Atomic uint64_t *account; // NULL: none
    uint64_t charged_bytes;
    uint32_t experts_max;           // of an expert_ffn
    ps_expert_want *wants;          // [experts_max]
    struct ps_grouped_check *check; // NULL: not asked for
    uint64_t check_bytes;           // scratch that it takes for each worker
    // Of collectives.
    float *comm_scratch;
    uint64_t comm_scratch_bytes;
};

// The collectives of one run of a plan: one at a time, in the order of the plan. Worker 0's.
typedef struct ps_comm_run {
    uint32_t started, done;
    bool is_busy;              // one is in flight
    uint64_t start_ns;         // of it
    const ps_bound_step *step; // of the one in flight
    uint32_t tag;              // of the first; the next have those that follow
    ps_status status;          // once it is not PS_OK, nothing is started any more
} ps_comm_run;

// Experts of one run of a plan: worker 0 writes, the others read behind a barrier.
typedef struct ps_expert_run {
    ps_expert_wave wave;
    ps_status status; // once it is not PS_OK, nothing is read any more
    ps_expert_times times;
} ps_expert_run;

// KV blocks [block, end) of one sequence and head that a worker reads in a step, and that earlier
// steps have filled.
typedef struct ps_kv_span {
    uint32_t sequence, head;
    uint32_t block, end;
} ps_kv_span;

// Where a walk over the spans of one worker and step stands; {0} at the start.
typedef struct ps_kv_cursor {
    uint64_t units; // of the reader that stand before the row,
    uint64_t taken; // and, of an attention_partial, those of this worker that have been passed
    uint32_t row, row_end, head;
} ps_kv_cursor;

// What one worker moves in its next wait: prefetches [at, end) of its own, each range by range.
typedef struct ps_touch {
    ps_prefetch_part *parts; // [prefetch_count]
    uint32_t at, end;
    bool is_begun;         // parts[at]
    const char *from, *to; // what is left of its range at hand
    uint64_t left_bytes;   // that it may still take
    uint32_t chunk_bytes;  // of the piece before
    ps_kv_cursor cursor;   // of a kv: its reader's spans,
    ps_kv_span span;       //   and what is left of the one at hand
    uint64_t asked_bytes, start_ns;
    uint32_t wait_from; // parts [wait_from, end) belong to the wait at hand,
    uint64_t done_ns;   //   and had all been moved then; 0: not yet, or times are not taken
    bool is_side; // of a dedicated thread, which makes those of its stream alone, and nobody else
} ps_touch;

// What one worker knows while it walks a step.
typedef struct ps_walk {
    const ps_exec *exec;
    const ps_kernels *kernels;
    const ps_program *program;
    const ps_step_row *rows;
    uint32_t row_count;
    uint32_t logit_count;
    uint32_t worker, workers;
    char *workspace;   // private
    char *scratch;     // private, exec->scratch_bytes, 64-byte aligned
    ps_comm_run *comm; // of worker 0, NULL for the others
    ps_expert_run *experts;
    ps_touch *touch;
    uint64_t prefetch_mask; // slots of the guard that prefetch nothing in this run
    ps_trace_lane *lane;    // of this worker; NULL: nothing is recorded
} ps_walk;

typedef void ps_op_function(const ps_walk *walk, const ps_bound_step *step);

// One function an operator; op_*.c.
#define OP(NAME, text, inputs_min, inputs_max, outputs, flags, operands)                           \
    ps_op_function ps_exec_op_##NAME;
#include "base/ops.def"
#undef OP

// Scratch bytes per worker that the operators of these files take.
uint64_t ps_exec_route_scratch_bytes(const ps_op_attributes *attributes);
uint64_t ps_exec_experts_scratch_bytes(const ps_plan *plan, const ps_bound_step *step);

uint64_t ps_exec_attention_scratch_bytes(const ps_plan_step *step, const ps_plan_value *q,
                                         const ps_plan_value *kv);

// The ids [top_k] that a row of a route has to take; NULL: those that its router prefers.
const uint16_t *ps_exec_forced_ids(const ps_walk *walk, const ps_bound_step *step, uint32_t row);

// Bytes of comm_scratch that a collective takes in a step of the plan.
uint64_t ps_exec_comm_scratch_bytes(const ps_comm *comm, const ps_plan *plan,
                                    const ps_bound_step *step);

// What a prefetch is for one worker.
void ps_exec_bind_prefetch(const ps_bound_step *step, uint32_t worker, uint32_t workers,
                           ps_prefetch_part *out);

// Touches the next part of what the worker is to prefetch; false: nothing is left. context: the
// ps_walk.
bool ps_exec_touch_next(void *context);

// The wait is over: what is left is not prefetched.
void ps_exec_touch_end(const ps_walk *walk);

// The next KV that this worker reads in an attention or attention_partial, in its order, each block
// once; false: that was all.
bool ps_exec_next_kv_span(const ps_walk *walk, const ps_bound_step *step, ps_kv_cursor *cursor,
                          ps_kv_span *out);

// Starts the sum of rows [first, last) of the output, which hold this rank's part of it, when the
// collective before is done; worker 0's. is_last: with it the step is started.
void ps_exec_comm_reduce(const ps_walk *walk, const ps_bound_step *step, uint32_t first,
                         uint32_t last, bool is_last);

// Lets the collective in flight go on.
void ps_exec_comm_poll(const ps_walk *walk);

// Returns when the first `count` collectives of the run are done, or one has failed.
void ps_exec_comm_join(const ps_walk *walk, uint32_t count);

// The address of row `row` of an operand.
static inline char *ps_row(const ps_walk *walk, const ps_operand *operand, uint32_t row)
{
    return (operand->is_private ? walk->workspace : walk->exec->shared) + operand->offset_bytes +
           (uint64_t)row * operand->row_bytes;
}
static inline float *ps_row_f32(const ps_walk *walk, const ps_operand *operand, uint32_t row)
{
    return (float *)(void *)ps_row(walk, operand, row);
}

static inline uint32_t ps_operand_rows(const ps_walk *walk, const ps_operand *operand)
{
    return ps_plan_rows(walk->program->plan, &operand->value->is, walk->row_count,
                        walk->logit_count);
}

// The rows [*begin, *end) of `count` that this worker computes in this step.
static inline void ps_rows_of(const ps_walk *walk, const ps_bound_step *step, uint32_t count,
                              uint32_t *begin, uint32_t *end)
{
    *begin = 0;
    *end = count;
    if (step->plan->split == PS_SPLIT_ROWS) {
        uint64_t first, last;
        ps_plan_share(count, walk->worker, walk->workers, &first, &last);
        *begin = (uint32_t)first;
        *end = (uint32_t)last;
    }
}

// The columns [*begin, *end) of an operand that a worker computes, or reads, in a step.
static inline void ps_worker_columns(const ps_bound_step *step, const ps_operand *operand,
                                     uint32_t worker, uint32_t workers, uint32_t *begin,
                                     uint32_t *end)
{
    *begin = 0;
    *end = operand->columns;
    if (step->plan->split == PS_SPLIT_COLUMNS) {
        ps_plan_columns_of(operand->value, worker, workers, begin, end);
    }
}
static inline void ps_columns_of(const ps_walk *walk, const ps_bound_step *step,
                                 const ps_operand *operand, uint32_t *begin, uint32_t *end)
{
    ps_worker_columns(step, operand, walk->worker, walk->workers, begin, end);
}

// Quantises columns [first, first + count) of a row of `columns`; first and count are multiples
// of 32. scratch: ps_q8_row_bytes(count).
void ps_quantise_columns(const ps_kernels *kernels, void *q8_row, uint32_t columns, const float *x,
                         uint32_t first, uint32_t count, void *scratch);

// The KV block that holds position `position` of a sequence, for one head.
static inline char *ps_kv_block(const ps_walk *walk, const ps_kv_layer *layer, uint32_t sequence,
                                uint32_t position, uint32_t head)
{
    const ps_exec *exec = walk->exec;
    const uint32_t *table = exec->tables +
                            ((uint64_t)sequence * exec->kv_group_count + layer->group) *
                                exec->table_blocks;
    return exec->kv_pools[layer->group] +
           table[position / PS_KV_BLOCK_TOKENS] * exec->kv_block_bytes[layer->group] +
           layer->offset_bytes + head * layer->head_bytes;
}

#endif
