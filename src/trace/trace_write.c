// trace/trace_write.c - a trace as JSON, in the object form of the Chrome trace format ("Trace
// Event Format", Google): complete events (X), metadata (M), times in microseconds.
#include "trace/trace_internal.h"

#include "base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// stdio keeps the first error in the stream: it is looked at once, at the end.
static void put_string(FILE *file, const char *text)
{
    (void)fputc('"', file);
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == '"' || byte == '\\') {
            (void)fprintf(file, "\\u%04x", byte);
        } else {
            (void)fputc(byte < 0x7f ? byte : '?', file);
        }
    }
    (void)fputc('"', file);
}

static void put_member(FILE *file, const char *key, const char *text)
{
    put_string(file, key);
    (void)fputs(": ", file);
    put_string(file, text);
}

static void put_us(FILE *file, const char *key, uint64_t ns)
{
    (void)fprintf(file, ", \"%s\": %" PRIu64 ".%03" PRIu64, key, ns / 1000, ns % 1000);
}

static void put_metadata(FILE *file, const ps_trace *trace, const char *what, uint32_t lane,
                         const char *name)
{
    (void)fprintf(file,
                  "{\"ph\": \"M\", \"pid\": %" PRIu32 ", \"tid\": %" PRIu32
                  ", \"name\": \"%s\", \"args\": {",
                  trace->process, lane, what);
    put_member(file, "name", name);
    (void)fputs("}}", file);
}

static void put_span(FILE *file, const ps_trace_event *event)
{
    const ps_trace_kind *kind = event->kind;
    char name[256];
    (void)snprintf(name, sizeof name, "%s%s%s", kind->name, event->detail != NULL ? " " : "",
                   event->detail != NULL ? event->detail : "");
    put_member(file, "name", name);
    (void)fputs(", ", file);
    put_member(file, "cat", kind->category);
    put_us(file, "ts", event->start_ns);
    put_us(file, "dur", event->end_ns > event->start_ns ? event->end_ns - event->start_ns : 0);
    (void)fputs(", \"args\": {", file);
    for (uint32_t i = 0; i < PS_TRACE_ARGUMENTS_MAX && kind->arguments[i] != NULL; i++) {
        (void)fputs(i > 0 ? ", " : "", file);
        put_string(file, kind->arguments[i]);
        (void)fprintf(file, ": %" PRId64, event->arguments[i]);
    }
    (void)fputs("}}", file);
}

// Oldest first.
static void put_lane(FILE *file, const ps_trace *trace, uint32_t index)
{
    const ps_trace_lane *lane = trace->lanes[index];
    (void)fputs(",\n", file);
    put_metadata(file, trace, "thread_name", index, lane->name);
    (void)fprintf(file,
                  ",\n{\"ph\": \"M\", \"pid\": %" PRIu32 ", \"tid\": %" PRIu32
                  ", \"name\": \"thread_sort_index\", \"args\": {\"sort_index\": %" PRIu32 "}}",
                  trace->process, index, index);
    for (uint64_t n = ps_trace_lane_dropped(lane); n < lane->count; n++) {
        (void)fprintf(file, ",\n{\"ph\": \"X\", \"pid\": %" PRIu32 ", \"tid\": %" PRIu32 ", ",
                      trace->process, index);
        put_span(file, &lane->events[n & lane->mask]);
    }
}

// Traces that become one file.
typedef struct trace_list {
    const ps_trace *const *traces;
    uint32_t count;
} trace_list;

static const char *put_dropped_lanes(FILE *file, const ps_trace *trace, const char *separator)
{
    for (uint32_t i = 0; i < trace->lane_count; i++) {
        const uint64_t dropped = ps_trace_lane_dropped(trace->lanes[i]);
        if (dropped > 0) {
            (void)fputs(separator, file);
            put_string(file, trace->lanes[i]->name);
            (void)fprintf(file, ": %" PRIu64, dropped);
            separator = ", ";
        }
    }
    return separator;
}

static void put_dropped(FILE *file, const trace_list *list)
{
    const char *separator = "";
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        dropped += ps_trace_dropped(list->traces[i]);
    }
    (void)fprintf(file, ",\n\"dropped_events\": %" PRIu64 ",\n\"dropped_events_by_lane\": {",
                  dropped);
    for (uint32_t i = 0; i < list->count; i++) {
        separator = put_dropped_lanes(file, list->traces[i], separator);
    }
    (void)fputs("}", file);
}

static void put_notes(FILE *file, const ps_trace *trace)
{
    for (uint32_t i = 0; i < trace->note_count; i++) {
        (void)fputs(",\n", file);
        put_member(file, trace->notes[i].key, trace->notes[i].text);
    }
}

static void put_traces(FILE *file, const trace_list *list)
{
    (void)fputs(
        "{\"displayTimeUnit\": \"ns\",\n\"otherData\": {\"producer\": \"prestage " PS_VERSION "\"",
        file);
    for (uint32_t i = 0; i < list->count; i++) {
        put_notes(file, list->traces[i]);
    }
    put_dropped(file, list);
    (void)fputs("},\n\"traceEvents\": [\n", file);
    for (uint32_t i = 0; i < list->count; i++) {
        const ps_trace *trace = list->traces[i];
        (void)fputs(i > 0 ? ",\n" : "", file);
        put_metadata(file, trace, "process_name", 0, trace->process_name);
        for (uint32_t lane = 0; lane < trace->lane_count; lane++) {
            put_lane(file, trace, lane);
        }
    }
    (void)fputs("\n]}\n", file);
}

// Closes the file in any case.
static bool finish(FILE *file)
{
    const bool is_good = ferror(file) == 0;
    return fclose(file) == 0 && is_good;
}

static ps_status write_beside(const trace_list *list, const char *path, const char *temporary)
{
    FILE *file = fopen(temporary, "w");
    if (file == NULL) {
        return ps_fail(PS_IO, "%s: cannot write a trace: %s", path, strerror(errno));
    }
    put_traces(file, list);
    if (!finish(file) || rename(temporary, path) != 0) {
        const int error = errno;
        (void)unlink(temporary);
        return ps_fail(PS_IO, "%s: cannot write a trace: %s", path, strerror(error));
    }
    return PS_OK;
}

ps_status ps_trace_write(const ps_trace *trace, const char *path)
{
    return ps_trace_write_all(&trace, 1, path);
}

ps_status ps_trace_write_all(const ps_trace *const *traces, uint32_t count, const char *path)
{
    const trace_list list = {.traces = traces, .count = count};
    ps_buffer temporary = {0};
    PS_TRY(ps_buffer_printf(&temporary, "%s.%d.tmp", path, (int)getpid()));
    const ps_status status = write_beside(&list, path, temporary.data);
    ps_buffer_deinit(&temporary);
    return status;
}
