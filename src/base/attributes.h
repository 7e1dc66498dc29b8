// base/attributes.h - the text form of an operator's attributes, shared by graphs and plans.
//
// "{site=attn.qkv unit=64 eps=1e-05}": those that are not 0, in the order of attributes.def. Sites,
// rope styles, activations and gatings are words. Floats come back bit for bit.
#ifndef PS_BASE_ATTRIBUTES_H
#define PS_BASE_ATTRIBUTES_H

#include "base/ops.h"
#include "base/scan.h"

// Appends " {...}", or nothing when all are 0. Floats must be finite and words in range to be read
// back.
PS_MUST_USE ps_status ps_attributes_print(const ps_op_attributes *attributes, ps_buffer *out);

// Reads "{...}" if it comes next on the line; *out is 0 where nothing is said. An unknown name or
// word, or a name given twice, is PS_INVALID.
PS_MUST_USE ps_status ps_attributes_scan(ps_scan *scan, ps_op_attributes *out);

// PS_INVALID when a float is not finite or a number stands for no word.
PS_MUST_USE ps_status ps_attributes_check(const ps_op_attributes *attributes);

#endif
