// cli/explore_report_plots.c - pictures with what is to be said of them, and the rows behind them.
#include "cli/explore_report_parts.h"
#include "cli/plot_groups.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 30)

// ---- titles

static const char *column_name(const ps_result_table *table, uint32_t column, ps_arena *arena)
{
    return ps_plot_column_name(&table->columns[column], arena);
}

// "speedup, step by batch"; NULL without memory.
static const char *make_title(const ps_plot_spec *spec, const ps_result_table *table,
                              ps_arena *arena)
{
    const bool is_map = spec->kind == PS_PLOT_HEATMAP;
    const char *of = is_map ? column_name(table, spec->value, arena) : "";
    for (uint32_t i = 0; i < spec->y.count && of != NULL && !is_map; i++) {
        const char *name = column_name(table, spec->y.columns[i], arena);
        of = name == NULL ? NULL : ps_arena_printf(arena, "%s%s%s", of, i == 0 ? "" : ", ", name);
    }
    const char *x = column_name(table, spec->x, arena);
    const char *y = is_map ? column_name(table, spec->y.columns[0], arena) : "";
    if (of == NULL || x == NULL || y == NULL) {
        return NULL;
    }
    return ps_arena_printf(arena, "%s by %s%s%s", of, x, is_map ? " and " : "", y);
}

static ps_status find_title(ps_plot_spec *spec, const ps_report_section *section,
                            const ps_timeline *timeline, ps_arena *arena)
{
    if (spec->title == NULL && timeline != NULL) {
        spec->title = timeline->title == NULL ? "The time of a layer" : timeline->title;
    } else if (spec->title == NULL && spec->kind == PS_PLOT_TABLE) {
        spec->title = "Rows";
    } else if (spec->title == NULL) {
        spec->title = make_title(spec, section->table, arena);
    }
    return spec->title == NULL ? PS_EXHAUSTED : PS_OK;
}

// ---- captions

static void add_value(ps_svg *html, const ps_result_column *column, ps_result_cell value)
{
    char text[PS_PLOT_VALUE_BYTES];
    if (column->is_text) {
        ps_svg_text(html, value.text == NULL ? "none" : value.text);
        return;
    }
    ps_plot_value_text(value.number, column->unit, text);
    ps_svg_text(html, text);
}

// "With batch 4 or 8, ranks 2."
static ps_status add_where(ps_svg *html, const ps_explore_where *where,
                           const ps_result_table *table, ps_arena *arena)
{
    for (uint32_t i = 0; i < where->count; i++) {
        const ps_explore_condition *condition = &where->conditions[i];
        const ps_result_column *column = &table->columns[condition->column];
        const char *name = ps_plot_column_name(column, arena);
        if (name == NULL) {
            return PS_EXHAUSTED;
        }
        ps_svg_add(html, i == 0 ? " With " : ", ");
        ps_svg_text(html, name);
        for (uint32_t v = 0; v < condition->count; v++) {
            ps_svg_add(html, v == 0 ? " " : " or ");
            add_value(html, column, condition->values[v]);
        }
    }
    ps_svg_add(html, where->count > 0 ? "." : "");
    return html->status;
}

static void add_note(ps_svg *html, const char *what, uint32_t count)
{
    if (count > 0) {
        ps_svg_add(html, " <span class=\"note\">%s: %u.</span>", what, count);
    }
}

static void add_notes(ps_svg *html, const ps_plot_notes *notes)
{
    add_note(html,
             "Rows that share their place with one before and are not shown (a narrower \"where\" "
             "or a further column in \"series\" would tell them apart)",
             notes->doubled);
    add_note(html, "Points that are not above 0 and have no place on a logarithmic axis",
             notes->without_place);
    add_note(html, "Rows of series beyond the most that are drawn", notes->series_left_out);
    add_note(html, "Rows of places beyond the most that are drawn", notes->places_left_out);
    add_note(html, "Rows of panels beyond the most that are drawn", notes->panels_left_out);
    add_note(html, "Further rows, which are not shown", notes->rows_left_out);
    add_note(html, "Marks of a place or a series that no row has", notes->marks_left_out);
}

// ---- figures

