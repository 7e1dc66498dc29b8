// cli/cmd_explore.c - `prestage explore`: sweeps over machines, models and workloads.
#include "cli/commands.h"
#include "cli/explore_output.h"
#include "cli/explore_timeline.h"
#include "cli/interrupt.h"

#include "base/log.h"
#include "engine/data_files.h"
#include "format/file_map.h"
#include "format/new_file.h"
#include "hw/machine.h"

#include <string.h>
#include <unistd.h>

typedef enum format { FORMAT_CSV, FORMAT_JSON, FORMAT_HTML, FORMAT_COUNT } format;

static const char *const FORMATS[FORMAT_COUNT] = {"csv", "json", "html"};

typedef struct exploration {
    const ps_cli_options *options;
    bool formats[FORMAT_COUNT]; // that -o writes
    ps_explore_inputs inputs;
    ps_explore_rows *rows;      // [inputs.source_count]
    uint32_t rows_count;        // that have been made
    ps_explore_result *results; // [inputs.source_count]
    const char *journal_path;   // NULL: none
    ps_explore_journal journal;
    bool resumes;  // a journal that is there
    bool replaces; // files that are there
} exploration;

// ---- what is asked for

static ps_status parse_formats(const char *text, bool out[FORMAT_COUNT])
{
    for (const char *rest = text; rest != NULL;) {
        const size_t length = strcspn(rest, ",");
        uint32_t i = 0;
        while (i < FORMAT_COUNT && !ps_str_equal((ps_str){rest, length}, FORMATS[i])) {
            i++;
        }
        if (i == FORMAT_COUNT) {
            return ps_fail(PS_INVALID,
                           "--format '%s': csv, json and html, with commas between them, would be "
                           "right",
                           text);
        }
        out[i] = true;
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
    }
    return PS_OK;
}

static ps_status check_options(exploration *e)
{
    const ps_cli_options *options = e->options;
    const ps_cli_explore_options *explore = &options->explore;
    const bool has_output = options->output != NULL;
    if (explore->all == (explore->spec_count > 0)) {
        return ps_fail(PS_INVALID, "%s",
                       explore->all ? "--all and specs together; one of them would be right"
                                    : "no spec given; a file, a name of prestage explore "
                                      "--list, or --all would be right");
    }
    if (!has_output && (explore->formats != NULL || explore->resume || options->force)) {
        return ps_fail(PS_INVALID, "%s without a file; -o NAME beside it would be right",
                       explore->formats != NULL ? "--format"
                       : explore->resume        ? "--resume"
                                                : "--force");
    }
    if (has_output &&
        (options->output[0] == '\0' || options->output[strlen(options->output) - 1] == '/')) {
        return ps_fail(PS_INVALID,
                       "-o '%s': the name of files without what tells them apart, as "
                       "in -o mine for mine.csv, would be right",
                       options->output);
    }
    if (has_output && explore->formats == NULL) {
        e->formats[FORMAT_CSV] = e->formats[FORMAT_JSON] = e->formats[FORMAT_HTML] = true;
    }
    return explore->formats == NULL ? PS_OK : parse_formats(explore->formats, e->formats);
}

// "NAME.csv", or of several specs "NAME-SPEC.csv".
static const char *output_path(exploration *e, format kind, uint32_t source)
{
    const bool is_one_each = kind == FORMAT_CSV && e->inputs.source_count > 1;
    ps_buffer path = {0};
    const ps_status status = ps_buffer_printf(
        &path, "%s%s%s.%s", e->options->output, is_one_each ? "-" : "",
        is_one_each ? e->inputs.sources[source].name : "", FORMATS[kind]);
    const char *copy = status == PS_OK ? ps_arena_strndup(&e->inputs.arena, path.data, path.length)
                                       : NULL;
    ps_buffer_deinit(&path);
    return copy;
}

// Before the work: whether its results may be written.
static ps_status check_outputs(exploration *e)
{
    for (uint32_t f = 0; f < FORMAT_COUNT; f++) {
        const uint32_t files = f == FORMAT_CSV ? e->inputs.source_count : 1;
        for (uint32_t i = 0; i < files && e->formats[f]; i++) {
            const char *path = output_path(e, (format)f, i);
            if (path == NULL) {
                return PS_NO_MEMORY;
            }
            const ps_status status = ps_new_file_try(path, e->replaces);
            if (status != PS_OK) {
                return ps_file_name_error(path, status);
            }
        }
    }
    return PS_OK;
}

