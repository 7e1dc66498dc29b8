// cli/cmd_overlap.c - `prestage overlap`: what prefetching did, read off a trace.
//
// For each worker of each rank, runs of the plan are cut at its first operator. In a run, a
// prefetch belongs to the operator of its site and layer that comes next on the worker's lane, its
// reader.
//   fired    prefetches of a site, and the bytes that they moved
//   in time  the share of the bytes asked for that had been moved when the wait was over; slack:
//            from the end of the prefetch to the start of its reader
//   kept     the reader's time behind a prefetch against its time in control runs, which have none
//   paid     the time of a run against that of a control run without any
// All of it for prefetches at collectives, at barriers, under vector operators and of dedicated
// threads apart.
#include "cli/commands.h"
#include "cli/json_reader.h"
#include "cli/json_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SITES_MAX 16u
#define LAYERS_MAX 4096u
#define WORKERS_MAX 256u

typedef enum window { AT_COMM, AT_BARRIER, AT_VECTOR, BESIDE, WINDOWS } window;

typedef struct event {
    double start, end; // microseconds
    uint32_t worker;
    bool is_prefetch;
    window window;        // of a prefetch
    uint32_t site, layer; // site SITES_MAX: none
    double bytes, asked;
    bool starts_run;
} event;

typedef struct list {
    double *values;
    size_t count, capacity;
} list;

// What is counted of a site in one kind of window.
typedef struct counts {
    uint64_t fired;
    double moved, asked;
    list slack, with;
} counts;

typedef struct site {
    char name[24];
    counts in[WINDOWS];
    list without; // its readers without a prefetch of any kind
} site;

typedef struct overlap {
    event *events;
    size_t count;
    site sites[SITES_MAX];
    uint32_t site_count;
    list runs_with, runs_without;
} overlap;

static ps_status push(list *to, double value)
{
    if (to->count == to->capacity) {
        const size_t capacity = to->capacity * 2 + 64;
        double *values = realloc(to->values, capacity * sizeof *values);
        if (values == NULL) {
            return ps_fail(PS_NO_MEMORY, "no memory for the events of the trace");
        }
        to->values = values;
        to->capacity = capacity;
    }
    to->values[to->count++] = value;
    return PS_OK;
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(list *of)
{
    if (of->count == 0) {
        return NAN;
    }
    qsort(of->values, of->count, sizeof of->values[0], by_value);
    return of->values[of->count / 2];
}

// ---- reading

static uint32_t find_site(overlap *o, const char *name)
{
    for (uint32_t i = 0; i < o->site_count; i++) {
        if (strcmp(o->sites[i].name, name) == 0) {
            return i;
        }
    }
    if (o->site_count == SITES_MAX || strlen(name) >= sizeof o->sites[0].name) {
        return SITES_MAX;
    }
    (void)snprintf(o->sites[o->site_count].name, sizeof o->sites[0].name, "%s", name);
    return o->site_count++;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value == NULL ? "" : value;
}

// Lanes are named "worker 3", "prefetch 3" and "side 3"; the number of a worker is that of its rank
// and its own.
typedef struct lane {
    int64_t process, thread;
    bool is_prefetch;
    uint32_t worker;
} lane;

typedef struct lanes {
    lane list[3 * WORKERS_MAX];
    uint32_t count;
} lanes;

static void note_lane(lanes *all, const json_t *entry)
{
    const char *name = text(json_object_get(entry, "args"), "name");
    unsigned worker = 0;
    const bool is_prefetch = sscanf(name, "prefetch %u", &worker) == 1 ||
                             sscanf(name, "side %u", &worker) == 1;
    const int64_t process = json_integer_value(json_object_get(entry, "pid"));
    if ((is_prefetch || sscanf(name, "worker %u", &worker) == 1) && worker < WORKERS_MAX &&
        process >= 0 && process < WORKERS_MAX && all->count < 3 * WORKERS_MAX) {
        all->list[all->count++] = (lane){
            .process = process,
            .thread = json_integer_value(json_object_get(entry, "tid")),
            .is_prefetch = is_prefetch,
            .worker = (uint32_t)process * WORKERS_MAX + worker};
    }
}

static const lane *lane_of(const lanes *all, const json_t *entry)
{
    const int64_t process = json_integer_value(json_object_get(entry, "pid"));
    const int64_t thread = json_integer_value(json_object_get(entry, "tid"));
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->list[i].process == process && all->list[i].thread == thread) {
            return &all->list[i];
        }
    }
    return NULL;
}

