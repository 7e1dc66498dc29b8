// ctest-labels: fault
// Goal: short answers are continued, a failure is tried once more and then named, nothing hangs and
// nothing is lost. Method: a filter changes chosen answers of the system, and files are cut.
#include "io/reader_test.h"

#include <errno.h>

#define FILE_BYTES ((uint64_t)300000)
#define PIECE_OFFSET_BYTES ((uint64_t)12345)
#define PIECE_BYTES ((uint64_t)100000)

// Answers by number, in order; behind the last, those of the system. 0 means the system's too.
#define ALWAYS 1000
typedef struct script {
    int64_t answers[8]; // < 0: -errno; > 0: no more than so many bytes; NOTHING: none
    int count;          // ALWAYS: the first one again and again
    atomic_int calls;
    uint64_t offsets[16];
} script;
#define NOTHING INT64_MAX

static int64_t script_filter(void *context, uint32_t file, uint64_t offset_bytes, int64_t answer)
{
    (void)file;
    script *s = context;
    const int call = atomic_fetch_add(&s->calls, 1);
    if (call < 16) {
        s->offsets[call] = offset_bytes;
    }
    const int64_t told = call < s->count ? s->answers[s->count == ALWAYS ? 0 : call] : 0;
    if (told == NOTHING) {
        return 0;
    }
    return told < 0 || (told > 0 && told < answer) ? told : answer;
}

typedef struct outcome {
    int error;
    char message[512];
    ps_reader_info info;
    uint64_t offsets[16]; // of the parts that were asked for
} outcome;

// Reads one piece under a script; an answer without an error has the right bytes.
static outcome run(ps_read_way way, bool is_buffered, script *s)
{
    made_file file = make_file(NULL, FILE_BYTES);
    ps_reader *reader = make_reader(&(ps_reader_options){
        .way = way, .is_buffered = is_buffered, .filter = script_filter, .filter_context = s});
    piece p;
    piece_init(&p, open_file(reader, file.path), PIECE_OFFSET_BYTES, PIECE_BYTES);
    ps_reader_submit(reader, &p.read);
    wait_for(reader, 1);
    outcome out = {.error = p.read.error, .info = info_of(reader)};
    memcpy(out.offsets, s->offsets, sizeof out.offsets);
    assert_int_equal(1, p.calls);
    assert_int_equal(out.error == 0 ? PS_OK : PS_IO, ps_read_status(reader, &p.read));
    if (out.error == 0) {
        assert_right(&file, &p.read);
    } else {
        char start[300];
        (void)snprintf(start, sizeof start, "%s: 100000 bytes at 12345: ", file.path);
        assert_memory_equal(start, ps_error_message(), strlen(start));
        (void)snprintf(out.message, sizeof out.message, "%s", ps_error_message() + strlen(start));
    }
    // The reader lives on, and the read may be asked for again: with a failure of its own.
    s->calls = 0;
    s->answers[0] = -EIO;
    s->count = 1;
    ps_reader_submit(reader, &p.read);
    wait_for(reader, 2);
    assert_right(&file, &p.read);
    ps_reader_destroy(reader);
    piece_deinit(&p);
    remove_file(&file);
    return out;
}

static void test_short_reads(void **state)
{
    const ps_read_way way = way_of(state);
    for (int is_buffered = 0; is_buffered < 2; is_buffered++) {
        script s = {.answers = {4096, 8192, 5000, 50000}, .count = 4};
        const outcome out = run(way, is_buffered != 0, &s);
        assert_int_equal(0, out.error);
        assert_int_equal(4, out.info.short_reads);
        assert_int_equal(0, out.info.retries);
        // The first part starts at the block of the piece, the others where the one before ended:
        // with O_DIRECT at the last whole block.
        const bool is_direct = out.info.direct_files > 0;
        const uint64_t start = PIECE_OFFSET_BYTES / 4096 * 4096;
        const uint64_t fourth = start + 4096 + 8192 + (is_direct ? 4096 : 5000);
        assert_int_equal(start, out.offsets[0]);
        assert_int_equal(start + 4096, out.offsets[1]);
        assert_int_equal(start + 4096 + 8192, out.offsets[2]);
        assert_int_equal(fourth, out.offsets[3]);
        assert_int_equal(fourth + (is_direct ? 49152 : 50000), out.offsets[4]);
    }
}

static void test_failure_once(void **state)
{
    const ps_read_way way = way_of(state);
    script eio = {.answers = {-EIO}, .count = 1};
    outcome out = run(way, false, &eio);
    assert_int_equal(0, out.error);
    assert_int_equal(1, out.info.retries);
    assert_int_equal(0, out.info.short_reads);
    assert_int_equal(out.offsets[0], out.offsets[1]);

    script later = {.answers = {8192, -EIO}, .count = 2};
    out = run(way, false, &later);
    assert_int_equal(0, out.error);
    assert_int_equal(1, out.info.retries);
    assert_int_equal(1, out.info.short_reads);
    assert_int_equal(out.offsets[1], out.offsets[2]);

    script nothing = {.answers = {NOTHING}, .count = 1};
    out = run(way, false, &nothing);
    assert_int_equal(0, out.error);
    assert_int_equal(1, out.info.retries);

    script other = {.answers = {-EINTR}, .count = 1};
    assert_int_equal(0, run(way, false, &other).error);
}

