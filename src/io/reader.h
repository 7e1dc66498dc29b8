// io/reader.h - reads pieces of files, many at a time, past the page cache where the system can.
//
// The caller says where pieces lie and where their bytes go, and is called when they are there. Up
// to `depth` reads are under way at a time, and as many as that while anything waits, be it one
// piece or a thousand. Two ways do it: io_uring, with one thread that starts and reaps, and a pool
// of `depth` threads that pread. Both give the same bytes, answers and figures.
//
//     ps_read read = {.file = file, .offset_bytes = 12345, .size_bytes = 678, .memory = memory,
//                     .done = tell_owner};
//     ps_reader_submit(reader, &read);
//
// Reads are widened to whole blocks of PS_READ_ALIGN_BYTES, because O_DIRECT wants that; at the end
// of a file the last block may be short. What the system brings only a part of is continued. A read
// that fails, or brings nothing new, is made once more; the second failure is the read's answer.
//
// Threads: all functions but create and destroy may be called from any thread at any time, from
// `done` too. The threads of a reader take no signals and run where its creator may. A process that
// is forked off has none of them: make readers after it.
#ifndef PS_IO_READER_H
#define PS_IO_READER_H

#include "base/status.h"

#include <stdint.h>

#define PS_READ_ALIGN_BYTES 4096u
#define PS_READ_DEPTH_MAX 256u
#define PS_READER_FILES_MAX 1024u

typedef enum ps_read_way {
    PS_READ_AUTO, // io_uring, a pool where the kernel refuses it
    PS_READ_URING,
    PS_READ_POOL,
} ps_read_way;

// One piece. The caller's, zeroed but for what is asked for; at rest from submit until `done` has
// been called or the read has been withdrawn. Then it may be freed, or asked for again.
typedef struct ps_read ps_read;
struct ps_read {
    uint32_t file;         // of ps_reader_open
    uint64_t offset_bytes; // any
    uint64_t size_bytes;   // > 0; where the file ends before the piece, that is an answer
    // PS_READ_ALIGN_BYTES aligned, ps_read_span_bytes long; the piece will start at
    // memory + offset_bytes % PS_READ_ALIGN_BYTES. What is around it is undefined.
    char *memory;
    bool is_speculative;         // started only when no other read waits to be started
    void (*done)(ps_read *read); // on a thread of the reader, once; short; the reader has let go
    void *context;               // the caller's
    // The answer: 0, the errno of the second failure, or ENODATA where the file ends before the
    // piece does. See ps_read_status.
    int error;

    // Private to the reader, or to the tier (experts/tier.h), that was asked.
    ps_read *previous, *next;
    uint64_t bytes; // of the span, so far
    uint32_t failures;
    uint64_t asked_ns; // of a tier
    enum { PS_READ_AT_REST, PS_READ_WAITS, PS_READ_STARTED } state;
};

typedef struct ps_reader_options {
    ps_read_way way;
    uint32_t depth;   // reads that the system has at a time, <= PS_READ_DEPTH_MAX; 0: 16
    bool is_buffered; // no O_DIRECT, even where the file system would take it
    // Where all or most reads go, or NULL. io_uring pins it, which takes all of its pages at once:
    // while the reader lives, do not unmap it or give pages of it back (madvise), or reads will
    // reach the pages that were. Where the system refuses (RLIMIT_MEMLOCK), reads are plain ones.
    void *memory;
    uint64_t memory_bytes;
    // For tests, NULL otherwise: sees each answer of the system (bytes read, or -errno) on a thread
    // of the reader and may change it (to fewer bytes, or a failure), or sleep.
    int64_t (*filter)(void *context, uint32_t file, uint64_t offset_bytes, int64_t answer);
    void *filter_context;
} ps_reader_options;

typedef struct ps_reader_info {
    ps_read_way way; // in use: never PS_READ_AUTO
    uint32_t depth;
    bool is_memory_registered;
    uint32_t files, direct_files; // opened; and of them those that are read with O_DIRECT
    uint64_t reads, failed_reads; // done, failed ones included
    uint64_t bytes;               // that the system brought, with what widening adds
    uint64_t short_reads;         // that were continued
    uint64_t retries;
    uint32_t under_way_max; // most reads that the system had at a time
    uint64_t busy_ns;       // in which the system had at least one read
    uint64_t demanded_ns;   // in which at least one read that is not speculative was wanted
} ps_reader_info;

typedef struct ps_reader ps_reader;

// Starts the threads. options are copied, options->memory is borrowed until destroy.
//
// PS_INVALID      depth is above PS_READ_DEPTH_MAX
// PS_UNSUPPORTED  PS_READ_URING, and the system refuses io_uring
// PS_NO_MEMORY    PS_IO: no thread can be had
PS_MUST_USE ps_status ps_reader_create(const ps_reader_options *options, ps_reader **out);

// Waits for what is under way; what was not started is dropped without a call and is at rest. Not
// to be called from `done`. NULL is allowed.
void ps_reader_destroy(ps_reader *reader);

// Opens a regular file, with O_DIRECT where its file system takes that. Messages name the path.
//
// PS_NOT_FOUND  no such file
// PS_INVALID    a folder, a pipe, a device
// PS_IO         the system refuses
// PS_EXHAUSTED  PS_READER_FILES_MAX
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_reader_open(ps_reader *reader, const char *path, uint32_t *out_file);

// Bytes of memory that a read needs: its piece, widened to whole blocks on both sides.
uint64_t ps_read_span_bytes(const ps_read *read);

// Asks for a piece; those of a kind are started in order. Cannot fail: failure is an answer.
void ps_reader_submit(ps_reader *reader, ps_read *read);

// A speculative read is wanted now: behind those that are demanded already. False: it does not
// wait, because it has been started, or done; if it is under way, it counts as demanded from now.
bool ps_reader_promote(ps_reader *reader, ps_read *read);

// Takes back a read that was not started: true, and `done` is not called. False: it has been.
bool ps_reader_withdraw(ps_reader *reader, ps_read *read);

// Reads whose `done` has returned, since the start. ps_reader_wait returns once it is > count, so
// for a condition that `done` makes true:
//
//     for (uint64_t count = ps_reader_done_count(reader); !is_there();
//          count = ps_reader_done_count(reader)) -- taken before the look
//         ps_reader_wait(reader, count);
//
// Something must be waiting or under way, or the wait has no end.
uint64_t ps_reader_done_count(const ps_reader *reader);
void ps_reader_wait(ps_reader *reader, uint64_t count);

// The answer of a read that is done, as a status with a message that names path, size and offset:
// PS_OK, or PS_IO, also where the file has been written to since it was opened. A system call.
PS_MUST_USE ps_status ps_read_status(const ps_reader *reader, const ps_read *read);

void ps_reader_get_info(ps_reader *reader, ps_reader_info *out);

const char *ps_read_way_name(ps_read_way way); // "auto", "io_uring", "pool"

#endif