static void read_event(overlap *o, const lanes *all, const json_t *entry)
{
    const lane *where = lane_of(all, entry);
    const char *category = text(entry, "cat");
    if (where == NULL || strcmp(text(entry, "ph"), "X") != 0 || strcmp(category, "wait") == 0 ||
        strcmp(category, "run") == 0) {
        return;
    }
    const char *name = text(entry, "name");
    const char *site_name = strchr(name, ' ');
    const json_t *arguments = json_object_get(entry, "args");
    event *e = &o->events[o->count++];
    *e = (event){.start = number(entry, "ts"),
                 .worker = where->worker,
                 .is_prefetch = where->is_prefetch,
                 .window = strncmp(name, "barrier", 7) == 0  ? AT_BARRIER
                           : strncmp(name, "vector", 6) == 0 ? AT_VECTOR
                           : strncmp(name, "side", 4) == 0   ? BESIDE
                                                             : AT_COMM,
                 .site = site_name == NULL ? SITES_MAX : find_site(o, site_name + 1),
                 .layer = (uint32_t)number(arguments, "layer"),
                 .bytes = number(arguments, "bytes"),
                 .asked = number(arguments, "asked"),
                 .starts_run = strcmp(name, "embed") == 0};
    e->end = e->start + number(entry, "dur");
}

static int by_worker_and_start(const void *a, const void *b)
{
    const event *left = a;
    const event *right = b;
    if (left->worker != right->worker) {
        return left->worker < right->worker ? -1 : 1;
    }
    return (left->start > right->start) - (left->start < right->start);
}

static ps_status read_trace(const char *path, overlap *o)
{
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);
    if (document == NULL) {
        return ps_fail(PS_INVALID, "%s: no trace: %s at line %d", path, error.text, error.line);
    }
    const json_t *entries = json_is_array(document) ? document
                                                    : json_object_get(document, "traceEvents");
    lanes *all = calloc(1, sizeof *all);
    o->events = calloc(json_array_size(entries) + 1, sizeof *o->events);
    ps_status status = all == NULL || o->events == NULL
                           ? ps_fail(PS_NO_MEMORY, "no memory for the events of the trace")
                           : PS_OK;
    for (size_t i = 0; status == PS_OK && i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        if (strcmp(text(entry, "name"), "thread_name") == 0) {
            note_lane(all, entry);
        }
    }
    for (size_t i = 0; status == PS_OK && i < json_array_size(entries); i++) {
        read_event(o, all, json_array_get(entries, i));
    }
    json_decref(document);
    free(all);
    if (status == PS_OK && o->count == 0) {
        return ps_fail(PS_INVALID,
                       "%s: holds no lanes of workers; prestage run --trace FILE makes one", path);
    }
    if (status == PS_OK) {
        qsort(o->events, o->count, sizeof o->events[0], by_worker_and_start);
    }
    return status;
}

// ---- pairing

// The reader of a prefetch, in the run [at, end): the next operator of its site and layer.
static const event *reader_of(const overlap *o, size_t at, size_t end)
{
    const event *prefetch = &o->events[at];
    for (size_t i = at + 1; i < end; i++) {
        const event *e = &o->events[i];
        if (!e->is_prefetch && e->site == prefetch->site && e->layer == prefetch->layer) {
            return e;
        }
    }
    return NULL;
}