static void test_failure_twice(void **state)
{
    const ps_read_way way = way_of(state);
    script eio = {.answers = {-EIO, -EIO}, .count = 2};
    outcome out = run(way, false, &eio);
    assert_int_equal(EIO, out.error);
    assert_string_equal("Input/output error (tried twice)", out.message);
    assert_int_equal(1, out.info.failed_reads);
    assert_int_equal(1, out.info.reads);
    assert_int_equal(1, out.info.retries);

    // The second failure is the answer, wherever the first one was.
    script both = {.answers = {-EIO, 8192, -ENXIO}, .count = 3};
    out = run(way, true, &both);
    assert_int_equal(ENXIO, out.error);
    assert_string_equal("No such device or address (tried twice)", out.message);

    script nothing = {.answers = {4096, NOTHING, NOTHING}, .count = 3};
    assert_int_equal(ENODATA, run(way, false, &nothing).error);
}

// Answers that never make progress end too: with O_DIRECT less than a block does not count.
static void test_never_a_block(void **state)
{
    const ps_read_way way = way_of(state);
    script s = {.answers = {100}, .count = ALWAYS};
    const outcome out = run(way, false, &s);
    if (out.info.direct_files > 0) {
        assert_int_equal(ENODATA, out.error);
        assert_int_equal(1, out.info.retries);
    } else {
        assert_int_equal(0, out.error);
    }
    script bytes = {.answers = {100}, .count = ALWAYS};
    assert_int_equal(0, run(way, true, &bytes).error);
}

static void test_shrunk_file(void **state)
{
    const ps_read_way way = way_of(state);
    enum { BEFORE, ACROSS, BEHIND, COUNT };
    static const uint64_t OFFSETS[COUNT] = {50000, 99000, 250000};
    static const uint64_t CUTS[] = {98304, 100000};
    for (int i = 0; i < 4; i++) {
        made_file file = make_file(NULL, FILE_BYTES);
        ps_reader *reader = make_reader(
            &(ps_reader_options){.way = way, .is_buffered = i % 2 != 0});
        const uint32_t number = open_file(reader, file.path);
        assert_int_equal(0, ftruncate(file.descriptor, (off_t)CUTS[i / 2]));
        piece pieces[COUNT];
        for (int k = 0; k < COUNT; k++) {
            piece_init(&pieces[k], number, OFFSETS[k], 20000);
            ps_reader_submit(reader, &pieces[k].read);
        }
        wait_for(reader, COUNT);
        assert_right(&file, &pieces[BEFORE].read);
        assert_int_equal(ENODATA, pieces[ACROSS].read.error);
        assert_int_equal(ENODATA, pieces[BEHIND].read.error);
        ps_reader_destroy(reader);
        for (int k = 0; k < COUNT; k++) {
            piece_deinit(&pieces[k]);
        }
        remove_file(&file);
    }
}

// Bytes that were written behind an open file are no answer, though they have been read.
static void test_written_file(void **state)
{
    made_file file = make_file(NULL, FILE_BYTES);
    ps_reader *reader = make_reader(&(ps_reader_options){.way = way_of(state)});
    piece p;
    piece_init(&p, open_file(reader, file.path), PIECE_OFFSET_BYTES, PIECE_BYTES);
    ps_reader_submit(reader, &p.read);
    wait_for(reader, 1);
    assert_int_equal(PS_OK, ps_read_status(reader, &p.read));
    (void)usleep(20000); // a tick of the clock of files
    assert_int_equal(1, pwrite(file.descriptor, "", 1, PIECE_OFFSET_BYTES + 5));
    ps_reader_submit(reader, &p.read);
    wait_for(reader, 2);
    assert_int_equal(PS_IO, ps_read_status(reader, &p.read));
    assert_non_null(strstr(ps_error_message(), file.path));
    assert_non_null(strstr(ps_error_message(), ": 100000 bytes at 12345: the file has been written "
                                               "to since it was opened"));
    ps_reader_destroy(reader);
    piece_deinit(&p);
    remove_file(&file);
}

// The reason is told however long the path is.
static void test_long_path(void **state)
{
    const ps_read_way way = way_of(state);
    script s = {.answers = {-EIO, -EIO}, .count = 2};
    made_file file = make_file(NULL, FILE_BYTES);
    char path[3000] = "";
    for (int i = 0; i < 1200; i++) {
        (void)strcat(path, "/.");
    }
    (void)strcat(path, file.path);
    ps_reader *reader = make_reader(
        &(ps_reader_options){.way = way, .filter = script_filter, .filter_context = &s});
    piece p;
    piece_init(&p, open_file(reader, path), PIECE_OFFSET_BYTES, PIECE_BYTES);
    ps_reader_submit(reader, &p.read);
    wait_for(reader, 1);
    assert_int_equal(PS_IO, ps_read_status(reader, &p.read));
    assert_non_null(strstr(ps_error_message(), file.path));
    assert_non_null(
        strstr(ps_error_message(), ": 100000 bytes at 12345: Input/output error (tried"));
    ps_reader_destroy(reader);
    piece_deinit(&p);
    remove_file(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {BOTH_WAYS(test_short_reads),   BOTH_WAYS(test_failure_once),
                                       BOTH_WAYS(test_failure_twice), BOTH_WAYS(test_never_a_block),
                                       BOTH_WAYS(test_shrunk_file),   BOTH_WAYS(test_long_path),
                                       BOTH_WAYS(test_written_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
