// cli/heatmap_svg.c - the map as one path a level, runs of equal cells joined, and two curves.
#include "cli/heatmap.h"
#include "cli/svg.h"

#include <math.h>

#define MAP_COLUMNS 1024u // that experts fill at least, when they are few
#define CELL_MAX 16u
#define ROW 10u
#define LEFT 40u
#define TOP 40u
#define RIGHT 120u // entropy and gini
#define CURVE_WIDTH 480u
#define CURVE_HEIGHT 240u
#define CURVE_GAP 50u

static ps_status print_level(const ps_heatmap *map, uint32_t level, uint32_t cell, ps_buffer *out)
{
    const ps_svg_colour colour = ps_svg_heat((double)level / PS_HEATMAP_LEVELS);
    PS_TRY(ps_buffer_printf(out, "<path fill=\"%s\" d=\"", colour.text));
    for (uint32_t l = 0; l < map->layers; l++) {
        const uint64_t *uses = map->uses + (uint64_t)l * map->experts;
        for (uint32_t e = 0; e < map->experts;) {
            uint32_t end = e;
            while (end < map->experts && ps_heatmap_level(map, uses[end]) == level) {
                end++;
            }
            if (end > e) {
                PS_TRY(ps_buffer_printf(out, "M%u %uh%uv%uh-%uz", LEFT + e * cell, TOP + l * ROW,
                                        (end - e) * cell, ROW, (end - e) * cell));
            }
            e = end > e ? end : e + 1;
        }
    }
    return ps_buffer_printf(out, "\"/>\n");
}

static ps_status print_labels(const ps_heatmap *map, uint32_t right, ps_buffer *out)
{
    if (map->is_whole) {
        PS_TRY(ps_buffer_printf(out, "<text x=\"%u\" y=\"%u\">entropy, gini</text>\n", right + 8,
                                TOP - 6));
    }
    for (uint32_t l = 0; l < map->layers; l++) {
        const uint32_t y = TOP + l * ROW + ROW - 2;
        PS_TRY(ps_buffer_printf(out, "<text x=\"%u\" y=\"%u\" text-anchor=\"end\">%u</text>\n",
                                LEFT - 6, y, l));
        if (map->is_whole && !isnan(map->entropy[l])) {
            PS_TRY(ps_buffer_printf(out, "<text x=\"%u\" y=\"%u\">%.3f, %.3f</text>\n", right + 8,
                                    y, map->entropy[l], map->gini[l]));
        }
    }
    return PS_OK;
}

static double share_of(const ps_coverage_point *point, bool is_held_out)
{
    return is_held_out ? point->held_out : point->coverage;
}

static ps_status print_curve(const ps_heatmap *map, uint32_t top, bool is_held_out, ps_buffer *out)
{
    const double keys = (double)map->layers * map->experts;
    PS_TRY(ps_buffer_printf(out,
                            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                            is_held_out ? "#d9451f" : "#1f5fa0"));
    PS_TRY(ps_buffer_printf(out, "%u,%u", LEFT, top + CURVE_HEIGHT));
    for (uint32_t i = 0; i < map->point_count; i++) {
        const double share = share_of(&map->points[i], is_held_out);
        if (!isnan(share)) {
            PS_TRY(ps_buffer_printf(out, " %.1f,%.1f",
                                    LEFT + CURVE_WIDTH * (map->points[i].experts / keys),
                                    top + CURVE_HEIGHT * (1 - share)));
        }
    }
    return ps_buffer_printf(out, "\"/>\n");
}

static ps_status print_coverage(const ps_heatmap *map, uint32_t top, ps_buffer *out)
{
    PS_TRY(ps_buffer_printf(
        out,
        "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"none\" stroke=\"#888\"/>\n"
        "<text x=\"%u\" y=\"%u\">share of uses (0 to 100 %%) by share of experts (0 to 100 %%): "
        "<tspan fill=\"#1f5fa0\">what the set was made of</tspan>, "
        "<tspan fill=\"#d9451f\">held out</tspan></text>\n",
        LEFT, top, CURVE_WIDTH, CURVE_HEIGHT, LEFT, top - 6));
    PS_TRY(print_curve(map, top, false, out));
    return print_curve(map, top, true, out);
}

ps_status ps_heatmap_svg(const ps_heatmap *map, ps_buffer *out)
{
    const uint32_t fitting = MAP_COLUMNS / map->experts;
    const uint32_t cell = fitting < 2 ? 2 : fitting > CELL_MAX ? CELL_MAX : fitting;
    const uint32_t right = LEFT + map->experts * cell;
    const uint32_t curve_top = TOP + map->layers * ROW + CURVE_GAP;
    const uint32_t least = LEFT + CURVE_WIDTH;
    PS_TRY(ps_buffer_printf(out,
                            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                            "font-family=\"sans-serif\" font-size=\"9\">\n"
                            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
                            "<text x=\"%u\" y=\"16\" font-size=\"12\">",
                            (right > least ? right : least) + RIGHT, curve_top + CURVE_HEIGHT + 20,
                            LEFT));
    ps_svg svg = {.out = out};
    ps_svg_text(&svg, map->title);
    PS_TRY(svg.status);
    PS_TRY(ps_buffer_printf(out, "</text>\n"));
    for (uint32_t level = 1; level <= PS_HEATMAP_LEVELS; level++) {
        PS_TRY(print_level(map, level, cell, out));
    }
    PS_TRY(ps_buffer_printf(
        out, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"none\" stroke=\"#888\"/>\n",
        LEFT, TOP, map->experts * cell, map->layers * ROW));
    PS_TRY(print_labels(map, right, out));
    PS_TRY(print_coverage(map, curve_top, out));
    return ps_buffer_printf(out, "</svg>\n");
}
