// hw/machine.h - what the planner knows of a machine: counts, sizes, measured rates.
#ifndef PS_HW_MACHINE_H
#define PS_HW_MACHINE_H

#include "base/dtype.h"

#include <stdint.h>

// How a collective crosses ranks.
typedef enum ps_comm_shape {
    PS_COMM_SHAPE_FLAT, // as measured: comm_ns + bytes / comm_gbs, for any number of ranks
    PS_COMM_SHAPE_RING, // a sum is 2 (N - 1) steps, in which 2 (N - 1) / N of the bytes pass a rank
    PS_COMM_SHAPE_MESH, // everyone to everyone: the same bytes in 2 steps
    PS_COMM_SHAPE_TREE, // up and down: 2 log2 N steps, the bytes twice
    PS_COMM_SHAPE_COUNT,
} ps_comm_shape;

const char *ps_comm_shape_name(ps_comm_shape shape); // "flat", "ring", "mesh", "tree"

// How who reads prefetched bytes waits for a prefetch stream.
typedef enum ps_prefetch_join {
    PS_JOIN_BARRIER, // until all that was started has been moved
    PS_JOIN_EVENT,   // until its own operands have been moved
    PS_JOIN_STREAM,  // it reads behind the prefetch, line by line, and ends no earlier
    PS_JOIN_COUNT,
} ps_prefetch_join;

const char *ps_prefetch_join_name(ps_prefetch_join join); // "barrier", "event", "stream"

// What is known of a machine that is described and not measured (docs/machines.md). All zeros say
// nothing: no fixed costs, every rate is reached, memory has no end. Shares are from 0 to 1, and 0
// is read as 1.
typedef struct ps_machine_profile {
    // Of read_gbs, what is reached by reads of
    double weight_share;     //   weights
    double kv_share;         //   the KV of one head of this rank: it is contiguous
    double kv_strided_share; //   the KV of several heads
    double kv_cache_share;   // of cache_read_gbs, by reads of KV; of weights it is linear_share
    double compute_share;    // of int8_gops and f32_gops, by linears and attention
    double l2_share;         // of L2, what prefetches may fill
    // Attention reads in rows * KV heads * attention_splits pieces, one a core; with fewer pieces
    // than cores it is so much slower. 0: never.
    uint32_t cores, attention_splits;
    double matmul_ns; // more, each linear and attention,
    double vector_ns; //   and each vector operator
    // Collectives, beside comm_ns and comm_gbs. With more ranks than server_ranks (0: no limit),
    // they go inside servers first and last, and between servers by links of their own.
    uint32_t comm_shape; // ps_comm_shape
    double comm_step_ns; // more, each step
    // Of a sum that goes with its linear in chunks, each but the first, in place of comm_ns; 0: the
    // same.
    double chunk_ns;
    uint32_t element_bytes; // of a number that crosses ranks; 0: 4
    uint32_t server_ranks;  //
    double server_comm_ns;  // between servers
    double server_step_ns;  //
    double server_comm_gbs; // of one rank
    uint32_t join;          // ps_prefetch_join
    uint64_t memory_bytes;  // of one rank; 0: no limit
    // Where experts that are not in memory come from: the host's memory while it lasts, then a
    // disk. 0 bytes a nanosecond: there is none.
    uint64_t host_bytes;
    double host_ns, host_gbs;
    double disk_ns, disk_gbs;
    // Area of the chip, at area_nm nanometres; 0: not known.
    double area_nm, core_mm2, l2_mm2_per_mib;
} ps_machine_profile;

// What is measured of workers beside the rates below. 0: it is not known, and plays go without.
typedef struct ps_worker_rates {
    double read_gbs;       // bytes a nanosecond that one worker reads while the others read nothing
    double kv_gbs;         // of KV that attention of all workers reads from memory
    double attention_gops; // multiply-adds a nanosecond of attention, all workers
    double linear_gops[PS_DTYPE_COUNT]; // of linears of several rows, by the format of the weight;
                                        //   0: int8_gops or f32_gops
    double overlap;    // of reading and arithmetic of a linear, the part of the shorter that is
                       //   hidden: 0 to 1
    double vector_gbs; // bytes that all workers read and write in vector operators
    double meet_ns;    // a barrier of workers that have read from memory: the last is waited for
    double step_ns;    // an operator whose operands, and what the plan says of it, are in memory
} ps_worker_rates;

typedef struct ps_machine {
    char name[64];            // CPU model
    uint32_t threads;         // workers that the rates below are for
    bool has_prefetch_stream; // prefetches run beside operators, on a stream of their own
    uint64_t l2_bytes;        // of one core
    uint64_t llc_bytes;       // of the last level, shared
    double read_gbs;          // bytes a nanosecond that all workers together read from DRAM
    double cache_read_gbs;    // the same from L2
    double linear_share;      // of that, what a linear of one row reaches: 0 to 1
    double int8_gops;         // multiply-adds a nanosecond of the int8 linears, all workers
    double f32_gops;          // the same of f32 fma
    double barrier_ns;        // one barrier of all workers
    double fill_gbs; // bytes a nanosecond that all workers move from DRAM to L2 while they wait
    double comm_ns;  // a collective of few bytes takes so long,
    double comm_gbs; //   and a larger one so many bytes a nanosecond more
    char source[40]; // of the rates: one of those below, "tuned 2026-11-29", or what a file says
    ps_worker_rates workers;
    ps_machine_profile profile;
} ps_machine;

// A share as it is meant.
static inline double ps_machine_share(double share)
{
    return share == 0 ? 1 : share;
}

// L2 of all workers, as far as prefetches may fill it.
uint64_t ps_machine_l2_bytes(const ps_machine *machine);

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
