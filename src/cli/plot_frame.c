// cli/plot_frame.c - what surrounds lines and bars: axes, grid, legend.
#include "cli/plot_internal.h"

#include <math.h>
#include <stddef.h>

#define INSIDE_HEIGHT 290.0
#define SWATCH 30.0 // what stands before a name
#define LEGEND_GAP 18.0
#define NAME_WIDTH_MAX 540.0
#define BARS_SHARE 0.8 // of a place

// ---- ranges

static void add_points(const ps_plot *plot, ps_plot_range *x, ps_plot_range *y)
{
    for (uint32_t s = 0; s < plot->series_count; s++) {
        const ps_plot_series *series = &plot->series[s];
        for (uint32_t i = 0; i < series->count; i++) {
            ps_plot_range_add(x, &plot->x, series->x[i]);
            if (ps_plot_has_place(&plot->x, series->x[i])) {
                ps_plot_range_add(y, &plot->y, series->y[i]);
            }
        }
    }
    // Marks have to be seen; whether an axis counts in powers of two is not theirs to say.
    const bool x_has_other = x->has_other_power;
    const bool y_has_other = y->has_other_power;
    for (uint32_t i = 0; i < plot->mark_count; i++) {
        ps_plot_range_add(x, &plot->x, plot->marks[i].x);
        ps_plot_range_add(y, &plot->y, plot->marks[i].y);
    }
    x->has_other_power = x_has_other;
    y->has_other_power = y_has_other;
}

static void make_scales(const ps_plot *plot, ps_plot_frame *frame)
{
    ps_plot_range x = {0};
    ps_plot_range y = {0};
    add_points(plot, &x, &y);
    if (frame->is_bars) {
        ps_plot_range_add(&y, &plot->y, 0); // bars begin there; logarithmic axes have no 0
    }
    frame->x = ps_plot_scale_make(&plot->x, &x);
    frame->y = ps_plot_scale_make(&plot->y, &y);
}

// ---- the legend

// Where the next name goes. Names stand side by side while a line has room.
typedef struct cursor {
    double x, y, next_x;
} cursor;

static cursor legend_start(const ps_plot_frame *frame)
{
    return (cursor){.next_x = frame->left, .y = frame->legend_top + PS_PLOT_LINE / 2};
}

static void advance(const ps_plot_frame *frame, const char *name, cursor *at)
{
    const double width = fmin(ps_svg_text_width(name), NAME_WIDTH_MAX) + SWATCH + LEGEND_GAP;
    if (at->next_x > frame->left && at->next_x + width > frame->right + LEGEND_GAP) {
        at->next_x = frame->left;
        at->y += PS_PLOT_LINE;
    }
    at->x = at->next_x;
    at->next_x += width;
}

// The height of what draw_legend makes.
static double legend_height(const ps_plot_frame *frame)
{
    const ps_plot *plot = frame->plot;
    cursor at = legend_start(frame);
    bool is_empty = true;
    for (uint32_t i = 0; i < plot->series_count; i++) {
        if (plot->series[i].name != NULL) {
            advance(frame, plot->series[i].name, &at);
            is_empty = false;
        }
    }
    for (uint32_t i = 0; i < plot->mark_count; i++) {
        if (ps_plot_mark_is_named(plot, i)) {
            advance(frame, plot->marks[i].label, &at);
            is_empty = false;
        }
    }
    return is_empty ? 0 : at.y + PS_PLOT_LINE / 2 - frame->legend_top;
}

static void draw_swatch(ps_svg *svg, const ps_plot_frame *frame, uint32_t series, double x,
                        double y)
{
    ps_svg_add(svg, "<g class=\"c%u\">", series % PS_PLOT_COLOURS);
    if (frame->is_bars) {
        ps_svg_add(svg, "<path class=\"fill\" d=\"M%.1f %.1fh16v10h-16z\"/>", x + 6, y - 5);
    } else {
        ps_svg_add(svg, "<path class=\"line\"%s d=\"M%.1f %.1fh24\"/>", ps_plot_dash(series), x, y);
        ps_plot_point(svg, series, x + 12, y);
        ps_svg_add(svg, "</path>");
    }
    ps_svg_add(svg, "</g>\n");
}

static void draw_legend(ps_svg *svg, const ps_plot_frame *frame)
{
    const ps_plot *plot = frame->plot;
    cursor at = legend_start(frame);
    for (uint32_t i = 0; i < plot->series_count; i++) {
        if (plot->series[i].name != NULL) {
            advance(frame, plot->series[i].name, &at);
            draw_swatch(svg, frame, i, at.x, at.y);
            ps_svg_label(svg, at.x + SWATCH, at.y + 4, "", plot->series[i].name, NAME_WIDTH_MAX);
        }
    }
    for (uint32_t i = 0; i < plot->mark_count; i++) {
        if (ps_plot_mark_is_named(plot, i)) {
            advance(frame, plot->marks[i].label, &at);
            ps_svg_add(svg, "<g class=\"ink\">");
            ps_plot_mark_shape(svg, at.x + 12, at.y);
            ps_svg_add(svg, "</path></g>\n");
            ps_svg_label(svg, at.x + SWATCH, at.y + 4, "", plot->marks[i].label, NAME_WIDTH_MAX);
        }
    }
}

