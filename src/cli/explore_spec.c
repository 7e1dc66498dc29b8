// cli/explore_spec.c - reads specs; from a row's number to its point.
#include "cli/explore_spec.h"

#include "cli/explore_columns.h"
#include "cli/explore_json.h"
#include "cli/explore_report.h"
#include "cli/options.h"

#include <math.h>
#include <string.h>

#define RANGE_ROUNDING 1e-9 // of a step: `to` is meant where it is missed by so little
#define NUMBER_MAX 1e18

// ---- settings

static ps_status add_setting(ps_explore_fields *fields, const char *path, const char *name,
                             const json_t *value, ps_explore_settings *out)
{
    ps_explore_setting *setting = &out->all[out->count];
    if (out->count == PS_EXPLORE_SETTINGS_MAX) {
        return ps_fail(PS_INVALID, "%s: more than %u values are set", path,
                       PS_EXPLORE_SETTINGS_MAX);
    }
    PS_TRY(ps_explore_field_find(fields, path, name, &setting->field));
    PS_TRY(ps_explore_value_read(fields, setting->field, path, value, &setting->value));
    out->count++;
    return PS_OK;
}

// The members of object.key. prefix: of the fields' names, "workload." or "".
static ps_status add_settings(ps_explore_fields *fields, const char *at, const json_t *object,
                              const char *key, const char *prefix, ps_explore_settings *out)
{
    const json_t *members = json_object_get(object, key);
    char outer[PS_SPEC_PATH_BYTES];
    if (members == NULL) {
        return PS_OK;
    }
    ps_spec_path(outer, at, key);
    PS_TRY(ps_spec_is_object(outer, members));
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)members, name, value)
    {
        char path[PS_SPEC_PATH_BYTES];
        char whole[PS_SPEC_PATH_BYTES];
        ps_spec_path(path, outer, name);
        (void)snprintf(whole, sizeof whole, "%s%s", prefix, name);
        PS_TRY(add_setting(fields, path, whole, value, out));
    }
    return PS_OK;
}

static ps_status make_settings(ps_arena *arena, ps_explore_settings *out)
{
    *out = (ps_explore_settings){
        .all = PS_ARENA_NEW(arena, ps_explore_setting, PS_EXPLORE_SETTINGS_MAX)};
    return out->all == NULL ? PS_NO_MEMORY : PS_OK;
}

// "machine", "model", "workload" and "set" of a spec, or of a plot.
static ps_status read_point(const json_t *object, const char *at, ps_explore_fields *fields,
                            ps_explore_settings *out)
{
    static const char *const NAMES[] = {"machine", "model"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(object, NAMES[i]);
        char path[PS_SPEC_PATH_BYTES];
        ps_spec_path(path, at, NAMES[i]);
        PS_TRY(value == NULL ? PS_OK : add_setting(fields, path, NAMES[i], value, out));
    }
    PS_TRY(add_settings(fields, at, object, "workload", "workload.", out));
    return add_settings(fields, at, object, "set", "", out);
}

static ps_status read_settings(const json_t *json, ps_explore_fields *fields, ps_arena *arena,
                               ps_explore_spec *out)
{
    PS_TRY(make_settings(arena, &out->settings));
    PS_TRY(make_settings(arena, &out->baseline));
    PS_TRY(read_point(json, "", fields, &out->settings));
    out->has_baseline = json_object_get(json, "baseline") != NULL;
    return add_settings(fields, "", json, "baseline", "", &out->baseline);
}

// ---- axes

static bool is_varied(const ps_explore_spec *spec, uint32_t field)
{
    for (uint32_t i = 0; i < spec->axis_count; i++) {
        for (uint32_t j = 0; j < spec->axes[i].field_count; j++) {
            if (spec->axes[i].fields[j] == field) {
                return true;
            }
        }
    }
    for (uint32_t i = 0; i < spec->search.range_count; i++) {
        if (spec->search.ranges[i].field == field) {
            return true;
        }
    }
    return false;
}

