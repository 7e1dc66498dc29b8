// io/reader.c - the reads that wait, and what an answer means.
//
// 1. A read is in one place: at rest, in one of the two lists (it waits), or with the way (it is
//    started). Only ps_reader_take moves it from a list to the way, only finish from there to rest.
// 2. A started read has one part with the system at a time.
// 3. `done` is called without the lock, and nothing of the read is touched after.
#include "io/reader_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_DEFAULT 16u
// One call of the system takes somewhat less than 2 GiB.
#define PART_BYTES_MAX ((uint64_t)1 << 30)
#define PATH_BYTES_SHOWN ((size_t)400)

static void clock_enter(ps_read_clock *clock)
{
    if (clock->count++ == 0) {
        clock->since_ns = ps_clock_ns();
    }
}

static void clock_leave(ps_read_clock *clock)
{
    if (--clock->count == 0) {
        clock->total_ns += ps_clock_ns() - clock->since_ns;
    }
}

static uint64_t clock_total(const ps_read_clock *clock)
{
    return clock->total_ns + (clock->count > 0 ? ps_clock_ns() - clock->since_ns : 0);
}

// ---- reads that wait ----

static ps_read_list *list_of(ps_reader *reader, const ps_read *read)
{
    return read->is_speculative ? &reader->speculative : &reader->demanded;
}

void ps_reader_submit(ps_reader *reader, ps_read *read)
{
    uint64_t end_bytes;
    ps_assert(read->size_bytes > 0 && read->done != NULL);
    ps_assert(ps_checked_add(read->offset_bytes, read->size_bytes, &end_bytes));
    ps_assert((uintptr_t)read->memory % PS_READ_ALIGN_BYTES == 0);
    read->bytes = 0;
    read->failures = 0;
    (void)pthread_mutex_lock(&reader->lock);
    ps_assert(read->state == PS_READ_AT_REST && read->file < reader->file_count);
    read->state = PS_READ_WAITS;
    ps_read_list_append(list_of(reader, read), read);
    if (!read->is_speculative) {
        clock_enter(&reader->wanted);
    }
    reader->way->wake(reader);
    (void)pthread_mutex_unlock(&reader->lock);
}

bool ps_reader_promote(ps_reader *reader, ps_read *read)
{
    (void)pthread_mutex_lock(&reader->lock);
    const bool waits = read->state == PS_READ_WAITS;
    if (read->state != PS_READ_AT_REST && read->is_speculative) {
        if (waits) {
            ps_read_list_remove(&reader->speculative, read);
            ps_read_list_append(&reader->demanded, read);
        }
        read->is_speculative = false;
        clock_enter(&reader->wanted);
    }
    (void)pthread_mutex_unlock(&reader->lock);
    return waits;
}

bool ps_reader_withdraw(ps_reader *reader, ps_read *read)
{
    (void)pthread_mutex_lock(&reader->lock);
    const bool waits = read->state == PS_READ_WAITS;
    if (waits) {
        ps_read_list_remove(list_of(reader, read), read);
        read->state = PS_READ_AT_REST;
        if (!read->is_speculative) {
            clock_leave(&reader->wanted);
        }
    }
    (void)pthread_mutex_unlock(&reader->lock);
    return waits;
}

ps_read *ps_reader_take(ps_reader *reader)
{
    ps_read_list *list = reader->demanded.first != NULL ? &reader->demanded : &reader->speculative;
    ps_read *read = list->first;
    if (read == NULL || reader->is_stopping) {
        return NULL;
    }
    ps_read_list_remove(list, read);
    read->state = PS_READ_STARTED;
    clock_enter(&reader->busy);
    if (reader->busy.count > reader->info.under_way_max) {
        reader->info.under_way_max = reader->busy.count;
    }
    return read;
}

// ---- reads that are started ----

static uint64_t head_bytes(const ps_read *read)
{
    return read->offset_bytes % PS_READ_ALIGN_BYTES;
}

