// cli/plot_axis.c - titles, ticks and names of axes, and the style of all pictures.
#include "cli/plot_internal.h"

#include <math.h>
#include <stdio.h>

#define NAME_MAX_WIDTH 190.0
#define SLANT 40 // degrees
#define SLANT_SIN 0.643
#define SLANT_COS 0.766
#define GAP 7.0 // between names that stand side by side
#define TITLE_MAX_BYTES 640

// Eight colours, chosen by a search for pairs that stay apart (0.12 in OKLab) for readers with
// protanopia, deuteranopia and tritanopia, on white and on the dark ground.
#define COLOURS(c0, c1, c2, c3, c4, c5, c6, c7)                                                    \
    ".plot .c0{color:" c0 "}.plot .c1{color:" c1 "}.plot .c2{color:" c2 "}.plot .c3{color:" c3     \
    "}\n.plot .c4{color:" c4 "}.plot .c5{color:" c5 "}.plot .c6{color:" c6 "}.plot .c7{color:" c7  \
    "}\n"
#define GROUNDS(ground, text, grid, edge)                                                          \
    ".plot text{fill:" text "}.plot .grid{stroke:" grid "}.plot .edge{stroke:" edge                \
    "}.plot .ink{color:" text "}\n.plot .halo{stroke:" ground "}.plot .none{fill:" ground "}\n"

const char ps_plot_css[] =
    ".plot{font:12px system-ui,sans-serif;max-width:100%;height:auto}\n"
    ".plot .grid,.plot .edge{fill:none;stroke-width:1}\n"
    ".plot .line{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round}\n"
    ".plot .fill{fill:currentColor;stroke:none}.plot .open{stroke:currentColor;stroke-width:1.8}\n"
    ".plot .span{fill:currentColor;fill-opacity:.28;stroke:currentColor;stroke-width:1}\n"
    ".plot .halo{stroke-width:3;paint-order:stroke}.plot .end{text-anchor:end}\n"
    ".plot .middle{text-anchor:middle}.plot .strong{font-weight:600}\n"
    ".plot .on-light{fill:#202020}.plot .on-dark{fill:#fff}\n" GROUNDS("#ffffff", "#2b2b2b",
                                                                       "#e2e2e2", "#8a8a8a") //
    COLOURS("#294e8b", "#d34217", "#01886f", "#984ed1", "#df8c03", "#2a2205", "#15a7ca",
            "#7c2645") "@media screen and (prefers-color-scheme:dark){\n" //
    GROUNDS("#15181c", "#d8dade", "#31363d", "#7d848d")                   //
    COLOURS("#6a77ff", "#ff8406", "#53c088", "#b28dcf", "#ffc93e", "#f3f3dc", "#42dcff",
            "#b3697a") ".plot .on-light{fill:#202020}.plot .on-dark{fill:#fff}}\n";

void ps_plot_begin(ps_svg *svg, const char *title, double height)
{
    ps_svg_add(svg,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" "
               "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" aria-label=\"",
               PS_PLOT_WIDTH, height, PS_PLOT_WIDTH, height);
    ps_svg_text(svg, title);
    ps_svg_add(svg, "\">\n");
}

void ps_plot_end(ps_svg *svg)
{
    ps_svg_add(svg, "</svg>\n");
}

// ---- the widest

static double widest_place(const ps_plot_axis *axis)
{
    double widest = 0;
    for (uint32_t i = 0; i < axis->place_count; i++) {
        widest = fmax(widest, ps_svg_text_width(axis->places[i]));
    }
    return fmin(widest, NAME_MAX_WIDTH);
}

double ps_plot_left_width(const ps_plot_scale *scale)
{
    if (scale->axis->places != NULL) {
        return widest_place(scale->axis);
    }
    double widest = 0;
    for (uint32_t i = 0; i < scale->tick_count; i++) {
        char text[PS_PLOT_VALUE_BYTES];
        ps_plot_tick_text(scale, scale->ticks[i], text);
        widest = fmax(widest, ps_svg_text_width(text));
    }
    return widest;
}

double ps_plot_bottom_height(const ps_plot_scale *scale, double step)
{
    const double widest = scale->axis->places == NULL ? 0 : widest_place(scale->axis);
    return widest + GAP <= step ? PS_PLOT_LINE + 2 : widest * SLANT_SIN + PS_PLOT_LINE;
}

// ---- labels

static double step_of(const ps_plot_scale *scale)
{
    return fabs(scale->pixel_high - scale->pixel_low) / (scale->high - scale->low);
}

