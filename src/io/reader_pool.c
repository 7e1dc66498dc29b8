// io/reader_pool.c - threads that pread, one read each at a time.
#include "base/thread.h"
#include "io/reader_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct pool {
    pthread_cond_t work; // a read waits, or the reader is stopping
    uint32_t count;
    pthread_t threads[PS_READ_DEPTH_MAX];
} pool;

static int64_t read_part(const ps_read_part *part)
{
    const ssize_t bytes = pread(part->file->descriptor, part->memory, part->size_bytes,
                                (off_t)part->offset_bytes);
    return bytes >= 0 ? bytes : -errno;
}

static void read_whole(ps_reader *reader, ps_read *read)
{
    bool is_done = false;
    while (!is_done) {
        const ps_read_part part = ps_reader_part(reader, read);
        is_done = ps_reader_answer(reader, read, read_part(&part));
    }
}

static void *pool_main(void *argument)
{
    ps_reader *reader = argument;
    pool *p = reader->state;
    (void)pthread_mutex_lock(&reader->lock);
    for (;;) {
        ps_read *read = ps_reader_take(reader);
        if (read != NULL) {
            (void)pthread_mutex_unlock(&reader->lock);
            read_whole(reader, read);
            (void)pthread_mutex_lock(&reader->lock);
        } else if (!reader->is_stopping) {
            (void)pthread_cond_wait(&p->work, &reader->lock);
        } else {
            break;
        }
    }
    (void)pthread_mutex_unlock(&reader->lock);
    return NULL;
}

static void pool_stop(ps_reader *reader)
{
    pool *p = reader->state;
    (void)pthread_mutex_lock(&reader->lock);
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_mutex_unlock(&reader->lock);
    for (uint32_t i = 0; i < p->count; i++) {
        (void)pthread_join(p->threads[i], NULL);
    }
    (void)pthread_cond_destroy(&p->work);
    free(p);
}

static ps_status pool_start(ps_reader *reader)
{
    pool *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for threads that read files");
    }
    (void)pthread_cond_init(&p->work, NULL);
    reader->state = p;
    for (; p->count < reader->options.depth; p->count++) {
        if (!ps_thread_start(pool_main, reader, &p->threads[p->count])) {
            const uint32_t started = p->count;
            (void)pthread_mutex_lock(&reader->lock);
            reader->is_stopping = true;
            (void)pthread_mutex_unlock(&reader->lock);
            pool_stop(reader);
            return ps_fail(PS_IO, "cannot start thread %u of %u that read files", started + 1,
                           reader->options.depth);
        }
    }
    return PS_OK;
}

static void pool_add_file(ps_reader *reader, uint32_t file)
{
    (void)reader;
    (void)file;
}

static void pool_wake(ps_reader *reader)
{
    pool *p = reader->state;
    (void)pthread_cond_signal(&p->work);
}

const ps_reader_way ps_reader_pool = {PS_READ_POOL, pool_start, pool_add_file, pool_wake,
                                      pool_stop};
