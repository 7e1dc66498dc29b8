// cli/options.h - the command line: one table says what each command takes.
//
// Parsing and help are made from the same table (options_table.c), so they never disagree. Flags
// that mean the same as in llama.cpp carry its names. Numbers are read strictly: the whole word, in
// range.
#ifndef PS_CLI_OPTIONS_H
#define PS_CLI_OPTIONS_H

#include "base/memory.h"

#include <prestage/prestage.h>
#include <stdio.h>

// Bits, so that one line of the table can serve several commands.
typedef enum ps_cli_command_bit {
    PS_CLI_RUN = 1,
    PS_CLI_INFO = 2,
    PS_CLI_TOKENIZE = 4,
    PS_CLI_PERPLEXITY = 8,
    PS_CLI_BENCH = 16,
    PS_CLI_PLAN = 32,
    PS_CLI_COMPILE = 64,
    PS_CLI_OVERLAP = 128,
    PS_CLI_SIMULATE = 256,
    PS_CLI_TUNE = 512,
    PS_CLI_EXPERTS_RECORD = 1024,
    PS_CLI_EXPERTS_RANK = 2048,
    PS_CLI_EXPERTS_SHOW = 4096,
    PS_CLI_EXPERTS_REPLAY = 8192,
    PS_CLI_EXPERTS_SYNTH = 16384,
    PS_CLI_EXPLORE = 1 << 15,
    PS_CLI_MACHINE_LIST = 1 << 16,
    PS_CLI_MACHINE_SHOW = 1 << 17,
    PS_CLI_MACHINE_CHECK = 1 << 18,
    PS_CLI_ALL = (1 << 19) - 1,
} ps_cli_command_bit;

#define PS_CLI_LIST_MAX 32u
#define PS_CLI_BIASES_MAX 1024u
#define PS_CLI_SEQUENCES_MAX 512u // that bench runs together

#define PS_CLI_SPECS_MAX 64u // of explore

typedef struct ps_cli_list {
    uint32_t count;
    uint32_t values[PS_CLI_LIST_MAX];
} ps_cli_list;

typedef enum ps_cli_objective { PS_CLI_UNSAID, PS_CLI_LATENCY, PS_CLI_THROUGHPUT } ps_cli_objective;

typedef enum ps_cli_format { PS_CLI_MD, PS_CLI_CSV, PS_CLI_JSON } ps_cli_format;

// Of experts replay and experts synth.
typedef struct ps_cli_routes {
    const char *synth;            // a setting of the generator, instead of a log
    const char *policies, *sizes; // lists
    const char *sharing;          // what streams have in common
    int64_t learn;                // steps; -1: half
    uint32_t tokens, prompt, streams, layers, experts, top_k; // 0: the setting's
    uint64_t seed, expert_bytes;
} ps_cli_routes;

// Of explore.
typedef struct ps_cli_explore_options {
    const char *specs[PS_CLI_SPECS_MAX]; // names or paths
    uint32_t spec_count;
    const char *formats; // a list; NULL: not given
    bool all, list, resume, check;
} ps_cli_explore_options;

// Of simulate.
typedef struct ps_cli_simulate_options {
    uint32_t prompt_tokens;        // 0: not given
    double experts_kept, coverage; // 0: not given
    double slo_ns;                 // 0: not given
} ps_cli_simulate_options;

