// cli/plot.h - pictures of numbers as SVG: lines, bars, heat maps, timelines.
//
// Every picture is one <svg> element whose colours and fonts are the classes of ps_plot_css, which
// knows light and dark. Eight colours are told apart by colour-blind readers; further series have
// other dashes, and neighbours always other marks. Names of any length and bytes are taken: cut
// where there is no room, whole in the element's <title>. Numbers that are not finite are "none":
// gaps in lines, bars that are not there, hatched cells; so are numbers beyond 1e150. The same
// input gives the same bytes. A title is for those who cannot see the picture: the one above it is
// the caller's. On failure (memory) *out may hold a part.
#ifndef PS_CLI_PLOT_H
#define PS_CLI_PLOT_H

#include "base/memory.h"

// A number with its unit as people read it: "192 MiB", "2.5 ms", "1.61"; "none" if it is none.
#define PS_PLOT_VALUE_BYTES 64u
void ps_plot_value_text(double value, const char *unit, char out[PS_PLOT_VALUE_BYTES]);

// The style of all pictures, for a <style> element.
extern const char ps_plot_css[];

// An axis: numbers, or places in a row.
typedef struct ps_plot_axis {
    const char *name;          // "batch"; NULL: none
    const char *unit;          // "ns", "bytes", ""; scaled to what is read easily
    bool is_log;               // numbers that are not above 0 have no place then
    const char *const *places; // [place_count], named; then numbers are indices. NULL: numbers
    uint32_t place_count;
} ps_plot_axis;

typedef struct ps_plot_series {
    const char *name;    // NULL: there is but one
    const double *x, *y; // [count]; lines go from one to the next
    uint32_t count;
} ps_plot_series;

// Something to compare with, in another shape: a point, or with x or y NAN a line across.
typedef struct ps_plot_mark {
    double x, y;
    uint32_t series; // whose colour it has; UINT32_MAX: none
    const char *label;
} ps_plot_mark;

// For lines and bars. Bars are at places of x; with is_log they begin at the axis' end.
typedef struct ps_plot {
    const char *title;
    ps_plot_axis x, y;
    const ps_plot_series *series;
    const ps_plot_mark *marks;
    uint32_t series_count, mark_count;
} ps_plot;

PS_MUST_USE ps_status ps_plot_lines(const ps_plot *plot, ps_buffer *out);
PS_MUST_USE ps_status ps_plot_bars(const ps_plot *plot, ps_buffer *out);

typedef struct ps_plot_panel {
    const char *name;     // NULL: there is but one
    const double *values; // [y.place_count][x.place_count]
} ps_plot_panel;

// Maps of one colour scale.
typedef struct ps_plot_heatmap {
    const char *title;
    ps_plot_axis x, y; // places both; y's first place is the lowest row
    const char *value_name, *value_unit;
    double center; // where colours part, such as a speedup of 1; NAN: one colour, light to dark
    const ps_plot_panel *panels;
    uint32_t panel_count;
} ps_plot_heatmap;

PS_MUST_USE ps_status ps_plot_heatmaps(const ps_plot_heatmap *map, ps_buffer *out);

typedef enum ps_timeline_lane {
    PS_TIMELINE_COMPUTE,
    PS_TIMELINE_COLLECTIVE,
    PS_TIMELINE_PREFETCH,
    PS_TIMELINE_LANES,
} ps_timeline_lane;

typedef struct ps_timeline_span {
    ps_timeline_lane lane;
    double begin_ns, end_ns; // 0 <= begin <= end
    const char *label;       // NULL: none
} ps_timeline_span;

typedef struct ps_timeline_policy {
    const char *name;              // "serial", "fused", "preserve"
    const ps_timeline_span *spans; // by begin_ns; those of a lane may overlap
    uint32_t span_count;
    double total_ns; // marked
} ps_timeline_policy;

// One layer under several policies, one beneath the other on one time axis.
typedef struct ps_timeline {
    const char *title; // NULL: that of its plot
    const ps_timeline_policy *policies;
    uint32_t policy_count;
} ps_timeline;

PS_MUST_USE ps_status ps_plot_timeline(const ps_timeline *timeline, ps_buffer *out);

#endif
