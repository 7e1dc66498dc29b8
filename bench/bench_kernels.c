// bench/bench_kernels.c - how near the kernels come to what the core can do.
//
// Every line compares a kernel with a ceiling measured in the same round on the same cores: plain
// reads of the same bytes, and a register-only loop of the multiplier. Shares are medians over
// rounds of the ratio within a round, so that a machine that others load disturbs both alike.
#include "kernels/kernels.h"
#include "kernels/q8_tile.h"

#include "roof.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define THREADS_MAX 64
#define TOKENS_MAX 512
#define ROUNDS_MAX 99
#define LIST_MAX 16

typedef struct options {
    const char *filter;
    const char *isa;
    uint32_t tokens[LIST_MAX];
    uint32_t token_count;
    uint32_t threads;
    uint32_t rounds;
    uint32_t inputs;
    uint32_t outputs; // 0: as many as fill L2, then DRAM
    uint64_t dram_mib;
    uint64_t l2_kib;
    ps_prefetch prefetch;
    bool json;
} options;

// One measurement: all threads do the same, each on weights of its own.
typedef struct work {
    ps_linear_fn *linear;
    void *w[THREADS_MAX];
    float **y[THREADS_MAX];  // [tokens]
    const void *const *rows; // [tokens] activations
    const void *const *x;    // the same, or tiles of them
    ps_linear_hints hints;
    size_t groups; // a thread's
    size_t bytes;  // a thread's weights
    uint32_t inputs;
    uint32_t tokens;
    uint32_t passes; // over the weights, for footprints that take too little time
    bool floats;
} work;

enum phase { READ, KERNEL, MULTIPLY, STOP };

static struct {
    pthread_barrier_t barrier;
    enum phase phase;
    const work *work;
    double ns[THREADS_MAX]; // each thread's own, between the barriers
} shared;

typedef struct result {
    double ns;         // of one pass, median
    double gbs;        // of all threads
    double roof_gbs;   // likewise
    double read_share; // median of the rounds' ratios
    double gops;
    double roof_gops;
    double multiply_share;
} result;

// The thread's own processor time: what others run on this core does not count.
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void *allocate(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 2 << 20, bytes) != 0) {
        fprintf(stderr, "bench_kernels: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    madvise(memory, bytes, MADV_HUGEPAGE); // as the engine asks for its weights; may be refused
    return memory;
}

#define MULTIPLY_ROUNDS 200000

static void run_phase(const work *w, uint32_t thread, enum phase phase)
{
    if (phase == MULTIPLY) {
        if (w->floats) {
            roof_f32(MULTIPLY_ROUNDS);
        } else {
            roof_int8(MULTIPLY_ROUNDS);
        }
        return;
    }
    for (uint32_t i = 0; i < w->passes; i++) {
        if (phase == READ) {
            roof_read(w->w[thread], w->bytes / 512 * 512);
        } else {
            w->linear(&(ps_linear){.y = w->y[thread],
                                   .w = w->w[thread],
                                   .group_count = w->groups,
                                   .inputs = w->inputs,
                                   .tokens = w->tokens,
                                   .x = w->x,
                                   .hints = w->hints});
        }
    }
}

static void time_phase(uint32_t thread)
{
    const double start = now_ns();
    run_phase(shared.work, thread, shared.phase);
    shared.ns[thread] = now_ns() - start;
}

static void pin(uint32_t thread)
{
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    uint32_t seen = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && seen++ == thread) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            pthread_setaffinity_np(pthread_self(), sizeof one, &one);
            return;
        }
    }
}

static void *worker(void *argument)
{
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    pin(thread);
    for (;;) {
        pthread_barrier_wait(&shared.barrier);
        if (shared.phase == STOP) {
            return NULL;
        }
        time_phase(thread);
        pthread_barrier_wait(&shared.barrier);
    }
}

