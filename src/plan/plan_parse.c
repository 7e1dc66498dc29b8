// plan/plan_parse.c - a plan from text: docs/plan-text.md.
//
// One line, one thing, no recursion: the loop over lines is bounded by the text, and what a line
// adds by the limits of plan.h. What the numbers mean is left to ps_plan_verify.
#include "base/value_text.h"
#include "plan/plan_internal.h"

#include <string.h>

// The first word of a line that defines no value, but for steps without an output.
enum { HEADING_PLAN, HEADING_KV_GROUP, HEADING_BARRIER, HEADINGS };
static const char *const HEADING_TEXT[] = {
    [HEADING_PLAN] = "plan", [HEADING_KV_GROUP] = "kv_group", [HEADING_BARRIER] = "barrier"};

typedef struct parser {
    ps_scan scan;
    ps_arena *arena;
    ps_plan *plan;
    ps_names names; // their numbers are the values' ids
    uint32_t value_capacity, step_capacity;
    bool has_heading;
    bool has_barrier; // for the step to come
} parser;

// "key=number ..." up to the end of the line, each key at most once.
static ps_status parse_fields(ps_scan *scan, const ps_plan_field *fields, uint32_t count,
                              void *object)
{
    const char *keys[PS_PLAN_FIELDS];
    bool seen[PS_PLAN_FIELDS] = {false};
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = fields[i].key;
    }
    while (!ps_scan_at_end(scan)) {
        uint32_t index = 0;
        uint64_t number = 0;
        PS_TRY(ps_scan_choice(scan, "a setting that may stand here", keys, count, &index));
        if (seen[index]) {
            return ps_scan_fail(scan, "'%s' is given twice", keys[index]);
        }
        seen[index] = true;
        PS_TRY(ps_scan_mark(scan, '='));
        PS_TRY(ps_scan_u64(scan, fields[index].is_wide ? UINT64_MAX : UINT32_MAX, &number));
        const uint32_t narrow = (uint32_t)number;
        memcpy((char *)object + fields[index].offset,
               fields[index].is_wide ? (const void *)&number : (const void *)&narrow,
               fields[index].is_wide ? sizeof number : sizeof narrow);
    }
    return PS_OK;
}

// "shared" or "private", then where; a view is where, and shared out as, its storage is.
static ps_status parse_place(parser *p, ps_plan_value *value)
{
    if (value->is.kind != PS_VALUE_ACTIVATION) {
        return ps_scan_line_end(&p->scan);
    }
    if (value->is.alias_of != PS_NO_VALUE) {
        const ps_plan_value *base = &p->plan->values[value->is.alias_of];
        value->is_private = base->is_private;
        value->part_columns = base->part_columns;
        value->part_unit = base->part_unit;
        value->part_offset = base->part_unit == 0 ? 0 : base->part_offset + value->is.alias_column;
        return ps_scan_line_end(&p->scan);
    }
    static const char *const PLACES[] = {"shared", "private"};
    uint32_t index = 0;
    PS_TRY(ps_scan_choice(&p->scan, "a workspace", PLACES, 2, &index));
    value->is_private = index == 1;
    return parse_fields(&p->scan, ps_plan_value_fields, PS_PLAN_VALUE_FIELDS, value);
}

static ps_status add_value(parser *p, const ps_plan_value *value)
{
    ps_plan *plan = p->plan;
    if (plan->value_count == PS_PLAN_VALUES_MAX) {
        return ps_fail(PS_INVALID, "more than %u values", PS_PLAN_VALUES_MAX);
    }
    void *values = plan->values;
    PS_TRY(ps_arena_grow(p->arena, &values, sizeof *value, plan->value_count, &p->value_capacity));
    plan->values = values;
    PS_TRY(ps_names_add(&p->names, ps_str_of(value->is.name)));
    plan->values[plan->value_count] = *value;
    plan->values[plan->value_count].is.name = p->names.names[plan->value_count];
    plan->value_count++;
    return PS_OK;
}

static ps_status parse_value(parser *p, const ps_definition *definition)
{
    ps_plan_value value = {.is_private = false};
    PS_TRY(ps_value_scan(&p->scan, definition, &p->names, &value.is));
    PS_TRY(parse_place(p, &value));
    const ps_status status = add_value(p, &value);
    return status == PS_OK ? PS_OK : ps_scan_prefix(&p->scan, status);
}

static ps_status add_step(parser *p, const ps_plan_step *step)
{
    ps_plan *plan = p->plan;
    if (plan->step_count == PS_PLAN_STEPS_MAX) {
        return ps_fail(PS_INVALID, "more than %u steps", PS_PLAN_STEPS_MAX);
    }
    void *steps = plan->steps;
    PS_TRY(ps_arena_grow(p->arena, &steps, sizeof *step, plan->step_count, &p->step_capacity));
    plan->steps = steps;
    plan->steps[plan->step_count++] = *step;
    p->has_barrier = false;
    return PS_OK;
}

