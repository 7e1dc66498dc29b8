// cli/plot_spec.c - reads what a spec says of a plot, strictly.
#include "cli/plot_spec.h"

#include "base/scan.h"
#include "cli/explore_report.h"

#include <math.h>
#include <string.h>

#define KIND(kind) (1u << (kind))
#define ROWS (KIND(PS_PLOT_LINES) | KIND(PS_PLOT_BARS) | KIND(PS_PLOT_HEATMAP))
#define SERIES (KIND(PS_PLOT_LINES) | KIND(PS_PLOT_BARS))
#define ALL (KIND(PS_PLOT_KINDS) - 1)

static const char *const KINDS[PS_PLOT_KINDS] = {"lines", "bars", "heatmap", "table", "timeline"};

static const struct {
    const char *key;
    uint32_t kinds; // that have it
} KEYS[] = {
    {"kind", ALL},
    {"title", ALL},
    {"about", ALL},
    {"where", ROWS | KIND(PS_PLOT_TABLE)},
    {"x", ROWS},
    {"y", ROWS},
    {"series", SERIES},
    {"x_scale", KIND(PS_PLOT_LINES)},
    {"y_scale", SERIES},
    {"marks", SERIES},
    {"value", KIND(PS_PLOT_HEATMAP)},
    {"panel", KIND(PS_PLOT_HEATMAP)},
    {"center", KIND(PS_PLOT_HEATMAP)},
    {"columns", KIND(PS_PLOT_TABLE)},
    {"machine", KIND(PS_PLOT_TIMELINE)},
    {"model", KIND(PS_PLOT_TIMELINE)},
    {"workload", KIND(PS_PLOT_TIMELINE)},
    {"set", KIND(PS_PLOT_TIMELINE)},
    {"policies", KIND(PS_PLOT_TIMELINE)},
};
#define KEY_COUNT (sizeof KEYS / sizeof KEYS[0])

typedef struct plot_reader {
    const json_t *plot;
    uint32_t index;
    const ps_result_column *columns;
    uint32_t column_count;
} plot_reader;

#define fail(reader, key, ...)                                                                     \
    ps_fail_prefix(ps_fail(PS_INVALID, __VA_ARGS__), "plots[%u].%s", (reader)->index, key)

// ---- columns

// What people type: the part behind the last dot, unless they typed dots.
static const char *typed_part(const char *name, bool whole)
{
    const char *dot = strrchr(name, '.');
    return whole || dot == NULL ? name : dot + 1;
}

static const char *nearest_column(const plot_reader *reader, const char *word)
{
    const bool whole = strchr(word, '.') != NULL;
    const char *best = "";
    for (uint32_t i = 0; i < reader->column_count; i++) {
        const char *name = reader->columns[i].name;
        const char *both[] = {typed_part(best, whole), typed_part(name, whole)};
        if (i == 0 || ps_nearest(ps_str_of(word), both, 2) == both[1]) {
            best = name;
        }
    }
    return best;
}

