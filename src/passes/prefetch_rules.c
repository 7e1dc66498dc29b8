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
        return value->kind == PS_VALUE_KV
                   ? (uint64_t)((double)(ps_context_share(operand->attributes,
                                                          options->context_max) *
                                         ps_value_kv_bytes(value) *
                                         (options->sequences > 0 ? options->sequences : 1)) *
                                (options->kv_part > 0 ? options->kv_part : 1))
                   : 0;
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
        work.f32_ops = 2 * (uint64_t)options->rows_max *
                       ps_context_share(operand->attributes, options->context_max) *
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
    return ps_machine_l2_bytes(machine) / 16 * 15;
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

// ---- plans

ps_prefetch_operand ps_prefetch_operand_of(const ps_plan *plan, const ps_plan_step *step,
                                           uint32_t index)
{
    return (ps_prefetch_operand){.op = step->op,
                                 .attributes = &step->attributes,
                                 .value = &plan->values[step->inputs[index]].is,
                                 .query_columns = plan->values[step->inputs[0]].is.columns};
}

uint64_t ps_prefetch_operand_count(const ps_plan *plan)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        count += plan->steps[i].input_count;
    }
    return count;
}

ps_plan_step ps_prefetch_step(const ps_plan_step *reader, uint32_t index, uint64_t bytes,
                              uint64_t skip, ps_reason reason, ps_window window)
{
    const uint64_t part = reason == PS_REASON_WHOLE ? 0 : smaller(bytes, UINT32_MAX);
    return (ps_plan_step){.op = PS_OP_PREFETCH,
                          .input_count = 1,
                          .inputs = {reader->inputs[index]},
                          .output = PS_NO_VALUE,
                          .split = PS_SPLIT_UNITS,
                          .stream = window == PS_WINDOW_SIDE ? PS_STREAM_SIDE : PS_STREAM_PREFETCH,
                          .attributes = {.layer = reader->attributes.layer,
                                         .site = reader->attributes.site,
                                         .bytes = (uint32_t)part,
                                         .skip = (uint32_t)smaller(skip, UINT32_MAX),
                                         .reason = reason,
                                         .context_shards = reader->attributes.context_shards,
                                         .window = window}};
}

void ps_prefetch_note_step(const ps_plan_step *step, uint64_t *ahead)
{
    const ps_op_attributes *a = &step->attributes;
    if (step->op == PS_OP_PREFETCH) {
        if (a->reason < PS_REASON_DECLINED) {
            ahead[step->inputs[0]] = a->bytes == 0 ? UINT64_MAX : (uint64_t)a->skip + a->bytes;
        }
        return;
    }
    // A kv_write reads nothing of what is there.
    const uint32_t reads = step->op == PS_OP_KV_WRITE ? 2 : step->input_count;
    for (uint32_t i = 0; i < reads; i++) {
        ahead[step->inputs[i]] = 0;
    }
}
