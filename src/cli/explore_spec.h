// cli/explore_spec.h - a sweep as it is asked for: points, and what they are compared with.
//
// The format is that of docs/explore.md. Reading is strict: an unknown key, a value that a field
// cannot have or a column that the results will not have is refused before anything is played, in
// one line with its path. Rows are numbered from 0, the first axis slowest; each has the columns
//
//     machine, model                  unless they are varied
//     the fields of the axes          in their order
//     the fields that are searched    what was chosen
//     all of ps_design_metrics
//     speedup, step_speedup           with a baseline: its total_ns and step_ns, divided by ours
//     baseline.<metric>               with a baseline
//     error                           a text: why this point cannot be; then it has no numbers
#ifndef PS_CLI_EXPLORE_SPEC_H
#define PS_CLI_EXPLORE_SPEC_H

#include "cli/explore_expect.h"
#include "cli/explore_fields.h"
#include "cli/explore_where.h"

#define PS_EXPLORE_AXES_MAX 8u
#define PS_EXPLORE_ZIPPED_MAX 8u
#define PS_EXPLORE_RANGES_MAX 8u
#define PS_EXPLORE_POLICIES_MAX 8u
#define PS_EXPLORE_SETTINGS_MAX 128u
#define PS_EXPLORE_POINTS_MAX ((uint64_t)10000000) // that are played, baselines apart
#define PS_EXPLORE_EXPECTATIONS_MAX ((size_t)256)
#define PS_EXPLORE_SPEC_BYTES ((size_t)1 << 31) // of memory

typedef struct ps_explore_setting {
    uint32_t field;
    ps_explore_value value;
} ps_explore_setting;

typedef struct ps_explore_settings {
    ps_explore_setting *all;
    uint32_t count;
} ps_explore_settings;

// Fields that vary together.
typedef struct ps_explore_axis {
    uint32_t fields[PS_EXPLORE_ZIPPED_MAX];
    uint32_t field_count;
    const ps_explore_value *values; // [count][field_count]
    uint32_t count;
} ps_explore_axis;

typedef struct ps_explore_range {
    uint32_t field;
    double from, to;
    bool is_log;
} ps_explore_range;

// For every point of the sweep the best of `points` over these ranges.
typedef struct ps_explore_search {
    ps_explore_range ranges[PS_EXPLORE_RANGES_MAX];
    uint32_t range_count; // 0: no search
    uint32_t column;      // what is to be best
    bool is_least;
    ps_explore_where where; // only points that are so
    uint32_t points;
    uint64_t seed;
} ps_explore_search;

// A plot of kind "timeline".
typedef struct ps_explore_policy {
    const char *name; // "serial", "fused", or as of --compare: "preserve", "preserve+fused"
    uint32_t prefetch, comm_schedule;
} ps_explore_policy;

typedef struct ps_explore_timeline {
    uint32_t plot; // its index
    ps_explore_settings settings;
    ps_explore_policy policies[PS_EXPLORE_POLICIES_MAX];
    uint32_t policy_count;
} ps_explore_timeline;

typedef struct ps_explore_spec {
    const char *title, *about; // about: NULL: none
    ps_explore_settings settings, baseline;
    bool has_baseline;
    ps_explore_axis axes[PS_EXPLORE_AXES_MAX];
    uint32_t axis_count;
    ps_explore_search search;
    const json_t *plots; // NULL: none
    ps_explore_timeline *timelines;
    uint32_t timeline_count;
    ps_expectation *expectations;
    uint32_t expectation_count;
    uint32_t row_count;
    ps_explore_columns columns;
    uint32_t search_first, metric_first, speedup_first; // columns; without a baseline there is no
                                                        // speedup_first
    const json_t *json;                                 // all of it
} ps_explore_spec;

// Reads a spec; names of machines and models are added to *fields. Texts are borrowed from `json`,
// the rest comes from the arena.
//
// PS_INVALID  as above. Messages do not name the file
// PS_NO_MEMORY, PS_EXHAUSTED
PS_MUST_USE ps_status ps_explore_spec_read(const json_t *json, ps_explore_fields *fields,
                                           ps_arena *arena, ps_explore_spec *out);

// Writes what is known of a row before it is played into cells [columns.count]; the others become
// none.
void ps_explore_row_fill(const ps_explore_spec *spec, uint32_t row, ps_result_cell *cells);

// The point of a row, with `extra` set last but for the baseline, and the baseline's where it is
// asked for. machines: [fields->machines.count].
void ps_explore_point_make(const ps_explore_spec *spec, const ps_explore_fields *fields,
                           const ps_machine *machines, uint32_t row,
                           const ps_explore_settings *extra, bool is_baseline,
                           ps_explore_point *out);

#endif
