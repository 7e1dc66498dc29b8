// cli/plot_groups.c - groups by search: there are few.
#include "cli/plot_groups.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t ps_plot_group_of(const ps_plot_groups *groups, uint32_t row)
{
    for (uint32_t g = 0; g < groups->count; g++) {
        bool is_same = true;
        for (uint32_t i = 0; i < groups->columns.count && is_same; i++) {
            const uint32_t column = groups->columns.columns[i];
            is_same = ps_explore_cells_equal(
                groups->table->columns[column].is_text, ps_plot_cell(groups->table, row, column),
                ps_plot_cell(groups->table, groups->first_rows[g], column));
        }
        if (is_same) {
            return g;
        }
    }
    return PS_NO_GROUP;
}

static int compare_rows(const void *a, const void *b, void *context)
{
    const ps_plot_groups *groups = context;
    const uint32_t column = groups->columns.columns[0];
    const double left = ps_plot_cell(groups->table, *(const uint32_t *)a, column).number;
    const double right = ps_plot_cell(groups->table, *(const uint32_t *)b, column).number;
    return left < right ? -1 : left > right ? 1 : 0;
}

ps_status ps_plot_groups_make(const ps_result_table *table, const ps_plot_list *columns,
                              const uint32_t *rows, uint32_t count, bool sorts, uint32_t limit,
                              ps_arena *arena, ps_plot_groups *out)
{
    const bool is_number = columns->count == 1 && !table->columns[columns->columns[0]].is_text;
    *out = (ps_plot_groups){.table = table, .columns = *columns, .limit = limit};
    out->first_rows = PS_ARENA_NEW(arena, uint32_t, limit);
    if (out->first_rows == NULL) {
        return PS_EXHAUSTED;
    }
    for (uint32_t i = 0; i < count; i++) {
        const bool is_none = is_number &&
                             isnan(ps_plot_cell(table, rows[i], columns->columns[0]).number);
        if ((sorts && is_none) || ps_plot_group_of(out, rows[i]) != PS_NO_GROUP) {
            continue;
        }
        if (out->count < limit) {
            out->first_rows[out->count++] = rows[i];
        } else {
            out->left_out++;
        }
    }
    if (sorts && is_number) {
        qsort_r(out->first_rows, out->count, sizeof *out->first_rows, compare_rows, out);
    }
    return PS_OK;
}

// ---- names

// Without an ending that says the unit: "_ns", "_bytes", "_gbs" of GB/s.
static size_t length_without_unit(const char *name, const char *unit)
{
    const size_t length = strlen(name);
    size_t at = length;
    for (size_t u = strlen(unit); u-- > 0;) {
        if (isalnum((unsigned char)unit[u]) == 0) {
            continue;
        }
        if (at == 0 || name[at - 1] != tolower((unsigned char)unit[u])) {
            return length;
        }
        at--;
    }
    return at > 1 && at < length && name[at - 1] == '_' ? at - 1 : length;
}

const char *ps_plot_column_name(const ps_result_column *column, ps_arena *arena)
{
    static const char *const PREFIXES[] = {"workload.", "machine.profile.", "machine."};
    const char *name = column->name;
    const bool is_baseline = strncmp(name, "baseline.", 9) == 0;
    for (size_t i = 0; i < sizeof PREFIXES / sizeof PREFIXES[0]; i++) {
        if (strncmp(name, PREFIXES[i], strlen(PREFIXES[i])) == 0) {
            name += strlen(PREFIXES[i]);
            break;
        }
    }
    const size_t length = length_without_unit(name, column->unit);
    char *text = ps_arena_strndup(arena, name, length);
    for (char *at = text; at != NULL && *at != '\0'; at++) {
        *at = *at == '_' || (is_baseline && *at == '.') ? ' ' : *at;
    }
    return text;
}

static const char *value_name(const ps_result_column *column, ps_result_cell cell, ps_arena *arena)
{
    if (column->is_text) {
        return cell.text == NULL ? "none" : cell.text;
    }
    char text[PS_PLOT_VALUE_BYTES];
    ps_plot_value_text(cell.number, column->unit, text);
    return ps_arena_strndup(arena, text, strlen(text));
}

const char *ps_plot_group_name(const ps_plot_groups *groups, uint32_t group, ps_arena *arena)
{
    const char *name = "";
    for (uint32_t i = 0; i < groups->columns.count; i++) {
        const uint32_t index = groups->columns.columns[i];
        const ps_result_column *column = &groups->table->columns[index];
        const char *of = column->is_text ? "" : ps_plot_column_name(column, arena);
        const char *value = value_name(
            column, ps_plot_cell(groups->table, groups->first_rows[group], index), arena);
        if (of == NULL || value == NULL) {
            return NULL;
        }
        name = ps_arena_printf(arena, "%s%s%s%s%s", name, i > 0 ? ", " : "", of,
                               *of == '\0' ? "" : " ", value);
        if (name == NULL) {
            return NULL;
        }
    }
    return name;
}

const char **ps_plot_group_values(const ps_plot_groups *groups, ps_arena *arena)
{
    const char **values = PS_ARENA_NEW(arena, const char *, groups->count);
    const uint32_t index = groups->columns.columns[0];
    for (uint32_t g = 0; g < groups->count && values != NULL; g++) {
        values[g] = value_name(&groups->table->columns[index],
                               ps_plot_cell(groups->table, groups->first_rows[g], index), arena);
        values = values[g] == NULL ? NULL : values;
    }
    return values;
}
