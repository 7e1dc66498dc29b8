// cli/explore_where.c - see explore_where.h.
#include "cli/explore_where.h"

#include "base/scan.h"
#include "cli/explore_fields.h"
#include "cli/explore_json.h"

#include <math.h>
#include <string.h>

#define VALUES_MAX ((size_t)256)
#define ROUNDING 1e-9

// What people type: the part behind the last dot, unless they typed dots.
static const char *typed_part(const char *name, bool is_whole)
{
    const char *dot = strrchr(name, '.');
    return is_whole || dot == NULL ? name : dot + 1;
}

static bool may_be(ps_explore_columns columns, uint32_t column, bool is_number)
{
    return !is_number || !columns.all[column].is_text;
}

static const char *nearest(ps_explore_columns columns, const char *word, bool is_number)
{
    const bool is_whole = strchr(word, '.') != NULL;
    const char *best = NULL;
    for (uint32_t i = 0; i < columns.count; i++) {
        const char *name = columns.all[i].name;
        const char *both[] = {best == NULL ? NULL : typed_part(best, is_whole),
                              typed_part(name, is_whole)};
        if (may_be(columns, i, is_number) && ps_nearest(ps_str_of(word), both, 2) == both[1]) {
            best = name;
        }
    }
    return best == NULL ? "" : best;
}

static ps_status find(ps_explore_columns columns, const char *path, const char *name,
                      bool is_number, uint32_t *out)
{
    for (uint32_t i = 0; i < columns.count; i++) {
        if (may_be(columns, i, is_number) && strcmp(name, columns.all[i].name) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s: '%s' is no column%s; the nearest is '%s'", path, name,
                   is_number ? " of numbers" : "", nearest(columns, name, is_number));
}

ps_status ps_explore_column_find(ps_explore_columns columns, const char *path, const char *name,
                                 uint32_t *out)
{
    return find(columns, path, name, false, out);
}

ps_status ps_explore_metric_find(ps_explore_columns columns, const char *path, const char *name,
                                 uint32_t *out)
{
    return find(columns, path, name, true, out);
}

ps_status ps_explore_cell_read(const ps_result_column *column, const char *path,
                               const json_t *value, ps_result_cell *out)
{
    if (column->is_text) {
        out->text = json_string_value(value);
        return out->text != NULL ? PS_OK : ps_fail(PS_INVALID, "%s: a text would be right", path);
    }
    if (strcmp(column->unit, "bytes") == 0) {
        return ps_explore_bytes_read(path, value, &out->number);
    }
    out->number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    return json_is_number(value) || json_is_boolean(value)
               ? PS_OK
               : ps_fail(PS_INVALID, "%s: a number would be right", path);
}

static ps_status read_condition(ps_explore_columns columns, const char *path, const char *name,
                                const json_t *value, ps_arena *arena, ps_explore_condition *out)
{
    const bool is_list = json_is_array(value);
    PS_TRY(is_list ? ps_spec_list(path, value, VALUES_MAX) : PS_OK);
    const uint32_t count = is_list ? (uint32_t)json_array_size(value) : 1;
    ps_result_cell *values = PS_ARENA_NEW(arena, ps_result_cell, count);
    if (values == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(ps_explore_column_find(columns, path, name, &out->column));
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(ps_explore_cell_read(&columns.all[out->column], path,
                                    is_list ? json_array_get(value, i) : value, &values[i]));
    }
    out->values = values;
    out->count = count;
    return PS_OK;
}

ps_status ps_explore_where_read(ps_explore_columns columns, const char *path, const json_t *value,
                                ps_arena *arena, ps_explore_where *out)
{
    *out = (ps_explore_where){0};
    if (value == NULL) {
        return PS_OK;
    }
    PS_TRY(ps_spec_is_object(path, value));
    ps_explore_condition *conditions = PS_ARENA_NEW(arena, ps_explore_condition,
                                                    json_object_size(value));
    if (conditions == NULL) {
        return PS_NO_MEMORY;
    }
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        char at[PS_SPEC_PATH_BYTES];
        ps_spec_path(at, path, key);
        PS_TRY(read_condition(columns, at, key, member, arena, &conditions[out->count]));
        out->count++;
    }
    out->conditions = conditions;
    return PS_OK;
}

bool ps_explore_cells_equal(bool is_text, ps_result_cell a, ps_result_cell b)
{
    if (is_text) {
        return a.text == b.text ||
               (a.text != NULL && b.text != NULL && strcmp(a.text, b.text) == 0);
    }
    if (isnan(a.number) || isnan(b.number)) {
        return isnan(a.number) && isnan(b.number);
    }
    return fabs(a.number - b.number) <= ROUNDING * fmax(fabs(a.number), fabs(b.number));
}

bool ps_explore_where_holds(ps_explore_columns columns, const ps_explore_where *where,
                            const ps_result_cell *row)
{
    for (uint32_t i = 0; i < where->count; i++) {
        const ps_explore_condition *condition = &where->conditions[i];
        bool holds = false;
        for (uint32_t j = 0; j < condition->count && !holds; j++) {
            holds = ps_explore_cells_equal(columns.all[condition->column].is_text,
                                           row[condition->column], condition->values[j]);
        }
        if (!holds) {
            return false;
        }
    }
    return true;
}
