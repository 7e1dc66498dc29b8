// cli/result_table.h - rows of named columns: what a sweep found, for tables, plots and checks.
#ifndef PS_CLI_RESULT_TABLE_H
#define PS_CLI_RESULT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ps_result_column {
    const char *name; // "model", "workload.batch", "machine.l2_bytes", "speedup", "step_ns"
    const char *unit; // "ns", "bytes"; "": none
    bool is_text;
} ps_result_column;

typedef union ps_result_cell {
    double number;    // NAN: none
    const char *text; // NULL: none
} ps_result_cell;

typedef struct ps_result_table {
    const ps_result_column *columns;
    uint32_t column_count, row_count;
    const ps_result_cell *cells; // [row_count][column_count]
} ps_result_table;

#endif
