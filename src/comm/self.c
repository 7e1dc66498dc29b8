// comm/self.c - one rank, alone or among simulated peers that send zeros.
#include "comm/comm_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Bytes zeroed per test.
#define STEP_BYTES ((uint64_t)65536)

typedef struct self {
    ps_comm comm;
    uint32_t peer; // whose bytes are made next
    uint64_t at;
} self;

static ps_status self_start(ps_comm *comm)
{
    self *s = (self *)comm;
    s->peer = comm->transfer.keeps_own ? comm->size : 1;
    s->at = 0;
    return PS_OK;
}

static ps_status self_test(ps_comm *comm, bool *out_done)
{
    self *s = (self *)comm;
    uint64_t budget = STEP_BYTES;
    while (s->peer < comm->size && budget > 0) {
        const ps_comm_receive *receive = &comm->transfer.receive[s->peer];
        const uint64_t left = receive->bytes - s->at;
        const uint64_t bytes = left < budget ? left : budget;
        if (bytes > 0) {
            memset(receive->data + s->at, 0, bytes);
        }
        budget -= bytes;
        s->at += bytes;
        if (s->at == receive->bytes) {
            s->at = 0;
            s->peer++;
        }
    }
    *out_done = s->peer >= comm->size;
    return PS_OK;
}

static void self_sleep(ps_comm *comm, uint64_t ns)
{
    (void)comm;
    (void)ns;
}

static ps_status self_check(ps_comm *comm)
{
    (void)comm;
    return PS_OK;
}

static uint32_t self_missing(const ps_comm *comm)
{
    return comm->size;
}

static bool self_announce(ps_comm *comm, ps_comm_cause cause)
{
    (void)cause;
    (void)comm;
    return true;
}

static ps_status self_close(ps_comm *comm)
{
    free(comm);
    return PS_OK;
}

static const ps_comm_backend SELF = {
    .name = "self",
    .start = self_start,
    .test = self_test,
    .sleep = self_sleep,
    .check = self_check,
    .missing = self_missing,
    .announce = self_announce,
    .close = self_close,
};

ps_status ps_comm_self_open(uint32_t size, const ps_comm_options *options, ps_comm **out)
{
    if (size == 0 || size > PS_COMM_RANKS_MAX) {
        return ps_fail(PS_INVALID, "%" PRIu32 " ranks; there can be 1 to %u", size,
                       PS_COMM_RANKS_MAX);
    }
    self *s = ps_comm_new(sizeof *s, &SELF, 0, size, options);
    if (s == NULL) {
        return PS_NO_MEMORY;
    }
    s->comm.spins = 0;
    *out = &s->comm;
    return PS_OK;
}