// What the command line says; texts are borrowed from argv. Zero and NULL where it says nothing,
// but for the defaults that ps_cli_options_parse states.
typedef struct ps_cli_options {
    const char *model, *prompt, *file, *system, *template_file;
    bool help, json, verbose, raw, stats, ignore_eos;
    bool special, detokenize;
    bool all_tensors, all_metadata;
    bool dot, no_measure, no_ceiling, operators;
    bool predicts; // of bench
    bool force, verify;
    const char *output; // of plan, compile, tune and explore
    const char *plan_file;
    int64_t predict; // tokens at most; -1: until the context is full
    uint32_t context, threads, batch, rows;
    uint32_t ranks;                                // 0: as the launcher says, or one
    uint32_t context_shards, weight_bits, kv_bits; // of plans; 0: not given
    uint32_t streams;                              // of bench; 0: not given
    uint32_t static_batch, static_tokens;          // sequences, and tokens of each; 0: no such test
    const char *comm_link;                         // of --comm-sim
    const char *compare;                           // of bench
    const char *trace;                             // file
    const char *record_experts;                    // counts file
    const char *route_log;                         // file
    const char *svg;                               // file
    ps_cli_routes routes;
    ps_cli_explore_options explore;
    ps_cli_simulate_options simulate;
    ps_cli_list set_sizes; // of hot sets; none: not given
    uint32_t phases;       // bits (1 << ps_phase) of what is ranked
    const char *machine;   // name or file
    const char *emit;      // of tune
    uint32_t max_num_seqs; // of tune; 0: not given
    uint32_t objective;    // ps_cli_objective
    uint32_t time_limit;   // seconds; 0: not given
    ps_cli_list batches;   // of tune; none: not given
    uint32_t ranks_sim;
    uint32_t comm_schedule; // ps_comm_schedule
    bool sequence_parallel, check_grouped;
    uint32_t prefetch; // ps_prefetch_policy
    uint32_t prefetch_threads;
    const char *force_routes;      // file
    const char *additional_config; // JSON, or @ and a file with it
    ps_prefetch_ratios ratios;     // by ps_cli_additional_config_apply
    ps_ranks *started;             // by ps_cli_ranks_start; not of the command line
    ps_sampler_options sampler;    // its biases are `biases`
    ps_logit_bias *biases;         // [sampler.bias_count], owned
    ps_cli_list prompts, generations, depths, parallel, thread_counts;
    ps_cli_list pair_prompts, pair_generations; // of equal count
    uint32_t repetitions;
    uint32_t format;         // ps_cli_format
    uint32_t k_type, v_type; // ps_kv_type
    uint64_t memory_bytes;   // 0: not given
    uint64_t expert_bytes;   // 0: not given
    float memory_share;      // of what is available; 0: not given
    uint32_t expert_policy;  // ps_expert_policy_kind
    const char *hot_set;     // file
    const char *tier_sim;    // a link
    uint32_t hot_experts;
    bool hot_cut;
} ps_cli_options;

// Reads argv[1..argc) of one command: its options, MODEL, and for `perplexity` FILE. argv[0] is the
// command's name; argv may be reordered. *out is complete on success and to be deinitialised either
// way.
//
// PS_INVALID: the message names the flag and what would be right. The model may still be missing.
PS_MUST_USE ps_status ps_cli_options_parse(ps_cli_command_bit command, int argc, char **argv,
                                           ps_cli_options *out);
void ps_cli_options_deinit(ps_cli_options *options);

// The options of a command, a line or two each.
void ps_cli_options_help(ps_cli_command_bit command, FILE *out);

// The i-th option's longest name, without dashes, of any that `command` takes; NULL behind the
// last. For tests of help and manual.
const char *ps_cli_options_name(ps_cli_command_bit command, uint32_t index);

// "prompt", "decode", "all" of bits (1 << ps_phase).
#define PS_CLI_PHASES_ALL 3u
const char *ps_cli_phases_name(uint32_t phases);

// One side of a comparison: "auto", whose sums are serial, or "auto+SCHEDULE"; or "serial" and
// "fused", which are "off" and "off+fused".
typedef struct ps_cli_side {
    char name[24];
    ps_prefetch_policy prefetch;
    ps_comm_schedule comm_schedule;
} ps_cli_side;

// Sides with commas between them. PS_INVALID: an unknown word, or more than `most`.
PS_MUST_USE ps_status ps_cli_sides_parse(const char *text, ps_cli_side *out, uint32_t most,
                                         uint32_t *out_count);

// The whole of `text` as bytes: "8GiB", "900MB", "4096". PS_INVALID: `what` is for the message.
PS_MUST_USE ps_status ps_cli_parse_bytes(const char *what, const char *text, uint64_t *out);

// The whole of `text` as a decimal number from lowest to highest; `what` is for the message.
PS_MUST_USE ps_status ps_cli_parse_integer(const char *what, const char *text, int64_t lowest,
                                           int64_t highest, int64_t *out);

#endif
