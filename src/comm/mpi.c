// comm/mpi.c - ranks of mpirun; the one file that includes mpi.h.
//
// A collective is one frame from each rank to each other one: the header, and behind it the bytes
// if they are few; many go in a second message, which is received only after the header has been
// found right. Messages between two ranks do not overtake each other (MPI 3.1, section 3.5), so a
// frame always meets the collective it should, or shows that the ranks have diverged.
//
// Open MPI moves nothing by itself: MPI_Test does.
#include "comm/comm_internal.h"

#ifdef PS_HAVE_MPI

#include "comm/launch.h"

#include <inttypes.h>
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRAME_DATA_BYTES 16384u
#define FRAME_TAG 1
#define REST_TAG 2
// Nothing wakes a sleeper, so sleeps are short, and a little longer where only rank 0's next step
// is waited for.
#define SLEEP_NS 50000
#define PATIENT_SLEEP_NS 500000
#define SPEAK_NS ((uint64_t)3000000000)

typedef struct frame {
    ps_comm_header header;
    char data[FRAME_DATA_BYTES];
} frame;

typedef struct mpi_ranks {
    ps_comm comm;
    frame *incoming;                         // [size]
    frame *outgoing;                         // [size]; the first for all where all get the same
    uint64_t pending;                        // bit r: something of rank r has not come yet
    uint64_t rest;                           // bit r: its frame has come, its second message not
    MPI_Request receives[PS_COMM_RANKS_MAX]; // of the frame, then of the second message
    MPI_Request sends[2 * PS_COMM_RANKS_MAX];
    uint32_t send_peers[2 * PS_COMM_RANKS_MAX];
    int send_count;
} mpi_ranks;

static ps_status check_mpi(int error, const char *what)
{
    if (error == MPI_SUCCESS) {
        return PS_OK;
    }
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(error, text, &length) != MPI_SUCCESS) {
        length = 0;
    }
    return ps_fail(PS_LOST, "MPI failed to %s: %.*s", what, length, text);
}

static bool fits(uint64_t bytes)
{
    return bytes <= FRAME_DATA_BYTES;
}

static ps_status post(mpi_ranks *m, const void *data, uint64_t bytes, uint32_t peer, int tag)
{
    m->send_peers[m->send_count] = peer;
    return check_mpi(MPI_Isend(data, (int)bytes, MPI_BYTE, (int)peer, tag, MPI_COMM_WORLD,
                               &m->sends[m->send_count++]),
                     "send");
}

static frame *fill_frame(frame *out, const mpi_ranks *m, const ps_comm_send *send)
{
    out->header = m->comm.transfer.header;
    if (send->bytes > 0 && fits(send->bytes)) {
        memcpy(out->data, send->data, send->bytes);
    }
    return out;
}

static ps_status send_to(mpi_ranks *m, uint32_t peer, const frame *out)
{
    const ps_comm_send *send = &m->comm.transfer.send[peer];
    const uint64_t data_bytes = fits(send->bytes) ? send->bytes : 0;
    PS_TRY(post(m, out, sizeof out->header + data_bytes, peer, FRAME_TAG));
    return fits(send->bytes) ? PS_OK : post(m, send->data, send->bytes, peer, REST_TAG);
}

static ps_status mpi_start(ps_comm *comm)
{
    mpi_ranks *m = (mpi_ranks *)comm;
    const ps_comm_transfer *transfer = &comm->transfer;
    m->pending = 0;
    m->rest = 0;
    m->send_count = 0;
    for (uint32_t peer = 0; peer < comm->size; peer++) {
        if (peer != comm->rank) {
            m->pending |= (uint64_t)1 << peer;
            PS_TRY(check_mpi(MPI_Irecv(&m->incoming[peer], sizeof(frame), MPI_BYTE, (int)peer,
                                       FRAME_TAG, MPI_COMM_WORLD, &m->receives[peer]),
                             "receive"));
        }
    }
    const frame *shared = NULL;
    for (uint32_t i = 1; i < comm->size; i++) {
        const uint32_t peer = (comm->rank + i) % comm->size; // not all to the same one first
        if (shared == NULL || !transfer->same_to_all) {
            shared = fill_frame(&m->outgoing[i], m, &transfer->send[peer]);
        }
        PS_TRY(send_to(m, peer, shared));
    }
    return PS_OK;
}

