// hw/machine.h - what the planner knows of a machine: counts, sizes, measured rates.
#ifndef PS_HW_MACHINE_H
#define PS_HW_MACHINE_H

#include "base/status.h"

#include <stdint.h>

typedef struct ps_machine {
    char name[64];         // CPU model
    uint32_t threads;      // workers that the rates below are for
    uint64_t l2_bytes;     // of one core
    uint64_t llc_bytes;    // of the last level, shared
    double read_gbs;       // bytes a nanosecond that all workers together read from DRAM
    double cache_read_gbs; // the same from L2
    double linear_share;   // of that, what a linear of one row reaches: 0 to 1
    double int8_gops;      // multiply-adds a nanosecond of the int8 linears, all workers
    double f32_gops;       // the same of f32 fma
    double barrier_ns;     // one barrier of all workers
    double fill_gbs; // bytes a nanosecond that all workers move from DRAM to L2 while they wait
    double comm_ns;  // a collective of few bytes takes so long,
    double comm_gbs; //   and a larger one so many bytes a nanosecond more
    bool has_prefetch_stream; // prefetches run beside operators, on a stream of their own
    char source[40]; // of the rates: one of those below, "tuned 2026-11-29", or what a file says
} ps_machine;

#define PS_RATES_DEFAULT "defaults"
#define PS_RATES_QUICK "measured quickly now"

// Sizes from hwloc, names from the CPU, rates as conservative defaults.
PS_MUST_USE ps_status ps_machine_discover(uint32_t threads, ps_machine *out);

// "AMD EPYC, 2 threads, tuned 2026-11-29: read 60.1 GB/s, ...", the rates that a planner for so
// many ranks uses. Cut where it does not fit.
#define PS_MACHINE_TEXT_BYTES 400u
void ps_machine_describe(const ps_machine *machine, uint32_t ranks,
                         char text[PS_MACHINE_TEXT_BYTES]);

// CPUs this process may use, when it is one of `ranks` on this host: its affinity mask, cut by its
// part of the cgroup's CPU quota (v1 and v2, rounded up), at least 1; 1 with fewer CPUs than ranks.
uint32_t ps_machine_default_threads(uint32_t ranks);

// Which CPUs of which host this process may use; equal bytes for equal places.
typedef struct ps_cpu_place {
    uint64_t host; // of the running system
    uint64_t cpus[16];
} ps_cpu_place;
void ps_machine_get_place(ps_cpu_place *out);

// Keeps this process, and threads that it will make, to its part of the CPUs of its mask: part
// `index` of `count`. With fewer CPUs than parts all keep all.
void ps_machine_take_share(uint32_t index, uint32_t count);

// Gives this process the CPUs of a place back. Threads that it has made keep theirs.
void ps_machine_return_to(const ps_cpu_place *place);

// CPUs in the affinity mask alone.
uint32_t ps_machine_affinity_count(void);

// Bytes that can still be taken without swapping: MemAvailable, cut by the cgroup's memory limit.
uint64_t ps_machine_available_bytes(void);

// What this process has of memory now, mapped files included.
uint64_t ps_machine_resident_bytes(void);

// Whether `what`, all of which will be touched, finds so many bytes: mapping more would work, and
// touching it end the process. PS_NO_MEMORY: the message has both numbers.
PS_MUST_USE ps_status ps_machine_check_memory(uint64_t bytes, const char *what);

#endif
