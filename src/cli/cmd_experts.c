// cli/cmd_experts.c - the commands of `prestage experts`, each a line.
#include "cli/commands.h"

const ps_cli_command ps_cli_experts_commands[] = {
    {"experts record", PS_CLI_EXPERTS_RECORD, "MODEL [-p TEXT | -f FILE] -o FILE",
     "reads a text with a model, and counts which experts it uses", ps_cli_experts_record},
    {"experts rank", PS_CLI_EXPERTS_RANK, "COUNTS|LOG -o FILE.json",
     "the experts that are worth keeping in memory, and what they cover", ps_cli_experts_rank},
    {"experts show", PS_CLI_EXPERTS_SHOW, "COUNTS|LOG|HOTSET",
     "a picture of which experts are used", ps_cli_experts_show},
    {"experts replay", PS_CLI_EXPERTS_REPLAY, "LOG | --synth NAME",
     "what policies of any size would have kept in memory, of a route log or of made routes",
     ps_cli_experts_replay},
    {"experts synth", PS_CLI_EXPERTS_SYNTH, "NAME -o FILE",
     "a route log of random routes, as skewed as real ones", ps_cli_experts_synth},
};
const size_t ps_cli_experts_command_count = sizeof ps_cli_experts_commands /
                                            sizeof ps_cli_experts_commands[0];
_Static_assert(sizeof ps_cli_experts_commands / sizeof ps_cli_experts_commands[0] <=
                   PS_CLI_GROUP_COMMANDS_MAX,
               "lists of their names have room");