static ps_status count_prefetch(overlap *o, size_t at, size_t end)
{
    const event *e = &o->events[at];
    const event *reader = reader_of(o, at, end);
    counts *c = &o->sites[e->site].in[e->window];
    c->fired++;
    c->moved += e->bytes;
    c->asked += e->asked;
    return reader == NULL ? PS_OK : push(&c->slack, reader->start - e->end);
}

// Counts the time of an operator with the prefetches that have moved something for it, or without
// any.
static ps_status count_reader(overlap *o, size_t begin, size_t end, const event *reader)
{
    site *s = &o->sites[reader->site];
    bool has[WINDOWS] = {false};
    bool is_control = true;
    for (size_t i = begin; i < end && o->events[i].start <= reader->start; i++) {
        const event *e = &o->events[i];
        if (e->is_prefetch && e->site == reader->site && e->layer == reader->layer) {
            is_control = false;
            has[e->window] |= e->bytes > 0;
        }
    }
    const double time = reader->end - reader->start;
    for (uint32_t w = 0; w < WINDOWS; w++) {
        if (has[w]) {
            PS_TRY(push(&s->in[w].with, time));
        }
    }
    return is_control ? push(&s->without, time) : PS_OK;
}

static ps_status count_run(overlap *o, size_t begin, size_t end)
{
    uint32_t prefetches = 0;
    for (size_t i = begin; i < end; i++) {
        if (o->events[i].is_prefetch && o->events[i].site < SITES_MAX) {
            prefetches++;
            PS_TRY(count_prefetch(o, i, end));
        }
    }
    // The first layer's operators stand before the first wait, and never have a prefetch.
    for (size_t i = begin; i < end; i++) {
        const event *e = &o->events[i];
        if (!e->is_prefetch && e->site < SITES_MAX && e->layer > 1) {
            PS_TRY(count_reader(o, begin, end, e));
        }
    }
    return push(prefetches > 0 ? &o->runs_with : &o->runs_without,
                o->events[end - 1].end - o->events[begin].start);
}

static ps_status count_runs(overlap *o)
{
    size_t begin = 0;
    for (size_t i = 1; i <= o->count; i++) {
        const bool ends = i == o->count || o->events[i].worker != o->events[begin].worker ||
                          (o->events[i].starts_run && !o->events[i].is_prefetch);
        if (ends) {
            if (o->events[begin].starts_run) { // a ring may have lost the start of the oldest run
                PS_TRY(count_run(o, begin, i));
            }
            begin = i;
        }
    }
    return PS_OK;
}

// ---- results

// What is said of a site in a kind of window.
typedef struct finding {
    const char *site, *window;
    bool is_among_workers;
    const counts *of;
    double in_time;              // bytes moved of those asked for
    double slack, with, without; // microseconds, medians
    double kept;                 // with / without; NaN: the trace has no control run
} finding;

static uint32_t find_all(overlap *o, finding out[SITES_MAX * WINDOWS])
{
    static const char *const NAMES[WINDOWS] = {"comm", "barrier", "vector", "side"};
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->site_count * WINDOWS; i++) {
        site *s = &o->sites[i / WINDOWS];
        counts *c = &s->in[i % WINDOWS];
        if (c->fired > 0) {
            finding *f = &out[count++];
            *f = (finding){.site = s->name,
                           .window = NAMES[i % WINDOWS],
                           .is_among_workers = i % WINDOWS != AT_COMM,
                           .of = c,
                           .in_time = c->moved / c->asked,
                           .slack = median(&c->slack),
                           .with = median(&c->with),
                           .without = median(&s->without)};
            f->kept = f->with / f->without;
        }
    }
    return count;
}

