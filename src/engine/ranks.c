// engine/ranks.c - starting ranks, sharing out CPUs, agreeing, telling and listening.
#include "engine/ranks.h"

#include "engine/rank_watch.h"

#include "base/hash.h"
#include "base/log.h"
#include "comm/handshake.h"
#include "comm/launch.h"
#include "hw/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ps_ranks {
    ps_comm *comm;
    ps_ranks_launch launch;
    ps_comm_link link;   // simulated; zeros: none
    uint32_t cpus;       // as started
    uint32_t here;       // ranks on this host
    bool is_simulated;   // one real rank
    bool is_silent;      // another rank says what went wrong
    ps_comm_crowd crowd; // as started, before CPUs were shared out
    bool has_share;      // keeps to its part of the CPUs of `place`
    ps_cpu_place place;
    ps_rank_watch watch; // of several real ranks
    char *message;       // [capacity] a command and what is behind it
    uint64_t capacity;
};

ps_comm *ps_ranks_comm(ps_ranks *ranks)
{
    return ranks == NULL ? NULL : ranks->comm;
}

uint32_t ps_ranks_here(const ps_ranks *ranks)
{
    return ranks == NULL ? 1 : ranks->here;
}

uint32_t ps_ranks_cpus(const ps_ranks *ranks)
{
    return ranks == NULL ? ps_machine_affinity_count() : ranks->cpus;
}

const char *ps_ranks_launch_name(const ps_ranks *ranks)
{
    static const char *const NAMES[] = {
        [PS_RANKS_FORK] = "local", [PS_RANKS_MPI] = "mpi", [PS_RANKS_SIMULATED] = "self"};
    return ranks == NULL ? "none" : NAMES[ranks->launch];
}

const ps_comm_link *ps_ranks_link(const ps_ranks *ranks)
{
    static const ps_comm_link NONE = {0};
    return ranks == NULL ? &NONE : &ranks->link;
}

uint32_t ps_ranks_rank(const ps_ranks *ranks)
{
    return ranks == NULL ? 0 : ps_comm_rank(ranks->comm);
}

uint32_t ps_ranks_size(const ps_ranks *ranks)
{
    return ranks == NULL ? 1 : ps_comm_size(ranks->comm);
}

bool ps_ranks_are_several(const ps_ranks *ranks)
{
    return ranks != NULL && !ranks->is_simulated && ps_comm_size(ranks->comm) > 1;
}

void ps_ranks_warn_of_crowd(const ps_ranks *ranks, uint32_t threads)
{
    char text[256];
    if (!ps_ranks_are_several(ranks) || ps_comm_rank(ranks->comm) > 0) {
        return;
    }
    ps_comm_crowd crowd = ranks->crowd;
    crowd.rank_threads = threads;
    if (ps_comm_crowd_warning(&crowd, text, sizeof text)) {
        ps_log(PS_LOG_WARNING, "%s", text);
    }
}

bool ps_ranks_speaks(const ps_ranks *ranks)
{
    if (ranks == NULL) {
        return true;
    }
    return ps_comm_has_failed(ranks->comm) ? ps_comm_speaks(ranks->comm) : !ranks->is_silent;
}

// ---- starting

static ps_status open_comm(const ps_ranks_options *options, ps_comm **out)
{
    const ps_comm_options comm = {.timeout_ns = (uint64_t)(options->timeout_s * 1e9),
                                  .rank_threads = options->rank_threads};
    switch (options->launch) {
    case PS_RANKS_FORK:
        return ps_comm_local_fork(options->size, &comm, out);
    case PS_RANKS_MPI:
        return ps_comm_mpi_open(&comm, out);
    case PS_RANKS_SIMULATED:
        return ps_comm_self_open(options->size, &comm, out);
    default:
        return ps_fail(PS_INVALID, "launch %d is unknown", (int)options->launch);
    }
}

static ps_status delay_comm(const ps_ranks_options *options, ps_ranks *ranks)
{
    ps_comm *inner = ranks->comm;
    if (options->link == NULL) {
        return PS_OK;
    }
    ranks->comm = NULL;
    return ps_comm_sim_open_take(inner, &ranks->link, &ranks->comm);
}

