// cli/explore_run.c - threads that take rows by turns.
#include "cli/explore_run.h"

#include "base/clock.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/explore_columns.h"
#include "cli/explore_search.h"
#include "hw/machine.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 1024u
#define ARENA_BYTES ((size_t)4 << 30)
#define ERRORS_BYTES ((size_t)1 << 30)
#define DRAW_NS 200000000u // between pictures of the bar
#define NO_ROW UINT32_MAX

// ---- rows

ps_status ps_explore_rows_make(const ps_explore_spec *spec, ps_explore_rows *out)
{
    const uint32_t columns = spec->columns.count;
    const uint64_t bytes = (uint64_t)spec->row_count * (columns * sizeof(ps_result_cell) + 1);
    PS_TRY(ps_machine_check_memory(bytes, "the table of results"));
    ps_explore_rows rows = {
        .cells = malloc((size_t)spec->row_count * columns * sizeof(ps_result_cell)),
        .is_done = calloc(spec->row_count, sizeof(bool)),
        .row_count = spec->row_count,
        .column_count = columns};
    if (rows.cells == NULL || rows.is_done == NULL) {
        free(rows.cells);
        free(rows.is_done);
        return ps_fail(PS_NO_MEMORY, "no memory for %u rows", spec->row_count);
    }
    for (uint32_t row = 0; row < spec->row_count; row++) {
        ps_explore_row_fill(spec, row, rows.cells + (size_t)row * columns);
    }
    *out = rows;
    ps_arena_init(&out->errors, ERRORS_BYTES);
    return PS_OK;
}

void ps_explore_rows_free(ps_explore_rows *rows)
{
    free(rows->cells);
    free(rows->is_done);
    ps_arena_deinit(&rows->errors);
    *rows = (ps_explore_rows){0};
}

ps_status ps_explore_rows_set_error(ps_explore_rows *rows, uint32_t row, const char *text)
{
    ps_str name = ps_str_of(text);
    name.length = name.length > PS_NAME_BYTES_MAX ? PS_NAME_BYTES_MAX : name.length;
    rows->error_texts.arena = &rows->errors;
    uint32_t number = ps_names_find(&rows->error_texts, name);
    if (number == PS_NO_NAME) {
        PS_TRY(ps_names_add(&rows->error_texts, name));
        number = rows->error_texts.count - 1;
    }
    ps_result_cell *cells = rows->cells + (size_t)row * rows->column_count;
    cells[rows->column_count - 1].text = rows->error_texts.names[number];
    return PS_OK;
}

// ---- one row

typedef struct run {
    const ps_explore_job *job;
    ps_explore_rows *rows;
    uint32_t done_before, left; // rows
    atomic_uint next;
    atomic_uint played;
    atomic_bool is_stopped;
    pthread_mutex_t mutex; // guards the journal, the errors' texts, and what follows
    ps_status status;
    uint32_t failed_row;
    char message[1024];
} run;

typedef struct worker {
    run *run;
    ps_arena arena;
    ps_cli_progress *progress; // of the one that draws; NULL: it does not
    uint64_t started_ns, drawn_ns;
} worker;

static ps_status play(worker *w, const ps_explore_point *point, ps_design_point *out)
{
    const ps_explore_player *player = &w->run->job->player;
    const ps_status status = player->play(player->context, point, &w->arena, out);
    if (status == PS_OK) {
        ps_arena_reset(&w->arena);
    } else {
        ps_arena_deinit(&w->arena); // which keeps the message
    }
    return status;
}

static ps_status play_row(void *context, uint32_t row, const ps_explore_settings *extra,
                          ps_result_cell *cells)
{
    worker *w = context;
    const ps_explore_job *job = w->run->job;
    ps_explore_point point;
    ps_design_point result;
    ps_design_point baseline;
    ps_explore_point_make(job->spec, job->fields, job->machines, row, extra, false, &point);
    PS_TRY(play(w, &point, &result));
    if (job->spec->has_baseline) {
        ps_explore_point_make(job->spec, job->fields, job->machines, row, extra, true, &point);
        PS_TRY(play(w, &point, &baseline));
    }
    ps_explore_metrics_fill(job->spec, &result, job->spec->has_baseline ? &baseline : NULL, cells);
    return PS_OK;
}

// "model=llama3-8b, workload.batch=4: " in front of the message.
static void name_row(const ps_explore_spec *spec, const ps_explore_rows *rows, uint32_t row,
                     char *out, size_t size)
{
    const ps_result_cell *cells = rows->cells + (size_t)row * rows->column_count;
    size_t length = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < spec->search_first && length < size; i++) {
        char number[PS_EXPLORE_NUMBER_BYTES];
        const ps_result_column *column = &spec->columns.all[i];
        ps_explore_number_write(column->is_text ? NAN : cells[i].number, number);
        length += (size_t)snprintf(out + length, size - length, "%s%s=%s", i == 0 ? "" : ", ",
                                   column->name, column->is_text ? cells[i].text : number);
    }
}

// Keeps the failure of the first row; those before it are all being played.
static void keep_failure(run *r, uint32_t row, ps_status status)
{
    if (r->status == PS_OK || row < r->failed_row) {
        char where[512];
        name_row(r->job->spec, r->rows, row, where, sizeof where);
        r->status = status;
        r->failed_row = row;
        (void)snprintf(r->message, sizeof r->message, "%s: %s", where, ps_error_message());
    }
    atomic_store(&r->is_stopped, true);
}

