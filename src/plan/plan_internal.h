// plan/plan_internal.h - shared by the files of plan/ only.
#ifndef PS_PLAN_INTERNAL_H
#define PS_PLAN_INTERNAL_H

#include "plan/plan.h"

// What is known when a step is checked. Arrays over values are indexed by the value that owns the
// storage.
typedef struct ps_plan_check {
    const ps_plan *plan;
    uint32_t *writer;    // [values] the step that writes it, PS_NO_VALUE: none so far
    uint32_t *last_read; // [values] the last step so far that writes or reads it
    uint32_t *epoch;     // [steps] how many barriers stand before or at it
    uint32_t *started;   // [steps] how many collectives stand before or at it
    uint32_t *joined;    // [steps] how many are known to be done when it runs
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

// A prefetch has a wait to fill, somebody who reads what it moves, and no other moves it before.
// Needs all of check.
PS_MUST_USE ps_status ps_plan_check_prefetches(const ps_plan_check *check, ps_arena *arena);

// No two values that are needed at the same time share bytes. Needs all of check. Scratch comes
// from the arena; O(n log n).
PS_MUST_USE ps_status ps_plan_check_lives(const ps_plan_check *check, ps_arena *arena);

// ps_plan_parse of a text whose first line is line `first_line` of what messages speak of.
PS_MUST_USE ps_status ps_plan_parse_at(ps_str text, uint32_t first_line, ps_arena *arena,
                                       ps_plan **out);

// A number of a plan, a value or a step, and its word in the text form.
typedef struct ps_plan_field {
    const char *key;
    size_t offset;
    bool is_wide; // uint64_t, otherwise uint32_t
} ps_plan_field;

// In the order in which they are printed.
enum { PS_PLAN_FIELDS = 8, PS_PLAN_VALUE_FIELDS = 5, PS_PLAN_STEP_FIELDS = 5 };
extern const ps_plan_field ps_plan_fields[PS_PLAN_FIELDS];             // of ps_plan
extern const ps_plan_field ps_plan_value_fields[PS_PLAN_VALUE_FIELDS]; // of ps_plan_value
extern const ps_plan_field ps_plan_step_fields[PS_PLAN_STEP_FIELDS];   // of ps_plan_step

#endif