// Ranks that see the same CPUs of the same host share them out; those to which the launcher gave
// CPUs of their own keep them.
static ps_status share_cpus(ps_ranks *ranks, uint64_t timeout_ns)
{
    const uint32_t size = ps_comm_size(ranks->comm);
    const uint32_t rank = ps_comm_rank(ranks->comm);
    uint64_t bytes[PS_COMM_RANKS_MAX];
    ps_rank_place *places = calloc(size, sizeof *places);
    if (places == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the places of %u ranks", size);
    }
    ps_rank_place_get(&places[rank]);
    ranks->crowd = ps_comm_crowd_here(size, 0);
    for (uint32_t i = 0; i < size; i++) {
        bytes[i] = sizeof *places;
    }
    ps_status status = ps_comm_all_gather_start(ranks->comm, PS_TAG_PLACES, &places[rank], places,
                                                bytes);
    status = status == PS_OK ? ps_comm_wait(ranks->comm) : status;
    uint32_t index = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < size && status == PS_OK; i++) {
        ranks->here += places[i].cpus.host == places[rank].cpus.host;
        const bool same = memcmp(&places[i].cpus, &places[rank].cpus, sizeof places->cpus) == 0;
        index += same && i < rank;
        count += same;
    }
    if (status == PS_OK) {
        ps_rank_watch_init(&ranks->watch, ranks->comm, places, timeout_ns);
        ranks->place = places[rank].cpus;
        ranks->has_share = true;
        ps_machine_take_share(index, count);
    }
    free(places);
    return status;
}

// Before anything that another version might do otherwise.
static ps_status shake_hands(const ps_ranks_options *options, ps_comm *comm)
{
    char text[PS_COMM_OPTIONS_BYTES];
    (void)snprintf(text, sizeof text, "ranks=%u --comm-sim=%s", ps_comm_size(comm),
                   options->link == NULL ? "none" : options->link);
    return ps_comm_handshake(comm,
                             &(ps_comm_identity){.version = PS_VERSION,
                                                 .options_hash = ps_hash(text, strlen(text), 0),
                                                 .options = text});
}

static ps_status start(const ps_ranks_options *options, ps_ranks *ranks)
{
    ranks->launch = options->launch;
    ranks->cpus = ps_machine_affinity_count();
    if (options->link != NULL) { // before there are several to say what is wrong with it
        PS_TRY(ps_comm_link_parse(options->link, &ranks->link));
    }
    PS_TRY(open_comm(options, &ranks->comm));
    if (options->launch != PS_RANKS_SIMULATED) {
        PS_TRY(shake_hands(options, ranks->comm));
    }
    PS_TRY(delay_comm(options, ranks));
    if (options->launch == PS_RANKS_SIMULATED) { // the peers take no CPU
        ranks->here = 1;
        ranks->is_simulated = true;
    } else {
        PS_TRY(share_cpus(ranks, (uint64_t)(options->timeout_s * 1e9)));
    }
    return ps_ranks_reserve(ranks, sizeof(ps_session_options) + PS_RANKS_PATH_BYTES);
}

// The message stays that of what went wrong.
static ps_status stop_failed(ps_ranks *ranks, ps_status status)
{
    char message[512];
    (void)snprintf(message, sizeof message, "%s", ps_error_message());
    if (ps_ranks_stop(ranks) != PS_OK) {
        ps_log(PS_LOG_INFO, "%s", ps_error_message());
    }
    return ps_fail(status, "%s", message);
}

ps_status ps_ranks_start(const ps_ranks_options *options, ps_ranks **out)
{
    if (!(options->timeout_s >= 0 && options->timeout_s <= 86400)) {
        return ps_fail(PS_INVALID, "a timeout of %g s: 0 (the default) to 86400 would be right",
                       options->timeout_s);
    }
    ps_ranks *ranks = calloc(1, sizeof *ranks);
    if (ranks == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for ranks");
    }
    const ps_status status = start(options, ranks);
    if (status != PS_OK) {
        return stop_failed(ranks, status);
    }
    *out = ranks;
    return PS_OK;
}

ps_status ps_ranks_stop(ps_ranks *ranks)
{
    if (ranks == NULL) {
        return PS_OK;
    }
    if (ranks->comm != NULL && ps_comm_rank(ranks->comm) == 0 && ranks->capacity > 0) {
        ps_ranks_tell_end(ranks, PS_WORD_STOP, 0);
    }
    const ps_status status = ps_comm_close(ranks->comm);
    if (ranks->has_share) {
        ps_machine_return_to(&ranks->place);
    }
    free(ranks->message);
    free(ranks);
    return status;
}

// ---- agreeing

