// io/reader_uring.c - one thread that keeps an io_uring full of reads.
//
// The thread sleeps in the kernel until an answer comes. One of the ring's reads is of an eventfd,
// which whoever submits writes to when the thread sleeps and could start more.
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "io/reader_internal.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

// The kernel registers no longer buffer; a read that crosses from one to the next is a plain one.
#define BUFFER_BYTES_MAX ((uint64_t)1 << 30)

typedef struct uring {
    struct io_uring ring; // its thread's, but for registering
    int wake;             // an eventfd
    uint64_t wake_count;  // what reading it gives
    bool has_files, has_buffers;
    bool is_asleep;     // lock; the thread could start more, and will not look before it is woken
    uint32_t under_way; // its thread's
    pthread_t thread;
} uring;

// ---- reads ----

static struct io_uring_sqe *next_entry(uring *u)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&u->ring);
    ps_assert(entry != NULL); // there is one for each read that may be under way, and for `wake`
    return entry;
}

static void start_wake(uring *u)
{
    struct io_uring_sqe *entry = next_entry(u);
    io_uring_prep_read(entry, u->wake, &u->wake_count, sizeof u->wake_count, 0);
    io_uring_sqe_set_data(entry, NULL);
}

// The number of the registered buffer in which a part lies whole, or -1.
static int buffer_of(const uring *u, const ps_reader_options *options, const ps_read_part *part)
{
    const uint64_t start = (uintptr_t)part->memory - (uintptr_t)options->memory; // may wrap
    const uint64_t end = start + part->size_bytes;
    if (!u->has_buffers || start >= options->memory_bytes || end > options->memory_bytes ||
        start / BUFFER_BYTES_MAX != (end - 1) / BUFFER_BYTES_MAX) {
        return -1;
    }
    return (int)(start / BUFFER_BYTES_MAX);
}

static void start_part(ps_reader *reader, ps_read *read)
{
    uring *u = reader->state;
    const ps_read_part part = ps_reader_part(reader, read);
    const int file = part.file->is_registered ? (int)read->file : part.file->descriptor;
    const int buffer = buffer_of(u, &reader->options, &part);
    struct io_uring_sqe *entry = next_entry(u);
    if (buffer >= 0) {
        io_uring_prep_read_fixed(entry, file, part.memory, part.size_bytes, part.offset_bytes,
                                 buffer);
    } else {
        io_uring_prep_read(entry, file, part.memory, part.size_bytes, part.offset_bytes);
    }
    if (part.file->is_registered) {
        io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
    }
    io_uring_sqe_set_data(entry, read);
}

// ---- the thread ----

// Starts what waits. False: the reader is stopping.
static bool start_waiting(ps_reader *reader)
{
    uring *u = reader->state;
    (void)pthread_mutex_lock(&reader->lock);
    u->is_asleep = false;
    while (u->under_way < reader->options.depth) {
        ps_read *read = ps_reader_take(reader);
        if (read == NULL) {
            u->is_asleep = true;
            break;
        }
        u->under_way++;
        start_part(reader, read);
    }
    const bool goes_on = !reader->is_stopping;
    (void)pthread_mutex_unlock(&reader->lock);
    return goes_on;
}

static void submit_and_wait(uring *u)
{
    const int answer = io_uring_submit_and_wait(&u->ring, 1);
    // What could not be submitted for now stays in the ring.
    ps_assert(answer >= 0 || answer == -EINTR || answer == -EAGAIN || answer == -EBUSY ||
              answer == -ENOMEM);
}

static void reap(ps_reader *reader)
{
    uring *u = reader->state;
    struct io_uring_cqe *answer = NULL;
    while (io_uring_peek_cqe(&u->ring, &answer) == 0) {
        ps_read *read = io_uring_cqe_get_data(answer);
        const int32_t result = answer->res;
        io_uring_cqe_seen(&u->ring, answer);
        if (read == NULL) {
            start_wake(u);
        } else if (ps_reader_answer(reader, read, result)) {
            u->under_way--;
        } else {
            start_part(reader, read);
        }
    }
}

static void *uring_main(void *argument)
{
    ps_reader *reader = argument;
    uring *u = reader->state;
    start_wake(u);
    while (start_waiting(reader) || u->under_way > 0) {
        submit_and_wait(u);
        reap(reader);
    }
    return NULL;
}

// ---- start and stop ----