// Nanoseconds of the slowest thread.
static double timed(const work *w, enum phase phase, uint32_t threads)
{
    shared.work = w;
    shared.phase = phase;
    pthread_barrier_wait(&shared.barrier);
    time_phase(0);
    pthread_barrier_wait(&shared.barrier);
    double slowest = 0;
    for (uint32_t i = 0; i < threads; i++) {
        slowest = shared.ns[i] > slowest ? shared.ns[i] : slowest;
    }
    return slowest;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static result measure(const work *w, const options *o)
{
    double ns[ROUNDS_MAX];
    double read_ns[ROUNDS_MAX];
    double read_share[ROUNDS_MAX];
    double multiply_ns[ROUNDS_MAX];
    double multiply_share[ROUNDS_MAX];
    const double operations = 2.0 * 16 * (double)w->groups * w->inputs * w->tokens * w->passes;
    const double peak = (double)(w->floats ? roof_f32(1) : roof_int8(1)) * MULTIPLY_ROUNDS;
    timed(w, READ, o->threads);
    timed(w, KERNEL, o->threads);
    for (uint32_t r = 0; r < o->rounds; r++) {
        read_ns[r] = timed(w, READ, o->threads);
        ns[r] = timed(w, KERNEL, o->threads);
        multiply_ns[r] = timed(w, MULTIPLY, o->threads);
        read_share[r] = read_ns[r] / ns[r];
        multiply_share[r] = operations / ns[r] * (multiply_ns[r] / peak);
    }
    const double kernel_ns = median(ns, o->rounds);
    const double bytes = (double)w->bytes * w->passes * o->threads;
    return (result){
        .ns = kernel_ns / w->passes,
        .gbs = bytes / kernel_ns,
        .roof_gbs = bytes / median(read_ns, o->rounds),
        .read_share = median(read_share, o->rounds),
        .gops = operations * o->threads / kernel_ns,
        .roof_gops = peak * o->threads / median(multiply_ns, o->rounds),
        .multiply_share = median(multiply_share, o->rounds),
    };
}

static void print_result(const char *name, const char *where, const work *w, const options *o,
                         const result *r)
{
    static bool first = true;
    if (o->json) {
        printf("%s\n  {\"kernel\": \"%s\", \"footprint\": \"%s\", \"bytes\": %zu, \"inputs\": %u, "
               "\"outputs\": %zu, \"tokens\": %u, \"threads\": %u, \"ns\": %.0f, \"gbs\": %.2f, "
               "\"roof_gbs\": %.2f, "
               "\"read_share\": %.3f, \"gops\": %.1f, \"roof_gops\": %.1f, "
               "\"multiply_share\": %.3f}",
               first ? "" : ",", name, where, w->bytes, w->inputs, w->groups * 16, w->tokens,
               o->threads, r->ns, r->gbs, r->roof_gbs, r->read_share, r->gops, r->roof_gops,
               r->multiply_share);
    } else {
        if (first) {
            printf("%-12s %-4s %6s %12s %7s %7s %6s %8s %8s %6s\n", "kernel", "in", "tokens", "ns",
                   "GB/s", "roof", "share", "GOP/s", "roof", "share");
        }
        printf("%-12s %-4s %6u %12.0f %7.1f %7.1f %5.0f%% %8.0f %8.0f %5.0f%%\n", name, where,
               w->tokens, r->ns, r->gbs, r->roof_gbs, r->read_share * 100, r->gops, r->roof_gops,
               r->multiply_share * 100);
    }
    first = false;
    fflush(stdout);
}

// Weights of small finite numbers: quants random, the rest a plain half.
static void fill_weights(void *memory, size_t bytes)
{
    uint64_t state = 88172645463325252u;
    uint64_t *words = memory;
    for (size_t i = 0; i < bytes / 8; i++) {
        words[i] = random_next(&state) & 0x3bff3bff3bff3bffu;
    }
}

static uint32_t most_tokens(const options *o)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < o->token_count; i++) {
        most = o->tokens[i] > most ? o->tokens[i] : most;
    }
    return most;
}

// `count` rows in one piece, as they lie in a workspace; rows[0] owns it.
static void **rows_create(uint32_t count, size_t row_bytes)
{
    void **rows = malloc(count * sizeof *rows);
    char *memory = allocate(count * row_bytes);
    memset(memory, 0, count * row_bytes);
    for (uint32_t t = 0; rows != NULL && t < count; t++) {
        rows[t] = memory + t * row_bytes;
    }
    return rows;
}

static void rows_destroy(void **rows)
{
    free(rows[0]);
    free(rows);
}

