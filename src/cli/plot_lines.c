// cli/plot_lines.c - series as lines with points.
#include "cli/plot_internal.h"

#include <math.h>
#include <stddef.h>

#define POINTS_MAX 80u // of a series that are all marked; of others, those that stand alone

static bool is_shown(const ps_plot *plot, const ps_plot_series *series, uint32_t i)
{
    return i < series->count && ps_plot_has_place(&plot->x, series->x[i]) &&
           ps_plot_has_place(&plot->y, series->y[i]);
}

static void draw_line(ps_svg *svg, const ps_plot_frame *frame, const ps_plot_series *series,
                      uint32_t number)
{
    bool is_open = false;
    ps_svg_add(svg, "<path class=\"line\"%s d=\"", ps_plot_dash(number));
    for (uint32_t i = 0; i < series->count; i++) {
        const bool is_here = is_shown(frame->plot, series, i);
        if (is_here) {
            ps_svg_add(svg, "%s%.1f %.1f", is_open ? "L" : "M",
                       ps_plot_scale_at(&frame->x, series->x[i]),
                       ps_plot_scale_at(&frame->y, series->y[i]));
        }
        is_open = is_here;
    }
    ps_svg_add(svg, "\"/>\n");
}

static void draw_points(ps_svg *svg, const ps_plot_frame *frame, const ps_plot_series *series,
                        uint32_t number)
{
    for (uint32_t i = 0; i < series->count; i++) {
        const bool is_alone = (i == 0 || !is_shown(frame->plot, series, i - 1)) &&
                              !is_shown(frame->plot, series, i + 1);
        if (is_shown(frame->plot, series, i) && (series->count <= POINTS_MAX || is_alone)) {
            ps_plot_point(svg, number, ps_plot_scale_at(&frame->x, series->x[i]),
                          ps_plot_scale_at(&frame->y, series->y[i]));
            ps_plot_value_title(svg, frame->plot, series->name, series->x[i], series->y[i]);
            ps_svg_add(svg, "</path>\n");
        }
    }
}

ps_status ps_plot_lines(const ps_plot *plot, ps_buffer *out)
{
    ps_svg svg = {.out = out};
    ps_plot_frame frame;
    ps_plot_frame_begin(&svg, plot, false, &frame);
    for (uint32_t i = 0; i < plot->series_count; i++) {
        ps_svg_add(&svg, "<g class=\"c%u\">\n", i % PS_PLOT_COLOURS);
        draw_line(&svg, &frame, &plot->series[i], i);
        draw_points(&svg, &frame, &plot->series[i], i);
        ps_svg_add(&svg, "</g>\n");
    }
    ps_plot_frame_end(&svg, &frame);
    return svg.status;
}
