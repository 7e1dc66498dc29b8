// exec/linear_internal.h - what linears and experts share. For files of exec/ only.
#ifndef PS_EXEC_LINEAR_INTERNAL_H
#define PS_EXEC_LINEAR_INTERNAL_H

#include "exec/exec_internal.h"

// The rows of a panel, as the kernels take them.
typedef struct ps_panel {
    const void *x[PS_PANEL_ROWS]; // rows, or tiles of rows
    float *y[PS_PANEL_ROWS];
    uint32_t rows;
} ps_panel;

// Turns the rows of a panel into tiles where the kernels take tiles.
void ps_linear_tile_rows(const ps_walk *walk, ps_dtype dtype, uint32_t columns, ps_panel *rows);

// Outputs [first, last) of one matrix into y[t] + (output - first), `first` a multiple of 16.
void ps_linear_run_outputs(const ps_walk *walk, const ps_weight *weight, const char *data,
                           uint32_t first, uint32_t last, const ps_panel *rows);

// One part of a gate_up: outputs [first, last) of both matrices for the rows of a panel, at most
// `width` of them, activated and stored as the output's dtype asks.
typedef struct ps_gate_up {
    const ps_weight *gate, *up;
    const char *gate_data, *up_data;
    ps_activation activation;
    ps_dtype x_dtype, y_dtype;     // of rows read and written,
    uint32_t x_columns, y_columns; // and the columns of all of them
    uint32_t first, last, width;
    char *output[PS_PANEL_ROWS]; // rows of the output
} ps_gate_up;

// Columns [begin, end) of the output for a panel of rows.
void ps_linear_run_gate_up(const ps_walk *walk, ps_gate_up *part, ps_panel *rows, uint32_t begin,
                           uint32_t end);

// Bytes at the start of a worker's scratch that these take for rows of so many columns.
uint64_t ps_linear_scratch_bytes(ps_dtype dtype, uint32_t columns);

#endif
