// Goal: any piece of a file comes whole and right, demanded ones first, as many at a time as were
// allowed, and a reader can be destroyed at any time. Method: bytes are those of pread on another
// descriptor; a filter holds the first answer back while the test lines up what comes behind it.
#include "io/reader_test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#define FILE_BYTES ((uint64_t)1000000 + 123)

static void read_pieces(ps_read_way way, bool is_buffered)
{
    static const struct {
        uint64_t offset_bytes, size_bytes;
    } PIECES[] = {{0, 1},
                  {1, 1},
                  {4095, 1},
                  {4095, 2},
                  {4096, 4096},
                  {4097, 4096},
                  {123, 100000},
                  {65536, 65536},
                  {FILE_BYTES - 1, 1},
                  {FILE_BYTES - 5000, 5000},
                  {FILE_BYTES - 123, 100},
                  {0, FILE_BYTES}};
    enum { COUNT = sizeof PIECES / sizeof PIECES[0] };
    made_file file = make_file(NULL, FILE_BYTES);
    char *region = aligned_alloc(PS_READ_ALIGN_BYTES, 1 << 20); // for every second piece
    assert_non_null(region);
    ps_reader *reader = make_reader(&(ps_reader_options){
        .way = way, .is_buffered = is_buffered, .memory = region, .memory_bytes = 1 << 20});
    const uint32_t number = open_file(reader, file.path);
    static piece pieces[COUNT];
    char *memory = region;
    for (int i = 0; i < COUNT; i++) {
        piece_init(&pieces[i], number, PIECES[i].offset_bytes, PIECES[i].size_bytes);
        if (i % 2 == 0) {
            free(pieces[i].read.memory);
            pieces[i].read.memory = memory;
            memory += ps_read_span_bytes(&pieces[i].read);
        }
        ps_reader_submit(reader, &pieces[i].read);
    }
    assert_true(memory <= region + (1 << 20));
    wait_for(reader, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(1, pieces[i].calls);
        assert_int_equal(PS_OK, ps_read_status(reader, &pieces[i].read));
        assert_right(&file, &pieces[i].read);
        if (i % 2 != 0) {
            piece_deinit(&pieces[i]);
        }
    }
    ps_reader_info info = info_of(reader);
    assert_int_equal(way, info.way);
    assert_int_equal(16, info.depth);
    assert_int_equal(COUNT, info.reads);
    assert_int_equal(0, info.failed_reads);
    assert_true(info.bytes > FILE_BYTES);
    assert_true(info.busy_ns > 0 && info.demanded_ns >= info.busy_ns);
    ps_reader_destroy(reader);
    free(region);
    remove_file(&file);
}

static void test_pieces(void **state)
{
    const ps_read_way way = way_of(state);
    read_pieces(way, false);
    read_pieces(way, true);
}

static void test_past_end(void **state)
{
    const ps_read_way way = way_of(state);
    static const uint64_t OFFSETS[] = {FILE_BYTES - 10, FILE_BYTES, FILE_BYTES + 4096,
                                       (uint64_t)1 << 40};
    made_file file = make_file(NULL, FILE_BYTES);
    for (int i = 0; i < 8; i++) {
        ps_reader *reader = make_reader(
            &(ps_reader_options){.way = way, .is_buffered = i % 2 != 0});
        piece p;
        piece_init(&p, open_file(reader, file.path), OFFSETS[i / 2], 11);
        ps_reader_submit(reader, &p.read);
        wait_for(reader, 1);
        assert_int_equal(ENODATA, p.read.error);
        assert_int_equal(1, p.calls);
        assert_int_equal(PS_IO, ps_read_status(reader, &p.read));
        char message[512];
        (void)snprintf(message, sizeof message,
                       "%s: 11 bytes at %" PRIu64 ": the file ends before them (tried twice)",
                       file.path, OFFSETS[i / 2]);
        assert_string_equal(message, ps_error_message());
        assert_int_equal(1, info_of(reader).failed_reads);
        ps_reader_destroy(reader);
        piece_deinit(&p);
    }
    remove_file(&file);
}

static void assert_open_fails(ps_reader *reader, const char *path, ps_status status)
{
    uint32_t number = 77;
    assert_int_equal(status, ps_reader_open(reader, path, &number));
    assert_int_equal(77, number);
    assert_non_null(strstr(ps_error_message(), path));
}

