// comm/tune.c - measures which ways of an all_reduce are fastest, and what they then take.
//
// All ranks run the same loops; rank 0 measures, decides and tells.
#include "comm/comm_internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define TUNE_TAG 0x54554e45u
#define WAY_BYTES ((uint64_t)16384) // the all_reduce of one row of most models
#define BYTES_MIN ((uint64_t)8192)
#define BYTES_MAX PS_COMM_MEASURED_BYTES_MAX
#define ROUNDS 21
#define MANY_ROUNDS 101 // where nobody waits for it
#define WARM_ROUNDS 3
#define SLOW_NS 1000000u // on such a link the way matters little, and rounds are few
#define SLOW_ROUNDS 5

// An all_reduce of few bytes and one of many tell latency from bandwidth.
#define SMALL_BYTES ((uint64_t)1024)
#define LARGE_BYTES ((uint64_t)65536)

typedef struct tuner {
    ps_comm *comm;
    float *values;  // [BYTES_MAX]
    float *scratch; // [BYTES_MAX, size]
    int rounds;
} tuner;

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Median of some rounds.
static ps_status median_ns(const tuner *t, uint64_t bytes, uint64_t *out_ns)
{
    uint64_t ns[MANY_ROUNDS] = {0};
    for (int i = -WARM_ROUNDS; i < t->rounds; i++) {
        const uint64_t start = ps_clock_ns();
        PS_TRY(ps_comm_all_reduce_start(t->comm, TUNE_TAG, t->values, bytes / sizeof(float),
                                        t->scratch));
        PS_TRY(ps_comm_wait(t->comm));
        if (i >= 0) {
            ns[i] = ps_clock_ns() - start;
        }
    }
    qsort(ns, (size_t)t->rounds, sizeof *ns, by_value);
    *out_ns = ns[t->rounds / 2];
    return PS_OK;
}

static ps_status measure(const tuner *t, uint64_t bytes, bool is_gathered, uint64_t *out_ns)
{
    ps_comm_set_gather_bytes_max(t->comm, is_gathered ? UINT64_MAX : 0);
    return median_ns(t, bytes, out_ns);
}

// Rank 0's *value to all.
static ps_status agree(const tuner *t, uint64_t *value)
{
    uint64_t bytes = sizeof *value;
    PS_TRY(ps_comm_broadcast_start(t->comm, TUNE_TAG, value, sizeof *value, &bytes));
    return ps_comm_wait(t->comm);
}

static ps_status tune_way(const tuner *t, uint32_t *out_way)
{
    uint64_t best_ns = UINT64_MAX;
    uint64_t best = 0;
    for (uint32_t way = 0; ps_comm_set_way(t->comm, way); way++) {
        uint64_t ns;
        PS_TRY(measure(t, WAY_BYTES, true, &ns));
        if (ns < best_ns) {
            best_ns = ns;
            best = way;
        }
    }
    PS_TRY(agree(t, &best));
    *out_way = (uint32_t)best;
    (void)ps_comm_set_way(t->comm, *out_way);
    return PS_OK;
}

// Doubles the size until slices are the faster way.
static ps_status tune_size(const tuner *t, uint64_t *out_bytes_max)
{
    uint64_t bytes_max = 0;
    for (uint64_t bytes = BYTES_MIN; bytes <= BYTES_MAX; bytes *= 2) {
        uint64_t gather_ns;
        uint64_t slices_ns;
        PS_TRY(measure(t, bytes, true, &gather_ns));
        PS_TRY(measure(t, bytes, false, &slices_ns));
        uint64_t is_better = gather_ns <= slices_ns;
        PS_TRY(agree(t, &is_better));
        if (is_better == 0) {
            break;
        }
        bytes_max = bytes;
    }
    *out_bytes_max = bytes_max > 0 ? bytes_max : BYTES_MIN / 2;
    return PS_OK;
}

// Few rounds on a slow link, the same number on all ranks.
static ps_status choose_rounds(tuner *t, int rounds)
{
    uint64_t ns = 0;
    PS_TRY(median_ns(t, SMALL_BYTES, &ns));
    uint64_t is_slow = ns > SLOW_NS;
    PS_TRY(agree(t, &is_slow));
    t->rounds = is_slow != 0 ? SLOW_ROUNDS : rounds;
    return PS_OK;
}

static ps_status choose(tuner *t, ps_comm_tuning *out)
{
    *out = (ps_comm_tuning){.gather_bytes_max = t->comm->gather_bytes_max};
    ps_comm_set_gather_bytes_max(t->comm, UINT64_MAX);
    PS_TRY(choose_rounds(t, ROUNDS));
    if (t->rounds > SLOW_ROUNDS) {
        PS_TRY(tune_way(t, &out->way));
        PS_TRY(tune_size(t, &out->gather_bytes_max));
    }
    ps_comm_set_gather_bytes_max(t->comm, out->gather_bytes_max);
    return PS_OK;
}

static ps_status tune(tuner *t, ps_comm_tuning *out)
{
    uint64_t small = 0;
    uint64_t large = 0;
    PS_TRY(choose(t, out));
    PS_TRY(median_ns(t, SMALL_BYTES, &small));
    PS_TRY(median_ns(t, LARGE_BYTES, &large));
    out->ns = (double)small;
    out->gbs = (double)(LARGE_BYTES - SMALL_BYTES) / (large > small ? (double)(large - small) : 1);
    return PS_OK;
}

static ps_status begin(ps_comm *comm, tuner *t)
{
    *t = (tuner){.comm = comm,
                 .values = calloc(1, BYTES_MAX),
                 .scratch = calloc(comm->size, BYTES_MAX),
                 .rounds = SLOW_ROUNDS};
    if (t->values == NULL || t->scratch == NULL) {
        const ps_status status = ps_fail(PS_NO_MEMORY, "no memory to measure collectives");
        ps_comm_give_up(comm, status);
        return status;
    }
    return PS_OK;
}

static ps_status end(tuner *t, ps_status status)
{
    free(t->scratch);
    free(t->values);
    return status;
}

ps_status ps_comm_tune(ps_comm *comm, ps_comm_tuning *out)
{
    tuner t;
    ps_status status = begin(comm, &t);
    if (status == PS_OK) {
        status = tune(&t, out);
    }
    return end(&t, status);
}

ps_status ps_comm_use(ps_comm *comm, const ps_comm_tuning *tuning)
{
    if (!ps_comm_set_way(comm, tuning->way)) {
        return ps_fail(PS_INVALID, "%s has no way %u of moving bytes", ps_comm_backend_name(comm),
                       tuning->way);
    }
    ps_comm_set_gather_bytes_max(comm, tuning->gather_bytes_max);
    return PS_OK;
}

static ps_status measure_sizes(tuner *t, const uint64_t *bytes, uint32_t count, double *out_ns)
{
    PS_TRY(choose_rounds(t, MANY_ROUNDS));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t ns = 0;
        ps_assert(bytes[i] <= BYTES_MAX);
        PS_TRY(median_ns(t, bytes[i], &ns));
        out_ns[i] = (double)ns;
    }
    return PS_OK;
}

ps_status ps_comm_measure(ps_comm *comm, const uint64_t *bytes, uint32_t count, double *out_ns)
{
    tuner t;
    ps_status status = begin(comm, &t);
    if (status == PS_OK) {
        status = measure_sizes(&t, bytes, count, out_ns);
    }
    return end(&t, status);
}
