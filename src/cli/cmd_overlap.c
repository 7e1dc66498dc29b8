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
// threads apart. Those under vector operators are held against these operators, too
// (overlap_cover.c): how much of a prefetch they hide, whether it ends before they do, and what it
// costs them.
#include "base/ops.h"
#include "cli/commands.h"
#include "cli/json_reader.h"
#include "cli/json_writer.h"
#include "cli/overlap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 4096u
#define NUMBER_MAX 1e15 // of microseconds, and of bytes

// What is counted of a site in one kind of window.
typedef struct counts {
    uint64_t fired;
    double moved, asked;
    ps_overlap_list slack, with;
} counts;

typedef struct site {
    char name[24];
    counts in[PS_OVERLAP_WINDOWS];
    ps_overlap_list without; // its readers without a prefetch of any kind
} site;

typedef struct overlap {
    ps_overlap_trace trace;
    site sites[PS_OVERLAP_SITES];
    uint32_t site_count;
    ps_overlap_list runs_with, runs_without;
} overlap;

ps_status ps_overlap_push(ps_overlap_list *to, double value)
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

double ps_overlap_median(ps_overlap_list *of)
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
    if (o->site_count == PS_OVERLAP_SITES || strlen(name) >= sizeof o->sites[0].name) {
        return PS_OVERLAP_SITES;
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
    lane list[3 * PS_OVERLAP_WORKERS];
    uint32_t count;
} lanes;

