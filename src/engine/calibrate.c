// engine/calibrate.c - timed loops over memory, caches and the kernels themselves.
#include "engine/calibrate.h"

#include "base/clock.h"
#include "base/layout.h"
#include "base/pages.h"
#include "base/quantile.h"
#include "engine/calibrate_steps.h"

#include <stdio.h>
#include <string.h>

#define DRAM_BYTES ((uint64_t)512 << 20)
#define WORKER_BYTES ((uint64_t)1 << 20)
#define CACHE_BYTES ((uint64_t)256 << 10) // of one worker: well inside any L2
#define INPUTS 1024u
#define GROUPS 12u // 16 x 12 rows of 1,024 inputs: 204 KiB in Q8_0
#define TOKENS 16u

typedef struct job {
    ps_team *team;
    const ps_kernels *kernels;
    char *memory; // [workers] slices
    uint64_t slice_bytes;
    int value; // of each byte, when it is filled
    uint64_t rounds;
    uint32_t runs;
    ps_dtype dtype; // of a linear,
    uint32_t tokens;
} job;

static void read_slice(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    for (uint64_t i = 0; i < j->rounds; i++) {
        j->kernels->read(j->memory + worker * j->slice_bytes, j->slice_bytes);
    }
}

static void fill_slice(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    memset(j->memory + worker * j->slice_bytes, j->value, j->slice_bytes);
}

static void meet(void *argument, uint32_t worker, uint32_t workers)
{
    (void)worker;
    (void)workers;
    const job *j = argument;
    for (uint64_t i = 0; i < j->rounds; i++) {
        ps_team_barrier(j->team, NULL);
    }
}

// A linear over weights and activations of zeros in this worker's slice: the arithmetic does not
// depend on values, but for subnormal ones, which are slow. A tile of eight int8 rows takes less
// than as many f32 rows, and no format has larger groups than F16 but F32.
static void multiply(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    const bool floats = !ps_dtype_is_quantised(j->dtype);
    char *weights = j->memory + worker * j->slice_bytes;
    char *x_rows = weights + GROUPS * ps_packed_group_bytes(PS_DTYPE_F16, INPUTS);
    char *y_rows = x_rows + TOKENS * INPUTS * sizeof(float);
    float *y[TOKENS];
    const void *x[TOKENS];
    for (uint32_t t = 0; t < TOKENS; t++) {
        x[t] = x_rows + (floats ? t : t % 2 * PS_TILE_TOKENS) * INPUTS * sizeof(float);
        y[t] = (float *)(void *)(y_rows + t * GROUPS * PS_GROUP_ROWS * sizeof(float));
    }
    const ps_linear args = {
        .y = y, .w = weights, .group_count = GROUPS, .inputs = INPUTS, .tokens = j->tokens, .x = x};
    for (uint64_t i = 0; i < j->rounds; i++) {
        ps_kernels_linear(j->kernels, j->dtype)(&args);
    }
}

// Median nanoseconds of one run of the function on all workers; one run before does not count.
static double median_ns(const job *j, ps_team_function *function)
{
    double ns[PS_CALIBRATE_RUNS_MAX] = {0};
    job copy = *j;
    ps_assert(j->runs <= PS_CALIBRATE_RUNS_MAX);
    ps_team_run(j->team, function, &copy);
    for (uint32_t i = 0; i < j->runs; i++) {
        const uint64_t start = ps_clock_ns();
        ps_team_run(j->team, function, &copy);
        ns[i] = (double)(ps_clock_ns() - start);
    }
    const double median = ps_median(ns, j->runs);
    return median < 1 ? 1 : median;
}

double ps_calibrate_read_of(ps_team *team, const ps_kernels *kernels, char *memory, uint64_t bytes,
                            uint32_t runs)
{
    job j = {.team = team,
             .kernels = kernels,
             .memory = memory,
             .slice_bytes = bytes / ps_team_workers(team) / 4096 * 4096,
             .value = 1,
             .rounds = 1,
             .runs = runs};
    ps_team_run(team, fill_slice, &j);
    return (double)(j.slice_bytes * ps_team_workers(team)) / median_ns(&j, read_slice);
}

