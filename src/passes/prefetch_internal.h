// passes/prefetch_internal.h - what both passes of prefetching go by: what can be moved, and how
// much of it. For prefetch.c, which fills collectives, and barriers.c alone.
#ifndef PS_PREFETCH_INTERNAL_H
#define PS_PREFETCH_INTERNAL_H

#include "passes/passes.h"

// Below this a prefetch is not worth its looking after.
#define PS_PREFETCH_LEAST_BYTES ((uint64_t)16 << 10)

// One operand of an operator.
typedef struct ps_prefetch_operand {
    ps_op op;
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

// What the caches of all workers hold beside activations.
uint64_t ps_prefetch_cache_bytes(const ps_machine *machine);

ps_prefetch_budget ps_prefetch_budget_of(uint64_t time_bytes, uint64_t room_bytes);

// Policy auto: as much as is left. *bytes becomes what is taken.
ps_reason ps_prefetch_take_part(ps_prefetch_budget *budget, bool is_kv, uint64_t *bytes);

#endif