static ps_status find_column(const plot_reader *reader, const char *key, const json_t *value,
                             uint32_t *out)
{
    const char *name = json_string_value(value);
    if (name == NULL) {
        return fail(reader, key, "the name of a column would be right");
    }
    for (uint32_t i = 0; i < reader->column_count; i++) {
        if (strcmp(reader->columns[i].name, name) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    return fail(reader, key, "'%.100s' is no column; the nearest is '%s'", name,
                nearest_column(reader, name));
}

static ps_status check_number(const plot_reader *reader, const char *key, uint32_t column)
{
    return !reader->columns[column].is_text
               ? PS_OK
               : fail(reader, key, "'%s' holds texts; a column of numbers would be right",
                      reader->columns[column].name);
}

// A column, or a list of them.
static ps_status find_columns(const plot_reader *reader, const char *key, const json_t *value,
                              ps_plot_list *out)
{
    if (!json_is_array(value)) {
        out->count = 1;
        return find_column(reader, key, value, &out->columns[0]);
    }
    if (json_array_size(value) == 0 || json_array_size(value) > PS_PLOT_LIST_MAX) {
        return fail(reader, key, "%zu columns; 1 to %u would be right", json_array_size(value),
                    PS_PLOT_LIST_MAX);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        PS_TRY(find_column(reader, key, json_array_get(value, i), &out->columns[i]));
    }
    out->count = (uint32_t)json_array_size(value);
    return PS_OK;
}

// ---- members of all kinds

static ps_status read_kind(const plot_reader *reader, ps_plot_kind *out)
{
    const char *name = json_string_value(json_object_get(reader->plot, "kind"));
    for (uint32_t i = 0; i < PS_PLOT_KINDS && name != NULL; i++) {
        if (strcmp(name, KINDS[i]) == 0) {
            *out = (ps_plot_kind)i;
            return PS_OK;
        }
    }
    return name == NULL
               ? fail(reader, "kind", "lines, bars, heatmap, table or timeline would be right")
               : fail(reader, "kind", "'%.100s' is no kind of plot; the nearest is '%s'", name,
                      ps_nearest(ps_str_of(name), KINDS, PS_PLOT_KINDS));
}

static ps_status check_keys(const plot_reader *reader, ps_plot_kind kind)
{
    const char *keys[KEY_COUNT]; // NULL: not of this kind
    for (size_t i = 0; i < KEY_COUNT; i++) {
        keys[i] = (KEYS[i].kinds & KIND(kind)) != 0 ? KEYS[i].key : NULL;
    }
    for (void *at = json_object_iter((json_t *)(uintptr_t)reader->plot); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)reader->plot, at)) {
        const char *key = json_object_iter_key(at);
        const char *nearest = ps_nearest(ps_str_of(key), keys, KEY_COUNT);
        if (strcmp(nearest, key) != 0) {
            return ps_fail(PS_INVALID,
                           "plots[%u]: unknown key '%.100s' of a plot of kind '%s'; the nearest "
                           "is '%s'",
                           reader->index, key, KINDS[kind], nearest);
        }
    }
    return PS_OK;
}

static ps_status read_text(const plot_reader *reader, const char *key, const char **out)
{
    const json_t *value = json_object_get(reader->plot, key);
    *out = json_string_value(value);
    return value == NULL || *out != NULL ? PS_OK : fail(reader, key, "a text would be right");
}

static ps_status read_scale(const plot_reader *reader, const char *key, bool *out_is_log)
{
    const char *name = "linear";
    if (json_object_get(reader->plot, key) != NULL) {
        name = json_string_value(json_object_get(reader->plot, key));
    }
    *out_is_log = name != NULL && strcmp(name, "log") == 0;
    return name != NULL && (*out_is_log || strcmp(name, "linear") == 0)
               ? PS_OK
               : fail(reader, key, "linear or log would be right");
}

// ---- where

static bool is_value(const ps_result_column *column, const json_t *value)
{
    return column->is_text ? json_is_string(value)
                           : json_is_number(value) || json_is_boolean(value);
}

static ps_status check_where(const plot_reader *reader, const char *key, const json_t *values)
{
    uint32_t column = 0;
    json_t *name = json_string(key);
    const ps_status status = name == NULL ? ps_fail(PS_NO_MEMORY, "no memory for a name")
                                          : find_column(reader, "where", name, &column);
    json_decref(name);
    PS_TRY(status);
    const bool is_list = json_is_array(values);
    bool is_right = is_list ? json_array_size(values) > 0
                            : is_value(&reader->columns[column], values);
    for (size_t i = 0; is_list && i < json_array_size(values); i++) {
        is_right &= is_value(&reader->columns[column], json_array_get(values, i));
    }
    return is_right ? PS_OK
                    : fail(reader, "where", "%s: a %s, or a list of them, would be right",
                           reader->columns[column].name,
                           reader->columns[column].is_text ? "text" : "number");
}

