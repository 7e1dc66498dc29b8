// exec/team.h - the worker team: pinned threads that run one function together.
#ifndef PS_EXEC_TEAM_H
#define PS_EXEC_TEAM_H

#include "base/status.h"
#include "exec/wait.h"

#include <stdint.h>

#define PS_TEAM_WORKERS_MAX 256

typedef struct ps_team ps_team;

// What the workers run; worker counts from 0, and the thread that calls ps_team_run is worker 0.
typedef void ps_team_function(void *argument, uint32_t worker, uint32_t workers);

// Starts workers - 1 threads. With no more workers than CPUs in the affinity mask each is pinned to
// its own CPU, and the thread that calls ps_team_run is pinned to the first one while it runs.
//
// PS_INVALID  workers is 0 or above PS_TEAM_WORKERS_MAX
// PS_IO       the system refuses a thread
PS_MUST_USE ps_status ps_team_create(uint32_t workers, ps_team **out);
void ps_team_destroy(ps_team *team); // NULL is allowed

uint32_t ps_team_workers(const ps_team *team);

// Runs the function on all workers and returns when all are done. One caller at a time. Allocates
// nothing.
void ps_team_run(ps_team *team, ps_team_function *function, void *argument);

// For use inside a running function: returns when all workers have called it. filler: what to do
// until then, NULL for nothing.
void ps_team_barrier(ps_team *team, const ps_filler *filler);

#endif
