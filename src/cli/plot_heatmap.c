// cli/plot_heatmap.c - maps of cells side by side, with one scale of colours.
#include "cli/plot_internal.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define CELL_WIDTH_MAX 64.0
#define CELL_WIDTH_WANTED 36.0 // room for a value
#define CELL_HEIGHT_MAX 26.0
#define CELL_HEIGHT_MIN 3.0
#define MAP_HEIGHT 420.0
#define CELL_FONT 10.5
#define HATCH 6.0
#define SCALE_WIDTH 320.0
#define SCALE_STEPS 64

typedef struct map_layout {
    const ps_plot_heatmap *map;
    ps_plot_scale x, y, value; // x and y of a panel at 0, 0
    double left, top;          // of the cells in a panel
    double cell_width, cell_height;
    double panel_width, panel_height;
    uint32_t columns; // of panels
    bool has_gaps;
    double low, high; // values
} map_layout;

static double value_of(const map_layout *layout, uint32_t panel, uint32_t row, uint32_t column)
{
    return layout->map->panels[panel].values[(size_t)row * layout->map->x.place_count + column];
}

static ps_svg_colour colour_of(const map_layout *layout, double value)
{
    const double center = layout->map->center;
    const double low = layout->value.low;
    const double high = layout->value.high;
    if (isnan(center)) {
        return ps_svg_heat(0.06 + 0.9 * (value - low) / (high - low)); // neither white nor black
    }
    const double reach = fmax(fmax(high - center, center - low), 1e-150);
    return ps_svg_parting(0.5 + (value - center) / (2 * reach));
}

// ---- layout

static void find_values(map_layout *layout, const ps_plot_axis *axis)
{
    const ps_plot_heatmap *map = layout->map;
    ps_plot_range range = {0};
    for (uint32_t p = 0; p < map->panel_count; p++) {
        for (size_t i = 0; i < (size_t)map->x.place_count * map->y.place_count; i++) {
            ps_plot_range_add(&range, axis, map->panels[p].values[i]);
            layout->has_gaps |= !ps_plot_has_place(axis, map->panels[p].values[i]);
        }
    }
    layout->value = ps_plot_scale_make(axis, &range);
    // Colours go from the lowest value to the highest, whatever is round.
    if (range.count > 0 && range.high > range.low) {
        layout->value.low = range.low;
        layout->value.high = range.high;
    }
}

static void lay_out(map_layout *layout)
{
    const ps_plot_heatmap *map = layout->map;
    const uint32_t wide = map->x.place_count == 0 ? 1 : map->x.place_count;
    const uint32_t tall = map->y.place_count == 0 ? 1 : map->y.place_count;
    layout->left = ps_plot_left_width(&layout->y) + 10 +
                   (map->y.name == NULL ? 0 : PS_PLOT_LINE + 4);
    const double wanted = layout->left + wide * CELL_WIDTH_WANTED + 16;
    const double all = PS_PLOT_WIDTH - 2 * PS_PLOT_MARGIN;
    const double fitting = fmax(floor(all / wanted), 1);
    layout->columns = (uint32_t)fmin(fitting, fmax(map->panel_count, 1));
    layout->panel_width = all / layout->columns;
    layout->cell_width = fmin((layout->panel_width - layout->left - 16) / wide, CELL_WIDTH_MAX);
    layout->cell_height = fmin(fmax(MAP_HEIGHT / tall, CELL_HEIGHT_MIN), CELL_HEIGHT_MAX);
    const bool has_names = map->panel_count > 0 && map->panels[0].name != NULL;
    layout->top = has_names ? PS_PLOT_LINE + 4 : 4;
    layout->x.pixel_low = layout->left;
    layout->x.pixel_high = layout->left + wide * layout->cell_width;
    layout->y.pixel_high = layout->top;
    layout->y.pixel_low = layout->top + tall * layout->cell_height;
    layout->panel_height = layout->y.pixel_low +
                           ps_plot_bottom_height(&layout->x, layout->cell_width) +
                           (map->x.name == NULL ? 0 : PS_PLOT_LINE + 4) + 12;
}

// ---- cells

static void draw_hatching(ps_svg *svg, double x, double y, double width, double height)
{
    ps_svg_add(svg, "<path class=\"edge\" d=\"M%.2f %.2fh%.2fv%.2fh-%.2fz", x, y, width, height,
               width);
    const int lines = (int)((width + height) / HATCH);
    for (int i = 1; i <= lines; i++) {
        const double at = i * HATCH;
        const double x0 = fmin(at, width);
        const double y0 = at - x0;
        const double y1 = fmin(at, height);
        const double x1 = at - y1;
        ps_svg_add(svg, "M%.2f %.2fL%.2f %.2f", x + x0, y + y0, x + x1, y + y1);
    }
    ps_svg_add(svg, "\">");
}