static ps_status read_where(const plot_reader *reader, ps_plot_spec *out)
{
    out->where = json_object_get(reader->plot, "where");
    if (out->where != NULL && !json_is_object(out->where)) {
        return fail(reader, "where", "an object of columns and values would be right");
    }
    json_t *where = (json_t *)(uintptr_t)out->where;
    for (void *at = json_object_iter(where); at != NULL; at = json_object_iter_next(where, at)) {
        PS_TRY(check_where(reader, json_object_iter_key(at), json_object_iter_value(at)));
    }
    return PS_OK;
}

bool ps_plot_cell_is(const ps_result_column *column, ps_result_cell cell, const json_t *value)
{
    if (column->is_text) {
        return cell.text != NULL && json_is_string(value) &&
               strcmp(cell.text, json_string_value(value)) == 0;
    }
    const double wanted = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    // Sweeps add and multiply; what is written down is rounded.
    return fabs(cell.number - wanted) <= 1e-9 * fabs(wanted);
}

// ---- marks

static ps_status check_mark(const plot_reader *reader, const ps_plot_spec *spec, const json_t *mark)
{
    static const char *const MEMBERS[] = {"x", "y", "series", "label"};
    json_t *object = (json_t *)(uintptr_t)mark;
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        if (strcmp(ps_nearest(ps_str_of(key), MEMBERS, 4), key) != 0) {
            return fail(reader, "marks", "unknown key '%.100s'; the nearest is '%s'", key,
                        ps_nearest(ps_str_of(key), MEMBERS, 4));
        }
    }
    const json_t *x = json_object_get(mark, "x");
    const json_t *y = json_object_get(mark, "y");
    const json_t *label = json_object_get(mark, "label");
    const json_t *series = json_object_get(mark, "series");
    if (x == NULL && y == NULL) {
        return fail(reader, "marks", "an object with x, y or both would be right");
    }
    if (x != NULL && !is_value(&reader->columns[spec->x], x)) {
        return fail(reader, "marks", "x: a value of '%s' would be right",
                    reader->columns[spec->x].name);
    }
    if (y != NULL && !json_is_number(y)) {
        return fail(reader, "marks", "y: a number would be right");
    }
    if (label != NULL && !json_is_string(label)) {
        return fail(reader, "marks", "label: a text would be right");
    }
    return series == NULL || json_is_number(series) || json_is_string(series)
               ? PS_OK
               : fail(reader, "marks", "series: a value of the plot's series would be right");
}

static ps_status read_marks(const plot_reader *reader, ps_plot_spec *out)
{
    out->marks = json_object_get(reader->plot, "marks");
    if (out->marks != NULL &&
        (!json_is_array(out->marks) || json_array_size(out->marks) > PS_PLOT_MARKS_MAX)) {
        return fail(reader, "marks", "a list of at most %u marks would be right",
                    PS_PLOT_MARKS_MAX);
    }
    for (size_t i = 0; i < json_array_size(out->marks); i++) {
        PS_TRY(check_mark(reader, out, json_array_get(out->marks, i)));
    }
    return PS_OK;
}

// ---- kinds

static ps_status read_series(const plot_reader *reader, ps_plot_spec *out)
{
    const json_t *series = json_object_get(reader->plot, "series");
    PS_TRY(find_column(reader, "x", json_object_get(reader->plot, "x"), &out->x));
    PS_TRY(find_columns(reader, "y", json_object_get(reader->plot, "y"), &out->y));
    for (uint32_t i = 0; i < out->y.count; i++) {
        PS_TRY(check_number(reader, "y", out->y.columns[i]));
    }
    if (series != NULL) {
        PS_TRY(find_columns(reader, "series", series, &out->series));
    }
    PS_TRY(read_scale(reader, "x_scale", &out->x_is_log));
    PS_TRY(read_scale(reader, "y_scale", &out->y_is_log));
    if (out->x_is_log) {
        PS_TRY(check_number(reader, "x_scale", out->x));
    }
    return read_marks(reader, out);
}