static void **make_activations(const work *w, const ps_kernels *kernels, uint32_t count)
{
    uint64_t state = 1234567;
    float *values = allocate(w->inputs * sizeof(float));
    void **rows = rows_create(count,
                              w->floats ? w->inputs * sizeof(float) : ps_q8_row_bytes(w->inputs));
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t i = 0; i < w->inputs; i++) {
            values[i] = (float)(int32_t)random_next(&state) * 0x1p-31f;
        }
        if (w->floats) {
            memcpy(rows[t], values, w->inputs * sizeof(float));
        } else {
            kernels->quantise_q8(rows[t], values, w->inputs);
        }
    }
    free(values);
    return rows;
}

static void bench_footprint(work *w, const options *o, const char *name, ps_dtype dtype,
                            const char *where, uint64_t bytes)
{
    const void *tiles[TOKENS_MAX];
    void *memory = allocate(ps_q8_tiles_bytes(most_tokens(o), w->inputs));
    const uint64_t group_bytes = ps_packed_group_bytes(dtype, w->inputs);
    w->groups = (bytes + group_bytes - 1) / group_bytes;
    w->bytes = w->groups * group_bytes;
    for (uint32_t i = 0; i < o->threads; i++) {
        // A line more than the outputs, or all rows of an output would fall into one cache set.
        w->y[i] = (float **)rows_create(most_tokens(o), w->groups * 16 * sizeof(float) + 64);
    }
    for (uint32_t k = 0; k < o->token_count; k++) {
        w->tokens = o->tokens[k];
        w->x = w->rows;
        if (!w->floats) {
            ps_q8_tiles_pack(tiles, memory, w->rows, w->tokens, w->inputs);
            w->x = tiles;
        }
        w->passes = (uint32_t)((64 << 20) / w->bytes / (w->tokens < 8 ? 1 : w->tokens / 4)) + 1;
        const result r = measure(w, o);
        print_result(name, where, w, o, &r);
    }
    for (uint32_t i = 0; i < o->threads; i++) {
        rows_destroy((void **)w->y[i]);
    }
    free(memory);
}

static void bench_linear(const ps_kernels *kernels, const options *o, const char *name,
                         ps_dtype dtype)
{
    work w = {
        .linear = ps_kernels_linear(kernels, dtype),
        .inputs = o->inputs,
        .floats = !ps_dtype_is_quantised(dtype),
        .hints = {o->prefetch, o->prefetch},
    };
    void **rows = make_activations(&w, kernels, most_tokens(o));
    w.rows = (const void *const *)rows;
    const uint64_t dram_bytes = (o->dram_mib << 20) / o->threads;
    const size_t shape_bytes = ps_packed_bytes(dtype, o->outputs, w.inputs);
    const size_t bytes = (o->outputs > 0 ? shape_bytes : dram_bytes) +
                         ps_packed_group_bytes(dtype, w.inputs);
    for (uint32_t i = 0; i < o->threads; i++) {
        w.w[i] = allocate(bytes);
        fill_weights(w.w[i], bytes);
    }
    if (o->outputs > 0) {
        bench_footprint(&w, o, name, dtype, "-", shape_bytes);
    } else {
        bench_footprint(&w, o, name, dtype, "L2", o->l2_kib << 10);
        bench_footprint(&w, o, name, dtype, "DRAM", dram_bytes);
    }
    for (uint32_t i = 0; i < o->threads; i++) {
        free(w.w[i]);
    }
    rows_destroy(rows);
}

static const struct {
    const char *name;
    ps_dtype dtype;
} LINEARS[] = {
    {"linear_q8_0", PS_DTYPE_Q8_0}, {"linear_q4_0", PS_DTYPE_Q4_0}, {"linear_q4_1", PS_DTYPE_Q4_1},
    {"linear_q5_0", PS_DTYPE_Q5_0}, {"linear_q5_1", PS_DTYPE_Q5_1}, {"linear_q4_k", PS_DTYPE_Q4_K},
    {"linear_q5_k", PS_DTYPE_Q5_K}, {"linear_q6_k", PS_DTYPE_Q6_K}, {"linear_f32", PS_DTYPE_F32},
    {"linear_f16", PS_DTYPE_F16},   {"linear_bf16", PS_DTYPE_BF16},
};

static _Noreturn void usage(const char *problem, const char *value)
{
    fprintf(
        stderr,
        "bench_kernels: %s%s\n"
        "usage: bench_kernels [--filter TEXT] [--tokens N,...] [--threads N] [--isa NAME]\n"
        "                     [--inputs N] [--outputs N] [--rounds N] [--dram-mib N] [--l2-kib N]\n"
        "                     [--prefetch none|near|far] [--json]\n",
        problem, value);
    exit(2);
}

