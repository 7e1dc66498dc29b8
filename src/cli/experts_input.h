// cli/experts_input.h - what `experts rank` and `experts show` are given to read.
#ifndef PS_CLI_EXPERTS_INPUT_H
#define PS_CLI_EXPERTS_INPUT_H

#include "engine/counts_file.h"
#include "engine/hot_set.h"

typedef enum ps_cli_input_kind {
    PS_CLI_COUNTS,
    PS_CLI_ROUTE_LOG,
    PS_CLI_HOT_SET
} ps_cli_input_kind;

// What a file is, by its first bytes.
//
// PS_NOT_FOUND, PS_IO
// PS_INVALID  none of these; a folder, a pipe, a device
PS_MUST_USE ps_status ps_cli_input_kind_of(const char *path, ps_cli_input_kind *out);

// Reads a counts file, or counts the routes of a log; memory comes from the arena. Of a log the
// sizes of experts are not known: expert_bytes is NULL, and model and quantisation are "".
//
// As ps_cli_input_kind_of; PS_NO_MEMORY, PS_UNSUPPORTED
// PS_INVALID  it is a hot set, or damaged
PS_MUST_USE ps_status ps_cli_counts_read(const char *path, ps_arena *arena, ps_counts_file *out);

// PS_INVALID: no token of these phases (bits 1 << ps_phase) was counted. path: for the message.
PS_MUST_USE ps_status ps_cli_phases_check(const char *path, const ps_route_counts *counts,
                                          uint32_t phases);

// All of a hot set that is known before there are keys and sizes.
void ps_cli_counts_describe(const ps_counts_file *file, uint32_t phases, ps_hot_set *out);

#endif
