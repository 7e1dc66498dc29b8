// bench/bench_comm.c - how long an all_reduce of floats takes with 2 ranks, by size and back end.
//
// Each rank is bound to a CPU of its own where there are enough. A round is one all_reduce, timed
// on rank 0 from start to done, both ranks coming from the round before; p50 and p99 over rounds.
// "gather" and "slices" are the two ways of comm/all_reduce.c. The ceiling is "bare": two processes
// that do nothing but write a row to shared memory, wait for the other's and add it; there,
// "gather" is with plain stores, "slices" with stores past the caches. sim runs over local.
//
// usage: bench_comm [--json] [BACKEND...]     bare, self, local, sim, mpi; all unless told
#include "base/clock.h"
#include "comm/comm.h"
#include "comm/sum.h"

#include <emmintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 2
#define SIM_LINK "latency=20us,bandwidth=25Gbps"
#define ROUNDS_MAX 4000
#define SIZE_NS_MAX ((uint64_t)250000000) // for one size

static const uint32_t COUNTS[] = {64, 1024, 2048, 4096, 16384, 65536, 131072, 262144};
#define COUNT_COUNT (sizeof COUNTS / sizeof COUNTS[0])
#define COUNT_MAX 262144u

static float values[COUNT_MAX] __attribute__((aligned(64)));
static float scratch[RANKS * COUNT_MAX] __attribute__((aligned(64)));
static double times[ROUNDS_MAX];

typedef struct line {
    uint32_t bytes;
    double gather_p50, gather_p99, slices_p50, slices_p99; // microseconds
} line;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void quantiles(uint32_t rounds, double *out_p50, double *out_p99)
{
    qsort(times, rounds, sizeof *times, by_value);
    *out_p50 = times[rounds / 2];
    *out_p99 = times[rounds * 99 / 100];
}

static void check(ps_status status)
{
    if (status != PS_OK) {
        fprintf(stderr, "bench_comm: %s\n", ps_error_message());
        exit(1);
    }
}

// CPUs that this process may use, in order; rank r takes the r-th.
static void bind_rank(uint32_t rank)
{
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < RANKS) {
        return;
    }
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && (uint32_t)seen++ == rank) {
            cpu_set_t own;
            CPU_ZERO(&own);
            CPU_SET(cpu, &own);
            (void)sched_setaffinity(0, sizeof own, &own);
            return;
        }
    }
}

static void reduce(ps_comm *comm, uint32_t count)
{
    check(ps_comm_all_reduce_start(comm, count, values, count, scratch));
    check(ps_comm_wait(comm));
}

// The ranks must agree on the number of rounds: rank 0 says it, from a few rounds before.
static uint32_t agree_on_rounds(ps_comm *comm, uint32_t count)
{
    const uint64_t start = ps_clock_ns();
    for (int i = 0; i < 10; i++) {
        reduce(comm, count);
    }
    const uint64_t ns = (ps_clock_ns() - start) / 10 + 1;
    const uint64_t fitting = SIZE_NS_MAX / ns;
    uint32_t rounds = fitting > ROUNDS_MAX ? ROUNDS_MAX : (uint32_t)fitting + 20;
    rounds = rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    uint64_t bytes = sizeof rounds;
    check(ps_comm_broadcast_start(comm, 0, &rounds, sizeof rounds, &bytes));
    check(ps_comm_wait(comm));
    return rounds;
}

static void measure(ps_comm *comm, uint32_t count, uint64_t gather_max, double *out_p50,
                    double *out_p99)
{
    ps_comm_set_gather_bytes_max(comm, gather_max);
    const uint32_t rounds = agree_on_rounds(comm, count);
    for (uint32_t i = 0; i < rounds; i++) {
        const uint64_t start = ps_clock_ns();
        reduce(comm, count);
        times[i] = (double)(ps_clock_ns() - start) * 1e-3;
    }
    quantiles(rounds, out_p50, out_p99);
}

// ---- bare ----

typedef struct bare_lane {
    _Alignas(64) atomic_uint round;
    _Alignas(64) float rows[2][COUNT_MAX];
} bare_lane;