// ---- the journal

// A row that an earlier run has played.
static ps_status take_row(void *context, uint32_t source, uint32_t row, const json_t *numbers,
                          const char *error)
{
    exploration *e = context;
    if (source >= e->inputs.source_count || row >= e->rows[source].row_count) {
        return ps_fail(PS_INVALID, "there is no row %u of spec %u", row, source);
    }
    ps_explore_rows *rows = &e->rows[source];
    const uint32_t first = e->inputs.sources[source].spec.search_first;
    const uint32_t count = rows->column_count - 1 - first;
    ps_result_cell *cells = rows->cells + (size_t)row * rows->column_count + first;
    if (error == NULL && json_array_size(numbers) != count) {
        return ps_fail(PS_INVALID, "%zu numbers; %u would be right", json_array_size(numbers),
                       count);
    }
    for (uint32_t i = 0; i < count && error == NULL; i++) {
        const json_t *value = json_array_get(numbers, i);
        if (!json_is_number(value) && !json_is_null(value)) {
            return ps_fail(PS_INVALID, "value %u is no number", i);
        }
        cells[i].number = json_is_null(value) ? cells[i].number : json_number_value(value);
    }
    rows->is_done[row] = true;
    return error == NULL ? PS_OK : ps_explore_rows_set_error(rows, row, error);
}

// Whether there is a journal, and what that means for files. A run that leaves one may have been
// ended when some of its files were written: who goes on replaces them.
static ps_status find_journal(exploration *e)
{
    const ps_cli_options *options = e->options;
    ps_buffer path = {0};
    e->replaces = options->force;
    if (options->output == NULL) {
        return PS_OK;
    }
    const ps_status status = ps_buffer_printf(&path, "%s.journal", options->output);
    e->journal_path = status == PS_OK ? ps_arena_strndup(&e->inputs.arena, path.data, path.length)
                                      : NULL;
    ps_buffer_deinit(&path);
    if (e->journal_path == NULL) {
        return PS_NO_MEMORY;
    }
    const bool is_there = access(e->journal_path, F_OK) == 0 && !options->force;
    e->resumes = is_there && options->explore.resume;
    e->replaces = e->replaces || e->resumes;
    return !is_there || e->resumes
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "%s: results of a run that was ended are there; --resume would go on, "
                         "--force begin anew",
                         e->journal_path);
}

static ps_status open_journal(exploration *e)
{
    const ps_explore_journal_reader reader = {e, take_row};
    if (e->journal_path == NULL) {
        return PS_OK;
    }
    return e->resumes
               ? ps_explore_journal_resume(e->journal_path, e->inputs.key, &reader, &e->journal)
               : ps_explore_journal_create(e->journal_path, e->inputs.key, &e->journal);
}

// ---- the run

static ps_status make_rows(exploration *e)
{
    ps_arena *arena = &e->inputs.arena;
    e->rows = PS_ARENA_NEW(arena, ps_explore_rows, e->inputs.source_count);
    e->results = PS_ARENA_NEW(arena, ps_explore_result, e->inputs.source_count);
    if (e->rows == NULL || e->results == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < e->inputs.source_count; i++) {
        const ps_explore_source *source = &e->inputs.sources[i];
        ps_explore_rows *rows = &e->rows[i];
        PS_TRY(ps_explore_rows_make(&source->spec, rows));
        e->rows_count++;
        e->results[i] = (ps_explore_result){.source = source,
                                            .table = {.columns = source->spec.columns.all,
                                                      .column_count = rows->column_count,
                                                      .row_count = rows->row_count,
                                                      .cells = rows->cells}};
    }
    return PS_OK;
}

static ps_explore_job job_of(exploration *e, uint32_t index)
{
    const ps_explore_source *source = &e->inputs.sources[index];
    const uint32_t threads = e->options->threads;
    return (ps_explore_job){.spec = &source->spec,
                            .fields = &e->inputs.fields,
                            .machines = e->inputs.machines,
                            .player = ps_explore_inputs_player(&e->inputs),
                            .threads = threads == 0 ? ps_machine_default_threads(1) : threads,
                            .cancel = ps_cli_interrupt_flag(),
                            .journal = e->journal_path == NULL ? NULL : &e->journal,
                            .journal_spec = index,
                            .verb = source->name};
}