// Of an axis or a range.
static ps_status read_field(const ps_explore_fields *fields, const ps_explore_spec *spec,
                            const char *path, const json_t *value, uint32_t *out)
{
    if (!json_is_string(value)) {
        return ps_fail(PS_INVALID, "%s: the name of a field would be right", path);
    }
    PS_TRY(ps_explore_field_find(fields, path, json_string_value(value), out));
    return is_varied(spec, *out)
               ? ps_fail(PS_INVALID, "%s: '%s' is varied already", path, json_string_value(value))
               : PS_OK;
}

static ps_status read_values(ps_explore_fields *fields, const char *path, const json_t *values,
                             bool is_zipped, ps_arena *arena, ps_explore_axis *out)
{
    PS_TRY(ps_spec_list(path, values, (size_t)PS_EXPLORE_POINTS_MAX));
    out->count = (uint32_t)json_array_size(values);
    ps_explore_value *read = PS_ARENA_NEW(arena, ps_explore_value,
                                          (uint64_t)out->count * out->field_count);
    if (read == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        char at[PS_SPEC_PATH_BYTES];
        const json_t *value = json_array_get(values, i);
        ps_spec_path_index(at, path, i);
        if (is_zipped && json_array_size(value) != out->field_count) {
            return ps_fail(PS_INVALID,
                           "%s: a list of %u values, one for each field, would be right", at,
                           out->field_count);
        }
        for (uint32_t j = 0; j < out->field_count; j++) {
            ps_explore_value *one = &read[(uint64_t)i * out->field_count + j];
            PS_TRY(ps_explore_value_read(fields, out->fields[j], at,
                                         is_zipped ? json_array_get(value, j) : value, one));
            if (one->is_text != read[j].is_text) { // a column is the one or the other
                return ps_fail(PS_INVALID, "%s: texts and numbers in one axis", at);
            }
        }
    }
    out->values = read;
    return PS_OK;
}

// A member that is a number of the field's unit.
static ps_status read_bound(const ps_explore_field *field, const char *path, const json_t *object,
                            const char *key, double *out)
{
    char at[PS_SPEC_PATH_BYTES];
    const json_t *value = json_object_get(object, key);
    ps_spec_path(at, path, key);
    if (strcmp(field->unit, "bytes") == 0 && json_is_string(value)) {
        return ps_explore_bytes_read(at, value, out);
    }
    return value == NULL ? ps_fail(PS_INVALID, "%s is missing", at)
                         : ps_spec_number(path, object, key, -NUMBER_MAX, NUMBER_MAX, out);
}

// "from" to "to" by "step" or "factor".
static ps_status read_progression(ps_explore_fields *fields, const char *path, const json_t *object,
                                  ps_arena *arena, ps_explore_axis *out)
{
    const ps_explore_field *field = &fields->all[out->fields[0]];
    double from, to, stride;
    const bool is_factor = json_object_get(object, "factor") != NULL;
    if (!ps_explore_field_is_number(field)) {
        return ps_fail(PS_INVALID, "%s: '%s' is no number; \"values\" would be right", path,
                       field->name);
    }
    if (is_factor == (json_object_get(object, "step") != NULL)) {
        return ps_fail(PS_INVALID,
                       "%s: \"values\", or \"from\" and \"to\" with either \"step\" or \"factor\", "
                       "would be right",
                       path);
    }
    PS_TRY(read_bound(field, path, object, "from", &from));
    PS_TRY(read_bound(field, path, object, "to", &to));
    PS_TRY(read_bound(field, path, object, is_factor ? "factor" : "step", &stride));
    if (from > to || (is_factor ? from <= 0 || stride <= 1 : stride <= 0)) {
        return ps_fail(PS_INVALID, "%s: from %g to %g by the %s %g leads nowhere", path, from, to,
                       is_factor ? "factor" : "step", stride);
    }
    const double strides = is_factor ? log(to / from) / log(stride) : (to - from) / stride;
    if (!(strides < (double)PS_EXPLORE_POINTS_MAX)) {
        return ps_fail(PS_INVALID, "%s: more than %llu values", path,
                       (unsigned long long)PS_EXPLORE_POINTS_MAX);
    }
    out->count = (uint32_t)(strides + RANGE_ROUNDING) + 1;
    ps_explore_value *values = PS_ARENA_NEW(arena, ps_explore_value, out->count);
    if (values == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        const double value = is_factor ? from * pow(stride, i) : from + i * stride;
        PS_TRY(ps_explore_value_of(fields, out->fields[0], path, value, &values[i]));
    }
    out->values = values;
    return PS_OK;
}