static void write_row(float *to, uint32_t count, bool is_streaming)
{
    if (!is_streaming) {
        memcpy(to, values, count * sizeof *to);
        return;
    }
    for (uint32_t i = 0; i < count; i += 4) {
        _mm_stream_ps(to + i, _mm_load_ps(values + i));
    }
    _mm_sfence();
}

static void measure_bare(bare_lane *lanes, uint32_t rank, uint32_t count, bool is_streaming,
                         double *out_p50, double *out_p99)
{
    const uint32_t rounds = count > 16384 ? 300 : ROUNDS_MAX;
    for (uint32_t i = 0; i < rounds; i++) {
        const uint64_t start = ps_clock_ns();
        const uint32_t round = atomic_load(&lanes[rank].round) + 1;
        write_row(lanes[rank].rows[round % 2], count, is_streaming);
        atomic_store_explicit(&lanes[rank].round, round, memory_order_release);
        while ((int)(atomic_load_explicit(&lanes[!rank].round, memory_order_acquire) - round) < 0) {
            _mm_pause();
        }
        const float *rows[RANKS] = {values, lanes[!rank].rows[round % 2]};
        ps_comm_sum(values, rows, RANKS, 0, count);
        times[i] = (double)(ps_clock_ns() - start) * 1e-3;
    }
    quantiles(rounds, out_p50, out_p99);
}

static void print_raw(FILE *out, const line *l)
{
    fprintf(out, "%u %f %f %f %f\n", l->bytes, l->gather_p50, l->gather_p99, l->slices_p50,
            l->slices_p99);
    fflush(out);
}

static int run_bare(FILE *out)
{
    bare_lane *lanes = mmap(NULL, RANKS * sizeof *lanes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lanes == MAP_FAILED) {
        return 1;
    }
    const pid_t child = fork();
    const uint32_t rank = child == 0 ? 1 : 0;
    bind_rank(rank);
    for (size_t i = 0; i < COUNT_COUNT; i++) {
        line l = {.bytes = COUNTS[i] * (uint32_t)sizeof(float)};
        measure_bare(lanes, rank, COUNTS[i], false, &l.gather_p50, &l.gather_p99);
        measure_bare(lanes, rank, COUNTS[i], true, &l.slices_p50, &l.slices_p99);
        if (rank == 0) {
            print_raw(out, &l);
        }
    }
    return 0;
}

// ---- back ends ----

static void run_rank(ps_comm *comm, FILE *out)
{
    bind_rank(ps_comm_rank(comm));
    ps_comm_tuning tuning;
    check(ps_comm_tune(comm, &tuning));
    if (ps_comm_rank(comm) == 0) {
        fprintf(stderr,
                "%s gathers up to %lu bytes; an all_reduce takes %.1f us + bytes at %.2f GB/s\n",
                ps_comm_backend_name(comm), (unsigned long)tuning.gather_bytes_max, tuning.ns / 1e3,
                tuning.gbs);
    }
    for (size_t i = 0; i < COUNT_COUNT; i++) {
        line l = {.bytes = COUNTS[i] * (uint32_t)sizeof(float)};
        measure(comm, COUNTS[i], UINT64_MAX, &l.gather_p50, &l.gather_p99);
        measure(comm, COUNTS[i], 0, &l.slices_p50, &l.slices_p99);
        if (ps_comm_rank(comm) == 0) {
            print_raw(out, &l);
        }
    }
    check(ps_comm_close(comm));
}

static ps_comm *open_backend(const char *name)
{
    ps_comm *comm = NULL;
    if (strcmp(name, "self") == 0) {
        check(ps_comm_self_open(RANKS, NULL, &comm));
    } else if (strcmp(name, "mpi") == 0) {
        check(ps_comm_mpi_open(NULL, &comm));
    } else {
        check(ps_comm_local_fork(RANKS, NULL, &comm));
    }
    if (strcmp(name, "sim") == 0) {
        ps_comm_link link;
        check(ps_comm_link_parse(SIM_LINK, &link));
        check(ps_comm_sim_open_take(comm, &link, &comm));
    }
    return comm;
}

