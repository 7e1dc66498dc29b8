// cli/explore_output.h - what a sweep found, as files and as text.
#ifndef PS_CLI_EXPLORE_OUTPUT_H
#define PS_CLI_EXPLORE_OUTPUT_H

#include "cli/explore_inputs.h"

// The results of one spec. All is borrowed.
typedef struct ps_explore_result {
    const ps_explore_source *source;
    ps_result_table table;
    const ps_report_expectation *expectations; // [source->spec.expectation_count]; NULL: not judged
    ps_timeline *timelines;                    // [source->spec.timeline_count]; for HTML
} ps_explore_result;

// A table as CSV (RFC 4180), with a line of names first. PS_IO, PS_INVALID: a file of that name is
// there and `replace` is false.
PS_MUST_USE ps_status ps_explore_csv_write(const char *path, const ps_result_table *table,
                                           bool replace);

// All results as one JSON document; path NULL: to stdout.
PS_MUST_USE ps_status ps_explore_json_write(const char *path, const ps_explore_inputs *inputs,
                                            const ps_explore_result *results, uint32_t count,
                                            bool replace);

// All results as one HTML file.
PS_MUST_USE ps_status ps_explore_html_write(const char *path, ps_explore_inputs *inputs,
                                            const ps_explore_result *results, uint32_t count,
                                            bool replace);

// The rows of a result, of many the first ones, on stdout; and its expectations.
PS_MUST_USE ps_status ps_explore_table_print(const ps_explore_result *result, ps_arena *arena);
PS_MUST_USE ps_status ps_explore_expectations_print(const ps_explore_result *result,
                                                    ps_arena *arena);

// How many expectations of all results are met, in a line; nothing where there are none.
void ps_explore_summary_print(const ps_explore_result *results, uint32_t count);

#endif
