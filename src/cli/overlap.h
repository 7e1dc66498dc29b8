// cli/overlap.h - what `prestage overlap` holds of a trace: for the two files that read it only.
//
// Times are microseconds.
#ifndef PS_CLI_OVERLAP_H
#define PS_CLI_OVERLAP_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define PS_OVERLAP_SITES 16u
#define PS_OVERLAP_WORKERS 256u // of a rank

typedef enum ps_overlap_window {
    PS_OVERLAP_COMM,
    PS_OVERLAP_BARRIER,
    PS_OVERLAP_VECTOR,
    PS_OVERLAP_SIDE,
    PS_OVERLAP_WINDOWS
} ps_overlap_window;

typedef struct ps_overlap_event {
    double start, end;
    uint32_t worker; // its rank times PS_OVERLAP_WORKERS, and its own number
    bool is_prefetch, is_vector, starts_run;
    ps_overlap_window window; // of a prefetch
    uint32_t site, layer;     // site PS_OVERLAP_SITES: none
    double bytes, asked;      // bytes: that a prefetch moved, or that all workers read
} ps_overlap_event;

typedef struct ps_overlap_list {
    double *values;
    size_t count, capacity;
} ps_overlap_list;

// PS_NO_MEMORY.
PS_MUST_USE ps_status ps_overlap_push(ps_overlap_list *to, double value);
double ps_overlap_median(ps_overlap_list *of); // sorts it; NaN: it is empty

// The vector operators before the readers of a site, and the prefetches that they hide.
typedef struct ps_overlap_cover {
    // The worker that has most of them: time with prefetches of the site, and in runs without.
    ps_overlap_list with, without;
    // Of workers that have moved something: from the first byte to the last; how much of that the
    // vector operators ran; and from its end to theirs.
    ps_overlap_list prefetch, overlap, slack;
    double moved, asked;             // by those workers
    double all_asked, all_of_weight; // by all workers
} ps_overlap_cover;

typedef struct ps_overlap_trace {
    ps_overlap_event *events; // by worker, then by start
    size_t count;
    ps_overlap_cover covers[PS_OVERLAP_SITES];
} ps_overlap_trace;

// Counts what hides the prefetches of the window `vector` for the reader at events[reader], whose
// run begins at events[begin]. PS_NO_MEMORY.
PS_MUST_USE ps_status ps_overlap_count_cover(ps_overlap_trace *trace, size_t begin, size_t reader);

void ps_overlap_cover_deinit(ps_overlap_cover *cover);

#endif
