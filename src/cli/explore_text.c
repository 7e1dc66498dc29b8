// cli/explore_text.c - results as tables on a terminal.
#include "cli/explore_output.h"

#include <math.h>
#include <string.h>

#define ROWS_SHOWN 200u
#define COLUMNS_SHOWN 64u
#define CELL_WIDTH_MAX 60

// What is shown of the metrics, where it is known.
static const char *const SHOWN[] = {"speedup",      "step_speedup",         "step_ns", "total_ns",
                                    "tokens_per_s", "tokens_per_s_per_mm2", "error"};
#define SHOWN_COUNT (sizeof SHOWN / sizeof SHOWN[0])

// Texts in rows; widths grow with them.
typedef struct grid {
    const char **cells; // [row_count][column_count]
    uint32_t row_count, column_count;
} grid;

static void print_grid(const grid *g)
{
    int widths[COLUMNS_SHOWN] = {0};
    for (uint32_t i = 0; i < g->row_count * g->column_count; i++) {
        const int length = (int)strlen(g->cells[i]);
        int *width = &widths[i % g->column_count];
        *width = length > *width ? length : *width;
    }
    for (uint32_t row = 0; row < g->row_count; row++) {
        for (uint32_t i = 0; i < g->column_count; i++) {
            const int width = widths[i] < CELL_WIDTH_MAX ? widths[i] : CELL_WIDTH_MAX;
            (void)printf("| %-*s ", width, g->cells[row * g->column_count + i]);
        }
        (void)printf("|\n");
        for (uint32_t i = 0; i < g->column_count && row == 0; i++) {
            const int width = widths[i] < CELL_WIDTH_MAX ? widths[i] : CELL_WIDTH_MAX;
            (void)printf("| ");
            for (int j = 0; j < width; j++) {
                (void)putchar('-');
            }
            (void)printf(" %s", i + 1 == g->column_count ? "|\n" : "");
        }
    }
}

static const char *cell_text(const ps_result_column *column, ps_result_cell cell, ps_arena *arena)
{
    char text[PS_EXPLORE_NUMBER_BYTES];
    if (column->is_text) {
        return cell.text == NULL ? "" : cell.text;
    }
    ps_explore_number_print(cell.number, column->unit, text);
    return ps_arena_printf(arena, "%s", text);
}

// Whether a column has a value other than 0.
static bool has_value(const ps_result_table *table, uint32_t column)
{
    for (uint32_t row = 0; row < table->row_count; row++) {
        const ps_result_cell cell = table->cells[(size_t)row * table->column_count + column];
        if (table->columns[column].is_text ? cell.text != NULL
                                           : !isnan(cell.number) && cell.number != 0) {
            return true;
        }
    }
    return false;
}

static bool is_constant(const ps_result_table *table, uint32_t column)
{
    for (uint32_t row = 1; row < table->row_count; row++) {
        const ps_result_cell *cells = table->cells + (size_t)row * table->column_count;
        if (!ps_explore_cells_equal(table->columns[column].is_text, cells[column],
                                    table->cells[column])) {
            return false;
        }
    }
    return table->row_count > 1;
}

// What varies, then what came out.
static uint32_t choose_columns(const ps_explore_result *result, uint32_t *out)
{
    const ps_result_table *table = &result->table;
    const uint32_t metric_first = result->source->spec.metric_first;
    uint32_t count = 0;
    for (uint32_t i = 0; i < metric_first && count < COLUMNS_SHOWN - SHOWN_COUNT; i++) {
        if (!is_constant(table, i)) {
            out[count++] = i;
        }
    }
    for (size_t j = 0; j < SHOWN_COUNT; j++) {
        for (uint32_t i = metric_first; i < table->column_count; i++) {
            if (strcmp(table->columns[i].name, SHOWN[j]) == 0 && has_value(table, i)) {
                out[count++] = i;
            }
        }
    }
    return count;
}