uint64_t ps_read_span_bytes(const ps_read *read)
{
    return ps_round_up(head_bytes(read) + read->size_bytes, PS_READ_ALIGN_BYTES);
}

ps_read_part ps_reader_part(const ps_reader *reader, const ps_read *read)
{
    const uint64_t left_bytes = ps_read_span_bytes(read) - read->bytes;
    return (ps_read_part){
        .file = &reader->files[read->file],
        .offset_bytes = read->offset_bytes - head_bytes(read) + read->bytes,
        .memory = read->memory + read->bytes,
        .size_bytes = (uint32_t)(left_bytes < PART_BYTES_MAX ? left_bytes : PART_BYTES_MAX)};
}

// Adds what an answer brought. Only whole blocks of a direct file count, because the next part has
// to start at one, unless the piece is whole. False: nothing new.
static bool add_bytes(ps_reader *reader, ps_read *read, uint64_t bytes)
{
    reader->info.bytes += bytes;
    bytes += read->bytes;
    if (reader->files[read->file].is_direct && bytes < head_bytes(read) + read->size_bytes) {
        bytes -= bytes % PS_READ_ALIGN_BYTES;
    }
    const bool is_more = bytes > read->bytes;
    read->bytes = bytes;
    return is_more;
}

// The read has its answer. Comes with the lock, goes without.
static void finish(ps_reader *reader, ps_read *read, int error)
{
    read->error = error;
    read->state = PS_READ_AT_REST;
    clock_leave(&reader->busy);
    if (!read->is_speculative) {
        clock_leave(&reader->wanted);
    }
    reader->info.reads++;
    reader->info.failed_reads += error != 0;
    (void)pthread_mutex_unlock(&reader->lock);
    read->done(read);
    (void)pthread_mutex_lock(&reader->lock);
    (void)atomic_fetch_add_explicit(&reader->done_count, 1, memory_order_release);
    (void)pthread_cond_broadcast(&reader->done_changed);
    (void)pthread_mutex_unlock(&reader->lock);
}

bool ps_reader_answer(ps_reader *reader, ps_read *read, int64_t answer)
{
    const ps_read_part part = ps_reader_part(reader, read);
    if (reader->options.filter != NULL) {
        answer = reader->options.filter(reader->options.filter_context, read->file,
                                        part.offset_bytes, answer);
    }
    ps_assert(answer <= (int64_t)part.size_bytes);
    (void)pthread_mutex_lock(&reader->lock);
    if (answer > 0 && add_bytes(reader, read, (uint64_t)answer)) {
        if (read->bytes >= head_bytes(read) + read->size_bytes) {
            finish(reader, read, 0);
            return true;
        }
        reader->info.short_reads += (uint64_t)answer < part.size_bytes;
    } else if (read->failures++ > 0) {
        finish(reader, read, answer < 0 ? (int)-answer : ENODATA);
        return true;
    } else {
        reader->info.retries++;
    }
    (void)pthread_mutex_unlock(&reader->lock);
    return false;
}

uint64_t ps_reader_done_count(const ps_reader *reader)
{
    return atomic_load_explicit(&reader->done_count, memory_order_acquire);
}

void ps_reader_wait(ps_reader *reader, uint64_t count)
{
    (void)pthread_mutex_lock(&reader->lock);
    while (ps_reader_done_count(reader) <= count) {
        (void)pthread_cond_wait(&reader->done_changed, &reader->lock);
    }
    (void)pthread_mutex_unlock(&reader->lock);
}