static void draw_cell(ps_svg *svg, const map_layout *layout, uint32_t panel, uint32_t row,
                      uint32_t column)
{
    const ps_plot_heatmap *map = layout->map;
    const double value = value_of(layout, panel, row, column);
    const bool has_value = ps_plot_has_place(layout->value.axis, value);
    const double x = layout->left + column * layout->cell_width;
    const double y = layout->y.pixel_low - (row + 1) * layout->cell_height;
    const ps_svg_colour colour = has_value ? colour_of(layout, value) : (ps_svg_colour){0};
    char text[PS_PLOT_VALUE_BYTES];
    if (has_value) {
        ps_svg_add(svg, "<path fill=\"%s\" d=\"M%.2f %.2fh%.2fv%.2fh-%.2fz\">", colour.text, x, y,
                   layout->cell_width, layout->cell_height, layout->cell_width);
    } else {
        draw_hatching(svg, x, y, layout->cell_width, layout->cell_height);
    }
    ps_plot_value_text(has_value ? value : NAN, map->value_unit, text);
    ps_svg_add(svg, "<title>");
    ps_svg_text(svg, map->x.places[column]);
    ps_svg_add(svg, ", ");
    ps_svg_text(svg, map->y.places[row]);
    ps_svg_add(svg, ": %s</title></path>\n", text);
    ps_plot_short_text(value / layout->value.unit_size, text);
    const double width = ps_svg_text_width(text) * CELL_FONT / 12;
    if (has_value && width + 3 <= layout->cell_width && layout->cell_height >= CELL_FONT + 3) {
        ps_svg_add(svg,
                   "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" class=\"middle %s\">%s</text>\n",
                   x + layout->cell_width / 2, y + layout->cell_height / 2 + 4, CELL_FONT,
                   colour.is_dark ? "on-dark" : "on-light", text);
    }
}

static void draw_panel(ps_svg *svg, const map_layout *layout, uint32_t panel)
{
    const ps_plot_heatmap *map = layout->map;
    ps_svg_add(svg, "<g transform=\"translate(%.1f %.1f)\">\n",
               PS_PLOT_MARGIN + panel % layout->columns * layout->panel_width,
               PS_PLOT_MARGIN + panel / layout->columns * layout->panel_height);
    if (map->panels[panel].name != NULL) {
        ps_svg_label(svg, layout->left, layout->top - 7, "class=\"strong\"",
                     map->panels[panel].name, layout->panel_width - layout->left - 10);
    }
    for (uint32_t row = 0; row < map->y.place_count; row++) {
        for (uint32_t column = 0; column < map->x.place_count; column++) {
            draw_cell(svg, layout, panel, row, column);
        }
    }
    ps_plot_left_labels(svg, &layout->y, layout->left);
    ps_plot_bottom_labels(svg, &layout->x, layout->y.pixel_low);
    ps_plot_left_title(svg, &layout->y, 10);
    ps_plot_bottom_title(svg, &layout->x, layout->panel_height - 14);
    ps_svg_add(svg, "</g>\n");
}

// ---- the scale of colours

static void draw_scale(ps_svg *svg, const map_layout *layout, double y)
{
    const ps_plot_scale *scale = &layout->value;
    const double step = SCALE_WIDTH / SCALE_STEPS;
    char text[PS_PLOT_VALUE_BYTES];
    for (int i = 0; i < SCALE_STEPS; i++) {
        const double value = scale->low + (scale->high - scale->low) * (i + 0.5) / SCALE_STEPS;
        ps_svg_add(svg, "<path fill=\"%s\" d=\"M%.1f %.1fh%.1fv12h-%.1fz\"/>\n",
                   colour_of(layout, value).text, scale->pixel_low + i * step, y,
                   i == SCALE_STEPS - 1 ? step : step + 0.5,
                   i == SCALE_STEPS - 1 ? step : step + 0.5);
    }
    for (uint32_t i = 0; i < scale->tick_count; i++) {
        const double tick = scale->ticks[i];
        if (tick >= scale->low && tick <= scale->high) {
            const double x = ps_plot_scale_at(scale, tick);
            ps_plot_tick_text(scale, tick, text);
            ps_svg_add(svg, "<path class=\"edge\" d=\"M%.1f %.1fv16\"/>\n", x, y);
            ps_svg_label(svg, x, y + 29, "class=\"middle\"", text, 80);
        }
    }
    ps_plot_bottom_title(svg, scale, y + 45);
    if (layout->has_gaps) {
        const double x = scale->pixel_high + 40;
        draw_hatching(svg, x, y, 22, 12);
        ps_svg_add(svg, "</path>\n");
        ps_svg_label(svg, x + 30, y + 10, "", "none", 60);
    }
}

ps_status ps_plot_heatmaps(const ps_plot_heatmap *map, ps_buffer *out)
{
    ps_assert(map->x.places != NULL && map->y.places != NULL);
    ps_svg svg = {.out = out};
    const ps_plot_range none = {0};
    const ps_plot_axis axis = {.name = map->value_name, .unit = map->value_unit};
    map_layout layout = {.map = map,
                         .x = ps_plot_scale_make(&map->x, &none),
                         .y = ps_plot_scale_make(&map->y, &none)};
    find_values(&layout, &axis);
    lay_out(&layout);
    layout.value.pixel_low = PS_PLOT_MARGIN + layout.left;
    layout.value.pixel_high = layout.value.pixel_low + SCALE_WIDTH;
    const uint32_t rows = (map->panel_count + layout.columns - 1) / layout.columns;
    const double y = PS_PLOT_MARGIN + rows * layout.panel_height + 6;
    ps_plot_begin(&svg, map->title, y + 54);
    for (uint32_t p = 0; p < map->panel_count; p++) {
        draw_panel(&svg, &layout, p);
    }
    draw_scale(&svg, &layout, y);
    ps_plot_end(&svg);
    return svg.status;
}
