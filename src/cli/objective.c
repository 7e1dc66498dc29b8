// cli/objective.c - whoever wants low latency is told of prefetches that do not help.
#include "base/log.h"
#include "cli/commands.h"

#include <string.h>

#define CONTROLS_LEAST 8u // as of the report's verdict

const ps_prefetch_site *ps_cli_prefetch_without_gain(const ps_prefetch_site *sites, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const ps_prefetch_site *s = &sites[i];
        if (strcmp(s->site, "all") == 0 && !s->is_prompt && s->controls >= CONTROLS_LEAST &&
            s->gain_lower <= 0) {
            return s;
        }
    }
    return NULL;
}

void ps_cli_prefetch_warn(const ps_cli_options *options, ps_prefetch_policy policy,
                          const ps_session *session)
{
    static bool has_warned;
    ps_prefetch_site sites[PS_PREFETCH_SITES_MAX];
    if (options->objective != PS_CLI_LATENCY || policy != PS_PREFETCH_RATIO || has_warned) {
        return;
    }
    const ps_prefetch_site *all = ps_cli_prefetch_without_gain(
        sites, ps_session_prefetch_get(session, sites));
    if (all != NULL) {
        has_warned = true;
        ps_log(
            PS_LOG_WARNING,
            "--objective latency: the weight_prefetch_config does not make decoding faster (gain "
            "%.1f %%, quartiles %.1f to %.1f, %u controls); what prestage tune finds, or "
            "--prefetch off, would be right",
            100 * all->gain, 100 * all->gain_lower, 100 * all->gain_upper, all->controls);
    }
}