static void finish_row(run *r, uint32_t row, ps_status status)
{
    ps_explore_rows *rows = r->rows;
    (void)pthread_mutex_lock(&r->mutex);
    if (status == PS_UNSUPPORTED) {
        status = ps_explore_rows_set_error(rows, row, ps_error_message());
    }
    if (status == PS_OK && r->job->journal != NULL) {
        status = ps_explore_journal_add(r->job->journal, r->job->journal_spec, row,
                                        rows->cells + (size_t)row * rows->column_count +
                                            r->job->spec->search_first,
                                        rows->column_count - r->job->spec->search_first);
    }
    if (status == PS_OK) {
        rows->is_done[row] = true;
    } else {
        keep_failure(r, row, status);
    }
    (void)pthread_mutex_unlock(&r->mutex);
}

// ---- threads

static void draw(worker *w)
{
    const uint64_t now_ns = ps_clock_ns();
    const run *r = w->run;
    if (w->progress == NULL || now_ns - w->drawn_ns < DRAW_NS) {
        return;
    }
    const uint32_t played = atomic_load(&r->played);
    const double seconds = (double)(now_ns - w->started_ns) / 1e9;
    (void)snprintf(w->progress->note, sizeof w->progress->note, "%u of %u points, %.0f a second",
                   r->done_before + played, r->rows->row_count, played / seconds);
    w->drawn_ns = now_ns;
    ps_cli_progress_draw(w->progress, (double)(r->done_before + played) / r->rows->row_count);
}

static bool is_over(const run *r)
{
    return atomic_load(&r->is_stopped) || (r->job->cancel != NULL && *r->job->cancel);
}

static void *work(void *argument)
{
    worker *w = argument;
    run *r = w->run;
    const ps_explore_spec *spec = r->job->spec;
    while (!is_over(r)) {
        const uint32_t row = atomic_fetch_add(&r->next, 1);
        if (row >= r->rows->row_count) {
            break;
        }
        if (r->rows->is_done[row]) {
            continue;
        }
        ps_result_cell *cells = r->rows->cells + (size_t)row * r->rows->column_count;
        const ps_status status = spec->search.range_count > 0
                                     ? ps_explore_search_row(spec, r->job->fields, row, play_row, w,
                                                             cells)
                                     : play_row(w, row, NULL, cells);
        finish_row(r, row, status);
        (void)atomic_fetch_add(&r->played, 1);
        draw(w);
    }
    ps_arena_deinit(&w->arena);
    return NULL;
}

static void start(run *r, ps_cli_progress *progress)
{
    const uint32_t wanted = r->job->threads < THREADS_MAX ? r->job->threads : THREADS_MAX;
    const uint32_t count = wanted <= 1 ? 1 : wanted < r->left ? wanted : r->left;
    worker workers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    uint32_t started = 1;
    for (uint32_t i = 0; i < count; i++) {
        workers[i] = (worker){.run = r, .started_ns = ps_clock_ns()};
        ps_arena_init(&workers[i].arena, ARENA_BYTES);
    }
    workers[0].progress = progress;
    // With fewer threads than are wanted it takes longer.
    while (started < count && ps_thread_start(work, &workers[started], &threads[started])) {
        started++;
    }
    (void)work(&workers[0]);
    for (uint32_t i = 1; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

// ---- before it

ps_status ps_explore_rows_check(const ps_explore_job *job, const ps_explore_rows *rows)
{
    const ps_explore_spec *spec = job->spec;
    // What a search chooses makes a row whole: it judges its places itself.
    const uint32_t count = spec->search.range_count > 0 ? 0 : rows->row_count;
    for (uint32_t i = 0; i < 2 * count; i++) {
        ps_explore_point point;
        char where[512];
        const bool is_baseline = i % 2 == 1;
        if (is_baseline && !spec->has_baseline) {
            continue;
        }
        ps_explore_point_make(spec, job->fields, job->machines, i / 2, NULL, is_baseline, &point);
        const ps_status status = ps_design_check(&point.machine, &point.workload);
        if (status != PS_OK) {
            name_row(spec, rows, i / 2, where, sizeof where);
            return ps_fail_prefix(status, "%s%s", where, is_baseline ? ": baseline" : "");
        }
    }
    return PS_OK;
}

ps_status ps_explore_run(const ps_explore_job *job, ps_explore_rows *rows)
{
    run r = {.job = job, .rows = rows, .mutex = PTHREAD_MUTEX_INITIALIZER};
    for (uint32_t row = 0; row < rows->row_count; row++) {
        r.done_before += rows->is_done[row];
    }
    r.left = rows->row_count - r.done_before;
    ps_cli_progress progress = {.verb = job->verb};
    const bool draws = job->verb != NULL && ps_cli_progress_begin(&progress);
    if (r.left > 0) {
        start(&r, draws ? &progress : NULL);
    }
    if (draws) {
        ps_cli_progress_end(&progress);
    }
    (void)pthread_mutex_destroy(&r.mutex);
    if (r.status != PS_OK) {
        return ps_fail(r.status, "%s", r.message);
    }
    return r.done_before + atomic_load(&r.played) < rows->row_count
               ? ps_fail(PS_CANCELLED, "interrupted")
               : PS_OK;
}