static ps_status read_axis(ps_explore_fields *fields, const char *path, const json_t *object,
                           ps_arena *arena, ps_explore_spec *spec)
{
    static const char *const KEYS[] = {"field", "fields", "values", "from", "to", "step", "factor"};
    ps_explore_axis *axis = &spec->axes[spec->axis_count];
    char at[PS_SPEC_PATH_BYTES];
    PS_TRY(ps_spec_keys(path, object, KEYS, 7));
    const json_t *field = json_object_get(object, "field");
    const json_t *zipped = json_object_get(object, "fields");
    const json_t *values = json_object_get(object, "values");
    if ((field == NULL) == (zipped == NULL)) {
        return ps_fail(PS_INVALID, "%s: \"field\" or \"fields\" would be right", path);
    }
    ps_spec_path(at, path, field != NULL ? "field" : "fields");
    PS_TRY(zipped == NULL ? PS_OK : ps_spec_list(at, zipped, PS_EXPLORE_ZIPPED_MAX));
    const size_t count = field != NULL ? 1 : json_array_size(zipped);
    for (size_t i = 0; i < count; i++) {
        PS_TRY(read_field(fields, spec, at, field != NULL ? field : json_array_get(zipped, i),
                          &axis->fields[i]));
        for (size_t j = 0; j < i; j++) {
            if (axis->fields[j] == axis->fields[i]) {
                return ps_fail(PS_INVALID, "%s: '%s' is there twice", at,
                               fields->names[axis->fields[i]]);
            }
        }
    }
    axis->field_count = (uint32_t)count;
    if (values == NULL && field != NULL) {
        PS_TRY(read_progression(fields, path, object, arena, axis));
    } else if (json_object_size(object) > 2) {
        return ps_fail(PS_INVALID, "%s: \"values\" stands for itself", path);
    } else {
        ps_spec_path(at, path, "values");
        PS_TRY(read_values(fields, at, values, zipped != NULL, arena, axis));
    }
    spec->axis_count++;
    return PS_OK;
}

static ps_status read_sweep(const json_t *sweep, ps_explore_fields *fields, ps_arena *arena,
                            ps_explore_spec *spec)
{
    uint64_t rows = 1;
    PS_TRY(sweep == NULL ? PS_OK : ps_spec_list("sweep", sweep, PS_EXPLORE_AXES_MAX));
    for (size_t i = 0; i < json_array_size(sweep); i++) {
        char path[PS_SPEC_PATH_BYTES];
        ps_spec_path_index(path, "sweep", i);
        PS_TRY(read_axis(fields, path, json_array_get(sweep, i), arena, spec));
        rows *= spec->axes[i].count; // both below 2^24
        if (rows > PS_EXPLORE_POINTS_MAX) {
            return ps_fail(PS_INVALID,
                           "%s: with it there are %llu points; at most %llu would be "
                           "right",
                           path, (unsigned long long)rows,
                           (unsigned long long)PS_EXPLORE_POINTS_MAX);
        }
    }
    spec->row_count = (uint32_t)rows;
    return PS_OK;
}

// ---- search

