// engine/tune_machine.c - one measurement after the other, all ranks at the same one.
#include "engine/tune_machine.h"

#include "base/pages.h"
#include "base/quantile.h"
#include "engine/calibrate.h"
#include "engine/calibrate_steps.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define RUNS 15u
#define PASSES 5u

static const uint64_t SIZES[] = {256,   1024,  4096,   8192,   16384,
                                 32768, 65536, 131072, 262144, 524288};
#define SIZE_COUNT (sizeof SIZES / sizeof SIZES[0])
_Static_assert(SIZE_COUNT <= PS_TUNED_COLLECTIVES_MAX, "a file holds all sizes");

typedef struct tuner {
    ps_ranks *ranks;
    const ps_tune_options *options;
    ps_kernels kernels;
    ps_team *team;
    char *memory; // [bytes]
    uint64_t bytes;
    ps_tuned *tuned;
} tuner;

// All ranks are here, and go on or end together.
static ps_status step(const tuner *t, double fraction)
{
    uint32_t is_cancelled = t->options->cancel != NULL && *t->options->cancel;
    PS_TRY(ps_ranks_share(t->ranks, &is_cancelled, sizeof is_cancelled));
    if (is_cancelled != 0) {
        return ps_fail(PS_CANCELLED, "cancelled");
    }
    if (t->options->progress != NULL) {
        t->options->progress(t->options->progress_context, fraction);
    }
    return PS_OK;
}

static ps_status prepare(tuner *t)
{
    ps_machine *machine = &t->tuned->machine;
    const uint32_t threads = t->options->threads > 0
                                 ? t->options->threads
                                 : ps_machine_default_threads(ps_ranks_here(t->ranks));
    PS_TRY(ps_kernels_select(&t->kernels));
    PS_TRY(ps_machine_discover(threads, machine));
    PS_TRY(ps_tuned_key_here(machine, t->kernels.isa, t->ranks, 1, NULL, &t->tuned->key));
    PS_TRY(ps_team_create(threads, &t->team));
    void *memory;
    PS_TRY(ps_calibrate_fill_bytes(machine, ps_ranks_here(t->ranks), &t->bytes));
    PS_TRY(ps_pages_map(t->bytes, "measuring", &memory));
    t->memory = memory;
    return PS_OK;
}

// The line through the time of few bytes that is off by the smallest part of each time.
static void fit_line(const ps_tuned *tuned, ps_comm_tuning *comm)
{
    double products = 0;
    double squares = 0;
    comm->ns = tuned->collectives[0].ns;
    for (uint32_t i = 1; i < tuned->collective_count; i++) {
        const ps_tuned_collective *c = &tuned->collectives[i];
        const double bytes = (double)(c->bytes - tuned->collectives[0].bytes);
        products += bytes * (c->ns - comm->ns) / (c->ns * c->ns);
        squares += bytes * bytes / (c->ns * c->ns);
    }
    comm->gbs = products > 0 ? squares / products : 1e6;
}

static ps_status measure_collectives(tuner *t)
{
    double ns[SIZE_COUNT];
    ps_comm *comm = ps_ranks_comm(t->ranks);
    ps_tuned *tuned = t->tuned;
    tuned->comm = (ps_comm_tuning){.ns = tuned->machine.comm_ns, .gbs = tuned->machine.comm_gbs};
    if (ps_ranks_size(t->ranks) == 1) {
        return PS_OK;
    }
    PS_TRY(ps_comm_tune(comm, &tuned->comm));
    PS_TRY(ps_comm_measure(comm, SIZES, SIZE_COUNT, ns));
    for (uint32_t i = 0; i < SIZE_COUNT; i++) {
        tuned->collectives[i] = (ps_tuned_collective){SIZES[i], ns[i] < 1 ? 1 : ns[i]};
    }
    tuned->collective_count = SIZE_COUNT;
    fit_line(tuned, &tuned->comm);
    tuned->machine.comm_ns = tuned->comm.ns;
    tuned->machine.comm_gbs = tuned->comm.gbs;
    return PS_OK;
}

// ---- what a worker does

// Whoever disturbs makes nothing faster, but may make a difference of two measurements anything.
typedef enum choice { MOST, LEAST, MIDDLE } choice;

#define RATE(field, which)                                                                         \
    {                                                                                              \
        offsetof(ps_machine, field), which                                                         \
    }
