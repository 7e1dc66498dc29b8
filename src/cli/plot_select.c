// cli/plot_select.c - from rows of a table to what plot.h draws.
#include "cli/plot_groups.h"
#include "cli/plot_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What all kinds need; memory is the arena's.
typedef struct row_selection {
    const ps_plot_spec *spec;
    const ps_result_table *table;
    ps_arena *arena;
    ps_plot_notes *notes;
    uint32_t *rows; // that `where` takes
    uint32_t row_count;
} row_selection;

static ps_status choose_rows(row_selection *selection)
{
    const ps_result_table *table = selection->table;
    const ps_explore_columns columns = {table->columns, table->column_count};
    selection->rows = PS_ARENA_NEW(selection->arena, uint32_t, table->row_count);
    if (selection->rows == NULL) {
        return PS_EXHAUSTED;
    }
    for (uint32_t r = 0; r < table->row_count; r++) {
        if (ps_explore_where_holds(columns, &selection->spec->where,
                                   table->cells + (size_t)r * table->column_count)) {
            selection->rows[selection->row_count++] = r;
        }
    }
    selection->notes->rows = selection->row_count;
    return PS_OK;
}

// ---- axes

static ps_status make_groups(const row_selection *selection, const ps_plot_list *columns,
                             bool sorts, uint32_t limit, ps_plot_groups *out)
{
    return ps_plot_groups_make(selection->table, columns, selection->rows, selection->row_count,
                               sorts, limit, selection->arena, out);
}

// An axis of places, one for each value of a column.
static ps_status make_places(const row_selection *selection, uint32_t column, ps_plot_groups *out,
                             ps_plot_axis *axis)
{
    const ps_plot_list columns = {.count = 1, .columns = {column}};
    PS_TRY(make_groups(selection, &columns, true, PS_PLOT_PLACES_MAX, out));
    selection->notes->places_left_out += out->left_out;
    axis->places = ps_plot_group_values(out, selection->arena);
    axis->place_count = out->count;
    return axis->places == NULL ? PS_EXHAUSTED : PS_OK;
}

static ps_status name_axis(const row_selection *selection, uint32_t column, ps_plot_axis *axis)
{
    axis->unit = selection->table->columns[column].unit;
    axis->name = ps_plot_column_name(&selection->table->columns[column], selection->arena);
    return axis->name == NULL ? PS_EXHAUSTED : PS_OK;
}

// Of several columns of y there is no one name, and a unit if they share it.
static ps_status name_y(const row_selection *selection, ps_plot_axis *axis)
{
    const ps_plot_list *y = &selection->spec->y;
    PS_TRY(name_axis(selection, y->columns[0], axis));
    for (uint32_t i = 1; i < y->count; i++) {
        const ps_result_column *column = &selection->table->columns[y->columns[i]];
        axis->name = "";
        axis->unit = strcmp(axis->unit, column->unit) == 0 ? axis->unit : "";
    }
    return PS_OK;
}

// ---- series

typedef struct point {
    double x, y;
    uint32_t order;
} point;

static int compare_points(const void *a, const void *b)
{
    const point *left = a;
    const point *right = b;
    const int by_x = left->x < right->x ? -1 : left->x > right->x;
    return by_x != 0 ? by_x : left->order < right->order ? -1 : 1;
}

// What lines and bars are made of.
typedef struct series_maker {
    const row_selection *selection;
    ps_plot_groups groups, places; // places: none where x is numbers
    const ps_plot *plot;
    double *x;       // [row_count], of rows; NAN: none
    uint32_t *group; // [row_count]
    point *points;   // [row_count], scratch
} series_maker;

// A number that is there and cannot be shown; what is none has no place anywhere.
static bool is_off(const ps_plot_axis *axis, double value)
{
    return axis->places == NULL && axis->is_log && value <= 0;
}

