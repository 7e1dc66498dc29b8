// cli/routes_source.h - calls of a route log, or of the generator by its options.
#ifndef PS_CLI_ROUTES_SOURCE_H
#define PS_CLI_ROUTES_SOURCE_H

#include "cli/options.h"
#include "experts/synth.h"

typedef struct ps_cli_routes_source {
    ps_expert_calls calls;
    ps_routes_reader *reader; // or NULL
    ps_synth *synth;          // or NULL
} ps_cli_routes_source;

// PS_INVALID: no such setting or sharing, or a number that is out of range. To be closed after
// success only.
PS_MUST_USE ps_status ps_cli_routes_make(const char *setting, const ps_cli_routes *options,
                                         ps_cli_routes_source *out);

// As ps_routes_reader_open. Options of the generator are refused.
PS_MUST_USE ps_status ps_cli_routes_read(const char *path, const ps_cli_routes *options,
                                         ps_cli_routes_source *out);
void ps_cli_routes_close(ps_cli_routes_source *source);

#endif
