// cli/heatmap.h - how a model's uses spread over layers and experts, as a picture.
#ifndef PS_CLI_HEATMAP_H
#define PS_CLI_HEATMAP_H

#include "base/memory.h"

#include <stdio.h>

#define PS_HEATMAP_LEVELS 8u
#define PS_HEATMAP_POINTS_MAX 32u

// What a set of so many experts covers, as shares; NaN: not known.
typedef struct ps_coverage_point {
    uint32_t experts;
    double coverage, held_out;
} ps_coverage_point;

typedef struct ps_heatmap {
    const char *title;
    uint32_t layers, experts;
    const uint64_t *uses;   // [layers][experts]
    double even;            // uses of an expert if all of its layer were used alike, > 0
    bool is_whole;          // uses are those of all experts, not of the hottest alone
    double *entropy, *gini; // [layers] as ps_uses_entropy and _gini say; where it is whole
    uint32_t point_count;
    ps_coverage_point points[PS_HEATMAP_POINTS_MAX]; // rising
} ps_heatmap;

// How dark uses are: 0 for none, then 1..PS_HEATMAP_LEVELS by powers of two; 4 is the even share.
uint32_t ps_heatmap_level(const ps_heatmap *map, uint64_t uses);

// Lines of at most `width` columns, at least 40: a cell for each expert, or for the hottest of as
// many as have to share one.
void ps_heatmap_text(const ps_heatmap *map, uint32_t width, FILE *out);

// Appends an SVG: the map, and the curve of coverage beneath it.
PS_MUST_USE ps_status ps_heatmap_svg(const ps_heatmap *map, ps_buffer *out);

#endif
