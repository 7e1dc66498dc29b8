// cli/choose_policy.c - --additional-config and --prefetch, which have to agree.
#include "base/log.h"
#include "cli/commands.h"

#include <string.h>

static ps_status read_config(const char *given, ps_additional_config *out)
{
    ps_buffer text = {0};
    ps_status status = given[0] == '@' ? ps_cli_read_file(given + 1, &text)
                                       : ps_buffer_append(&text, given, strlen(given));
    if (status == PS_OK) {
        status = strlen(text.data) == text.length
                     ? ps_additional_config_read(text.data, out)
                     : ps_fail(PS_INVALID, "a NUL byte; JSON would be right");
    }
    ps_buffer_deinit(&text);
    return status == PS_OK ? PS_OK : ps_fail_prefix(status, "--additional-config");
}

// The policy that the config asks for, where --prefetch does not say otherwise.
static ps_status choose_policy(ps_cli_options *options, const ps_additional_config *config)
{
    const ps_prefetch_policy policy = config->is_enabled ? PS_PREFETCH_RATIO : PS_PREFETCH_OFF;
    if (options->prefetch != PS_PREFETCH_DEFAULT && options->prefetch != policy) {
        return ps_fail(PS_INVALID,
                       "--additional-config has enabled %s, which is --prefetch %s, and not "
                       "--prefetch %s",
                       config->is_enabled ? "true" : "false", ps_prefetch_policy_name(policy),
                       ps_prefetch_policy_name((ps_prefetch_policy)options->prefetch));
    }
    options->prefetch = policy;
    return PS_OK;
}

ps_status ps_cli_additional_config_apply(ps_cli_options *options)
{
    ps_additional_config config = {.ratios = ps_prefetch_ratios_default()};
    if (options->additional_config != NULL) {
        PS_TRY(read_config(options->additional_config, &config));
    }
    options->ratios = config.ratios;
    if (!config.is_given || options->compare != NULL) {
        return PS_OK;
    }
    if (config.is_idle && ps_cli_ranks_is_first()) {
        ps_log(PS_LOG_WARNING,
               "weight_prefetch_config has a prefetch_ratio and no enabled: nothing "
               "is prefetched; \"enabled\": true would be right");
    }
    return choose_policy(options, &config);
}