ps_status ps_explore_table_print(const ps_explore_result *result, ps_arena *arena)
{
    const ps_result_table *table = &result->table;
    uint32_t columns[COLUMNS_SHOWN];
    const uint32_t count = choose_columns(result, columns);
    const uint32_t rows = table->row_count < ROWS_SHOWN ? table->row_count : ROWS_SHOWN;
    grid g = {PS_ARENA_NEW(arena, const char *, (uint64_t)(rows + 1) * count), rows + 1, count};
    if (g.cells == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        g.cells[i] = table->columns[columns[i]].name;
        for (uint32_t row = 0; row < rows; row++) {
            const char *text = cell_text(
                &table->columns[columns[i]],
                table->cells[(size_t)row * table->column_count + columns[i]], arena);
            if (text == NULL) {
                return PS_NO_MEMORY;
            }
            g.cells[(row + 1) * count + i] = text;
        }
    }
    (void)printf("%s\n\n", result->source->spec.title);
    print_grid(&g);
    if (rows < table->row_count) {
        (void)printf("and %u rows more; -o NAME writes all of them\n", table->row_count - rows);
    }
    return PS_OK;
}

// "confirmed", and a reason or remark behind it.
static const char *verdict_text(const ps_report_expectation *e, ps_arena *arena)
{
    static const char *const VERDICTS[] = {[PS_REPORT_CONFIRMED] = "confirmed",
                                           [PS_REPORT_NOT_REPRODUCED] = "not reproduced",
                                           [PS_REPORT_UNKNOWN] = "unknown"};
    ps_buffer text = {0};
    if (e->reason == NULL) {
        return VERDICTS[e->verdict];
    }
    const ps_status status = ps_buffer_printf(&text, "%s (%s)", VERDICTS[e->verdict], e->reason);
    const char *copy = status == PS_OK ? ps_arena_strndup(arena, text.data, text.length) : NULL;
    ps_buffer_deinit(&text);
    return copy;
}

#define EXPECTATION_COLUMNS 5u

ps_status ps_explore_expectations_print(const ps_explore_result *result, ps_arena *arena)
{
    const uint32_t count = result->source->spec.expectation_count;
    if (result->expectations == NULL || count == 0) {
        return PS_OK;
    }
    grid g = {
        .cells = PS_ARENA_NEW(arena, const char *, (uint64_t)(count + 1) * EXPECTATION_COLUMNS),
        .row_count = count + 1,
        .column_count = EXPECTATION_COLUMNS};
    if (g.cells == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i <= count; i++) {
        const ps_report_expectation *e = i == 0 ? NULL : &result->expectations[i - 1];
        const char *texts[EXPECTATION_COLUMNS] = {
            e == NULL ? "what" : e->what, e == NULL ? "paper" : e->paper,
            e == NULL ? "ours" : e->ours, e == NULL ? "within" : e->within,
            e == NULL ? "verdict" : verdict_text(e, arena)};
        if (texts[EXPECTATION_COLUMNS - 1] == NULL) {
            return PS_NO_MEMORY;
        }
        memcpy(g.cells + (size_t)i * EXPECTATION_COLUMNS, texts, sizeof texts);
    }
    (void)printf("\n");
    print_grid(&g);
    return PS_OK;
}

void ps_explore_summary_print(const ps_explore_result *results, uint32_t count)
{
    uint32_t verdicts[3] = {0};
    uint32_t remarked = 0;
    for (uint32_t i = 0; i < count; i++) {
        const ps_report_expectation *all = results[i].expectations;
        for (uint32_t j = 0; all != NULL && j < results[i].source->spec.expectation_count; j++) {
            verdicts[all[j].verdict]++;
            remarked += all[j].verdict == PS_REPORT_NOT_REPRODUCED &&
                        results[i].source->spec.expectations[j].not_reproduced != NULL;
        }
    }
    if (verdicts[0] + verdicts[1] + verdicts[2] > 0) {
        (void)printf("\n%u confirmed, %u not reproduced (%u of them with a reason), %u unknown\n",
                     verdicts[PS_REPORT_CONFIRMED], verdicts[PS_REPORT_NOT_REPRODUCED], remarked,
                     verdicts[PS_REPORT_UNKNOWN]);
    }
}
