// trace/trace_internal.h - rings of events: between trace.c and trace_write.c.
#ifndef PS_TRACE_TRACE_INTERNAL_H
#define PS_TRACE_TRACE_INTERNAL_H

#include "trace/trace.h"

typedef struct ps_trace_event {
    const ps_trace_kind *kind;
    const char *detail;
    uint64_t start_ns, end_ns;
    int64_t arguments[PS_TRACE_ARGUMENTS_MAX];
    uint64_t unused; // an event is a cache line
} ps_trace_event;

struct ps_trace_lane {
    char *name;
    ps_trace_event *events; // [mask + 1]; event n is at n & mask
    uint64_t mask;
    uint64_t count; // recorded so far, the dropped ones too
};

typedef struct ps_trace_text {
    char *key, *text;
} ps_trace_text;

struct ps_trace {
    uint32_t process;
    char *process_name;
    uint32_t lane_count, note_count;
    ps_trace_lane *lanes[PS_TRACE_LANES_MAX];
    ps_trace_text notes[PS_TRACE_NOTES_MAX];
};

// Events of a lane that have been overwritten.
uint64_t ps_trace_lane_dropped(const ps_trace_lane *lane);

#endif
