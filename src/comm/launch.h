// comm/launch.h - mistakes in starting a job, found before they cost a day.
#ifndef PS_COMM_LAUNCH_H
#define PS_COMM_LAUNCH_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

// PS_INVALID when a launcher (mpirun of any MPI, srun) says in the environment that it started
// several ranks but this process sees a job of `size` 1: then each of them would be "rank 0 of 1"
// and do all of the work. The message names the launcher to use.
PS_MUST_USE ps_status ps_comm_launcher_check(uint32_t size);

// How many ranks and threads share this host's CPUs.
typedef struct ps_comm_crowd {
    uint32_t ranks;        // on this host
    uint32_t rank_threads; // that each computes with
    uint32_t cpus_allowed; // to this process, by its affinity mask
    uint32_t cpus;         // of this host, online
    bool is_bound;         // started by mpirun, which may give each rank a mask of its own
} ps_comm_crowd;

// ranks: of the job; under mpirun those of this host are taken from its environment.
ps_comm_crowd ps_comm_crowd_here(uint32_t ranks, uint32_t rank_threads);

// Writes one line for people (cut at capacity - 1 bytes) and returns true when threads would share
// CPUs: a mask with fewer CPUs than a rank has threads (with the flags of mpirun that help), or
// more threads in all than CPUs. Pure.
bool ps_comm_crowd_warning(const ps_comm_crowd *crowd, char *out, size_t capacity);

#endif
