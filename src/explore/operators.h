// explore/operators.h - what the time of a played step goes to, by operator.
//
// Rows are operators with their site, all layers together, in the order in which the plan has them
// first; behind them what the lane of operators waits for. Their times add up to the step. Pure.
#ifndef PS_EXPLORE_OPERATORS_H
#define PS_EXPLORE_OPERATORS_H

#include "explore/play.h"

// What most of a row's time is.
typedef enum ps_bound {
    PS_BOUND_MEMORY,  // reads from memory
    PS_BOUND_CACHE,   // reads of what prefetches have moved, or of results in L2
    PS_BOUND_COMPUTE, // arithmetic
    PS_BOUND_FIXED,   // the fixed costs of operators
    PS_BOUND_EXPERTS, // reads of experts that are not in memory
    PS_BOUND_WAIT,    // it is a wait
    PS_BOUND_COUNT,
} ps_bound;

const char *ps_bound_name(ps_bound bound); // "memory", "cache", ...

#define PS_OPERATOR_NAME_BYTES 48u

typedef struct ps_operator_row {
    char name[PS_OPERATOR_NAME_BYTES]; // "linear mlp.down", "attention", "waits", "barriers"
    ps_op op;                          // of waits: PS_OP_COUNT
    ps_site site;                      // PS_SITE_NONE: it has none
    uint32_t count;                    // in the step
    double ns;
    ps_play_span sum; // of the members behind end_ns
    ps_bound bound;
} ps_operator_row;

// Operations for each word that is read; 0 where nothing is. A word is an element of a weight or of
// KV.
double ps_operator_intensity(const ps_play_span *sum);

// The roofline: the intensity at which arithmetic would take as long as reads from memory. 0 where
// there is none or the other.
double ps_operator_roof(const ps_play_span *sum);

// The sum of all rows of one kind: linears, or attention; of all, where it is neither.
typedef enum ps_operator_kind {
    PS_OPERATORS_ALL,
    PS_OPERATORS_LINEAR,
    PS_OPERATORS_ATTENTION
} ps_operator_kind;
ps_play_span ps_operators_sum(const ps_operator_row *rows, uint32_t count, ps_operator_kind kind);

// played: with spans. *out_rows: [*out_count] from the arena. PS_NO_MEMORY
PS_MUST_USE ps_status ps_operators_list(const ps_plan *plan, const ps_played *played,
                                        ps_arena *arena, ps_operator_row **out_rows,
                                        uint32_t *out_count);

#endif