static ps_status place_rows(series_maker *maker)
{
    const row_selection *selection = maker->selection;
    maker->x = PS_ARENA_NEW(selection->arena, double, selection->row_count);
    maker->group = PS_ARENA_NEW(selection->arena, uint32_t, selection->row_count);
    maker->points = PS_ARENA_NEW(selection->arena, point, selection->row_count);
    if (maker->x == NULL || maker->group == NULL || maker->points == NULL) {
        return PS_EXHAUSTED;
    }
    for (uint32_t i = 0; i < selection->row_count; i++) {
        const uint32_t row = selection->rows[i];
        maker->group[i] = ps_plot_group_of(&maker->groups, row);
        if (maker->plot->x.places == NULL) {
            maker->x[i] = ps_plot_cell(selection->table, row, selection->spec->x).number;
        } else {
            const uint32_t place = ps_plot_group_of(&maker->places, row);
            maker->x[i] = place == PS_NO_GROUP ? NAN : place;
        }
    }
    return PS_OK;
}

static uint32_t collect(const series_maker *maker, uint32_t group, uint32_t column)
{
    const row_selection *selection = maker->selection;
    uint32_t count = 0;
    for (uint32_t i = 0; i < selection->row_count; i++) {
        const double x = maker->x[i];
        if (isnan(x) || maker->group[i] != group) {
            continue;
        }
        const double y = ps_plot_cell(selection->table, selection->rows[i], column).number;
        selection->notes->without_place += is_off(&maker->plot->x, x) || is_off(&maker->plot->y, y);
        maker->points[count] = (point){.x = x, .y = y, .order = count};
        count++;
    }
    qsort(maker->points, count, sizeof *maker->points, compare_points);
    return count;
}

static ps_status make_series(const series_maker *maker, uint32_t group, uint32_t column,
                             ps_plot_series *out)
{
    const row_selection *selection = maker->selection;
    const uint32_t count = collect(maker, group, column);
    double *x = PS_ARENA_NEW(selection->arena, double, count);
    double *y = PS_ARENA_NEW(selection->arena, double, count);
    if (x == NULL || y == NULL) {
        return PS_EXHAUSTED;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (out->count > 0 && x[out->count - 1] == maker->points[i].x) {
            selection->notes->doubled += column == selection->spec->y.columns[0];
        } else {
            x[out->count] = maker->points[i].x;
            y[out->count++] = maker->points[i].y;
        }
    }
    out->x = x;
    out->y = y;
    return PS_OK;
}

// Of a column of y, with the name that tells it from others.
static ps_status name_series(const series_maker *maker, uint32_t group, uint32_t column,
                             ps_plot_series *out)
{
    const row_selection *selection = maker->selection;
    const bool has_groups = maker->groups.columns.count > 0;
    const char *name = ps_plot_group_name(&maker->groups, group, selection->arena);
    if (name != NULL && selection->spec->y.count > 1) {
        const char *of = ps_plot_column_name(&selection->table->columns[column], selection->arena);
        name = of == NULL
                   ? NULL
                   : ps_arena_printf(selection->arena, "%s%s%s", name, has_groups ? ", " : "", of);
    }
    out->name = has_groups || selection->spec->y.count > 1 ? name : NULL;
    return name == NULL ? PS_EXHAUSTED : PS_OK;
}

static ps_status make_all_series(series_maker *maker, ps_plot *plot)
{
    const row_selection *selection = maker->selection;
    const ps_plot_list *y = &selection->spec->y;
    ps_plot_series *series = PS_ARENA_NEW(selection->arena, ps_plot_series,
                                          (uint64_t)maker->groups.count * y->count);
    if (series == NULL) {
        return PS_EXHAUSTED;
    }
    PS_TRY(place_rows(maker));
    for (uint32_t g = 0; g < maker->groups.count; g++) {
        for (uint32_t i = 0; i < y->count; i++) {
            ps_plot_series *out = &series[plot->series_count++];
            PS_TRY(make_series(maker, g, y->columns[i], out));
            PS_TRY(name_series(maker, g, y->columns[i], out));
        }
    }
    plot->series = series;
    return PS_OK;
}

// ---- marks

// The place of a value; NAN if no row has it.
static double find_place(const ps_plot_groups *places, ps_result_cell value)
{
    const uint32_t column = places->columns.columns[0];
    const bool is_text = places->table->columns[column].is_text;
    for (uint32_t p = 0; p < places->count; p++) {
        if (ps_explore_cells_equal(is_text, value,
                                   ps_plot_cell(places->table, places->first_rows[p], column))) {
            return p;
        }
    }
    return NAN;
}