static ps_status fail_frame(uint32_t peer, int bytes)
{
    return ps_fail(PS_LOST,
                   "rank %" PRIu32 " sent a message of %d bytes, which is no part of any "
                   "collective",
                   peer, bytes);
}

// A frame has come: its bytes are taken, or the second message is asked for.
static ps_status take_frame(mpi_ranks *m, uint32_t peer, int bytes)
{
    const frame *in = &m->incoming[peer];
    if (bytes < (int)sizeof in->header) {
        return fail_frame(peer, bytes);
    }
    PS_TRY(ps_comm_arrived(&m->comm, peer, &in->header));
    const ps_comm_receive *receive = &m->comm.transfer.receive[peer];
    if (!fits(receive->bytes)) {
        m->rest |= (uint64_t)1 << peer;
        return check_mpi(MPI_Irecv(receive->data, (int)receive->bytes, MPI_BYTE, (int)peer,
                                   REST_TAG, MPI_COMM_WORLD, &m->receives[peer]),
                         "receive");
    }
    if ((uint64_t)bytes != sizeof in->header + receive->bytes) {
        return fail_frame(peer, bytes);
    }
    if (receive->bytes > 0) {
        memcpy(receive->data, in->data, receive->bytes);
    }
    m->pending &= ~((uint64_t)1 << peer);
    return PS_OK;
}

static ps_status test_peer(mpi_ranks *m, uint32_t peer)
{
    int has_come = 0;
    int bytes = 0;
    MPI_Status status;
    PS_TRY(check_mpi(MPI_Test(&m->receives[peer], &has_come, &status), "receive"));
    if (!has_come) {
        return PS_OK;
    }
    PS_TRY(check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "receive"));
    if ((m->rest >> peer & 1) == 0) {
        return take_frame(m, peer, bytes);
    }
    if ((uint64_t)bytes != m->comm.transfer.receive[peer].bytes) {
        return fail_frame(peer, bytes);
    }
    m->pending &= ~((uint64_t)1 << peer);
    return PS_OK;
}

static ps_status mpi_test(ps_comm *comm, bool *out_done)
{
    mpi_ranks *m = (mpi_ranks *)comm;
    for (uint64_t left = m->pending; left != 0; left &= left - 1) {
        PS_TRY(test_peer(m, (uint32_t)__builtin_ctzll(left)));
    }
    int are_sent = 0;
    if (m->pending == 0) {
        PS_TRY(check_mpi(MPI_Testall(m->send_count, m->sends, &are_sent, MPI_STATUSES_IGNORE),
                         "send"));
    }
    *out_done = are_sent != 0;
    return PS_OK;
}

static void mpi_sleep(ps_comm *comm, uint64_t ns)
{
    const uint64_t own_ns = comm->is_patient ? PATIENT_SLEEP_NS : SLEEP_NS;
    const struct timespec pause = {.tv_nsec = (long)(own_ns < ns ? own_ns : ns)};
    (void)nanosleep(&pause, NULL);
}

// mpirun sees a rank that dies, and ends the others.
static ps_status mpi_check(ps_comm *comm)
{
    (void)comm;
    return PS_OK;
}