static void note_lane(lanes *all, const json_t *entry)
{
    const char *name = text(json_object_get(entry, "args"), "name");
    unsigned worker = 0;
    const bool is_prefetch = sscanf(name, "prefetch %u", &worker) == 1 ||
                             sscanf(name, "side %u", &worker) == 1;
    const int64_t process = json_integer_value(json_object_get(entry, "pid"));
    if ((is_prefetch || sscanf(name, "worker %u", &worker) == 1) && worker < PS_OVERLAP_WORKERS &&
        process >= 0 && process < PS_OVERLAP_WORKERS && all->count < 3 * PS_OVERLAP_WORKERS) {
        all->list[all->count++] = (lane){
            .process = process,
            .thread = json_integer_value(json_object_get(entry, "tid")),
            .is_prefetch = is_prefetch,
            .worker = (uint32_t)process * PS_OVERLAP_WORKERS + worker};
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

// "linear mlp.down": its operator is a vector operator?
static bool is_vector(const char *name)
{
    const size_t length = strcspn(name, " ");
    for (uint32_t op = 0; op < PS_OP_COUNT; op++) {
        const ps_op_info *info = ps_op_get((ps_op)op);
        if (strlen(info->name) == length && strncmp(info->name, name, length) == 0) {
            return (info->flags & PS_OP_VECTOR) != 0;
        }
    }
    return false;
}

static bool is_number(double value, double least, double most)
{
    return value >= least && value <= most;
}

static ps_status read_event(overlap *o, const lanes *all, const json_t *entry)
{
    const lane *where = lane_of(all, entry);
    const char *category = text(entry, "cat");
    if (where == NULL || strcmp(text(entry, "ph"), "X") != 0 || strcmp(category, "wait") == 0 ||
        strcmp(category, "run") == 0) {
        return PS_OK;
    }
    const char *name = text(entry, "name");
    const char *site_name = strchr(name, ' ');
    const json_t *arguments = json_object_get(entry, "args");
    const double start = number(entry, "ts");
    const double duration = number(entry, "dur");
    const double layer = number(arguments, "layer");
    const double bytes = number(arguments, "bytes");
    const double asked = number(arguments, "asked");
    if (!is_number(start, 0, NUMBER_MAX) || !is_number(duration, 0, NUMBER_MAX) ||
        !is_number(layer, 0, LAYERS_MAX) || !is_number(bytes, 0, NUMBER_MAX) ||
        !is_number(asked, 0, NUMBER_MAX)) {
        return ps_fail(PS_INVALID,
                       "event '%.40s': ts %g, dur %g, layer %g, bytes %g, asked %g: from 0 to %g, "
                       "layers to %u, would be right",
                       name, start, duration, layer, bytes, asked, NUMBER_MAX, LAYERS_MAX);
    }
    o->trace.events[o->trace.count++] = (ps_overlap_event){
        .start = start,
        .end = start + duration,
        .worker = where->worker,
        .is_prefetch = where->is_prefetch,
        .is_vector = is_vector(name),
        .starts_run = strcmp(name, "embed") == 0,
        .window = strncmp(name, "barrier", 7) == 0  ? PS_OVERLAP_BARRIER
                  : strncmp(name, "vector", 6) == 0 ? PS_OVERLAP_VECTOR
                  : strncmp(name, "side", 4) == 0   ? PS_OVERLAP_SIDE
                                                    : PS_OVERLAP_COMM,
        .site = site_name == NULL ? PS_OVERLAP_SITES : find_site(o, site_name + 1),
        .layer = (uint32_t)layer,
        .bytes = bytes,
        .asked = asked};
    return PS_OK;
}

static int by_worker_and_start(const void *a, const void *b)
{
    const ps_overlap_event *left = a;
    const ps_overlap_event *right = b;
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
    o->trace.events = calloc(json_array_size(entries) + 1, sizeof *o->trace.events);
    ps_status status = all == NULL || o->trace.events == NULL
                           ? ps_fail(PS_NO_MEMORY, "no memory for the events of the trace")
                           : PS_OK;
    for (size_t i = 0; status == PS_OK && i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        if (strcmp(text(entry, "name"), "thread_name") == 0) {
            note_lane(all, entry);
        }
    }
    for (size_t i = 0; status == PS_OK && i < json_array_size(entries); i++) {
        status = read_event(o, all, json_array_get(entries, i));
    }
    json_decref(document);
    free(all);
    if (status == PS_OK && o->trace.count == 0) {
        return ps_fail(PS_INVALID,
                       "%s: holds no lanes of workers; prestage run --trace FILE makes one", path);
    }
    if (status == PS_INVALID) {
        return ps_fail_prefix(status, "%s", path);
    }
    if (status == PS_OK) {
        qsort(o->trace.events, o->trace.count, sizeof o->trace.events[0], by_worker_and_start);
    }
    return status;
}

// ---- pairing

// The reader of a prefetch, in the run [at, end): the next operator of its site and layer.
static const ps_overlap_event *reader_of(const overlap *o, size_t at, size_t end)
{
    const ps_overlap_event *prefetch = &o->trace.events[at];
    for (size_t i = at + 1; i < end; i++) {
        const ps_overlap_event *e = &o->trace.events[i];
        if (!e->is_prefetch && e->site == prefetch->site && e->layer == prefetch->layer) {
            return e;
        }
    }
    return NULL;
}

static ps_status count_prefetch(overlap *o, size_t at, size_t end)
{
    const ps_overlap_event *e = &o->trace.events[at];
    const ps_overlap_event *reader = reader_of(o, at, end);
    counts *c = &o->sites[e->site].in[e->window];
    c->fired++;
    c->moved += e->bytes;
    c->asked += e->asked;
    return reader == NULL ? PS_OK : ps_overlap_push(&c->slack, reader->start - e->end);
}

// Counts the time of an operator with the prefetches that have moved something for it, or without
// any.
static ps_status count_reader(overlap *o, size_t begin, size_t end, const ps_overlap_event *reader)
{
    site *s = &o->sites[reader->site];
    bool has[PS_OVERLAP_WINDOWS] = {false};
    bool is_control = true;
    for (size_t i = begin; i < end && o->trace.events[i].start <= reader->start; i++) {
        const ps_overlap_event *e = &o->trace.events[i];
        if (e->is_prefetch && e->site == reader->site && e->layer == reader->layer) {
            is_control = false;
            has[e->window] |= e->bytes > 0;
        }
    }
    const double time = reader->end - reader->start;
    for (uint32_t w = 0; w < PS_OVERLAP_WINDOWS; w++) {
        if (has[w]) {
            PS_TRY(ps_overlap_push(&s->in[w].with, time));
        }
    }
    return is_control ? ps_overlap_push(&s->without, time) : PS_OK;
}

static ps_status count_run(overlap *o, size_t begin, size_t end)
{
    uint32_t prefetches = 0;
    for (size_t i = begin; i < end; i++) {
        if (o->trace.events[i].is_prefetch && o->trace.events[i].site < PS_OVERLAP_SITES) {
            prefetches++;
            PS_TRY(count_prefetch(o, i, end));
        }
    }
    // The first layer's operators stand before the first wait, and never have a prefetch.
    for (size_t i = begin; i < end; i++) {
        const ps_overlap_event *e = &o->trace.events[i];
        if (!e->is_prefetch && e->site < PS_OVERLAP_SITES && e->layer > 1) {
            PS_TRY(count_reader(o, begin, end, e));
            PS_TRY(e->is_vector ? PS_OK : ps_overlap_count_cover(&o->trace, begin, i));
        }
    }
    return ps_overlap_push(prefetches > 0 ? &o->runs_with : &o->runs_without,
                           o->trace.events[end - 1].end - o->trace.events[begin].start);
}

static ps_status count_runs(overlap *o)
{
    size_t begin = 0;
    for (size_t i = 1; i <= o->trace.count; i++) {
        const bool ends = i == o->trace.count ||
                          o->trace.events[i].worker != o->trace.events[begin].worker ||
                          (o->trace.events[i].starts_run && !o->trace.events[i].is_prefetch);
        if (ends) {
            if (o->trace.events[begin]
                    .starts_run) { // a ring may have lost the start of the oldest run
                PS_TRY(count_run(o, begin, i));
            }
            begin = i;
        }
    }
    return PS_OK;
}

// ---- results

// What vector operators do for prefetches, and these to them. Medians, microseconds; NaN: not
// known.
typedef struct cover {
    double with, without; // time of the vector operators
    double prefetch, overlap, slack;
    double in_time;   // bytes moved of those that workers were asked for that moved something
    double of_weight; // bytes asked for of those that readers read
} cover;

// What is said of a site in a kind of window.
typedef struct finding {
    const char *site, *window;
    ps_overlap_window kind;
    const counts *of;
    double in_time;              // bytes moved of those asked for
    double slack, with, without; // microseconds, medians
    double kept;                 // with / without; NaN: the trace has no control run
    cover cover;                 // of the window `vector`
} finding;

static cover cover_of(ps_overlap_cover *of)
{
    return (cover){.with = ps_overlap_median(&of->with),
                   .without = ps_overlap_median(&of->without),
                   .prefetch = ps_overlap_median(&of->prefetch),
                   .overlap = ps_overlap_median(&of->overlap),
                   .slack = ps_overlap_median(&of->slack),
                   .in_time = of->moved / of->asked,
                   .of_weight = of->all_asked / of->all_of_weight};
}

static uint32_t find_all(overlap *o, finding out[PS_OVERLAP_SITES * PS_OVERLAP_WINDOWS])
{
    static const char *const NAMES[PS_OVERLAP_WINDOWS] = {"comm", "barrier", "vector", "side"};
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->site_count * PS_OVERLAP_WINDOWS; i++) {
        const ps_overlap_window kind = (ps_overlap_window)(i % PS_OVERLAP_WINDOWS);
        site *s = &o->sites[i / PS_OVERLAP_WINDOWS];
        counts *c = &s->in[kind];
        if (c->fired > 0) {
            finding *f = &out[count++];
            *f = (finding){.site = s->name,
                           .window = NAMES[kind],
                           .kind = kind,
                           .of = c,
                           .in_time = c->moved / c->asked,
                           .slack = ps_overlap_median(&c->slack),
                           .with = ps_overlap_median(&c->with),
                           .without = ps_overlap_median(&s->without)};
            f->kept = f->with / f->without;
            if (kind == PS_OVERLAP_VECTOR) {
                f->cover = cover_of(&o->trace.covers[i / PS_OVERLAP_WINDOWS]);
            }
        }
    }
    return count;
}

// The check that the guide of vLLM-Ascend asks for: a prefetch ends no later than its vector
// operators, and what it costs them its reader has to gain.
static const char *vector_advice(const finding *f)
{
    const cover *c = &f->cover;
    const double gain = f->without - f->with;
    const double loss = c->with - c->without;
    return isnan(c->prefetch)    ? "off: no worker waits there long enough to move a byte"
           : isnan(f->kept)      ? "no control run in the trace"
           : f->kept > 0.98      ? "off: the reader is no faster"
           : loss > gain         ? "off: the vector operators lose more than the reader gains"
           : c->in_time < 0.9    ? "smaller: the wait ends before all of it is there"
           : c->slack < 0        ? "smaller: it ends after its vector operators"
           : c->of_weight > 0.98 ? "as it is: all of the weight comes in time"
           : c->slack > c->prefetch / 10 ? "larger: it ends before its vector operators do"
                                         : "as it is: it fills its window";
}

// Among workers the last one does not wait, and moves nothing in time.
static const char *advice(const finding *f)
{
    if (f->kind == PS_OVERLAP_VECTOR) {
        return vector_advice(f);
    }
    return isnan(f->kept)   ? "no control run in the trace"
           : f->kept > 0.98 ? "off: the reader is no faster"
           : f->in_time < 0.9 && f->kind == PS_OVERLAP_COMM
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

static void print_covers(const finding *findings, uint32_t count)
{
    bool has_any = false;
    for (uint32_t i = 0; i < count; i++) {
        const finding *f = &findings[i];
        const cover *c = &f->cover;
        if (f->kind != PS_OVERLAP_VECTOR) {
            continue;
        }
        if (!has_any) {
            (void)printf(
                "\nVector operators before a reader, the worker that has most; prefetches of "
                "workers "
                "that waited. Medians.\n\n"
                "| site        | vector us | without | slower %% | prefetch us | overlap us | "
                "slack us | in time | of weight |\n"
                "| ----------- | --------: | ------: | -------: | ----------: | ---------: | "
                "-------: | ------: | --------: |\n");
            has_any = true;
        }
        (void)printf("| %-11s ", f->site);
        print_cell(9, 1, c->with);
        print_cell(7, 1, c->without);
        print_cell(8, 1, c->without > 0 ? (c->with / c->without - 1) * 100 : NAN);
        print_cell(11, 1, c->prefetch);
        print_cell(10, 1, c->overlap);
        print_cell(8, 1, c->slack);
        print_cell(7, 3, c->in_time);
        print_cell(9, 3, c->of_weight);
        (void)printf("|\n");
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
    print_covers(findings, count);
    (void)printf("\n%zu runs with prefetching", o->runs_with.count);
    if (o->runs_with.count > 0) {
        (void)printf(", %.1f us", ps_overlap_median(&o->runs_with));
    }
    if (o->runs_without.count > 0) {
        (void)printf("; %zu without any, %.1f us", o->runs_without.count,
                     ps_overlap_median(&o->runs_without));
    }
    (void)puts("");
}

static void add_cover(ps_json_writer *json, const cover *c)
{
    ps_json_number(json, "vector_us", c->with);
    ps_json_number(json, "vector_without_us", c->without);
    ps_json_number(json, "prefetch_us", c->prefetch);
    ps_json_number(json, "overlap_us", c->overlap);
    ps_json_number(json, "vector_slack_us", c->slack);
    ps_json_number(json, "vector_in_time", c->in_time);
    ps_json_number(json, "asked_of_weight", c->of_weight);
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
        if (f->kind == PS_OVERLAP_VECTOR) {
            add_cover(&json, &f->cover);
        }
        ps_json_text(&json, "advice", advice(f));
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_integer(&json, "runs", (int64_t)o->runs_with.count);
    ps_json_number(&json, "run_us", ps_overlap_median(&o->runs_with));
    ps_json_integer(&json, "control_runs", (int64_t)o->runs_without.count);
    ps_json_number(&json, "control_run_us", ps_overlap_median(&o->runs_without));
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
        finding findings[PS_OVERLAP_SITES * PS_OVERLAP_WINDOWS];
        const uint32_t count = find_all(o, findings);
        if (options->json) {
            status = print_json(o, findings, count);
        } else {
            print_table(o, findings, count);
        }
    }
    for (uint32_t i = 0; i < PS_OVERLAP_SITES; i++) {
        for (uint32_t w = 0; w < PS_OVERLAP_WINDOWS; w++) {
            free(o->sites[i].in[w].slack.values);
            free(o->sites[i].in[w].with.values);
        }
        free(o->sites[i].without.values);
        ps_overlap_cover_deinit(&o->trace.covers[i]);
    }
    free(o->runs_with.values);
    free(o->runs_without.values);
    free(o->trace.events);
    free(o);
    return status;
}