ps_status ps_ranks_agree(ps_ranks *ranks, ps_status own)
{
    if (!ps_ranks_are_several(ranks)) {
        return own;
    }
    uint64_t bytes[PS_COMM_RANKS_MAX];
    uint32_t codes[PS_COMM_RANKS_MAX];
    const uint32_t size = ps_comm_size(ranks->comm);
    const uint32_t rank = ps_comm_rank(ranks->comm);
    for (uint32_t i = 0; i < size; i++) {
        bytes[i] = sizeof codes[0];
    }
    codes[rank] = own;
    PS_TRY(ps_comm_all_gather_start(ranks->comm, PS_TAG_AGREE, &codes[rank], codes, bytes));
    ps_comm_be_patient(ranks->comm);
    PS_TRY(ps_rank_watch_wait(&ranks->watch));
    uint32_t first = 0;
    while (first < size && codes[first] == PS_OK) {
        first++;
    }
    ranks->is_silent = first < size && first != rank;
    if (first == size || own != PS_OK) {
        return own;
    }
    return ps_fail(codes[first] <= PS_INTERNAL ? (ps_status)codes[first] : PS_LOST,
                   "rank %u could not go on", first);
}

// ---- sharing

ps_status ps_ranks_share(ps_ranks *ranks, void *bytes, uint64_t count)
{
    if (!ps_ranks_are_several(ranks)) {
        return PS_OK;
    }
    uint64_t sent = count;
    PS_TRY(ps_comm_broadcast_start(ranks->comm, PS_TAG_SHARE, bytes, count, &sent));
    PS_TRY(ps_comm_wait(ranks->comm));
    return sent == count ? PS_OK
                         : ps_fail(PS_INVALID, "rank 0 shared %llu bytes, %llu would be right",
                                   (unsigned long long)sent, (unsigned long long)count);
}

// ---- telling

ps_status ps_ranks_reserve(ps_ranks *ranks, uint64_t bytes)
{
    const uint64_t capacity = sizeof(ps_command) + bytes;
    if (ranks == NULL || capacity <= ranks->capacity) {
        return PS_OK;
    }
    if (capacity > PS_COMM_BYTES_MAX) {
        return ps_fail(PS_EXHAUSTED,
                       "steps of %llu bytes, at most %llu between ranks: fewer sequences or a "
                       "shorter context would be right",
                       (unsigned long long)bytes, (unsigned long long)PS_COMM_BYTES_MAX);
    }
    char *message = realloc(ranks->message, capacity);
    ps_status status = PS_OK;
    if (message == NULL) {
        status = ps_fail(PS_NO_MEMORY, "no memory for steps of %llu bytes",
                         (unsigned long long)bytes);
    } else {
        ranks->message = message;
    }
    PS_TRY(ps_ranks_agree(ranks, status));
    ranks->capacity = capacity; // what the ranks compare
    return PS_OK;
}

ps_status ps_ranks_tell(ps_ranks *ranks, const ps_command *command, const void *behind)
{
    if (!ps_ranks_are_several(ranks)) {
        return PS_OK;
    }
    uint64_t bytes = sizeof *command + command->bytes;
    ps_assert(bytes <= ranks->capacity);
    memcpy(ranks->message, command, sizeof *command);
    if (behind != NULL) {
        memcpy(ranks->message + sizeof *command, behind, command->bytes);
    }
    PS_TRY(ps_comm_broadcast_start(ranks->comm, PS_TAG_COMMAND, ranks->message, ranks->capacity,
                                   &bytes));
    return ps_comm_wait(ranks->comm);
}

void ps_ranks_tell_end(ps_ranks *ranks, ps_word word, uint32_t session)
{
    const ps_status status = ps_ranks_tell(ranks, &(ps_command){.word = word, .session = session},
                                           NULL);
    if (status != PS_OK) {
        ps_log(PS_LOG_INFO, "%s", ps_error_message());
    }
}

ps_status ps_ranks_listen(ps_ranks *ranks, const ps_command **out, const void **behind)
{
    uint64_t bytes = 0;
    PS_TRY(ps_comm_broadcast_start(ranks->comm, PS_TAG_COMMAND, ranks->message, ranks->capacity,
                                   &bytes));
    PS_TRY(ps_rank_watch_wait(&ranks->watch));
    const ps_command *command = (const ps_command *)(const void *)ranks->message;
    if (bytes < sizeof *command || command->bytes != bytes - sizeof *command) {
        return ps_fail(PS_INVALID, "rank 0 sent a command of %llu bytes that does not fit its size",
                       (unsigned long long)bytes);
    }
    *out = command;
    *behind = command + 1;
    return PS_OK;
}