static ps_status read_heatmap(const plot_reader *reader, ps_plot_spec *out)
{
    const json_t *panel = json_object_get(reader->plot, "panel");
    const json_t *center = json_object_get(reader->plot, "center");
    out->y.count = 1;
    PS_TRY(find_column(reader, "x", json_object_get(reader->plot, "x"), &out->x));
    PS_TRY(find_column(reader, "y", json_object_get(reader->plot, "y"), &out->y.columns[0]));
    PS_TRY(find_column(reader, "value", json_object_get(reader->plot, "value"), &out->value));
    PS_TRY(check_number(reader, "value", out->value));
    if (panel != NULL) {
        PS_TRY(find_column(reader, "panel", panel, &out->panel));
    }
    if (center != NULL) {
        out->center = json_number_value(center);
    }
    return center == NULL || (json_is_number(center) && fabs(out->center) <= 1e100)
               ? PS_OK
               : fail(reader, "center", "a number would be right");
}

static ps_status check_timeline(const plot_reader *reader)
{
    static const char *const TEXTS[] = {"machine", "model"};
    static const char *const OBJECTS[] = {"workload", "set"};
    const json_t *policies = json_object_get(reader->plot, "policies");
    for (int i = 0; i < 2; i++) {
        const char *text = NULL;
        const json_t *object = json_object_get(reader->plot, OBJECTS[i]);
        PS_TRY(read_text(reader, TEXTS[i], &text));
        if (object != NULL && !json_is_object(object)) {
            return fail(reader, OBJECTS[i], "an object would be right");
        }
    }
    bool is_right = json_is_array(policies) && json_array_size(policies) > 0;
    for (size_t i = 0; i < json_array_size(policies); i++) {
        is_right &= json_is_string(json_array_get(policies, i));
    }
    return is_right ? PS_OK : fail(reader, "policies", "a list of texts would be right");
}

ps_status ps_plot_spec_read(const json_t *plot, uint32_t index, const ps_result_column *columns,
                            uint32_t count, ps_plot_spec *out)
{
    const plot_reader reader = {
        .plot = plot, .index = index, .columns = columns, .column_count = count};
    if (!json_is_object(plot)) {
        return ps_fail(PS_INVALID, "plots[%u]: an object would be right", index);
    }
    *out = (ps_plot_spec){
        .x = PS_NO_COLUMN, .value = PS_NO_COLUMN, .panel = PS_NO_COLUMN, .center = NAN};
    PS_TRY(read_kind(&reader, &out->kind));
    PS_TRY(check_keys(&reader, out->kind));
    PS_TRY(read_text(&reader, "title", &out->title));
    PS_TRY(read_text(&reader, "about", &out->about));
    PS_TRY(read_where(&reader, out));
    switch (out->kind) {
    case PS_PLOT_HEATMAP:
        return read_heatmap(&reader, out);
    case PS_PLOT_TABLE:
        return find_columns(&reader, "columns", json_object_get(plot, "columns"), &out->columns);
    case PS_PLOT_TIMELINE:
        return check_timeline(&reader);
    default:
        return read_series(&reader, out);
    }
}

ps_status ps_plots_check(const json_t *plots, const ps_result_column *columns, uint32_t count)
{
    if (plots != NULL && !json_is_array(plots)) {
        return ps_fail(PS_INVALID, "plots: a list of plots would be right");
    }
    for (size_t i = 0; i < json_array_size(plots); i++) {
        ps_plot_spec spec;
        PS_TRY(ps_plot_spec_read(json_array_get(plots, i), (uint32_t)i, columns, count, &spec));
    }
    return PS_OK;
}
