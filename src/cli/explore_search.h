// cli/explore_search.h - the best of many points.
//
// Half of the points are samples, spread evenly over the ranges or over their logarithms; the
// others go from the best one along one field after the other, up and down, by a stride that is
// halved whenever no field finds better. The same seed, spec and row choose the same points.
#ifndef PS_CLI_EXPLORE_SEARCH_H
#define PS_CLI_EXPLORE_SEARCH_H

#include "cli/explore_spec.h"

// Plays a row of the sweep with `extra` set and writes its metrics into cells [columns.count].
// PS_UNSUPPORTED: there is no such point.
typedef ps_status (*ps_explore_play_function)(void *context, uint32_t row,
                                              const ps_explore_settings *extra,
                                              ps_result_cell *cells);

// Writes what was chosen, and its metrics, into cells, which are filled in before.
//
// PS_UNSUPPORTED  none of the points can be, or is as the spec's "where" says
// otherwise as `play` fails
PS_MUST_USE ps_status ps_explore_search_row(const ps_explore_spec *spec,
                                            const ps_explore_fields *fields, uint32_t row,
                                            ps_explore_play_function play, void *context,
                                            ps_result_cell *cells);

#endif