ps_status ps_calibrate_read(ps_team *team, const ps_kernels *kernels, double *out_gbs)
{
    void *memory;
    PS_TRY(ps_pages_map(DRAM_BYTES, "calibration", &memory));
    *out_gbs = ps_calibrate_read_of(team, kernels, memory, DRAM_BYTES, PS_CALIBRATE_QUICK_RUNS);
    ps_pages_unmap(memory, DRAM_BYTES);
    return PS_OK;
}

// Multiply-adds a nanosecond of a linear of several rows.
static double measure_linear(const job *all, ps_dtype dtype)
{
    const double workers = ps_team_workers(all->team);
    job j = *all;
    j.dtype = dtype;
    j.tokens = TOKENS;
    j.rounds = 3;
    return (double)j.rounds * workers * GROUPS * PS_GROUP_ROWS * INPUTS * TOKENS /
           median_ns(&j, multiply);
}

static void measure_linears(const job *all, ps_machine *machine)
{
    machine->int8_gops = measure_linear(all, PS_DTYPE_Q8_0);
    machine->f32_gops = measure_linear(all, PS_DTYPE_F16);
    for (int i = 0; i < PS_DTYPE_COUNT; i++) {
        const ps_dtype dtype = (ps_dtype)i;
        machine->workers.linear_gops[dtype] = ps_dtype_is_quantised(dtype) &&
                                                      !ps_dtype_is_planned_only(dtype) &&
                                                      dtype != PS_DTYPE_Q8_0
                                                  ? measure_linear(all, dtype)
                                                  : 0;
    }
}

ps_status ps_calibrate_workers(ps_team *team, const ps_kernels *kernels, uint32_t runs,
                               ps_machine *machine)
{
    const uint32_t workers = ps_team_workers(team);
    void *memory;
    PS_TRY(ps_pages_map(WORKER_BYTES * workers, "calibration", &memory));
    job j = {.team = team,
             .kernels = kernels,
             .memory = memory,
             .slice_bytes = WORKER_BYTES,
             .runs = runs};
    ps_team_run(team, fill_slice, &j);
    j.slice_bytes = CACHE_BYTES;
    j.rounds = 50;
    machine->cache_read_gbs = (double)(j.rounds * CACHE_BYTES * workers) /
                              median_ns(&j, read_slice);

    j.slice_bytes = WORKER_BYTES;
    j.dtype = PS_DTYPE_Q8_0;
    j.tokens = 1;
    const double weights = (double)(GROUPS * ps_packed_group_bytes(j.dtype, INPUTS)) * workers;
    const double linear_gbs = (double)j.rounds * weights / median_ns(&j, multiply);
    machine->linear_share = linear_gbs < machine->cache_read_gbs
                                ? linear_gbs / machine->cache_read_gbs
                                : 1;
    measure_linears(&j, machine);

    j.rounds = 200;
    machine->barrier_ns = workers == 1 ? 0 : median_ns(&j, meet) / (double)j.rounds;
    ps_pages_unmap(memory, WORKER_BYTES * workers);
    return PS_OK;
}

ps_status ps_calibrate(ps_team *team, const ps_kernels *kernels, ps_machine *machine)
{
    void *memory;
    PS_TRY(ps_pages_map(DRAM_BYTES, "calibration", &memory));
    machine->read_gbs = ps_calibrate_read_of(team, kernels, memory, DRAM_BYTES,
                                             PS_CALIBRATE_QUICK_RUNS);
    const ps_status status = ps_calibrate_workers(team, kernels, PS_CALIBRATE_QUICK_RUNS, machine);
    if (status == PS_OK) {
        ps_calibrate_steps(team, kernels, memory, DRAM_BYTES, PS_CALIBRATE_QUICK_RUNS, machine);
    }
    ps_pages_unmap(memory, DRAM_BYTES);
    PS_TRY(status);
    machine->fill_gbs = machine->read_gbs;
    (void)snprintf(machine->source, sizeof machine->source, "%s", PS_RATES_QUICK);
    return PS_OK;
}
