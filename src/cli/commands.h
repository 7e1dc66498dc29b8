// cli/commands.h - the subcommands, and what several of them share.
//
// A command reads its options, writes its result to stdout and everything else to stderr. It
// answers a status; main() prints the one line of an error and makes the exit code of it.
#ifndef PS_CLI_COMMANDS_H
#define PS_CLI_COMMANDS_H

#include "cli/json_writer.h"
#include "cli/options.h"
#include "plan/plan_file.h"

// A command, or one of `prestage experts` or `prestage machine`, whose name has two words.
typedef struct ps_cli_command {
    const char *name;
    ps_cli_command_bit bit;
    const char *arguments;
    const char *help;
    ps_status (*run)(const ps_cli_options *options);
} ps_cli_command;

#define PS_CLI_GROUP_COMMANDS_MAX 8u
extern const ps_cli_command ps_cli_experts_commands[];
extern const size_t ps_cli_experts_command_count;
extern const ps_cli_command ps_cli_machine_commands[];
extern const size_t ps_cli_machine_command_count;

PS_MUST_USE ps_status ps_cli_run(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_info(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_tokenize(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_perplexity(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_bench(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_plan(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_compile(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_tune(const ps_cli_options *options); // on all ranks
PS_MUST_USE ps_status ps_cli_overlap(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_simulate(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_explore(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_experts_record(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_experts_rank(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_experts_show(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_experts_replay(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_experts_synth(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_machine_list(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_machine_show(const ps_cli_options *options);
PS_MUST_USE ps_status ps_cli_machine_check(const ps_cli_options *options);

// Starts the ranks that the options or the launcher ask for, into options->started; nothing for one
// rank alone. Rank 0 then runs the command, the others follow it.
//
// PS_INVALID  options that contradict each other or the launcher
PS_MUST_USE ps_status ps_cli_ranks_start(ps_cli_options *options);

// Whether this is rank 0 of those that mpirun started; true without mpirun.
bool ps_cli_ranks_is_first(void);

// Reads --additional-config and makes the policy and ratios of it; warns of what has no effect.
// PS_INVALID: no such config, or --prefetch says otherwise.
PS_MUST_USE ps_status ps_cli_additional_config_apply(ps_cli_options *options);

// What prefetching did for each site, as a table or as "prefetch" of an object; nothing when it did
// nothing.
void ps_cli_prefetch_print(const ps_session *session, FILE *file);
void ps_cli_prefetch_json(const ps_session *session, ps_json_writer *json);

// The same of experts that are not all kept in memory.
void ps_cli_experts_print(const ps_model *model, const ps_session *session, FILE *file);
void ps_cli_experts_json(const ps_model *model, const ps_session *session, ps_json_writer *json);

// With --objective latency and the policy ratio: warns when decoding is not shown to be faster by
// it, as soon as there are enough control steps to tell. Once a process.
void ps_cli_prefetch_warn(const ps_cli_options *options, ps_prefetch_policy policy,
                          const ps_session *session);

// Of ps_session_prefetch_get: the line that shows that all prefetches together do not make decoding
// faster; NULL: they do, or it is not known.
const ps_prefetch_site *ps_cli_prefetch_without_gain(const ps_prefetch_site *sites, uint32_t count);

// For a command that did its work and found something bad: the exit code is 1, without an error's
// line.
void ps_cli_result_is_bad(void);
bool ps_cli_result_was_bad(void);

// A bar on stderr: "loading ####.... 50 %", and a note behind it, which is drawn anew when it
// changes.
typedef struct ps_cli_progress {
    const char *verb;
    int shown; // in per cent; -1: nothing yet
    char note[64], shown_note[64];
} ps_cli_progress;

// False, and nothing is to be drawn, when stderr is no terminal.
bool ps_cli_progress_begin(ps_cli_progress *progress);
void ps_cli_progress_draw(void *progress, double fraction);
void ps_cli_progress_end(ps_cli_progress *progress); // takes it away; it may be drawn again

// Writes a text that was made with `made` to a file, in place of one of that name, and frees it.
PS_MUST_USE ps_status ps_cli_write_made(const char *path, ps_status made, ps_buffer *text);

// Bytes of --memory, or of --memory-utilization; 0: neither. PS_INVALID: both.
PS_MUST_USE ps_status ps_cli_memory_given(const ps_cli_options *options, uint64_t *out);

// Opens the model that the options name, with `threads` workers (0: the default) and a progress bar
// on a terminal. A warning says when there are more threads than CPUs. Starts --route-log, and
// refuses what --record-experts could not write at the end. session: what --memory has to hold
// beside the model; NULL: the default.
PS_MUST_USE ps_status ps_cli_model_open(const ps_cli_options *options, uint32_t threads,
                                        const ps_session_options *session, ps_model **out);

// Closes a model (NULL is allowed) behind work that ended with `status`. Where that is PS_OK or
// PS_CANCELLED, --record-experts and --route-log are written before. Answers `status`, or what
// writing failed with.
PS_MUST_USE ps_status ps_cli_model_close(const ps_cli_options *options, ps_model *model,
                                         ps_status status);

// The BOS that the model puts before a text; -1: none.
PS_MUST_USE ps_status ps_cli_find_bos(const ps_model *model, int32_t *out);

// The same for tokenizer and template alone.
PS_MUST_USE ps_status ps_cli_vocabulary_open(const ps_cli_options *options, ps_model **out);

// PS_INVALID when the command line names no model.
PS_MUST_USE ps_status ps_cli_model_check(const ps_cli_options *options);

// Whether `output` may be written, before the work. PS_INVALID: it is there and --force is not, it
// is the model itself, or no regular file.
PS_MUST_USE ps_status ps_cli_output_check(const ps_cli_options *options);

// Writes a text of plans to `output`, after reading it as each rank of a session will. `then` is
// handed the plans of rank 0 when the file is there; NULL: nobody is.
PS_MUST_USE ps_status ps_cli_plans_write(const ps_cli_options *options, ps_str text,
                                         ps_status (*then)(const ps_cli_options *options,
                                                           const ps_plan_set *set));

// What the command line says of a session, and of a plan.
ps_session_options ps_cli_session_options(const ps_cli_options *options);
ps_plan_options ps_cli_plan_options(const ps_cli_options *options);

// Appends a whole file to out, byte for byte; "-" is stdin.
//
// PS_NOT_FOUND, PS_IO  it cannot be read
// PS_EXHAUSTED         more than 64 MiB
PS_MUST_USE ps_status ps_cli_read_file(const char *path, ps_buffer *out);

// Appends what -p, -f or stdin hold. PS_INVALID: -p and -f together, or none of them where stdin is
// a terminal.
PS_MUST_USE ps_status ps_cli_read_prompt(const ps_cli_options *options, ps_buffer *out);

#endif
