// cli/start_ranks.c - which ranks a command runs with.
#include "cli/commands.h"
#include "comm/launch.h"

#include <stdlib.h>

// A count that Open MPI's mpirun tells; 0: it is not there.
static uint32_t told_count(const char *variable)
{
    const char *text = getenv(variable);
    int64_t count = 0;
    const bool is_number = text != NULL &&
                           ps_cli_parse_integer("", text, 0, 1 << 20, &count) == PS_OK;
    return is_number ? (uint32_t)count : 0;
}

bool ps_cli_ranks_is_first(void)
{
    return told_count("OMPI_COMM_WORLD_RANK") == 0;
}

static ps_status check_options(const ps_cli_options *options, uint32_t launched)
{
    if (options->ranks_sim > 0 && (options->ranks > 1 || launched > 1)) {
        return ps_fail(PS_INVALID, "--ranks-sim with real ranks; one of them would be right");
    }
    if (options->ranks > 0 && launched > 1 && options->ranks != launched) {
        return ps_fail(PS_INVALID,
                       "--tensor-parallel-size %u, but mpirun started %u ranks; leaving it out "
                       "would be right",
                       options->ranks, launched);
    }
    return PS_OK;
}

ps_status ps_cli_ranks_start(ps_cli_options *options)
{
    const uint32_t launched = told_count("OMPI_COMM_WORLD_SIZE");
    PS_TRY(check_options(options, launched));
    if (launched <= 1) {
        PS_TRY(ps_comm_launcher_check(1));
    }
    ps_ranks_options ranks = {.launch = PS_RANKS_FORK,
                              .size = options->ranks,
                              .link = options->comm_link,
                              .rank_threads = options->threads};
    if (options->ranks_sim > 0) {
        ranks.launch = PS_RANKS_SIMULATED;
        ranks.size = options->ranks_sim;
    } else if (launched > 1) {
        ranks.launch = PS_RANKS_MPI;
        ranks.size = launched;
    } else if (options->ranks <= 1) {
        return options->comm_link == NULL
                   ? PS_OK
                   : ps_fail(PS_INVALID, "--comm-sim without ranks; --tensor-parallel-size N or "
                                         "--ranks-sim N with it would be right");
    }
    return ps_ranks_start(&ranks, &options->started);
}
