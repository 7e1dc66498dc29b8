// cli/explore_columns.c - see explore_columns.h.
#include "cli/explore_columns.h"

#include <math.h>

#define SPEEDUPS 2u // columns: of all, and of a step

typedef struct maker {
    ps_result_column *columns;
    uint32_t count;
} maker;

static void add(maker *m, const char *name, const char *unit, bool is_text)
{
    m->columns[m->count++] = (ps_result_column){.name = name, .unit = unit, .is_text = is_text};
}

// Names of machines and models are texts, and so are members whose values are.
static void add_field(maker *m, const ps_explore_fields *fields, uint32_t field, bool is_text)
{
    add(m, fields->names[field], fields->all[field].unit, is_text);
}

static bool is_axis(const ps_explore_spec *spec, uint32_t field)
{
    for (uint32_t i = 0; i < spec->axis_count; i++) {
        for (uint32_t j = 0; j < spec->axes[i].field_count; j++) {
            if (spec->axes[i].fields[j] == field) {
                return true;
            }
        }
    }
    return false;
}

static ps_status add_baseline(maker *m, ps_arena *arena)
{
    add(m, "speedup", "", false);
    add(m, "step_speedup", "", false);
    for (size_t i = 0; i < ps_design_metric_count; i++) {
        const char *name = ps_arena_printf(arena, "baseline.%s", ps_design_metrics[i].name);
        if (name == NULL) {
            return PS_NO_MEMORY;
        }
        add(m, name, ps_design_metrics[i].unit, false);
    }
    return PS_OK;
}

ps_status ps_explore_columns_make(ps_explore_spec *spec, const ps_explore_fields *fields,
                                  ps_arena *arena)
{
    const size_t most = 3 + PS_EXPLORE_AXES_MAX * PS_EXPLORE_ZIPPED_MAX + PS_EXPLORE_RANGES_MAX +
                        2 * ps_design_metric_count + SPEEDUPS;
    maker m = {.columns = PS_ARENA_NEW(arena, ps_result_column, most)};
    if (m.columns == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t field = 0; field < 2; field++) {
        if (!is_axis(spec, field)) {
            add_field(&m, fields, field, true);
        }
    }
    for (uint32_t i = 0; i < spec->axis_count; i++) {
        for (uint32_t j = 0; j < spec->axes[i].field_count; j++) {
            add_field(&m, fields, spec->axes[i].fields[j], spec->axes[i].values[j].is_text);
        }
    }
    spec->search_first = m.count;
    for (uint32_t i = 0; i < spec->search.range_count; i++) {
        add_field(&m, fields, spec->search.ranges[i].field, false);
    }
    spec->metric_first = m.count;
    for (size_t i = 0; i < ps_design_metric_count; i++) {
        add(&m, ps_design_metrics[i].name, ps_design_metrics[i].unit, false);
    }
    spec->speedup_first = m.count;
    PS_TRY(spec->has_baseline ? add_baseline(&m, arena) : PS_OK);
    add(&m, "error", "", true);
    spec->columns = (ps_explore_columns){.all = m.columns, .count = m.count};
    return PS_OK;
}

static double ratio(double above, double below)
{
    return below > 0 ? above / below : NAN;
}

void ps_explore_metrics_fill(const ps_explore_spec *spec, const ps_design_point *point,
                             const ps_design_point *baseline, ps_result_cell *cells)
{
    ps_result_cell *metrics = cells + spec->metric_first;
    for (size_t i = 0; i < ps_design_metric_count; i++) {
        metrics[i].number = ps_design_metric_of(&ps_design_metrics[i], point);
    }
    if (baseline == NULL) {
        return;
    }
    ps_result_cell *speedups = cells + spec->speedup_first;
    speedups[0].number = ratio(baseline->total_ns, point->total_ns);
    speedups[1].number = ratio(baseline->step_ns, point->step_ns);
    for (size_t i = 0; i < ps_design_metric_count; i++) {
        speedups[SPEEDUPS + i].number = ps_design_metric_of(&ps_design_metrics[i], baseline);
    }
}
