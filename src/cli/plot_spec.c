// cli/plot_spec.c - reads what a spec says of a plot, strictly.
#include "cli/plot_spec.h"

#include "cli/explore_json.h"
#include "cli/explore_report.h"

#include <math.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define KIND(kind) (1u << (kind))
#define SERIES (KIND(PS_PLOT_LINES) | KIND(PS_PLOT_BARS))
#define PLACES (SERIES | KIND(PS_PLOT_HEATMAP))
#define ALL (KIND(PS_PLOT_KINDS) - 1)

static const char *const KINDS[PS_PLOT_KINDS] = {"lines", "bars", "heatmap", "table", "timeline"};

static const struct {
    const char *key;
    uint32_t kinds; // that have it
} KEYS[] = {
    {"kind", ALL},
    {"title", ALL},
    {"about", ALL},
    {"where", PLACES | KIND(PS_PLOT_TABLE)},
    {"x", PLACES},
    {"y", PLACES},
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
    char path[PS_SPEC_PATH_BYTES]; // "plots[0]"
    ps_explore_columns columns;
    ps_arena *arena;
} plot_reader;

// ---- columns

static ps_status find_column(const plot_reader *reader, const char *path, const json_t *value,
                             bool is_number, uint32_t *out)
{
    const char *name = json_string_value(value);
    if (name == NULL) {
        return ps_fail(PS_INVALID, "%s: the name of a column would be right", path);
    }
    return is_number ? ps_explore_metric_find(reader->columns, path, name, out)
                     : ps_explore_column_find(reader->columns, path, name, out);
}

static ps_status read_column(const plot_reader *reader, const char *key, bool is_number,
                             uint32_t *out)
{
    char path[PS_SPEC_PATH_BYTES];
    ps_spec_path(path, reader->path, key);
    return find_column(reader, path, json_object_get(reader->plot, key), is_number, out);
}

// A column, or a list of them.
static ps_status read_columns(const plot_reader *reader, const char *key, bool is_number,
                              ps_plot_list *out)
{
    const json_t *value = json_object_get(reader->plot, key);
    char path[PS_SPEC_PATH_BYTES];
    ps_spec_path(path, reader->path, key);
    if (!json_is_array(value)) {
        out->count = 1;
        return find_column(reader, path, value, is_number, &out->columns[0]);
    }
    PS_TRY(ps_spec_list(path, value, PS_PLOT_LIST_MAX));
    for (size_t i = 0; i < json_array_size(value); i++) {
        char at[PS_SPEC_PATH_BYTES];
        ps_spec_path_index(at, path, i);
        PS_TRY(find_column(reader, at, json_array_get(value, i), is_number, &out->columns[i]));
    }
    out->count = (uint32_t)json_array_size(value);
    return PS_OK;
}

// ---- members of all kinds

static ps_status read_kind(const plot_reader *reader, ps_plot_kind *out)
{
    const char *keys[KEY_COUNT];
    const char *name = NULL;
    uint32_t kind = 0;
    uint32_t count = 0;
    PS_TRY(ps_spec_is_object(reader->path, reader->plot));
    PS_TRY(ps_spec_text_required(reader->path, reader->plot, "kind", &name));
    PS_TRY(ps_spec_choice(reader->path, reader->plot, "kind", KINDS, PS_PLOT_KINDS, &kind));
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if ((KEYS[i].kinds & KIND(kind)) != 0) {
            keys[count++] = KEYS[i].key;
        }
    }
    *out = (ps_plot_kind)kind;
    return ps_spec_keys(reader->path, reader->plot, keys, count);
}

static ps_status read_scale(const plot_reader *reader, const char *key, bool *out_is_log)
{
    static const char *const SCALES[] = {"linear", "log"};
    uint32_t scale = 0;
    PS_TRY(ps_spec_choice(reader->path, reader->plot, key, SCALES, 2, &scale));
    *out_is_log = scale == 1;
    return PS_OK;
}

// ---- marks

// A text, a number or a list of them.
static ps_status check_series(const char *path, const json_t *series)
{
    char at[PS_SPEC_PATH_BYTES];
    ps_spec_path(at, path, "series");
    const bool is_list = json_is_array(series);
    PS_TRY(is_list ? ps_spec_list(at, series, PS_PLOT_LIST_MAX) : PS_OK);
    for (size_t i = 0; i < (is_list ? json_array_size(series) : 1); i++) {
        const json_t *value = is_list ? json_array_get(series, i) : series;
        if (!json_is_number(value) && !json_is_string(value)) {
            return ps_fail(PS_INVALID, "%s: a text, a number or a list of them would be right", at);
        }
    }
    return PS_OK;
}

static ps_status read_mark(const plot_reader *reader, const ps_plot_spec *spec, const char *path,
                           const json_t *json, ps_plot_spec_mark *out)
{
    static const char *const MEMBERS[] = {"x", "y", "series", "label"};
    char at[PS_SPEC_PATH_BYTES];
    PS_TRY(ps_spec_keys(path, json, MEMBERS, 4));
    const json_t *x = json_object_get(json, "x");
    *out = (ps_plot_spec_mark){
        .has_x = x != NULL, .y = NAN, .series = json_object_get(json, "series"), .label = "paper"};
    PS_TRY(ps_spec_text(path, json, "label", &out->label));
    PS_TRY(ps_spec_number(path, json, "y", -1e100, 1e100, &out->y));
    if (x == NULL && isnan(out->y)) {
        return ps_fail(PS_INVALID, "%s: x, y or both would be right", path);
    }
    PS_TRY(out->series == NULL ? PS_OK : check_series(path, out->series));
    ps_spec_path(at, path, "x");
    return x == NULL ? PS_OK : ps_explore_cell_read(&reader->columns.all[spec->x], at, x, &out->x);
}

