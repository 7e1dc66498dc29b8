// plan/plan.c - words of a plan, and who owns which columns.
#include "plan/plan_internal.h"

const char *ps_split_name(ps_split split)
{
    static const char *const NAMES[PS_SPLIT_COUNT] = {
        [PS_SPLIT_ALL] = "all",     [PS_SPLIT_ROWS] = "rows", [PS_SPLIT_COLUMNS] = "columns",
        [PS_SPLIT_UNITS] = "units", [PS_SPLIT_ONE] = "one",
    };
    ps_assert((unsigned)split < PS_SPLIT_COUNT);
    return NAMES[split];
}

#define FIELD(type, member)                                                                        \
    {                                                                                              \
        .key = #member, .offset = offsetof(type, member),                                          \
        .is_wide = sizeof(((type *)0)->member) == sizeof(uint64_t),                                \
    }

const ps_plan_field ps_plan_fields[PS_PLAN_FIELDS] = {
    FIELD(ps_plan, rows_max),     FIELD(ps_plan, logits_max),    FIELD(ps_plan, context_max),
    FIELD(ps_plan, ranks),        FIELD(ps_plan, rank),          FIELD(ps_plan, vocabulary),
    FIELD(ps_plan, shared_bytes), FIELD(ps_plan, private_bytes),
};

const ps_plan_field ps_plan_value_fields[PS_PLAN_VALUE_FIELDS] = {
    FIELD(ps_plan_value, offset_bytes), FIELD(ps_plan_value, row_bytes),
    FIELD(ps_plan_value, part_unit),    FIELD(ps_plan_value, part_columns),
    FIELD(ps_plan_value, part_offset),
};

const ps_plan_field ps_plan_step_fields[PS_PLAN_STEP_FIELDS] = {
    FIELD(ps_plan_step, stream),       FIELD(ps_plan_step, join),
    FIELD(ps_plan_step, weight_bytes), FIELD(ps_plan_step, row_ops),
    FIELD(ps_plan_step, predicted_ns),
};

void ps_plan_columns_of(const ps_plan_value *value, uint32_t worker, uint32_t workers,
                        uint32_t *begin, uint32_t *end)
{
    const uint64_t units = ps_divide_up(value->part_columns, value->part_unit);
    uint64_t first, last;
    ps_plan_share(units, worker, workers, &first, &last);
    first *= value->part_unit;
    last *= value->part_unit;
    // From columns of the shared range to columns of this value, cut at its ends.
    const uint64_t offset = value->part_offset;
    const uint64_t low = first > offset ? first - offset : 0;
    const uint64_t high = last > offset ? last - offset : 0;
    *begin = (uint32_t)(low < value->is.columns ? low : value->is.columns);
    *end = (uint32_t)(high < value->is.columns ? high : value->is.columns);
}
