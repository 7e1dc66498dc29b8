// ctest-labels: unit;prop
//
// Goal: rows do not depend on the number of threads or on what was played before; a point that
// cannot be is a row with an error; the first failure is the one that is told; a search finds the
// best of a function that is known.
// Method: players that compute closed forms.
#include "explore_test.h"

#include "cli/explore_run.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define START "'title': 't', 'machine': 'm', 'model': 'x', "

static const ps_machine MACHINE = {.threads = 1, .read_gbs = 5};

// A time that every field has a part in. Batches of 7 cannot be.
static ps_status play(void *context, const ps_explore_point *point, ps_arena *arena,
                      ps_design_point *out)
{
    const ps_status *fails = context; // of batches of 11 and more
    void *scratch = ps_arena_alloc(arena, 1, 100000);
    *out = (ps_design_point){.step_ns = point->machine.read_gbs * 1000 + point->workload.batch,
                             .total_ns = point->workload.prefetch == PS_PREFETCH_OFF ? 300 : 100};
    if (point->workload.batch >= 11 && fails != NULL) {
        return ps_fail(*fails, "batch %u fails", point->workload.batch);
    }
    return scratch == NULL              ? PS_NO_MEMORY
           : point->workload.batch == 7 ? ps_fail(PS_UNSUPPORTED, "a batch of 7")
                                        : PS_OK;
}

static const char *const SWEEP =
    "{" START "'workload': {'prefetch': 'preserve'}, 'baseline': {'workload.prefetch': 'off'},"
    " 'sweep': [{'field': 'machine.read_gbs', 'from': 1, 'to': 20, 'step': 1},"
    " {'field': 'workload.batch', 'from': 1, 'to': 20, 'step': 1}]}";

static ps_explore_job job_of(const read_spec *r, ps_status *fails, uint32_t threads)
{
    return (ps_explore_job){.spec = &r->spec,
                            .fields = &r->fields,
                            .machines = &MACHINE,
                            .player = {fails, play},
                            .threads = threads};
}

static void test_threads_change_nothing(void **state)
{
    (void)state;
    read_spec r;
    assert_int_equal(PS_OK, read_text(&r, SWEEP));
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        ps_explore_rows rows;
        const ps_explore_job job = job_of(&r, NULL, threads);
        assert_int_equal(PS_OK, ps_explore_rows_make(&r.spec, &rows));
        assert_int_equal(PS_OK, ps_explore_run(&job, &rows));
        for (uint32_t row = 0; row < 400; row++) {
            const ps_result_cell *cells = rows.cells + row * rows.column_count;
            const double step = cells[column(&r, "step_ns")].number;
            const double speedup = cells[column(&r, "speedup")].number;
            const char *error = cells[column(&r, "error")].text;
            assert_true(rows.is_done[row]);
            if (row % 20 + 1 == 7) {
                assert_true(isnan(step) && isnan(speedup));
                assert_string_equal("a batch of 7", error);
            } else {
                assert_true(step == (row / 20 + 1) * 1000 + row % 20 + 1 && speedup == 3);
                assert_null(error);
            }
        }
        ps_explore_rows_free(&rows);
    }
    close_spec(&r);
}

static void test_the_first_failure_is_told(void **state)
{
    (void)state;
    read_spec r;
    assert_int_equal(PS_OK, read_text(&r, SWEEP));
    ps_status fails = PS_INVALID;
    for (uint32_t threads = 1; threads <= 8; threads *= 8) {
        ps_explore_rows rows;
        const ps_explore_job job = job_of(&r, &fails, threads);
        assert_int_equal(PS_OK, ps_explore_rows_make(&r.spec, &rows));
        assert_int_equal(PS_INVALID, ps_explore_run(&job, &rows));
        assert_non_null(strstr(ps_error_message(),
                               "machine.read_gbs=1, workload.batch=11: batch 11 "
                               "fails"));
        ps_explore_rows_free(&rows);
    }
    close_spec(&r);
}

static void test_cancelled(void **state)
{
    (void)state;
    read_spec r;
    ps_explore_rows rows;
    volatile bool cancel = true;
    assert_int_equal(PS_OK, read_text(&r, SWEEP));
    ps_explore_job job = job_of(&r, NULL, 2);
    job.cancel = &cancel;
    assert_int_equal(PS_OK, ps_explore_rows_make(&r.spec, &rows));
    assert_int_equal(PS_CANCELLED, ps_explore_run(&job, &rows));
    cancel = false;
    assert_int_equal(PS_OK, ps_explore_run(&job, &rows));
    assert_int_equal(PS_OK, ps_explore_run(&job, &rows)); // nothing is left
    ps_explore_rows_free(&rows);
    close_spec(&r);
}

// ---- search

