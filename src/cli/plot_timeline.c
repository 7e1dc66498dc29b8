// cli/plot_timeline.c - what a layer does when, policies one beneath the other.
#include "cli/plot_internal.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define ROW 24.0 // a lane, or a part of it where its spans overlap
#define ROW_GAP 4.0
#define PART_MAX 4u // parts of a lane; more spans at once lie on each other
#define POLICY_GAP 14.0
#define RIGHT 120.0   // for totals
#define WIDTH_MIN 0.8 // of a span

static const char *const LANES[PS_TIMELINE_LANES] = {"compute", "collective", "prefetch"};

// Which part of its lane each span of a policy takes, as it comes: the first that is free when it
// begins. Spans come by their beginning.
typedef struct lane_parts {
    double free_from[PS_TIMELINE_LANES][PART_MAX];
    uint32_t used[PS_TIMELINE_LANES];
} lane_parts;

static uint32_t take_part(lane_parts *parts, const ps_timeline_span *span)
{
    double *free_from = parts->free_from[span->lane];
    uint32_t part = 0;
    while (part + 1 < PART_MAX && free_from[part] > span->begin_ns) {
        part++;
    }
    free_from[part] = fmax(free_from[part], span->end_ns);
    if (part >= parts->used[span->lane]) {
        parts->used[span->lane] = part + 1;
    }
    return part;
}

static lane_parts parts_of(const ps_timeline_policy *policy)
{
    lane_parts parts = {0};
    for (uint32_t i = 0; i < policy->span_count; i++) {
        (void)take_part(&parts, &policy->spans[i]);
    }
    return parts;
}

static uint32_t rows_before(const lane_parts *parts, uint32_t lane)
{
    uint32_t rows = 0;
    for (uint32_t l = 0; l < lane; l++) {
        rows += parts->used[l];
    }
    return rows;
}

static double policy_height(const lane_parts *parts)
{
    return PS_PLOT_LINE + 4 + rows_before(parts, PS_TIMELINE_LANES) * (ROW + ROW_GAP) + POLICY_GAP;
}

// ---- drawing

static void draw_span(ps_svg *svg, const ps_plot_scale *time, const ps_timeline_span *span,
                      double y)
{
    const double x = ps_plot_scale_at(time, span->begin_ns);
    const double width = fmax(ps_plot_scale_at(time, span->end_ns) - x, WIDTH_MIN);
    char from[PS_PLOT_VALUE_BYTES];
    char takes[PS_PLOT_VALUE_BYTES];
    ps_plot_value_text(span->begin_ns, "ns", from);
    ps_plot_value_text(span->end_ns - span->begin_ns, "ns", takes);
    ps_svg_add(svg, "<path class=\"span c%u\" d=\"M%.2f %.1fh%.2fv%.1fh-%.2fz\"><title>",
               (uint32_t)span->lane, x, y, width, ROW, width);
    ps_svg_text(svg, span->label);
    ps_svg_add(svg, "%s%s from %s</title></path>\n", span->label == NULL ? "" : ": ", takes, from);
    // A word cut to a few letters says nothing.
    const double room = width - 6;
    if (span->label != NULL && (ps_svg_text_width(span->label) <= room || room >= 44)) {
        ps_svg_label(svg, x + width / 2, y + ROW / 2 + 4, "class=\"middle\"", span->label, room);
    }
}

static void draw_total(ps_svg *svg, const ps_timeline *timeline, uint32_t number,
                       const ps_plot_scale *time, double top, double bottom)
{
    const double total = timeline->policies[number].total_ns;
    const double first = timeline->policies[0].total_ns;
    const double x = ps_plot_scale_at(time, total);
    char text[PS_PLOT_VALUE_BYTES];
    char label[2 * PS_PLOT_VALUE_BYTES];
    ps_plot_value_text(rint(total / time->unit_size * 100) / 100 * time->unit_size, "ns", text);
    (void)snprintf(label, sizeof label, "%s", text);
    if (number > 0 && total > 0 && first > 0) {
        (void)snprintf(label, sizeof label, "%s (%.2f\xc3\x97)", text, first / total);
    }
    ps_svg_add(svg, "<g class=\"ink\"><path class=\"line\" d=\"M%.1f %.1fV%.1f\"/></g>\n", x, top,
               bottom);
    ps_svg_label(svg, x + 5, top + 11, "class=\"halo strong\"", label, RIGHT + 60);
}

