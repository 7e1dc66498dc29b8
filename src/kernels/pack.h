// kernels/pack.h - rows of a model file to packed groups and back.
#ifndef PS_KERNELS_PACK_H
#define PS_KERNELS_PACK_H

#include "base/layout.h"

// Packs rows [16 * first_group, 16 * (first_group + group_count)) of a file tensor; rows at or past
// `outputs` become zeros. Groups are independent, so workers may share a tensor.
//
// out        first group's destination, group_count * ps_packed_group_bytes()
// rows       rows as in the file, no alignment assumed
// row_bytes  from one row to the next: ps_dtype_row_bytes(dtype, inputs), or more for some of the
//            columns of longer rows
void ps_pack_groups(void *out, const void *rows, uint64_t row_bytes, ps_dtype dtype,
                    uint64_t outputs, uint32_t inputs, uint64_t first_group, uint64_t group_count);

// Row `row` of a packed weight as f32 [inputs]. Values as layout.h states them, products left to
// right.
void ps_unpack_row(float *out, const void *packed, ps_dtype dtype, uint32_t inputs, uint64_t row);

#endif
