// cli/replay_report.c - see replay_report.h.
#include "cli/replay_report.h"

#include "cli/json_writer.h"

#include <inttypes.h>
#include <prestage/prestage.h>
#include <stdio.h>

static const char *const PHASES[PS_ROUTES_PHASES] = {"prompt", "decode"};

const char *ps_replay_policy_name(ps_expert_policy_kind kind)
{
    return kind == PS_REPLAY_BELADY ? "belady" : ps_expert_policy_name(kind);
}

static double part(uint64_t some, uint64_t all)
{
    return all == 0 ? 0 : (double)some / (double)all;
}

static double size_share(const ps_replay_report *r, uint32_t size)
{
    return part(r->options.slots[size], (uint64_t)r->shape.layers * r->shape.experts);
}

static const ps_replay_hits *hits_of(const ps_replay_report *r, uint32_t policy, uint32_t size)
{
    return r->result.cells[policy * r->options.size_count + size].phases;
}

// ---- text

static void print_head(const ps_replay_report *r)
{
    (void)printf("# %s: %u layers of %u experts, %u a token; %" PRIu64 " steps behind %" PRIu64
                 " that teach\n",
                 r->source, r->shape.layers, r->shape.experts, r->shape.top_k, r->result.steps,
                 r->options.learn_steps);
    for (uint32_t i = 0; i < PS_ROUTES_PHASES; i++) {
        const ps_replay_phase *phase = &r->result.phases[i];
        if (phase->pairs > 0) {
            (void)printf("# %s: %" PRIu64 " tokens, %" PRIu64 " pairs of token and expert, %" PRIu64
                         " distinct in their calls (%.1f %%)\n",
                         PHASES[i], phase->tokens, phase->pairs, phase->wishes,
                         100 * part(phase->wishes, phase->pairs));
        }
    }
}

static void print_row(const ps_replay_report *r, uint32_t policy, uint32_t size)
{
    const ps_replay_hits *hits = hits_of(r, policy, size);
    const ps_replay_hits *decode = &hits[PS_ROUTES_DECODE];
    const ps_replay_hits *prompt = &hits[PS_ROUTES_PROMPT];
    const ps_replay_phase *phases = r->result.phases;
    const uint64_t tokens = phases[PS_ROUTES_DECODE].tokens;
    const uint64_t wishes = phases[PS_ROUTES_DECODE].wishes;
    const double read = part(decode->missed, tokens);
    (void)printf("| %-6s | %7u | %6.2f | %6.2f | %6.2f | %6.2f | %10.1f |",
                 ps_replay_policy_name(r->options.policies[policy]), r->options.slots[size],
                 100 * size_share(r, size), 100 * ps_replay_hit_share(decode),
                 100 * part(decode->pinned, wishes), 100 * part(decode->cached, wishes), read);
    if (r->expert_bytes > 0) {
        (void)printf(" %9.1f |", read * (double)r->expert_bytes / 0x1p20);
    }
    if (phases[PS_ROUTES_PROMPT].wishes > 0) {
        (void)printf(" %6.2f |", 100 * ps_replay_hit_share(prompt));
    }
    (void)printf("\n");
}

void ps_replay_report_print(const ps_replay_report *report)
{
    const bool has_prompt = report->result.phases[PS_ROUTES_PROMPT].wishes > 0;
    const bool has_bytes = report->expert_bytes > 0;
    print_head(report);
    (void)printf("| policy | experts |  of all |   hits | pinned | cached | read/token |%s%s\n",
                 has_bytes ? " MiB/token |" : "", has_prompt ? " prompt |" : "");
    (void)printf("| ------ | ------: | -----: | -----: | -----: | -----: | ---------: |%s%s\n",
                 has_bytes ? " --------: |" : "", has_prompt ? " -----: |" : "");
    for (uint32_t policy = 0; policy < report->options.policy_count; policy++) {
        for (uint32_t size = 0; size < report->options.size_count; size++) {
            print_row(report, policy, size);
        }
    }
}

// ---- JSON

