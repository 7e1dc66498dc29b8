// engine/ranks.h - how the ranks of a model keep in step: rank 0 says what happens, the others do
// it.
//
// Rank 0 announces sessions, steps and the end by broadcasts of one message each; the others read
// them in ps_ranks_follow. A step carries everything that a rank needs (ps_step), so that all ranks
// run the same programs in the same order. Wherever a rank can fail alone (a file that cannot be
// read, memory), all compare how it went before they go on.
#ifndef PS_ENGINE_RANKS_H
#define PS_ENGINE_RANKS_H

#include "comm/comm.h"
#include "plan/plan.h"

#include <prestage/prestage.h>

ps_comm *ps_ranks_comm(ps_ranks *ranks);       // of NULL: NULL
uint32_t ps_ranks_here(const ps_ranks *ranks); // on this host; of NULL: 1

uint32_t ps_ranks_cpus(const ps_ranks *ranks); // that this process had before they were shared out
const char *ps_ranks_launch_name(const ps_ranks *ranks);  // "local", "mpi", "self"; of NULL: "none"
const ps_comm_link *ps_ranks_link(const ps_ranks *ranks); // simulated; zeros: none

// Warns, on rank 0, when ranks of so many threads each share CPUs, or the launcher bound them to
// too few of them.
void ps_ranks_warn_of_crowd(const ps_ranks *ranks, uint32_t threads);

// Whether there is anybody to talk to: false for NULL, one rank, and a rank among simulated ones.
bool ps_ranks_are_several(const ps_ranks *ranks);

// Compares how something went on all ranks; collective. OK when it went well everywhere. Otherwise
// the rank's own failure, or, where there was none, that of the first rank that failed; one rank
// speaks (ps_ranks_speaks).
PS_MUST_USE ps_status ps_ranks_agree(ps_ranks *ranks, ps_status own);

// Every rank's `bytes` [count] become those of rank 0; collective.
PS_MUST_USE ps_status ps_ranks_share(ps_ranks *ranks, void *bytes, uint64_t count);

// What rank 0 says.
typedef enum ps_word {
    PS_WORD_STOP,    // rank 0 stops
    PS_WORD_OPEN,    // the model is opened; behind it stands the number of threads, a uint32_t
    PS_WORD_CLOSE,   // the model is closed
    PS_WORD_SESSION, // session `session` is made; behind it stand its ps_session_options, and the
                     // name of its plan file if there is one
    PS_WORD_END,     // session `session` is destroyed
    PS_WORD_STEP,    // session `session` runs program `program` over the ps_step behind
} ps_word;

typedef struct ps_command {
    uint32_t word; // ps_word
    uint32_t session, program;
    uint32_t bytes; // behind the command
} ps_command;

#define PS_SESSIONS_MAX 64u
#define PS_RANKS_PATH_BYTES 4096u // of that name, with its end

// Tags of collectives that no step makes; those of steps are below.
#define PS_TAG_PLACES 0xffff0001u
#define PS_TAG_AGREE 0xffff0002u
#define PS_TAG_COMMAND 0xffff0003u
#define PS_TAG_SHARE 0xffff0004u

// Room for commands with so many bytes behind them, from the next one on; collective: where a rank
// has no memory, all fail and have the room that they had. PS_EXHAUSTED: no message is so long.
PS_MUST_USE ps_status ps_ranks_reserve(ps_ranks *ranks, uint64_t bytes);

// Rank 0: tells the others. OK with one rank.
PS_MUST_USE ps_status ps_ranks_tell(ps_ranks *ranks, const ps_command *command, const void *behind);

// The same for an end, after which nothing is said: when the others cannot be told, they are lost.
void ps_ranks_tell_end(ps_ranks *ranks, ps_word word, uint32_t session);

// Other ranks: waits for the next command. It and what is behind are valid until the next call.
PS_MUST_USE ps_status ps_ranks_listen(ps_ranks *ranks, const ps_command **out, const void **behind);

#endif