static uint64_t number(const char *text, uint64_t lowest, uint64_t highest, const char **end)
{
    char *stop = NULL;
    errno = 0;
    const uint64_t value = strtoull(text, &stop, 10);
    if (errno != 0 || stop == text || value < lowest || value > highest ||
        (end == NULL && *stop != '\0')) {
        usage("not a number in range: ", text);
    }
    if (end != NULL) {
        *end = stop;
    }
    return value;
}

static void parse_tokens(options *o, const char *text)
{
    o->token_count = 0;
    for (const char *at = text;; at++) {
        if (o->token_count == LIST_MAX) {
            usage("more than 16 token counts: ", text);
        }
        o->tokens[o->token_count++] = (uint32_t)number(at, 1, TOKENS_MAX, &at);
        if (*at == '\0') {
            return;
        }
        if (*at != ',') {
            usage("not a list of numbers: ", text);
        }
    }
}

static ps_prefetch parse_prefetch(const char *text)
{
    static const char *const NAMES[] = {"none", "near", "far"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, NAMES[i]) == 0) {
            return (ps_prefetch)i;
        }
    }
    usage("not none, near or far: ", text);
}

static options parse_options(int argc, char **argv)
{
    options o = {.filter = "",
                 .tokens = {1, 8, 64},
                 .token_count = 3,
                 .threads = 1,
                 .rounds = 7,
                 .inputs = 2048,
                 .dram_mib = 512,
                 .l2_kib = 384};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--json") == 0) {
            o.json = true;
            continue;
        }
        if (i + 1 == argc) {
            usage("unknown option or no value: ", name);
        }
        const char *value = argv[++i];
        if (strcmp(name, "--filter") == 0) {
            o.filter = value;
        } else if (strcmp(name, "--isa") == 0) {
            o.isa = value;
        } else if (strcmp(name, "--tokens") == 0) {
            parse_tokens(&o, value);
        } else if (strcmp(name, "--threads") == 0) {
            o.threads = (uint32_t)number(value, 1, THREADS_MAX, NULL);
        } else if (strcmp(name, "--prefetch") == 0) {
            o.prefetch = parse_prefetch(value);
        } else if (strcmp(name, "--rounds") == 0) {
            o.rounds = (uint32_t)number(value, 1, ROUNDS_MAX, NULL);
        } else if (strcmp(name, "--inputs") == 0) {
            o.inputs = (uint32_t)number(value, 256, 65536, NULL) / 256 * 256;
        } else if (strcmp(name, "--outputs") == 0) {
            o.outputs = (uint32_t)number(value, 16, 1 << 20, NULL);
        } else if (strcmp(name, "--dram-mib") == 0) {
            o.dram_mib = number(value, 1, 1 << 20, NULL);
        } else if (strcmp(name, "--l2-kib") == 0) {
            o.l2_kib = number(value, 1, 1 << 20, NULL);
        } else {
            usage("unknown option: ", name);
        }
    }
    return o;
}

int main(int argc, char **argv)
{
    const options o = parse_options(argc, argv);
    ps_kernels kernels;
    if ((o.isa != NULL ? ps_kernels_for(o.isa, &kernels) : ps_kernels_select(&kernels)) != PS_OK) {
        return 2;
    }
    pin(0);
    pthread_t threads[THREADS_MAX];
    pthread_barrier_init(&shared.barrier, NULL, o.threads);
    for (uint32_t i = 1; i < o.threads; i++) {
        if (pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i) != 0) {
            fprintf(stderr, "bench_kernels: cannot start thread %u\n", i);
            return 1;
        }
    }
    if (o.json) {
        printf("[");
    } else {
        printf("isa %s, %u thread(s), rows of %u\n", kernels.isa, o.threads, o.inputs);
    }
    for (size_t i = 0; i < sizeof LINEARS / sizeof LINEARS[0]; i++) {
        if (strstr(LINEARS[i].name, o.filter) != NULL) {
            bench_linear(&kernels, &o, LINEARS[i].name, LINEARS[i].dtype);
        }
    }
    if (o.json) {
        printf("\n]\n");
    }
    shared.phase = STOP;
    pthread_barrier_wait(&shared.barrier);
    for (uint32_t i = 1; i < o.threads; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
