// passes/prefetch_rules.c - bytes, bounds and budgets of prefetches.
#include "passes/prefetch_internal.h"

#include "base/shapes.h"
#include "cost/cost.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t ps_prefetch_operand_bytes(const ps_pass_options *options,
                                   const ps_prefetch_operand *operand)
{
    const ps_value *value = operand->value;
    switch (operand->op) {
    case PS_OP_ATTENTION:
    case PS_OP_ATTENTION_PARTIAL:
        return value->kind == PS_VALUE_KV ? options->context_max * ps_value_kv_bytes(value) : 0;
    case PS_OP_LINEAR:
    case PS_OP_LINEAR_ALL_REDUCE:
    case PS_OP_GATE_UP:
        return value->kind == PS_VALUE_WEIGHT
                   ? ps_packed_bytes(value->dtype, value->rows, value->columns)
                   : 0;
    default:
        return 0;
    }
}

// Arithmetic and reads overlap in part only: up to twice the time of the reads it still helps to
// have them near. Rows of a small bucket may each read a KV of their own; those of a large one are
// taken to be a prompt's, which reads one KV, the more often the more rows there are.
bool ps_prefetch_is_bound_by_memory(const ps_pass_options *options,
                                    const ps_prefetch_operand *operand, uint64_t bytes)
{
    const ps_value *value = operand->value;
    ps_work work = {0};
    if (value->kind == PS_VALUE_KV) {
        if (options->rows_max <= PS_REPLICATED_ROWS_MAX) {
            return true;
        }
        work.f32_ops = 2 * (uint64_t)options->rows_max * options->context_max *
                       operand->query_columns;
    } else {
        const uint64_t ops = options->rows_max * (uint64_t)value->rows * value->columns;
        *(ps_dtype_is_quantised(value->dtype) ? &work.int8_ops : &work.f32_ops) = ops;
    }
    const ps_work cold = {.memory_bytes = bytes};
    return ps_cost_work_ns(options->machine, &work) < 2 * ps_cost_work_ns(options->machine, &cold);
}

uint64_t ps_prefetch_cache_bytes(const ps_machine *machine)
{
    return machine->l2_bytes * machine->threads / 16 * 15;
}

ps_prefetch_budget ps_prefetch_budget_of(uint64_t time_bytes, uint64_t room_bytes)
{
    return (ps_prefetch_budget){.left_bytes = smaller(time_bytes, room_bytes),
                                .is_short = time_bytes < room_bytes};
}

ps_reason ps_prefetch_take_part(ps_prefetch_budget *budget, bool is_kv, uint64_t *bytes)
{
    const uint64_t taken = smaller(*bytes, budget->left_bytes);
    if (taken < smaller(*bytes, PS_PREFETCH_LEAST_BYTES)) {
        return PS_REASON_NO_TIME;
    }
    const bool is_whole = taken == *bytes;
    *bytes = taken;
    // How much of the longest context is there will be seen in the step; what it leaves of the time
    // is for what stands behind it.
    budget->left_bytes -= is_kv ? 0 : taken;
    return is_whole           ? PS_REASON_WHOLE
           : budget->is_short ? PS_REASON_PART_TIME
                              : PS_REASON_PART_CAPACITY;
}