// Starts the back end's ranks, rank 0 writing its lines into the pipe.
static FILE *start(const char *program, const char *name)
{
    char command[512];
    const bool is_mpi = strcmp(name, "mpi") == 0;
    (void)snprintf(command, sizeof command, "%s'%s' --rank %s",
                   is_mpi ? "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                            "mpirun -n 2 --oversubscribe --bind-to none "
                          : "",
                   program, name);
    return popen(command, "r"); // NOLINT(bugprone-command-processor)
}

static double bare_us[COUNT_COUNT]; // 0: not measured

static size_t index_of(uint32_t bytes)
{
    size_t i = 0;
    while (i + 1 < COUNT_COUNT && COUNTS[i] * sizeof(float) != bytes) {
        i++;
    }
    return i;
}

static void print_line(const char *name, const line *l, bool is_json, bool is_first)
{
    const double bare = bare_us[index_of(l->bytes)];
    const double best = l->gather_p50 < l->slices_p50 ? l->gather_p50 : l->slices_p50;
    const double times_bare = bare > 0 ? best / bare : 0;
    if (!is_json) {
        printf("%-5s %8u bytes  gather p50 %9.2f p99 %9.2f  slices p50 %9.2f p99 %9.2f us  best "
               "%5.2f x bare\n",
               name, l->bytes, l->gather_p50, l->gather_p99, l->slices_p50, l->slices_p99,
               times_bare);
        return;
    }
    printf("%s\n  {\"backend\": \"%s\", \"ranks\": %d, \"bytes\": %u, \"gather_us_p50\": %.3f, "
           "\"gather_us_p99\": %.3f, \"slices_us_p50\": %.3f, \"slices_us_p99\": %.3f, "
           "\"times_bare\": %.3f}",
           is_first ? "" : ",", name, RANKS, l->bytes, l->gather_p50, l->gather_p99, l->slices_p50,
           l->slices_p99, times_bare);
}

static bool run_backend(const char *program, const char *name, bool is_json, bool *is_first)
{
    FILE *pipe = start(program, name);
    if (pipe == NULL) {
        return false;
    }
    char text[256];
    while (fgets(text, sizeof text, pipe) != NULL) {
        line l;
        if (sscanf(text, "%u %lf %lf %lf %lf", &l.bytes, &l.gather_p50, &l.gather_p99,
                   &l.slices_p50, &l.slices_p99) == 5) {
            if (strcmp(name, "bare") == 0) {
                bare_us[index_of(l.bytes)] = l.gather_p50 < l.slices_p50 ? l.gather_p50
                                                                         : l.slices_p50;
            }
            print_line(name, &l, is_json, *is_first);
            *is_first = false;
            fflush(stdout);
        }
    }
    return pclose(pipe) == 0;
}

static bool is_there(const char *name)
{
    return strcmp(name, "mpi") != 0 ||
           system("mpirun --version >/dev/null 2>&1") == 0; // NOLINT(bugprone-command-processor)
}

int main(int argc, char **argv)
{
    static const char *const NAMES[] = {"bare", "self", "local", "sim", "mpi"};
    if (argc == 3 && strcmp(argv[1], "--rank") == 0) {
        if (strcmp(argv[2], "bare") == 0) {
            return run_bare(stdout);
        }
        run_rank(open_backend(argv[2]), stdout);
        return 0;
    }
    const bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    bool is_first = true;
    bool is_good = true;
    if (is_json) {
        printf("[");
    }
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        bool is_wanted = argc == 1 + is_json;
        for (int k = 1 + is_json; k < argc; k++) {
            is_wanted |= strcmp(argv[k], NAMES[i]) == 0;
        }
        if (is_wanted && is_there(NAMES[i])) {
            is_good &= run_backend(argv[0], NAMES[i], is_json, &is_first);
        }
    }
    if (is_json) {
        printf("\n]\n");
    }
    return is_good ? 0 : 1;
}
