// ctest-links: PkgConfig::JANSSON
// Goal: a trace is JSON that holds what was recorded; a full lane drops the oldest and says how
// many; a file that cannot be written leaves nothing behind.
// Method: files are read back by jansson; names are hostile.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "trace/trace.h"

#include <dirent.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const ps_trace_kind LINEAR = {"linear", "compute", {"layer", "bytes", NULL}};
static const ps_trace_kind WAIT = {"wait", "wait", {NULL}};
static const ps_trace_kind FULL = {"full", "\"quoted\"", {"a", "b", "c"}};

static char folder[] = "/tmp/prestage-trace-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "%s/out.json", mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder); // fails when something was left in it
}

static json_t *read_back(const ps_trace *trace)
{
    assert_int_equal(PS_OK, ps_trace_write(trace, path));
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        print_message("%s:%d: %s\n", path, error.line, error.text);
    }
    assert_non_null(root);
    return root;
}

static uint32_t count_phase(const json_t *root, const char *phase)
{
    uint32_t count = 0;
    size_t i;
    const json_t *event;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        count += strcmp(json_string_value(json_object_get(event, "ph")), phase) == 0;
    }
    return count;
}

// The n-th event of that phase.
static const json_t *find_phase(const json_t *root, const char *phase, uint32_t n)
{
    size_t i;
    const json_t *event;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        if (strcmp(json_string_value(json_object_get(event, "ph")), phase) == 0 && n-- == 0) {
            return event;
        }
    }
    fail();
    return NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static json_int_t argument_of(const json_t *event, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(event, "args"), key));
}

static void test_events(void **state)
{
    (void)state;
    ps_trace *trace = NULL;
    ps_trace_lane *worker = NULL;
    ps_trace_lane *stream = NULL;
    assert_int_equal(PS_OK, ps_trace_create(3, "rank 3", &trace));
    assert_int_equal(PS_OK, ps_trace_lane_add(trace, "worker 0", 100, &worker));
    assert_int_equal(PS_OK, ps_trace_lane_add(trace, "prefetch", 100, &stream));
    assert_int_equal(PS_OK, ps_trace_note(trace, "plan", "steps\n  linear \"x\"\t\\\x01 \xff"));
    ps_trace_span(worker, &LINEAR, "attn.qkv", 1234567, 1239067, (int64_t[]){7, 1 << 20});
    ps_trace_span(worker, &WAIT, NULL, 1239067, 1239066, NULL); // a clock that went back: length 0
    ps_trace_span(stream, &FULL, "x", 5, 1000000000000005, (int64_t[]){-1, INT64_MAX, INT64_MIN});
    ps_trace_span(NULL, &LINEAR, NULL, 0, 1, (int64_t[]){0, 0}); // tracing is off

    json_t *root = read_back(trace);
    assert_int_equal(3, count_phase(root, "X"));
    assert_int_equal(5, count_phase(root, "M"));
    const json_t *event = find_phase(root, "X", 0);
    assert_string_equal("linear attn.qkv", text_of(event, "name"));
    assert_string_equal("compute", text_of(event, "cat"));
    assert_int_equal(3, json_integer_value(json_object_get(event, "pid")));
    assert_int_equal(0, json_integer_value(json_object_get(event, "tid")));
    assert_true(json_real_value(json_object_get(event, "ts")) == 1234.567);
    assert_true(json_real_value(json_object_get(event, "dur")) == 4.5);
    assert_int_equal(7, argument_of(event, "layer"));
    assert_int_equal(1 << 20, argument_of(event, "bytes"));
    event = find_phase(root, "X", 1);
    assert_string_equal("wait", text_of(event, "name"));
    assert_true(json_real_value(json_object_get(event, "dur")) == 0);
    assert_int_equal(0, json_object_size(json_object_get(event, "args")));
    event = find_phase(root, "X", 2);
    assert_int_equal(1, json_integer_value(json_object_get(event, "tid")));
    assert_string_equal("\"quoted\"", text_of(event, "cat"));
    assert_true(argument_of(event, "a") == -1);
    assert_true(argument_of(event, "b") == INT64_MAX);
    assert_true(argument_of(event, "c") == INT64_MIN);
    assert_true(json_real_value(json_object_get(event, "dur")) == 1e12);
    event = find_phase(root, "M", 0);
    assert_string_equal("rank 3", text_of(json_object_get(event, "args"), "name"));
    event = find_phase(root, "M", 3);
    assert_string_equal("prefetch", text_of(json_object_get(event, "args"), "name"));
    const json_t *other = json_object_get(root, "otherData");
    assert_string_equal("steps\n  linear \"x\"\t\\\x01 ?", text_of(other, "plan"));
    assert_int_equal(0, json_integer_value(json_object_get(other, "dropped_events")));
    json_decref(root);
    ps_trace_destroy(trace);
}