// ---- the frame

static double lay_out(const ps_plot *plot, ps_plot_frame *frame)
{
    frame->left = PS_PLOT_MARGIN + ps_plot_left_width(&frame->y) + 8 +
                  (plot->y.name == NULL ? 0 : PS_PLOT_LINE + 4);
    frame->top = PS_PLOT_MARGIN;
    frame->right = PS_PLOT_WIDTH - 2 * PS_PLOT_MARGIN;
    frame->bottom = frame->top + INSIDE_HEIGHT;
    // Numbers at the ends of x keep off the edge, so that points do.
    const double inset = frame->x.axis->places == NULL ? 8 : 0;
    frame->x.pixel_low = frame->left + inset;
    frame->x.pixel_high = frame->right - inset;
    frame->y.pixel_low = frame->bottom;
    frame->y.pixel_high = frame->top + 8;
    const double step = (frame->right - frame->left) / (frame->x.high - frame->x.low);
    frame->legend_top = frame->bottom + ps_plot_bottom_height(&frame->x, step) + 6 +
                        (plot->x.name == NULL ? 0 : PS_PLOT_LINE + 6);
    return frame->legend_top + legend_height(frame) + 6;
}

static void draw_grid(ps_svg *svg, const ps_plot_frame *frame)
{
    ps_svg_add(svg, "<path class=\"grid\" d=\"");
    for (uint32_t i = 0; i < frame->y.tick_count; i++) {
        ps_svg_add(svg, "M%.1f %.1fH%.1f", frame->left,
                   ps_plot_scale_at(&frame->y, frame->y.ticks[i]), frame->right);
    }
    for (uint32_t i = 0; i < frame->x.tick_count; i++) {
        ps_svg_add(svg, "M%.1f %.1fV%.1f", ps_plot_scale_at(&frame->x, frame->x.ticks[i]),
                   frame->top, frame->bottom);
    }
    ps_svg_add(svg, "\"/>\n<path class=\"edge\" d=\"M%.1f %.1fV%.1fH%.1f", frame->left, frame->top,
               frame->bottom, frame->right);
    if (frame->y.tick_count > 0 && frame->y.low < 0 && frame->y.high > 0) {
        ps_svg_add(svg, "M%.1f %.1fH%.1f", frame->left, ps_plot_scale_at(&frame->y, 0),
                   frame->right);
    }
    ps_svg_add(svg, "\"/>\n");
}

static bool has_value(const ps_plot *plot)
{
    for (uint32_t s = 0; s < plot->series_count; s++) {
        for (uint32_t i = 0; i < plot->series[s].count; i++) {
            if (ps_plot_has_place(&plot->x, plot->series[s].x[i]) &&
                ps_plot_has_place(&plot->y, plot->series[s].y[i])) {
                return true;
            }
        }
    }
    return false;
}

void ps_plot_frame_begin(ps_svg *svg, const ps_plot *plot, bool is_bars, ps_plot_frame *out)
{
    *out = (ps_plot_frame){.plot = plot, .is_bars = is_bars};
    make_scales(plot, out);
    ps_plot_begin(svg, plot->title, lay_out(plot, out));
    draw_grid(svg, out);
    ps_plot_left_labels(svg, &out->y, out->left);
    ps_plot_bottom_labels(svg, &out->x, out->bottom);
    ps_plot_left_title(svg, &out->y, PS_PLOT_MARGIN + 10);
    ps_plot_bottom_title(svg, &out->x, out->legend_top - 10);
    if (!has_value(plot)) {
        ps_svg_label(svg, (out->left + out->right) / 2, (out->top + out->bottom) / 2,
                     "class=\"middle\"", "no values", out->right - out->left);
    }
}

void ps_plot_frame_end(ps_svg *svg, const ps_plot_frame *frame)
{
    ps_plot_marks(svg, frame);
    draw_legend(svg, frame);
    ps_plot_end(svg);
}

double ps_plot_bar_at(const ps_plot_frame *frame, double place, uint32_t series, double *out_width)
{
    const double step = (frame->x.pixel_high - frame->x.pixel_low) / (frame->x.high - frame->x.low);
    const double all = fmin(step * BARS_SHARE, 60.0 * frame->plot->series_count);
    *out_width = all / frame->plot->series_count;
    return ps_plot_scale_at(&frame->x, place) - all / 2 + series * *out_width;
}
