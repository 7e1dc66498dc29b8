// cli/cmd_perplexity.c - stub
#include "cli/commands.h"
ps_status ps_cli_perplexity(const ps_cli_options *options)
{
    (void)options;
    return ps_fail(PS_UNSUPPORTED, "not there yet");
}
