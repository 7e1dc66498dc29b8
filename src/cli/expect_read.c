// cli/expect_read.c - reads expectations.
#include "cli/explore_expect.h"

#include "cli/explore_fields.h"
#include "cli/explore_json.h"

#include <math.h>
#include <string.h>

#define NUMBER_MAX 1e18
#define SHARE 0.01 // of x_saturated

static const char *const OF[PS_EXPECT_OF_COUNT] = {
    "value",     "max",       "min", "mean", "x_of_max", "x_of_min", "x_saturated",
    "x_crosses", "x_of_drop", "cut", "gain", "rise_min", "rise_max", "ratio_of_max"};
static const char *const THEN[PS_EXPECT_THEN_COUNT] = {"all", "mean", "min", "max", "median"};

static bool needs_x(ps_expect_of of)
{
    return of >= PS_EXPECT_X_OF_MAX && of <= PS_EXPECT_RISE_MAX;
}

static bool answers_x(ps_expect_of of)
{
    return of >= PS_EXPECT_X_OF_MAX && of <= PS_EXPECT_X_OF_DROP;
}

// The name of a column, unless the member is not there.
static ps_status read_column(const json_t *json, const char *path, const char *key,
                             ps_explore_columns columns, bool is_number, uint32_t *out)
{
    const char *name = NULL;
    char at[PS_SPEC_PATH_BYTES];
    *out = PS_NO_COLUMN;
    PS_TRY(ps_spec_text(path, json, key, &name));
    if (name == NULL) {
        return PS_OK;
    }
    ps_spec_path(at, path, key);
    return is_number ? ps_explore_metric_find(columns, at, name, out)
                     : ps_explore_column_find(columns, at, name, out);
}

static ps_status read_metric(const json_t *json, const char *path, ps_explore_columns columns,
                             ps_arena *arena, ps_expectation *out)
{
    uint32_t of = PS_EXPECT_VALUE;
    uint32_t then = PS_EXPECT_THEN_ALL;
    char at[PS_SPEC_PATH_BYTES];
    PS_TRY(read_column(json, path, "metric", columns, true, &out->metric));
    PS_TRY(read_column(json, path, "to", columns, true, &out->to));
    PS_TRY(read_column(json, path, "x", columns, true, &out->x));
    PS_TRY(read_column(json, path, "per", columns, false, &out->per));
    PS_TRY(ps_spec_choice(path, json, "of", OF, PS_EXPECT_OF_COUNT, &of));
    PS_TRY(ps_spec_choice(path, json, "then", THEN, PS_EXPECT_THEN_COUNT, &then));
    out->of = (ps_expect_of)of;
    out->then = (ps_expect_then)then;
    out->share = SHARE;
    PS_TRY(ps_spec_number(path, json, "at", -NUMBER_MAX, NUMBER_MAX, &out->at));
    PS_TRY(ps_spec_number(path, json, "share", 0, 1, &out->share));
    ps_spec_path(at, path, "where");
    PS_TRY(ps_explore_where_read(columns, at, json_object_get(json, "where"), arena, &out->where));
    const struct {
        bool is_wrong;
        const char *what;
    } RULES[] = {
        {out->metric == PS_NO_COLUMN && !out->is_unknown, "\"metric\" is missing"},
        {needs_x(out->of) && out->x == PS_NO_COLUMN, "\"x\" is missing: \"of\" looks along one"},
        {out->of == PS_EXPECT_RATIO_OF_MAX && out->to == PS_NO_COLUMN, "\"to\" is missing"},
        {out->of == PS_EXPECT_X_CROSSES && json_object_get(json, "at") == NULL,
         "\"at\" is missing"},
        {json_object_get(json, "then") != NULL && out->per == PS_NO_COLUMN,
         "\"then\" without \"per\""},
    };
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        if (RULES[i].is_wrong) {
            return ps_fail(PS_INVALID, "%s: %s", path, RULES[i].what);
        }
    }
    return PS_OK;
}

// Of what is answered: x's unit or the metric's.
static const char *unit_of(const ps_expectation *e, ps_explore_columns columns)
{
    const bool is_metric = e->of <= PS_EXPECT_MEAN && e->to == PS_NO_COLUMN;
    const uint32_t column = answers_x(e->of) ? e->x : is_metric ? e->metric : PS_NO_COLUMN;
    return column == PS_NO_COLUMN ? "" : columns.all[column].unit;
}