static void test_open_refused(void **state)
{
    const ps_read_way way = way_of(state);
    ps_reader *reader = make_reader(&(ps_reader_options){.way = way});
    made_file file = make_file(NULL, 1);
    assert_open_fails(reader, "/no/such/file", PS_NOT_FOUND);
    assert_open_fails(reader, "/dev/null", PS_INVALID);
    assert_open_fails(reader, "/", PS_INVALID);
    char fifo[300];
    (void)snprintf(fifo, sizeof fifo, "%s.fifo", file.path);
    assert_int_equal(0, mkfifo(fifo, 0600));
    assert_open_fails(reader, fifo, PS_INVALID);
    assert_int_equal(0, unlink(fifo));
    assert_int_equal(0, info_of(reader).files);

    // Whether O_DIRECT is used is what the file system says to others.
    const int direct = open(file.path, O_RDONLY | O_DIRECT);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(i, open_file(reader, file.path));
    }
    assert_int_equal(3, info_of(reader).files);
    assert_int_equal(direct >= 0 ? 3 : 0, info_of(reader).direct_files);
    if (direct >= 0) {
        assert_int_equal(0, close(direct));
    }
    ps_reader_destroy(reader);
    remove_file(&file);
}

static void test_too_many_files(void **state)
{
    (void)state;
    made_file file = make_file(NULL, 1);
    ps_reader *reader = make_reader(&(ps_reader_options){.depth = 1});
    ps_status status = PS_OK;
    for (uint32_t i = 0; status == PS_OK && i <= PS_READER_FILES_MAX; i++) {
        uint32_t number;
        status = ps_reader_open(reader, file.path, &number);
    }
    // The system may have a smaller limit.
    assert_true(status == PS_EXHAUSTED || status == PS_IO);
    assert_non_null(strstr(ps_error_message(), file.path));
    ps_reader_destroy(reader);
    remove_file(&file);
}

static void test_demanded_first(void **state)
{
    const ps_read_way way = way_of(state);
    enum { FIRST, SPECULATIVE_A, SPECULATIVE_B, GONE, GONE_TOO, DEMANDED_A, DEMANDED_B, COUNT };
    made_file file = make_file(NULL, FILE_BYTES);
    gate g;
    gate_init(&g);
    ps_reader *reader = make_reader(
        &(ps_reader_options){.way = way, .depth = 1, .filter = gate_filter, .filter_context = &g});
    const uint32_t number = open_file(reader, file.path);
    piece pieces[COUNT];
    atomic_store(&pieces_done, 0);
    for (int i = 0; i < COUNT; i++) {
        piece_init(&pieces[i], number, (uint64_t)i * 7777, 5000);
        pieces[i].read.is_speculative = i < DEMANDED_A && i != GONE_TOO;
        ps_reader_submit(reader, &pieces[i].read);
        if (i == FIRST) {
            assert_int_equal(0, sem_wait(&g.arrived));
        }
    }
    assert_false(ps_reader_withdraw(reader, &pieces[FIRST].read));
    assert_true(ps_reader_withdraw(reader, &pieces[GONE].read));
    assert_false(ps_reader_withdraw(reader, &pieces[GONE].read));
    assert_false(ps_reader_promote(reader, &pieces[GONE].read));
    assert_true(ps_reader_withdraw(reader, &pieces[GONE_TOO].read));
    assert_true(ps_reader_promote(reader, &pieces[SPECULATIVE_B].read));
    assert_false(ps_reader_promote(reader, &pieces[FIRST].read));
    assert_int_equal(0, sem_post(&g.open));
    wait_for(reader, COUNT - 2);
    static const int ORDER[] = {FIRST, DEMANDED_A, DEMANDED_B, SPECULATIVE_B, SPECULATIVE_A};
    for (int i = 0; i < COUNT - 2; i++) {
        assert_int_equal(i + 1, pieces[ORDER[i]].done_order);
        assert_int_equal(1, pieces[ORDER[i]].calls);
        assert_right(&file, &pieces[ORDER[i]].read);
    }
    assert_int_equal(0, pieces[GONE].calls + pieces[GONE_TOO].calls);
    assert_false(ps_reader_withdraw(reader, &pieces[FIRST].read));
    assert_int_equal(COUNT - 2, info_of(reader).reads);
    assert_int_equal(1, info_of(reader).under_way_max);
    // What was withdrawn can be asked for again.
    ps_reader_submit(reader, &pieces[GONE].read);
    wait_for(reader, COUNT - 1);
    assert_right(&file, &pieces[GONE].read);
    // Nothing is wanted any more, so its clock stands.
    const uint64_t demanded_ns = info_of(reader).demanded_ns;
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    assert_true(info_of(reader).demanded_ns == demanded_ns);
    ps_reader_destroy(reader);
    for (int i = 0; i < COUNT; i++) {
        piece_deinit(&pieces[i]);
    }
    remove_file(&file);
}

