// cli/plot_table.c - rows as a table of HTML.
#include "cli/plot_groups.h"

#include <math.h>
#include <stdio.h>

static void add_head(ps_svg *html, const ps_result_table *table, const ps_plot_list *columns,
                     bool exact)
{
    ps_svg_add(html, "<div class=\"wide\"><table>\n<thead><tr>");
    for (uint32_t c = 0; c < columns->count; c++) {
        const ps_result_column *column = &table->columns[columns->columns[c]];
        ps_svg_add(html, "<th%s>", column->is_text ? "" : " class=\"number\"");
        ps_svg_text(html, column->name);
        if (exact && column->unit[0] != '\0') {
            ps_svg_add(html, " <span class=\"unit\">");
            ps_svg_text(html, column->unit);
            ps_svg_add(html, "</span>");
        }
        ps_svg_add(html, "</th>");
    }
    ps_svg_add(html, "</tr></thead>\n<tbody>\n");
}

static void add_cell(ps_svg *html, const ps_result_column *column, ps_result_cell cell, bool exact)
{
    char text[PS_PLOT_VALUE_BYTES];
    if (column->is_text) {
        ps_svg_add(html, "<td>");
        ps_svg_text(html, cell.text);
    } else {
        if (exact && isfinite(cell.number)) {
            (void)snprintf(text, sizeof text, "%.9g", cell.number);
        } else {
            ps_plot_value_text(cell.number, column->unit, text);
        }
        ps_svg_add(html, "<td class=\"number\">");
        ps_svg_text(html, text);
    }
    ps_svg_add(html, "</td>");
}

ps_status ps_plot_table(const ps_result_table *table, const ps_plot_list *columns,
                        const uint32_t *rows, uint32_t row_count, bool exact, ps_buffer *out)
{
    ps_svg html = {.out = out};
    add_head(&html, table, columns, exact);
    for (uint32_t r = 0; r < row_count; r++) {
        ps_svg_add(&html, "<tr>");
        for (uint32_t c = 0; c < columns->count; c++) {
            const uint32_t column = columns->columns[c];
            add_cell(&html, &table->columns[column],
                     ps_plot_cell(table, rows == NULL ? r : rows[r], column), exact);
        }
        ps_svg_add(&html, "</tr>\n");
    }
    if (row_count == 0) {
        ps_svg_add(&html, "<tr><td colspan=\"%u\">no rows</td></tr>\n", columns->count);
    }
    ps_svg_add(&html, "</tbody></table></div>\n");
    return html.status;
}