static void add_phases(const ps_replay_report *r, ps_json_writer *json)
{
    ps_json_begin(json, "phases", '[');
    for (uint32_t i = 0; i < PS_ROUTES_PHASES; i++) {
        const ps_replay_phase *phase = &r->result.phases[i];
        ps_json_begin_inline(json, NULL, '{');
        ps_json_text(json, "phase", PHASES[i]);
        ps_json_integer(json, "tokens", (int64_t)phase->tokens);
        ps_json_integer(json, "pairs", (int64_t)phase->pairs);
        ps_json_integer(json, "distinct", (int64_t)phase->wishes);
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
}

static void add_hits(const ps_replay_report *r, const char *key, const ps_replay_hits *hits,
                     ps_json_writer *json)
{
    ps_json_begin_inline(json, key, '{');
    ps_json_integer(json, "pinned", (int64_t)hits->pinned);
    ps_json_integer(json, "cached", (int64_t)hits->cached);
    ps_json_integer(json, "missed", (int64_t)hits->missed);
    ps_json_number(json, "hit_share", ps_replay_hit_share(hits));
    if (r->expert_bytes > 0) {
        ps_json_number(json, "read_bytes", (double)hits->missed * (double)r->expert_bytes);
    }
    ps_json_end(json, '}');
}

ps_status ps_replay_report_json(const ps_replay_report *report)
{
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "source", report->source);
    ps_json_integer(&json, "layers", report->shape.layers);
    ps_json_integer(&json, "experts", report->shape.experts);
    ps_json_integer(&json, "top_k", report->shape.top_k);
    ps_json_integer(&json, "learn_steps", (int64_t)report->options.learn_steps);
    ps_json_integer(&json, "steps", (int64_t)report->result.steps);
    add_phases(report, &json);
    ps_json_begin(&json, "results", '[');
    for (uint32_t i = 0; i < report->options.policy_count * report->options.size_count; i++) {
        const uint32_t policy = i / report->options.size_count;
        const uint32_t size = i % report->options.size_count;
        const ps_replay_hits *hits = hits_of(report, policy, size);
        ps_json_begin(&json, NULL, '{');
        ps_json_text(&json, "policy", ps_replay_policy_name(report->options.policies[policy]));
        ps_json_integer(&json, "experts", report->options.slots[size]);
        ps_json_number(&json, "share", size_share(report, size));
        for (uint32_t phase = 0; phase < PS_ROUTES_PHASES; phase++) {
            add_hits(report, PHASES[phase], &hits[phase], &json);
        }
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

// ---- picture

#define WIDTH 640.0
#define HEIGHT 400.0
#define LEFT 56.0
#define TOP 24.0
#define RIGHT 96.0 // names of the curves
#define BOTTOM 48.0
#define TICKS 5

static const char *const COLOURS[PS_REPLAY_COLUMNS_MAX] = {"#b40426", "#3b4cc0", "#1b9e77",
                                                           "#7570b3", "#e6860b", "#777777"};

// Of a part of all experts, up to `most`; of a part of wishes.
static double x_of(double share, double most)
{
    return LEFT + share / most * (WIDTH - LEFT - RIGHT);
}

static double y_of(double share)
{
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static ps_status draw_axes(double most, ps_buffer *out)
{
    for (int i = 0; i <= TICKS; i++) {
        const double share = (double)i / TICKS;
        PS_TRY(ps_buffer_printf(out,
                                "<path stroke=\"#dddddd\" d=\"M%.1f %.1fH%.1f\"/>\n"
                                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n"
                                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.3g</text>\n",
                                LEFT, y_of(share), WIDTH - RIGHT, LEFT - 6, y_of(share) + 4,
                                100 * share, x_of(share * most, most), HEIGHT - BOTTOM + 16,
                                100 * share * most));
    }
    return ps_buffer_printf(
        out,
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">experts in memory, "
        "%% of all</text>\n<text x=\"%.1f\" y=\"14\">hits of decoding, %%</text>\n",
        (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, LEFT);
}

// A command line's sizes come in any order.
static void sort_sizes(const ps_replay_report *r, uint32_t *order)
{
    for (uint32_t i = 0; i < r->options.size_count; i++) {
        uint32_t at = i;
        for (; at > 0 && r->options.slots[order[at - 1]] > r->options.slots[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

static ps_status draw_curve(const ps_replay_report *r, uint32_t policy, const uint32_t *order,
                            double most, ps_buffer *out)
{
    const uint32_t count = r->options.size_count;
    const char *colour = COLOURS[r->options.policies[policy]];
    const char *name = ps_replay_policy_name(r->options.policies[policy]);
    PS_TRY(ps_buffer_printf(
        out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour));
    double y = 0;
    for (uint32_t i = 0; i < count; i++) {
        y = y_of(ps_replay_hit_share(&hits_of(r, policy, order[i])[PS_ROUTES_DECODE]));
        PS_TRY(ps_buffer_printf(out, "%.1f,%.1f ", x_of(size_share(r, order[i]), most), y));
    }
    PS_TRY(ps_buffer_printf(out, "\"/>\n"));
    for (uint32_t i = 0; i < count; i++) {
        const double share = ps_replay_hit_share(&hits_of(r, policy, order[i])[PS_ROUTES_DECODE]);
        PS_TRY(ps_buffer_printf(out, "<circle fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
                                colour, x_of(size_share(r, order[i]), most), y_of(share)));
    }
    const double line = TOP + 16 * policy; // a list: the ends of curves may be close
    return ps_buffer_printf(out, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">%s</text>\n",
                            WIDTH - RIGHT + 16, line + 4, colour, name);
}

ps_status ps_replay_report_svg(const ps_replay_report *report, ps_buffer *out)
{
    uint32_t order[PS_REPLAY_SIZES_MAX] = {0};
    sort_sizes(report, order);
    const double most = size_share(report, order[report->options.size_count - 1]);
    PS_TRY(ps_buffer_printf(out,
                            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
                            "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
                            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                            WIDTH, HEIGHT));
    PS_TRY(draw_axes(most, out));
    for (uint32_t policy = 0; policy < report->options.policy_count; policy++) {
        PS_TRY(draw_curve(report, policy, order, most, out));
    }
    return ps_buffer_printf(out, "</svg>\n");
}
