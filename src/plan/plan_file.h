// plan/plan_file.h - the home of plans: all plans of one key in one text (docs/plan-text.md).
//
// A plan file says whose plans it holds (a key) and then, for each rank of the model, one plan
// after another. A section "plans" of a compiled file (format/pst.h) is the same text. Pure: no
// files, memory from the arena.
#ifndef PS_PLAN_FILE_H
#define PS_PLAN_FILE_H

#include "plan/plan.h"

#define PS_PLAN_FILE_VERSION 2u
#define PS_PLAN_FILE_PLANS_MAX 64u // of one rank
#define PS_PLAN_FILE_RANKS_MAX 64u
#define PS_PLAN_FILE_BYTES_MAX ((uint64_t)512 << 20)
#define PS_PLAN_MACHINE_BYTES_MAX 63u
#define PS_PLAN_POLICY_BYTES_MAX 15u

// What all plans of a file were made for. Their buckets are in the plans.
typedef struct ps_plan_key {
    uint64_t fingerprint; // of the model
    uint32_t layout;      // PS_LAYOUT_VERSION
    char machine[PS_PLAN_MACHINE_BYTES_MAX + 1];
    uint32_t threads;                            // 1 and more, of each rank
    uint32_t ranks;                              // 1 to PS_PLAN_FILE_RANKS_MAX
    char policy[PS_PLAN_POLICY_BYTES_MAX + 1];   // of prefetching, a word: "off"
    char schedule[PS_PLAN_POLICY_BYTES_MAX + 1]; // of collectives, a word: "serial"
} ps_plan_key;

// The plans of one rank.
typedef struct ps_plan_set {
    ps_plan_key key;
    uint32_t rank;
    uint32_t plan_count;
    const ps_plan *plans[PS_PLAN_FILE_PLANS_MAX]; // no two of one bucket
} ps_plan_set;

// Appends the text: of rank 0 with the head before it. Those of all ranks in their order are a plan
// file. PS_EXHAUSTED and PS_NO_MEMORY come from `out`, which may then hold a part.
PS_MUST_USE ps_status ps_plan_set_print(const ps_plan_set *set, ps_buffer *out);

// The other way, for one rank: exact, what is printed of the results for all ranks is the text
// again. Its plans are verified; those of other ranks are passed over, so that each rank reads its
// own, but all have to be there. A rank that the file does not know has no plans, and the key says
// so. *out and its plans live in the arena; the text is borrowed during the call only.
//
// PS_INVALID      not that form, a limit above, a bucket that is there twice, a plan of another
//                 rank or that does not verify; the message names the line
// PS_UNSUPPORTED  a version of the form that this build does not read
// PS_NO_MEMORY, PS_EXHAUSTED  from the arena
PS_MUST_USE ps_status ps_plan_set_parse(ps_str text, uint32_t rank, ps_arena *arena,
                                        ps_plan_set **out);

// The plan of exactly that bucket; NULL when there is none.
const ps_plan *ps_plan_set_find(const ps_plan_set *set, uint32_t rows_max, uint32_t logits_max,
                                uint32_t context_max);

// Whether plans of key `file` serve where `here` is asked for. PS_INVALID: the message names the
// first thing that differs, in the order of the fields, and both sides of it.
PS_MUST_USE ps_status ps_plan_key_check(const ps_plan_key *file, const ps_plan_key *here);

#endif
