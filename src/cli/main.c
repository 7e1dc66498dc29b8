// cli/main.c - finds the command, prints its error, makes the exit code.
#include "base/log.h"
#include "base/scan.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "kernels/kernels.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const ps_cli_command COMMANDS[] = {
    {"run", PS_CLI_RUN, "MODEL [-p TEXT | -f FILE]",
     "answers a prompt; chats when it is given none on a terminal", ps_cli_run},
    {"info", PS_CLI_INFO, "MODEL", "what a model file holds, and whether it can run here",
     ps_cli_info},
    {"tokenize", PS_CLI_TOKENIZE, "MODEL [-p TEXT | -f FILE | --template FILE]",
     "text to token ids, and back", ps_cli_tokenize},
    {"perplexity", PS_CLI_PERPLEXITY, "MODEL FILE", "how well a model predicts a text",
     ps_cli_perplexity},
    {"bench", PS_CLI_BENCH, "MODEL", "speed of reading prompts and of generating", ps_cli_bench},
    {"plan", PS_CLI_PLAN, "MODEL", "the plan of one step: what runs, and what it should take",
     ps_cli_plan},
    {"compile", PS_CLI_COMPILE, "MODEL -o FILE.pst | --verify FILE.pst",
     "a file of packed weights, which opens without packing", ps_cli_compile},
    {"simulate", PS_CLI_SIMULATE, "MODEL", "what a token takes on a machine, in simulated time",
     ps_cli_simulate},
    {"explore", PS_CLI_EXPLORE, "SPEC...",
     "plays a sweep of machines, models and workloads, and what a paper says beside it",
     ps_cli_explore},
    {"tune", PS_CLI_TUNE, "[MODEL]",
     "measures this machine once, for all plans made on it; finds prefetch ratios for MODEL",
     ps_cli_tune},
    {"overlap", PS_CLI_OVERLAP, "TRACE", "what prefetching did, read off a trace of --trace",
     ps_cli_overlap},
};

#define COMMAND_COUNT (sizeof COMMANDS / sizeof COMMANDS[0])

// Commands of two words, by their first.
typedef struct command_group {
    const char *name, *help;
    const ps_cli_command *commands;
    const size_t *count;
} command_group;

static const command_group GROUPS[] = {
    {"experts", "which experts a model uses; prestage experts lists more", ps_cli_experts_commands,
     &ps_cli_experts_command_count},
    {"machine", "machines that plans can be made for; prestage machine lists more",
     ps_cli_machine_commands, &ps_cli_machine_command_count},
};

#define GROUP_COUNT (sizeof GROUPS / sizeof GROUPS[0])

static int exit_code(ps_status status)
{
    switch (status) {
    case PS_OK:
        return 0;
    case PS_INVALID:
    case PS_UNSUPPORTED:
    case PS_NOT_FOUND:
    case PS_IO: // of inputs: output is looked at in finish()
        return 2;
    case PS_CANCELLED:
        return PS_CLI_EXIT_INTERRUPTED;
    default:
        return 1;
    }
}

// Of several ranks that fail, one speaks: of those that mpirun started, the first one, until they
// know of each other. mpirun ends the others when one of them exits with an error, so the one that
// speaks does so before it meets the others for the last time, and those that have not met give it
// time.
static bool is_silent;
static bool has_met; // ranks have started, or there are none
static bool has_spoken;

#define SILENT_SECONDS 3

static void say(ps_status status)
{
    if (status != PS_OK && status != PS_CANCELLED && !is_silent && !has_spoken) {
        (void)fprintf(stderr, "prestage: %s\n", ps_error_message());
        has_spoken = true;
    }
}

// The exit code, after the one line of an error. Output that could not be written is one, too.
static int finish(ps_status status)
{
    const bool had_failed = ferror(stdout) != 0; // errno has been others' since
    const bool is_written = fflush(stdout) == 0 && !had_failed;
    if (status == PS_OK && !is_written) {
        (void)fprintf(stderr, "prestage: stdout: %s\n",
                      had_failed ? "a write has failed" : strerror(errno));
        return 1;
    }
    say(status);
    if (status != PS_OK && is_silent && !has_met) {
        (void)sleep(SILENT_SECONDS);
        is_silent = false; // mpirun has not ended this one: the first rank has no such error
        say(status);
    }
    return status == PS_OK && ps_cli_result_was_bad() ? 1 : exit_code(status);
}

static void print_commands(void)
{
    (void)printf("usage: prestage COMMAND MODEL [OPTION]...\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)printf("  %-12s %s\n", COMMANDS[i].name, COMMANDS[i].help);
    }
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        (void)printf("  %-12s %s\n", GROUPS[i].name, GROUPS[i].help);
    }
    (void)printf("\n  prestage COMMAND --help   the options of a command\n"
                 "  prestage --version        version, CPU features, kernels in use\n");
}

