// trace/trace.h - what happened when, as a Chrome trace: Perfetto (ui.perfetto.dev) opens it.
//
// A trace has lanes, one for each worker, stream or other sequence of events, shown as rows. A lane
// keeps its newest events in a ring that was allocated when it was added: recording writes one
// cache line, takes no lock, allocates nothing and makes no system call. What no longer fits is
// dropped, oldest first, counted, and said in the file.
//
// Everything that records takes a NULL lane and then does nothing: that is tracing switched off.
//
//     static const ps_trace_kind LINEAR = {"linear", "compute", {"layer", "bytes"}};
//     ...
//     const uint64_t start = ps_clock_ns();
//     compute();
//     ps_trace_span(lane, &LINEAR, "attn.qkv", start, ps_clock_ns(), (int64_t[]){layer, bytes});
//
// Threads: lanes and notes are added by one thread, before others record. A lane is recorded into
// by one thread at a time. Written when nobody records any more.
#ifndef PS_TRACE_TRACE_H
#define PS_TRACE_TRACE_H

#include "base/status.h"

#include <stdint.h>

#define PS_TRACE_LANES_MAX 1024u
#define PS_TRACE_NOTES_MAX 64u
#define PS_TRACE_LANE_EVENTS_MAX (1u << 20)
#define PS_TRACE_ARGUMENTS_MAX 3u

typedef struct ps_trace ps_trace;
typedef struct ps_trace_lane ps_trace_lane;

// What an event is. Static: traces keep the pointer.
typedef struct ps_trace_kind {
    const char *name;     // shown on the span
    const char *category; // to filter by, such as "compute", "wait", "prefetch"
    const char *arguments[PS_TRACE_ARGUMENTS_MAX]; // names; those behind a NULL are not used
} ps_trace_kind;

// process: the rank, which becomes the process in the file; its name is copied.
//
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_trace_create(uint32_t process, const char *process_name, ps_trace **out);
void ps_trace_destroy(ps_trace *trace); // with its lanes; NULL is allowed

// A row under the earlier ones. The name is copied. events_max is rounded up to a power of two; an
// event is 64 bytes. Touches all of the memory, so that recording takes no page faults.
//
// PS_INVALID    events_max is 0 or above PS_TRACE_LANE_EVENTS_MAX
// PS_EXHAUSTED  PS_TRACE_LANES_MAX
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_trace_lane_add(ps_trace *trace, const char *name, uint32_t events_max,
                                        ps_trace_lane **out);

// A text for the whole trace, such as the plan or the calibration; both are copied. A key that is
// there already is given twice in the file.
//
// PS_EXHAUSTED  PS_TRACE_NOTES_MAX; PS_NO_MEMORY
PS_MUST_USE ps_status ps_trace_note(ps_trace *trace, const char *key, const char *text);

// Something that took from start_ns to end_ns (ps_clock_ns). detail: a string that outlives the
// trace, or NULL; shown behind the kind's name. arguments: a value for each of the kind's names;
// NULL when it has none. Spans of a lane follow each other or nest.
void ps_trace_span(ps_trace_lane *lane, const ps_trace_kind *kind, const char *detail,
                   uint64_t start_ns, uint64_t end_ns, const int64_t *arguments);

// Events that have been dropped so far, of all lanes.
uint64_t ps_trace_dropped(const ps_trace *trace);

// Writes the file: first beside its place, then renamed, so that `path` only ever is a whole trace.
// Times are those of the monotonic clock, so traces of ranks of one host can be laid side by side.
// Bytes of names and texts that are not ASCII are written as '?'. The trace stays as it was.
//
// PS_IO         the file cannot be written; none is left
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_trace_write(const ps_trace *trace, const char *path);

// The same of several traces of different processes, count >= 1, in one file.
PS_MUST_USE ps_status ps_trace_write_all(const ps_trace *const *traces, uint32_t count,
                                         const char *path);

#endif
