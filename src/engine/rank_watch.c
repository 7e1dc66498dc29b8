// engine/rank_watch.c - looks at the states of processes while it waits.
#include "engine/rank_watch.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOKS 3 // in a row that find a process stopped
#define LOOKS_A_TIMEOUT 5

void ps_rank_place_get(ps_rank_place *out)
{
    struct stat space;
    memset(out, 0, sizeof *out);
    ps_machine_get_place(&out->cpus);
    out->pid_space = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
    out->pid = getpid();
}

void ps_rank_watch_init(ps_rank_watch *watch, ps_comm *comm, const ps_rank_place *places,
                        uint64_t timeout_ns)
{
    const uint32_t rank = ps_comm_rank(comm);
    const ps_rank_place *own = &places[rank];
    *watch = (ps_rank_watch){.comm = comm,
                             .interval_ns = (timeout_ns > 0 ? timeout_ns : PS_COMM_TIMEOUT_NS) /
                                            LOOKS_A_TIMEOUT};
    for (uint32_t r = 0; r < ps_comm_size(comm); r++) {
        const bool is_mine = rank == 0 ? r > 0 : rank == 1 && r == 0;
        if (is_mine && own->pid_space != 0 && places[r].pid_space == own->pid_space &&
            places[r].cpus.host == own->cpus.host && places[r].pid > 0 &&
            places[r].pid <= INT32_MAX) {
            watch->pids[r] = (int32_t)places[r].pid;
        }
    }
}

static bool is_stopped(int32_t pid)
{
    char path[64];
    char line[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false; // it has ended, which others find out
    }
    const bool is_read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    const char *name_end = is_read ? strrchr(line, ')') : NULL; // names may hold anything
    return name_end != NULL && strncmp(name_end, ") T", 3) == 0;
}

// The first watched rank that is stopped; the number of ranks: none is.
static uint32_t find_stopped(const ps_rank_watch *watch)
{
    const uint32_t size = ps_comm_size(watch->comm);
    uint32_t rank = 0;
    while (rank < size && (watch->pids[rank] == 0 || !is_stopped(watch->pids[rank]))) {
        rank++;
    }
    return rank;
}

// One look. *looks counts those in a row that found a rank stopped.
static ps_status look(const ps_rank_watch *watch, uint32_t *looks)
{
    const uint32_t rank = find_stopped(watch);
    *looks = rank < ps_comm_size(watch->comm) ? *looks + 1 : 0;
    if (*looks < LOOKS) {
        return PS_OK;
    }
    const ps_status status = ps_fail(PS_LOST, "rank %u (process %d) is stopped", rank,
                                     (int)watch->pids[rank]);
    ps_comm_give_up(watch->comm, status);
    return status;
}

ps_status ps_rank_watch_wait(const ps_rank_watch *watch)
{
    uint64_t looked_ns = ps_clock_ns();
    uint32_t looks = 0;
    bool done = false;
    for (;;) {
        PS_TRY(ps_comm_test(watch->comm, &done));
        if (done) {
            return PS_OK;
        }
        ps_comm_idle(watch->comm);
        const uint64_t gap_ns = ps_clock_ns() - looked_ns;
        if (gap_ns > watch->interval_ns) {
            // A long gap is one in which this process was stopped itself, perhaps with the others.
            looks = gap_ns > 2 * watch->interval_ns ? 0 : looks;
            looked_ns += gap_ns;
            PS_TRY(look(watch, &looks));
        }
    }
}
