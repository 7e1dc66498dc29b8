// cli/plot_spec.h - a plot as a spec asks for it, and how it is drawn from rows of a table.
#ifndef PS_CLI_PLOT_SPEC_H
#define PS_CLI_PLOT_SPEC_H

#include "cli/explore_where.h"
#include "cli/plot.h"
#include "cli/result_table.h"
#include "cli/svg.h"

#define PS_PLOT_LIST_MAX 64u // columns of a list
#define PS_PLOT_MARKS_MAX 256u
#define PS_PLOT_SERIES_MAX 64u
#define PS_PLOT_PLACES_MAX 256u
#define PS_PLOT_PANELS_MAX 64u
#define PS_PLOT_ROWS_MAX 2000u // of a table in HTML
#define PS_NO_COLUMN UINT32_MAX

typedef enum ps_plot_kind {
    PS_PLOT_LINES,
    PS_PLOT_BARS,
    PS_PLOT_HEATMAP,
    PS_PLOT_TABLE,
    PS_PLOT_TIMELINE,
    PS_PLOT_KINDS,
} ps_plot_kind;

typedef struct ps_plot_list {
    uint32_t count;
    uint32_t columns[PS_PLOT_LIST_MAX];
} ps_plot_list;

// Something to compare with, as a spec has it.
typedef struct ps_plot_spec_mark {
    bool has_x;
    ps_result_cell x;     // of the column of x
    double y;             // NAN: none
    const json_t *series; // a text, a number or a list of them; NULL: none
    const char *label;
} ps_plot_spec_mark;

// Borrows from the JSON. What its kind does not have is 0, NULL, NAN or PS_NO_COLUMN.
typedef struct ps_plot_spec {
    ps_plot_kind kind;
    const char *title, *about;
    uint32_t x, value, panel;
    ps_plot_list y, series, columns;
    bool x_is_log, y_is_log;
    double center;
    ps_explore_where where;
    const ps_plot_spec_mark *marks;
    uint32_t mark_count;
} ps_plot_spec;

// Reads plots[index] of a spec. PS_INVALID: see ps_plots_check in cli/explore_report.h.
PS_MUST_USE ps_status ps_plot_spec_read(const json_t *plot, size_t index,
                                        ps_explore_columns columns, ps_arena *arena,
                                        ps_plot_spec *out);

// What of the table was asked for and is not in the picture.
typedef struct ps_plot_notes {
    uint32_t rows;            // that `where` takes
    uint32_t doubled;         // of them, share their place with one before
    uint32_t without_place;   // numbers that are not above 0, on a logarithmic axis
    uint32_t series_left_out; // rows of series, places and panels beyond the most that are drawn
    uint32_t places_left_out;
    uint32_t panels_left_out;
    uint32_t rows_left_out;  // of a table
    uint32_t marks_left_out; // whose place or series no row has
} ps_plot_notes;

// Appends an <svg>, or of kind "table" a <table>. Not for timelines. Scratch from the arena.
// PS_EXHAUSTED, PS_NO_MEMORY
PS_MUST_USE ps_status ps_plot_spec_draw(const ps_plot_spec *spec, const ps_result_table *table,
                                        ps_arena *arena, ps_plot_notes *out_notes, ps_buffer *out);

// "workload.context_tokens" as "context tokens", "step_ns" as "step"; NULL without memory.
const char *ps_plot_column_name(const ps_result_column *column, ps_arena *arena);

// Columns of rows as <table>; rows NULL: the first ones. Numbers are as people read them, or with
// `exact` as they are, with the unit at the top.
PS_MUST_USE ps_status ps_plot_table(const ps_result_table *table, const ps_plot_list *columns,
                                    const uint32_t *rows, uint32_t row_count, bool exact,
                                    ps_buffer *out);

#endif
