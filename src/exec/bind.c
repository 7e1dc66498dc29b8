// exec/bind.c - a plan's names become addresses.
#include "exec/check_grouped.h"
#include "exec/linear_internal.h"

#include <string.h>

bool ps_exec_takes_vector(ps_op op)
{
    return op == PS_OP_RMS_NORM || op == PS_OP_NORM_QUANTISE || op == PS_OP_ADD_BIAS ||
           op == PS_OP_ROPE_TABLE;
}

static ps_status bind_weight(const ps_plan_step *step, const ps_plan_value *value,
                             ps_weight_lookup *lookup, void *context, ps_operand *out)
{
    const ps_weight *weight = lookup(context, value->is.name);
    if (weight == NULL) {
        return ps_fail(PS_NOT_FOUND, "the plan reads weight '%s', which the model does not have",
                       value->is.name);
    }
    if (weight->outputs != value->is.rows || weight->inputs != value->is.columns ||
        weight->experts != value->is.experts ||
        weight->is_vector != ps_exec_takes_vector(step->op) ||
        (!weight->is_vector && weight->dtype != value->is.dtype)) {
        return ps_fail(PS_INVALID,
                       "weight '%s' is %s [%u, %u] x %u in the model, %s [%u, %u] x %u in the plan",
                       value->is.name, ps_dtype_get(weight->dtype)->name, weight->outputs,
                       weight->inputs, weight->experts, ps_dtype_get(value->is.dtype)->name,
                       value->is.rows, value->is.columns, value->is.experts);
    }
    // Only an expert_ffn asks the store.
    if (weight->data == NULL && step->op != PS_OP_EXPERT_FFN && step->op != PS_OP_EXPERT_EXPECT) {
        return ps_fail(PS_INVALID, "weight '%s' is streamed, the plan's %s takes it from memory",
                       weight->name, ps_op_get(step->op)->name);
    }
    out->weight = weight;
    return PS_OK;
}

static ps_status bind_kv(ps_exec *exec, const ps_plan_value *value, ps_operand *out)
{
    for (uint32_t i = 0; i < exec->kv_layer_count; i++) {
        const ps_kv_layer *layer = &exec->kv_layers[i];
        if (strcmp(layer->name, value->is.name) == 0) {
            if (layer->group != value->is.kv_group || layer->head_dim != value->is.head_dim ||
                layer->kv_heads * layer->head_dim != value->is.columns ||
                layer->k_dtype != value->is.dtype || layer->v_dtype != value->is.v_dtype) {
                return ps_fail(PS_INVALID, "kv '%s' differs between plans", value->is.name);
            }
            out->kv_layer = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "kv '%s' is not in the first plan", value->is.name);
}

static ps_status bind_activation(const ps_plan *plan, const ps_plan_value *value, ps_operand *out)
{
    const ps_plan_value *storage = value;
    if (value->is.alias_of != PS_NO_VALUE) {
        storage = &plan->values[value->is.alias_of];
        out->offset_bytes = value->is.alias_column * sizeof(float);
    }
    out->is_private = storage->is_private;
    out->offset_bytes += storage->offset_bytes;
    out->row_bytes = storage->row_bytes;
    return PS_OK;
}

static ps_status bind_operand(ps_exec *exec, const ps_plan *plan, const ps_plan_step *step,
                              uint32_t id, ps_weight_lookup *lookup, void *context, ps_operand *out)
{
    const ps_plan_value *value = &plan->values[id];
    *out = (ps_operand){.kind = value->is.kind,
                        .dtype = value->is.dtype,
                        .columns = value->is.columns,
                        .value = value};
    switch (value->is.kind) {
    case PS_VALUE_WEIGHT:
        return bind_weight(step, value, lookup, context, out);
    case PS_VALUE_KV:
        return bind_kv(exec, value, out);
    default:
        return bind_activation(plan, value, out);
    }
}

static ps_kv_layer kv_layer_of(const ps_value *kv)
{
    const uint32_t kv_heads = kv->columns / kv->head_dim;
    const uint64_t k_bytes = ps_kv_part_bytes(kv->dtype, kv->head_dim);
    const uint64_t head_bytes = k_bytes + ps_kv_part_bytes(kv->v_dtype, kv->head_dim);
    return (ps_kv_layer){.name = kv->name,
                         .group = kv->kv_group,
                         .kv_heads = kv_heads,
                         .head_dim = kv->head_dim,
                         .k_dtype = kv->dtype,
                         .v_dtype = kv->v_dtype,
                         .k_bytes = k_bytes,
                         .head_bytes = head_bytes};
}

// The KV layers of an executor are those of its first plan.
static ps_status take_kv_layers(ps_exec *exec, const ps_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->value_count; i++) {
        count += plan->values[i].is.kind == PS_VALUE_KV;
    }
    exec->kv_layer_count = 0; // binding the first plan may have failed before
    memset(exec->kv_block_bytes, 0, sizeof exec->kv_block_bytes);
    exec->kv_layers = PS_ARENA_NEW(&exec->arena, ps_kv_layer, count);
    if (exec->kv_layers == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const ps_plan_value *value = &plan->values[i];
        if (value->is.kind == PS_VALUE_KV) {
            ps_kv_layer *layer = &exec->kv_layers[exec->kv_layer_count++];
            uint64_t *group_bytes = &exec->kv_block_bytes[value->is.kv_group];
            *layer = kv_layer_of(&value->is);
            layer->offset_bytes = *group_bytes;
            *group_bytes += layer->kv_heads * layer->head_bytes;
        }
    }
    exec->kv_group_count = plan->kv_group_count;
    memcpy(exec->kv_windows, plan->kv_windows, sizeof exec->kv_windows);
    return PS_OK;
}