static ps_status read_range(ps_explore_fields *fields, const char *path, const json_t *object,
                            ps_explore_spec *spec)
{
    static const char *const KEYS[] = {"field", "from", "to", "scale"};
    static const char *const SCALES[] = {"linear", "log"};
    ps_explore_range *range = &spec->search.ranges[spec->search.range_count];
    char at[PS_SPEC_PATH_BYTES];
    uint32_t scale = 0;
    PS_TRY(ps_spec_keys(path, object, KEYS, 4));
    ps_spec_path(at, path, "field");
    PS_TRY(read_field(fields, spec, at, json_object_get(object, "field"), &range->field));
    const ps_explore_field *field = &fields->all[range->field];
    if (!ps_explore_field_is_number(field)) {
        return ps_fail(PS_INVALID, "%s: '%s' is no number, and cannot be searched", at,
                       field->name);
    }
    PS_TRY(read_bound(field, path, object, "from", &range->from));
    PS_TRY(read_bound(field, path, object, "to", &range->to));
    PS_TRY(ps_spec_choice(path, object, "scale", SCALES, 2, &scale));
    range->is_log = scale == 1;
    if (range->from > range->to || (range->is_log && range->from <= 0)) {
        return ps_fail(PS_INVALID, "%s: a range from %g to %g leads nowhere%s", path, range->from,
                       range->to, range->is_log ? " on a logarithmic scale" : "");
    }
    for (int i = 0; i < 2; i++) { // both ends are values of the field
        ps_explore_value value;
        PS_TRY(ps_explore_value_of(fields, range->field, path, i == 0 ? range->from : range->to,
                                   &value));
    }
    spec->search.range_count++;
    return PS_OK;
}

static ps_status read_search(const json_t *json, ps_explore_fields *fields, ps_explore_spec *spec)
{
    static const char *const KEYS[] = {"maximise", "minimise", "over", "points", "seed", "where"};
    uint64_t points = 500;
    if (json == NULL) {
        return PS_OK;
    }
    PS_TRY(ps_spec_keys("search", json, KEYS, 6));
    const json_t *over = json_object_get(json, "over");
    PS_TRY(ps_spec_list("search.over", over, PS_EXPLORE_RANGES_MAX));
    for (size_t i = 0; i < json_array_size(over); i++) {
        char path[PS_SPEC_PATH_BYTES];
        ps_spec_path_index(path, "search.over", i);
        PS_TRY(read_range(fields, path, json_array_get(over, i), spec));
    }
    PS_TRY(ps_spec_whole("search", json, "points", 2, PS_EXPLORE_POINTS_MAX, &points));
    PS_TRY(ps_spec_whole("search", json, "seed", 0, INT64_MAX, &spec->search.seed));
    if (points * spec->row_count > PS_EXPLORE_POINTS_MAX) {
        return ps_fail(
            PS_INVALID,
            "search.points: %llu for each of %u points of the sweep; at most %llu in all "
            "would be right",
            (unsigned long long)points, spec->row_count, (unsigned long long)PS_EXPLORE_POINTS_MAX);
    }
    spec->search.points = (uint32_t)points;
    return PS_OK;
}

// What needs the columns.
static ps_status read_objective(const json_t *json, ps_arena *arena, ps_explore_spec *spec)
{
    if (json == NULL) {
        return PS_OK;
    }
    const char *most = NULL;
    const char *least = NULL;
    PS_TRY(ps_spec_text("search", json, "maximise", &most));
    PS_TRY(ps_spec_text("search", json, "minimise", &least));
    if ((most == NULL) == (least == NULL)) {
        return ps_fail(PS_INVALID, "search: either \"maximise\" or \"minimise\" would be right");
    }
    spec->search.is_least = least != NULL;
    PS_TRY(ps_explore_metric_find(spec->columns,
                                  least != NULL ? "search.minimise" : "search.maximise",
                                  least != NULL ? least : most, &spec->search.column));
    return ps_explore_where_read(spec->columns, "search.where", json_object_get(json, "where"),
                                 arena, &spec->search.where);
}

// ---- timelines

static ps_status read_policy(const char *path, const char *word, ps_explore_policy *out)
{
    if (word == NULL) {
        return ps_fail(PS_INVALID, "%s: a list of texts would be right", path);
    }
    const bool is_fused = strcmp(word, "fused") == 0;
    ps_cli_side side;
    uint32_t count;
    *out = (ps_explore_policy){.name = word,
                               .prefetch = PS_PREFETCH_OFF,
                               .comm_schedule = is_fused ? PS_COMM_FUSED : PS_COMM_SERIAL};
    if (is_fused || strcmp(word, "serial") == 0) {
        return PS_OK;
    }
    if (ps_cli_sides_parse(word, &side, 1, &count) != PS_OK) {
        return ps_fail(PS_INVALID,
                       "%s: '%s': serial, fused, off, preserve, auto, ratio, or one of those and "
                       "+fused, would be right",
                       path, word);
    }
    out->prefetch = side.prefetch;
    out->comm_schedule = side.comm_schedule;
    return PS_OK;
}

