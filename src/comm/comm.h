// comm/comm.h - collectives between the ranks of a job.
//
// A back end only moves bytes; sums are made here, in rank order (comm/sum.h), so that every back
// end gives the same bits. The back ends:
//
//     self    one rank; or one real rank among simulated peers, whose bytes are all zero
//     local   ranks are processes on one host, forked from this one, over shared memory
//     mpi     ranks are started by mpirun; point-to-point messages, progressed by our own polling
//     sim     wraps another one and delays completion by a latency and a bandwidth
//
// Every collective goes in three steps: start it, test it until it is done, use the result. At most
// one is in flight in a communicator; starting a second one is a bug. Buffers are borrowed from the
// start until it is done and must not be touched in between. All ranks make the same calls in the
// same order with the same sizes. The wait loop is the caller's, so that it can do other work:
//
//     PS_TRY(ps_comm_all_reduce_start(comm, step, values, count, scratch));
//     bool done = false;
//     while (!done) {
//         PS_TRY(ps_comm_test(comm, &done));
//         if (!done && !touch_next_chunk()) {
//             ps_comm_idle(comm);
//         }
//     }
//
// Ranks that have diverged. Every message carries the number of the collective (each rank counts
// those that it starts), its kind, the sizes and the caller's tag. Any difference ends the
// collective: "the ranks have diverged: rank 1 is at collective 17 (barrier of 0 bytes, tag 3),
// rank 0 at collective 17 (all_gather of 4608 bytes, tag 2)". Use as tag what the ranks must agree
// on, such as the step of the plan: numbers, kinds and sizes alone do not tell two layers apart.
//
// Lost ranks. A rank that dies, or that does not arrive within the timeout, ends the collective of
// all others with PS_LOST. A communicator that has failed stays failed: every later call returns
// the same status and message. The time counts while somebody waits, so that a job that is stopped
// and continued as a whole (Ctrl-Z) does not lose ranks.
//
// One thread drives a communicator. Nothing is allocated after it was opened.
#ifndef PS_COMM_COMM_H
#define PS_COMM_COMM_H

#include "base/status.h"

#include <stdint.h>

#define PS_COMM_RANKS_MAX 64u
#define PS_COMM_TIMEOUT_NS ((uint64_t)5000000000)
#define PS_COMM_GATHER_BYTES ((uint64_t)64 << 10)

// The most bytes that one rank may send or receive in one collective, all peers together.
#define PS_COMM_BYTES_MAX ((uint64_t)1 << 30)

typedef struct ps_comm ps_comm;

// Zeros mean the defaults.
typedef struct ps_comm_options {
    uint64_t timeout_ns;   // default PS_COMM_TIMEOUT_NS
    uint32_t rank_threads; // that each rank computes with, default 1: with more ranks x threads
                           // than CPUs nobody spins
} ps_comm_options;

// One real rank, 0 of `size`. Peers beyond 0 are simulated: what they send is zeros, at once. So
// the work of one rank of `size` can be measured alone; all_reduce gives the rank's own values.
//
// PS_INVALID    size is 0 or above PS_COMM_RANKS_MAX
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_comm_self_open(uint32_t size, const ps_comm_options *options,
                                        ps_comm **out);

// Forks size - 1 children; returns in each of the `size` processes with its rank. The calling
// process is rank 0 and must have one thread. Children share its files, ignore SIGINT (rank 0
// decides when to stop), and are killed by the kernel when the calling thread ends.
//
// PS_INVALID    size is 0 or above PS_COMM_RANKS_MAX
// PS_NO_MEMORY, PS_IO  no shared memory, no processes; those that were forked have been ended
// PS_INTERNAL   the process has other threads
PS_MUST_USE ps_status ps_comm_local_fork(uint32_t size, const ps_comm_options *options,
                                         ps_comm **out);