static bool holds_value(const ps_plot_groups *groups, uint32_t group, const json_t *value)
{
    for (uint32_t i = 0; i < groups->columns.count; i++) {
        const uint32_t column = groups->columns.columns[i];
        const bool is_text = groups->table->columns[column].is_text;
        const ps_result_cell wanted = is_text
                                          ? (ps_result_cell){.text = json_string_value(value)}
                                          : (ps_result_cell){.number = json_number_value(value)};
        if (is_text == json_is_string(value) &&
            ps_explore_cells_equal(
                is_text, wanted, ps_plot_cell(groups->table, groups->first_rows[group], column))) {
            return true;
        }
    }
    return false;
}

// The first group whose columns hold the value, or all of a list; PS_NO_GROUP if none does.
static uint32_t find_series(const ps_plot_groups *groups, const json_t *value)
{
    for (uint32_t g = 0; g < groups->count; g++) {
        bool is_right = json_is_array(value) || holds_value(groups, g, value);
        for (size_t i = 0; i < json_array_size(value) && is_right; i++) {
            is_right = holds_value(groups, g, json_array_get(value, i));
        }
        if (is_right) {
            return g;
        }
    }
    return PS_NO_GROUP;
}

// false: no row has its place or series.
static bool make_mark(const series_maker *maker, const ps_plot_spec_mark *mark, ps_plot_mark *out)
{
    const ps_plot *plot = maker->plot;
    *out = (ps_plot_mark){.x = NAN, .y = mark->y, .series = UINT32_MAX, .label = mark->label};
    if (mark->has_x) {
        out->x = plot->x.places == NULL ? mark->x.number : find_place(&maker->places, mark->x);
    }
    if (mark->series != NULL) {
        const uint32_t group = find_series(&maker->groups, mark->series);
        if (group == PS_NO_GROUP) {
            return false;
        }
        out->series = group * maker->selection->spec->y.count;
    }
    return (!mark->has_x || ps_plot_has_place(&plot->x, out->x)) &&
           (isnan(mark->y) || ps_plot_has_place(&plot->y, out->y));
}

static ps_status make_marks(const series_maker *maker, ps_plot *plot)
{
    const ps_plot_spec *spec = maker->selection->spec;
    ps_plot_mark *out = PS_ARENA_NEW(maker->selection->arena, ps_plot_mark, spec->mark_count);
    if (out == NULL) {
        return PS_EXHAUSTED;
    }
    for (uint32_t i = 0; i < spec->mark_count; i++) {
        if (make_mark(maker, &spec->marks[i], &out[plot->mark_count])) {
            plot->mark_count++;
        } else {
            maker->selection->notes->marks_left_out++;
        }
    }
    plot->marks = out;
    return PS_OK;
}

static ps_status draw_series(const row_selection *selection, ps_buffer *out)
{
    const ps_plot_spec *spec = selection->spec;
    const bool is_bars = spec->kind == PS_PLOT_BARS;
    ps_plot plot = {.title = spec->title, .x.is_log = spec->x_is_log, .y.is_log = spec->y_is_log};
    series_maker maker = {.selection = selection, .plot = &plot};
    PS_TRY(name_axis(selection, spec->x, &plot.x));
    PS_TRY(name_y(selection, &plot.y));
    if (is_bars || selection->table->columns[spec->x].is_text) {
        PS_TRY(make_places(selection, spec->x, &maker.places, &plot.x));
    }
    const uint32_t limit = PS_PLOT_SERIES_MAX / spec->y.count;
    PS_TRY(make_groups(selection, &spec->series, false, limit, &maker.groups));
    selection->notes->series_left_out = maker.groups.left_out;
    PS_TRY(make_all_series(&maker, &plot));
    PS_TRY(make_marks(&maker, &plot));
    return is_bars ? ps_plot_bars(&plot, out) : ps_plot_lines(&plot, out);
}

// ---- heat maps

typedef struct map_maker {
    const row_selection *selection;
    ps_plot_groups x, y, panels;
    double *values; // [panels][y][x]
} map_maker;

static uint64_t cells_of(const map_maker *maker)
{
    return (uint64_t)maker->x.count * maker->y.count;
}

