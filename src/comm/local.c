// comm/local.c - ranks as processes of one host, over shared memory: local_internal.h.
#include "comm/local_internal.h"

#include "base/clock.h"

#include <emmintrin.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STREAM_BYTES_MIN 512u

static void wake(ps_local_lane *lane, atomic_uint *word)
{
    if (atomic_load(&lane->sleepers) > 0) {
        // Not FUTEX_PRIVATE: sleepers are other processes.
        (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

// The part of a span that goes in this round.
static uint64_t piece_of(const ps_local *local, uint64_t span_bytes)
{
    const uint64_t left = span_bytes > local->done_bytes ? span_bytes - local->done_bytes : 0;
    return left < local->piece_bytes ? left : local->piece_bytes;
}

// Writes past the caches: where ranks share no cache, it is slow to read a line that another core
// has changed, and to change it again. On an EPYC guest of two cores the bare loop of bench_comm
// took 33 us with plain stores and 7 us so for 64 KiB in one hour, 11 and 11 in another, as the
// host places the cores. `to` is a multiple of 64.
static void stream(char *to, const char *from, uint64_t bytes)
{
    const uint64_t whole = bytes / sizeof(__m128i) * sizeof(__m128i);
    for (uint64_t i = 0; i < whole; i += sizeof(__m128i)) {
        const __m128i value = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm_stream_si128((__m128i *)(void *)(to + i), value);
    }
    memcpy(to + whole, from + whole, bytes - whole);
    _mm_sfence(); // before the round that says that they are there
}

static void put(const ps_local *local, char *to, const ps_comm_send *send)
{
    const uint64_t bytes = piece_of(local, send->bytes);
    if (bytes >= STREAM_BYTES_MIN && local->is_streaming) {
        stream(to, send->data + local->done_bytes, bytes);
    } else if (bytes > 0) {
        memcpy(to, send->data + local->done_bytes, bytes);
    }
}

static void publish(ps_local *local)
{
    const ps_comm *comm = &local->comm;
    const ps_comm_transfer *transfer = &comm->transfer;
    const uint32_t round = ++local->round;
    ps_local_slot *slot = &local->own->slots[round % 2];
    slot->header = transfer->header;
    if (transfer->same_to_all) {
        put(local, slot->data, &transfer->send[comm->rank == 0 ? comm->size - 1 : 0]);
    } else {
        for (uint32_t peer = 0; peer < comm->size; peer++) {
            if (peer != comm->rank) {
                put(local, slot->data + peer * local->piece_bytes, &transfer->send[peer]);
            }
        }
    }
    const uint64_t all = comm->size < 64 ? ((uint64_t)1 << comm->size) - 1 : UINT64_MAX;
    local->pending = all & ~((uint64_t)1 << comm->rank);
    atomic_store(&slot->round, round);
    wake(local->own, &slot->round);
}

static bool local_set_way(ps_comm *comm, uint32_t way)
{
    ((ps_local *)comm)->is_streaming = way == 1;
    return way < 2;
}

static ps_status local_start(ps_comm *comm)
{
    ps_local *local = (ps_local *)comm;
    local->done_bytes = 0;
    local->piece_bytes = PS_LOCAL_SLOT_BYTES;
    if (!comm->transfer.same_to_all) {
        local->piece_bytes = PS_LOCAL_SLOT_BYTES / comm->size / PS_CACHE_LINE_BYTES *
                             PS_CACHE_LINE_BYTES;
    }
    publish(local);
    return PS_OK;
}

// Reads what `peer` has published, and adds its bytes to *copied.
static ps_status take(ps_local *local, uint32_t peer, uint64_t *copied)
{
    const ps_local_slot *slot = &local->segment->lanes[peer].slots[local->round % 2];
    ps_comm *comm = &local->comm;
    const ps_comm_header header = slot->header;
    PS_TRY(ps_comm_arrived(comm, peer, &header));
    const ps_comm_receive *receive = &comm->transfer.receive[peer];
    const uint64_t bytes = piece_of(local, receive->bytes);
    if (bytes > 0) {
        const char *from = slot->data;
        if (!comm->transfer.same_to_all) {
            from += comm->rank * local->piece_bytes;
        }
        memcpy(receive->data + local->done_bytes, from, bytes);
        *copied += bytes;
    }
    return PS_OK;
}

static bool has_published(const ps_local *local, uint32_t peer)
{
    const ps_local_slot *slot = &local->segment->lanes[peer].slots[local->round % 2];
    return atomic_load_explicit(&slot->round, memory_order_acquire) == local->round;
}

static ps_status local_test(ps_comm *comm, bool *out_done)
{
    ps_local *local = (ps_local *)comm;
    uint64_t copied = 0;
    for (uint64_t left = local->pending; left != 0 && copied < PS_LOCAL_SLOT_BYTES;
         left &= left - 1) {
        const uint32_t peer = (uint32_t)__builtin_ctzll(left);
        if (has_published(local, peer)) {
            PS_TRY(take(local, peer, &copied));
            local->pending &= ~((uint64_t)1 << peer);
        }
    }
    *out_done = false;
    if (local->pending != 0) {
        return PS_OK;
    }
    local->done_bytes += local->piece_bytes;
    if (local->done_bytes < comm->transfer.span_bytes_max) {
        publish(local);
    } else {
        *out_done = true;
    }
    return PS_OK;
}

static uint32_t local_missing(const ps_comm *comm)
{
    const ps_local *local = (const ps_local *)comm;
    return local->pending != 0 ? (uint32_t)__builtin_ctzll(local->pending) : comm->size;
}

static void local_sleep(ps_comm *comm, uint64_t ns)
{
    ps_local *local = (ps_local *)comm;
    const uint32_t peer = local_missing(comm);
    if (peer == comm->size) {
        return;
    }
    ps_local_lane *lane = &local->segment->lanes[peer];
    atomic_uint *word = &lane->slots[local->round % 2].round;
    const struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000),
                                   .tv_nsec = (long)(ns % 1000000000)};
    atomic_fetch_add(&lane->sleepers, 1);
    const unsigned old = atomic_load(word);
    if (old != local->round) {
        (void)syscall(SYS_futex, word, FUTEX_WAIT, old, &limit, NULL, 0);
    }
    atomic_fetch_sub(&lane->sleepers, 1);
}

static ps_status local_check(ps_comm *comm)
{
    const ps_local *local = (const ps_local *)comm;
    if (atomic_load_explicit(&local->segment->failure, memory_order_acquire) == PS_LOCAL_FAILED) {
        return ps_fail(PS_LOST, "%s", local->segment->text);
    }
    for (uint64_t left = local->pending; left != 0; left &= left - 1) {
        const uint32_t peer = (uint32_t)__builtin_ctzll(left);
        const ps_status status = ps_local_process_check(local, peer);
        // A rank may end as soon as it has published its part of the job's last collective.
        if (status != PS_OK && !has_published(local, peer)) {
            return status;
        }
    }
    return PS_OK;
}

// The first to fail tells the others, and speaks.
static bool local_announce(ps_comm *comm, ps_comm_cause cause)
{
    (void)cause;
    ps_local_segment *segment = ((ps_local *)comm)->segment;
    unsigned expected = PS_LOCAL_FINE;
    if (!atomic_compare_exchange_strong(&segment->failure, &expected, PS_LOCAL_FAILING)) {
        return false;
    }
    (void)snprintf(segment->text, sizeof segment->text, "%s", ps_error_message());
    atomic_store_explicit(&segment->failure, PS_LOCAL_FAILED, memory_order_release);
    return true;
}

static ps_status local_close(ps_comm *comm)
{
    ps_local *local = (ps_local *)comm;
    const ps_status status = ps_local_reap(local);
    (void)munmap(local->segment, ps_local_segment_bytes(comm->size));
    free(local);
    return status;
}

static const ps_comm_backend LOCAL = {
    .name = "local",
    .set_way = local_set_way,
    .start = local_start,
    .test = local_test,
    .sleep = local_sleep,
    .check = local_check,
    .missing = local_missing,
    .announce = local_announce,
    .close = local_close,
};

uint64_t ps_local_segment_bytes(uint32_t size)
{
    return sizeof(ps_local_segment) + size * sizeof(ps_local_lane);
}

ps_status ps_local_open(ps_local_segment *segment, uint32_t rank, uint32_t size,
                        const ps_comm_options *options, ps_comm **out)
{
    ps_local *local = ps_comm_new(sizeof *local, &LOCAL, rank, size, options);
    if (local == NULL) {
        return PS_NO_MEMORY;
    }
    local->segment = segment;
    local->own = &segment->lanes[rank];
    // Touched here, so that the first collectives take no page faults and the lane is near its
    // rank.
    memset(local->own->slots[0].data, 0, PS_LOCAL_SLOT_BYTES);
    memset(local->own->slots[1].data, 0, PS_LOCAL_SLOT_BYTES);
    *out = &local->comm;
    return PS_OK;
}
