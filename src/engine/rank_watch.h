// engine/rank_watch.h - ranks that are stopped while others wait without a timeout.
//
// Loading a file takes as long as it takes, and rank 0 may wait for its user; so these waits have
// no timeout. A rank that is lost ends them; one that was stopped (SIGSTOP) would not. Rank 0
// watches the others, rank 1 watches rank 0, those of its host and namespace of processes: several
// looks in a row that find a process stopped, while the looker runs, end the wait.
#ifndef PS_ENGINE_RANK_WATCH_H
#define PS_ENGINE_RANK_WATCH_H

#include "comm/comm.h"
#include "hw/machine.h"

// Where a rank runs, as it tells the others.
typedef struct ps_rank_place {
    ps_cpu_place cpus;
    uint64_t pid_space; // its namespace of processes
    int64_t pid;
} ps_rank_place;

typedef struct ps_rank_watch {
    ps_comm *comm;
    int32_t pids[PS_COMM_RANKS_MAX]; // of those that are watched; 0: not watched
    uint64_t interval_ns;            // between two looks
} ps_rank_watch;

void ps_rank_place_get(ps_rank_place *out);

// places [ranks of comm]. timeout_ns: that of other waits; 0: the default. A rank may be stopped
// for half of it, about.
void ps_rank_watch_init(ps_rank_watch *watch, ps_comm *comm, const ps_rank_place *places,
                        uint64_t timeout_ns);

// Waits for the collective in flight, without a timeout. PS_LOST: as ps_comm_wait, or a rank is
// stopped, which has been told to the others.
PS_MUST_USE ps_status ps_rank_watch_wait(const ps_rank_watch *watch);

#endif
