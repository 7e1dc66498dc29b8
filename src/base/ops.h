// base/ops.h - operators and their attributes, shared by graphs (ir/) and plans (plan/).
#ifndef PS_BASE_OPS_H
#define PS_BASE_OPS_H

#include "base/dtype.h"

typedef enum ps_op {
#define OP(NAME, text, inputs_min, inputs_max, outputs, flags, operands) PS_OP_##NAME,
#include "base/ops.def"
#undef OP
    PS_OP_COUNT,
} ps_op;

enum {
    PS_OP_READS_WEIGHTS = 1,
    PS_OP_VECTOR = 2,
    PS_OP_COLLECTIVE = 4,
    PS_OP_REPLICABLE = 8,
    PS_OP_COLUMNWISE = 16,
};

typedef struct ps_op_info {
    const char *name;
    uint8_t inputs_min, inputs_max, outputs, flags;
    const char *operands; // for people
} ps_op_info;

#define PS_OP_INPUTS_MAX 5

const ps_op_info *ps_op_get(ps_op op);

// What a value is.
typedef enum ps_value_kind {
    PS_VALUE_WEIGHT,     // a tensor of the model file, by name
    PS_VALUE_KV,         // keys and values of one layer
    PS_VALUE_ACTIVATION, // lives in the workspace
} ps_value_kind;

// The rows of an activation: `multiplier` times the rows of the step (T), those that want logits
// (L), or, where ranks share the rows of a step, this rank's own (O).
typedef enum ps_rows {
    PS_ROWS_STEP,
    PS_ROWS_LOGITS,
    PS_ROWS_OWN,
    PS_ROWS_COUNT,
} ps_rows;

const char *ps_rows_name(ps_rows rows); // "T", "L", "O"

// The consumer that a linear or an attention is, by the name users give it (DESIGN section 2,
// "site").
typedef enum ps_site {
    PS_SITE_NONE,
    PS_SITE_ATTN_QKV,
    PS_SITE_ATTN_O,
    PS_SITE_MLP_GATE_UP,
    PS_SITE_MLP_DOWN,
    PS_SITE_MOE_ROUTER,
    PS_SITE_MOE_GATE_UP,
    PS_SITE_MOE_DOWN,
    PS_SITE_KV,
    PS_SITE_LM_HEAD,
    PS_SITE_COUNT,
} ps_site;

const char *ps_site_name(ps_site site); // "attn.qkv"; "" for PS_SITE_NONE

typedef enum ps_rope_style { PS_ROPE_NORM, PS_ROPE_NEOX } ps_rope_style;
typedef enum ps_activation { PS_ACTIVATION_SILU, PS_ACTIVATION_GELU } ps_activation;

// What else the memory system could do while an operator runs, or is waited for.
typedef enum ps_window {
    PS_WINDOW_NONE,
    PS_WINDOW_VECTOR,
    PS_WINDOW_COMM,
    PS_WINDOW_BARRIER, // of a prefetch: workers that come early to the barrier behind it make it
    PS_WINDOW_SIDE,    // of a prefetch: dedicated threads make it, until its reader begins
    PS_WINDOW_COUNT,
} ps_window;
const char *ps_window_name(ps_window window); // "vector", "side", ...

// Why a prefetch moves what it moves. Those from PS_REASON_DECLINED on are not made: they stand in
// graphs and plans for people to see.
typedef enum ps_reason {
    PS_REASON_WHOLE,
    PS_REASON_PART_TIME,     // the wait is too short for all of it
    PS_REASON_PART_CAPACITY, // the caches are too small for all of it
    PS_REASON_PART_RATIO,    // the ratio says so
    PS_REASON_PART_CAP,      // a linear gets no more
    PS_REASON_NO_TIME,       // what stands before it takes the wait
    PS_REASON_NO_CAPACITY,   // with it, the sum would reach the capacity
    PS_REASON_AFTER_MISFIT,  // stands behind one that did not fit
    PS_REASON_COMPUTE_BOUND, // its reader waits for arithmetic, not for memory
    PS_REASON_RATIO_ZERO,    // the ratio is 0
    PS_REASON_TOKENS,        // not for so few, or so many, rows
    PS_REASON_NO_WINDOW,     // nobody waits before its reader
    PS_REASON_IN_CACHE,      // all weights stay in L2
    PS_REASON_COUNT,
} ps_reason;
#define PS_REASON_DECLINED PS_REASON_NO_TIME
const char *ps_reason_name(ps_reason reason); // "whole", "no_time", ...

// How router logits become weights.
typedef enum ps_gating {
    PS_GATING_SOFTMAX,          // softmax over all experts, then the best top_k
    PS_GATING_SOFTMAX_SELECTED, // the best top_k, then softmax over them
} ps_gating;

// Attributes of an operator; 0 where it has none. attributes.def names each for the text form.
typedef struct ps_op_attributes {
#define U32(name) uint32_t name;
#define F32(name) float name;
#include "base/attributes.def"
#undef U32
#undef F32
} ps_op_attributes;

// Whether it reads the positions of a KV: attention, whole or in parts that are merged later.
static inline bool ps_op_attends(ps_op op)
{
    return op == PS_OP_ATTENTION || op == PS_OP_ATTENTION_PARTIAL;
}

// Of so many positions of a KV, those that this rank holds, where several share them; the most that
// one of them holds.
static inline uint64_t ps_context_share(const ps_op_attributes *attributes, uint64_t positions)
{
    return attributes->context_shards <= 1 ? positions
                                           : ps_divide_up(positions, attributes->context_shards);
}

#endif
