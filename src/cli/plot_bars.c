// cli/plot_bars.c - series as bars, side by side at each place.
#include "cli/plot_internal.h"

#include <math.h>
#include <stddef.h>

#define VALUE_FONT 10.0

// Where bars begin: at 0, or at the end of an axis that has none.
static double base_of(const ps_plot_scale *y)
{
    return y->low <= 0 && y->high >= 0 ? ps_plot_scale_at(y, 0) : y->pixel_low;
}

static void draw_value(ps_svg *svg, const ps_plot_frame *frame, double value, double middle,
                       double width, double end)
{
    char text[PS_PLOT_VALUE_BYTES];
    ps_plot_short_text(value / frame->y.unit_size, text);
    const double room = width * 12 / VALUE_FONT;
    if (ps_svg_text_width(text) <= room) {
        ps_svg_label(svg, middle, end, "class=\"middle\" font-size=\"10\"", text, room);
    }
}

static void draw_bar(ps_svg *svg, const ps_plot_frame *frame, const ps_plot_series *series,
                     uint32_t number, uint32_t i)
{
    const ps_plot *plot = frame->plot;
    if (!ps_plot_has_place(&plot->x, series->x[i]) || !ps_plot_has_place(&plot->y, series->y[i])) {
        return;
    }
    double width = 0;
    const double left = ps_plot_bar_at(frame, series->x[i], number, &width);
    const double base = base_of(&frame->y);
    const double end = ps_plot_scale_at(&frame->y, series->y[i]);
    const double thin = width > 6 ? width - 1.5 : width; // a gap, where there is room
    ps_svg_add(svg, "<path class=\"fill\" d=\"M%.1f %.1fh%.1fV%.1fh-%.1fz\">", left, base, thin,
               end, thin);
    ps_plot_value_title(svg, plot, series->name, series->x[i], series->y[i]);
    ps_svg_add(svg, "</path>\n");
    draw_value(svg, frame, series->y[i], left + thin / 2, width, end > base ? end + 11 : end - 3);
}

ps_status ps_plot_bars(const ps_plot *plot, ps_buffer *out)
{
    ps_assert(plot->x.places != NULL);
    ps_svg svg = {.out = out};
    ps_plot_frame frame;
    ps_plot_frame_begin(&svg, plot, true, &frame);
    for (uint32_t s = 0; s < plot->series_count; s++) {
        ps_svg_add(&svg, "<g class=\"c%u\">\n", s % PS_PLOT_COLOURS);
        for (uint32_t i = 0; i < plot->series[s].count; i++) {
            draw_bar(&svg, &frame, &plot->series[s], s, i);
        }
        ps_svg_add(&svg, "</g>\n");
    }
    ps_plot_frame_end(&svg, &frame);
    return svg.status;
}