static ps_status read_marks(const plot_reader *reader, ps_plot_spec *out)
{
    const json_t *marks = json_object_get(reader->plot, "marks");
    char path[PS_SPEC_PATH_BYTES];
    ps_spec_path(path, reader->path, "marks");
    PS_TRY(marks == NULL ? PS_OK : ps_spec_list(path, marks, PS_PLOT_MARKS_MAX));
    ps_plot_spec_mark *all = PS_ARENA_NEW(reader->arena, ps_plot_spec_mark, json_array_size(marks));
    if (all == NULL) {
        return PS_EXHAUSTED;
    }
    for (size_t i = 0; i < json_array_size(marks); i++) {
        char at[PS_SPEC_PATH_BYTES];
        ps_spec_path_index(at, path, i);
        PS_TRY(read_mark(reader, out, at, json_array_get(marks, i), &all[i]));
    }
    out->marks = all;
    out->mark_count = (uint32_t)json_array_size(marks);
    return PS_OK;
}

// ---- kinds

static ps_status read_series(const plot_reader *reader, ps_plot_spec *out)
{
    PS_TRY(read_scale(reader, "x_scale", &out->x_is_log));
    PS_TRY(read_scale(reader, "y_scale", &out->y_is_log));
    PS_TRY(read_column(reader, "x", out->x_is_log, &out->x));
    PS_TRY(read_columns(reader, "y", true, &out->y));
    if (json_object_get(reader->plot, "series") != NULL) {
        PS_TRY(read_columns(reader, "series", false, &out->series));
    }
    return read_marks(reader, out);
}

static ps_status read_heatmap(const plot_reader *reader, ps_plot_spec *out)
{
    out->y.count = 1;
    PS_TRY(read_column(reader, "x", false, &out->x));
    PS_TRY(read_column(reader, "y", false, &out->y.columns[0]));
    PS_TRY(read_column(reader, "value", true, &out->value));
    if (json_object_get(reader->plot, "panel") != NULL) {
        PS_TRY(read_column(reader, "panel", false, &out->panel));
    }
    return ps_spec_number(reader->path, reader->plot, "center", -1e100, 1e100, &out->center);
}

static ps_status check_timeline(const plot_reader *reader)
{
    static const char *const OBJECTS[] = {"workload", "set"};
    const json_t *policies = json_object_get(reader->plot, "policies");
    const char *text = NULL;
    char path[PS_SPEC_PATH_BYTES];
    PS_TRY(ps_spec_text(reader->path, reader->plot, "machine", &text));
    PS_TRY(ps_spec_text(reader->path, reader->plot, "model", &text));
    for (size_t i = 0; i < sizeof OBJECTS / sizeof OBJECTS[0]; i++) {
        const json_t *object = json_object_get(reader->plot, OBJECTS[i]);
        ps_spec_path(path, reader->path, OBJECTS[i]);
        PS_TRY(object == NULL ? PS_OK : ps_spec_is_object(path, object));
    }
    ps_spec_path(path, reader->path, "policies");
    PS_TRY(ps_spec_list(path, policies, PS_PLOT_LIST_MAX));
    for (size_t i = 0; i < json_array_size(policies); i++) {
        if (!json_is_string(json_array_get(policies, i))) {
            return ps_fail(PS_INVALID, "%s[%zu]: a text would be right", path, i);
        }
    }
    return PS_OK;
}

ps_status ps_plot_spec_read(const json_t *plot, size_t index, ps_explore_columns columns,
                            ps_arena *arena, ps_plot_spec *out)
{
    plot_reader reader = {.plot = plot, .columns = columns, .arena = arena};
    char path[PS_SPEC_PATH_BYTES];
    ps_spec_path_index(reader.path, "plots", index);
    *out = (ps_plot_spec){
        .x = PS_NO_COLUMN, .value = PS_NO_COLUMN, .panel = PS_NO_COLUMN, .center = NAN};
    PS_TRY(read_kind(&reader, &out->kind));
    PS_TRY(ps_spec_text(reader.path, plot, "title", &out->title));
    PS_TRY(ps_spec_text(reader.path, plot, "about", &out->about));
    ps_spec_path(path, reader.path, "where");
    PS_TRY(
        ps_explore_where_read(columns, path, json_object_get(plot, "where"), arena, &out->where));
    switch (out->kind) {
    case PS_PLOT_HEATMAP:
        return read_heatmap(&reader, out);
    case PS_PLOT_TABLE:
        return read_columns(&reader, "columns", false, &out->columns);
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
    ps_status status = PS_OK;
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    for (size_t i = 0; i < json_array_size(plots) && status == PS_OK; i++) {
        ps_plot_spec spec;
        status = ps_plot_spec_read(json_array_get(plots, i), i,
                                   (ps_explore_columns){columns, count}, &arena, &spec);
    }
    ps_arena_deinit(&arena);
    return status;
}