static void draw_policy(ps_svg *svg, const ps_timeline *timeline, uint32_t number,
                        const ps_plot_scale *time, double y)
{
    const ps_timeline_policy *policy = &timeline->policies[number];
    const lane_parts all = parts_of(policy);
    const double top = y + PS_PLOT_LINE + 4;
    ps_svg_label(svg, PS_PLOT_MARGIN, y + 12, "class=\"strong\"", policy->name,
                 PS_PLOT_WIDTH - RIGHT);
    for (uint32_t lane = 0; lane < PS_TIMELINE_LANES; lane++) {
        if (all.used[lane] > 0) {
            const double at = top + rows_before(&all, lane) * (ROW + ROW_GAP);
            ps_svg_label(svg, time->pixel_low - 8, at + ROW / 2 + 4, "class=\"end\"", LANES[lane],
                         100);
        }
    }
    lane_parts placed = {0};
    for (uint32_t i = 0; i < policy->span_count; i++) {
        const ps_timeline_span *span = &policy->spans[i];
        const uint32_t row = rows_before(&all, span->lane) + take_part(&placed, span);
        draw_span(svg, time, span, top + row * (ROW + ROW_GAP));
    }
    draw_total(svg, timeline, number, time, y, y + policy_height(&all) - POLICY_GAP);
}

static void draw_axis(ps_svg *svg, const ps_plot_scale *time, double top, double bottom)
{
    ps_svg_add(svg, "<path class=\"grid\" d=\"");
    for (uint32_t i = 0; i < time->tick_count; i++) {
        ps_svg_add(svg, "M%.1f %.1fV%.1f", ps_plot_scale_at(time, time->ticks[i]), top, bottom);
    }
    ps_svg_add(svg, "\"/>\n<path class=\"edge\" d=\"M%.1f %.1fH%.1f\"/>\n", time->pixel_low, bottom,
               time->pixel_high);
    ps_plot_bottom_labels(svg, time, bottom);
    ps_plot_bottom_title(svg, time, bottom + 2 * PS_PLOT_LINE + 4);
}

static void check_spans(const ps_timeline *timeline)
{
    for (uint32_t p = 0; p < timeline->policy_count; p++) {
        const ps_timeline_policy *policy = &timeline->policies[p];
        for (uint32_t i = 0; i < policy->span_count; i++) {
            const ps_timeline_span *span = &policy->spans[i];
            ps_assert((uint32_t)span->lane < PS_TIMELINE_LANES);
            ps_assert(span->begin_ns >= 0 && span->end_ns >= span->begin_ns);
            ps_assert(i == 0 || span->begin_ns >= policy->spans[i - 1].begin_ns);
        }
    }
}

ps_status ps_plot_timeline(const ps_timeline *timeline, ps_buffer *out)
{
    check_spans(timeline);
    ps_svg svg = {.out = out};
    const ps_plot_axis axis = {.name = "time", .unit = "ns"};
    ps_plot_range range = {0};
    double height = PS_PLOT_MARGIN;
    ps_plot_range_add(&range, &axis, 0);
    for (uint32_t p = 0; p < timeline->policy_count; p++) {
        const ps_timeline_policy *policy = &timeline->policies[p];
        const lane_parts all = parts_of(policy);
        height += policy_height(&all);
        ps_plot_range_add(&range, &axis, policy->total_ns);
        for (uint32_t i = 0; i < policy->span_count; i++) {
            ps_plot_range_add(&range, &axis, policy->spans[i].end_ns);
        }
    }
    ps_plot_scale time = ps_plot_scale_make(&axis, &range);
    time.pixel_low = PS_PLOT_MARGIN + 74;
    time.pixel_high = PS_PLOT_WIDTH - RIGHT;
    ps_plot_begin(&svg, timeline->title, height + 2 * PS_PLOT_LINE + 16);
    draw_axis(&svg, &time, PS_PLOT_MARGIN, height);
    double y = PS_PLOT_MARGIN;
    for (uint32_t p = 0; p < timeline->policy_count; p++) {
        const lane_parts all = parts_of(&timeline->policies[p]);
        draw_policy(&svg, timeline, p, &time, y);
        y += policy_height(&all);
    }
    ps_plot_end(&svg);
    return svg.status;
}
