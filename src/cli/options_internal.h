// cli/options_internal.h - the table of options, for the files that read it.
#ifndef PS_CLI_OPTIONS_INTERNAL_H
#define PS_CLI_OPTIONS_INTERNAL_H

#include "cli/options.h"

typedef enum ps_option_kind {
    PS_OPTION_FLAG,      // bool
    PS_OPTION_U32,       // uint32_t
    PS_OPTION_I64,       // int64_t
    PS_OPTION_U64,       // uint64_t
    PS_OPTION_F32,       // float
    PS_OPTION_F64,       // double
    PS_OPTION_TIME,      // double, nanoseconds
    PS_OPTION_TEXT,      // const char *
    PS_OPTION_LIST,      // ps_cli_list
    PS_OPTION_PAIRS,     // two ps_cli_lists: pair_prompts and pair_generations
    PS_OPTION_BIAS,      // one more of biases
    PS_OPTION_FORMAT,    // uint32_t, ps_cli_format
    PS_OPTION_POLICY,    // uint32_t, ps_prefetch_policy
    PS_OPTION_COMM,      // uint32_t, ps_comm_schedule
    PS_OPTION_KV,        // uint32_t, ps_kv_type
    PS_OPTION_OBJECTIVE, // uint32_t, ps_cli_objective
    PS_OPTION_BYTES,     // uint64_t
    PS_OPTION_EXPERTS,   // uint32_t, ps_expert_policy
    PS_OPTION_PHASE,     // uint32_t, bits of phases
} ps_option_kind;

#define PS_OPTION_NAMES_MAX 3u

typedef struct ps_option_line {
    const char *names[PS_OPTION_NAMES_MAX]; // long, the first one is for messages
    char letter;                            // 0: none
    ps_option_kind kind;
    uint32_t commands; // bits
    size_t offset;     // into ps_cli_options
    double lowest, highest;
    const char *argument;
    const char *help;
} ps_option_line;

// In the order of the help. One option may have several lines, for different commands.
#define PS_OPTION_LINES_MAX 160u
extern const ps_option_line ps_option_lines[];
extern const uint32_t ps_option_line_count; // <= PS_OPTION_LINES_MAX

#endif
