// engine/calibrate_steps.c - kernels on memory that no cache holds, and on what L2 does.
//
// Each worker has a slice of the memory. What is to be in L2 lies in its first part; what is to
// come from memory is taken from another part in each run, so that it has left the caches when its
// turn comes again.
#include "engine/calibrate_steps.h"

#include "base/clock.h"
#include "base/layout.h"
#include "base/quantile.h"
#include "engine/calibrate.h"

#include <string.h>

// What all bytes of the memory are: as f16 and as f32 numbers that are neither subnormal nor large.
#define FILL 0x3c

// Reads between barriers: what a worker reads of a small weight.
#define MEETINGS 16u
#define MEETING_BYTES ((uint64_t)64 << 10)

// Attention. Blocks of one head stand far apart, for a block of a pool holds all layers and heads.
#define HEAD_DIM 64u
#define QUERIES 4u // of a KV head, as models have them that group them
#define CHUNK_BLOCKS (PS_ATTENTION_CHUNK / PS_KV_BLOCK_TOKENS)
#define BLOCK_BYTES ((uint64_t)PS_KV_BLOCK_TOKENS * HEAD_DIM * 2 * sizeof(uint16_t))
#define CHUNKS 16u // of a head
#define HEADS 4u   // of a run
#define WARM_ROUNDS 20u

// Linears.
#define INPUTS 2048u
#define LINEAR_BYTES_MAX ((uint64_t)4 << 20) // of weights, in a run

// Vector operators: rows that L2 holds, and short ones that it does not.
#define COLUMNS 1024u
#define ROWS 16u
#define WARM_ROWS 320u // of a run
#define SHORT_COLUMNS 64u
#define SHORT_ROWS 64u
#define PAGE_BYTES ((uint64_t)4096)
#define PAGES 4u // of a short row: where the next one is, x, w, y

#define NEAR_BYTES ((uint64_t)256 << 10) // at the start of a slice
#define SLICE_BYTES_LEAST ((uint64_t)4 << 20)

typedef struct job {
    ps_team *team;
    const ps_kernels *kernels;
    char *memory;
    uint64_t slice_bytes;
    uint64_t first, at;   // where the first run and the next begin in each slice,
    uint64_t run_bytes;   //   how far it goes,
    uint64_t limit_bytes; //   and where the last one ends
    uint32_t runs;
    ps_prefetch hint;
    uint64_t zero; // but no compiler knows
} job;

static char *slice_of(const job *j, uint32_t worker)
{
    return j->memory + worker * j->slice_bytes;
}

static void fill_slice(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    memset(slice_of(j, worker), FILL, j->slice_bytes);
}

// Median nanoseconds of a run on all workers.
static double median_ns(job *j, ps_team_function *function)
{
    double ns[PS_CALIBRATE_RUNS_MAX];
    ps_assert(j->runs <= PS_CALIBRATE_RUNS_MAX);
    for (uint32_t i = 0; i <= j->runs; i++) {
        const uint64_t start = ps_clock_ns();
        ps_team_run(j->team, function, j);
        ns[i == 0 ? 0 : i - 1] = (double)(ps_clock_ns() - start); // the first does not count
        j->at = j->at + 2 * j->run_bytes <= j->limit_bytes ? j->at + j->run_bytes : j->first;
    }
    const double median = ps_median(ns, j->runs);
    return median < 1 ? 1 : median;
}

// ---- reads

static void read_alone(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    if (worker == 0) {
        j->kernels->read(slice_of(j, 0) + j->at, j->run_bytes);
    }
}

static void read_all(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    j->kernels->read(slice_of(j, worker) + j->at, j->run_bytes);
}

static void read_and_meet(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    const uint64_t part = j->run_bytes / MEETINGS;
    for (uint64_t i = 0; i < MEETINGS; i++) {
        j->kernels->read(slice_of(j, worker) + j->at + i * part, part);
        ps_team_barrier(j->team, NULL);
    }
}

// What it takes longer than the reads alone, each time.
static double measure_meetings(const job *all)
{
    job j = *all;
    j.run_bytes = MEETINGS * MEETING_BYTES;
    const double alone_ns = median_ns(&j, read_all);
    const double ns = (median_ns(&j, read_and_meet) - alone_ns) / MEETINGS;
    return ns < 0 ? 0 : ns;
}

static double measure_alone(const job *all)
{
    job j = *all;
    j.run_bytes = j.slice_bytes / 16;
    return (double)j.run_bytes / median_ns(&j, read_alone);
}

// ---- attention

typedef struct bench {
    float q[QUERIES][HEAD_DIM];
    float scores[QUERIES * PS_ATTENTION_CHUNK] __attribute__((aligned(PS_CACHE_LINE_BYTES)));
    float m[QUERIES], l[QUERIES], o[QUERIES][HEAD_DIM];
} bench;

