// cli/replay_report.h - what a replay found, as a table, as JSON and as a picture.
#ifndef PS_CLI_REPLAY_REPORT_H
#define PS_CLI_REPLAY_REPORT_H

#include "base/memory.h"
#include "experts/replay.h"

typedef struct ps_replay_report {
    const char *source; // a file or a setting
    ps_routes_shape shape;
    ps_replay_options options;
    ps_replay_result result;
    uint64_t expert_bytes; // 0: not known
} ps_replay_report;

const char *ps_replay_policy_name(ps_expert_policy_kind kind); // "belady", too

void ps_replay_report_print(const ps_replay_report *report); // to stdout
PS_MUST_USE ps_status ps_replay_report_json(const ps_replay_report *report);

// Hits of decoding by size, a curve a policy. PS_NO_MEMORY
PS_MUST_USE ps_status ps_replay_report_svg(const ps_replay_report *report, ps_buffer *out);

#endif
