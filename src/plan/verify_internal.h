// plan/verify_internal.h - shared by the files of ps_plan_verify only.
#ifndef PS_PLAN_VERIFY_INTERNAL_H
#define PS_PLAN_VERIFY_INTERNAL_H

#include "plan/plan.h"

// What is known when a step is checked. Arrays over values are indexed by the value that owns the
// storage.
typedef struct ps_plan_check {
    const ps_plan *plan;
    uint32_t *writer;    // [values] the step that writes it, PS_NO_VALUE: none so far
    uint32_t *last_read; // [values] the last step so far that writes or reads it
    uint32_t *epoch;     // [steps] how many barriers stand before or at it
} ps_plan_check;

// The value whose storage `id` names: itself, or what it is a view of.
static inline uint32_t ps_plan_storage(const ps_plan *plan, uint32_t id)
{
    const uint32_t base = plan->values[id].is.alias_of;
    return base == PS_NO_VALUE ? id : base;
}

// The split is one that the operator can do, and its output lies and is partitioned accordingly.
PS_MUST_USE ps_status ps_plan_check_split(const ps_plan *plan, const ps_plan_step *step);

// A barrier stands between the step and the writing of all it reads of other workers. Needs
// check->writer and check->epoch up to the step.
PS_MUST_USE ps_status ps_plan_check_barriers(const ps_plan_check *check, uint32_t step);

// No two values that are needed at the same time share bytes. Needs all of check. Scratch comes
// from the arena; O(n log n) but for the moving of ids of the values alive.
PS_MUST_USE ps_status ps_plan_check_lives(const ps_plan_check *check, ps_arena *arena);

#endif