static void attend(const job *j, bench *b, const void *const *blocks, const void *const *next)
{
    const float *q[QUERIES];
    uint16_t begin[QUERIES], end[QUERIES];
    for (uint32_t i = 0; i < QUERIES; i++) {
        q[i] = b->q[i];
        begin[i] = 0;
        end[i] = PS_ATTENTION_CHUNK;
    }
    j->kernels->attention_partial(&(ps_attention_partial){.q = q,
                                                          .queries = QUERIES,
                                                          .head_dim = HEAD_DIM,
                                                          .k_dtype = PS_DTYPE_F16,
                                                          .v_dtype = PS_DTYPE_F16,
                                                          .blocks = blocks,
                                                          .next = next,
                                                          .begin = begin,
                                                          .end = end,
                                                          .scale = 1.0f / HEAD_DIM,
                                                          .scratch = b->scores,
                                                          .m = b->m,
                                                          .l = b->l,
                                                          .o = &b->o[0][0]});
}

static void find_blocks(const char *from, uint64_t stride, uint64_t chunk,
                        const void *blocks[CHUNK_BLOCKS])
{
    for (uint32_t i = 0; i < CHUNK_BLOCKS; i++) {
        blocks[i] = from + (chunk * CHUNK_BLOCKS + i) * stride;
    }
}

// The same chunk again and again.
static void attend_warm(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    const void *blocks[CHUNK_BLOCKS];
    bench b = {.m = {0}};
    find_blocks(slice_of(j, worker), BLOCK_BYTES, 0, blocks);
    for (uint32_t i = 0; i < WARM_ROUNDS; i++) {
        attend(j, &b, blocks, blocks);
    }
}

static uint64_t stride_of(const job *j)
{
    // One block less, so that strides are no power of two.
    return j->slice_bytes / ((uint64_t)CHUNKS * CHUNK_BLOCKS) / BLOCK_BYTES * BLOCK_BYTES -
           BLOCK_BYTES;
}

// One head's blocks, of all chunks; then the next head's.
static void attend_cold(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    const void *blocks[2][CHUNK_BLOCKS];
    bench b = {.m = {0}};
    const uint64_t stride = stride_of(j);
    for (uint64_t at = j->at; at < j->at + j->run_bytes; at += BLOCK_BYTES) {
        const char *from = slice_of(j, worker) + at;
        find_blocks(from, stride, 0, blocks[0]);
        for (uint32_t c = 0; c < CHUNKS; c++) {
            find_blocks(from, stride, c + 1 < CHUNKS ? c + 1 : 0, blocks[(c + 1) % 2]);
            attend(j, &b, blocks[c % 2], blocks[(c + 1) % 2]);
        }
    }
}

static void measure_attention(const job *all, ps_worker_rates *out)
{
    const double workers = ps_team_workers(all->team);
    job j = *all;
    out->attention_gops = workers * WARM_ROUNDS * PS_ATTENTION_CHUNK * QUERIES * HEAD_DIM * 2 /
                          median_ns(&j, attend_warm);
    j.run_bytes = HEADS * BLOCK_BYTES;
    j.first = j.at = 0; // blocks of the first chunk
    j.limit_bytes = stride_of(&j);
    out->kv_gbs = workers * CHUNKS * CHUNK_BLOCKS * (double)j.run_bytes /
                  median_ns(&j, attend_cold);
}

// ---- linears

static uint64_t groups_of(const job *j)
{
    const uint64_t quarter = j->slice_bytes / 4;
    return (quarter < LINEAR_BYTES_MAX ? quarter : LINEAR_BYTES_MAX) /
           ps_packed_group_bytes(PS_DTYPE_Q8_0, INPUTS);
}

static void multiply_cold(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    const uint64_t groups = groups_of(j);
    const void *tile = slice_of(j, worker);
    float *results = (float *)(void *)(slice_of(j, worker) +
                                       ps_q8_row_bytes(PS_TILE_TOKENS * INPUTS));
    float *y[PS_TILE_TOKENS];
    for (uint32_t t = 0; t < PS_TILE_TOKENS; t++) {
        y[t] = results + t * groups * PS_GROUP_ROWS;
    }
    j->kernels->linear_q8_0(&(ps_linear){.y = y,
                                         .w = slice_of(j, worker) + j->at,
                                         .group_count = groups,
                                         .inputs = INPUTS,
                                         .tokens = PS_TILE_TOKENS,
                                         .x = &tile,
                                         .hints = {j->hint, j->hint}});
}