static void write_wake(const uring *u)
{
    const uint64_t one = 1;
    const ssize_t bytes = write(u->wake, &one, sizeof one);
    ps_assert(bytes == (ssize_t)sizeof one);
}

static void uring_wake(ps_reader *reader)
{
    uring *u = reader->state;
    if (u->is_asleep) {
        u->is_asleep = false;
        write_wake(u);
    }
}

static void uring_stop(ps_reader *reader)
{
    uring *u = reader->state;
    write_wake(u);
    (void)pthread_join(u->thread, NULL);
    io_uring_queue_exit(&u->ring);
    (void)close(u->wake);
    free(u);
}

// A kernel may make a ring and refuse to read with it.
static ps_status probe(uring *u)
{
    write_wake(u);
    start_wake(u);
    struct io_uring_cqe *answer = NULL;
    int error = -io_uring_submit(&u->ring);
    error = error > 0 ? error : -io_uring_wait_cqe(&u->ring, &answer);
    if (error == 0) {
        error = answer->res < 0 ? -answer->res : 0;
        io_uring_cqe_seen(&u->ring, answer);
    }
    return error == 0 ? PS_OK
                      : ps_fail(PS_UNSUPPORTED, "io_uring does not read: %s", strerror(error));
}

static void register_files(uring *u)
{
    const int error = io_uring_register_files_sparse(&u->ring, PS_READER_FILES_MAX);
    u->has_files = error == 0;
    if (error != 0) {
        ps_log(PS_LOG_INFO, "io_uring registers no files: %s", strerror(-error));
    }
}

static void uring_add_file(ps_reader *reader, uint32_t file)
{
    uring *u = reader->state;
    ps_reader_file *added = &reader->files[file];
    added->is_registered = u->has_files && io_uring_register_files_update(
                                               &u->ring, file, &added->descriptor, 1) == 1;
}

static ps_status register_memory(uring *u, ps_reader *reader)
{
    const uint64_t bytes = reader->options.memory_bytes;
    if (reader->options.memory == NULL || bytes == 0) {
        return PS_OK;
    }
    const uint64_t count = ps_divide_up(bytes, BUFFER_BYTES_MAX);
    struct iovec *buffers = calloc(count, sizeof *buffers);
    if (buffers == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for %lu buffers", (unsigned long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t start = i * BUFFER_BYTES_MAX;
        const uint64_t left = bytes - start;
        buffers[i] = (struct iovec){(char *)reader->options.memory + start,
                                    left < BUFFER_BYTES_MAX ? left : BUFFER_BYTES_MAX};
    }
    const int error = io_uring_register_buffers(&u->ring, buffers, (unsigned)count);
    free(buffers);
    u->has_buffers = error == 0;
    reader->info.is_memory_registered = u->has_buffers;
    if (error != 0) {
        ps_log(PS_LOG_INFO, "io_uring registers no %.1f MiB of memory: %s; its reads are plain",
               (double)bytes / (1 << 20), strerror(-error));
    }
    return PS_OK;
}

static ps_status set_up(uring *u, ps_reader *reader)
{
    PS_TRY(probe(u));
    register_files(u);
    PS_TRY(register_memory(u, reader));
    if (!ps_thread_start(uring_main, reader, &u->thread)) {
        return ps_fail(PS_IO, "cannot start a thread that reads files");
    }
    return PS_OK;
}

static ps_status open_ring(uring *u, ps_reader *reader)
{
    const int error = io_uring_queue_init(reader->options.depth + 1, &u->ring, 0);
    if (error != 0) {
        return ps_fail(PS_UNSUPPORTED, "the system refuses io_uring: %s", strerror(-error));
    }
    const ps_status status = set_up(u, reader);
    if (status != PS_OK) {
        io_uring_queue_exit(&u->ring);
    }
    return status;
}

static ps_status uring_start(ps_reader *reader)
{
    uring *u = calloc(1, sizeof *u);
    if (u == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for an io_uring");
    }
    reader->state = u;
    u->wake = eventfd(0, EFD_CLOEXEC);
    const ps_status status = u->wake >= 0 ? open_ring(u, reader)
                                          : ps_fail(PS_IO, "no eventfd: %s", strerror(errno));
    if (status != PS_OK) {
        if (u->wake >= 0) {
            (void)close(u->wake);
        }
        free(u);
    }
    return status;
}

const ps_reader_way ps_reader_uring = {PS_READ_URING, uring_start, uring_add_file, uring_wake,
                                       uring_stop};
