// comm/handshake.h - ranks make sure that they are about to do the same.
#ifndef PS_COMM_HANDSHAKE_H
#define PS_COMM_HANDSHAKE_H

#include "comm/comm.h"

#define PS_COMM_VERSION_BYTES 64u   // with its NUL
#define PS_COMM_OPTIONS_BYTES 1024u // with its NUL

typedef struct ps_comm_identity {
    const char *version;   // of the program
    uint64_t model;        // fingerprint
    uint64_t options_hash; // of all that changes what a rank computes or when it communicates
    const char *options;   // the same for people: words with a blank between them, such as "tp=2"
} ps_comm_identity;

// Compares the identities of all ranks with that of rank 0; one all_gather. Every rank comes to the
// same answer and, on failure, the same message, which names the first rank that differs and what
// in; rank 0 speaks (ps_comm_speaks), and the communicator has failed.
//
// PS_INVALID    they differ; or the version or the options have more bytes than above
// PS_NO_MEMORY  PS_LOST
PS_MUST_USE ps_status ps_comm_handshake(ps_comm *comm, const ps_comm_identity *identity);

#endif