static uint64_t step_scratch_bytes(const ps_plan *plan, const ps_bound_step *step)
{
    const ps_plan_value *first = step->inputs[0].value;
    switch (step->plan->op) {
    case PS_OP_QUANTISE:
        return ps_q8_row_bytes(first->is.columns);
    case PS_OP_NORM_QUANTISE:
        return first->is.columns * sizeof(float);
    case PS_OP_ROPE_TABLE:
        return step->output.columns * sizeof(double);
    case PS_OP_ROUTE:
        return ps_exec_route_scratch_bytes(&step->plan->attributes);
    case PS_OP_ATTENTION:
    case PS_OP_ATTENTION_PARTIAL:
        return ps_exec_attention_scratch_bytes(step->plan, first, step->inputs[1].value);
    case PS_OP_LINEAR:
    case PS_OP_LINEAR_ALL_REDUCE:
    case PS_OP_GATE_UP:
        return ps_linear_scratch_bytes(step->inputs[0].dtype, first->is.columns);
    case PS_OP_EXPERT_LINEAR:
    case PS_OP_EXPERT_GATE_UP:
    case PS_OP_EXPERT_FFN:
        return ps_exec_experts_scratch_bytes(plan, step);
    default:
        return 0;
    }
}

// A route that only an expert_expect reads.
static bool is_guess(const ps_plan *plan, uint32_t route)
{
    const ps_plan_step *next = &plan->steps[route + 1]; // a route is not the last step
    return next->op == PS_OP_EXPERT_EXPECT && next->inputs[0] == plan->steps[route].output;
}