static void left_places(ps_svg *svg, const ps_plot_scale *scale, double left)
{
    const ps_plot_axis *axis = scale->axis;
    const uint32_t every = (uint32_t)ceil((PS_PLOT_LINE - 4) / step_of(scale));
    for (uint32_t i = 0; i < axis->place_count; i += every) {
        ps_svg_label(svg, left - 8, ps_plot_scale_at(scale, i) + 4, "class=\"end\"",
                     axis->places[i], NAME_MAX_WIDTH);
    }
}

void ps_plot_left_labels(ps_svg *svg, const ps_plot_scale *scale, double left)
{
    if (scale->axis->places != NULL) {
        left_places(svg, scale, left);
    }
    for (uint32_t i = 0; i < scale->tick_count; i++) {
        char text[PS_PLOT_VALUE_BYTES];
        ps_plot_tick_text(scale, scale->ticks[i], text);
        ps_svg_label(svg, left - 8, ps_plot_scale_at(scale, scale->ticks[i]) + 4, "class=\"end\"",
                     text, NAME_MAX_WIDTH);
    }
}

static void slanted_places(ps_svg *svg, const ps_plot_scale *scale, double bottom)
{
    const ps_plot_axis *axis = scale->axis;
    const uint32_t every = (uint32_t)ceil((PS_PLOT_LINE - 4) / (step_of(scale) * SLANT_SIN));
    for (uint32_t i = 0; i < axis->place_count; i += every) {
        const double x = ps_plot_scale_at(scale, i) + 4;
        const double y = bottom + 13;
        char attributes[96];
        (void)snprintf(attributes, sizeof attributes,
                       "class=\"end\" transform=\"rotate(-%d %.1f %.1f)\"", SLANT, x, y);
        // It must not leave the picture at its left.
        ps_svg_label(svg, x, y, attributes, axis->places[i],
                     fmin(NAME_MAX_WIDTH, (x - 4) / SLANT_COS));
    }
}

static void bottom_places(ps_svg *svg, const ps_plot_scale *scale, double bottom)
{
    const ps_plot_axis *axis = scale->axis;
    if (widest_place(axis) + GAP > step_of(scale)) {
        slanted_places(svg, scale, bottom);
        return;
    }
    for (uint32_t i = 0; i < axis->place_count; i++) {
        ps_svg_label(svg, ps_plot_scale_at(scale, i), bottom + PS_PLOT_LINE, "class=\"middle\"",
                     axis->places[i], NAME_MAX_WIDTH);
    }
}

void ps_plot_bottom_labels(ps_svg *svg, const ps_plot_scale *scale, double bottom)
{
    if (scale->axis->places != NULL) {
        bottom_places(svg, scale, bottom);
    }
    double free_from = 0;
    for (uint32_t i = 0; i < scale->tick_count; i++) {
        char text[PS_PLOT_VALUE_BYTES];
        ps_plot_tick_text(scale, scale->ticks[i], text);
        const double x = ps_plot_scale_at(scale, scale->ticks[i]);
        const double half = ps_svg_text_width(text) / 2;
        if (x - half >= free_from) {
            ps_svg_label(svg, x, bottom + PS_PLOT_LINE, "class=\"middle\"", text, NAME_MAX_WIDTH);
            free_from = x + half + GAP;
        }
    }
}

// ---- titles

static void axis_title(ps_svg *svg, const ps_plot_scale *scale, double x, double y,
                       const char *attributes)
{
    char text[TITLE_MAX_BYTES];
    const char *name = scale->axis->name;
    if (name == NULL) {
        return;
    }
    const bool has_unit = scale->axis->places == NULL && scale->unit[0] != '\0';
    (void)snprintf(text, sizeof text, "%.500s%s%s", name, has_unit && *name != '\0' ? ", " : "",
                   has_unit ? scale->unit : "");
    ps_svg_label(svg, x, y, attributes, text, fabs(scale->pixel_high - scale->pixel_low) + 40);
}

void ps_plot_left_title(ps_svg *svg, const ps_plot_scale *scale, double x)
{
    const double y = (scale->pixel_low + scale->pixel_high) / 2;
    char attributes[96];
    (void)snprintf(attributes, sizeof attributes,
                   "class=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"", x, y);
    axis_title(svg, scale, x, y, attributes);
}

void ps_plot_bottom_title(ps_svg *svg, const ps_plot_scale *scale, double y)
{
    axis_title(svg, scale, (scale->pixel_low + scale->pixel_high) / 2, y, "class=\"middle\"");
}