// `count` reads come behind one that is held back: as many of them as the depth allows must be with
// the system at a time, however few they are.
static void expect_under_way(ps_read_way way, uint32_t depth, int count, uint32_t expected)
{
    made_file file = make_file(NULL, FILE_BYTES);
    gate g;
    gate_init(&g);
    ps_reader *reader = make_reader(&(ps_reader_options){
        .way = way, .depth = depth, .filter = gate_filter, .filter_context = &g});
    const uint32_t number = open_file(reader, file.path);
    static piece pieces[64];
    for (int i = 0; i <= count; i++) {
        piece_init(&pieces[i], number, (uint64_t)i * 9999, 8888);
        ps_reader_submit(reader, &pieces[i].read);
        if (i == 0) {
            assert_int_equal(0, sem_wait(&g.arrived));
        }
    }
    assert_int_equal(0, sem_post(&g.open));
    wait_for(reader, (uint64_t)count + 1);
    const uint32_t seen = info_of(reader).under_way_max;
    assert_true(seen <= depth);
    assert_true(seen >= expected);
    ps_reader_destroy(reader);
    for (int i = 0; i <= count; i++) {
        assert_right(&file, &pieces[i].read);
        piece_deinit(&pieces[i]);
    }
    remove_file(&file);
}

// With io_uring nothing is started while its thread is held back, so all that waits starts at once.
// In a pool others may be through before the gate opens.
static void test_partial_batches(void **state)
{
    const ps_read_way way = way_of(state);
    const bool is_uring = way == PS_READ_URING;
    expect_under_way(way, 1, 5, 1);
    expect_under_way(way, 16, 2, is_uring ? 2 : 1);
    expect_under_way(way, 16, 15, is_uring ? 15 : 1);
    expect_under_way(way, 4, 40, is_uring ? 4 : 2);
    expect_under_way(way, 32, 33, is_uring ? 32 : 2);
}

// A filter in which all reads of a batch must meet: it returns only if they are under way together.
typedef struct meeting {
    pthread_barrier_t barrier;
} meeting;

static int64_t meeting_filter(void *context, uint32_t file, uint64_t offset_bytes, int64_t answer)
{
    (void)file;
    (void)offset_bytes;
    meeting *m = context;
    (void)pthread_barrier_wait(&m->barrier);
    return answer;
}

static void test_pool_is_parallel(void **state)
{
    (void)state;
    enum { COUNT = 7 };
    made_file file = make_file(NULL, FILE_BYTES);
    meeting m;
    assert_int_equal(0, pthread_barrier_init(&m.barrier, NULL, COUNT));
    ps_reader *reader = make_reader(&(ps_reader_options){
        .way = PS_READ_POOL, .depth = COUNT, .filter = meeting_filter, .filter_context = &m});
    const uint32_t number = open_file(reader, file.path);
    piece pieces[COUNT];
    for (int i = 0; i < COUNT; i++) {
        piece_init(&pieces[i], number, (uint64_t)i * 9999, 8888);
        ps_reader_submit(reader, &pieces[i].read);
    }
    wait_for(reader, COUNT);
    assert_int_equal(COUNT, info_of(reader).under_way_max);
    ps_reader_destroy(reader);
    assert_int_equal(0, pthread_barrier_destroy(&m.barrier));
    for (int i = 0; i < COUNT; i++) {
        piece_deinit(&pieces[i]);
    }
    remove_file(&file);
}

