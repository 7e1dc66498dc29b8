// test/comm/comm_cases.h - what every back end must do: one list of cases, run by all ranks of a
// job. Every rank knows what all ranks send, so each checks all that it receives. A wrong result
// ends the process with code 1.
#ifndef PS_TEST_COMM_CASES_H
#define PS_TEST_COMM_CASES_H

#include "comm/comm.h"
#include "comm/handshake.h"
#include "gen.h"

#include <math.h>
#include <prestage/status.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct job {
    ps_comm *comm;
    uint32_t rank, size;
    uint64_t seed;     // alike on all ranks
    bool is_simulated; // peers send zeros
    uint32_t rounds;   // of the long case
} job;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %u of %u: %s:%d: %s does not hold; last error: %s\n", j->rank,   \
                    j->size, __FILE__, __LINE__, #condition, ps_error_message());                  \
            fflush(NULL);                                                                          \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHECK_OK(call) CHECK((call) == PS_OK)

// What a rank has at a place. Bytes never are 0, so that nothing received is taken for something.
static inline uint64_t mix(const job *j, uint32_t rank, uint64_t place)
{
    ps_gen gen = {.state = j->seed * 1000003u + rank * 7919u + place * 0x9e3779b97f4a7c15u};
    return ps_gen_next(&gen);
}

static inline char byte_of(const job *j, uint32_t rank, uint64_t place)
{
    const uint64_t number = j->seed + place * 131 + place / 251 * 7 + rank * 37u; // cheap: many
    return j->is_simulated && rank != 0 ? 0 : (char)(number % 251 + 1);
}

// Magnitudes from 2^-12 to 2^12, so that every order of adding gives other bits.
static inline float float_of(const job *j, uint32_t rank, uint64_t place)
{
    if (j->is_simulated && rank != 0) {
        return 0.0f;
    }
    const uint64_t bits = mix(j, rank, place);
    const float value = (float)((double)(bits >> 40) * 0x1p-23 - 1.0);
    const int power = (int)(bits % 25) - 12;
    return power >= 0 ? value * (float)(1 << power) : value / (float)(1 << -power);
}

static inline float serial_sum(const job *j, uint64_t place)
{
    float sum = float_of(j, 0, place);
    for (uint32_t r = 1; r < j->size; r++) {
        sum += float_of(j, r, place);
    }
    return sum;
}

static inline void *room(const job *j, uint64_t bytes)
{
    char *memory = malloc(bytes + 64);
    CHECK(memory != NULL);
    memset(memory, 0x5a, bytes + 64);
    return memory;
}

static inline void check_guard(const job *j, const void *memory, uint64_t bytes)
{
    const char *end = (const char *)memory + bytes;
    for (int i = 0; i < 64; i++) {
        CHECK(end[i] == 0x5a);
    }
}

static inline void fill_bytes(const job *j, char *to, uint64_t bytes, uint64_t place)
{
    for (uint64_t i = 0; i < bytes; i++) {
        to[i] = byte_of(j, j->rank, place + i);
    }
}

static inline void check_bytes(const job *j, const char *from, uint64_t bytes, uint32_t rank,
                               uint64_t place)
{
    for (uint64_t i = 0; i < bytes; i++) {
        CHECK(from[i] == byte_of(j, rank, place + i));
    }
}

static inline uint64_t total(const job *j, const uint64_t *sizes)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < j->size; r++) {
        sum += sizes[r];
    }
    return sum;
}

static inline void gather_once(const job *j, uint32_t tag, const uint64_t *sizes, bool is_in_place)
{
    const uint64_t bytes = total(j, sizes);
    char *all = room(j, bytes);
    char *slice = room(j, sizes[j->rank]);
    uint64_t begin = 0;
    for (uint32_t r = 0; r < j->rank; r++) {
        begin += sizes[r];
    }
    char *from = is_in_place ? all + begin : slice;
    fill_bytes(j, from, sizes[j->rank], tag);
    CHECK_OK(ps_comm_all_gather_start(j->comm, tag, from, all, sizes));
    CHECK_OK(ps_comm_wait(j->comm));
    const char *at = all;
    for (uint32_t r = 0; r < j->size; r++) {
        check_bytes(j, at, sizes[r], r, tag);
        at += sizes[r];
    }
    check_guard(j, all, bytes);
    free(slice);
    free(all);
}

