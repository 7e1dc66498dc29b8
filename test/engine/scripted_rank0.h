// test/engine/scripted_rank0.h - rank 1 of two, whose rank 0 is a script that says what it likes.
//
// A script is a list of messages: their length, a uint32_t, and so many bytes; a length larger than
// what is left is claimed, and zeros follow. SCRIPT_RATES in place of a length: the 8 doubles
// behind it are what rank 0 says that it has measured. Behind the last message rank 0 stops. In all
// other collectives it answers what rank 1 says, and of sums nothing but zeros.
//
// The program is linked with -Wl,--wrap=ps_comm_local_fork: starting two ranks starts the script.
#ifndef PS_TEST_ENGINE_SCRIPTED_RANK0_H
#define PS_TEST_ENGINE_SCRIPTED_RANK0_H

#include "comm/comm_internal.h"
#include "engine/ranks.h"
#include "hw/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT_RATES UINT32_MAX
#define SCRIPT_RATE_COUNT 8
#define HANDSHAKE_TAG 0x48454c4fu // as in comm/handshake.c

typedef struct script {
    const uint8_t *bytes;
    size_t left;
    double rates[SCRIPT_RATE_COUNT];
} script;

static script scripted; // of the ranks that are started next

static inline void script_take(void *out, size_t bytes)
{
    const size_t given = bytes < scripted.left ? bytes : scripted.left;
    memset(out, 0, bytes);
    if (given > 0) {
        memcpy(out, scripted.bytes, given);
    }
    scripted.bytes += given;
    scripted.left -= given;
}

static inline ps_status scripted_start(ps_comm *comm)
{
    (void)comm;
    return PS_OK;
}

// Rank 0's message arrives with a header like any other.
static inline ps_status scripted_broadcast(ps_comm *comm)
{
    ps_comm_header header = comm->transfer.header;
    ps_comm_receive *receive = &comm->transfer.receive[0];
    const ps_command stop = {.word = PS_WORD_STOP};
    uint32_t length = 0;
    header.bytes = receive->bytes;
    if (header.tag == PS_TAG_COMMAND) {
        const bool is_over = scripted.left == 0;
        script_take(&length, sizeof length);
        if (length == SCRIPT_RATES) {
            script_take(scripted.rates, sizeof scripted.rates);
            return scripted_broadcast(comm);
        }
        header.bytes = is_over ? sizeof stop : length;
        PS_TRY(ps_comm_arrived(comm, 0, &header));
        if (is_over) {
            memcpy(receive->data, &stop, sizeof stop);
        } else {
            script_take(receive->data, length);
        }
        return PS_OK;
    }
    PS_TRY(ps_comm_arrived(comm, 0, &header));
    memset(receive->data, 0, receive->bytes);
    if (header.tag == PS_TAG_SHARE && receive->bytes == sizeof(ps_machine)) {
        const double *r = scripted.rates;
        const ps_machine machine = {.read_gbs = r[0],
                                    .cache_read_gbs = r[1],
                                    .linear_share = 1,
                                    .int8_gops = r[2],
                                    .f32_gops = r[3],
                                    .barrier_ns = r[4],
                                    .fill_gbs = r[5],
                                    .comm_ns = r[6],
                                    .comm_gbs = r[7]};
        memcpy(receive->data, &machine, sizeof machine);
    }
    return PS_OK;
}

static inline ps_status scripted_test(ps_comm *comm, bool *out_done)
{
    const ps_comm_transfer *transfer = &comm->transfer;
    *out_done = true;
    if (transfer->header.kind == PS_COMM_BROADCAST) {
        return scripted_broadcast(comm);
    }
    const ps_comm_receive *receive = &transfer->receive[0];
    const ps_comm_send *send = &transfer->send[0];
    if (receive->bytes > 0 && !transfer->keeps_own) {
        memset(receive->data, 0, receive->bytes);
        if (transfer->header.tag >= PS_TAG_PLACES || transfer->header.tag == HANDSHAKE_TAG) {
            memcpy(receive->data, send->data,
                   send->bytes < receive->bytes ? send->bytes : receive->bytes);
        }
    }
    return PS_OK;
}

static inline void scripted_sleep(ps_comm *comm, uint64_t ns)
{
    (void)comm;
    (void)ns;
}

static inline ps_status scripted_check(ps_comm *comm)
{
    (void)comm;
    return PS_OK;
}

static inline uint32_t scripted_missing(const ps_comm *comm)
{
    return comm->size;
}

static inline bool scripted_announce(ps_comm *comm, ps_comm_cause cause)
{
    (void)comm;
    return cause == PS_COMM_CAUSE_OWN;
}

static inline ps_status scripted_close(ps_comm *comm)
{
    free(comm);
    return PS_OK;
}

// Its name is the linker's convention.
ps_status __wrap_ps_comm_local_fork(uint32_t size, const ps_comm_options *options, ps_comm **out);

ps_status __wrap_ps_comm_local_fork(uint32_t size, const ps_comm_options *options, ps_comm **out)
{
    static const ps_comm_backend SCRIPTED = {.name = "scripted",
                                             .start = scripted_start,
                                             .test = scripted_test,
                                             .sleep = scripted_sleep,
                                             .check = scripted_check,
                                             .missing = scripted_missing,
                                             .announce = scripted_announce,
                                             .close = scripted_close};
    *out = ps_comm_new(sizeof **out, &SCRIPTED, 1, size, options);
    return *out == NULL ? PS_NO_MEMORY : PS_OK;
}

// Follows the script to its end. *out_gave_up: rank 1 told rank 0 that it ends, and why.
static inline ps_status script_follow(const uint8_t *bytes, size_t size_bytes, const char *path,
                                      bool *out_gave_up)
{
    ps_ranks *ranks = NULL;
    const ps_ranks_options options = {.launch = PS_RANKS_FORK, .size = 2};
    scripted = (script){.bytes = bytes, .left = size_bytes};
    for (int i = 0; i < SCRIPT_RATE_COUNT; i++) {
        scripted.rates[i] = 10;
    }
    PS_TRY(ps_ranks_start(&options, &ranks));
    const ps_status status = ps_ranks_follow(ranks, path, NULL);
    char message[512];
    (void)snprintf(message, sizeof message, "%s", status == PS_OK ? "" : ps_error_message());
    *out_gave_up = ps_comm_has_failed(ps_ranks_comm(ranks)) && ps_ranks_speaks(ranks);
    const ps_status stopped = ps_ranks_stop(ranks);
    return status == PS_OK ? stopped : ps_fail(status, "%s", message);
}

#endif