// Among workers the last one does not wait, and moves nothing in time.
static const char *advice(const finding *f)
{
    return isnan(f->kept)   ? "no control run in the trace"
           : f->kept > 0.98 ? "off: the reader is no faster"
           : f->in_time < 0.9 && !f->is_among_workers
               ? "smaller, or a longer wait: not all of it comes in time"
           : f->slack > 20 ? "larger, if there is more to fetch: it is done early"
                           : "as it is";
}

// What is not known is left out.
static void print_cell(int width, int decimals, double value)
{
    if (isnan(value)) {
        (void)printf("| %*s ", width, "-");
    } else {
        (void)printf("| %*.*f ", width, decimals, value);
    }
}

static void print_table(overlap *o, const finding *findings, uint32_t count)
{
    (void)printf(
        "| site        | window  |    fired | MB each | in time | slack us | reader us | without | "
        " kept | advice |\n| ----------- | ------- | -------: | ------: | ------: | -------: | "
        "--------: | ------: | ----: | ------ |\n");
    for (uint32_t i = 0; i < count; i++) {
        const finding *f = &findings[i];
        (void)printf("| %-11s | %-7s | %8llu | %7.3f ", f->site, f->window,
                     (unsigned long long)f->of->fired, f->of->moved / (double)f->of->fired / 1e6);
        print_cell(7, 3, f->in_time);
        print_cell(8, 1, f->slack);
        print_cell(9, 1, f->with);
        print_cell(7, 1, f->without);
        print_cell(5, 2, f->kept);
        (void)printf("| %s |\n", advice(f));
    }
    (void)printf("\n%zu runs with prefetching", o->runs_with.count);
    if (o->runs_with.count > 0) {
        (void)printf(", %.1f us", median(&o->runs_with));
    }
    if (o->runs_without.count > 0) {
        (void)printf("; %zu without any, %.1f us", o->runs_without.count, median(&o->runs_without));
    }
    (void)puts("");
}

static ps_status print_json(overlap *o, const finding *findings, uint32_t count)
{
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_begin(&json, "sites", '[');
    for (uint32_t i = 0; i < count; i++) {
        const finding *f = &findings[i];
        ps_json_begin(&json, NULL, '{');
        ps_json_text(&json, "site", f->site);
        ps_json_text(&json, "window", f->window);
        ps_json_integer(&json, "fired", (int64_t)f->of->fired);
        ps_json_number(&json, "moved_bytes", f->of->moved);
        ps_json_number(&json, "asked_bytes", f->of->asked);
        ps_json_number(&json, "slack_us", f->slack);
        ps_json_number(&json, "reader_us", f->with);
        ps_json_number(&json, "reader_without_us", f->without);
        ps_json_text(&json, "advice", advice(f));
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_integer(&json, "runs", (int64_t)o->runs_with.count);
    ps_json_number(&json, "run_us", median(&o->runs_with));
    ps_json_integer(&json, "control_runs", (int64_t)o->runs_without.count);
    ps_json_number(&json, "control_run_us", median(&o->runs_without));
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

ps_status ps_cli_overlap(const ps_cli_options *options)
{
    if (options->model == NULL) {
        return ps_fail(PS_INVALID, "no trace given; the first argument would be right");
    }
    overlap *o = calloc(1, sizeof *o);
    if (o == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a trace");
    }
    ps_status status = read_trace(options->model, o);
    if (status == PS_OK) {
        status = count_runs(o);
    }
    if (status == PS_OK) {
        finding findings[SITES_MAX * WINDOWS];
        const uint32_t count = find_all(o, findings);
        if (options->json) {
            status = print_json(o, findings, count);
        } else {
            print_table(o, findings, count);
        }
    }
    for (uint32_t i = 0; i < SITES_MAX; i++) {
        for (uint32_t w = 0; w < WINDOWS; w++) {
            free(o->sites[i].in[w].slack.values);
            free(o->sites[i].in[w].with.values);
        }
        free(o->sites[i].without.values);
    }
    free(o->runs_with.values);
    free(o->runs_without.values);
    free(o->events);
    free(o);
    return status;
}
