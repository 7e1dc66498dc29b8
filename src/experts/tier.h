// experts/tier.h - where a store gets experts from, and the fast memory that they go to.
//
// A tier copies pieces of files (ps_read, io/reader.h) from a slow memory that holds all of them
// into its fast one, whose size the store says: from a disk into memory (ps_tier_disk_create), or
// from memory over a link of a stated speed (ps_tier_sim_create), as into an accelerator's. The
// memory of a device would be one more.
//
//     tier->is->open(tier, bytes);
//     read.memory = tier->memory + ...;
//     tier->is->submit(tier, &read);
//
// Reads, their order and their answers are as io/reader.h says: demanded ones first, `done` on a
// thread of the tier's.
#ifndef PS_EXPERTS_TIER_H
#define PS_EXPERTS_TIER_H

#include "io/reader.h"

typedef struct ps_tier ps_tier;

typedef struct ps_tier_info {
    const char *name; // of the slow memory: "disk", "dram"; static
    const char *way;  // how it is read, such as "io_uring, direct"; until the tier is destroyed
    uint64_t bytes;   // that have been brought
    uint64_t busy_ns; // in which at least one read was under way
} ps_tier_info;

typedef struct ps_tier_functions {
    // Makes tier->memory, of so many bytes, at a page; once, before all others but destroy.
    // PS_NOT_FOUND, PS_INVALID, PS_IO: what is read cannot be opened. PS_NO_MEMORY.
    ps_status (*open)(ps_tier *tier, uint64_t memory_bytes);
    // As ps_reader_submit, ps_reader_promote, ps_reader_done_count, ps_reader_wait and
    // ps_read_status; file is the number of a path.
    void (*submit)(ps_tier *tier, ps_read *read);
    void (*promote)(ps_tier *tier, ps_read *read);
    uint64_t (*done_count)(const ps_tier *tier);
    void (*wait)(ps_tier *tier, uint64_t count);
    ps_status (*read_status)(const ps_tier *tier, const ps_read *read);
    void (*get_info)(ps_tier *tier, ps_tier_info *out);
    // Waits for what is under way; what was not started is dropped without a call.
    void (*destroy)(ps_tier *tier);
} ps_tier_functions;

struct ps_tier {
    const ps_tier_functions *is;
    char *memory; // [memory_bytes] NULL: not open
    uint64_t memory_bytes;
};

// ---- the disk

// Files that experts are in.
typedef struct ps_expert_files {
    const char *const *paths; // [path_count] borrowed until the tier is open
    uint32_t path_count;
    ps_reader_options reader; // how to read; its memory is the tier's
} ps_expert_files;

// PS_NO_MEMORY
PS_MUST_USE ps_status ps_tier_disk_create(const ps_expert_files *files, ps_tier **out);

// ---- memory behind a link

typedef struct ps_tier_link {
    uint64_t latency_ns;     // of each read
    double bytes_per_second; // 0: as fast as this machine copies
} ps_tier_link;

// Reads go one after the other, each for the latency and its bytes over the bandwidth, by the
// clock: a read is never there before it would be over such a link, and where a thread wakes late,
// the next one is not. busy_ns is the link's time, or this machine's where it copies more slowly.
//
// cold: borrowed until destroy. PS_NO_MEMORY
struct ps_cold_experts;
PS_MUST_USE ps_status ps_tier_sim_create(const struct ps_cold_experts *cold,
                                         const ps_tier_link *link, ps_tier **out);

#endif