static ps_status print_version(void)
{
    ps_kernels kernels;
    PS_TRY(ps_kernels_select(&kernels));
    (void)printf("prestage %s\nCPU features: %s\nISA in use: %s\n", ps_version(), ps_cpu_features(),
                 kernels.isa);
    return PS_OK;
}

static ps_status refuse_command(const char *word)
{
    static const char *const OPTIONS[] = {"--help", "--version"};
    const char *names[COMMAND_COUNT + GROUP_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = COMMANDS[i].name;
    }
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        names[COMMAND_COUNT + i] = GROUPS[i].name;
    }
    const ps_str typed = ps_str_of(word);
    return word[0] == '-' ? ps_fail(PS_INVALID, "unknown option '%s'; the nearest is %s", word,
                                    ps_nearest(typed, OPTIONS, 2))
                          : ps_fail(PS_INVALID, "unknown command '%s'; the nearest is %s", word,
                                    ps_nearest(typed, names, COMMAND_COUNT + GROUP_COUNT));
}

static ps_status run_ranks(const ps_cli_command *chosen, ps_cli_options *options)
{
    const uint32_t plans = PS_CLI_PLAN | PS_CLI_SIMULATE | PS_CLI_EXPLORE | PS_CLI_MACHINE_LIST |
                           PS_CLI_MACHINE_SHOW | PS_CLI_MACHINE_CHECK;
    if ((chosen->bit & plans) != 0 ||
        (chosen->bit == PS_CLI_TUNE && options->machine != NULL)) { // of ranks, not by them
        return chosen->run(options);
    }
    ps_status status = ps_cli_ranks_start(options);
    if (status != PS_OK) { // options are alike on all ranks, anything else may be this one's alone
        is_silent = is_silent && status == PS_INVALID;
        return status;
    }
    has_met = true;
    status = ps_ranks_rank(options->started) == 0 || chosen->bit == PS_CLI_TUNE
                 ? chosen->run(options)
                 : ps_ranks_follow(options->started, options->model,
                                   &(ps_model_options){.trace_file = options->trace});
    is_silent = status != PS_OK && !ps_ranks_speaks(options->started);
    say(status);
    char message[1024];
    (void)snprintf(message, sizeof message, "%s", ps_error_message());
    const ps_status stopped = ps_ranks_stop(options->started);
    return status == PS_OK ? stopped : ps_fail(status, "%s", message);
}

static ps_status run_command(const ps_cli_command *chosen, int argc, char **argv)
{
    ps_cli_options options;
    ps_status status = ps_cli_options_parse(chosen->bit, argc, argv, &options);
    if (status == PS_OK && options.help) {
        (void)printf("usage: prestage %s %s [OPTION]...\n\n%s.\n\n", chosen->name,
                     chosen->arguments, chosen->help);
        ps_cli_options_help(chosen->bit, stdout);
    } else if (status == PS_OK) {
        ps_log_set_level(options.verbose ? PS_LOG_DEBUG : PS_LOG_WARNING);
        status = ps_cli_additional_config_apply(&options);
        status = status == PS_OK ? run_ranks(chosen, &options) : status;
    }
    ps_cli_options_deinit(&options);
    return status;
}

static void print_group(const command_group *group)
{
    (void)printf("usage: prestage %s COMMAND [OPTION]...\n\n", group->name);
    for (size_t i = 0; i < *group->count; i++) {
        const ps_cli_command *command = &group->commands[i];
        (void)printf("  %-16s %s\n", command->name, command->help);
    }
    (void)printf("\n  prestage %s COMMAND --help   the options of a command\n", group->name);
}

// argv[0] is the group's name.
static ps_status run_group(const command_group *group, int argc, char **argv)
{
    if (argc < 2) {
        return ps_fail(PS_INVALID, "no command of %s given; prestage %s --help lists them",
                       group->name, group->name);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_group(group);
        return PS_OK;
    }
    const char *names[PS_CLI_GROUP_COMMANDS_MAX];
    for (size_t i = 0; i < *group->count; i++) {
        names[i] = group->commands[i].name + strlen(group->name) + 1;
        if (strcmp(argv[1], names[i]) == 0) {
            return run_command(&group->commands[i], argc - 1, argv + 1);
        }
    }
    return ps_fail(PS_INVALID, "unknown command '%s %s'; the nearest is %s %s", group->name,
                   argv[1], group->name,
                   ps_nearest(ps_str_of(argv[1]), names, (uint32_t)*group->count));
}

int main(int argc, char **argv)
{
    ps_cli_interrupt_install();
    is_silent = !ps_cli_ranks_is_first();
    if (argc < 2) {
        return finish(ps_fail(PS_INVALID, "no command given; prestage --help lists them"));
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_commands();
        return finish(PS_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        return finish(print_version());
    }
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if (strcmp(argv[1], GROUPS[i].name) == 0) {
            return finish(run_group(&GROUPS[i], argc - 1, argv + 1));
        }
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], COMMANDS[i].name) == 0) {
            return finish(run_command(&COMMANDS[i], argc - 1, argv + 1));
        }
    }
    return finish(refuse_command(argv[1]));
}
