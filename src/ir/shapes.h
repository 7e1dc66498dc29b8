// ir/shapes.h - what each operator asks of its operands. Part of ps_graph_verify.
#ifndef PS_IR_SHAPES_H
#define PS_IR_SHAPES_H

#include "ir/graph.h"

// Kinds, formats, rows, columns and attributes of one node, as the last column of ops.def states
// them. The node's ids, operand counts and attributes' ranges, and its values taken alone, have
// been checked before (verify.c). PS_INVALID says what is wrong and what would be right.
//
// Attributes must agree with the operands. Those that the executor takes from the operands (heads
// of a rope, head_dim of a kv_write or an attention_merge) may be left 0.
PS_MUST_USE ps_status ps_node_check_shapes(const ps_graph *graph, const ps_node *node);

// A head has a multiple of 8 columns, 512 at most: what the attention kernels do.
#define PS_HEAD_DIM_UNIT 8u
#define PS_HEAD_DIM_MAX 512u
PS_MUST_USE ps_status ps_head_dim_check(uint32_t head_dim);

#endif