// The newest events stay, in their order, for every number of them around the capacity.
static void test_overflow(void **state)
{
    (void)state;
    static const uint32_t COUNTS[] = {0, 1, 7, 8, 9, 15, 16, 17, 1000};
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        ps_trace *trace = NULL;
        ps_trace_lane *lane = NULL;
        ps_trace_lane *other = NULL;
        assert_int_equal(PS_OK, ps_trace_create(0, "p", &trace));
        assert_int_equal(PS_OK, ps_trace_lane_add(trace, "small", 5, &lane)); // holds 8
        assert_int_equal(PS_OK, ps_trace_lane_add(trace, "other", 8, &other));
        ps_trace_span(other, &WAIT, NULL, 0, 1, NULL);
        const uint32_t count = COUNTS[i];
        const uint32_t kept = count < 8 ? count : 8;
        for (uint32_t n = 0; n < count; n++) {
            ps_trace_span(lane, &LINEAR, NULL, n * 1000, n * 1000 + 500, (int64_t[]){n, 0});
        }
        assert_int_equal(count - kept, ps_trace_dropped(trace));
        json_t *root = read_back(trace);
        assert_int_equal(kept + 1, count_phase(root, "X"));
        for (uint32_t n = 0; n < kept; n++) {
            assert_int_equal(count - kept + n, argument_of(find_phase(root, "X", n), "layer"));
        }
        const json_t *data = json_object_get(root, "otherData");
        const json_t *by_lane = json_object_get(data, "dropped_events_by_lane");
        assert_int_equal(count - kept, json_integer_value(json_object_get(data, "dropped_events")));
        assert_int_equal(count > kept ? 1 : 0, json_object_size(by_lane));
        assert_int_equal(count - kept, json_integer_value(json_object_get(by_lane, "small")));
        json_decref(root);
        ps_trace_destroy(trace);
    }
}

#define THREADS 4u
#define THREAD_EVENTS 20000u

static void *record(void *argument)
{
    for (uint32_t n = 0; n < THREAD_EVENTS; n++) {
        ps_trace_span(argument, &LINEAR, "mlp.down", n, n + 1, (int64_t[]){n, 1});
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    ps_trace *trace = NULL;
    ps_trace_lane *lanes[THREADS];
    pthread_t threads[THREADS];
    assert_int_equal(PS_OK, ps_trace_create(0, "p", &trace));
    for (uint32_t i = 0; i < THREADS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "worker %u", i);
        assert_int_equal(PS_OK, ps_trace_lane_add(trace, name, 1024, &lanes[i]));
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, record, lanes[i]));
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    json_t *root = read_back(trace);
    assert_int_equal(THREADS * 1024, count_phase(root, "X"));
    assert_int_equal(THREADS * (THREAD_EVENTS - 1024), ps_trace_dropped(trace));
    json_decref(root);
    ps_trace_destroy(trace);
}

