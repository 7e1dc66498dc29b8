// plan/plan_print.c - a plan as text: docs/plan-text.md.
#include "base/value_text.h"
#include "plan/plan_internal.h"

#include <string.h>

// " key=number" for each field of `object` that is not 0.
static ps_status print_fields(const void *object, const ps_plan_field *fields, uint32_t count,
                              ps_buffer *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *at = (const char *)object + fields[i].offset;
        uint32_t narrow = 0;
        uint64_t number = 0;
        if (fields[i].is_wide) {
            memcpy(&number, at, sizeof number);
        } else {
            memcpy(&narrow, at, sizeof narrow);
            number = narrow;
        }
        if (number != 0) {
            PS_TRY(ps_buffer_printf(out, " %s=%llu", fields[i].key, (unsigned long long)number));
        }
    }
    return PS_OK;
}

static ps_status print_value(const ps_plan *plan, uint32_t id, ps_buffer *out)
{
    const ps_plan_value *value = &plan->values[id];
    const uint32_t storage = ps_plan_storage(plan, id);
    PS_TRY(ps_value_print(&value->is, plan->values[storage].is.name, out));
    if (value->is.kind == PS_VALUE_ACTIVATION && storage == id) {
        PS_TRY(ps_buffer_printf(out, value->is_private ? " private" : " shared"));
        PS_TRY(print_fields(value, ps_plan_value_fields, PS_PLAN_VALUE_FIELDS, out));
    }
    return ps_buffer_append(out, "\n", 1);
}

static ps_status print_values(const ps_plan *plan, bool late, ps_buffer *out)
{
    for (uint32_t i = 0; i < plan->value_count; i++) {
        if (ps_value_is_late(&plan->values[i].is, i) == late) {
            PS_TRY(print_value(plan, i, out));
        }
    }
    return PS_OK;
}

static ps_status print_step(const ps_plan *plan, const ps_plan_step *step, ps_buffer *out)
{
    const ps_value *inputs[PS_OP_INPUTS_MAX] = {0};
    for (uint32_t i = 0; i < step->input_count; i++) {
        inputs[i] = &plan->values[step->inputs[i]].is;
    }
    if (step->barrier) {
        PS_TRY(ps_buffer_printf(out, "barrier\n"));
    }
    PS_TRY(ps_operation_print(step->op, &step->attributes, inputs, step->input_count,
                              step->output == PS_NO_VALUE ? NULL : &plan->values[step->output].is,
                              out));
    PS_TRY(ps_buffer_printf(out, " split=%s", ps_split_name(step->split)));
    PS_TRY(print_fields(step, ps_plan_step_fields, PS_PLAN_STEP_FIELDS, out));
    return ps_buffer_append(out, "\n", 1);
}

ps_status ps_plan_print(const ps_plan *plan, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(out, "plan"));
    PS_TRY(print_fields(plan, ps_plan_fields, PS_PLAN_FIELDS, out));
    PS_TRY(ps_buffer_append(out, "\n", 1));
    for (uint32_t i = 0; i < plan->kv_group_count; i++) {
        PS_TRY(ps_buffer_printf(out, "kv_group window=%u\n", plan->kv_windows[i]));
    }
    PS_TRY(ps_buffer_append(out, "\n", 1));
    PS_TRY(print_values(plan, false, out));
    PS_TRY(print_values(plan, true, out));
    PS_TRY(ps_buffer_append(out, "\n", 1));
    for (uint32_t i = 0; i < plan->step_count; i++) {
        PS_TRY(print_step(plan, &plan->steps[i], out));
    }
    return PS_OK;
}
