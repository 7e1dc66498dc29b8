// test/io/reader_test.h - a file of known bytes, reads of it, and a filter that holds answers back.
#ifndef PS_TEST_IO_READER_TEST_H
#define PS_TEST_IO_READER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "gen.h"
#include "io/reader.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A test that runs in both ways gets its way as the state.
#define BOTH_WAYS(function)                                                                        \
    {#function ", io_uring", function, NULL, NULL, &(ps_read_way){PS_READ_URING}},                 \
    {                                                                                              \
#function ", pool", function, NULL, NULL, &(ps_read_way)                                   \
        {                                                                                          \
            PS_READ_POOL                                                                           \
        }                                                                                          \
    }

typedef struct made_file {
    char path[256];
    int descriptor; // without O_DIRECT: the oracle's
    uint64_t size_bytes;
} made_file;

// In `folder`, or where NULL in TMPDIR or /tmp.
static inline made_file make_file(const char *folder, uint64_t size_bytes)
{
    made_file file = {.size_bytes = size_bytes};
    const char *tmpdir = getenv("TMPDIR");
    folder = folder != NULL ? folder : tmpdir != NULL ? tmpdir : "/tmp";
    (void)snprintf(file.path, sizeof file.path, "%s/prestage-io-XXXXXX", folder);
    file.descriptor = mkstemp(file.path);
    assert_true(file.descriptor >= 0);
    ps_gen gen = {.state = size_bytes};
    uint64_t words[8192];
    for (uint64_t at = 0; at < size_bytes; at += sizeof words) {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            words[i] = ps_gen_next(&gen);
        }
        const uint64_t left = size_bytes - at;
        const size_t bytes = left < sizeof words ? left : sizeof words;
        assert_int_equal(bytes, write(file.descriptor, words, bytes));
    }
    assert_int_equal(0, fsync(file.descriptor));
    return file;
}

static inline void remove_file(made_file *file)
{
    assert_int_equal(0, close(file->descriptor));
    assert_int_equal(0, unlink(file->path));
}

static inline ps_reader *make_reader(const ps_reader_options *options)
{
    ps_reader *reader = NULL;
    assert_int_equal(PS_OK, ps_reader_create(options, &reader));
    return reader;
}

// The way of a test; skips the test where the kernel refuses io_uring. First thing in a test.
static inline ps_read_way way_of(void **state)
{
    const ps_read_way way = *(const ps_read_way *)*state;
    ps_reader *reader = NULL;
    const ps_status status = ps_reader_create(&(ps_reader_options){.way = way}, &reader);
    if (status == PS_UNSUPPORTED) {
        print_message("skipped: %s\n", ps_error_message());
        skip();
    }
    assert_int_equal(PS_OK, status);
    ps_reader_destroy(reader);
    return way;
}

static inline uint32_t open_file(ps_reader *reader, const char *path)
{
    uint32_t number = UINT32_MAX;
    assert_int_equal(PS_OK, ps_reader_open(reader, path, &number));
    return number;
}

static inline ps_reader_info info_of(ps_reader *reader)
{
    ps_reader_info info;
    ps_reader_get_info(reader, &info);
    return info;
}

// A read with memory of its own. done_order: its place among those that are done, from 1.
typedef struct piece {
    ps_read read;
    atomic_int calls;
    int done_order;
} piece;

static atomic_int pieces_done; // set to 0 by the test

static inline void piece_done(ps_read *read)
{
    piece *p = read->context;
    p->done_order = atomic_fetch_add(&pieces_done, 1) + 1;
    (void)atomic_fetch_add(&p->calls, 1);
}

static inline void piece_init(piece *p, uint32_t file, uint64_t offset_bytes, uint64_t size_bytes)
{
    *p = (piece){.read = {.file = file,
                          .offset_bytes = offset_bytes,
                          .size_bytes = size_bytes,
                          .done = piece_done,
                          .context = p}};
    const uint64_t span = ps_read_span_bytes(&p->read);
    p->read.memory = aligned_alloc(PS_READ_ALIGN_BYTES, span);
    assert_non_null(p->read.memory);
    memset(p->read.memory, 0xee, span);
}

static inline void piece_deinit(piece *p)
{
    free(p->read.memory);
}

// Returns when `count` reads are done since the reader was made.
static inline void wait_for(ps_reader *reader, uint64_t count)
{
    for (uint64_t done = ps_reader_done_count(reader); done < count;
         done = ps_reader_done_count(reader)) {
        ps_reader_wait(reader, done);
    }
}

// The bytes of a read that went well against those that pread gives.
static inline void assert_right(const made_file *file, const ps_read *read)
{
    char *right = malloc(read->size_bytes);
    assert_non_null(right);
    assert_int_equal(read->size_bytes,
                     pread(file->descriptor, right, read->size_bytes, (off_t)read->offset_bytes));
    assert_int_equal(0, read->error);
    assert_memory_equal(right, read->memory + read->offset_bytes % PS_READ_ALIGN_BYTES,
                        read->size_bytes);
    free(right);
}

// A filter that holds the first answer back until the test opens it.
typedef struct gate {
    sem_t arrived, open;
    atomic_int answers;
} gate;

static inline void gate_init(gate *g)
{
    *g = (gate){0};
    assert_int_equal(0, sem_init(&g->arrived, 0, 0));
    assert_int_equal(0, sem_init(&g->open, 0, 0));
}

static inline int64_t gate_filter(void *context, uint32_t file, uint64_t offset_bytes,
                                  int64_t answer)
{
    (void)file;
    (void)offset_bytes;
    gate *g = context;
    if (atomic_fetch_add(&g->answers, 1) == 0) {
        (void)sem_post(&g->arrived);
        (void)sem_wait(&g->open);
    }
    return answer;
}

#endif
