// cli/cmd_bench.c - stub
#include "cli/commands.h"
ps_status ps_cli_bench(const ps_cli_options *options)
{
    (void)options;
    return ps_fail(PS_UNSUPPORTED, "not there yet");
}
