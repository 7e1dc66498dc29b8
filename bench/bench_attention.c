// bench/bench_attention.c - attention over a KV cache.
//
// attention: the queries of each KV head go over all its chunks, as decode (few queries) and
// prefill (many) do. Shares are medians over rounds of the ratio, within a round, to plain reads of
// the same bytes and to a register-only loop of fma on the same core.
//
// usage: bench_attention [ISA [MIB]]; MIB of KV for the DRAM lines, 256 unless told
#include "kernels/kernels.h"

#include "roof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ROUNDS 7
#define KV_HEADS 4
#define QUERIES_MAX 128
#define HEAD_DIM_MAX 256
#define FMA_ROUNDS 200000
#define CHUNK_BLOCKS (PS_ATTENTION_CHUNK / PS_KV_BLOCK_TOKENS)

typedef struct workload {
    const ps_kernels *kernels;
    char *kv; // [blocks][KV_HEADS] KV blocks
    size_t bytes;
    uint32_t chunks;
    uint32_t head_dim;
    ps_dtype dtype; // of K and V
    uint32_t queries;
    uint32_t passes;
} workload;

static size_t dram_bytes; // of KV for the lines of DRAM
static float scratch[QUERIES_MAX * PS_ATTENTION_CHUNK] __attribute__((aligned(64)));
static float queries[QUERIES_MAX][HEAD_DIM_MAX];
static float results[QUERIES_MAX * (HEAD_DIM_MAX + 2)];

// The thread's own processor time: what others run on this core does not count.
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static void *allocate(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 2 << 20, bytes) != 0) {
        fprintf(stderr, "bench_attention: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE); // as the KV cache is
    return memory;
}

static void find_blocks(const workload *w, uint32_t unit, const void *blocks[CHUNK_BLOCKS])
{
    const size_t block_bytes = 2 * ps_kv_part_bytes(w->dtype, w->head_dim);
    for (uint32_t b = 0; b < CHUNK_BLOCKS; b++) {
        const size_t block = (size_t)unit / KV_HEADS * CHUNK_BLOCKS + b;
        blocks[b] = w->kv + (block * KV_HEADS + unit % KV_HEADS) * block_bytes;
    }
}

static void attend(const workload *w)
{
    const float *q[QUERIES_MAX];
    uint16_t begin[QUERIES_MAX] = {0};
    uint16_t end[QUERIES_MAX];
    for (uint32_t i = 0; i < w->queries; i++) {
        q[i] = queries[i];
        end[i] = PS_ATTENTION_CHUNK;
    }
    const uint32_t units = w->chunks * KV_HEADS;
    const void *blocks[2][CHUNK_BLOCKS];
    find_blocks(w, 0, blocks[0]);
    for (uint32_t unit = 0; unit < units; unit++) {
        find_blocks(w, (unit + 1) % units, blocks[(unit + 1) % 2]);
        w->kernels->attention_partial(&(ps_attention_partial){
            .q = q,
            .queries = w->queries,
            .head_dim = w->head_dim,
            .k_dtype = w->dtype,
            .v_dtype = w->dtype,
            .blocks = blocks[unit % 2],
            .next = blocks[(unit + 1) % 2],
            .begin = begin,
            .end = end,
            .scale = 0.125f,
            .scratch = scratch,
            .m = results,
            .l = results + QUERIES_MAX,
            .o = results + 2 * QUERIES_MAX,
        });
    }
}

static void bench_attend(workload w, const char *where, size_t bytes)
{
    const size_t chunk_bytes = CHUNK_BLOCKS * KV_HEADS * 2 * ps_kv_part_bytes(w.dtype, w.head_dim);
    w.chunks = (uint32_t)(bytes / chunk_bytes > 0 ? bytes / chunk_bytes : 1);
    w.bytes = w.chunks * chunk_bytes;
    w.passes = (uint32_t)((64u << 20) / w.bytes) / (w.queries / 4 + 1) + 1;
    double ns[ROUNDS];
    double read_share[ROUNDS];
    double fma_share[ROUNDS];
    const double positions = (double)w.chunks * KV_HEADS * PS_ATTENTION_CHUNK * w.passes;
    const double operations = positions * w.queries * w.head_dim * 4;
    attend(&w);
    for (int r = 0; r < ROUNDS; r++) {
        const double start = now_ns();
        for (uint32_t i = 0; i < w.passes; i++) {
            roof_read(w.kv, w.bytes);
        }
        const double read_end = now_ns();
        for (uint32_t i = 0; i < w.passes; i++) {
            attend(&w);
        }
        const double attend_end = now_ns();
        const double peak = (double)roof_f32(FMA_ROUNDS) / (now_ns() - attend_end);
        ns[r] = attend_end - read_end;
        read_share[r] = (read_end - start) / ns[r];
        fma_share[r] = operations / ns[r] / peak;
    }
    const double middle = median(ns);
    printf("attention %-4s head_dim %3u queries %3u %-4s %8.2f ns/position %7.1f GB/s %4.0f%% of "
           "reads "
           "%6.0f GOP/s %4.0f%% of fma\n",
           ps_dtype_get(w.dtype)->name, w.head_dim, w.queries, where, middle / positions,
           (double)w.bytes * w.passes / middle, median(read_share) * 100, operations / middle,
           median(fma_share) * 100);
    fflush(stdout);
}

static void bench_counts(workload w)
{
    static const uint32_t COUNTS[] = {1, 3, 4, 6, 8, 32, 96};
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        w.queries = COUNTS[i];
        bench_attend(w, "L2", 512 << 10);
        if (w.queries <= 8) {
            bench_attend(w, "DRAM", dram_bytes);
        }
    }
}

int main(int argc, char **argv)
{
    ps_kernels kernels;
    if (ps_kernels_for(argc > 1 ? argv[1] : NULL, &kernels) != PS_OK) {
        return 2;
    }
    dram_bytes = (size_t)(argc > 2 ? strtoul(argv[2], NULL, 10) : 256) << 20;
    printf("isa %s\n", kernels.isa);
    char *kv = allocate(dram_bytes);
    for (size_t i = 0; i < dram_bytes / 2; i++) {
        const uint16_t half = (uint16_t)(0x2c00 + (i * 40503u >> 5) % 0x1000);
        memcpy(kv + 2 * i, &half, sizeof half);
    }
    for (size_t i = 0; i < QUERIES_MAX * HEAD_DIM_MAX; i++) {
        queries[i / HEAD_DIM_MAX][i % HEAD_DIM_MAX] = (float)(i * 2654435761u % 1000) / 500 - 1;
    }
    for (uint32_t head_dim = 64; head_dim <= HEAD_DIM_MAX; head_dim *= 2) {
        bench_counts(
            (workload){.kernels = &kernels, .kv = kv, .head_dim = head_dim, .dtype = PS_DTYPE_F16});
        bench_counts((workload){
            .kernels = &kernels, .kv = kv, .head_dim = head_dim, .dtype = PS_DTYPE_Q8_0});
    }
    free(kv);
    return 0;
}