// Of the shorter of reading and arithmetic, the part that is hidden: with the hint that hides most
// of it, which is the one that models are run with.
static double measure_overlap(const job *all, const ps_machine *machine)
{
    const uint64_t groups = groups_of(all);
    const double workers = ps_team_workers(all->team);
    const double compute_ns = workers * (double)groups * PS_GROUP_ROWS * INPUTS * PS_TILE_TOKENS /
                              machine->int8_gops;
    job j = *all;
    j.run_bytes = groups * ps_packed_group_bytes(PS_DTYPE_Q8_0, INPUTS);
    const double read_ns = median_ns(&j, read_all);
    double best_ns = read_ns + compute_ns;
    for (j.hint = PS_PREFETCH_NONE; j.hint <= PS_PREFETCH_FAR; j.hint++) {
        const double ns = median_ns(&j, multiply_cold);
        best_ns = ns < best_ns ? ns : best_ns;
    }
    const double shorter_ns = read_ns < compute_ns ? read_ns : compute_ns;
    const double overlap = (read_ns + compute_ns - best_ns) / shorter_ns;
    return overlap > 1 ? 1 : overlap;
}

// ---- vector operators

static uint64_t row_bytes(uint32_t columns)
{
    return columns * sizeof(float);
}

static void norm_and_quantise(const job *j, const char *x, const char *w, char *y, float *normed,
                              uint32_t columns)
{
    j->kernels->rms_norm(normed, (const float *)(const void *)x, (const float *)(const void *)w,
                         columns, 1e-5f);
    j->kernels->quantise_q8(y, normed, columns);
}

// Rows, a weight, results.
static void run_rows(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    float normed[COLUMNS] __attribute__((aligned(PS_CACHE_LINE_BYTES)));
    char *rows = slice_of(j, worker);
    char *w = rows + ROWS * row_bytes(COLUMNS);
    char *y = w + row_bytes(COLUMNS);
    for (uint32_t i = 0; i < WARM_ROWS; i++) {
        norm_and_quantise(j, rows + i % ROWS * row_bytes(COLUMNS), w, y, normed, COLUMNS);
    }
}

static char *page_of(const job *j, uint32_t worker, uint64_t page)
{
    return slice_of(j, worker) + j->at + page * PAGE_BYTES;
}

// Says in the first page of each short row where the next one's is.
static void describe_rows(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    job j = *(const job *)argument;
    for (j.at = j.first; j.at + j.run_bytes <= j.limit_bytes; j.at += j.run_bytes) {
        for (uint64_t i = 0; i < SHORT_ROWS; i++) {
            const uint64_t next = (i + 1) * PAGES;
            memcpy(page_of(&j, worker, i * PAGES), &next, sizeof next);
        }
    }
}

// One short row after the other, each found when the one before is done.
static void run_short_rows(void *argument, uint32_t worker, uint32_t workers)
{
    (void)workers;
    const job *j = argument;
    float normed[SHORT_COLUMNS] __attribute__((aligned(PS_CACHE_LINE_BYTES)));
    uint64_t page = 0;
    for (uint32_t i = 0; i < SHORT_ROWS; i++) {
        const char *description = page_of(j, worker, page);
        char *y = page_of(j, worker, page + 3);
        memcpy(&page, description, sizeof page);
        norm_and_quantise(j, page_of(j, worker, page - 3), page_of(j, worker, page - 2), y, normed,
                          SHORT_COLUMNS);
        page += (uint64_t)*y * j->zero;
    }
}

// What was written at the start of the slices is in memory afterwards.
static void leave_caches(const job *all)
{
    job j = *all;
    j.at = j.slice_bytes / 2;
    j.run_bytes = j.slice_bytes / 2;
    ps_team_run(j.team, read_all, &j);
}

static void measure_vectors(const job *all, ps_worker_rates *out)
{
    const double workers = ps_team_workers(all->team);
    const double bytes = (double)(2 * row_bytes(COLUMNS) + ps_q8_row_bytes(COLUMNS));
    job j = *all;
    out->vector_gbs = workers * WARM_ROWS * bytes / median_ns(&j, run_rows);
    j.run_bytes = SHORT_ROWS * PAGES * PAGE_BYTES;
    ps_team_run(j.team, describe_rows, &j);
    leave_caches(all);
    out->step_ns = median_ns(&j, run_short_rows) / SHORT_ROWS;
}

void ps_calibrate_steps(ps_team *team, const ps_kernels *kernels, char *memory, uint64_t bytes,
                        uint32_t runs, ps_machine *machine)
{
    const uint64_t slice_bytes = bytes / ps_team_workers(team) / PAGE_BYTES * PAGE_BYTES;
    job all = {.team = team,
               .kernels = kernels,
               .memory = memory,
               .slice_bytes = slice_bytes,
               .first = NEAR_BYTES,
               .at = NEAR_BYTES,
               .limit_bytes = slice_bytes,
               .runs = runs};
    ps_worker_rates *out = &machine->workers;
    if (slice_bytes < SLICE_BYTES_LEAST) {
        return;
    }
    ps_team_run(team, fill_slice, &all);
    out->read_gbs = measure_alone(&all);
    out->meet_ns = ps_team_workers(team) == 1 ? 0 : measure_meetings(&all);
    measure_attention(&all, out);
    out->overlap = measure_overlap(&all, machine);
    measure_vectors(&all, out);
}
