// cli/experts_input.h - what `experts rank` and `experts show` are given to read.
#ifndef PS_CLI_EXPERTS_INPUT_H
#define PS_CLI_EXPERTS_INPUT_H

#include "engine/counts_file.h"
#include "engine/hot_set.h"

// Reads a counts file, or counts the routes of a log; memory comes from the arena. Of a log the
// sizes of experts are not known: expert_bytes is NULL, and model and quantisation are "".
//
// PS_NOT_FOUND, PS_IO, PS_NO_MEMORY, PS_UNSUPPORTED
// PS_INVALID  neither of them, damaged, or without a token
PS_MUST_USE ps_status ps_cli_counts_read(const char *path, ps_arena *arena, ps_counts_file *out);

// Whether the file looks like JSON, as hot sets are.
bool ps_cli_is_json(const char *path);

// PS_INVALID: no token of these phases (bits 1 << ps_phase) was counted. path: for the message.
PS_MUST_USE ps_status ps_cli_phases_check(const char *path, const ps_route_counts *counts,
                                          uint32_t phases);

// All of a hot set that is known before there are keys and sizes.
void ps_cli_counts_describe(const ps_counts_file *file, uint32_t phases, ps_hot_set *out);

#endif