// The ranks of mpirun. Calls MPI_Init_thread, which nothing else in the library does; once a
// process.
//
// PS_UNSUPPORTED  built without MPI
// PS_INVALID      a launcher of another MPI started this process (comm/launch.h), or too many ranks
// PS_IO           MPI fails
PS_MUST_USE ps_status ps_comm_mpi_open(const ps_comm_options *options, ps_comm **out);

// What a simulated link does to a collective: it is done `latency_ns` plus the bytes that this rank
// sends or receives (the larger) over `bits_per_second` after the last rank has started it.
typedef struct ps_comm_link {
    uint64_t latency_ns;
    double bits_per_second; // 0: infinite
} ps_comm_link;

// Reads "latency=40us,bandwidth=25Gbps": either or both, in any order. Latency in ns, us, ms or s,
// at most 10 s; bandwidth in Kbps to Tbps (bits) or KB/s to TB/s (bytes; powers of 1000), at least
// 1 Kbps. Anything else is PS_INVALID with what would be right.
PS_MUST_USE ps_status ps_comm_link_parse(const char *text, ps_comm_link *out);

// Delays `inner`, which it keeps and closes; on failure `inner` stays the caller's. The ranks of
// `inner` must be on one host, because they compare clocks.
//
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_comm_sim_open_take(ps_comm *inner, const ps_comm_link *link,
                                            ps_comm **out);

// Ends the rank's part in the job; NULL is PS_OK. local: rank 0 waits for the other ranks, at most
// the timeout, then kills them; PS_LOST when one of them did not exit with code 0. mpi: finalises,
// unless the communicator has failed: MPI would hang, so the process must end with a code that is
// not 0, upon which mpirun ends the others (a rank that does not
// speak stays up to 3 s, so that the one that does can print).
PS_MUST_USE ps_status ps_comm_close(ps_comm *comm);

uint32_t ps_comm_rank(const ps_comm *comm);
uint32_t ps_comm_size(const ps_comm *comm);
const char *ps_comm_backend_name(const ps_comm *comm);

// The number of collectives that this rank has started. An all_reduce counts one or two.
uint64_t ps_comm_sequence(const ps_comm *comm);

// Whether the communicator has failed, for good.
bool ps_comm_has_failed(const ps_comm *comm);

// True when this rank is the one that should print the failure; so that there is one line for a job
// and not one for each rank. False while nothing has failed.
bool ps_comm_speaks(const ps_comm *comm);

// This rank cannot go on, for the reason in ps_error_message, to which its number is added; between
// collectives or within one. local: the others fail with PS_LOST and this message as soon as they
// wait. mpi: they fail when mpirun ends them or by the timeout. Nothing happens when the
// communicator has failed already. Only ps_comm_close may follow.
void ps_comm_give_up(ps_comm *comm, ps_status status);

// Each rank's slice to all ranks. slice_bytes [size]: of each rank, in rank order, may be 0; all
// [sum of slice_bytes]: the slices one after the other. `slice` may be the rank's place in `all`.
//
// All starts: PS_INVALID when sizes pass PS_COMM_BYTES_MAX (nothing has started, the communicator
// lives), PS_LOST when it has failed. What is sent by this rank to itself is copied by the start.
PS_MUST_USE ps_status ps_comm_all_gather_start(ps_comm *comm, uint32_t tag, const void *slice,
                                               void *all, const uint64_t *slice_bytes);

// Slice r of every rank to rank r. slices [sum of slice_bytes]: one for each rank; received [size,
// slice_bytes[rank]]: from each rank, in rank order. The buffers must not overlap.
PS_MUST_USE ps_status ps_comm_exchange_start(ps_comm *comm, uint32_t tag, const void *slices,
                                             void *received, const uint64_t *slice_bytes);

// Rank 0's message to all ranks. message [capacity_bytes], capacity alike on all ranks; *bytes: its
// length on rank 0, out on the others, valid when done. The others wait without a timeout for rank
// 0 to start (it may have nothing to do), but not for a dead one.
PS_MUST_USE ps_status ps_comm_broadcast_start(ps_comm *comm, uint32_t tag, void *message,
                                              uint64_t capacity_bytes, uint64_t *bytes);