// What would end the run later: rows that contradict themselves, timelines that cannot be.
static ps_status check_all(exploration *e)
{
    for (uint32_t i = 0; i < e->inputs.source_count; i++) {
        const ps_explore_source *source = &e->inputs.sources[i];
        const ps_explore_job job = job_of(e, i);
        const ps_status status = ps_explore_rows_check(&job, &e->rows[i]);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "%s", source->name);
        }
        PS_TRY(e->formats[FORMAT_HTML]
                   ? ps_explore_timelines_play(&e->inputs, &source->spec, &e->results[i].timelines)
                   : PS_OK);
    }
    return PS_OK;
}

static ps_status play_all(exploration *e)
{
    for (uint32_t i = 0; i < e->inputs.source_count; i++) {
        const ps_explore_source *source = &e->inputs.sources[i];
        const ps_explore_job job = job_of(e, i);
        const ps_status status = ps_explore_run(&job, &e->rows[i]);
        if (status != PS_OK) {
            return status == PS_CANCELLED ? status : ps_fail_prefix(status, "%s", source->name);
        }
    }
    return PS_OK;
}

static ps_status judge(exploration *e, uint32_t index, bool *out_is_bad)
{
    const ps_explore_spec *spec = &e->inputs.sources[index].spec;
    ps_report_expectation *judged = PS_ARENA_NEW(&e->inputs.arena, ps_report_expectation,
                                                 spec->expectation_count);
    if (judged == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < spec->expectation_count; i++) {
        bool is_bad = false;
        PS_TRY(ps_expectation_judge(&spec->expectations[i], &e->results[index].table,
                                    &e->inputs.arena, &judged[i], &is_bad));
        *out_is_bad = *out_is_bad || is_bad;
    }
    e->results[index].expectations = judged;
    return PS_OK;
}

// ---- what comes of it

static ps_status write_files(exploration *e)
{
    const bool replaces = e->replaces;
    const uint32_t count = e->inputs.source_count;
    for (uint32_t i = 0; i < count && e->formats[FORMAT_CSV]; i++) {
        PS_TRY(ps_explore_csv_write(output_path(e, FORMAT_CSV, i), &e->results[i].table, replaces));
    }
    if (e->formats[FORMAT_JSON]) {
        PS_TRY(ps_explore_json_write(output_path(e, FORMAT_JSON, 0), &e->inputs, e->results, count,
                                     replaces));
    }
    return e->formats[FORMAT_HTML] ? ps_explore_html_write(output_path(e, FORMAT_HTML, 0),
                                                           &e->inputs, e->results, count, replaces)
                                   : PS_OK;
}

static ps_status print(exploration *e)
{
    if (e->options->json) {
        return ps_explore_json_write(NULL, &e->inputs, e->results, e->inputs.source_count, true);
    }
    for (uint32_t i = 0; i < e->inputs.source_count; i++) {
        const bool has_table = e->options->output == NULL;
        if (i > 0 && has_table) {
            (void)printf("\n");
        }
        if (has_table) {
            PS_TRY(ps_explore_table_print(&e->results[i], &e->inputs.arena));
        } else if (e->results[i].expectations != NULL &&
                   e->inputs.sources[i].spec.expectation_count > 0) {
            (void)printf("%s%s\n", i > 0 ? "\n" : "", e->inputs.sources[i].spec.title);
        }
        PS_TRY(ps_explore_expectations_print(&e->results[i], &e->inputs.arena));
    }
    ps_explore_summary_print(e->results, e->inputs.source_count);
    return PS_OK;
}

// After Ctrl-C: rows that were played, and how to go on.
static ps_status keep_what_is_there(exploration *e)
{
    uint32_t done = 0;
    uint32_t all = 0;
    for (uint32_t i = 0; i < e->rows_count; i++) {
        ps_explore_rows *rows = &e->rows[i];
        const size_t bytes = rows->column_count * sizeof(ps_result_cell);
        uint32_t kept = 0;
        for (uint32_t row = 0; row < rows->row_count; row++) {
            if (rows->is_done[row]) {
                memmove(rows->cells + (size_t)kept++ * rows->column_count,
                        rows->cells + (size_t)row * rows->column_count, bytes);
            }
        }
        e->results[i].table.row_count = kept;
        done += kept;
        all += rows->row_count;
    }
    if (e->journal_path != NULL) {
        ps_log(PS_LOG_WARNING, "%u of %u points are in %s; --resume would go on", done, all,
               e->journal_path);
        return PS_CANCELLED;
    }
    PS_TRY(print(e));
    return PS_CANCELLED;
}

