// plan/plan.c - who owns which columns.
#include "plan/plan.h"

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