static inline void exchange_once(const job *j, uint32_t tag, const uint64_t *sizes)
{
    const uint64_t bytes = total(j, sizes);
    const uint64_t own = sizes[j->rank];
    char *slices = room(j, bytes);
    char *received = room(j, own * j->size);
    fill_bytes(j, slices, bytes, tag);
    CHECK_OK(ps_comm_exchange_start(j->comm, tag, slices, received, sizes));
    CHECK_OK(ps_comm_wait(j->comm));
    uint64_t begin = tag;
    for (uint32_t r = 0; r < j->rank; r++) {
        begin += sizes[r];
    }
    for (uint32_t r = 0; r < j->size; r++) {
        check_bytes(j, received + r * own, own, r, begin);
    }
    check_guard(j, received, own * j->size);
    free(received);
    free(slices);
}

static const uint64_t SIZES[] = {0, 1, 7, 64, 4608, 16384, 16385, 65536, 65537, 300001};
#define SIZE_COUNT (sizeof SIZES / sizeof SIZES[0])

static inline void case_equal_sizes(const job *j)
{
    for (uint32_t i = 0; i < SIZE_COUNT; i++) {
        uint64_t sizes[PS_COMM_RANKS_MAX];
        for (uint32_t r = 0; r < j->size; r++) {
            sizes[r] = SIZES[i];
        }
        gather_once(j, i, sizes, false);
        gather_once(j, i, sizes, true);
        exchange_once(j, i, sizes);
    }
}

static inline void case_unequal_sizes(const job *j)
{
    ps_gen gen = {.state = j->seed};
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t sizes[PS_COMM_RANKS_MAX];
        for (uint32_t r = 0; r < j->size; r++) {
            const uint64_t max = SIZES[ps_gen_range(&gen, 0, SIZE_COUNT - 1)];
            sizes[r] = (uint64_t)ps_gen_range(&gen, 0, (int64_t)max);
        }
        gather_once(j, i, sizes, i % 2 == 0);
        exchange_once(j, i, sizes);
    }
}

static inline void case_broadcast(const job *j)
{
    for (uint32_t i = 0; i < SIZE_COUNT; i++) {
        const uint64_t capacity = SIZES[i] + (i % 3) * 100;
        char *message = room(j, capacity);
        uint64_t bytes = j->rank == 0 ? SIZES[i] : 12345678;
        if (j->rank == 0) {
            fill_bytes(j, message, bytes, i);
        }
        CHECK_OK(ps_comm_broadcast_start(j->comm, i, message, capacity, &bytes));
        CHECK_OK(ps_comm_wait(j->comm));
        CHECK(bytes == SIZES[i]);
        check_bytes(j, message, bytes, 0, i);
        check_guard(j, message, capacity);
        free(message);
    }
}

static inline void sleep_us(uint64_t us)
{
    const struct timespec pause = {.tv_sec = (time_t)(us / 1000000),
                                   .tv_nsec = (long)(us % 1000000) * 1000};
    (void)nanosleep(&pause, NULL);
}

static inline uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static inline uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Nobody leaves before the last one has come, by the clock that all ranks of a host share.
static inline void case_barrier(const job *j)
{
    for (uint32_t i = 0; i < 2 * j->size; i++) {
        if (i % j->size == j->rank) {
            sleep_us(5000);
        }
        const uint64_t come = now_ns();
        CHECK_OK(ps_comm_barrier_start(j->comm, i));
        CHECK_OK(ps_comm_wait(j->comm));
        const uint64_t left = now_ns();
        uint64_t all[PS_COMM_RANKS_MAX];
        uint64_t sizes[PS_COMM_RANKS_MAX];
        for (uint32_t r = 0; r < j->size; r++) {
            sizes[r] = sizeof come;
        }
        CHECK_OK(ps_comm_all_gather_start(j->comm, i, &come, all, sizes));
        CHECK_OK(ps_comm_wait(j->comm));
        for (uint32_t r = 0; r < j->size; r++) {
            CHECK(all[r] <= left);
        }
    }
}

