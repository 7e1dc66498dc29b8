// comm/launch.c - mistakes in starting a job.
#include "comm/launch.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A count in the environment; 0: none.
static uint32_t read_count(const char *name)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return 0;
    }
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    return *end == '\0' && value <= UINT32_MAX ? (uint32_t)value : 0;
}

ps_status ps_comm_launcher_check(uint32_t size)
{
    // A rank says more than a count that a batch job's shell inherits: SLURM_NTASKS alone is in the
    // environment of every command of an allocation.
    static const struct {
        const char *variable;
        const char *launcher;
        uint32_t lowest; // value that tells of several ranks
    } SIGNS[] = {
        {"OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI", 2},
        {"PMI_SIZE", "mpirun of MPICH or Intel MPI", 2},
        {"MPI_LOCALNRANKS", "mpirun of MPICH or Intel MPI", 2},
        {"SLURM_STEP_NUM_TASKS", "srun", 2},
        {"PMIX_RANK", "a PMIx launcher", 1},
    };
    for (size_t i = 0; size == 1 && i < sizeof SIGNS / sizeof SIGNS[0]; i++) {
        const uint32_t value = read_count(SIGNS[i].variable);
        if (value >= SIGNS[i].lowest) {
            return ps_fail(PS_INVALID,
                           "%s started several ranks (%s=%" PRIu32 "), but this is a job of one: "
                           "start it with the mpirun of Open MPI that prestage was built with "
                           "(mpirun.openmpi on Debian), or without a launcher",
                           SIGNS[i].launcher, SIGNS[i].variable, value);
        }
    }
    return PS_OK;
}

ps_comm_crowd ps_comm_crowd_here(uint32_t ranks, uint32_t rank_threads)
{
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t cpus = online > 0 ? (uint32_t)online : 1;
    const uint32_t ranks_here = read_count("OMPI_COMM_WORLD_LOCAL_SIZE");
    return (ps_comm_crowd){
        .ranks = ranks_here > 0 ? ranks_here : ranks,
        .rank_threads = rank_threads,
        .cpus_allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set)
                                                                    : cpus,
        .cpus = cpus,
        .is_bound = ranks_here > 0,
    };
}

bool ps_comm_crowd_warning(const ps_comm_crowd *crowd, char *out, size_t capacity)
{
    if (crowd->cpus_allowed < crowd->rank_threads && crowd->is_bound) {
        (void)snprintf(out, capacity,
                       "each rank has %" PRIu32 " threads, but mpirun lets this one use %" PRIu32
                       " of %" PRIu32
                       " CPUs: give mpirun --bind-to none or --map-by slot:PE=%" PRIu32,
                       crowd->rank_threads, crowd->cpus_allowed, crowd->cpus, crowd->rank_threads);
        return true;
    }
    // A mask that mpirun set is this rank's alone; any other is shared by all ranks.
    const uint32_t cpus = crowd->is_bound ? crowd->cpus : crowd->cpus_allowed;
    const uint64_t threads = (uint64_t)crowd->ranks * crowd->rank_threads;
    if (threads > cpus) {
        const uint32_t share = crowd->ranks == 0 ? 0 : cpus / crowd->ranks; // threads of each
        (void)snprintf(out, capacity,
                       "%" PRIu32 " ranks with -t %" PRIu32 " share %" PRIu32
                       " CPU%s: they will wait for each other; %s %" PRIu32 " would fit",
                       crowd->ranks, crowd->rank_threads, cpus, cpus == 1 ? "" : "s",
                       share > 0 ? "-t" : "ranks up to", share > 0 ? share : cpus);
        return true;
    }
    return false;
}