// Highest at a read of 40 GB/s and a batch of 100, whatever the others are.
static ps_status play_hill(void *context, const ps_explore_point *point, ps_arena *arena,
                           ps_design_point *out)
{
    uint32_t *played = context;
    const double x = log(point->machine.read_gbs / 40);
    const double y = (point->workload.batch - 100.0) / 100;
    *played += 1;
    *out = (ps_design_point){.tokens_per_s = 1000 - 10 * x * x - 10 * y * y - x * y,
                             .fits = point->workload.batch <= 60};
    return point->machine.read_gbs > 900   ? ps_fail(PS_UNSUPPORTED, "too fast")
           : point->machine.read_gbs < 1.2 ? ps_fail(PS_INVALID, "too slow")
                                           : PS_OK;
}

static void search(const char *more, uint32_t *played, double *gbs, double *batch, double *best)
{
    read_spec r;
    ps_explore_rows rows;
    char text[800];
    (void)snprintf(text, sizeof text,
                   "{" START "'search': {'maximise': 'tokens_per_s', 'points': 400, 'over': ["
                   "{'field': 'machine.read_gbs', 'from': 1, 'to': 1000, 'scale': 'log'},"
                   "{'field': 'workload.batch', 'from': 1, 'to': 512}] %s}}",
                   more);
    assert_int_equal(PS_OK, read_text(&r, text));
    const ps_explore_job job = {.spec = &r.spec,
                                .fields = &r.fields,
                                .machines = &MACHINE,
                                .player = {played, play_hill},
                                .threads = 1};
    *played = 0;
    assert_int_equal(PS_OK, ps_explore_rows_make(&r.spec, &rows));
    assert_int_equal(PS_OK, ps_explore_run(&job, &rows));
    *gbs = rows.cells[column(&r, "machine.read_gbs")].number;
    *batch = rows.cells[column(&r, "workload.batch")].number;
    *best = rows.cells[column(&r, "tokens_per_s")].number;
    ps_explore_rows_free(&rows);
    close_spec(&r);
}

static void test_search_finds_the_top(void **state)
{
    (void)state;
    uint32_t played;
    double gbs, batch, best;
    search("", &played, &gbs, &batch, &best);
    assert_true(played <= 400);
    assert_true(best > 999.999 && best <= 1000);
    assert_true(fabs(gbs - 40) < 1 && fabs(batch - 100) <= 1);
    double again[3];
    search("", &played, &again[0], &again[1], &again[2]);
    assert_true(again[0] == gbs && again[1] == batch && again[2] == best);
    search(", 'seed': 2", &played, &again[0], &again[1], &again[2]);
    assert_true(again[0] != gbs && again[2] > 999.999);
}

static void test_search_keeps_conditions(void **state)
{
    (void)state;
    uint32_t played;
    double gbs, batch, best;
    search(", 'where': {'fits': 1}", &played, &gbs, &batch, &best);
    assert_true(batch == 60 || batch == 59 || batch == 58);
    assert_true(best > 998 && best < 999);
}

static void test_search_without_any_point(void **state)
{
    (void)state;
    read_spec r;
    ps_explore_rows rows;
    uint32_t played = 0;
    assert_int_equal(PS_OK,
                     read_text(&r, "{" START "'search': {'minimise': 'tokens_per_s', 'points': 10,"
                                   " 'where': {'fits': 5}, 'over':"
                                   " [{'field': 'workload.batch', 'from': 1, 'to': 9}]}}"));
    const ps_explore_job job = {.spec = &r.spec,
                                .fields = &r.fields,
                                .machines = &MACHINE,
                                .player = {&played, play_hill},
                                .threads = 1};
    assert_int_equal(PS_OK, ps_explore_rows_make(&r.spec, &rows));
    assert_int_equal(PS_OK, ps_explore_run(&job, &rows));
    assert_non_null(rows.cells[column(&r, "error")].text);
    assert_true(isnan(rows.cells[column(&r, "tokens_per_s")].number));
    assert_true(isnan(rows.cells[column(&r, "workload.batch")].number));
    ps_explore_rows_free(&rows);
    close_spec(&r);
}

// ---- journal

typedef struct taken {
    uint32_t count;
    double sums[3];
    char error[64];
} taken;

static ps_status take(void *context, uint32_t spec, uint32_t row, const json_t *numbers,
                      const char *error)
{
    taken *t = context;
    t->count++;
    if (error != NULL) {
        (void)snprintf(t->error, sizeof t->error, "%u %u %s", spec, row, error);
        return PS_OK;
    }
    assert_true(json_is_null(json_array_get(numbers, 1)));
    t->sums[0] += json_number_value(json_array_get(numbers, 0));
    return row == 99 ? ps_fail(PS_INVALID, "no such row") : PS_OK;
}

