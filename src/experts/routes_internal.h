// experts/routes_internal.h - the bytes of a route log. The host is little endian, as the file is.
#ifndef PS_EXPERTS_ROUTES_INTERNAL_H
#define PS_EXPERTS_ROUTES_INTERNAL_H

#include "experts/routes_file.h"

#define PS_ROUTES_VERSION 1u
#define PS_ROUTES_SAME_ROWS 0x8000u

// A writer begins a block when one has this much; what a call adds at most is below the second.
#define PS_ROUTES_BLOCK_BYTES (1u << 20)
#define PS_ROUTES_BLOCK_BYTES_MAX (16u << 20)

typedef struct ps_routes_header {
    char magic[8];
    uint32_t version;
    uint32_t layers, experts, top_k;
    uint64_t fingerprint;
    uint64_t checksum;
} ps_routes_header;
_Static_assert(sizeof(ps_routes_header) == 40, "the header has no gaps");

typedef struct ps_routes_block {
    uint32_t bytes;
    uint32_t calls;
    uint64_t checksum;
} ps_routes_block;
_Static_assert(sizeof(ps_routes_block) == 16, "a block's head has no gaps");
_Static_assert(sizeof(ps_routes_row) == 8, "a row has no gaps");

#endif
