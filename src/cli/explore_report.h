// cli/explore_report.h - what a sweep found, as one HTML file.
//
// The file stands alone: its pictures and its style are inside, it runs no scripts and asks for
// nothing. It is light or dark as its reader's system is, and prints. All texts may hold anything:
// they are escaped, and what no file of this kind may hold becomes U+FFFD. The same input gives the
// same bytes. It is well-formed XML, too.
//
// Plots are the member "plots" of a spec, drawn from the rows of the section's table:
//
//     kind     "lines", "bars", "heatmap", "table" or "timeline"
//     title    above it; otherwise it is made of the names of the columns
//     about    a sentence beneath it
//     where    {column: value, or a list of values}: only rows that have them
//   lines, bars
//     x        a column. Numbers are an axis of lines; texts, and x of bars, are places in a row
//     y        a column of numbers, or a list of them
//     series   a column, or a list: a line, or a bar at each place, for each value
//     x_scale, y_scale   "linear" or "log"
//     marks    what a paper says, a list of {"x", "y", "series", "label"}: x, y or both; with x
//              alone or y alone it is a line across; "series" is a value of that column, or a
//              list of those of several, and gives it that one's colour and bar; the label is
//              otherwise "paper"
//   heatmap
//     x, y     columns
//     value    a column of numbers, the colour
//     panel    a column: a map for each value
//     center   a number: colours part there, such as at a speedup of 1
//   table
//     columns  a list of columns
//   timeline   of a layer; the caller plays it
//     machine, model   texts
//     workload, set    objects
//     policies         a list of texts
#ifndef PS_CLI_EXPLORE_REPORT_H
#define PS_CLI_EXPLORE_REPORT_H

#include "base/memory.h"
#include "cli/json_reader.h"
#include "cli/plot.h"
#include "cli/result_table.h"

typedef enum ps_report_verdict {
    PS_REPORT_CONFIRMED,
    PS_REPORT_NOT_REPRODUCED, // without a reason it is a surprise, and looks like one
    PS_REPORT_UNKNOWN,        // the paper's value is not known
} ps_report_verdict;

// Something that a paper says, as texts; NULL: none.
typedef struct ps_report_expectation {
    const char *what, *paper, *ours;
    const char *within; // the tolerance: "8 %", "at least"
    const char *source; // in the paper: "Table 1"
    const char *reason; // why it is not reproduced or not known, or another remark
    ps_report_verdict verdict;
} ps_report_expectation;

// A number that went into it.
typedef struct ps_report_parameter {
    const char *key, *value;
    const char *unit, *source; // NULL: none
    bool is_fitted;            // it was chosen so that results come out as the paper's
} ps_report_parameter;

// One spec. All is borrowed.
typedef struct ps_report_section {
    const char *title, *about;    // about: NULL: none
    const json_t *plots;          // NULL: none
    const ps_result_table *table; // NULL: none
    const ps_report_expectation *expectations;
    const ps_report_parameter *parameters;
    const ps_timeline *timelines; // the plots of kind "timeline", in their order
    uint32_t expectation_count, parameter_count, timeline_count;
} ps_report_section;

// Whether these plots can be drawn from rows of these columns; needs no rows. plots may be NULL.
//
// PS_INVALID  the message names the place and what would be right:
//             "plots[0].x: 'batc' is no column; the nearest is 'workload.batch'"
PS_MUST_USE ps_status ps_plots_check(const json_t *plots, const ps_result_column *columns,
                                     uint32_t count);

// Appends the file to *out. With several sections there is a table of contents.
//
// PS_INVALID    as ps_plots_check, or more plots of kind "timeline" than timelines
// PS_EXHAUSTED, PS_NO_MEMORY
PS_MUST_USE ps_status ps_explore_report_write(const ps_report_section *sections, uint32_t count,
                                              const char *title, ps_buffer *out);

#endif
