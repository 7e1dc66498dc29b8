// cli/heatmap_text.c - blocks of rising height on a terminal.
#include "cli/heatmap.h"

#include <math.h>

#define LABEL_COLUMNS 6   // "  12 |"
#define NUMBER_COLUMNS 16 // "|   0.987  0.654"

uint32_t ps_heatmap_level(const ps_heatmap *map, uint64_t uses)
{
    if (uses == 0) {
        return 0;
    }
    const double level = round(log2((double)uses / map->even)) + 4;
    return level < 1 ? 1 : level > PS_HEATMAP_LEVELS ? PS_HEATMAP_LEVELS : (uint32_t)level;
}

static void print_cell(uint32_t level, FILE *out)
{
    if (level == 0) {
        (void)fputc(' ', out);
    } else { // U+2581 to U+2588
        (void)fprintf(out, "\xe2\x96%c", (int)(0x80 + level));
    }
}

static void print_layer(const ps_heatmap *map, uint32_t layer, uint32_t per_cell, FILE *out)
{
    const uint64_t *uses = map->uses + (uint64_t)layer * map->experts;
    (void)fprintf(out, "%4u |", layer);
    for (uint32_t first = 0; first < map->experts; first += per_cell) {
        uint64_t most = 0;
        for (uint32_t e = first; e < first + per_cell && e < map->experts; e++) {
            most = uses[e] > most ? uses[e] : most;
        }
        print_cell(ps_heatmap_level(map, most), out);
    }
    if (map->is_whole) {
        (void)fprintf(out, "| %7.3f %6.3f", map->entropy[layer], map->gini[layer]);
    } else {
        (void)fputc('|', out);
    }
    (void)fputc('\n', out);
}

static void print_share(double share, FILE *out)
{
    if (isnan(share)) {
        (void)fprintf(out, " %8s", "");
    } else {
        (void)fprintf(out, " %6.1f %%", 100 * share);
    }
}

static void print_points(const ps_heatmap *map, FILE *out)
{
    const double keys = (double)map->layers * map->experts;
    (void)fprintf(out, "\nexperts    share  coverage  held out\n");
    for (uint32_t i = 0; i < map->point_count; i++) {
        const ps_coverage_point *point = &map->points[i];
        (void)fprintf(out, "%7u", point->experts);
        print_share(point->experts / keys, out);
        (void)fputc(' ', out);
        print_share(point->coverage, out);
        (void)fputc(' ', out);
        print_share(point->held_out, out);
        (void)fputc('\n', out);
    }
}

void ps_heatmap_text(const ps_heatmap *map, uint32_t width, FILE *out)
{
    const uint32_t room = (width < 40 ? 40 : width) - LABEL_COLUMNS -
                          (map->is_whole ? NUMBER_COLUMNS : 1);
    const uint32_t per_cell = (uint32_t)ps_divide_up(map->experts, room);
    const uint32_t cells = (uint32_t)ps_divide_up(map->experts, per_cell);
    (void)fprintf(out, "%s\n", map->title);
    (void)fprintf(out, "blank: never; ");
    print_cell(1, out);
    (void)fprintf(out, " 1/8 of the even share, ");
    print_cell(4, out);
    (void)fprintf(out, " the even share, ");
    print_cell(8, out);
    (void)fprintf(out, " 16 times it\n");
    if (per_cell > 1) {
        (void)fprintf(out, "a cell shows the hottest of %u experts\n", per_cell);
    }
    if (map->is_whole) {
        (void)fprintf(out, "layer %*s %7s %6s\n", (int)cells + 1, "", "entropy", "gini");
    }
    for (uint32_t l = 0; l < map->layers; l++) {
        print_layer(map, l, per_cell, out);
    }
    print_points(map, out);
}
