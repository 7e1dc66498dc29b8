// cli/explore_journal.c - see explore_journal.h.
#include "cli/explore_journal.h"

#include "cli/json_writer.h"
#include "engine/json_fields.h"
#include "format/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "{\"journal\": \"prestage explore 1\", \"key\": \"%016" PRIx64 "\"}\n"
#define HEAD_BYTES 80u

static ps_status io_error(const char *path)
{
    return ps_fail(PS_IO, "%s: %s", path, strerror(errno));
}

// One run writes a journal at a time. Where a file system knows no locks, nobody looks.
static ps_status lock(int descriptor, const char *path)
{
    struct stat what;
    const bool is_locked = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    const bool has_gone = fstat(descriptor, &what) == 0 && what.st_nlink == 0; // with its run
    return is_locked || has_gone
               ? ps_fail(PS_INVALID,
                         "%s: another run is writing it; another name behind -o would be right, or "
                         "waiting for its end",
                         path)
               : PS_OK;
}

// At its end, whatever it holds.
static ps_status open_file(const char *path, int flags, ps_explore_journal *out)
{
    const int descriptor = open(path, O_RDWR | O_APPEND | O_CLOEXEC | flags, 0666);
    if (descriptor < 0) {
        return io_error(path);
    }
    const ps_status status = lock(descriptor, path);
    FILE *file = status == PS_OK ? fdopen(descriptor, "a") : NULL;
    if (file == NULL) {
        (void)close(descriptor);
        return status == PS_OK ? io_error(path) : status;
    }
    (void)setvbuf(file, NULL, _IOLBF, (size_t)1 << 16); // a line is there when it is written
    *out = (ps_explore_journal){.path = path, .file = file};
    return PS_OK;
}

static ps_status cut(const ps_explore_journal *journal, size_t kept_bytes)
{
    return ftruncate(fileno(journal->file), (off_t)kept_bytes) == 0 ? PS_OK
                                                                    : io_error(journal->path);
}

ps_status ps_explore_journal_create(const char *path, uint64_t key, ps_explore_journal *out)
{
    ps_explore_journal journal;
    PS_TRY(open_file(path, O_CREAT, &journal));
    ps_status status = cut(&journal, 0);
    if (status == PS_OK && fprintf(journal.file, HEAD, key) < 0) {
        status = io_error(path);
    }
    if (status != PS_OK) {
        (void)fclose(journal.file);
        return status;
    }
    *out = journal;
    return PS_OK;
}

// ---- reading

static ps_status take_row(const json_t *line, const ps_explore_journal_reader *reader)
{
    const json_t *spec = json_array_get(line, 0);
    const json_t *row = json_array_get(line, 1);
    const json_t *values = json_array_get(line, 2);
    const json_int_t numbers[2] = {json_integer_value(spec), json_integer_value(row)};
    const bool is_row = json_array_size(line) == 3 && json_is_integer(spec) &&
                        json_is_integer(row) && numbers[0] >= 0 && numbers[0] < UINT32_MAX &&
                        numbers[1] >= 0 && numbers[1] < UINT32_MAX;
    if (!is_row || (!json_is_array(values) && !json_is_string(values))) {
        return ps_fail(PS_INVALID, "[spec, row, numbers or an error] would be right");
    }
    return reader->take(reader->context, (uint32_t)numbers[0], (uint32_t)numbers[1],
                        json_is_array(values) ? values : NULL, json_string_value(values));
}

static ps_status read_line(const char *text, size_t length, const ps_explore_journal_reader *reader)
{
    json_t *line = NULL;
    PS_TRY(ps_json_text_read(text, length, &line));
    const ps_status status = take_row(line, reader);
    json_decref(line);
    return status;
}

// *out_bytes: of whole lines.
static ps_status read_lines(const char *text, size_t size_bytes, const char *head,
                            const ps_explore_journal_reader *reader, size_t *out_bytes)
{
    const size_t head_length = strlen(head);
    if (size_bytes < head_length || memcmp(text, head, head_length) != 0) {
        return ps_fail(
            PS_INVALID,
            "results of another spec, machine, model or version are there; --force would "
            "begin anew");
    }
    size_t at = head_length;
    for (uint32_t number = 2; at < size_bytes; number++) {
        const char *end = memchr(text + at, '\n', size_bytes - at);
        if (end == NULL) {
            break;
        }
        const size_t length = (size_t)(end - text) - at;
        const ps_status status = read_line(text + at, length, reader);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "line %u", number);
        }
        at += length + 1;
    }
    *out_bytes = at;
    return PS_OK;
}

static ps_status read_file(const char *path, uint64_t key, const ps_explore_journal_reader *reader,
                           size_t *out_bytes)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    char head[HEAD_BYTES];
    (void)snprintf(head, sizeof head, HEAD, key);
    ps_status status = ps_file_map(path, "a journal of results", &bytes, &size_bytes);
    if (status == PS_OK) {
        status = read_lines(bytes == NULL ? "" : bytes, size_bytes, head, reader, out_bytes);
        ps_file_unmap(bytes, size_bytes);
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

ps_status ps_explore_journal_resume(const char *path, uint64_t key,
                                    const ps_explore_journal_reader *reader,
                                    ps_explore_journal *out)
{
    ps_explore_journal journal;
    size_t kept_bytes = 0;
    if (access(path, F_OK) != 0) {
        return ps_fail(PS_NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    PS_TRY(open_file(path, 0, &journal));
    ps_status status = read_file(path, key, reader, &kept_bytes);
    if (status == PS_OK) {
        status = cut(&journal, kept_bytes);
    }
    if (status != PS_OK) {
        (void)fclose(journal.file);
        return status;
    }
    *out = journal;
    return PS_OK;
}

// ---- writing

ps_status ps_explore_journal_add(ps_explore_journal *journal, uint32_t spec, uint32_t row,
                                 const ps_result_cell *cells, uint32_t count)
{
    ps_buffer line = {0};
    const char *error = cells[count - 1].text;
    ps_status status = ps_buffer_printf(&line, "[%u,%u,", spec, row);
    if (error != NULL) {
        ps_json_writer text = {.status = status}; // an error may hold any bytes
        ps_json_text(&text, NULL, error);
        status = text.status == PS_OK ? ps_buffer_append(&line, text.text.data, text.text.length)
                                      : text.status;
        ps_buffer_deinit(&text.text);
    }
    for (uint32_t i = 0; i + 1 < count && error == NULL && status == PS_OK; i++) {
        const char *before = i == 0 ? "[" : ",";
        status = isfinite(cells[i].number)
                     ? ps_buffer_printf(&line, "%s%.17g", before, cells[i].number)
                     : ps_buffer_printf(&line, "%snull", before);
    }
    if (status == PS_OK) {
        status = ps_buffer_printf(&line, "%s]\n", error == NULL ? "]" : "");
    }
    if (status == PS_OK && fwrite(line.data, 1, line.length, journal->file) != line.length) {
        status = io_error(journal->path);
    }
    ps_buffer_deinit(&line);
    return status;
}

void ps_explore_journal_close(ps_explore_journal *journal, bool removes)
{
    if (journal->file != NULL) {
        if (removes) {
            (void)unlink(journal->path); // before others may lock it
        }
        (void)fclose(journal->file);
    }
    *journal = (ps_explore_journal){0};
}
