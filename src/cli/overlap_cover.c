// cli/overlap_cover.c - prefetches against the vector operators that are to hide them.
//
// The vector operators of a reader stand on each worker's lane between it and the last operator
// before it that reads weights or KV, or is a collective. Readers of several workers belong
// together when they are of one site and layer, and of one time: the nearest ones.
#include "cli/overlap.h"

#include <math.h>
#include <stdlib.h>

#define OPERATORS_MAX 8u // vector operators of one worker in a window; more are left out
#define NEAR_EVENTS 64u  // within so many events of a lane the reader of one run is found

typedef struct span {
    double start, end;
} span;

// What runs in one window on all workers of a rank.
typedef struct window {
    span list[OPERATORS_MAX * PS_OVERLAP_WORKERS];
    uint32_t count;
    uint32_t workers; // that have the reader
    double longest;   // time of the worker that has most
} window;

// ---- the window of a reader

// The first event behind the lane that events[at] is in.
static size_t lane_end(const ps_overlap_trace *trace, size_t at)
{
    size_t low = at;
    size_t high = trace->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (trace->events[middle].worker == trace->events[at].worker) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

// The first event in [begin, end), a lane, that does not start before `start`.
static size_t first_from(const ps_overlap_trace *trace, size_t begin, size_t end, double start)
{
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (trace->events[middle].start < start) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

static bool is_reader(const ps_overlap_event *e, const ps_overlap_event *like)
{
    return !e->is_prefetch && !e->is_vector && e->site == like->site && e->layer == like->layer;
}

// The nearest reader like `like` in a lane [begin, end); end: there is none.
static size_t find_reader(const ps_overlap_trace *trace, size_t begin, size_t end,
                          const ps_overlap_event *like)
{
    const size_t at = first_from(trace, begin, end, like->start);
    for (size_t distance = 0; distance < NEAR_EVENTS; distance++) {
        if (at + distance < end && is_reader(&trace->events[at + distance], like)) {
            return at + distance;
        }
        if (at > begin + distance && is_reader(&trace->events[at - distance - 1], like)) {
            return at - distance - 1;
        }
    }
    return end;
}

static void add_vectors(const ps_overlap_trace *trace, size_t begin, size_t reader, window *out)
{
    double time = 0;
    uint32_t count = 0;
    for (size_t i = reader; i-- > begin && count < OPERATORS_MAX;) {
        const ps_overlap_event *e = &trace->events[i];
        if (e->is_prefetch) {
            continue;
        }
        if (!e->is_vector) {
            break;
        }
        out->list[out->count++] = (span){e->start, e->end};
        time += e->end - e->start;
        count++;
    }
    out->longest = time > out->longest ? time : out->longest;
}

static int by_start(const void *a, const void *b)
{
    const span *left = a;
    const span *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

static void find_window(const ps_overlap_trace *trace, const ps_overlap_event *reader, window *out)
{
    const uint32_t rank = reader->worker / PS_OVERLAP_WORKERS;
    out->count = 0;
    out->workers = 0;
    out->longest = 0;
    for (size_t begin = 0; begin < trace->count;) {
        const size_t end = lane_end(trace, begin);
        if (trace->events[begin].worker / PS_OVERLAP_WORKERS == rank) {
            const size_t found = find_reader(trace, begin, end, reader);
            if (found < end) {
                add_vectors(trace, begin, found, out);
                out->workers++;
            }
        }
        begin = end;
    }
    qsort(out->list, out->count, sizeof out->list[0], by_start);
}

// ---- its prefetches

// All prefetches of one worker for a reader as one.
typedef struct group {
    span moving; // of those that moved something
    double moved, asked;
    bool is_there;
} group;

static group group_of(const ps_overlap_trace *trace, size_t begin, size_t reader)
{
    const ps_overlap_event *for_it = &trace->events[reader];
    group g = {.moving = {INFINITY, -INFINITY}};
    for (size_t i = begin; i < reader; i++) {
        const ps_overlap_event *e = &trace->events[i];
        if (!e->is_prefetch || e->window != PS_OVERLAP_VECTOR || e->site != for_it->site ||
            e->layer != for_it->layer) {
            continue;
        }
        g.is_there = true;
        g.moved += e->bytes;
        g.asked += e->asked;
        if (e->bytes > 0) {
            g.moving.start = fmin(g.moving.start, e->start);
            g.moving.end = fmax(g.moving.end, e->end);
        }
    }
    return g;
}

// How much of `of` lies in spans, which are in order of their starts.
static double time_inside(const window *in, span of)
{
    double time = 0;
    double done = of.start; // what lies before it is counted
    for (uint32_t i = 0; i < in->count; i++) {
        const double start = fmax(in->list[i].start, done);
        const double end = fmin(in->list[i].end, of.end);
        if (end > start) {
            time += end - start;
            done = end;
        }
    }
    return time;
}

static double end_of(const window *in)
{
    double end = -INFINITY;
    for (uint32_t i = 0; i < in->count; i++) {
        end = fmax(end, in->list[i].end);
    }
    return end;
}

static ps_status count_moved(ps_overlap_cover *cover, const window *in, const group *g)
{
    cover->moved += g->moved;
    cover->asked += g->asked;
    PS_TRY(ps_overlap_push(&cover->prefetch, g->moving.end - g->moving.start));
    PS_TRY(ps_overlap_push(&cover->overlap, time_inside(in, g->moving)));
    return in->count == 0 ? PS_OK : ps_overlap_push(&cover->slack, end_of(in) - g->moving.end);
}

ps_status ps_overlap_count_cover(ps_overlap_trace *trace, size_t begin, size_t reader)
{
    window in;
    const ps_overlap_event *e = &trace->events[reader];
    ps_overlap_cover *cover = &trace->covers[e->site];
    const group g = group_of(trace, begin, reader);
    find_window(trace, e, &in);
    PS_TRY(ps_overlap_push(g.is_there ? &cover->with : &cover->without, in.longest));
    if (g.is_there) {
        cover->all_asked += g.asked;
        cover->all_of_weight += e->bytes / in.workers;
    }
    return g.moved > 0 ? count_moved(cover, &in, &g) : PS_OK;
}

void ps_overlap_cover_deinit(ps_overlap_cover *cover)
{
    ps_overlap_list *const lists[] = {&cover->with, &cover->without, &cover->prefetch,
                                      &cover->overlap, &cover->slack};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        free(lists[i]->values);
    }
}