static ps_status add_figure(ps_svg *html, ps_plot_spec *spec, const ps_report_section *section,
                            const ps_timeline *timeline, ps_arena *arena)
{
    ps_plot_notes notes = {0};
    PS_TRY(find_title(spec, section, timeline, arena));
    ps_svg_add(html, "<figure>\n<h3>");
    ps_svg_text(html, spec->title);
    ps_svg_add(html, "</h3>\n");
    PS_TRY(html->status);
    if (timeline != NULL) {
        ps_timeline titled = *timeline;
        titled.title = spec->title;
        PS_TRY(ps_plot_timeline(&titled, html->out));
    } else {
        PS_TRY(ps_plot_spec_draw(spec, section->table, arena, &notes, html->out));
    }
    ps_svg_add(html, "<figcaption>");
    ps_svg_text(html, spec->about);
    if (timeline == NULL) {
        PS_TRY(add_where(html, &spec->where, section->table, arena));
        add_notes(html, &notes);
    }
    ps_svg_add(html, "</figcaption>\n</figure>\n");
    return html->status;
}

// One plot of a section; *timelines: how many are drawn.
static ps_status add_plot(ps_svg *html, const ps_report_section *section, size_t index,
                          uint32_t *timelines, ps_arena *arena)
{
    const ps_explore_columns columns = {section->table->columns, section->table->column_count};
    const ps_timeline *timeline = NULL;
    ps_plot_spec spec;
    PS_TRY(ps_plot_spec_read(json_array_get(section->plots, index), index, columns, arena, &spec));
    if (spec.kind == PS_PLOT_TIMELINE) {
        if (*timelines == section->timeline_count) {
            return ps_fail(PS_INVALID,
                           "plots[%zu]: %u timelines were played, and there are more plots of them",
                           index, *timelines);
        }
        timeline = &section->timelines[(*timelines)++];
    }
    return add_figure(html, &spec, section, timeline, arena);
}

ps_status ps_report_plots(ps_svg *html, const ps_report_section *section)
{
    const ps_result_table none = {0};
    ps_report_section filled = *section;
    filled.table = section->table == NULL ? &none : section->table;
    uint32_t timelines = 0;
    for (size_t i = 0; i < json_array_size(section->plots); i++) {
        ps_arena arena;
        ps_arena_init(&arena, ARENA_BYTES);
        const ps_status status = add_plot(html, &filled, i, &timelines, &arena);
        ps_arena_deinit(&arena);
        PS_TRY(status);
    }
    return PS_OK;
}

// ---- data

static bool is_constant(const ps_result_table *table, uint32_t column)
{
    const ps_result_cell first = ps_plot_cell(table, 0, column);
    for (uint32_t r = 1; r < table->row_count; r++) {
        if (!ps_explore_cells_equal(table->columns[column].is_text, first,
                                    ps_plot_cell(table, r, column))) {
            return false;
        }
    }
    return true;
}

// Columns that do not vary need no place in a table.
static void add_constants(ps_svg *html, const ps_result_table *table)
{
    const char *before = "<p class=\"quiet\">The same in all rows: ";
    for (uint32_t c = 0; c < table->column_count && table->row_count > 1; c++) {
        if (is_constant(table, c)) {
            ps_svg_add(html, "%s", before);
            ps_svg_text(html, table->columns[c].name);
            ps_svg_add(html, " ");
            add_value(html, &table->columns[c], ps_plot_cell(table, 0, c));
            before = "; ";
        }
    }
    ps_svg_add(html, *before == ';' ? ".</p>\n" : "");
}

ps_status ps_report_data(ps_svg *html, const ps_report_section *section)
{
    const ps_result_table *table = section->table;
    if (table == NULL || table->column_count == 0) {
        return PS_OK;
    }
    const uint32_t most = PS_PLOT_ROWS_MAX;
    const uint32_t rows = table->row_count < most ? table->row_count : most;
    ps_svg_add(html, "<details><summary>Data: %u rows</summary>\n", table->row_count);
    if (rows < table->row_count) {
        ps_svg_add(html, "<p class=\"note\">The first %u of them.</p>\n", rows);
    }
    add_constants(html, table);
    PS_TRY(html->status);
    ps_plot_list columns = {0};
    for (uint32_t c = 0; c < table->column_count; c++) {
        if (table->row_count < 2 || !is_constant(table, c)) {
            columns.columns[columns.count++] = c;
        }
        if (columns.count == PS_PLOT_LIST_MAX ||
            (c + 1 == table->column_count && columns.count > 0)) {
            PS_TRY(ps_plot_table(table, &columns, NULL, rows, true, html->out));
            columns.count = 0;
        }
    }
    ps_svg_add(html, "</details>\n");
    return html->status;
}
