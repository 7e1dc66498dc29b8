// cli/plot_internal.h - scales, frames and marks that the pictures of plot.h share.
#ifndef PS_CLI_PLOT_INTERNAL_H
#define PS_CLI_PLOT_INTERNAL_H

#include "cli/plot.h"
#include "cli/svg.h"

#define PS_PLOT_WIDTH 720.0
#define PS_PLOT_MARGIN 14.0
#define PS_PLOT_LINE 17.0 // from one line of text to the next
#define PS_PLOT_TICKS_MAX 32u

// ---- plot_scale.c: which numbers an axis shows, and where

// What values an axis has to show; starts as zeros.
typedef struct ps_plot_range {
    double low, high;
    uint32_t count;       // of values with a place
    bool has_other_power; // a value that is no power of two
} ps_plot_range;

// Whether a value can be shown: finite, in magnitude at most 1e150, above 0 where the axis is
// logarithmic, and one of the places where it has those.
bool ps_plot_has_place(const ps_plot_axis *axis, double value);
void ps_plot_range_add(ps_plot_range *range, const ps_plot_axis *axis, double value);

// From numbers to pixels. Ticks are round numbers in the unit shown; the first is the low end of
// the axis, the last its high end. Places have none.
typedef struct ps_plot_scale {
    const ps_plot_axis *axis;
    double low, high;             // low < high
    double pixel_low, pixel_high; // set by whoever lays out
    uint32_t tick_count;
    double ticks[PS_PLOT_TICKS_MAX]; // rising
    double unit_size;                // in the axis' unit: 1e6 for ms of ns
    char unit[24];
} ps_plot_scale;

ps_plot_scale ps_plot_scale_make(const ps_plot_axis *axis, const ps_plot_range *range);

// The pixel of a value that has a place.
double ps_plot_scale_at(const ps_plot_scale *scale, double value);

// A tick of an axis of numbers, without the unit.
void ps_plot_tick_text(const ps_plot_scale *scale, double value, char out[PS_PLOT_VALUE_BYTES]);

// About three digits of a number, for where there is little room.
void ps_plot_short_text(double value, char out[PS_PLOT_VALUE_BYTES]);

// ---- plot_axis.c: what stands at axes

void ps_plot_begin(ps_svg *svg, const char *title, double height); // <svg>
void ps_plot_end(ps_svg *svg);

// Pixels that the names or numbers of an axis at the left take.
double ps_plot_left_width(const ps_plot_scale *scale);
// Those of places beneath, `step` pixels from one to the next. They stand aslant where they have
// no room; where there is none even so, some are left out.
double ps_plot_bottom_height(const ps_plot_scale *scale, double step);

// What stands at the left and beneath an area whose edges are there, without the axis' title.
void ps_plot_left_labels(ps_svg *svg, const ps_plot_scale *scale, double left);
void ps_plot_bottom_labels(ps_svg *svg, const ps_plot_scale *scale, double bottom);

// Names and units, in the middle of the scale.
void ps_plot_left_title(ps_svg *svg, const ps_plot_scale *scale, double x);
void ps_plot_bottom_title(ps_svg *svg, const ps_plot_scale *scale, double y);

// ---- plot_frame.c: lines' and bars' surroundings

typedef struct ps_plot_frame {
    const ps_plot *plot;
    bool is_bars;
    ps_plot_scale x, y;
    double left, top, right, bottom; // of the area inside
    double legend_top;
} ps_plot_frame;

// Begins a picture, and draws all but series, marks and legend.
void ps_plot_frame_begin(ps_svg *svg, const ps_plot *plot, bool is_bars, ps_plot_frame *out);
// Draws marks and legend, and ends the picture.
void ps_plot_frame_end(ps_svg *svg, const ps_plot_frame *frame);

// The left edge and the width of a bar.
double ps_plot_bar_at(const ps_plot_frame *frame, double place, uint32_t series, double *out_width);

// ---- plot_marks.c: points

#define PS_PLOT_COLOURS 8u

// The point of a series; with `name` it tells name, x and y to who points at it.
void ps_plot_point(ps_svg *svg, uint32_t series, double x, double y);
// What a line of the series has beside its colour, as an attribute or nothing.
const char *ps_plot_dash(uint32_t series);
// "name: x, y" as a <title>. name may be NULL.
void ps_plot_value_title(ps_svg *svg, const ps_plot *plot, const char *name, double x, double y);

void ps_plot_marks(ps_svg *svg, const ps_plot_frame *frame);
// Whether a mark is a point, the first of its label.
bool ps_plot_mark_is_named(const ps_plot *plot, uint32_t mark);
// The shape of a mark that is a point.
void ps_plot_mark_shape(ps_svg *svg, double x, double y);

#endif
