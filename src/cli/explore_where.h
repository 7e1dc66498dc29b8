// cli/explore_where.h - columns of a table by name, and rows by what they hold.
#ifndef PS_CLI_EXPLORE_WHERE_H
#define PS_CLI_EXPLORE_WHERE_H

#include "base/memory.h"
#include "cli/json_reader.h"
#include "cli/result_table.h"

typedef struct ps_explore_columns {
    const ps_result_column *all;
    uint32_t count;
} ps_explore_columns;

// PS_INVALID: there is no such column; the message has the path and the nearest.
PS_MUST_USE ps_status ps_explore_column_find(ps_explore_columns columns, const char *path,
                                             const char *name, uint32_t *out);

// The same of a column of numbers.
PS_MUST_USE ps_status ps_explore_metric_find(ps_explore_columns columns, const char *path,
                                             const char *name, uint32_t *out);

// A value of a column: a text, which is borrowed, a number, true or false for 1 and 0, and of bytes
// a text with a unit. PS_INVALID.
PS_MUST_USE ps_status ps_explore_cell_read(const ps_result_column *column, const char *path,
                                           const json_t *value, ps_result_cell *out);

// A column that has to hold one of some values.
typedef struct ps_explore_condition {
    uint32_t column;
    const ps_result_cell *values; // [count]
    uint32_t count;
} ps_explore_condition;

typedef struct ps_explore_where {
    const ps_explore_condition *conditions; // all of them have to hold
    uint32_t count;
} ps_explore_where;

// Reads {column: value or list of values}; value: NULL for none. Texts are borrowed from it, the
// rest comes from the arena. PS_INVALID.
PS_MUST_USE ps_status ps_explore_where_read(ps_explore_columns columns, const char *path,
                                            const json_t *value, ps_arena *arena,
                                            ps_explore_where *out);

// row: [columns.count]
bool ps_explore_where_holds(ps_explore_columns columns, const ps_explore_where *where,
                            const ps_result_cell *row);

// Equal texts, or numbers but for rounding. Of none: both are.
bool ps_explore_cells_equal(bool is_text, ps_result_cell a, ps_result_cell b);

#endif