static ps_status read_timeline(const json_t *plot, uint32_t index, ps_explore_fields *fields,
                               ps_arena *arena, ps_explore_timeline *out)
{
    char path[PS_SPEC_PATH_BYTES];
    char at[PS_SPEC_PATH_BYTES];
    const json_t *policies = json_object_get(plot, "policies");
    ps_spec_path_index(path, "plots", index);
    out->plot = index;
    PS_TRY(make_settings(arena, &out->settings));
    PS_TRY(read_point(plot, path, fields, &out->settings));
    ps_spec_path(at, path, "policies");
    PS_TRY(ps_spec_list(at, policies, PS_EXPLORE_POLICIES_MAX));
    for (size_t i = 0; i < json_array_size(policies); i++) {
        PS_TRY(read_policy(at, json_string_value(json_array_get(policies, i)),
                           &out->policies[out->policy_count]));
        out->policy_count++;
    }
    return PS_OK;
}

// Plots have been checked.
static ps_status read_timelines(ps_explore_fields *fields, ps_arena *arena, ps_explore_spec *spec)
{
    const size_t count = json_array_size(spec->plots);
    spec->timelines = PS_ARENA_NEW(arena, ps_explore_timeline, count);
    if (spec->timelines == NULL) {
        return PS_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *plot = json_array_get(spec->plots, i);
        if (strcmp(json_string_value(json_object_get(plot, "kind")), "timeline") == 0) {
            PS_TRY(read_timeline(plot, (uint32_t)i, fields, arena,
                                 &spec->timelines[spec->timeline_count]));
            spec->timeline_count++;
        }
    }
    return PS_OK;
}

// ---- the whole

static bool is_given(const ps_explore_spec *spec, uint32_t field)
{
    for (uint32_t i = 0; i < spec->settings.count; i++) {
        if (spec->settings.all[i].field == field) {
            return true;
        }
    }
    return is_varied(spec, field);
}

static ps_status read_expectations(const json_t *list, ps_arena *arena, ps_explore_spec *spec)
{
    if (list == NULL || (json_is_array(list) && json_array_size(list) == 0)) {
        return PS_OK;
    }
    PS_TRY(ps_spec_list("expect", list, PS_EXPLORE_EXPECTATIONS_MAX));
    spec->expectations = PS_ARENA_NEW(arena, ps_expectation, json_array_size(list));
    if (spec->expectations == NULL) {
        return PS_NO_MEMORY;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        char path[PS_SPEC_PATH_BYTES];
        ps_spec_path_index(path, "expect", i);
        PS_TRY(ps_expectation_read(json_array_get(list, i), path, spec->columns, arena,
                                   &spec->expectations[i]));
        spec->expectation_count++;
    }
    return PS_OK;
}

ps_status ps_explore_spec_read(const json_t *json, ps_explore_fields *fields, ps_arena *arena,
                               ps_explore_spec *out)
{
    static const char *const KEYS[] = {"title",    "about", "machine", "model", "workload", "set",
                                       "baseline", "sweep", "search",  "plots", "expect"};
    ps_explore_spec spec = {.json = json, .plots = json_object_get(json, "plots")};
    PS_TRY(ps_spec_keys("", json, KEYS, sizeof KEYS / sizeof KEYS[0]));
    PS_TRY(ps_spec_text_required("", json, "title", &spec.title));
    PS_TRY(ps_spec_text("", json, "about", &spec.about));
    PS_TRY(read_settings(json, fields, arena, &spec));
    PS_TRY(read_sweep(json_object_get(json, "sweep"), fields, arena, &spec));
    const json_t *search = json_object_get(json, "search");
    PS_TRY(read_search(search, fields, &spec));
    for (uint32_t field = 0; field < 2; field++) {
        if (!is_given(&spec, field)) {
            return ps_fail(PS_INVALID, "%s is missing", fields->names[field]);
        }
    }
    PS_TRY(ps_explore_columns_make(&spec, fields, arena));
    PS_TRY(read_objective(search, arena, &spec));
    PS_TRY(ps_plots_check(spec.plots, spec.columns.all, spec.columns.count));
    PS_TRY(read_timelines(fields, arena, &spec));
    PS_TRY(read_expectations(json_object_get(json, "expect"), arena, &spec));
    *out = spec;
    return PS_OK;
}