static ps_status fill_map(map_maker *maker)
{
    const row_selection *selection = maker->selection;
    const uint64_t count = cells_of(maker) * maker->panels.count;
    bool *is_taken = PS_ARENA_NEW(selection->arena, bool, count);
    maker->values = PS_ARENA_NEW(selection->arena, double, count);
    if (maker->values == NULL || is_taken == NULL) {
        return PS_EXHAUSTED;
    }
    for (uint64_t i = 0; i < count; i++) {
        maker->values[i] = NAN;
    }
    for (uint32_t i = 0; i < selection->row_count; i++) {
        const uint32_t row = selection->rows[i];
        const uint32_t column = ps_plot_group_of(&maker->x, row);
        const uint32_t line = ps_plot_group_of(&maker->y, row);
        const uint32_t panel = ps_plot_group_of(&maker->panels, row);
        if (column == PS_NO_GROUP || line == PS_NO_GROUP || panel == PS_NO_GROUP) {
            continue;
        }
        const uint64_t at = panel * cells_of(maker) + (uint64_t)line * maker->x.count + column;
        selection->notes->doubled += is_taken[at];
        if (!is_taken[at]) {
            maker->values[at] = ps_plot_cell(selection->table, row, selection->spec->value).number;
            is_taken[at] = true;
        }
    }
    return PS_OK;
}

static ps_status make_panels(const map_maker *maker, ps_plot_heatmap *map)
{
    const row_selection *selection = maker->selection;
    ps_plot_panel *panels = PS_ARENA_NEW(selection->arena, ps_plot_panel, maker->panels.count);
    if (panels == NULL) {
        return PS_EXHAUSTED;
    }
    for (uint32_t p = 0; p < maker->panels.count; p++) {
        panels[p].values = maker->values + p * cells_of(maker);
        if (selection->spec->panel != PS_NO_COLUMN) {
            panels[p].name = ps_plot_group_name(&maker->panels, p, selection->arena);
            if (panels[p].name == NULL) {
                return PS_EXHAUSTED;
            }
        }
    }
    map->panels = panels;
    map->panel_count = maker->panels.count;
    return PS_OK;
}

static ps_status draw_heatmap(const row_selection *selection, ps_buffer *out)
{
    const ps_plot_spec *spec = selection->spec;
    const ps_plot_list panel = {.count = spec->panel != PS_NO_COLUMN, .columns = {spec->panel}};
    ps_plot_heatmap map = {.title = spec->title, .center = spec->center};
    ps_plot_axis value = {0};
    map_maker maker = {.selection = selection};
    PS_TRY(make_places(selection, spec->x, &maker.x, &map.x));
    PS_TRY(make_places(selection, spec->y.columns[0], &maker.y, &map.y));
    PS_TRY(name_axis(selection, spec->x, &map.x));
    PS_TRY(name_axis(selection, spec->y.columns[0], &map.y));
    PS_TRY(name_axis(selection, spec->value, &value));
    PS_TRY(make_groups(selection, &panel, false, PS_PLOT_PANELS_MAX, &maker.panels));
    selection->notes->panels_left_out = maker.panels.left_out;
    map.value_name = value.name;
    map.value_unit = value.unit;
    PS_TRY(fill_map(&maker));
    PS_TRY(make_panels(&maker, &map));
    return ps_plot_heatmaps(&map, out);
}

ps_status ps_plot_spec_draw(const ps_plot_spec *spec, const ps_result_table *table, ps_arena *arena,
                            ps_plot_notes *out_notes, ps_buffer *out)
{
    ps_assert(spec->kind != PS_PLOT_TIMELINE);
    *out_notes = (ps_plot_notes){0};
    row_selection selection = {.spec = spec, .table = table, .arena = arena, .notes = out_notes};
    PS_TRY(choose_rows(&selection));
    if (spec->kind == PS_PLOT_TABLE) {
        const uint32_t most = PS_PLOT_ROWS_MAX;
        const uint32_t count = selection.row_count < most ? selection.row_count : most;
        out_notes->rows_left_out = selection.row_count - count;
        return ps_plot_table(table, &spec->columns, selection.rows, count, false, out);
    }
    return spec->kind == PS_PLOT_HEATMAP ? draw_heatmap(&selection, out)
                                         : draw_series(&selection, out);
}