static uint32_t mpi_missing(const ps_comm *comm)
{
    const mpi_ranks *m = (const mpi_ranks *)comm;
    if (m->pending != 0) {
        return (uint32_t)__builtin_ctzll(m->pending);
    }
    for (int i = 0; i < m->send_count; i++) { // all has come, but not all has gone
        int is_done = 0;
        if (MPI_Request_get_status(m->sends[i], &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
            !is_done) {
            return m->send_peers[i];
        }
    }
    return comm->size;
}

// Every rank waits for every other one, so each comes to the failure by itself; the lowest one that
// is there speaks. One that was stopped, and goes on because mpirun ends it, has nothing to say.
static bool mpi_announce(ps_comm *comm, ps_comm_cause cause)
{
    if (cause == PS_COMM_CAUSE_LATE && comm->was_away) {
        return false;
    }
    const bool is_rank_0_late = cause == PS_COMM_CAUSE_LATE && mpi_missing(comm) == 0;
    return cause == PS_COMM_CAUSE_OWN || comm->rank == (is_rank_0_late ? 1 : 0);
}

// mpirun ends the job when the first rank exits, so the one that speaks goes first. Then this sleep
// is cut short by mpirun.
static void let_speak(const ps_comm *comm)
{
    const uint64_t ns = comm->options.timeout_ns < SPEAK_NS ? comm->options.timeout_ns : SPEAK_NS;
    const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000),
                                   .tv_nsec = (long)(ns % 1000000000)};
    (void)nanosleep(&pause, NULL);
}

static ps_status mpi_close(ps_comm *comm)
{
    mpi_ranks *m = (mpi_ranks *)comm;
    if (comm->status != PS_OK && !comm->is_alike) {
        if (!comm->speaks) {
            let_speak(comm);
        }
        return PS_OK; // messages may still be under way to the buffers: they stay
    }
    free(m->incoming);
    free(m->outgoing);
    free(m);
    return check_mpi(MPI_Finalize(), "finalise");
}

static const ps_comm_backend MPI = {
    .name = "mpi",
    .start = mpi_start,
    .test = mpi_test,
    .sleep = mpi_sleep,
    .check = mpi_check,
    .missing = mpi_missing,
    .announce = mpi_announce,
    .close = mpi_close,
};

static ps_status init_mpi(int *out_rank, int *out_size)
{
    int provided = 0;
    PS_TRY(check_mpi(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "start"));
    PS_TRY(check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "start"));
    PS_TRY(check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, out_rank), "start"));
    PS_TRY(check_mpi(MPI_Comm_size(MPI_COMM_WORLD, out_size), "start"));
    PS_TRY(ps_comm_launcher_check((uint32_t)*out_size));
    return *out_size <= (int)PS_COMM_RANKS_MAX
               ? PS_OK
               : ps_fail(PS_INVALID, "%d ranks; there can be 1 to %u", *out_size,
                         PS_COMM_RANKS_MAX);
}

ps_status ps_comm_mpi_open(const ps_comm_options *options, ps_comm **out)
{
    int is_initialised = 0;
    PS_TRY(check_mpi(MPI_Initialized(&is_initialised), "start"));
    ps_assert(!is_initialised);
    int rank = 0;
    int size = 0;
    PS_TRY(init_mpi(&rank, &size));
    mpi_ranks *m = ps_comm_new(sizeof *m, &MPI, (uint32_t)rank, (uint32_t)size, options);
    if (m == NULL) {
        return PS_NO_MEMORY;
    }
    m->incoming = calloc((size_t)size, sizeof *m->incoming);
    m->outgoing = calloc((size_t)size, sizeof *m->outgoing);
    if (m->incoming == NULL || m->outgoing == NULL) {
        free(m->incoming);
        free(m->outgoing);
        free(m);
        return ps_fail(PS_NO_MEMORY, "no memory for the messages of %d ranks", size);
    }
    *out = &m->comm;
    return PS_OK;
}

#else

ps_status ps_comm_mpi_open(const ps_comm_options *options, ps_comm **out)
{
    (void)options;
    (void)out;
    return ps_fail(PS_UNSUPPORTED, "this build has no MPI; install libopenmpi-dev and build again");
}

#endif
