// cli/simulate_report.h - what `prestage simulate` found, as tables and as JSON.
#ifndef PS_CLI_SIMULATE_REPORT_H
#define PS_CLI_SIMULATE_REPORT_H

#include "cli/options.h"
#include "engine/simulate.h"
#include "explore/operators.h"

#define PS_SIMULATE_SIDES_MAX 16u

typedef struct ps_simulate_side {
    const char *name;
    ps_workload workload;
    ps_design_point point;
    const ps_operator_row *rows; // of its last step; NULL: not wanted
    uint32_t row_count;
} ps_simulate_side;

// All is borrowed.
typedef struct ps_simulate_report {
    const ps_simulation *simulation;
    ps_simulate_side sides[PS_SIMULATE_SIDES_MAX]; // the first has rows
    uint32_t side_count;
    bool has_operators; // are wanted
} ps_simulate_report;

void ps_simulate_report_print(const ps_simulate_report *report);
PS_MUST_USE ps_status ps_simulate_report_json(const ps_simulate_report *report);

#endif
