// base/value_text.h - values and operations as text; shared by graphs (docs/graph-text.md) and
// plans (docs/plan-text.md).
//
//     %blk.0.ffn_up.weight = weight Q4_K [1536, 576]
//     %q = activation F32 [T, 576] {of=%qkv column=0}
//     %y = linear %x, %blk.0.ffn_up.weight {layer=1 site=mlp.gate_up}
//
// A line starts with a definition or, for an operator without an output, with the operator. What
// stands behind is the caller's: none of these functions reads or writes the end of a line.
#ifndef PS_BASE_VALUE_TEXT_H
#define PS_BASE_VALUE_TEXT_H

#include "base/names.h"
#include "base/scan.h"
#include "base/value.h"

// Where a value is printed: in the order of ids, but for views of values with higher ids, which
// follow in a second round. So what is printed defines first, and reads back in the same order.
static inline bool ps_value_is_late(const ps_value *value, ps_value_id id)
{
    return value->alias_of != PS_NO_VALUE && value->alias_of > id;
}

// base_name: of what an activation is a view of.
PS_MUST_USE ps_status ps_value_print(const ps_value *value, const char *base_name, ps_buffer *out);

// inputs [count]; output is NULL for operators without one.
PS_MUST_USE ps_status ps_operation_print(ps_op op, const ps_op_attributes *attributes,
                                         const ps_value *const *inputs, uint32_t count,
                                         const ps_value *output, ps_buffer *out);

// What a line begins with.
typedef struct ps_definition {
    char name[PS_NAME_BYTES_MAX + 1]; // of what is defined
    bool is_value;
    ps_value_kind kind; // of a value; otherwise
    ps_op op;           //   the operator
} ps_definition;

// "%name = <kind of value>" or "%name = <operator>", of a line whose next mark is '%'.
PS_MUST_USE ps_status ps_definition_scan(ps_scan *scan, ps_definition *out);

// The rest of a value; its name is definition->name. Names that it refers to are looked up.
PS_MUST_USE ps_status ps_value_scan(ps_scan *scan, const ps_definition *definition,
                                    const ps_names *names, ps_value *out);

// The rest of an operation: operands and attributes. `output`: the name of its output, which must
// be there; NULL: it has none.
PS_MUST_USE ps_status ps_operation_scan(ps_scan *scan, ps_op op, const char *output,
                                        const ps_names *names, ps_operation *out);

// One of headings[count], or the name of an operator: then *out_index is count + the operator.
PS_MUST_USE ps_status ps_heading_scan(ps_scan *scan, const char *const *headings, uint32_t count,
                                      uint32_t *out_index);
#define PS_HEADINGS_MAX 8u

// "<key>=<number>", where nothing else may stand.
PS_MUST_USE ps_status ps_setting_scan(ps_scan *scan, const char *key, uint32_t *out);

#endif