// The steps that read one route stand together: they are one MoE layer.
static ps_status number_moe_layers(const ps_exec *exec, const ps_program *program)
{
    const ps_route_observer *observer = exec->options.routes;
    uint32_t route = PS_NO_VALUE;
    uint32_t layers = 0;
    for (uint32_t i = 0; i < program->plan->step_count; i++) {
        ps_bound_step *step = &program->steps[i];
        const ps_op_attributes *is = &step->plan->attributes;
        if (step->plan->op == PS_OP_ROUTE) {
            step->moe_layer = is_guess(program->plan, i) ? PS_NO_MOE_LAYER : layers;
        }
        if (step->plan->op != PS_OP_EXPERT_GATE_UP && step->plan->op != PS_OP_EXPERT_LINEAR &&
            step->plan->op != PS_OP_EXPERT_FFN) {
            continue;
        }
        if (observer != NULL &&
            (is->experts != observer->experts || is->top_k != observer->top_k)) {
            return ps_fail(PS_INVALID, "step %u chooses %u of %u experts, the model %u of %u", i,
                           is->top_k, is->experts, observer->top_k, observer->experts);
        }
        step->is_moe_begin = step->plan->inputs[1] != route;
        layers += step->is_moe_begin;
        step->moe_layer = layers - 1;
        route = step->plan->inputs[1];
    }
    return observer == NULL || layers == observer->layers
               ? PS_OK
               : ps_fail(PS_INVALID, "the plan has %u MoE layers, the model %u", layers,
                         observer->layers);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static ps_status bind_steps(ps_exec *exec, ps_program *program, ps_weight_lookup *lookup,
                            void *context)
{
    const ps_plan *plan = program->plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        ps_bound_step *bound = &program->steps[i];
        bound->plan = step;
        for (uint32_t j = 0; j < step->input_count; j++) {
            PS_TRY(bind_operand(exec, plan, step, step->inputs[j], lookup, context,
                                &bound->inputs[j]));
        }
        if (step->output != PS_NO_VALUE) {
            PS_TRY(bind_operand(exec, plan, step, step->output, lookup, context, &bound->output));
        }
        exec->scratch_bytes = larger(exec->scratch_bytes, step_scratch_bytes(plan, bound));
        if (step->op == PS_OP_EXPERT_FFN) {
            exec->between_bytes = larger(exec->between_bytes, ps_plan_between_bytes(plan, step));
            exec->experts_max = step->attributes.experts > exec->experts_max
                                    ? step->attributes.experts
                                    : exec->experts_max;
        }
        exec->check_bytes = larger(exec->check_bytes, ps_check_scratch_bytes(bound));
        if (step->stream == PS_STREAM_COMM) {
            exec->comm_scratch_bytes = larger(
                exec->comm_scratch_bytes,
                ps_exec_comm_scratch_bytes(exec->options.comm, plan, bound));
        }
    }
    return PS_OK;
}

static ps_status check_ranks(const ps_exec *exec, const ps_plan *plan)
{
    const ps_comm *comm = exec->options.comm;
    const uint32_t ranks = comm == NULL ? 1 : ps_comm_size(comm);
    const uint32_t rank = comm == NULL ? 0 : ps_comm_rank(comm);
    const uint32_t planned = plan->ranks == 0 ? 1 : plan->ranks;
    return planned == ranks && plan->rank == rank
               ? PS_OK
               : ps_fail(PS_INVALID, "the plan is for rank %u of %u, this is rank %u of %u",
                         plan->rank, planned, rank, ranks);
}

// Whoever reads what a prefetch moves knows which part of it is which worker's.
static bool can_prefetch_for(ps_op op)
{
    return op == PS_OP_LINEAR || op == PS_OP_LINEAR_ALL_REDUCE || op == PS_OP_GATE_UP ||
           op == PS_OP_EXPERT_GATE_UP || ps_op_attends(op);
}

// From the last step to the first. next_reader [values]: the next step that reads it.
static ps_status find_readers(ps_program *program, bool has_side, const ps_bound_step **next_reader)
{
    for (uint32_t i = program->plan->step_count; i-- > 0;) {
        ps_bound_step *step = &program->steps[i];
        if (step->plan->op != PS_OP_PREFETCH) {
            // A kv_write reads nothing of what is there.
            const uint32_t reads = step->plan->op == PS_OP_KV_WRITE ? 2 : step->plan->input_count;
            for (uint32_t j = 0; j < reads; j++) {
                next_reader[step->plan->inputs[j]] = step;
            }
            continue;
        }
        if (step->plan->attributes.reason >= PS_REASON_DECLINED) {
            continue;
        }
        step->reader = next_reader[step->plan->inputs[0]];
        ps_assert(step->reader != NULL); // verified
        if (!can_prefetch_for(step->reader->plan->op)) {
            return ps_fail(PS_UNSUPPORTED,
                           "step %u: prefetching for %s of step %zu is not supported; for linear, "
                           "gate_up and attention it is",
                           i, ps_op_get(step->reader->plan->op)->name,
                           (size_t)(step->reader - program->steps));
        }
        if (step->plan->stream == PS_STREAM_SIDE && !has_side) {
            return ps_fail(PS_INVALID,
                           "step %u is a prefetch of dedicated threads, of which there are none; "
                           "--prefetch-threads 1 would be right",
                           i);
        }
    }
    return PS_OK;
}

// Links the steps that are no prefetches, and counts the others.
static void link_steps(ps_program *program)
{
    uint32_t *next = &program->first;
    uint32_t *end = &program->first_prefetch_end;
    for (uint32_t i = 0; i < program->plan->step_count; i++) {
        ps_bound_step *step = &program->steps[i];
        if (step->plan->op != PS_OP_PREFETCH) {
            *next = i;
            next = &step->next;
            end = &step->prefetch_end;
        }
        program->prefetch_count += step->reader != NULL;
        program->side_count += step->reader != NULL && step->plan->stream == PS_STREAM_SIDE;
        *end = program->prefetch_count;
    }
    *next = program->plan->step_count;
}

