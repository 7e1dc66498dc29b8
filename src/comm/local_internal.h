// comm/local_internal.h - the shared memory of local ranks: between local.c and local_fork.c.
//
// Invariants, which the back end is built on:
//
// 1. A lane is written by its rank alone, but for `sleepers`.
// 2. Transfers go in rounds; a rank publishes one slot a round, a header and its bytes for all
//    peers, and finishes the round when it has read the slots of all peers of that round.
// 3. Round g uses slot g % 2. A rank publishes round g + 2 after it has seen all peers publish
//    g + 1, which they do after they have read all of round g: so nobody reads the slot that is
//    overwritten, and no acknowledgement is needed.
// 4. A slot's bytes and header are written before its `round` (seq_cst, so release) and read after
//    it (acquire).
// 5. A sleeper can't miss its wake-up: it counts itself in `sleepers` before the kernel compares
//    `round`, and the publisher changes `round` before it reads `sleepers`; both seq_cst.
#ifndef PS_COMM_LOCAL_INTERNAL_H
#define PS_COMM_LOCAL_INTERNAL_H

#include "comm/comm_internal.h"

#include "base/memory.h"

#include <stdatomic.h>
#include <sys/types.h>

// What a rank publishes a round; for an exchange all peers share it.
#define PS_LOCAL_SLOT_BYTES ((uint64_t)65536)

typedef struct ps_local_slot {
    _Alignas(PS_CACHE_LINE_BYTES) atomic_uint round; // what the slot holds; 0: nothing yet
    ps_comm_header header;
    _Alignas(PS_CACHE_LINE_BYTES) char data[PS_LOCAL_SLOT_BYTES];
} ps_local_slot;

typedef struct ps_local_lane {
    _Alignas(PS_CACHE_LINE_BYTES) atomic_uint sleepers; // on the rounds of this lane
    atomic_int pid;                                     // 0: not forked yet; written by rank 0
    ps_local_slot slots[2];
} ps_local_lane;

typedef enum ps_local_failure {
    PS_LOCAL_FINE,
    PS_LOCAL_FAILING, // `text` is being written by the rank that made this of PS_LOCAL_FINE
    PS_LOCAL_FAILED,  // `text` may be read (acquire)
} ps_local_failure;

typedef struct ps_local_segment {
    _Alignas(PS_CACHE_LINE_BYTES) atomic_uint failure; // ps_local_failure
    char text[512];
    ps_local_lane lanes[]; // [size]
} ps_local_segment;

typedef struct ps_local {
    ps_comm comm;
    ps_local_segment *segment;
    ps_local_lane *own;
    uint32_t round;       // of the job; counts on through all collectives, wraps
    uint64_t done_bytes;  // of each span of the transfer, in earlier rounds
    uint64_t piece_bytes; // of each span in a round
    bool is_streaming;    // bytes for others are written past the caches
    uint64_t pending;     // bit r: the slot of rank r has not been read in this round
} ps_local;

uint64_t ps_local_segment_bytes(uint32_t size);

// The back end in each process; the segment is mapped by its parent.
ps_status ps_local_open(ps_local_segment *segment, uint32_t rank, uint32_t size,
                        const ps_comm_options *options, ps_comm **out);

// Ends the segment's part of this process and frees it; called by the back end's close.
ps_status ps_local_reap(ps_local *local);

// PS_LOST when the process has ended (it may be a zombie). A child's signal is named by its parent.
ps_status ps_local_process_check(const ps_local *local, uint32_t peer);

#endif
