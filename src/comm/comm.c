// comm/comm.c - the front of all back ends: checks, patience, failures.
#include "comm/comm_internal.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPINS 4000u // about 50 us of pauses
#define YIELDS 64u
#define YIELD_NS_MAX ((uint64_t)200000)
#define COLLECTIVES_WITHOUT_YIELDS 1000u
#define SLEEP_NS_MAX ((uint64_t)10000000)
#define TESTS_PER_LOOK 64u // at the clock and for lost ranks

// CPUs that this process may use, as the affinity mask says.
static uint32_t cpu_count(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

void *ps_comm_new(uint64_t size_bytes, const ps_comm_backend *backend, uint32_t rank, uint32_t size,
                  const ps_comm_options *options)
{
    ps_comm *comm = aligned_alloc(PS_CACHE_LINE_BYTES,
                                  ps_round_up(size_bytes, PS_CACHE_LINE_BYTES));
    if (comm == NULL) {
        (void)ps_fail(PS_NO_MEMORY, "no memory for a communicator");
        return NULL;
    }
    memset(comm, 0, size_bytes);
    comm->backend = backend;
    comm->rank = rank;
    comm->size = size;
    if (options != NULL) {
        comm->options = *options;
    }
    ps_comm_options *own = &comm->options;
    own->timeout_ns = own->timeout_ns > 0 ? own->timeout_ns : PS_COMM_TIMEOUT_NS;
    own->rank_threads = own->rank_threads > 0 ? own->rank_threads : 1;
    comm->gather_bytes_max = PS_COMM_GATHER_BYTES;
    comm->spins = (uint64_t)size * own->rank_threads <= cpu_count() ? SPINS : 0;
    return comm;
}

uint32_t ps_comm_rank(const ps_comm *comm)
{
    return comm->rank;
}

uint32_t ps_comm_size(const ps_comm *comm)
{
    return comm->size;
}

const char *ps_comm_backend_name(const ps_comm *comm)
{
    return comm->backend->name;
}

uint64_t ps_comm_sequence(const ps_comm *comm)
{
    return comm->sequence;
}

bool ps_comm_has_failed(const ps_comm *comm)
{
    return comm->status != PS_OK;
}

bool ps_comm_speaks(const ps_comm *comm)
{
    return comm->speaks;
}

ps_status ps_comm_close(ps_comm *comm)
{
    return comm != NULL ? comm->backend->close(comm) : PS_OK;
}

bool ps_comm_set_way(ps_comm *comm, uint32_t way)
{
    return comm->backend->set_way != NULL ? comm->backend->set_way(comm, way) : way == 0;
}

ps_comm_text ps_comm_describe(const ps_comm_header *header)
{
    static const char *const KINDS[] = {"all_gather", "exchange", "broadcast", "barrier"};
    const char *kind = header->kind < sizeof KINDS / sizeof KINDS[0] ? KINDS[header->kind]
                                                                     : "garbage";
    ps_comm_text out;
    (void)snprintf(out.text, sizeof out.text,
                   "collective %" PRIu64 " (%s of %" PRIu64 " bytes, tag %" PRIu32 ")",
                   header->sequence, kind, header->bytes, header->tag);
    return out;
}

void ps_comm_be_patient(ps_comm *comm)
{
    comm->is_patient = true;
}

// The failure stays: whoever goes on after it gets it again.
static void keep_failure(ps_comm *comm, ps_status status)
{
    comm->status = status;
    comm->is_busy = false;
    (void)snprintf(comm->message, sizeof comm->message, "%s", ps_error_message());
}

void ps_comm_fail_alike(ps_comm *comm, ps_status status)
{
    keep_failure(comm, status);
    comm->is_alike = true;
    comm->speaks = comm->rank == 0;
}

void ps_comm_give_up(ps_comm *comm, ps_status status)
{
    if (comm->status == PS_OK) {
        keep_failure(comm, ps_fail_prefix(status, "rank %" PRIu32, comm->rank));
        comm->speaks = comm->backend->announce(comm, PS_COMM_CAUSE_OWN);
    }
}

static ps_status lose(ps_comm *comm, ps_status status)
{
    keep_failure(comm, status);
    comm->speaks = comm->backend->announce(comm,
                                           comm->is_late ? PS_COMM_CAUSE_LATE : PS_COMM_CAUSE_PEER);
    return status;
}

ps_status ps_comm_ready(const ps_comm *comm)
{
    ps_assert(!comm->is_busy);
    return comm->status == PS_OK ? PS_OK : ps_fail(comm->status, "%s", comm->message);
}

ps_status ps_comm_transfer_start(ps_comm *comm, ps_comm_kind kind, uint32_t tag, uint64_t bytes,
                                 uint64_t digest)
{
    comm->transfer.header = (ps_comm_header){.sequence = ++comm->sequence,
                                             .digest = digest,
                                             .bytes = bytes,
                                             .kind = (uint32_t)kind,
                                             .tag = tag};
    comm->is_busy = true;
    comm->is_moving = true;
    comm->is_patient = kind == PS_COMM_BROADCAST && comm->rank != 0;
    comm->latest_ns = 0;
    comm->fruitless = 0;
    comm->idles = 0;
    comm->looked_ns = ps_clock_ns();
    comm->was_away = false;
    comm->waited_ns = 0;
    const ps_status status = comm->backend->start(comm);
    return status == PS_OK ? PS_OK : lose(comm, status);
}

ps_status ps_comm_arrived(ps_comm *comm, uint32_t peer, const ps_comm_header *header)
{
    ps_comm_transfer *transfer = &comm->transfer;
    const ps_comm_header *own = &transfer->header;
    const bool is_message = own->kind == PS_COMM_BROADCAST && peer == 0;
    const bool is_answer = own->kind == PS_COMM_BROADCAST && peer != 0;
    if (header->sequence != own->sequence || header->kind != own->kind || header->tag != own->tag ||
        header->digest != own->digest ||
        (is_message ? header->bytes > transfer->receive[0].bytes
                    : !is_answer && header->bytes != own->bytes)) {
        const bool are_sizes = header->sequence == own->sequence && header->kind == own->kind &&
                               header->tag == own->tag;
        return ps_fail(
            PS_LOST, "the ranks have diverged: rank %" PRIu32 " is at %s, rank %" PRIu32 " at %s%s",
            peer, ps_comm_describe(header).text, comm->rank, ps_comm_describe(own).text,
            are_sizes ? "; the sizes of their slices differ" : "");
    }
    if (is_message) {
        transfer->receive[0].bytes = header->bytes;
        transfer->span_bytes_max = header->bytes;
        comm->is_patient = false;
        comm->waited_ns = 0;
    }
    if (header->start_ns > comm->latest_ns) {
        comm->latest_ns = header->start_ns;
    }
    return PS_OK;
}

// Bytes that one rank sends or receives at most, all peers together; false when they are too many.
static bool sum_sizes(const ps_comm *comm, const uint64_t *slice_bytes, uint64_t *out_bytes,
                      uint64_t *out_max)
{
    uint64_t bytes = 0;
    uint64_t max = 0;
    for (uint32_t r = 0; r < comm->size; r++) {
        max = slice_bytes[r] > max ? slice_bytes[r] : max;
        if (!ps_checked_add(bytes, slice_bytes[r], &bytes)) {
            return false;
        }
    }
    *out_bytes = bytes;
    *out_max = max;
    uint64_t received;
    return bytes <= PS_COMM_BYTES_MAX && ps_checked_mul(max, comm->size, &received) &&
           received <= PS_COMM_BYTES_MAX;
}

static ps_status set_sizes(ps_comm *comm, const uint64_t *slice_bytes)
{
    ps_comm_transfer *transfer = &comm->transfer;
    if (!sum_sizes(comm, slice_bytes, &transfer->header.bytes, &transfer->span_bytes_max)) {
        return ps_fail(PS_INVALID,
                       "a collective moves at most %" PRIu64
                       " bytes a rank; the largest of %" PRIu32 " slices has %" PRIu64 " bytes",
                       PS_COMM_BYTES_MAX, comm->size, transfer->span_bytes_max);
    }
    transfer->header.digest = ps_hash(slice_bytes, comm->size * sizeof *slice_bytes, 0);
    return PS_OK;
}

ps_status ps_comm_all_gather_set(ps_comm *comm, const void *slice, void *all,
                                 const uint64_t *slice_bytes)
{
    ps_comm_transfer *transfer = &comm->transfer;
    PS_TRY(set_sizes(comm, slice_bytes));
    transfer->same_to_all = true;
    transfer->keeps_own = false;
    char *to = all;
    for (uint32_t r = 0; r < comm->size; r++) {
        transfer->send[r] = (ps_comm_send){slice, slice_bytes[comm->rank]};
        transfer->receive[r] = (ps_comm_receive){to, slice_bytes[r]};
        to += slice_bytes[r];
    }
    return PS_OK;
}

ps_status ps_comm_exchange_set(ps_comm *comm, const void *slices, void *received,
                               const uint64_t *slice_bytes)
{
    ps_comm_transfer *transfer = &comm->transfer;
    PS_TRY(set_sizes(comm, slice_bytes));
    transfer->same_to_all = false;
    transfer->keeps_own = false;
    const uint64_t own_bytes = slice_bytes[comm->rank];
    const char *from = slices;
    for (uint32_t r = 0; r < comm->size; r++) {
        transfer->send[r] = (ps_comm_send){from, slice_bytes[r]};
        transfer->receive[r] = (ps_comm_receive){(char *)received + r * own_bytes, own_bytes};
        from += slice_bytes[r];
    }
    return PS_OK;
}

// What a rank sends to itself.
static void keep_own(ps_comm *comm)
{
    const ps_comm_send *from = &comm->transfer.send[comm->rank];
    const ps_comm_receive *to = &comm->transfer.receive[comm->rank];
    if (to->bytes > 0 && to->data != from->data) {
        memcpy(to->data, from->data, to->bytes);
    }
}

ps_status ps_comm_all_gather_start(ps_comm *comm, uint32_t tag, const void *slice, void *all,
                                   const uint64_t *slice_bytes)
{
    PS_TRY(ps_comm_ready(comm));
    PS_TRY(ps_comm_all_gather_set(comm, slice, all, slice_bytes));
    keep_own(comm);
    const ps_comm_header *header = &comm->transfer.header;
    return ps_comm_transfer_start(comm, PS_COMM_ALL_GATHER, tag, header->bytes, header->digest);
}

ps_status ps_comm_exchange_start(ps_comm *comm, uint32_t tag, const void *slices, void *received,
                                 const uint64_t *slice_bytes)
{
    PS_TRY(ps_comm_ready(comm));
    PS_TRY(ps_comm_exchange_set(comm, slices, received, slice_bytes));
    keep_own(comm);
    const ps_comm_header *header = &comm->transfer.header;
    return ps_comm_transfer_start(comm, PS_COMM_EXCHANGE, tag, header->bytes, header->digest);
}

static void set_empty(ps_comm *comm)
{
    ps_comm_transfer *transfer = &comm->transfer;
    transfer->same_to_all = true;
    transfer->keeps_own = false;
    transfer->span_bytes_max = 0;
    memset(transfer->send, 0, comm->size * sizeof transfer->send[0]);
    memset(transfer->receive, 0, comm->size * sizeof transfer->receive[0]);
}

ps_status ps_comm_broadcast_start(ps_comm *comm, uint32_t tag, void *message,
                                  uint64_t capacity_bytes, uint64_t *bytes)
{
    PS_TRY(ps_comm_ready(comm));
    const bool is_root = comm->rank == 0;
    if (capacity_bytes > PS_COMM_BYTES_MAX || (is_root && *bytes > capacity_bytes)) {
        return ps_fail(PS_INVALID,
                       "a message of %" PRIu64 " bytes, where %" PRIu64 " have room and %" PRIu64
                       " is the limit",
                       is_root ? *bytes : 0, capacity_bytes, PS_COMM_BYTES_MAX);
    }
    set_empty(comm);
    ps_comm_transfer *transfer = &comm->transfer;
    for (uint32_t r = 1; is_root && r < comm->size; r++) {
        transfer->send[r] = (ps_comm_send){message, *bytes};
    }
    if (!is_root) {
        transfer->receive[0] = (ps_comm_receive){message, capacity_bytes};
    }
    transfer->span_bytes_max = is_root ? *bytes : 0;
    PS_TRY(
        ps_comm_transfer_start(comm, PS_COMM_BROADCAST, tag, is_root ? *bytes : 0, capacity_bytes));
    comm->bytes = bytes;
    return PS_OK;
}

ps_status ps_comm_barrier_start(ps_comm *comm, uint32_t tag)
{
    PS_TRY(ps_comm_ready(comm));
    set_empty(comm);
    return ps_comm_transfer_start(comm, PS_COMM_BARRIER, tag, 0, 0);
}

static ps_status fail_late(ps_comm *comm)
{
    const uint32_t missing = comm->backend->missing(comm);
    comm->is_late = true;
    return ps_fail(PS_LOST,
                   "rank %" PRIu32 " has not come to %s within %.1f s: it is stopped, stuck "
                   "or very slow",
                   missing, ps_comm_describe(&comm->transfer.header).text,
                   (double)comm->options.timeout_ns * 1e-9);
}

static ps_status look(ps_comm *comm)
{
    comm->fruitless = 0;
    const uint64_t now = ps_clock_ns();
    // A gap in our own looking is our own: this process was stopped, or busy elsewhere.
    const uint64_t gap_ns_max = comm->options.timeout_ns / 8;
    const uint64_t gap_ns = now - comm->looked_ns;
    comm->waited_ns += gap_ns < gap_ns_max ? gap_ns : gap_ns_max;
    comm->was_away = comm->was_away || gap_ns > comm->options.timeout_ns / 2;
    comm->looked_ns = now;
    PS_TRY(comm->backend->check(comm));
    return !comm->is_patient && comm->waited_ns > comm->options.timeout_ns ? fail_late(comm)
                                                                           : PS_OK;
}

static ps_status move(ps_comm *comm)
{
    bool moved = false;
    PS_TRY(comm->backend->test(comm, &moved));
    comm->is_moving = !moved;
    return moved || ++comm->fruitless < TESTS_PER_LOOK ? PS_OK : look(comm);
}

ps_status ps_comm_test(ps_comm *comm, bool *out_done)
{
    if (comm->status != PS_OK) {
        return ps_fail(comm->status, "%s", comm->message);
    }
    if (!comm->is_busy) {
        *out_done = true;
        return PS_OK;
    }
    if (comm->is_moving) {
        const ps_status status = move(comm);
        if (status != PS_OK) {
            return lose(comm, status);
        }
    }
    bool done = !comm->is_moving;
    if (done && comm->reduce.stage != PS_COMM_REDUCE_NONE) {
        PS_TRY(ps_comm_reduce_advance(comm, &done));
    }
    if (done) {
        comm->is_busy = false;
        if (comm->bytes != NULL && comm->rank != 0) {
            *comm->bytes = comm->transfer.receive[0].bytes;
        }
        comm->bytes = NULL;
    }
    *out_done = done;
    return PS_OK;
}

// Among ranks alone a yield is the fastest way to the one that is waited for. But a stranger on
// this CPU gets a whole time slice of each yield, while a sleeper that is woken goes before it:
// then yields are given up for a while.
static void yield(ps_comm *comm)
{
    const uint64_t start = ps_clock_ns();
    (void)sched_yield();
    if (ps_clock_ns() - start > YIELD_NS_MAX) {
        comm->yields_from = comm->sequence + COLLECTIVES_WITHOUT_YIELDS;
    }
}

void ps_comm_idle(ps_comm *comm)
{
    const uint32_t idles = comm->idles;
    if (idles < comm->spins) {
        __builtin_ia32_pause();
    } else if (idles < comm->spins + YIELDS && comm->sequence >= comm->yields_from) {
        yield(comm);
    } else if (comm->is_busy && comm->is_moving) {
        comm->fruitless = TESTS_PER_LOOK; // a sleep is long: look after each
        comm->backend->sleep(comm, SLEEP_NS_MAX);
        return;
    }
    comm->idles++;
}

ps_status ps_comm_wait(ps_comm *comm)
{
    bool done = false;
    for (;;) {
        PS_TRY(ps_comm_test(comm, &done));
        if (done) {
            return PS_OK;
        }
        ps_comm_idle(comm);
    }
}
