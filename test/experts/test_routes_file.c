// ctest-labels: unit;prop
// Goal: a route log gives back what was written, in whatever calls, and nothing else: every cut and
// every changed byte is refused, with the file's name.
// Method: random calls, some of the same rows, into a file and back; each length below the whole;
// each byte flipped.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "experts/routes_file.h"
#include "gen.h"

#include <string.h>
#include <unistd.h>

#define ROWS_MAX 40
#define TOP_K 4

static const ps_routes_shape SHAPE = {
    .fingerprint = 0x0123456789abcdefu, .layers = 5, .experts = 300, .top_k = TOP_K};

typedef struct made_call {
    ps_routes_call call;
    ps_routes_row rows[ROWS_MAX];
    uint16_t ids[ROWS_MAX * TOP_K];
} made_call;

static void make_call(ps_gen *gen, made_call *out)
{
    const bool is_same = out->call.rows > 0 && ps_gen_range(gen, 0, 2) > 0;
    const uint32_t rows = is_same ? out->call.rows : (uint32_t)ps_gen_range(gen, 1, ROWS_MAX);
    for (uint32_t i = 0; i < rows && !is_same; i++) {
        out->rows[i] = (ps_routes_row){.sequence = (uint16_t)ps_gen_range(gen, 0, UINT16_MAX),
                                       .phase = (uint16_t)ps_gen_range(gen, 0, 1),
                                       .position = (uint32_t)ps_gen_next(gen)};
    }
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t first = (uint32_t)ps_gen_range(gen, 0, SHAPE.experts - 1);
        for (uint32_t j = 0; j < TOP_K; j++) {
            out->ids[i * TOP_K + j] = (uint16_t)((first + 7 * j) % SHAPE.experts);
        }
    }
    out->call = (ps_routes_call){.layer = (uint32_t)ps_gen_range(gen, 0, SHAPE.layers - 1),
                                 .rows = rows,
                                 .row = out->rows,
                                 .ids = out->ids};
}

static void path_of(char *path, size_t bytes)
{
    (void)snprintf(path, bytes, "/tmp/test_routes_file.%d", (int)getpid());
}

static void write_calls(const char *path, uint64_t seed, uint32_t count)
{
    ps_gen gen = {.state = seed};
    ps_routes_writer *writer = NULL;
    assert_int_equal(PS_OK, ps_routes_writer_create(path, &SHAPE, &writer));
    made_call made = {0};
    for (uint32_t i = 0; i < count; i++) {
        make_call(&gen, &made);
        ps_routes_writer_add(writer, &made.call);
    }
    assert_int_equal(PS_OK, ps_routes_writer_finish(writer));
}

static void expect_calls(ps_routes_reader *reader, uint64_t seed, uint32_t count)
{
    ps_gen gen = {.state = seed};
    made_call made = {0};
    bool is_end = true;
    for (uint32_t i = 0; i < count; i++) {
        ps_routes_call call = {0};
        make_call(&gen, &made);
        assert_int_equal(PS_OK, ps_routes_reader_next(reader, &call, &is_end));
        assert_false(is_end);
        assert_int_equal(made.call.layer, call.layer);
        assert_int_equal(made.call.rows, call.rows);
        assert_memory_equal(made.rows, call.row, call.rows * sizeof *call.row);
        assert_memory_equal(made.ids, call.ids, call.rows * TOP_K * sizeof *call.ids);
    }
    for (int i = 0; i < 2; i++) { // the end stays
        ps_routes_call call;
        assert_int_equal(PS_OK, ps_routes_reader_next(reader, &call, &is_end));
        assert_true(is_end);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    char path[64];
    path_of(path, sizeof path);
    static const uint32_t COUNTS[] = {0, 1, 40, 12000}; // the last one in many blocks
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        const uint64_t seed = ps_gen_next(&gen);
        write_calls(path, seed, COUNTS[i]);
        ps_routes_reader *reader = NULL;
        assert_int_equal(PS_OK, ps_routes_reader_open(path, &reader));
        assert_memory_equal(&SHAPE, ps_routes_reader_shape(reader), sizeof SHAPE);
        expect_calls(reader, seed, COUNTS[i]);
        assert_int_equal(PS_OK, ps_routes_reader_rewind(reader));
        expect_calls(reader, seed, COUNTS[i]);
        ps_routes_reader_close(reader);
    }
    assert_int_equal(0, unlink(path));
}

// Reads bytes [size] to their end or the first complaint.
static ps_status read_all(char *bytes, size_t size)
{
    ps_routes_reader *reader = NULL;
    FILE *stream = fmemopen(bytes, size, "r");
    assert_non_null(stream);
    ps_status status = ps_routes_reader_open_stream(stream, "a.routes", &reader);
    bool is_end = false;
    while (status == PS_OK && !is_end) {
        ps_routes_call call;
        status = ps_routes_reader_next(reader, &call, &is_end);
    }
    ps_routes_reader_close(reader);
    return status;
}

static void expect_refused(char *bytes, size_t size, size_t at)
{
    const ps_status status = read_all(bytes, size);
    if (status != PS_INVALID || strncmp(ps_error_message(), "a.routes: ", 10) != 0) {
        fail_msg("byte %zu: status %d, %s", at, (int)status, ps_error_message());
    }
}

static void test_damage(void **state)
{
    (void)state;
    char path[64];
    char bytes[4096];
    path_of(path, sizeof path);
    write_calls(path, 77, 10);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(0, fclose(file));
    assert_in_range(size, 300, sizeof bytes - 1);
    assert_int_equal(PS_OK, read_all(bytes, size));
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        expect_refused(bytes, size, i);
        bytes[i] ^= 0x10;
    }
    for (size_t i = 1; i < size; i++) {
        expect_refused(bytes, i, i);
    }
    bytes[size] = 0;
    expect_refused(bytes, size + 1, size);
    assert_int_equal(0, unlink(path));
}

static void test_messages(void **state)
{
    (void)state;
    ps_routes_reader *reader = NULL;
    ps_routes_writer *writer = NULL;
    assert_int_equal(PS_NOT_FOUND, ps_routes_reader_open("/tmp/there.is.none", &reader));
    assert_int_equal(PS_INVALID, ps_routes_reader_open("/tmp", &reader));
    assert_int_equal(PS_INVALID, ps_routes_reader_open("/dev/null", &reader));
    assert_int_equal(PS_INVALID, ps_routes_writer_create("/dev/null", &SHAPE, &writer));
    assert_int_equal(PS_IO, ps_routes_writer_create("/no/such/folder/x", &SHAPE, &writer));
    ps_routes_shape shape = SHAPE;
    shape.top_k = shape.experts + 1;
    assert_int_equal(PS_INVALID, ps_routes_writer_create("/tmp/x", &shape, &writer));
    assert_string_equal("301 experts a row: 1 to 64 would be right", ps_error_message());
}

static void test_leaves_nothing(void **state)
{
    (void)state;
    char path[64];
    path_of(path, sizeof path);
    write_calls(path, 5, 3);
    ps_routes_writer *writer = NULL;
    assert_int_equal(PS_OK, ps_routes_writer_create(path, &SHAPE, &writer));
    ps_routes_writer_abandon(writer);
    ps_routes_reader *reader = NULL;
    assert_int_equal(PS_OK, ps_routes_reader_open(path, &reader)); // the old one
    expect_calls(reader, 5, 3);
    ps_routes_reader_close(reader);
    assert_int_equal(0, unlink(path));
    char temporary[96];
    (void)snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid());
    assert_int_equal(-1, access(temporary, F_OK));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