static void test_limits(void **state)
{
    (void)state;
    ps_trace *trace = NULL;
    ps_trace_lane *lane = NULL;
    assert_int_equal(PS_OK, ps_trace_create(0, "p", &trace));
    assert_int_equal(PS_INVALID, ps_trace_lane_add(trace, "x", 0, &lane));
    assert_int_equal(PS_INVALID,
                     ps_trace_lane_add(trace, "x", PS_TRACE_LANE_EVENTS_MAX + 1, &lane));
    for (uint32_t i = 0; i < PS_TRACE_LANES_MAX; i++) {
        assert_int_equal(PS_OK, ps_trace_lane_add(trace, "x", 1, &lane));
    }
    assert_int_equal(PS_EXHAUSTED, ps_trace_lane_add(trace, "x", 1, &lane));
    for (uint32_t i = 0; i < PS_TRACE_NOTES_MAX; i++) {
        assert_int_equal(PS_OK, ps_trace_note(trace, "k", "v"));
    }
    assert_int_equal(PS_EXHAUSTED, ps_trace_note(trace, "k", "v"));
    ps_trace_destroy(trace);
    ps_trace_destroy(NULL);
}

static uint32_t count_files(void)
{
    uint32_t count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *e = readdir(entries); e != NULL; e = readdir(entries)) {
        count += e->d_name[0] != '.';
    }
    (void)closedir(entries);
    return count;
}

// An old trace stays whole when a new one cannot be written, and no temporary file is left.
static void test_unwritable(void **state)
{
    (void)state;
    ps_trace *trace = NULL;
    assert_int_equal(PS_OK, ps_trace_create(0, "p", &trace));
    char elsewhere[96];
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/none/out.json", folder);
    assert_int_equal(PS_IO, ps_trace_write(trace, elsewhere));
    assert_non_null(strstr(ps_error_message(), "none/out.json"));

    (void)snprintf(elsewhere, sizeof elsewhere, "%s/taken", folder); // a folder: rename refuses
    assert_int_equal(0, mkdir(elsewhere, 0700));
    json_decref(read_back(trace));
    assert_int_equal(PS_IO, ps_trace_write(trace, elsewhere));
    assert_int_equal(2, count_files()); // out.json and the folder
    assert_int_equal(0, rmdir(elsewhere));

    // A disk that is full after some bytes.
    struct rlimit limit;
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &limit));
    const struct rlimit small = {.rlim_cur = 50, .rlim_max = limit.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &small));
    const ps_status status = ps_trace_write(trace, path);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &limit));
    assert_int_equal(PS_IO, status);
    assert_int_equal(1, count_files());
    json_t *old = json_load_file(path, 0, NULL);
    assert_non_null(old);
    json_decref(old);
    ps_trace_destroy(trace);
}

// Each is a process of the file, with its own lanes, notes and dropped events.
static void test_several(void **state)
{
    (void)state;
    static const ps_trace_kind kind = {"work", "compute", {NULL}};
    ps_trace *traces[2];
    ps_trace_lane *lane;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(PS_OK, ps_trace_create(i, i == 0 ? "left" : "right", &traces[i]));
        assert_int_equal(PS_OK, ps_trace_lane_add(traces[i], i == 0 ? "a" : "b", 2, &lane));
        assert_int_equal(PS_OK, ps_trace_note(traces[i], i == 0 ? "first" : "second", "text"));
        for (uint32_t n = 0; n < 2 + i; n++) { // one of the right is dropped
            ps_trace_span(lane, &kind, NULL, n, n + 1, NULL);
        }
    }
    assert_int_equal(PS_OK, ps_trace_write_all((const ps_trace *const *)traces, 2, path));
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    const json_t *other = json_object_get(root, "otherData");
    assert_non_null(json_object_get(other, "first"));
    assert_non_null(json_object_get(other, "second"));
    assert_int_equal(1, json_integer_value(json_object_get(other, "dropped_events")));
    assert_int_equal(1, json_object_size(json_object_get(other, "dropped_events_by_lane")));
    assert_int_equal(6, count_phase(root, "M"));
    assert_int_equal(4, count_phase(root, "X"));
    for (uint32_t n = 0; n < 4; n++) {
        const json_t *event = find_phase(root, "X", n);
        assert_int_equal(n / 2, json_integer_value(json_object_get(event, "pid")));
    }
    json_decref(root);
    ps_trace_destroy(traces[0]);
    ps_trace_destroy(traces[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),     cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_limits),
        cmocka_unit_test(test_unwritable), cmocka_unit_test(test_several),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
