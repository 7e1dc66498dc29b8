// cli/plot_groups.h - rows of a table by what some of their columns hold: series, places, panels.
#ifndef PS_CLI_PLOT_GROUPS_H
#define PS_CLI_PLOT_GROUPS_H

#include "cli/plot_spec.h"

#define PS_NO_GROUP UINT32_MAX

// Rows whose columns hold the same are a group. No columns: one group.
typedef struct ps_plot_groups {
    const ps_result_table *table;
    ps_plot_list columns;
    uint32_t limit;       // of groups
    uint32_t count;       //
    uint32_t *first_rows; // [count], of each group
    uint32_t left_out;    // rows of groups beyond the limit
} ps_plot_groups;

// By the order of rows, or of one column of numbers if `sorts`.
//
// rows  [count]  borrowed; those whose number is none make no group if `sorts`
//
// PS_EXHAUSTED, PS_NO_MEMORY
PS_MUST_USE ps_status ps_plot_groups_make(const ps_result_table *table, const ps_plot_list *columns,
                                          const uint32_t *rows, uint32_t count, bool sorts,
                                          uint32_t limit, ps_arena *arena, ps_plot_groups *out);

// PS_NO_GROUP: left out. O(groups).
uint32_t ps_plot_group_of(const ps_plot_groups *groups, uint32_t row);

// "llama3-8b, ranks 4"; "" for no columns, NULL without memory.
const char *ps_plot_group_name(const ps_plot_groups *groups, uint32_t group, ps_arena *arena);

// The names of all, without the names of columns: "4", "192 MiB". NULL without memory.
const char **ps_plot_group_values(const ps_plot_groups *groups, ps_arena *arena);

static inline ps_result_cell ps_plot_cell(const ps_result_table *table, uint32_t row,
                                          uint32_t column)
{
    return table->cells[(size_t)row * table->column_count + column];
}

#endif
