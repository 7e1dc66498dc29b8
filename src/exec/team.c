// exec/team.c - threads that sleep in one wait word between runs.
#include "exec/team.h"

#include "exec/pin.h"
#include "exec/wait.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// About 20 to 100 microseconds of looking: longer than a barrier of a balanced step, shorter than a
// time slice.
#define SPINS 2000

typedef struct worker {
    ps_team *team;
    uint32_t index;
    pthread_t thread;
} worker;

struct ps_team {
    ps_wait_word start; // one more for each run
    ps_barrier barrier;
    uint32_t workers;
    uint32_t threads; // started, workers - 1 when complete
    unsigned spins;
    ps_team_function *function; // written before `start` changes, read after
    void *argument;
    bool stop;
    bool pins;
    ps_pins cpus; // when the team was made
    worker *list;
};

static void *worker_main(void *argument)
{
    worker *self = argument;
    ps_team *team = self->team;
    for (unsigned seen = 0;; seen++) {
        ps_wait_until_changed(&team->start, seen, team->spins, NULL);
        if (team->stop) {
            return NULL;
        }
        team->function(team->argument, self->index, team->workers);
        ps_team_barrier(team, NULL);
    }
}

ps_status ps_team_create(uint32_t workers, ps_team **out)
{
    if (workers < 1 || workers > PS_TEAM_WORKERS_MAX) {
        return ps_fail(PS_INVALID, "%u threads: must be 1 to %d", workers, PS_TEAM_WORKERS_MAX);
    }
    ps_team *team = aligned_alloc(64, (sizeof *team + 63) / 64 * 64);
    worker *list = calloc(workers, sizeof *list);
    if (team == NULL || list == NULL) {
        free(team);
        free(list);
        return ps_fail(PS_NO_MEMORY, "no memory for %u workers", workers);
    }
    memset(team, 0, sizeof *team);
    team->workers = workers;
    team->list = list;
    team->cpus = ps_pins_get();
    team->pins = workers > 1 && workers <= team->cpus.count;
    team->spins = team->pins ? SPINS : 0;
    for (uint32_t i = 1; i < workers; i++) {
        list[i] = (worker){.team = team, .index = i};
        if (pthread_create(&list[i].thread, NULL, worker_main, &list[i]) != 0) {
            ps_team_destroy(team);
            return ps_fail(PS_IO, "cannot start thread %u of %u", i + 1, workers);
        }
        team->threads++;
        if (team->pins) {
            ps_pins_apply(&team->cpus, list[i].thread, i);
        }
    }
    *out = team;
    return PS_OK;
}

void ps_team_destroy(ps_team *team)
{
    if (team == NULL) {
        return;
    }
    team->stop = true;
    ps_wait_signal(&team->start);
    for (uint32_t i = 1; i <= team->threads; i++) {
        (void)pthread_join(team->list[i].thread, NULL);
    }
    free(team->list);
    free(team);
}

uint32_t ps_team_workers(const ps_team *team)
{
    return team->workers;
}

void ps_team_run(ps_team *team, ps_team_function *function, void *argument)
{
    if (team->workers == 1) {
        function(argument, 0, 1);
        return;
    }
    // Pinned only while it runs: threads that the caller starts inherit its mask, and the next team
    // counts its CPUs. Three system calls, below 10 microseconds.
    cpu_set_t before;
    const pthread_t self = pthread_self();
    const bool pins = team->pins && pthread_getaffinity_np(self, sizeof before, &before) == 0;
    if (pins) {
        ps_pins_apply(&team->cpus, self, 0);
    }
    team->function = function;
    team->argument = argument;
    ps_wait_signal(&team->start);
    function(argument, 0, team->workers);
    ps_team_barrier(team, NULL);
    if (pins) {
        (void)pthread_setaffinity_np(self, sizeof before, &before);
    }
}

void ps_team_barrier(ps_team *team, const ps_filler *filler)
{
    if (team->workers > 1) {
        ps_barrier_wait(&team->barrier, team->workers, team->spins, filler);
    }
}
