// cli/svg.h - pieces of SVG and HTML: text that is escaped, colours, how wide text is.
#ifndef PS_CLI_SVG_H
#define PS_CLI_SVG_H

#include "base/memory.h"

// Where a picture goes. The first failure (memory) stays in `status` and makes every later call do
// nothing, so it is looked at once, at the end.
typedef struct ps_svg {
    ps_buffer *out;
    ps_status status;
} ps_svg;

// As ps_buffer_printf. What comes from outside goes through ps_svg_text instead.
#define ps_svg_add(svg, ...)                                                                       \
    do {                                                                                           \
        if ((svg)->status == PS_OK) {                                                              \
            (svg)->status = ps_buffer_printf((svg)->out, __VA_ARGS__);                             \
        }                                                                                          \
    } while (0)

// Any bytes, escaped for text and attributes of XML and HTML. What is no UTF-8, what XML does not
// take, and marks that turn the direction of what follows become U+FFFD. NULL: nothing.
void ps_svg_text(ps_svg *svg, const char *text);

// The same in about so many pixels: longer text ends in an ellipsis.
void ps_svg_text_cut(ps_svg *svg, const char *text, double width);

// <text x y attributes>, cut to the width; then the whole is in its <title>.
void ps_svg_label(ps_svg *svg, double x, double y, const char *attributes, const char *text,
                  double width);

// About how many pixels a text takes, at 12 pixels sans-serif.
double ps_svg_text_width(const char *text);

typedef struct ps_svg_colour {
    char text[8]; // "#rrggbb"
    bool is_dark; // what stands on it is white
} ps_svg_colour;

// Light to dark, yellow, orange, red, black: share from 0 to 1.
ps_svg_colour ps_svg_heat(double share);

// From blue over a light middle at 0.5 to red.
ps_svg_colour ps_svg_parting(double share);

#endif
