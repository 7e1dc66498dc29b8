// base/value.h - what operators read and write, shared by graphs (ir/) and plans (plan/).
#ifndef PS_BASE_VALUE_H
#define PS_BASE_VALUE_H

#include "base/layout.h"
#include "base/ops.h"

typedef uint32_t ps_value_id; // index into the values of a graph or a plan
#define PS_NO_VALUE UINT32_MAX

// Limits that keep every product of sizes far below 2^63.
#define PS_COLUMNS_MAX (1u << 24)
#define PS_EXPERTS_MAX 4096u

typedef struct ps_value {
    const char *name; // unique; a weight's is its tensor's name, or that with "@..." behind it
    ps_value_kind kind;
    ps_dtype dtype;     // activations: F32 or Q8_ROW; kv: of K, F16, Q8_0, I8 or I4
    ps_dtype v_dtype;   // kv: of V, one of the same
    uint32_t rows;      // weights: outputs of one matrix, 1 for a vector
    uint32_t columns;   // weights: inputs; activations: columns of a row; kv: kv_heads * head_dim
    uint32_t experts;   // weights: matrices stacked, 0 for a plain one
    uint32_t row_first; // weights: where in the tensor a slice of it starts
    uint32_t column_first;   //
    ps_rows row_kind;        // activations
    uint32_t row_multiplier; // activations, >= 1
    uint32_t kv_group;       // kv: index into the kv groups
    uint32_t head_dim;       // kv
    ps_value_id alias_of;    // activations: a view of `columns` columns of another value, from its
    uint32_t alias_column;   //   column `alias_column` on; PS_NO_VALUE: its own storage
    bool is_output;          // activations: read by whoever runs the graph (the logits)
} ps_value;

// Bytes of one position of a kv, K and V of all heads.
static inline uint64_t ps_value_kv_bytes(const ps_value *kv)
{
    return ps_dtype_row_bytes(kv->dtype, kv->columns) +
           ps_dtype_row_bytes(kv->v_dtype, kv->columns);
}

// Bytes of a weight as it is kept, all experts of a stack: packed, or a row of numbers where it is
// a vector, which has no groups of rows.
static inline uint64_t ps_value_weight_bytes(const ps_value *weight)
{
    if (weight->rows == 1 && weight->experts == 0 && weight->dtype == PS_DTYPE_F32) {
        return weight->columns * sizeof(float);
    }
    return ps_packed_bytes(weight->dtype, weight->rows, weight->columns) *
           (weight->experts == 0 ? 1 : weight->experts);
}

// An operator with its operands.
typedef struct ps_operation {
    ps_op op;
    uint32_t input_count;
    ps_value_id inputs[PS_OP_INPUTS_MAX];
    ps_value_id output; // PS_NO_VALUE for operators without one
    ps_op_attributes attributes;
} ps_operation;

#endif