static ps_status read_number(const char *path, const json_t *value, const char *unit, double *out)
{
    if (strcmp(unit, "bytes") == 0 && json_is_string(value)) {
        return ps_explore_bytes_read(path, value, out);
    }
    *out = json_number_value(value);
    return json_is_number(value) ? PS_OK : ps_fail(PS_INVALID, "%s: a number would be right", path);
}

static ps_status read_paper(const json_t *json, const char *path, const char *unit,
                            ps_expectation *out)
{
    const json_t *value = json_object_get(json, "paper");
    char at[PS_SPEC_PATH_BYTES];
    ps_spec_path(at, path, "paper");
    if (value == NULL || json_is_null(value)) {
        return PS_OK;
    }
    const bool is_list = json_is_array(value);
    PS_TRY(is_list ? ps_spec_list(at, value, PS_EXPECT_PAPER_MAX) : PS_OK);
    out->paper_count = is_list ? (uint32_t)json_array_size(value) : 1;
    for (uint32_t i = 0; i < out->paper_count; i++) {
        PS_TRY(read_number(at, is_list ? json_array_get(value, i) : value, unit, &out->paper[i]));
    }
    return PS_OK;
}

static ps_status read_bounds(const json_t *json, const char *path, const char *unit,
                             ps_expectation *out)
{
    static const char *const KEYS[] = {"at_least", "at_most"};
    double *bounds[] = {&out->at_least, &out->at_most};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(json, KEYS[i]);
        char at[PS_SPEC_PATH_BYTES];
        ps_spec_path(at, path, KEYS[i]);
        *bounds[i] = NAN;
        PS_TRY(value == NULL ? PS_OK : read_number(at, value, unit, bounds[i]));
    }
    return PS_OK;
}

// One way to judge: a tolerance around the paper's values, or bounds.
static ps_status read_tolerance(const json_t *json, const char *path, ps_expectation *out)
{
    static const char *const KEYS[] = {"", "relative", "absolute", "steps"};
    uint32_t count = 0;
    for (uint32_t i = PS_EXPECT_RELATIVE; i <= PS_EXPECT_STEPS; i++) {
        if (json_object_get(json, KEYS[i]) != NULL) {
            PS_TRY(ps_spec_number(path, json, KEYS[i], 0, NUMBER_MAX, &out->tolerance));
            out->kind = (ps_expect_tolerance)i;
            count++;
        }
    }
    const bool has_bounds = !isnan(out->at_least) || !isnan(out->at_most);
    if (out->is_unknown && count == 0 && !has_bounds) {
        return PS_OK;
    }
    if (out->is_unknown || count + (has_bounds ? 1 : 0) != 1) {
        return ps_fail(PS_INVALID,
                       "%s: one of \"relative\", \"absolute\" and \"steps\", or bounds, would be "
                       "right%s",
                       path, out->is_unknown ? ", and none where the paper's value is null" : "");
    }
    if (count == 1 && out->paper_count == 0) {
        return ps_fail(PS_INVALID, "%s: \"paper\" is missing", path);
    }
    return out->kind == PS_EXPECT_STEPS && !answers_x(out->of)
               ? ps_fail(PS_INVALID, "%s: \"steps\" are for what answers an x", path)
               : PS_OK;
}

ps_status ps_expectation_read(const json_t *json, const char *path, ps_explore_columns columns,
                              ps_arena *arena, ps_expectation *out)
{
    static const char *const KEYS[] = {
        "what", "paper",  "relative", "absolute",       "steps",    "metric",  "where",
        "of",   "x",      "per",      "then",           "at_least", "at_most", "at",
        "to",   "source", "why",      "not_reproduced", "share"};
    ps_expectation e = {.tolerance = 0};
    PS_TRY(ps_spec_keys(path, json, KEYS, sizeof KEYS / sizeof KEYS[0]));
    PS_TRY(ps_spec_text_required(path, json, "what", &e.what));
    PS_TRY(ps_spec_text(path, json, "source", &e.source));
    PS_TRY(ps_spec_text(path, json, "why", &e.why));
    PS_TRY(ps_spec_text(path, json, "not_reproduced", &e.not_reproduced));
    e.is_unknown = json_is_null(json_object_get(json, "paper"));
    PS_TRY(read_metric(json, path, columns, arena, &e));
    const char *unit = unit_of(&e, columns);
    PS_TRY(read_paper(json, path, unit, &e));
    PS_TRY(read_bounds(json, path, unit, &e));
    PS_TRY(read_tolerance(json, path, &e));
    *out = e;
    return PS_OK;
}
