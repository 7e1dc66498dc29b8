// comm/sim.c - delays the collectives of another back end, as a slower link would.
//
// The delay counts from the start of the last rank, whose time is in its header: a rank that comes
// late is not made later still.
#include "comm/comm_internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

// Timers of the kernel are this late: the rest is spun.
#define WAKE_NS ((uint64_t)100000)

typedef struct sim {
    ps_comm comm;
    ps_comm *inner;
    ps_comm_link link;
    bool has_moved;
    uint64_t done_ns; // valid once inner has moved
} sim;

static uint64_t sum_spans(const ps_comm *comm, bool is_sent)
{
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < comm->size; r++) {
        const ps_comm_transfer *transfer = &comm->transfer;
        if (r != comm->rank) {
            bytes += is_sent ? transfer->send[r].bytes : transfer->receive[r].bytes;
        }
    }
    return bytes;
}

static uint64_t delay_ns(const sim *s)
{
    const uint64_t sent = sum_spans(s->inner, true);
    const uint64_t received = sum_spans(s->inner, false);
    const double bits = (double)(sent > received ? sent : received) * 8;
    const double rate = s->link.bits_per_second;
    return s->link.latency_ns + (rate > 0 ? (uint64_t)(bits / rate * 1e9) : 0);
}

static bool sim_set_way(ps_comm *comm, uint32_t way)
{
    return ps_comm_set_way(((sim *)comm)->inner, way);
}

static ps_status sim_start(ps_comm *comm)
{
    sim *s = (sim *)comm;
    ps_comm *inner = s->inner;
    s->has_moved = false;
    comm->transfer.header.start_ns = ps_clock_ns();
    inner->transfer = comm->transfer;
    inner->latest_ns = comm->transfer.header.start_ns;
    inner->is_patient = comm->is_patient;
    return inner->backend->start(inner);
}

static ps_status sim_test(ps_comm *comm, bool *out_done)
{
    sim *s = (sim *)comm;
    if (!s->has_moved) {
        PS_TRY(s->inner->backend->test(s->inner, &s->has_moved));
        if (comm->is_patient && !s->inner->is_patient) { // the message has come
            comm->is_patient = false;
            comm->waited_ns = 0;
        }
        if (!s->has_moved) {
            *out_done = false;
            return PS_OK;
        }
        comm->transfer.receive[0].bytes = s->inner->transfer.receive[0].bytes;
        s->done_ns = s->inner->latest_ns + delay_ns(s);
        comm->is_patient = true; // what is left of the wait is ours
    }
    *out_done = ps_clock_ns() >= s->done_ns;
    return PS_OK;
}

static void sim_sleep(ps_comm *comm, uint64_t ns)
{
    sim *s = (sim *)comm;
    if (!s->has_moved) {
        s->inner->backend->sleep(s->inner, ns);
        return;
    }
    const uint64_t now = ps_clock_ns();
    if (s->done_ns > now + WAKE_NS) {
        const uint64_t left = s->done_ns - now - WAKE_NS;
        const struct timespec pause = {.tv_nsec = (long)(left < ns ? left : ns)};
        (void)nanosleep(&pause, NULL);
    }
}

static ps_status sim_check(ps_comm *comm)
{
    ps_comm *inner = ((sim *)comm)->inner;
    return inner->backend->check(inner);
}

static uint32_t sim_missing(const ps_comm *comm)
{
    const ps_comm *inner = ((const sim *)comm)->inner;
    return inner->backend->missing(inner);
}

static bool sim_announce(ps_comm *comm, ps_comm_cause cause)
{
    ps_comm *inner = ((sim *)comm)->inner;
    inner->status = comm->status;
    return inner->backend->announce(inner, cause);
}

static ps_status sim_close(ps_comm *comm)
{
    const ps_status status = ps_comm_close(((sim *)comm)->inner);
    free(comm);
    return status;
}

static const ps_comm_backend SIM = {
    .name = "sim",
    .set_way = sim_set_way,
    .start = sim_start,
    .test = sim_test,
    .sleep = sim_sleep,
    .check = sim_check,
    .missing = sim_missing,
    .announce = sim_announce,
    .close = sim_close,
};

ps_status ps_comm_sim_open_take(ps_comm *inner, const ps_comm_link *link, ps_comm **out)
{
    sim *s = ps_comm_new(sizeof *s, &SIM, inner->rank, inner->size, &inner->options);
    if (s == NULL) {
        return PS_NO_MEMORY;
    }
    s->comm.spins = inner->spins;
    s->inner = inner;
    s->link = *link;
    *out = &s->comm;
    return PS_OK;
}
