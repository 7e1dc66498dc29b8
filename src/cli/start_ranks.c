// cli/start_ranks.c - which ranks a command runs with.
#include "cli/commands.h"

#include <stdlib.h>

// Open MPI's mpirun says how many it started; 0: none.
static uint32_t launched_ranks(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_SIZE");
    int64_t size = 0;
    const bool is_number = text != NULL &&
                           ps_cli_parse_integer("", text, 1, 1 << 20, &size) == PS_OK;
    return is_number ? (uint32_t)size : 0;
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
    const uint32_t launched = launched_ranks();
    PS_TRY(check_options(options, launched));
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