ps_status ps_read_status(const ps_reader *reader, const ps_read *read)
{
    const ps_reader_file *file = &reader->files[read->file];
    const bool has_changed = read->error == 0 && ps_reader_file_has_changed(file);
    if (read->error == 0 && !has_changed) {
        return PS_OK;
    }
    const char *path = file->path;
    const size_t length = strlen(path);
    path += length > PATH_BYTES_SHOWN ? length - PATH_BYTES_SHOWN : 0; // room for the reason
    return ps_fail(PS_IO, "%s: %" PRIu64 " bytes at %" PRIu64 ": %s%s", path, read->size_bytes,
                   read->offset_bytes,
                   has_changed              ? "the file has been written to since it was opened"
                   : read->error == ENODATA ? "the file ends before them"
                                            : strerror(read->error),
                   has_changed ? "" : " (tried twice)");
}

// ---- readers ----

static void deinit(ps_reader *reader)
{
    for (uint32_t i = 0; i < reader->file_count; i++) {
        ps_reader_file_close(&reader->files[i]);
    }
    (void)pthread_cond_destroy(&reader->done_changed);
    (void)pthread_mutex_destroy(&reader->lock);
    free(reader);
}

static ps_status start_way(ps_reader *reader)
{
    const ps_read_way asked = reader->options.way;
    if (asked != PS_READ_POOL) {
        reader->way = &ps_reader_uring;
        const ps_status status = reader->way->start(reader);
        if (status != PS_UNSUPPORTED || asked == PS_READ_URING) {
            return status;
        }
        ps_log(PS_LOG_INFO, "%s; a pool of threads reads instead", ps_error_message());
    }
    reader->way = &ps_reader_pool;
    return reader->way->start(reader);
}

ps_status ps_reader_create(const ps_reader_options *options, ps_reader **out)
{
    if (options->depth > PS_READ_DEPTH_MAX) {
        return ps_fail(PS_INVALID, "%u reads at a time: 1 to %u would be right", options->depth,
                       PS_READ_DEPTH_MAX);
    }
    ps_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a reader of files");
    }
    reader->options = *options;
    reader->options.depth = options->depth > 0 ? options->depth : DEPTH_DEFAULT;
    (void)pthread_mutex_init(&reader->lock, NULL);
    (void)pthread_cond_init(&reader->done_changed, NULL);
    const ps_status status = start_way(reader);
    if (status != PS_OK) {
        deinit(reader);
        return status;
    }
    *out = reader;
    return PS_OK;
}

void ps_reader_destroy(ps_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&reader->lock);
    reader->is_stopping = true;
    (void)pthread_mutex_unlock(&reader->lock);
    reader->way->stop(reader);
    ps_read_list_drop(&reader->demanded);
    ps_read_list_drop(&reader->speculative);
    deinit(reader);
}

ps_status ps_reader_open(ps_reader *reader, const char *path, uint32_t *out_file)
{
    ps_reader_file file;
    PS_TRY(ps_reader_file_open(path, reader->options.is_buffered, &file));
    (void)pthread_mutex_lock(&reader->lock);
    const uint32_t number = reader->file_count;
    const bool has_room = number < PS_READER_FILES_MAX;
    if (has_room) {
        reader->files[number] = file;
        reader->way->add_file(reader, number);
        reader->file_count++;
        reader->info.direct_files += file.is_direct;
    }
    (void)pthread_mutex_unlock(&reader->lock);
    if (!has_room) {
        ps_reader_file_close(&file);
        return ps_fail(PS_EXHAUSTED, "%s: one file more than the %u that can be open", path,
                       PS_READER_FILES_MAX);
    }
    *out_file = number;
    return PS_OK;
}

void ps_reader_get_info(ps_reader *reader, ps_reader_info *out)
{
    (void)pthread_mutex_lock(&reader->lock);
    *out = reader->info;
    out->way = reader->way->name;
    out->depth = reader->options.depth;
    out->files = reader->file_count;
    out->busy_ns = clock_total(&reader->busy);
    out->demanded_ns = clock_total(&reader->wanted);
    (void)pthread_mutex_unlock(&reader->lock);
}

const char *ps_read_way_name(ps_read_way way)
{
    static const char *const NAMES[] = {"auto", "io_uring", "pool"};
    return NAMES[way];
}