static void *open_later(void *argument)
{
    gate *g = argument;
    (void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    (void)sem_post(&g->open);
    return NULL;
}

static void test_destroy_under_way(void **state)
{
    const ps_read_way way = way_of(state);
    enum { COUNT = 5 };
    made_file file = make_file(NULL, FILE_BYTES);
    gate g;
    gate_init(&g);
    ps_reader *reader = make_reader(
        &(ps_reader_options){.way = way, .depth = 1, .filter = gate_filter, .filter_context = &g});
    const uint32_t number = open_file(reader, file.path);
    piece pieces[COUNT];
    for (int i = 0; i < COUNT; i++) {
        piece_init(&pieces[i], number, (uint64_t)i * 9999, 8888);
        pieces[i].read.is_speculative = i > 2;
        ps_reader_submit(reader, &pieces[i].read);
        if (i == 0) {
            assert_int_equal(0, sem_wait(&g.arrived));
        }
    }
    pthread_t opener;
    assert_int_equal(0, pthread_create(&opener, NULL, open_later, &g));
    ps_reader_destroy(reader);
    assert_int_equal(1, pieces[0].calls);
    assert_right(&file, &pieces[0].read);
    for (int i = 1; i < COUNT; i++) {
        assert_int_equal(0, pieces[i].calls);
    }
    assert_int_equal(0, pthread_join(opener, NULL));
    // Dropped reads are at rest, so another reader takes them; and it may go at any moment.
    for (int round = 0; round < 50; round++) {
        reader = make_reader(&(ps_reader_options){.way = way, .depth = 3});
        assert_int_equal(number, open_file(reader, file.path));
        for (int i = 0; i < COUNT; i++) {
            ps_reader_submit(reader, &pieces[i].read);
        }
        ps_reader_destroy(reader);
        for (int i = 0; i < COUNT; i++) {
            assert_true(pieces[i].calls <= round + 2);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        piece_deinit(&pieces[i]);
    }
    remove_file(&file);
}

typedef struct chain {
    ps_read read;
    ps_reader *reader;
    int left;
} chain;

static void chain_done(ps_read *read)
{
    chain *c = read->context;
    if (--c->left > 0) {
        read->offset_bytes += 101;
        ps_reader_submit(c->reader, read);
    }
}

// `done` may ask for the same read again.
static void test_submit_from_done(void **state)
{
    const ps_read_way way = way_of(state);
    made_file file = make_file(NULL, FILE_BYTES);
    static _Alignas(PS_READ_ALIGN_BYTES) char memory[2 * PS_READ_ALIGN_BYTES];
    ps_reader *reader = make_reader(&(ps_reader_options){.way = way, .depth = 2});
    chain c = {.read = {.file = open_file(reader, file.path),
                        .size_bytes = 300,
                        .memory = memory,
                        .done = chain_done,
                        .context = &c},
               .reader = reader,
               .left = 500};
    ps_reader_submit(reader, &c.read);
    wait_for(reader, 500);
    assert_int_equal(0, c.left);
    assert_right(&file, &c.read);
    ps_reader_destroy(reader);
    remove_file(&file);
}

static void test_options(void **state)
{
    (void)state;
    ps_reader *reader = NULL;
    assert_int_equal(
        PS_INVALID,
        ps_reader_create(&(ps_reader_options){.depth = PS_READ_DEPTH_MAX + 1}, &reader));
    assert_null(reader);
    ps_reader_destroy(NULL);
    assert_string_equal("io_uring", ps_read_way_name(PS_READ_URING));
    assert_string_equal("pool", ps_read_way_name(PS_READ_POOL));
    reader = make_reader(&(ps_reader_options){.depth = PS_READ_DEPTH_MAX});
    assert_int_equal(PS_READ_DEPTH_MAX, info_of(reader).depth);
    ps_reader_destroy(reader);
    assert_int_equal(3 * 4096,
                     ps_read_span_bytes(&(ps_read){.offset_bytes = 4095, .size_bytes = 4098}));
    assert_int_equal(4096, ps_read_span_bytes(&(ps_read){.offset_bytes = 8192, .size_bytes = 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {BOTH_WAYS(test_pieces),
                                       BOTH_WAYS(test_past_end),
                                       BOTH_WAYS(test_open_refused),
                                       cmocka_unit_test(test_too_many_files),
                                       BOTH_WAYS(test_demanded_first),
                                       BOTH_WAYS(test_partial_batches),
                                       cmocka_unit_test(test_pool_is_parallel),
                                       BOTH_WAYS(test_destroy_under_way),
                                       BOTH_WAYS(test_submit_from_done),
                                       cmocka_unit_test(test_options)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