// "split=<split>", where nothing else may stand.
static ps_status parse_split(ps_scan *scan, ps_split *out)
{
    static const char *const KEY = "split";
    const char *names[PS_SPLIT_COUNT];
    for (unsigned i = 0; i < PS_SPLIT_COUNT; i++) {
        names[i] = ps_split_name((ps_split)i);
    }
    uint32_t index = 0;
    PS_TRY(ps_scan_choice(scan, "the setting that belongs here", &KEY, 1, &index));
    PS_TRY(ps_scan_mark(scan, '='));
    PS_TRY(ps_scan_choice(scan, "a split", names, PS_SPLIT_COUNT, &index));
    *out = (ps_split)index;
    return PS_OK;
}

static ps_status parse_step(parser *p, ps_op op, const char *output)
{
    ps_operation operation;
    PS_TRY(ps_operation_scan(&p->scan, op, output, &p->names, &operation));
    ps_plan_step step = {.op = op,
                         .input_count = operation.input_count,
                         .output = operation.output,
                         .attributes = operation.attributes,
                         .barrier = p->has_barrier};
    memcpy(step.inputs, operation.inputs, sizeof step.inputs);
    PS_TRY(parse_split(&p->scan, &step.split));
    PS_TRY(parse_fields(&p->scan, ps_plan_step_fields, PS_PLAN_STEP_FIELDS, &step));
    const ps_status status = add_step(p, &step);
    return status == PS_OK ? PS_OK : ps_scan_prefix(&p->scan, status);
}

static ps_status parse_definition(parser *p)
{
    ps_definition definition;
    PS_TRY(ps_definition_scan(&p->scan, &definition));
    return definition.is_value ? parse_value(p, &definition)
                               : parse_step(p, definition.op, definition.name);
}

static ps_status parse_kv_group(parser *p)
{
    if (p->plan->kv_group_count == PS_KV_GROUPS_LIMIT) {
        return ps_scan_fail(&p->scan, "more than %u kv groups", PS_KV_GROUPS_LIMIT);
    }
    PS_TRY(ps_setting_scan(&p->scan, "window", &p->plan->kv_windows[p->plan->kv_group_count]));
    p->plan->kv_group_count++;
    return ps_scan_line_end(&p->scan);
}

static ps_status parse_plan_line(parser *p)
{
    if (p->has_heading) {
        return ps_scan_fail(&p->scan, "a second plan");
    }
    p->has_heading = true;
    return parse_fields(&p->scan, ps_plan_fields, PS_PLAN_FIELDS, p->plan);
}

static ps_status parse_barrier(parser *p)
{
    if (p->has_barrier) {
        return ps_scan_fail(&p->scan, "a barrier after a barrier, a step would be right");
    }
    p->has_barrier = true;
    return ps_scan_line_end(&p->scan);
}

static ps_status parse_heading(parser *p)
{
    uint32_t index = 0;
    PS_TRY(ps_heading_scan(&p->scan, HEADING_TEXT, HEADINGS, &index));
    switch (index) {
    case HEADING_PLAN:
        return parse_plan_line(p);
    case HEADING_KV_GROUP:
        return parse_kv_group(p);
    case HEADING_BARRIER:
        return parse_barrier(p);
    default:
        return parse_step(p, (ps_op)(index - HEADINGS), NULL);
    }
}

ps_status ps_plan_parse_at(ps_str text, uint32_t first_line, ps_arena *arena, ps_plan **out)
{
    parser p = {.scan = ps_scan_start(text),
                .arena = arena,
                .plan = PS_ARENA_NEW(arena, ps_plan, 1),
                .names = {.arena = arena}};
    if (p.plan == NULL) {
        return PS_NO_MEMORY;
    }
    p.scan.line_number = first_line - 1;
    while (ps_scan_line(&p.scan)) {
        PS_TRY(ps_scan_peek(&p.scan) == '%' ? parse_definition(&p) : parse_heading(&p));
    }
    if (p.has_barrier) {
        return ps_scan_fail(&p.scan, "a barrier at the end, a step would be right");
    }
    const ps_status status = ps_plan_verify(p.plan);
    if (status != PS_OK) {
        return first_line == 1 ? status : ps_fail_prefix(status, "plan at line %u", first_line);
    }
    *out = p.plan;
    return PS_OK;
}

ps_status ps_plan_parse(ps_str text, ps_arena *arena, ps_plan **out)
{
    return ps_plan_parse_at(text, 1, arena, out);
}