static void test_journal(void **state)
{
    (void)state;
    char path[] = "/tmp/ps_journal_XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    (void)close(descriptor);
    taken t = {0};
    const ps_explore_journal_reader reader = {&t, take};
    ps_explore_journal journal;
    const ps_result_cell good[] = {{.number = 0.1}, {.number = NAN}, {.text = NULL}};
    const ps_result_cell bad[] = {{.number = 1}, {.number = 2}, {.text = "a \"quoted\" \xff"}};
    assert_int_equal(PS_OK, ps_explore_journal_create(path, 5, &journal));
    assert_int_equal(PS_OK, ps_explore_journal_add(&journal, 0, 3, good, 3));
    assert_int_equal(PS_OK, ps_explore_journal_add(&journal, 2, 4, bad, 3));
    (void)fputs("[0,5,[1", journal.file); // a run that is killed
    ps_explore_journal_close(&journal, false);
    assert_int_equal(PS_INVALID, ps_explore_journal_resume(path, 6, &reader, &journal));
    assert_non_null(strstr(ps_error_message(), "--force"));
    assert_int_equal(PS_OK, ps_explore_journal_resume(path, 5, &reader, &journal));
    assert_int_equal(2, t.count);
    assert_true(t.sums[0] == 0.1);
    assert_string_equal("2 4 a \"quoted\" \xef\xbf\xbd", t.error);
    assert_int_equal(PS_OK, ps_explore_journal_add(&journal, 0, 5, good, 3)); // behind whole lines
    ps_explore_journal_close(&journal, false);
    t = (taken){0};
    assert_int_equal(PS_OK, ps_explore_journal_resume(path, 5, &reader, &journal));
    assert_int_equal(3, t.count);
    (void)fputs("[0,99,[1,null]]\n", journal.file);
    ps_explore_journal_close(&journal, false);
    assert_int_equal(PS_INVALID, ps_explore_journal_resume(path, 5, &reader, &journal));
    assert_non_null(strstr(ps_error_message(), "line 5"));
    assert_int_equal(PS_OK, ps_explore_journal_create(path, 5, &journal));
    ps_explore_journal_close(&journal, true);
    assert_int_equal(PS_NOT_FOUND, ps_explore_journal_resume(path, 5, &reader, &journal));
}

// Two runs with the same -o.
static void test_one_run_writes_a_journal(void **state)
{
    (void)state;
    char path[] = "/tmp/ps_journal_XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    (void)close(descriptor);
    taken t = {0};
    const ps_explore_journal_reader reader = {&t, take};
    const ps_result_cell cells[] = {{.number = 0.5}, {.number = NAN}, {.text = NULL}};
    ps_explore_journal first;
    ps_explore_journal second = {0};
    assert_int_equal(PS_OK, ps_explore_journal_create(path, 5, &first));
    assert_int_equal(PS_OK, ps_explore_journal_add(&first, 0, 3, cells, 3));
    assert_int_equal(PS_INVALID, ps_explore_journal_create(path, 5, &second));
    assert_non_null(strstr(ps_error_message(), "another run"));
    assert_int_equal(PS_INVALID, ps_explore_journal_resume(path, 5, &reader, &second));
    assert_null(second.file);
    assert_int_equal(PS_OK, ps_explore_journal_add(&first, 0, 4, cells, 3));
    ps_explore_journal_close(&first, false);
    assert_int_equal(PS_OK, ps_explore_journal_resume(path, 5, &reader, &second));
    assert_int_equal(2, t.count);
    ps_explore_journal_close(&second, true);
}

// Nothing is left to be closed.
static void test_a_disk_that_is_full(void **state)
{
    (void)state;
    ps_explore_journal journal = {0};
    assert_int_equal(PS_IO, ps_explore_journal_create("/dev/full", 5, &journal));
    assert_null(journal.file);
}

// A contradiction in the last row is told before the first one is played.
static void test_rows_are_checked_before(void **state)
{
    (void)state;
    static const char *const SPECS[][2] = {
        {"{" START "'workload': {'context_tokens': 64}, 'sweep': [{'field':"
         " 'workload.prompt_tokens', 'values': [1, 63, 64]}]}",
         "workload.prompt_tokens=64: prompt_tokens is 64"},
        {"{" START "'workload': {'context_tokens': 64}, 'baseline': {'workload.prompt_tokens': 65},"
         " 'sweep': [{'field': 'workload.batch', 'values': [1, 2]}]}",
         "workload.batch=1: baseline: prompt_tokens is 65"},
        {"{" START "'sweep': [{'field': 'machine.server_ranks', 'values': [8]}]}",
         "machine.server_ranks=8: server_ranks without server_comm_gbs"},
    };
    for (size_t i = 0; i < sizeof SPECS / sizeof SPECS[0]; i++) {
        read_spec r;
        ps_explore_rows rows;
        assert_int_equal(PS_OK, read_text(&r, SPECS[i][0]));
        const ps_explore_job job = job_of(&r, NULL, 1);
        assert_int_equal(PS_OK, ps_explore_rows_make(&r.spec, &rows));
        assert_int_equal(PS_INVALID, ps_explore_rows_check(&job, &rows));
        assert_non_null(strstr(ps_error_message(), SPECS[i][1]));
        ps_explore_rows_free(&rows);
        close_spec(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_the_first_failure_is_told),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_search_finds_the_top),
        cmocka_unit_test(test_search_keeps_conditions),
        cmocka_unit_test(test_search_without_any_point),
        cmocka_unit_test(test_journal),
        cmocka_unit_test(test_one_run_writes_a_journal),
        cmocka_unit_test(test_a_disk_that_is_full),
        cmocka_unit_test(test_rows_are_checked_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
