// exec/check_grouped.h - the grouped calls of MoE layers against every (row, expert) pair alone.
//
// In the same step, behind each operator, stage by stage: ids and weights of the router, gate_up,
// down, the weighted sum. A stage reads what the grouped call made of the one before, so that the
// first difference is where it arose. Alone means: the experts of a row by a pass over all of them
// for each, one token through the whole matrix of one expert, columns added one by one in router
// order. All bits have to be the same, but for the payload of a NaN. For files of exec/ only.
#ifndef PS_EXEC_CHECK_GROUPED_H
#define PS_EXEC_CHECK_GROUPED_H

#include "exec/exec_internal.h"

typedef struct ps_grouped_difference {
    uint64_t call;     // of the operators that were checked, since the last result
    const char *stage; // "ids", "weights", "waves", "gate_up", "down", "sum"
    uint32_t layer;    // of the model, from 0
    int32_t expert;    // -1: of no one expert
    uint32_t row, column;
    float grouped, alone;
} ps_grouped_difference;

// What one worker has found: a line of the cache, and more, of its own.
typedef struct ps_grouped_finding {
    alignas(PS_CACHE_LINE_BYTES) uint64_t calls;
    bool is_different;
    ps_grouped_difference first;
    bool *came; // [experts_max] in a wave of the step at hand
} ps_grouped_finding;

typedef struct ps_grouped_check {
    ps_grouped_finding *workers; // [workers]
    char *scratch;               // [workers][scratch_bytes]
    uint64_t scratch_bytes;
} ps_grouped_check;

// Scratch that checking a step takes for each worker.
uint64_t ps_check_scratch_bytes(const ps_bound_step *step);

// Memory for the workers of a team, from the arena. experts_max: of steps whose experts come in
// waves.
PS_MUST_USE ps_status ps_check_create(ps_arena *arena, uint32_t workers, uint64_t scratch_bytes,
                                      uint32_t experts_max, ps_grouped_check **out);

// Called by every worker, once for each operator or part of one that is checked, before what
// follows.
void ps_check_begin(const ps_walk *walk);

// Rows [begin, end) of a router's answer, which this worker has made.
void ps_check_route(const ps_walk *walk, const ps_bound_step *step, uint32_t begin, uint32_t end);

// One row through one expert.
typedef struct ps_check_pair {
    uint32_t row, expert;
    const ps_weight *weight, *up; // up NULL: a linear
    const char *data, *up_data;   // matrices of the expert, packed
    const char *stage;
    ps_dtype y_dtype;
    const void *x; // the row that was read, and
    const void *y; //   what the grouped call made of it: all its columns are there
} ps_check_pair;
void ps_check_pair_rows(const ps_walk *walk, const ps_bound_step *step, const ps_check_pair *pair);

// Experts that come in waves, of which pairs are checked as they come: NULL before the first wave,
// each wave, and behind the last an empty one, when this worker's pairs must all have had theirs
// ("waves").
void ps_check_wave(const ps_walk *walk, const ps_bound_step *step, const ps_expert_wave *wave);

// Columns [first, last) of rows [begin, end) of a weighted sum, which this worker has made.
void ps_check_sum(const ps_walk *walk, const ps_bound_step *step, uint32_t begin, uint32_t end,
                  uint32_t first, uint32_t last);

// After a run: PS_INTERNAL with the first difference of all workers. Either way checking starts
// anew.
PS_MUST_USE ps_status ps_check_result(ps_grouped_check *check, uint32_t workers);

#endif
