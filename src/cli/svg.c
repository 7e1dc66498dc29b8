// cli/svg.c - escapes, widths and ramps of colour.
#include "cli/svg.h"

#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EM 12.0
#define ELLIPSIS "\xe2\x80\xa6"
#define REPLACEMENT 0xfffdu

// ---- text

// The code point at the start of a text that does not end there, U+FFFD for what may not be shown;
// goes behind it.
static uint32_t next_code_point(const char **text)
{
    uint32_t code_point = 0;
    // No more than are there: strlen of the whole text for each of its characters would be slow.
    const size_t bytes = ps_utf8_decode(*text, strnlen(*text, PS_UTF8_MAX_BYTES), &code_point);
    *text += bytes == 0 ? 1 : bytes;
    if (code_point == '\t' || code_point == '\n') {
        return ' ';
    }
    const bool is_control = code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
    const bool is_no_character = (code_point & 0xfffe) == 0xfffe;
    const bool turns = (code_point >= 0x202a && code_point <= 0x202e) ||
                       (code_point >= 0x2066 && code_point <= 0x2069);
    return bytes == 0 || is_control || is_no_character || turns ? REPLACEMENT : code_point;
}

static void add_code_point(ps_svg *svg, uint32_t code_point)
{
    const char *as = code_point == '<'    ? "&lt;"
                     : code_point == '>'  ? "&gt;"
                     : code_point == '&'  ? "&amp;"
                     : code_point == '"'  ? "&quot;"
                     : code_point == '\'' ? "&#39;"
                                          : NULL;
    if (svg->status != PS_OK) {
        return;
    }
    char bytes[PS_UTF8_MAX_BYTES];
    svg->status = as != NULL ? ps_buffer_append(svg->out, as, strlen(as))
                             : ps_buffer_append(svg->out, bytes, ps_utf8_encode(code_point, bytes));
}

void ps_svg_text(ps_svg *svg, const char *text)
{
    while (text != NULL && *text != '\0') {
        add_code_point(svg, next_code_point(&text));
    }
}

static double width_of(uint32_t code_point)
{
    if (code_point >= 0x1100) {
        return EM; // scripts with wide characters, and signs
    }
    if (code_point < 0x80 && strchr("ijl.,:;|!'()[] tfrI", (int)code_point) != NULL) {
        return 0.34 * EM;
    }
    if (code_point < 0x80 && strchr("mwMW@%", (int)code_point) != NULL) {
        return 0.9 * EM;
    }
    return (code_point >= 'A' && code_point <= 'Z') ? 0.7 * EM : 0.58 * EM;
}

double ps_svg_text_width(const char *text)
{
    double width = 0;
    while (text != NULL && *text != '\0') {
        width += width_of(next_code_point(&text));
    }
    return width;
}

void ps_svg_text_cut(ps_svg *svg, const char *text, double width)
{
    if (ps_svg_text_width(text) <= width) {
        ps_svg_text(svg, text);
        return;
    }
    double left = width - EM;
    while (*text != '\0') {
        const uint32_t code_point = next_code_point(&text);
        left -= width_of(code_point);
        if (left < 0) {
            break;
        }
        add_code_point(svg, code_point);
    }
    ps_svg_add(svg, ELLIPSIS);
}

void ps_svg_label(ps_svg *svg, double x, double y, const char *attributes, const char *text,
                  double width)
{
    ps_svg_add(svg, "<text x=\"%.1f\" y=\"%.1f\"%s%s>", x, y, *attributes == '\0' ? "" : " ",
               attributes);
    if (ps_svg_text_width(text) > width) {
        ps_svg_add(svg, "<title>");
        ps_svg_text(svg, text);
        ps_svg_add(svg, "</title>");
    }
    ps_svg_text_cut(svg, text, width);
    ps_svg_add(svg, "</text>\n");
}

// ---- colours

#define STOP(colour)                                                                               \
    {                                                                                              \
        (colour) >> 16, (colour) >> 8 & 0xff, (colour)&0xff                                        \
    }

static ps_svg_colour between(const uint8_t (*stops)[3], uint32_t count, double share)
{
    const double at = fmin(fmax(share, 0), 1) * (count - 1);
    const uint32_t lower = at >= count - 1 ? count - 2 : (uint32_t)at;
    double rgb[3];
    for (int i = 0; i < 3; i++) {
        rgb[i] = round(stops[lower][i] + (stops[lower + 1][i] - stops[lower][i]) * (at - lower));
    }
    ps_svg_colour colour = {.is_dark = 0.30 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] < 140};
    (void)snprintf(colour.text, sizeof colour.text, "#%02x%02x%02x", (unsigned)rgb[0],
                   (unsigned)rgb[1], (unsigned)rgb[2]);
    return colour;
}

ps_svg_colour ps_svg_heat(double share)
{
    static const uint8_t STOPS[][3] = {STOP(0xffffff), STOP(0xfff7dc), STOP(0xfeeab0),
                                       STOP(0xfed27a), STOP(0xfdae52), STOP(0xf57a38),
                                       STOP(0xd9451f), STOP(0xa0200f), STOP(0x4a0a06)};
    return between(STOPS, sizeof STOPS / sizeof STOPS[0], share);
}

ps_svg_colour ps_svg_parting(double share)
{
    static const uint8_t STOPS[][3] = {STOP(0x173f7d), STOP(0x3f78b5), STOP(0x9cc3e0),
                                       STOP(0xf4f2ec), STOP(0xf6b988), STOP(0xd9632f),
                                       STOP(0x8a2508)};
    return between(STOPS, sizeof STOPS / sizeof STOPS[0], share);
}
