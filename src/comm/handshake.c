// comm/handshake.c - ranks compare what they are about to do.
#include "comm/handshake.h"

#include "comm/comm_internal.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What travels; other versions may differ in everything but this.
typedef struct card {
    char version[PS_COMM_VERSION_BYTES];
    char options[PS_COMM_OPTIONS_BYTES];
    uint64_t model;
    uint64_t options_hash;
} card;

#define HANDSHAKE_TAG 0x48454c4fu

static ps_status fill(card *own, const ps_comm_identity *identity)
{
    if (strlen(identity->version) >= sizeof own->version ||
        strlen(identity->options) >= sizeof own->options) {
        return ps_fail(PS_INVALID,
                       "version and options of a handshake have at most %u and %u bytes",
                       PS_COMM_VERSION_BYTES - 1, PS_COMM_OPTIONS_BYTES - 1);
    }
    memset(own, 0, sizeof *own);
    (void)snprintf(own->version, sizeof own->version, "%s", identity->version);
    (void)snprintf(own->options, sizeof own->options, "%s", identity->options);
    own->model = identity->model;
    own->options_hash = identity->options_hash;
    return PS_OK;
}

static ps_str next_word(const char **text)
{
    *text += strspn(*text, " ");
    const ps_str word = {*text, strcspn(*text, " ")};
    *text += word.length;
    return word;
}

// The first pair of words in which two texts differ; empty words when they are the same.
static void first_difference(const char *a, const char *b, ps_str *out_a, ps_str *out_b)
{
    do {
        *out_a = next_word(&a);
        *out_b = next_word(&b);
    } while (out_a->length > 0 && out_a->length == out_b->length &&
             memcmp(out_a->data, out_b->data, out_a->length) == 0);
}

static ps_status compare_options(const card *first, const card *other, uint32_t rank)
{
    ps_str a;
    ps_str b;
    first_difference(first->options, other->options, &a, &b);
    if (a.length == 0 && b.length == 0) {
        return ps_fail(PS_INVALID,
                       "rank %" PRIu32 " has other options than rank 0 (their hash is %016" PRIx64
                       " there, %016" PRIx64 " here)",
                       rank, other->options_hash, first->options_hash);
    }
    return ps_fail(PS_INVALID,
                   "rank %" PRIu32 " was started with '%.*s', rank 0 with '%.*s': give all "
                   "ranks the same options",
                   rank, (int)b.length, b.data, (int)a.length, a.data);
}

// Ends the text, and leaves nothing in it that a terminal would obey.
static void clean(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (; *text != '\0'; text++) {
        *text = (char)(*text < ' ' || *text > '~' ? '?' : *text);
    }
}

static ps_status compare(const card *first, const card *other, uint32_t rank)
{
    if (strcmp(first->version, other->version) != 0) {
        return ps_fail(PS_INVALID,
                       "rank %" PRIu32 " runs prestage %s, rank 0 %s: all ranks need the "
                       "same version",
                       rank, other->version, first->version);
    }
    if (first->model != other->model) {
        return ps_fail(PS_INVALID,
                       "rank %" PRIu32 " has another model file than rank 0 (fingerprint "
                       "%016" PRIx64 ", not %016" PRIx64 ")",
                       rank, other->model, first->model);
    }
    return first->options_hash == other->options_hash ? PS_OK : compare_options(first, other, rank);
}

static ps_status gather_and_compare(ps_comm *comm, const card *own, card *all)
{
    uint64_t bytes[PS_COMM_RANKS_MAX];
    for (uint32_t r = 0; r < comm->size; r++) {
        bytes[r] = sizeof *own;
    }
    PS_TRY(ps_comm_all_gather_start(comm, HANDSHAKE_TAG, own, all, bytes));
    PS_TRY(ps_comm_wait(comm));
    for (uint32_t r = 0; r < comm->size; r++) {
        clean(all[r].version, sizeof all[r].version);
        clean(all[r].options, sizeof all[r].options);
    }
    for (uint32_t r = 1; r < comm->size; r++) {
        const ps_status status = compare(&all[0], &all[r], r);
        if (status != PS_OK) {
            ps_comm_fail_alike(comm, status);
            return status;
        }
    }
    return PS_OK;
}

ps_status ps_comm_handshake(ps_comm *comm, const ps_comm_identity *identity)
{
    card own;
    PS_TRY(fill(&own, identity));
    card *all = calloc(comm->size, sizeof *all);
    if (all == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the handshake of %" PRIu32 " ranks",
                       comm->size);
    }
    const ps_status status = gather_and_compare(comm, &own, all);
    free(all);
    return status;
}
