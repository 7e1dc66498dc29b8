// engine/calibrate_fill.c - fills parts of a large memory, one after the other, and reads each
// again.
#include "engine/calibrate_fill.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/quantile.h"

#define BYTES_LEAST ((uint64_t)512 << 20)
#define WORKER_BYTES_LEAST ((uint64_t)1 << 20)
#define CACHES 4    // times the last level: nothing of the last round is left
#define LLC_PARTS 4 // times L2: what the last level alone holds
#define L2_ROUNDS 31
#define LLC_ROUNDS 15
#define ROUNDS_MAX L2_ROUNDS
#define STEPS 10000000u // of work, for its pace: about 10 ms
#define UNIT_BYTES 512u

static void prefetch_line(ps_fill primitive, const char *line)
{
    switch (primitive) { // the last argument of the builtin has to be a constant
    case PS_FILL_T0:
        __builtin_prefetch(line, 0, 3);
        break;
    case PS_FILL_T1:
        __builtin_prefetch(line, 0, 2);
        break;
    default:
        __builtin_prefetch(line, 0, 1);
        break;
    }
}

typedef struct job {
    const ps_kernels *kernels;
    const char *memory;
    uint64_t slice_bytes; // of each worker
    uint64_t part_bytes;  // filled at once by each
    uint64_t offset;      // of the part in the slice
    ps_fill primitive;
    uint32_t work; // steps between two lines; 0: back to back
    double fill_ns[PS_TEAM_WORKERS_MAX], again_ns[PS_TEAM_WORKERS_MAX];
} job;