static const struct {
    size_t at; // of a double
    choice which;
} RATES[] = {
    RATE(read_gbs, MOST),
    RATE(cache_read_gbs, MOST),
    RATE(linear_share, MIDDLE),
    RATE(int8_gops, MOST),
    RATE(f32_gops, MOST),
    RATE(barrier_ns, LEAST),
    RATE(workers.read_gbs, MOST),
    RATE(workers.kv_gbs, MOST),
    RATE(workers.attention_gops, MOST),
    RATE(workers.overlap, MIDDLE),
    RATE(workers.vector_gbs, MOST),
    RATE(workers.meet_ns, MIDDLE),
    RATE(workers.step_ns, LEAST),
};

static double choose(double values[PASSES], choice which)
{
    const double median = ps_median(values, PASSES); // sorts
    return which == MIDDLE ? median : values[which == MOST ? PASSES - 1 : 0];
}

static double *rate_at(ps_machine *machine, size_t at)
{
    return (double *)(void *)((char *)machine + at);
}

static void choose_rate(ps_machine passes[PASSES], size_t at, choice which, ps_machine *out)
{
    double values[PASSES];
    for (uint32_t i = 0; i < PASSES; i++) {
        values[i] = *rate_at(&passes[i], at);
    }
    *rate_at(out, at) = choose(values, which);
}

// All of it again and again, because what disturbs one measurement would disturb all runs of it.
static ps_status measure_workers(tuner *t)
{
    ps_machine *machine = &t->tuned->machine;
    ps_machine passes[PASSES];
    for (uint32_t i = 0; i < PASSES; i++) {
        ps_machine *pass = &passes[i];
        *pass = *machine;
        PS_TRY(step(t, 0.7 * i / PASSES));
        pass->read_gbs = ps_calibrate_read_of(t->team, &t->kernels, t->memory, t->bytes, RUNS);
        PS_TRY(ps_calibrate_workers(t->team, &t->kernels, RUNS, pass));
        ps_calibrate_steps(t->team, &t->kernels, t->memory, t->bytes, RUNS, pass);
    }
    for (size_t i = 0; i < sizeof RATES / sizeof RATES[0]; i++) {
        choose_rate(passes, RATES[i].at, RATES[i].which, machine);
    }
    for (size_t i = 0; i < PS_DTYPE_COUNT; i++) {
        choose_rate(passes, offsetof(ps_machine, workers.linear_gops) + i * sizeof(double), MOST,
                    machine);
    }
    return PS_OK;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static ps_status measure(tuner *t)
{
    ps_tuned *tuned = t->tuned;
    ps_machine *machine = &tuned->machine;
    PS_TRY(measure_workers(t));
    PS_TRY(step(t, 0.7));
    tuned->fill_count = ps_calibrate_fill(t->team, &t->kernels, machine, ps_ranks_here(t->ranks),
                                          t->memory, t->bytes, tuned->fills);
    machine->fill_gbs = tuned->fills[0].l2_gbs; // loads, as whoever waits fills
    // These are reads from memory, too, and whoever disturbs makes none of them faster.
    machine->read_gbs = larger(machine->read_gbs,
                               larger(tuned->fills[0].l2_gbs, tuned->fills[0].llc_gbs));
    PS_TRY(step(t, 0.9));
    PS_TRY(measure_collectives(t));
    return step(t, 1);
}

static void set_date(ps_tuned *tuned)
{
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) == NULL ||
        strftime(tuned->date, sizeof tuned->date, "%Y-%m-%d", &parts) == 0) {
        (void)snprintf(tuned->date, sizeof tuned->date, "unknown");
    }
    (void)snprintf(tuned->machine.source, sizeof tuned->machine.source, "tuned %s", tuned->date);
}

ps_status ps_tune(ps_ranks *ranks, const ps_tune_options *options, ps_tuned *out)
{
    ps_tuned tuned = {0};
    tuner t = {.ranks = ranks, .options = options, .tuned = &tuned};
    ps_status status = ps_ranks_agree(ranks, prepare(&t));
    if (status == PS_OK) {
        status = measure(&t);
    }
    if (status == PS_OK) {
        set_date(&tuned);
        *out = tuned;
    }
    ps_pages_unmap(t.memory, t.bytes);
    ps_team_destroy(t.team);
    return status;
}