static ps_status bind_prefetches(ps_exec *exec, ps_program *program)
{
    uint64_t slots = 0;
    const ps_bound_step **next_reader = PS_ARENA_NEW(&exec->arena, const ps_bound_step *,
                                                     program->plan->value_count);
    if (next_reader == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(find_readers(program, exec->side != NULL, next_reader));
    link_steps(program);
    const uint32_t workers = ps_team_workers(exec->team);
    program->prefetches = PS_ARENA_NEW(&exec->arena, ps_prefetch_part,
                                       (uint64_t)program->prefetch_count * workers);
    program->slacks = PS_ARENA_NEW(&exec->arena, ps_wait_slack, PS_GUARD_SLOTS);
    if (program->prefetches == NULL || program->slacks == NULL) {
        return PS_NO_MEMORY;
    }
    ps_prefetch_part *part = program->prefetches;
    for (uint32_t worker = 0; worker < workers; worker++) {
        for (uint32_t i = 0; i < program->plan->step_count; i++) {
            if (program->steps[i].reader != NULL) {
                ps_exec_bind_prefetch(&program->steps[i], worker, workers, part);
                slots |= (uint64_t)1 << part++->slot;
            }
        }
    }
    ps_guard_init(&program->guard, slots, exec->options.guards_prefetch);
    return PS_OK;
}

// What plans for other machines have, and nothing here does.
static ps_status check_runs_here(const ps_plan *plan)
{
    for (uint32_t i = 0; i < plan->value_count; i++) {
        const ps_value *value = &plan->values[i].is;
        const bool is_v = value->kind == PS_VALUE_KV && ps_dtype_is_planned_only(value->v_dtype);
        if (is_v || ps_dtype_is_planned_only(value->dtype)) {
            return ps_fail(PS_UNSUPPORTED,
                           "'%s' is %s, which is for planning and simulating; nothing computes it",
                           value->name, ps_dtype_get(is_v ? value->v_dtype : value->dtype)->name);
        }
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].attributes.context_shards > 1) {
            return ps_fail(PS_UNSUPPORTED,
                           "step %u: context_shards=%u is for planning and simulating; nothing "
                           "computes it",
                           i, plan->steps[i].attributes.context_shards);
        }
    }
    return PS_OK;
}

ps_status ps_exec_bind(ps_exec *exec, const ps_plan *plan, ps_weight_lookup *lookup, void *context,
                       ps_program **out)
{
    ps_assert(exec->shared == NULL);
    if (plan->context_max > exec->options.context_tokens) {
        return ps_fail(PS_INVALID, "the plan is for contexts of %u tokens, the executor for %u",
                       plan->context_max, exec->options.context_tokens);
    }
    PS_TRY(check_runs_here(plan));
    PS_TRY(check_ranks(exec, plan));
    if (exec->programs == NULL) {
        PS_TRY(take_kv_layers(exec, plan));
    } else if (plan->kv_group_count != exec->kv_group_count ||
               memcmp(plan->kv_windows, exec->kv_windows, sizeof exec->kv_windows) != 0) {
        return ps_fail(PS_INVALID, "kv groups differ between plans");
    }
    ps_program *program = PS_ARENA_NEW(&exec->arena, ps_program, 1);
    if (program == NULL) {
        return PS_NO_MEMORY;
    }
    program->plan = plan;
    program->steps = PS_ARENA_NEW(&exec->arena, ps_bound_step, plan->step_count);
    if (program->steps == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < plan->value_count; i++) {
        if (plan->values[i].is.is_output) {
            program->logits = &plan->values[i];
        }
    }
    PS_TRY(bind_steps(exec, program, lookup, context));
    PS_TRY(number_moe_layers(exec, program));
    PS_TRY(bind_prefetches(exec, program));
    exec->shared_bytes = larger(exec->shared_bytes, plan->shared_bytes);
    exec->private_bytes = larger(exec->private_bytes, plan->private_bytes);
    program->next = exec->programs;
    exec->programs = program;
    *out = program;
    return PS_OK;
}
