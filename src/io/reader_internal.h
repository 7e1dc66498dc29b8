// io/reader_internal.h - what reader.c and the two ways of reading share.
//
// reader.c keeps the lists of reads that wait and judges answers; a way starts reads and brings
// their answers:
//
//     submit -> ps_reader_take -> (ps_reader_part -> the system -> ps_reader_answer)... -> done
#ifndef PS_IO_READER_INTERNAL_H
#define PS_IO_READER_INTERNAL_H

#include "io/read_list.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct ps_reader_way {
    ps_read_way name;
    // Makes reader->state and starts threads; after a failure nothing is left. PS_UNSUPPORTED: the
    // system does not do it.
    ps_status (*start)(ps_reader *reader);
    void (*add_file)(ps_reader *reader, uint32_t file); // opened, not yet known to anybody
    void (*wake)(ps_reader *reader);                    // one more read waits; under the lock
    // is_stopping is set: ends the threads when what they have is done, and frees reader->state.
    void (*stop)(ps_reader *reader);
} ps_reader_way;

extern const ps_reader_way ps_reader_uring;
extern const ps_reader_way ps_reader_pool;

typedef struct ps_reader_file {
    char *path;
    int descriptor;
    bool is_direct;
    bool is_registered;      // with io_uring, under the file's number
    struct timespec written; // last, when it was opened
} ps_reader_file;

// How long at least one of some things was there.
typedef struct ps_read_clock {
    uint32_t count;
    uint64_t since_ns, total_ns; // since: while count > 0
} ps_read_clock;

struct ps_reader {
    ps_reader_options options; // depth is never 0
    const ps_reader_way *way;
    void *state; // the way's

    pthread_mutex_t lock;
    ps_read_list demanded, speculative; // lock; those that wait
    bool is_stopping;                   // lock
    ps_reader_info info;                // lock
    ps_read_clock busy;                 // lock; of reads that are started
    ps_read_clock wanted; // lock; of reads that wait or are started, speculative ones not
    pthread_cond_t done_changed;
    _Atomic uint64_t done_count; // changes under the lock; release, acquire by ps_reader_done_count

    uint32_t file_count; // lock
    // [file_count] A file never changes once its number is known.
    ps_reader_file files[PS_READER_FILES_MAX];
};

// What the system is to read next for a read.
typedef struct ps_read_part {
    const ps_reader_file *file;
    uint64_t offset_bytes;
    char *memory;
    uint32_t size_bytes;
} ps_read_part;

// Opens path into *out, without the way's part. Statuses of ps_reader_open.
ps_status ps_reader_file_open(const char *path, bool is_buffered, ps_reader_file *out);
void ps_reader_file_close(ps_reader_file *file);

// Whether somebody has written to it, or cut it, since it was opened.
bool ps_reader_file_has_changed(const ps_reader_file *file);

// The read to start next, or NULL. Under the lock.
ps_read *ps_reader_take(ps_reader *reader);

ps_read_part ps_reader_part(const ps_reader *reader, const ps_read *read);

// The system's answer for the part: bytes read, or -errno. True: the read is done and no longer the
// reader's. False: its next part has to be read.
bool ps_reader_answer(ps_reader *reader, ps_read *read, int64_t answer);

#endif
