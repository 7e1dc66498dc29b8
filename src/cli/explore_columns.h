// cli/explore_columns.h - the columns of a spec's results.
#ifndef PS_CLI_EXPLORE_COLUMNS_H
#define PS_CLI_EXPLORE_COLUMNS_H

#include "cli/explore_spec.h"

// Fills in the columns of a spec whose axes, search and baseline are there. Fails for memory.
PS_MUST_USE ps_status ps_explore_columns_make(ps_explore_spec *spec,
                                              const ps_explore_fields *fields, ps_arena *arena);

// Writes what playing a point, and its baseline (NULL: there is none), gave into its row.
void ps_explore_metrics_fill(const ps_explore_spec *spec, const ps_design_point *point,
                             const ps_design_point *baseline, ps_result_cell *cells);

#endif
