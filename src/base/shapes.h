// base/shapes.h - what holds for every value, and what each operator asks of its operands; shared
// by the verifiers of graphs (ir/) and plans (plan/).
//
// All checks are pure, read nothing but their arguments, and answer PS_INVALID with what is wrong
// and what would be right.
#ifndef PS_BASE_SHAPES_H
#define PS_BASE_SHAPES_H

#include "base/value.h"

// `what` is a number from `lowest` to `highest`.
PS_MUST_USE ps_status ps_range_check(const char *what, uint32_t value, uint32_t lowest,
                                     uint32_t highest);

// One value alone: kind, format, limits of its sizes, its kv group (of `kv_groups`), and, for a
// view, that it lies inside `base`; NULL: it is none. Its name is not looked at.
PS_MUST_USE ps_status ps_value_check(const ps_value *value, const ps_value *base,
                                     uint32_t kv_groups);

// The one value that is read by whoever runs the graph or the plan: F32 [L, vocabulary].
PS_MUST_USE ps_status ps_value_check_output(const ps_value *value, uint32_t vocabulary);

// The operator exists, takes so many operands and has an output or not. To be asked before operands
// are looked up.
PS_MUST_USE ps_status ps_operand_counts_check(ps_op op, uint32_t inputs, bool has_output);

// Attributes, kinds, formats, rows and columns of an operator's operands, as the last column of
// ops.def states them. `inputs` [count] have been checked by ps_value_check and their number by
// ps_operand_counts_check; `output` is NULL for operators without one.
//
// Attributes must agree with the operands. Those that the executor takes from the operands (heads
// of a rope, head_dim of a kv_write or an attention_merge) may be left 0.
PS_MUST_USE ps_status ps_operands_check(ps_op op, const ps_op_attributes *attributes,
                                        const ps_value *const *inputs, uint32_t count,
                                        const ps_value *output);

// Ranks that can share a model.
#define PS_RANKS_MAX 256u

// Chunks of a linear that is reduced piece by piece.
#define PS_COMM_CHUNKS_MAX 16u

// The columns [*begin, *end) of `columns` that rank `rank` of `ranks` has, when units of `unit`
// columns are shared evenly, in order; the last unit may be smaller.
void ps_share_columns(uint32_t columns, uint32_t unit, uint32_t rank, uint32_t ranks,
                      uint32_t *begin, uint32_t *end);

// The rows [*begin, *end) of `rows` that are those of rank `rank` of `ranks`; 0 ranks are one. The
// first ranks have one more where they cannot be shared evenly, so that no rank has fewer of more
// rows; some have none of a few.
void ps_share_rows(uint32_t rows, uint32_t rank, uint32_t ranks, uint32_t *begin, uint32_t *end);

// A head has a multiple of 8 columns, 512 at most: what the attention kernels do.
#define PS_HEAD_DIM_UNIT 8u
#define PS_HEAD_DIM_MAX 512u

#endif