// A chain that nothing can shorten, of about a nanosecond a step.
static inline uint64_t spend(uint64_t x, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        x = x * 3 + 1;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

static double step_ns(void)
{
    const uint64_t start = ps_clock_ns();
    (void)spend(1, STEPS);
    return (double)(ps_clock_ns() - start) / STEPS;
}

static void prefetch_part(const job *j, ps_fill primitive, const char *from)
{
    uint64_t x = 1;
    for (uint64_t i = 0; i < j->part_bytes; i += PS_CACHE_LINE_BYTES) {
        prefetch_line(primitive, from + i);
        x = spend(x, j->work);
    }
}

static void fill_part(const job *j, const char *from)
{
    switch (j->primitive) { // a loop each, without a choice in it
    case PS_FILL_LOADS:
        j->kernels->read(from, j->part_bytes);
        break;
    case PS_FILL_T0:
        prefetch_part(j, PS_FILL_T0, from);
        break;
    case PS_FILL_T1:
        prefetch_part(j, PS_FILL_T1, from);
        break;
    default:
        prefetch_part(j, PS_FILL_T2, from);
        break;
    }
}

static void fill_and_read(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    job *j = argument;
    const char *from = j->memory + worker * j->slice_bytes + j->offset;
    const uint64_t start = ps_clock_ns();
    fill_part(j, from);
    const uint64_t filled = ps_clock_ns();
    j->kernels->read(from, j->part_bytes);
    j->again_ns[worker] = (double)(ps_clock_ns() - filled);
    j->fill_ns[worker] = (double)(filled - start);
}

static double slowest(const double *ns, uint32_t workers)
{
    double most = 1;
    for (uint32_t w = 0; w < workers; w++) {
        most = ns[w] > most ? ns[w] : most;
    }
    return most;
}

// Medians over rounds of the slowest worker's time, as rates of all workers.
static void measure(ps_team *team, job *j, uint64_t part_bytes, uint32_t rounds, double *out_gbs,
                    double *out_again_gbs)
{
    double fill_ns[ROUNDS_MAX] = {0};
    double again_ns[ROUNDS_MAX] = {0};
    const uint32_t workers = ps_team_workers(team);
    const double bytes = (double)part_bytes * workers;
    j->part_bytes = part_bytes;
    for (uint32_t i = 0; i < rounds; i++) {
        if (j->offset + part_bytes > j->slice_bytes) {
            j->offset = 0;
        }
        ps_team_run(team, fill_and_read, j);
        fill_ns[i] = slowest(j->fill_ns, workers);
        again_ns[i] = slowest(j->again_ns, workers);
        j->offset += part_bytes;
    }
    *out_gbs = bytes / ps_median(fill_ns, rounds);
    *out_again_gbs = bytes / ps_median(again_ns, rounds);
}

const char *ps_fill_name(ps_fill fill)
{
    static const char *const NAMES[PS_FILL_COUNT] = {"loads", "prefetcht0", "prefetcht1",
                                                     "prefetcht2"};
    return (unsigned)fill < PS_FILL_COUNT ? NAMES[fill] : NULL;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

ps_status ps_calibrate_fill_bytes(const ps_machine *machine, uint32_t ranks_here, uint64_t *out)
{
    const uint64_t parts = 2 * LLC_PARTS * machine->l2_bytes * machine->threads;
    const uint64_t caches = larger(CACHES * machine->llc_bytes, BYTES_LEAST) / ranks_here;
    const uint64_t free_bytes = ps_machine_available_bytes() / 2 / ranks_here;
    *out = smaller(larger(parts, caches), free_bytes);
    return *out >= WORKER_BYTES_LEAST * machine->threads
               ? PS_OK
               : ps_fail(PS_NO_MEMORY,
                         "no memory to measure in: %llu MB are free, and half of that "
                         "is taken at most",
                         (unsigned long long)(2 * free_bytes >> 20));
}

uint32_t ps_calibrate_fill(ps_team *team, const ps_kernels *kernels, const ps_machine *machine,
                           uint32_t ranks_here, char *memory, uint64_t bytes, ps_fill_rates *out)
{
    const uint32_t workers = ps_team_workers(team);
    job j = {.kernels = kernels,
             .memory = memory,
             .slice_bytes = bytes / workers / UNIT_BYTES * UNIT_BYTES};
    const uint64_t l2_part = smaller(machine->l2_bytes / 2 / UNIT_BYTES * UNIT_BYTES,
                                     j.slice_bytes);
    const uint64_t llc_part = LLC_PARTS * machine->l2_bytes / UNIT_BYTES * UNIT_BYTES;
    const bool has_llc = machine->llc_bytes >= 2 * llc_part * workers * ranks_here &&
                         llc_part <= j.slice_bytes;
    const double line_ns = PS_CACHE_LINE_BYTES * workers / machine->read_gbs;
    const uint32_t work = 1 + (uint32_t)(line_ns / step_ns());
    uint32_t count = 0;
    for (uint32_t i = 0; i < 2 * PS_FILL_COUNT; i++) {
        ps_fill_rates *rates = &out[count];
        j.primitive = (ps_fill)(i / 2);
        j.work = i % 2 == 0 ? 0 : work;
        if (j.primitive == PS_FILL_LOADS && j.work > 0) {
            continue; // loads pace themselves
        }
        *rates = (ps_fill_rates){.primitive = j.primitive, .is_paced = j.work > 0};
        measure(team, &j, l2_part, L2_ROUNDS, &rates->l2_gbs, &rates->l2_again_gbs);
        if (has_llc) {
            measure(team, &j, llc_part, LLC_ROUNDS, &rates->llc_gbs, &rates->llc_again_gbs);
        }
        count++;
    }
    return count;
}

double ps_fill_kept(const ps_fill_rates *loads, const ps_fill_rates *rates)
{
    // A byte that was dropped is read again as slowly as loads read it at first.
    const double dropped_ns = 1 / loads->l2_gbs;
    const double kept_ns = 1 / loads->l2_again_gbs;
    const double kept = (dropped_ns - 1 / rates->l2_again_gbs) / (dropped_ns - kept_ns);
    return kept < 0 || !(dropped_ns > kept_ns) ? 0 : kept > 1 ? 1 : kept;
}
