// base/dtype.h - the number formats that tensors and activations have.
#ifndef PS_BASE_DTYPE_H
#define PS_BASE_DTYPE_H

#include "base/memory.h"

// PS_DTYPE_Q8_ROW is an activation row quantised per 32 columns: base/layout.h.
typedef enum ps_dtype {
#define X(NAME, text, id, columns, bytes) PS_DTYPE_##NAME,
#include "base/dtype.def"
#undef X
    PS_DTYPE_COUNT,
} ps_dtype;

typedef struct ps_dtype_info {
    const char *name;
    int32_t gguf_id;
    uint32_t block_columns;
    uint32_t block_bytes;
} ps_dtype_info;

const ps_dtype_info *ps_dtype_get(ps_dtype dtype);

// PS_DTYPE_COUNT when no line of dtype.def has that GGUF id.
ps_dtype ps_dtype_by_gguf_id(uint32_t gguf_id);

// True for formats that plans are made with, but nothing computes: I8 and I4.
bool ps_dtype_is_planned_only(ps_dtype dtype);

// True for the block formats whose products run on int8 activations.
bool ps_dtype_is_quantised(ps_dtype dtype);

// Of the rows that a linear with such a weight reads: Q8_ROW for quantised weights, else F32.
ps_dtype ps_dtype_of_rows(ps_dtype weight);

// Bytes of one row of `columns` values, a multiple of the block's columns. The result must fit.
uint64_t ps_dtype_row_bytes(ps_dtype dtype, uint64_t columns);

#endif
