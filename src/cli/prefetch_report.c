// cli/prefetch_report.c - what prefetching did: fired, in time, paid. The readers' times are those
// of bench_ops.c: where nobody measures them, no clock is read for them.
#include "cli/commands.h"

#include <math.h>
#include <stdio.h>

static const char *verdict(const ps_prefetch_site *site)
{
    return site->is_off           ? "off"
           : site->controls < 8   ? "not known"
           : site->gain_lower > 0 ? "pays"
           : site->gain_upper < 0 ? "loses"
                                  : "no difference";
}

static double in_time(const ps_prefetch_site *site)
{
    return site->asked_bytes == 0 ? 0 : (double)site->moved_bytes / (double)site->asked_bytes;
}

// Microseconds; NaN: not measured.
static double slack_us(const ps_prefetch_site *site)
{
    return site->slack_waits == 0 ? NAN : (double)site->slack_ns / (double)site->slack_waits / 1e3;
}

void ps_cli_prefetch_print(const ps_session *session, FILE *file)
{
    ps_prefetch_site sites[PS_PREFETCH_SITES_MAX];
    const uint32_t count = ps_session_prefetch_get(session, sites);
    bool is_measured = false;
    if (count == 0) {
        return;
    }
    (void)fprintf(
        file,
        "\n| prefetch    | window  | steps  | planned |    fired | MB each | in time | slack us | "
        "  gain %% (quartiles)    | controls | verdict       |\n"
        "| ----------- | ------- | ------ | ------: | -------: | ------: | ------: | -------: | "
        "---------------------: | -------: | ------------- |\n");
    for (uint32_t i = 0; i < count; i++) {
        const ps_prefetch_site *s = &sites[i];
        char slack[16] = "-";
        if (s->slack_waits > 0) {
            (void)snprintf(slack, sizeof slack, "%.1f", slack_us(s));
            is_measured = true;
        }
        (void)fprintf(file,
                      "| %-11s | %-7s | %-6s | %7llu | %8llu | %7.3f | %7.3f | %8s | %6.1f (%5.1f "
                      "to %5.1f) | "
                      "%8u | %-13s |\n",
                      s->site, s->window, s->is_prompt ? "prompt" : "decode",
                      (unsigned long long)s->planned, (unsigned long long)s->fired,
                      s->fired == 0 ? 0 : (double)s->asked_bytes / (double)s->fired / 1e6,
                      in_time(s), slack, s->gain * 100, s->gain_lower * 100, s->gain_upper * 100,
                      s->controls, verdict(s));
    }
    if (!is_measured) {
        (void)fprintf(file,
                      "Slack and the readers' times: not measured. prestage bench --ops measures "
                      "them; of a --trace, prestage overlap tells them.\n");
    }
}

void ps_cli_prefetch_json(const ps_session *session, ps_json_writer *json)
{
    ps_prefetch_site sites[PS_PREFETCH_SITES_MAX];
    const uint32_t count = ps_session_prefetch_get(session, sites);
    if (count == 0) {
        return;
    }
    ps_json_begin(json, "prefetch", '[');
    for (uint32_t i = 0; i < count; i++) {
        const ps_prefetch_site *s = &sites[i];
        ps_json_begin(json, NULL, '{');
        ps_json_text(json, "site", s->site);
        ps_json_text(json, "window", s->window);
        ps_json_text(json, "steps", s->is_prompt ? "prompt" : "decode");
        ps_json_integer(json, "planned", (int64_t)s->planned);
        ps_json_integer(json, "fired", (int64_t)s->fired);
        ps_json_integer(json, "asked_bytes", (int64_t)s->asked_bytes);
        ps_json_integer(json, "moved_bytes", (int64_t)s->moved_bytes);
        if (s->slack_waits > 0) {
            ps_json_number(json, "slack_us", slack_us(s));
        } else {
            ps_json_text(json, "slack_us", "not measured");
        }
        ps_json_integer(json, "controls", s->controls);
        ps_json_number(json, "gain", s->gain);
        ps_json_number(json, "gain_lower", s->gain_lower);
        ps_json_number(json, "gain_upper", s->gain_upper);
        ps_json_text(json, "verdict", verdict(s));
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
}