static ps_status explore(exploration *e)
{
    bool is_bad = false;
    PS_TRY(ps_explore_inputs_open(&e->inputs));
    PS_TRY(find_journal(e));
    PS_TRY(check_outputs(e));
    PS_TRY(make_rows(e));
    PS_TRY(check_all(e));
    PS_TRY(open_journal(e));
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
    ps_status status = play_all(e);
    if (status == PS_CANCELLED) {
        ps_cli_interrupt_set(PS_CLI_INTERRUPT_ENDS);
        return keep_what_is_there(e);
    }
    for (uint32_t i = 0; i < e->inputs.source_count && status == PS_OK; i++) {
        status = judge(e, i, &is_bad);
    }
    PS_TRY(status);
    PS_TRY(write_files(e)); // whole, even if they are interrupted once
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_ENDS);
    ps_explore_journal_close(&e->journal, true);
    if (is_bad && e->options->explore.check) {
        ps_cli_result_is_bad();
    }
    return print(e);
}

// ---- shipped specs

static ps_status list_specs(bool is_json)
{
    uint32_t count;
    const ps_data_file *files = ps_data_folder(PS_EXPLORE_FOLDER, &count);
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '[');
    for (uint32_t i = 0; i < count; i++) {
        json_t *spec = NULL;
        PS_TRY(ps_json_text_read(files[i].text, files[i].length, &spec));
        const ps_str name = ps_data_short_name(&files[i]);
        const char *title = json_string_value(json_object_get(spec, "title"));
        if (is_json) {
            ps_json_begin(&json, NULL, '{');
            ps_json_string(&json, "name", name);
            ps_json_text(&json, "title", title);
            ps_json_end(&json, '}');
        } else {
            (void)printf("%-24.*s %s\n", (int)name.length, name.data, title == NULL ? "" : title);
        }
        json_decref(spec);
    }
    ps_json_end(&json, ']');
    if (is_json) {
        return ps_json_print(&json);
    }
    ps_buffer_deinit(&json.text);
    return PS_OK;
}

// Names of all shipped specs.
static ps_status find_all(const char *names[PS_CLI_SPECS_MAX], uint32_t *out_count, ps_arena *arena)
{
    uint32_t count;
    const ps_data_file *files = ps_data_folder(PS_EXPLORE_FOLDER, &count);
    ps_assert(count <= PS_CLI_SPECS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const ps_str name = ps_data_short_name(&files[i]);
        names[i] = ps_arena_strndup(arena, name.data, name.length);
        if (names[i] == NULL) {
            return PS_NO_MEMORY;
        }
    }
    *out_count = count;
    return PS_OK;
}

static ps_status run(const ps_cli_options *options, ps_arena *arena)
{
    const char *all[PS_CLI_SPECS_MAX];
    const char *const *names = options->explore.specs;
    uint32_t count = options->explore.spec_count;
    exploration e = {.options = options};
    PS_TRY(check_options(&e));
    if (options->explore.all) {
        PS_TRY(find_all(all, &count, arena));
        names = all;
    }
    ps_status status = ps_explore_inputs_read(names, count, &e.inputs);
    status = status == PS_OK ? explore(&e) : status;
    ps_explore_journal_close(&e.journal, false);
    for (uint32_t i = 0; i < e.rows_count; i++) {
        ps_explore_rows_free(&e.rows[i]);
    }
    ps_explore_inputs_close(&e.inputs);
    return status;
}

// A list takes nothing else.
static ps_status check_list(const ps_cli_options *options)
{
    const ps_cli_explore_options *explore = &options->explore;
    const char *other = explore->spec_count > 0    ? explore->specs[0]
                        : explore->all             ? "--all"
                        : options->output != NULL  ? "-o"
                        : explore->formats != NULL ? "--format"
                        : explore->resume          ? "--resume"
                        : explore->check           ? "--check"
                        : options->force           ? "--force"
                                                   : NULL;
    return other == NULL ? PS_OK
                         : ps_fail(PS_INVALID, "--list and %s; one of them would be right", other);
}

ps_status ps_cli_explore(const ps_cli_options *options)
{
    if (options->explore.list) {
        PS_TRY(check_list(options));
        return list_specs(options->json);
    }
    ps_arena arena;
    ps_arena_init(&arena, (size_t)1 << 20);
    const ps_status status = run(options, &arena);
    ps_arena_deinit(&arena);
    return status;
}