static inline void reduce_once(const job *j, uint32_t tag, uint64_t count, uint64_t gather_max)
{
    ps_comm_set_gather_bytes_max(j->comm, gather_max);
    const uint64_t scratch_count = ps_comm_all_reduce_scratch(j->comm, count);
    float *values = room(j, count * sizeof(float));
    float *scratch = room(j, scratch_count * sizeof(float));
    for (uint64_t i = 0; i < count; i++) {
        values[i] = float_of(j, j->rank, i + tag);
    }
    CHECK_OK(ps_comm_all_reduce_start(j->comm, tag, values, count, scratch));
    CHECK_OK(ps_comm_wait(j->comm));
    for (uint64_t i = 0; i < count; i++) {
        const float expected = serial_sum(j, i + tag);
        CHECK(memcmp(&values[i], &expected, sizeof expected) == 0);
    }
    check_guard(j, values, count * sizeof(float));
    check_guard(j, scratch, scratch_count * sizeof(float));
    free(scratch);
    free(values);
}

// The same bits by both ways, and those of a serial sum in rank order.
static inline void case_all_reduce(const job *j)
{
    static const uint64_t COUNTS[] = {0, 1, 3, 16, 17, 31, 1000, 4608, 20000, 100003};
    for (uint32_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        reduce_once(j, i, COUNTS[i], UINT64_MAX);
        reduce_once(j, i, COUNTS[i], 0);
    }
    ps_comm_set_gather_bytes_max(j->comm, PS_COMM_GATHER_BYTES);
}

// Negative zeros stay: sums must not begin with 0.
static inline void case_negative_zero(const job *j)
{
    float values[40];
    float scratch[40 * PS_COMM_RANKS_MAX];
    for (int i = 0; i < 40; i++) {
        values[i] = -0.0f;
    }
    CHECK_OK(ps_comm_all_reduce_start(j->comm, 0, values, 40, scratch));
    CHECK_OK(ps_comm_wait(j->comm));
    for (int i = 0; i < 40; i++) {
        CHECK(signbit(values[i]) != 0 || (j->is_simulated && j->size > 1));
    }
}

static inline void case_reduce_scatter(const job *j)
{
    ps_gen gen = {.state = j->seed + 1};
    for (uint32_t i = 0; i < 10; i++) {
        uint64_t counts[PS_COMM_RANKS_MAX];
        uint64_t begin = 0;
        for (uint32_t r = 0; r < j->size; r++) {
            counts[r] = (uint64_t)ps_gen_range(&gen, 0, i % 3 == 0 ? 20 : 20000);
            begin += r < j->rank ? counts[r] : 0;
        }
        const uint64_t count = total(j, counts);
        const uint64_t own = counts[j->rank];
        float *values = room(j, count * sizeof(float));
        float *apart = room(j, own * sizeof(float));
        float *scratch = room(j, own * j->size * sizeof(float));
        for (uint64_t k = 0; k < count; k++) {
            values[k] = float_of(j, j->rank, k);
        }
        float *sum = i % 2 == 0 ? apart : values + begin;
        CHECK_OK(ps_comm_reduce_scatter_start(j->comm, i, values, counts, sum, scratch));
        CHECK_OK(ps_comm_wait(j->comm));
        for (uint64_t k = 0; k < own; k++) {
            const float expected = serial_sum(j, begin + k);
            CHECK(memcmp(&sum[k], &expected, sizeof expected) == 0);
        }
        check_guard(j, scratch, own * j->size * sizeof(float));
        check_guard(j, values, count * sizeof(float));
        free(scratch);
        free(apart);
        free(values);
    }
}

