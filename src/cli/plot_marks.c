// cli/plot_marks.c - shapes of points, and marks of what there is to compare with.
#include "cli/plot_internal.h"

#include <math.h>
#include <string.h>

// Filled shapes around the point that the path is at: neighbours differ, and with eight colours
// fifty-six series do.
static const char *const SHAPES[] = {
    "m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0z",            // disc
    "m-3-3h6v6h-6z",                                               // square
    "m0-4.2l4 7h-8z",                                              // triangle
    "m0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z",                           // diamond
    "m0 4.2l4-7h-8z",                                              // triangle, upside down
    "m-1.4-4.2h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8h-2.8v-2.8h2.8z", // plus
    "m0-4.3l3.7 2.15v4.3l-3.7 2.15l-3.7-2.15v-4.3z",               // hexagon
};
#define SHAPE_COUNT (sizeof SHAPES / sizeof SHAPES[0])

// Dashes of each next eight series.
static const char *const DASHES[] = {"", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\"",
                                     " stroke-dasharray=\"9 3 2 3\""};
#define DASH_COUNT (sizeof DASHES / sizeof DASHES[0])

const char *ps_plot_dash(uint32_t series)
{
    return DASHES[series / PS_PLOT_COLOURS % DASH_COUNT];
}

void ps_plot_point(ps_svg *svg, uint32_t series, double x, double y)
{
    ps_svg_add(svg, "<path class=\"fill\" d=\"M%.1f %.1f%s\">", x, y, SHAPES[series % SHAPE_COUNT]);
}

static void value_of_axis(ps_svg *svg, const ps_plot_axis *axis, double value)
{
    if (axis->places != NULL) {
        ps_svg_text(svg, axis->places[(uint32_t)value]);
        return;
    }
    char text[PS_PLOT_VALUE_BYTES];
    ps_plot_value_text(value, axis->unit, text);
    ps_svg_text(svg, text);
}

void ps_plot_value_title(ps_svg *svg, const ps_plot *plot, const char *name, double x, double y)
{
    ps_svg_add(svg, "<title>");
    ps_svg_text(svg, name);
    ps_svg_add(svg, name == NULL ? "" : ": ");
    if (!isnan(x)) {
        value_of_axis(svg, &plot->x, x);
    }
    ps_svg_add(svg, isnan(x) || isnan(y) ? "" : ", ");
    if (!isnan(y)) {
        value_of_axis(svg, &plot->y, y);
    }
    ps_svg_add(svg, "</title>");
}

// ---- marks

bool ps_plot_mark_is_named(const ps_plot *plot, uint32_t mark)
{
    const ps_plot_mark *this = &plot->marks[mark];
    if (isnan(this->x) || isnan(this->y)) {
        return false;
    }
    for (uint32_t i = 0; i < mark; i++) {
        const ps_plot_mark *other = &plot->marks[i];
        if (!isnan(other->x) && !isnan(other->y) && strcmp(other->label, this->label) == 0) {
            return false;
        }
    }
    return true;
}

void ps_plot_mark_shape(ps_svg *svg, double x, double y)
{
    ps_svg_add(svg, "<path class=\"open none\" d=\"M%.1f %.1fm0-6l6 6l-6 6l-6-6z\">", x, y);
}

static void draw_point(ps_svg *svg, const ps_plot_frame *frame, const ps_plot_mark *mark)
{
    double x = ps_plot_scale_at(&frame->x, mark->x);
    if (frame->is_bars && mark->series < frame->plot->series_count) {
        double width = 0;
        x = ps_plot_bar_at(frame, mark->x, mark->series, &width);
        x += width / 2;
    }
    ps_plot_mark_shape(svg, x, ps_plot_scale_at(&frame->y, mark->y));
    ps_plot_value_title(svg, frame->plot, mark->label, mark->x, mark->y);
    ps_svg_add(svg, "</path>\n");
}

// A line across and what it is. Those of several lines are staggered.
static void draw_across(ps_svg *svg, const ps_plot_frame *frame, const ps_plot_mark *mark,
                        uint32_t number)
{
    const bool is_level = isnan(mark->x);
    const double at = is_level ? ps_plot_scale_at(&frame->y, mark->y)
                               : ps_plot_scale_at(&frame->x, mark->x);
    const double slot = (frame->right - frame->left) / 4;
    const bool flips = !is_level && at > (frame->left + frame->right) / 2 &&
                       at + 5 + ps_svg_text_width(mark->label) > frame->right;
    if (is_level) {
        ps_svg_add(svg, "<path class=\"line\" stroke-dasharray=\"5 4\" d=\"M%.1f %.1fH%.1f\">",
                   frame->left, at, frame->right);
    } else {
        ps_svg_add(svg, "<path class=\"line\" stroke-dasharray=\"5 4\" d=\"M%.1f %.1fV%.1f\">", at,
                   frame->top, frame->bottom);
    }
    ps_plot_value_title(svg, frame->plot, mark->label, mark->x, mark->y);
    ps_svg_add(svg, "</path>\n");
    const double x = is_level ? frame->right - 5 - slot * (number % 4) : at + (flips ? -5 : 5);
    const double y = is_level ? at - 5 : frame->top + 13 + PS_PLOT_LINE * (number % 8);
    ps_svg_label(svg, x, is_level && y < frame->top + 10 ? at + 13 : y,
                 is_level || flips ? "class=\"halo end\"" : "class=\"halo\"", mark->label,
                 is_level || flips ? x - frame->left : frame->right - x);
}

void ps_plot_marks(ps_svg *svg, const ps_plot_frame *frame)
{
    const ps_plot *plot = frame->plot;
    uint32_t across = 0;
    for (uint32_t i = 0; i < plot->mark_count; i++) {
        const ps_plot_mark *mark = &plot->marks[i];
        const bool has_x = ps_plot_has_place(&plot->x, mark->x);
        const bool has_y = ps_plot_has_place(&plot->y, mark->y);
        if ((!has_x && !isnan(mark->x)) || (!has_y && !isnan(mark->y)) || (!has_x && !has_y)) {
            continue;
        }
        if (mark->series < plot->series_count) {
            ps_svg_add(svg, "<g class=\"c%u\">\n", mark->series % PS_PLOT_COLOURS);
        } else {
            ps_svg_add(svg, "<g class=\"ink\">\n");
        }
        if (has_x && has_y) {
            draw_point(svg, frame, mark);
        } else {
            draw_across(svg, frame, mark, across++);
        }
        ps_svg_add(svg, "</g>\n");
    }
}
