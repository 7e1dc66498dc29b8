// cli/routes_source.c - see routes_source.h.
#include "cli/routes_source.h"

#include "base/scan.h"

#include <string.h>

#define SETTINGS_MAX 16u

static const char *const SHARING[] = {"apart", "topic", "copies"}; // by ps_synth_sharing

static ps_status find_setting(const char *name, const ps_synth_setting **out)
{
    const char *names[SETTINGS_MAX];
    uint32_t count = 0;
    const ps_synth_setting *setting;
    for (; (setting = ps_synth_setting_at(count)) != NULL && count < SETTINGS_MAX; count++) {
        names[count] = setting->name;
        if (strcmp(name, setting->name) == 0) {
            *out = setting;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "no setting '%s' of made routes; the nearest is %s", name,
                   ps_nearest(ps_str_of(name), names, count));
}

static ps_status find_sharing(const char *name, ps_synth_sharing *out)
{
    for (uint32_t i = 0; i < sizeof SHARING / sizeof SHARING[0]; i++) {
        if (strcmp(name, SHARING[i]) == 0) {
            *out = (ps_synth_sharing)i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "--sharing '%s': apart, topic or copies would be right", name);
}

ps_status ps_cli_routes_make(const char *setting, const ps_cli_routes *options,
                             ps_cli_routes_source *out)
{
    ps_synth_options synth = {.layers = options->layers,
                              .experts = options->experts,
                              .top_k = options->top_k,
                              .tokens = options->tokens,
                              .prompt = options->prompt,
                              .streams = options->streams,
                              .seed = options->seed};
    ps_cli_routes_source source = {0};
    PS_TRY(find_setting(setting, &synth.setting));
    PS_TRY(find_sharing(options->sharing, &synth.sharing));
    PS_TRY(ps_synth_create(&synth, &source.synth));
    source.calls = ps_synth_calls(source.synth);
    *out = source;
    return PS_OK;
}

ps_status ps_cli_routes_read(const char *path, const ps_cli_routes *options,
                             ps_cli_routes_source *out)
{
    if (options->tokens + options->prompt + options->streams + options->layers + options->experts +
                options->top_k + options->seed >
            0 ||
        strcmp(options->sharing, SHARING[0]) != 0) {
        return ps_fail(PS_INVALID, "%s: a log is as it is; --synth NAME would make routes", path);
    }
    ps_cli_routes_source source = {0};
    PS_TRY(ps_routes_reader_open(path, &source.reader));
    source.calls = ps_routes_reader_calls(source.reader);
    *out = source;
    return PS_OK;
}

void ps_cli_routes_close(ps_cli_routes_source *source)
{
    ps_routes_reader_close(source->reader);
    ps_synth_destroy(source->synth);
}