// Done when all ranks have started it.
PS_MUST_USE ps_status ps_comm_barrier_start(ps_comm *comm, uint32_t tag);

// values [count]: becomes the sum over all ranks, added in rank order for each element: the same
// bits on every rank, for every back end, and for both ways in which it is done. Up to
// gather_bytes_max all ranks send all and each sums all; above, they exchange slices, sum one each,
// and gather the sums. scratch [ps_comm_all_reduce_scratch(size, count)].
PS_MUST_USE ps_status ps_comm_all_reduce_start(ps_comm *comm, uint32_t tag, float *values,
                                               uint64_t count, float *scratch);
uint64_t ps_comm_all_reduce_scratch(const ps_comm *comm, uint64_t count); // floats

// Sets up to which size; alike on all ranks, between collectives. At first PS_COMM_GATHER_BYTES.
// Never changes a result. Scratch sizes depend on it.
void ps_comm_set_gather_bytes_max(ps_comm *comm, uint64_t gather_bytes_max);
uint64_t ps_comm_gather_bytes_max(const ps_comm *comm);

// How a machine and its links do an all_reduce fastest, and what one then takes.
typedef struct ps_comm_tuning {
    uint32_t way;              // in which bytes are written for other ranks
    uint64_t gather_bytes_max; // up to which size all send all
    double ns;                 // with few bytes, by this rank's clock
    double gbs;                // bytes a nanosecond that it moves beyond that
} ps_comm_tuning;

// Measures that, and keeps the first two. All ranks call it together, from where they will run
// later (pinned); rank 0's clock decides. Never changes a result. Takes up to about 50 ms, or 25
// collectives of a slow link, and memory for its time.
//
// PS_NO_MEMORY (this rank has given up), PS_LOST
PS_MUST_USE ps_status ps_comm_tune(ps_comm *comm, ps_comm_tuning *out);

// Does as was measured earlier, on all ranks alike. PS_INVALID: the back end has no such way.
PS_MUST_USE ps_status ps_comm_use(ps_comm *comm, const ps_comm_tuning *tuning);

// Median nanoseconds of an all_reduce of each size, by this rank's clock; bytes [count], at most
// PS_COMM_MEASURED_BYTES_MAX, and out_ns [count]. As long as ps_comm_tune for each size.
//
// PS_NO_MEMORY (this rank has given up), PS_LOST
#define PS_COMM_MEASURED_BYTES_MAX ((uint64_t)524288)
PS_MUST_USE ps_status ps_comm_measure(ps_comm *comm, const uint64_t *bytes, uint32_t count,
                                      double *out_ns);

// sum [counts[rank]]: slice `rank` of the sum over all ranks of values [sum of counts]; bits as
// above. scratch [size, counts[rank]]. `sum` may be the rank's slice of `values`.
PS_MUST_USE ps_status ps_comm_reduce_scatter_start(ps_comm *comm, uint32_t tag, const float *values,
                                                   const uint64_t *counts, float *sum,
                                                   float *scratch);

// Does a bounded part of the work that is left (copies or sums about 64 KiB) and never blocks. True
// in *out_done when the collective is done, or none was started.
//
// PS_LOST  a rank died, stalled or diverged; the buffers' contents are undefined
PS_MUST_USE ps_status ps_comm_test(ps_comm *comm, bool *out_done);

// For a wait loop with nothing else to do: spins, and after many calls for one collective yields
// the CPU, then sleeps up to 10 ms or until a peer wakes it.
void ps_comm_idle(ps_comm *comm);

// The collective in flight waits for ranks that are late as long as they live: for what may take
// long, such as loading a file.
void ps_comm_be_patient(ps_comm *comm);

// Tests and idles until the collective is done.
PS_MUST_USE ps_status ps_comm_wait(ps_comm *comm);

#endif
