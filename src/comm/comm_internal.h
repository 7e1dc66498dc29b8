// comm/comm_internal.h - between the front (comm.c, all_reduce.c) and the back ends.
//
// To a back end every collective is the same: one span of bytes to each peer and one from each,
// any of them empty, with a header that goes to every peer even where the span is empty. It is
// finished when all headers have come, have been found right by ps_comm_arrived, and all spans have
// moved. So no rank can finish a collective that another one has not started: the back ends build
// on that.
#ifndef PS_COMM_COMM_INTERNAL_H
#define PS_COMM_COMM_INTERNAL_H

#include "comm/comm.h"

typedef enum ps_comm_kind {
    PS_COMM_ALL_GATHER,
    PS_COMM_EXCHANGE,
    PS_COMM_BROADCAST,
    PS_COMM_BARRIER,
} ps_comm_kind;

// Travels between processes of one program on machines of one kind: no byte order, no versions.
typedef struct ps_comm_header {
    uint64_t sequence;
    uint64_t digest;   // of all slice sizes, or of the capacity of a broadcast
    uint64_t bytes;    // of all slices; of a broadcast's message on rank 0, 0 on the others
    uint64_t start_ns; // when the sender started it; 0 unless it runs below sim
    uint32_t kind;     // ps_comm_kind
    uint32_t tag;
} ps_comm_header;

typedef struct ps_comm_send {
    const char *data;
    uint64_t bytes;
} ps_comm_send;

typedef struct ps_comm_receive {
    char *data;
    uint64_t bytes; // of a broadcast: the capacity until rank 0's header has arrived
} ps_comm_receive;

typedef struct ps_comm_transfer {
    ps_comm_header header;
    uint64_t span_bytes_max; // of any pair of ranks; alike on all ranks; of a broadcast as above
    bool same_to_all;        // all entries of `send` but the rank's own are the same
    bool keeps_own; // the places to receive at hold this rank's own values, and simulated peers,
                    // which add zeros to them, leave them there
    ps_comm_send send[PS_COMM_RANKS_MAX]; // [size]; the rank's own entry is not used
    ps_comm_receive receive[PS_COMM_RANKS_MAX];
} ps_comm_transfer;

typedef enum ps_comm_cause {
    PS_COMM_CAUSE_PEER, // another rank died, diverged or told of a failure
    PS_COMM_CAUSE_LATE, // the missing rank has not come in time
    PS_COMM_CAUSE_OWN,  // this rank gives up
} ps_comm_cause;

typedef struct ps_comm_backend {
    const char *name;
    // Chooses one of the ways in which it can move bytes, between transfers; false: there are not
    // so many. Way 0 is the first. NULL: there is one.
    bool (*set_way)(ps_comm *comm, uint32_t way);
    // Starts comm->transfer. Copies at most a bounded part.
    ps_status (*start)(ps_comm *comm);
    // Moves a bounded part on. Is not called again once *out_done is true.
    ps_status (*test)(ps_comm *comm, bool *out_done);
    // Gives the CPU away for at most `ns`, less when something happens.
    void (*sleep)(ps_comm *comm, uint64_t ns);
    // Is called now and then during a wait: PS_LOST when a rank has died or told of a failure.
    ps_status (*check)(ps_comm *comm);
    // The lowest rank that the transfer still waits for; comm->size: none.
    uint32_t (*missing)(const ps_comm *comm);
    // Tells the other ranks of the failure that is in ps_error_message, if it can, and says whether
    // this rank should print it.
    bool (*announce)(ps_comm *comm, ps_comm_cause cause);
    ps_status (*close)(ps_comm *comm); // frees it
} ps_comm_backend;

typedef enum ps_comm_reduce_stage {
    PS_COMM_REDUCE_NONE,
    PS_COMM_REDUCE_MOVE,  // rows of all ranks come in
    PS_COMM_REDUCE_SUM,   // [next, count) is still to be summed
    PS_COMM_REDUCE_SHARE, // sums of slices are gathered
} ps_comm_reduce_stage;

typedef struct ps_comm_reduce {
    ps_comm_reduce_stage stage;
    const float *rows[PS_COMM_RANKS_MAX]; // [size] of [count]
    float *sum;                           // [count], may be one of the rows
    uint64_t count;
    uint64_t next;
    float *shared; // [shared_count], the whole vector of an all_reduce by slices; NULL: no sharing
    uint64_t shared_count;
} ps_comm_reduce;

// Back ends put this first in a struct of their own.
struct ps_comm {
    const ps_comm_backend *backend;
    uint32_t rank, size;
    ps_comm_options options; // without zeros
    uint64_t gather_bytes_max;
    uint32_t spins; // calls of idle before the CPU is given away
    uint64_t sequence;

    bool is_busy;       // a collective is in flight
    bool is_moving;     // its transfer is not finished
    bool is_patient;    // no timeout at present
    bool is_late;       // a rank has not come in time
    bool was_away;      // this one was stopped while the transfer lasts: others found it late
    uint64_t *bytes;    // of a broadcast in flight
    uint64_t latest_ns; // the latest start_ns of its headers
    ps_comm_transfer transfer;
    ps_comm_reduce reduce;

    uint32_t fruitless;   // tests since the last look at the clock
    uint32_t idles;       // since the start
    uint64_t yields_from; // the sequence from which on idle yields again
    uint64_t looked_ns;   // last look at the clock; the first is at the start
    uint64_t waited_ns;

    ps_status status; // of the failure that ended it
    bool is_alike;    // every rank has come to it by itself, and closes
    bool speaks;
    char message[512];
};

// size_bytes: of the back end's struct. NULL with the message set.
void *ps_comm_new(uint64_t size_bytes, const ps_comm_backend *backend, uint32_t rank, uint32_t size,
                  const ps_comm_options *options);

bool ps_comm_set_way(ps_comm *comm, uint32_t way);

// Checks what `peer` sent against this rank's transfer; to be called once for each peer, before its
// bytes are used. Of rank 0's header of a broadcast it also takes the length, into receive[0] and
// span_bytes_max. PS_LOST when the ranks have diverged.
ps_status ps_comm_arrived(ps_comm *comm, uint32_t peer, const ps_comm_header *header);

// "collective 17 (all_gather of 4608 bytes, tag 3)"
typedef struct ps_comm_text {
    char text[112];
} ps_comm_text;
ps_comm_text ps_comm_describe(const ps_comm_header *header);

// Starts the transfer that the caller has filled in, but for its header, which is made here.
ps_status ps_comm_transfer_start(ps_comm *comm, ps_comm_kind kind, uint32_t tag, uint64_t bytes,
                                 uint64_t digest);

// Ends the communicator by a failure that every rank has come to by itself, with its message; rank
// 0 speaks.
void ps_comm_fail_alike(ps_comm *comm, ps_status status);

// PS_OK when a collective may be started.
ps_status ps_comm_ready(const ps_comm *comm);

// The spans of an all_gather or an exchange, without the rank's own. PS_INVALID: too many bytes.
ps_status ps_comm_all_gather_set(ps_comm *comm, const void *slice, void *all,
                                 const uint64_t *slice_bytes);
ps_status ps_comm_exchange_set(ps_comm *comm, const void *slices, void *received,
                               const uint64_t *slice_bytes);

// Goes on with an all_reduce or reduce_scatter whose transfer has finished.
ps_status ps_comm_reduce_advance(ps_comm *comm, bool *out_done);

#endif
