// engine/tuned.h - what `prestage tune` has measured, kept in a file for each machine.
//
// The file lies in the user's cache folder and is found by a key, of which its name has a hash.
// Whoever needs rates takes those of the file, or measures a few quickly, or has defaults;
// ps_machine.source says which.
#ifndef PS_ENGINE_TUNED_H
#define PS_ENGINE_TUNED_H

#include "base/memory.h"
#include "engine/calibrate_fill.h"
#include "engine/json_values.h"
#include "engine/ranks.h"

#define PS_TUNED_FORMAT 2u
#define PS_TUNED_COLLECTIVES_MAX 12u
#define PS_TUNED_PATH_BYTES 4096u

// What the numbers were measured for.
typedef struct ps_tuned_key {
    char version[16]; // of prestage
    char name[64];    // CPU
    char isa[16];     // of the kernels
    uint32_t threads; // of each rank
    uint32_t cpus;    // that the process was started with
    uint64_t l2_bytes, llc_bytes;
    uint32_t ranks, ranks_here; // 1 and 1: one alone
    char comm[16];              // "none", "local", "mpi", "self"
    uint64_t latency_ns;        // of a simulated link; 0: none
    double bits_per_second;     // 0: infinite
} ps_tuned_key;

typedef struct ps_tuned_collective {
    uint64_t bytes;
    double ns;
} ps_tuned_collective;

typedef struct ps_tuned {
    ps_tuned_key key;
    char date[12];      // "2026-11-29"
    ps_machine machine; // its source is "tuned 2026-11-29"
    ps_comm_tuning comm;
    uint32_t fill_count;
    ps_fill_rates fills[PS_FILL_RATES_MAX];
    uint32_t collective_count; // 0 with one rank
    ps_tuned_collective collectives[PS_TUNED_COLLECTIVES_MAX];
} ps_tuned;

// The key of a process on this machine. ranks: NULL for one alone, or for a plan of `planned`
// ranks on this host, which is made without starting them, over a link (NULL: none).
//
// PS_INVALID  the link
PS_MUST_USE ps_status ps_tuned_key_here(const ps_machine *machine, const char *isa,
                                        const ps_ranks *ranks, uint32_t planned, const char *link,
                                        ps_tuned_key *out);

// Where the file of a key lies: $PRESTAGE_CACHE, $XDG_CACHE_HOME/prestage or ~/.cache/prestage,
// and a name. PS_NOT_FOUND: none of these variables is set.
PS_MUST_USE ps_status ps_tuned_path(const ps_tuned_key *key, char path[PS_TUNED_PATH_BYTES]);

// Reads a file that ps_tuned_print made. Messages name the path. key: what it has to be for; NULL:
// anything.
//
// PS_NOT_FOUND, PS_IO
// PS_INVALID      no such object, of another key, a number out of range
// PS_UNSUPPORTED  another format
PS_MUST_USE ps_status ps_tuned_read(const char *path, const ps_tuned_key *key, ps_tuned *out);

// The file of the key. False: there is none, or a warning has said that it cannot be used.
bool ps_tuned_find(const ps_tuned_key *key, ps_tuned *out);

// The same of an object that has been read, and whether it is meant to be one. Members of it are
// taken.
bool ps_tuned_is_json(const json_t *root);
PS_MUST_USE ps_status ps_tuned_read_json(json_t *root, const ps_tuned_key *key, ps_tuned *out);

// Appends the content of the file.
PS_MUST_USE ps_status ps_tuned_print(const ps_tuned *tuned, ps_buffer *out);

// Writes the file, whole or not at all, and makes the folders above it. Messages name the path.
//
// PS_INVALID  as ps_new_file_check
// PS_IO
PS_MUST_USE ps_status ps_tuned_write(const ps_tuned *tuned, const char *path, bool replace);

#endif
