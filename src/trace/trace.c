// trace/trace.c - recording.
#include "trace/trace_internal.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(ps_trace_event) == PS_CACHE_LINE_BYTES, "an event is a cache line");

static ps_status fail_memory(void)
{
    return ps_fail(PS_NO_MEMORY, "no memory for a trace");
}

ps_status ps_trace_create(uint32_t process, const char *process_name, ps_trace **out)
{
    ps_trace *trace = calloc(1, sizeof *trace);
    if (trace == NULL) {
        return fail_memory();
    }
    trace->process = process;
    trace->process_name = strdup(process_name);
    if (trace->process_name == NULL) {
        free(trace);
        return fail_memory();
    }
    *out = trace;
    return PS_OK;
}

static void destroy_lane(ps_trace_lane *lane)
{
    free(lane->events);
    free(lane->name);
    free(lane);
}

void ps_trace_destroy(ps_trace *trace)
{
    if (trace == NULL) {
        return;
    }
    for (uint32_t i = 0; i < trace->lane_count; i++) {
        destroy_lane(trace->lanes[i]);
    }
    for (uint32_t i = 0; i < trace->note_count; i++) {
        free(trace->notes[i].key);
        free(trace->notes[i].text);
    }
    free(trace->process_name);
    free(trace);
}

ps_status ps_trace_lane_add(ps_trace *trace, const char *name, uint32_t events_max,
                            ps_trace_lane **out)
{
    if (events_max == 0 || events_max > PS_TRACE_LANE_EVENTS_MAX) {
        return ps_fail(PS_INVALID, "a lane of %" PRIu32 " events; it can hold 1 to %u", events_max,
                       PS_TRACE_LANE_EVENTS_MAX);
    }
    if (trace->lane_count == PS_TRACE_LANES_MAX) {
        return ps_fail(PS_EXHAUSTED, "a trace has at most %u lanes", PS_TRACE_LANES_MAX);
    }
    uint64_t capacity = 1;
    while (capacity < events_max) {
        capacity *= 2;
    }
    ps_trace_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        return fail_memory();
    }
    lane->mask = capacity - 1;
    lane->name = strdup(name);
    lane->events = aligned_alloc(PS_CACHE_LINE_BYTES, capacity * sizeof *lane->events);
    if (lane->name == NULL || lane->events == NULL) {
        destroy_lane(lane);
        return fail_memory();
    }
    memset(lane->events, 0, capacity * sizeof *lane->events);
    trace->lanes[trace->lane_count++] = lane;
    *out = lane;
    return PS_OK;
}

ps_status ps_trace_note(ps_trace *trace, const char *key, const char *text)
{
    if (trace->note_count == PS_TRACE_NOTES_MAX) {
        return ps_fail(PS_EXHAUSTED, "a trace has at most %u notes", PS_TRACE_NOTES_MAX);
    }
    ps_trace_text note = {strdup(key), strdup(text)};
    if (note.key == NULL || note.text == NULL) {
        free(note.key);
        free(note.text);
        return fail_memory();
    }
    trace->notes[trace->note_count++] = note;
    return PS_OK;
}

void ps_trace_span(ps_trace_lane *lane, const ps_trace_kind *kind, const char *detail,
                   uint64_t start_ns, uint64_t end_ns, const int64_t *arguments)
{
    if (lane == NULL) {
        return;
    }
    ps_trace_event *event = &lane->events[lane->count++ & lane->mask];
    event->kind = kind;
    event->detail = detail;
    event->start_ns = start_ns;
    event->end_ns = end_ns;
    for (uint32_t i = 0; i < PS_TRACE_ARGUMENTS_MAX && kind->arguments[i] != NULL; i++) {
        event->arguments[i] = arguments[i];
    }
}

uint64_t ps_trace_lane_dropped(const ps_trace_lane *lane)
{
    return lane->count > lane->mask + 1 ? lane->count - (lane->mask + 1) : 0;
}

uint64_t ps_trace_dropped(const ps_trace *trace)
{
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < trace->lane_count; i++) {
        dropped += ps_trace_lane_dropped(trace->lanes[i]);
    }
    return dropped;
}