// Whole rows, dealt out as evenly as they go, to some ranks none: what is scattered and gathered in
// place is what an all_reduce makes, bit for bit.
static inline void case_rows(const job *j)
{
    static const uint64_t ROWS[] = {1, 2, 3, 5, 7, 33};
    enum { COLUMNS = 100 };
    for (uint32_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        uint64_t counts[PS_COMM_RANKS_MAX];
        uint64_t bytes[PS_COMM_RANKS_MAX];
        uint64_t begin = 0;
        for (uint32_t r = 0; r < j->size; r++) {
            counts[r] = COLUMNS * (ROWS[i] / j->size + (r < ROWS[i] % j->size ? 1 : 0));
            bytes[r] = counts[r] * sizeof(float);
            begin += r < j->rank ? counts[r] : 0;
        }
        const uint64_t count = total(j, counts);
        CHECK(count == ROWS[i] * COLUMNS);
        float *values = room(j, count * sizeof(float));
        float *whole = room(j, count * sizeof(float));
        float *scratch = room(j, count * j->size * sizeof(float));
        for (uint64_t k = 0; k < count; k++) {
            values[k] = float_of(j, j->rank, k);
        }
        CHECK_OK(ps_comm_reduce_scatter_start(j->comm, i, values, counts, whole + begin, scratch));
        CHECK_OK(ps_comm_wait(j->comm));
        CHECK_OK(ps_comm_all_gather_start(j->comm, i, whole + begin, whole, bytes));
        CHECK_OK(ps_comm_wait(j->comm));
        CHECK_OK(ps_comm_all_reduce_start(j->comm, i, values, count, scratch));
        CHECK_OK(ps_comm_wait(j->comm));
        const bool only_own = j->is_simulated && j->size > 1; // peers send zeros
        const uint64_t first = only_own ? begin : 0;
        const uint64_t last = only_own ? begin + counts[j->rank] : count;
        CHECK(memcmp(whole + first, values + first, (last - first) * sizeof(float)) == 0);
        check_guard(j, whole, count * sizeof(float));
        free(scratch);
        free(whole);
        free(values);
    }
}

// Other delays on every rank, and waits that poll without idling.
static inline void case_delays(const job *j)
{
    ps_gen gen = {.state = j->seed + j->rank * 77u};
    for (uint32_t i = 0; i < 100; i++) {
        sleep_us((uint64_t)ps_gen_range(&gen, 0, 500));
        float values[600];
        float scratch[600 * PS_COMM_RANKS_MAX];
        for (uint64_t k = 0; k < 600; k++) {
            values[k] = float_of(j, j->rank, k + i);
        }
        CHECK_OK(ps_comm_all_reduce_start(j->comm, i, values, 600, scratch));
        sleep_us((uint64_t)ps_gen_range(&gen, 0, 300));
        for (bool done = false; !done;) {
            CHECK_OK(ps_comm_test(j->comm, &done));
            if (!done) {
                (void)sched_yield();
            }
        }
        for (uint64_t k = 0; k < 600; k++) {
            CHECK(values[k] == serial_sum(j, k + i));
        }
    }
}

// Many small collectives of all kinds, as a long generation makes them.
static inline void case_many(const job *j)
{
    ps_gen gen = {.state = j->seed + 2};
    const uint64_t before = ps_comm_sequence(j->comm);
    for (uint32_t i = 0; i < j->rounds; i++) {
        float values[24];
        float scratch[24 * PS_COMM_RANKS_MAX];
        const uint64_t count = (uint64_t)ps_gen_range(&gen, 1, 24);
        uint64_t bytes = j->rank == 0 ? count * sizeof(float) : 0;
        for (uint64_t k = 0; k < count; k++) {
            values[k] = float_of(j, j->rank, k + i);
        }
        if (i % 4 == 3) {
            CHECK_OK(ps_comm_broadcast_start(j->comm, i, values, sizeof values, &bytes));
        } else {
            CHECK_OK(ps_comm_all_reduce_start(j->comm, i, values, count, scratch));
        }
        CHECK_OK(ps_comm_wait(j->comm));
        for (uint64_t k = 0; k < count; k++) {
            CHECK(values[k] == (i % 4 == 3 ? float_of(j, 0, k + i) : serial_sum(j, k + i)));
        }
    }
    CHECK(ps_comm_sequence(j->comm) == before + j->rounds);
}