// ---- points

// Which value of each axis a row has.
static void find_values(const ps_explore_spec *spec, uint32_t row,
                        const ps_explore_value *out[PS_EXPLORE_AXES_MAX])
{
    for (uint32_t i = spec->axis_count; i-- > 0;) {
        const ps_explore_axis *axis = &spec->axes[i];
        out[i] = &axis->values[(uint64_t)(row % axis->count) * axis->field_count];
        row /= axis->count;
    }
}

// Names of machines and models first, then what changes their numbers.
static void set(const ps_explore_fields *fields, const ps_machine *machines, bool is_names,
                uint32_t field, const ps_explore_value *value, ps_explore_point *out)
{
    const ps_explore_part part = fields->all[field].part;
    if (part == PS_EXPLORE_MACHINE_NAME && is_names) {
        out->machine_index = (uint32_t)value->raw;
        out->machine = machines[value->raw];
    } else if (part == PS_EXPLORE_MODEL_NAME && is_names) {
        out->model_index = (uint32_t)value->raw;
    } else if (part >= PS_EXPLORE_MACHINE && !is_names) {
        ps_explore_value_set(&fields->all[field], value, out);
    }
}

static void set_all(const ps_explore_fields *fields, const ps_machine *machines, bool is_names,
                    const ps_explore_settings *settings, ps_explore_point *out)
{
    for (uint32_t i = 0; settings != NULL && i < settings->count; i++) {
        set(fields, machines, is_names, settings->all[i].field, &settings->all[i].value, out);
    }
}

void ps_explore_point_make(const ps_explore_spec *spec, const ps_explore_fields *fields,
                           const ps_machine *machines, uint32_t row,
                           const ps_explore_settings *extra, bool is_baseline,
                           ps_explore_point *out)
{
    const ps_explore_value *values[PS_EXPLORE_AXES_MAX];
    find_values(spec, row, values);
    out->workload = ps_explore_workload_default();
    for (int pass = 0; pass < 2; pass++) {
        const bool is_names = pass == 0;
        set_all(fields, machines, is_names, &spec->settings, out);
        for (uint32_t i = 0; i < spec->axis_count; i++) {
            for (uint32_t j = 0; j < spec->axes[i].field_count; j++) {
                set(fields, machines, is_names, spec->axes[i].fields[j], &values[i][j], out);
            }
        }
        set_all(fields, machines, is_names, extra, out);
        set_all(fields, machines, is_names, is_baseline ? &spec->baseline : NULL, out);
    }
}

static ps_result_cell setting_cell(const ps_explore_spec *spec, uint32_t field)
{
    ps_result_cell cell = {.text = NULL};
    for (uint32_t i = 0; i < spec->settings.count; i++) {
        if (spec->settings.all[i].field == field) {
            cell = spec->settings.all[i].value.cell;
        }
    }
    return cell;
}

void ps_explore_row_fill(const ps_explore_spec *spec, uint32_t row, ps_result_cell *cells)
{
    const ps_explore_value *values[PS_EXPLORE_AXES_MAX];
    uint32_t column = 0;
    find_values(spec, row, values);
    for (uint32_t field = 0; field < 2; field++) {
        if (!is_varied(spec, field)) {
            cells[column++] = setting_cell(spec, field);
        }
    }
    for (uint32_t i = 0; i < spec->axis_count; i++) {
        for (uint32_t j = 0; j < spec->axes[i].field_count; j++) {
            cells[column++] = values[i][j].cell;
        }
    }
    for (; column < spec->columns.count; column++) {
        if (spec->columns.all[column].is_text) {
            cells[column].text = NULL;
        } else {
            cells[column].number = NAN;
        }
    }
}
