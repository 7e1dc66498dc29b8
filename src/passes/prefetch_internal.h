// passes/prefetch_internal.h - what the passes of prefetching go by: what can be moved, and how
// much of it. For prefetch.c (collectives), barriers.c and side_stream.c alone.
#ifndef PS_PREFETCH_INTERNAL_H
#define PS_PREFETCH_INTERNAL_H

#include "passes/passes.h"

// Below this a prefetch is not worth its looking after.
#define PS_PREFETCH_LEAST_BYTES ((uint64_t)16 << 10)

// One operand of an operator.
typedef struct ps_prefetch_operand {
    ps_op op;
    const ps_op_attributes *attributes; // of the operator
    const ps_value *value;
    uint32_t query_columns; // of attention: of its queries
} ps_prefetch_operand;

// What a window has left.
typedef struct ps_prefetch_budget {
    uint64_t left_bytes;
    bool is_short; // time, and not capacity, is what is left
} ps_prefetch_budget;

// Bytes that the operator reads of the operand, of a KV at the longest context of the bucket; 0:
// none that can be prefetched.
uint64_t ps_prefetch_operand_bytes(const ps_pass_options *options,
                                   const ps_prefetch_operand *operand);

// Whether reading it is what the operator waits for, at the rows of the bucket.
bool ps_prefetch_is_bound_by_memory(const ps_pass_options *options,
                                    const ps_prefetch_operand *operand, uint64_t bytes);

// Operand `index` of a step of a plan, and how many operands all steps have.
ps_prefetch_operand ps_prefetch_operand_of(const ps_plan *plan, const ps_plan_step *step,
                                           uint32_t index);
uint64_t ps_prefetch_operand_count(const ps_plan *plan);

// A step that moves operand `index` of `reader`; with the reason whole, all behind `skip`.
ps_plan_step ps_prefetch_step(const ps_plan_step *reader, uint32_t index, uint64_t bytes,
                              uint64_t skip, ps_reason reason, ps_window window);

// ahead [values]: bytes that prefetches have moved, and that nobody has read since; after a step.
void ps_prefetch_note_step(const ps_plan_step *step, uint64_t *ahead);

// What the caches of all workers hold beside activations.
uint64_t ps_prefetch_cache_bytes(const ps_machine *machine);

ps_prefetch_budget ps_prefetch_budget_of(uint64_t time_bytes, uint64_t room_bytes);

// Policy auto: as much as is left. *bytes becomes what is taken.
ps_reason ps_prefetch_take_part(ps_prefetch_budget *budget, bool is_kv, uint64_t *bytes);

#endif