static inline void case_limits(const job *j)
{
    uint64_t sizes[PS_COMM_RANKS_MAX];
    for (uint32_t r = 0; r < j->size; r++) {
        sizes[r] = UINT64_MAX / 2 + 1;
    }
    char byte = 0;
    float value = 0;
    uint64_t bytes = 2;
    CHECK(ps_comm_all_gather_start(j->comm, 0, &byte, &byte, sizes) == PS_INVALID);
    CHECK(ps_comm_exchange_start(j->comm, 0, &byte, &byte, sizes) == PS_INVALID);
    CHECK(ps_comm_reduce_scatter_start(j->comm, 0, &value, sizes, &value, &value) == PS_INVALID);
    CHECK(ps_comm_all_reduce_start(j->comm, 0, &value, UINT64_MAX / 4, &value) == PS_INVALID);
    CHECK(ps_comm_broadcast_start(j->comm, 0, &byte, UINT64_MAX, &bytes) == PS_INVALID);
    if (j->rank == 0) {
        CHECK(ps_comm_broadcast_start(j->comm, 0, &byte, 1, &bytes) == PS_INVALID);
    }
    CHECK_OK(ps_comm_barrier_start(j->comm, 0)); // it lives on
    CHECK_OK(ps_comm_wait(j->comm));
    bool done = false;
    CHECK_OK(ps_comm_test(j->comm, &done)); // nothing is in flight
    CHECK(done);
}

// Whatever is found to be fast, results stay.
static inline void case_tuned(const job *j)
{
    ps_comm_tuning tuning = {0};
    CHECK_OK(ps_comm_tune(j->comm, &tuning));
    CHECK(tuning.ns > 0 && tuning.gbs > 0);
    CHECK(tuning.gather_bytes_max == ps_comm_gather_bytes_max(j->comm));
    static const uint64_t BYTES[] = {4, 1024, PS_COMM_MEASURED_BYTES_MAX};
    double ns[3] = {0};
    CHECK_OK(ps_comm_measure(j->comm, BYTES, 3, ns));
    CHECK(ns[0] > 0 && ns[1] > 0 && ns[2] > 0);
    CHECK_OK(ps_comm_use(j->comm, &tuning));
    CHECK(ps_comm_use(j->comm, &(ps_comm_tuning){.way = 99}) == PS_INVALID);
    const uint64_t chosen = ps_comm_gather_bytes_max(j->comm);
    CHECK(chosen == tuning.gather_bytes_max);
    uint64_t all[PS_COMM_RANKS_MAX];
    uint64_t sizes[PS_COMM_RANKS_MAX];
    for (uint32_t r = 0; r < j->size; r++) {
        sizes[r] = sizeof chosen;
    }
    CHECK_OK(ps_comm_all_gather_start(j->comm, 1, &chosen, all, sizes));
    CHECK_OK(ps_comm_wait(j->comm));
    for (uint32_t r = 0; r < j->size && !j->is_simulated; r++) {
        CHECK(all[r] == chosen);
    }
    reduce_once(j, 0, 30011, UINT64_MAX);
    reduce_once(j, 0, 30011, 0);
    ps_comm_set_gather_bytes_max(j->comm, PS_COMM_GATHER_BYTES);
}

static inline void case_handshake(const job *j)
{
    const ps_comm_identity identity = {"1.2.3", 0x1234, 0x5678, "tp=2 experts=within"};
    if (!j->is_simulated || j->size == 1) {
        CHECK_OK(ps_comm_handshake(j->comm, &identity));
    }
}

typedef struct comm_case {
    const char *name;
    void (*run)(const job *j);
} comm_case;

static const comm_case CASES[] = {
    {"equal sizes", case_equal_sizes},
    {"unequal sizes", case_unequal_sizes},
    {"broadcast", case_broadcast},
    {"barrier", case_barrier},
    {"all_reduce", case_all_reduce},
    {"negative zero", case_negative_zero},
    {"reduce_scatter", case_reduce_scatter},
    {"rows", case_rows},
    {"delays", case_delays},
    {"many", case_many},
    {"limits", case_limits},
    {"tuned", case_tuned},
    {"handshake", case_handshake},
};
#define CASE_COUNT (sizeof CASES / sizeof CASES[0])

// All cases; PS_COMM_TIMES=1 prints how long each took.
static inline void run_cases(job *j)
{
    j->rank = ps_comm_rank(j->comm);
    j->size = ps_comm_size(j->comm);
    for (size_t i = 0; i < CASE_COUNT; i++) {
        const uint64_t start = now_us();
        CASES[i].run(j);
        if (j->rank == 0 && getenv("PS_COMM_TIMES") != NULL) {
            printf("%s, %u ranks, %s: %.3f s\n", ps_comm_backend_name(j->comm), j->size,
                   CASES[i].name, (double)(now_us() - start) * 1e-6);
        }
    }
}

#endif
