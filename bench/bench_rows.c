// bench/bench_rows.c - the kernels that work along a row, out of L1 on one core.
//
// A line gives nanoseconds a call, the bytes that the call must read and write in GB/s, what plain
// reads of as many bytes reach, and the share: medians over rounds of the ratio within a round.
//
// usage: bench_rows [--isa NAME] [--filter TEXT] [--json]
#include "kernels/kernels.h"

#include "roof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 7
#define PASSES 20000
#define VALUES 2048u
#define HEAD_DIM 64u
#define ROW_BYTES (VALUES * sizeof(float))
#define ROOF_BYTES ((size_t)16 << 10) // read again and again: inside any L1

static float x[VALUES] __attribute__((aligned(64)));
static float w[VALUES] __attribute__((aligned(64)));
static float y[VALUES] __attribute__((aligned(64)));
static char roof[ROOF_BYTES] __attribute__((aligned(64)));

static void run_quantise_q8(const ps_kernels *k)
{
    k->quantise_q8(y, x, VALUES);
}
static void run_rms_norm(const ps_kernels *k)
{
    k->rms_norm(y, x, w, VALUES, 1e-5f);
}
static void run_add(const ps_kernels *k)
{
    k->add(y, x, w, VALUES);
}
static void run_add_scaled(const ps_kernels *k)
{
    k->add_scaled(y, x, 0.5f, VALUES);
}
static void run_scale(const ps_kernels *k)
{
    k->scale(y, x, 0.5f, VALUES);
}
static void run_silu_mul(const ps_kernels *k)
{
    k->silu_mul(y, x, w, VALUES);
}
static void run_gelu_mul(const ps_kernels *k)
{
    k->gelu_mul(y, x, w, VALUES);
}
static void run_rope_norm(const ps_kernels *k)
{
    k->rope_norm(y, w, VALUES / HEAD_DIM, HEAD_DIM, HEAD_DIM);
}
static void run_rope_neox(const ps_kernels *k)
{
    k->rope_neox(y, w, VALUES / HEAD_DIM, HEAD_DIM, HEAD_DIM);
}
static void run_softmax(const ps_kernels *k)
{
    k->softmax(y, x, VALUES);
}
static void run_softcap(const ps_kernels *k)
{
    k->softcap(y, x, 30.0f, VALUES);
}
static void run_kv_store_k_f16(const ps_kernels *k)
{
    k->kv_store_k_f16(y, x, HEAD_DIM, 5);
}
static void run_kv_store_v_f16(const ps_kernels *k)
{
    k->kv_store_v_f16(y, x, HEAD_DIM, 5);
}
static void run_kv_store_k_q8_0(const ps_kernels *k)
{
    k->kv_store_k_q8_0(y, x, HEAD_DIM, 5);
}
static void run_kv_store_v_q8_0(const ps_kernels *k)
{
    k->kv_store_v_q8_0(y, x, HEAD_DIM, 5);
}

#define STORE_F16_BYTES (HEAD_DIM * (sizeof(float) + 2))
#define STORE_Q8_BYTES (HEAD_DIM * (sizeof(float) + 1) + HEAD_DIM / 32 * 2)

static const struct {
    const char *name;
    void (*run)(const ps_kernels *kernels);
    size_t bytes; // read and written by one call
} ROWS[] = {
    {"quantise_q8", run_quantise_q8, ROW_BYTES + VALUES * 11 / 8},
    {"rms_norm", run_rms_norm, 3 * ROW_BYTES},
    {"add", run_add, 3 * ROW_BYTES},
    {"add_scaled", run_add_scaled, 3 * ROW_BYTES},
    {"scale", run_scale, 2 * ROW_BYTES},
    {"silu_mul", run_silu_mul, 3 * ROW_BYTES},
    {"gelu_mul", run_gelu_mul, 3 * ROW_BYTES},
    {"rope_norm", run_rope_norm, 2 * ROW_BYTES},
    {"rope_neox", run_rope_neox, 2 * ROW_BYTES},
    {"softmax", run_softmax, 2 * ROW_BYTES},
    {"softcap", run_softcap, 2 * ROW_BYTES},
    {"kv_store_k_f16", run_kv_store_k_f16, STORE_F16_BYTES},
    {"kv_store_v_f16", run_kv_store_v_f16, STORE_F16_BYTES},
    {"kv_store_k_q8_0", run_kv_store_k_q8_0, STORE_Q8_BYTES},
    {"kv_store_v_q8_0", run_kv_store_v_q8_0, STORE_Q8_BYTES},
};

// The thread's own processor time: what others run on this core does not count.
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

// Values as models have them: [-1, 1) and never all alike.
static void fill(float *row, uint32_t seed)
{
    for (uint32_t i = 0; i < VALUES; i++) {
        seed = seed * 1664525u + 1013904223u;
        row[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

static void bench_row(const ps_kernels *kernels, size_t row, bool json)
{
    double ns[ROUNDS];
    double read_ns[ROUNDS];
    double share[ROUNDS];
    const double bytes = (double)ROWS[row].bytes;
    for (int r = 0; r < ROUNDS; r++) {
        fill(y, 3);
        const double start = now_ns();
        for (int i = 0; i < PASSES; i++) {
            roof_read(roof, ROOF_BYTES);
        }
        const double middle = now_ns();
        for (int i = 0; i < PASSES; i++) {
            ROWS[row].run(kernels);
        }
        ns[r] = (now_ns() - middle) / PASSES;
        read_ns[r] = (middle - start) / PASSES * bytes / (double)ROOF_BYTES;
        share[r] = read_ns[r] / ns[r];
    }
    const double call_ns = median(ns);
    const double gbs = bytes / call_ns;
    const double roof_gbs = bytes / median(read_ns);
    if (json) {
        static bool later = false;
        printf("%s\n  {\"kernel\": \"%s\", \"bytes\": %zu, \"ns\": %.1f, \"gbs\": %.1f, "
               "\"roof_gbs\": %.1f, \"read_share\": %.3f}",
               later ? "," : "", ROWS[row].name, ROWS[row].bytes, call_ns, gbs, roof_gbs,
               median(share));
        later = true;
    } else {
        printf("%-16s %6zu bytes %8.1f ns %7.1f GB/s of %6.1f, share %.2f\n", ROWS[row].name,
               ROWS[row].bytes, call_ns, gbs, roof_gbs, median(share));
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *isa = NULL;
    const char *filter = "";
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc) {
            isa = argv[++i];
        } else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc) {
            filter = argv[++i];
        } else {
            fprintf(stderr, "usage: bench_rows [--isa NAME] [--filter TEXT] [--json]\n");
            return 2;
        }
    }
    ps_kernels kernels;
    if ((isa != NULL ? ps_kernels_for(isa, &kernels) : ps_kernels_select(&kernels)) != PS_OK) {
        return 2;
    }
    fill(x, 1);
    fill(w, 2);
    memset(roof, 1, sizeof roof); // pages that nobody wrote to are one page
    if (json) {
        printf("[");
    } else {
        printf("isa %s, rows of %u, stores of %u\n", kernels.isa, VALUES, HEAD_DIM);
    }
    for (size_t row = 0; row < sizeof ROWS / sizeof ROWS[0]; row++) {
        if (strstr(ROWS[row].name, filter) != NULL) {
            bench_row(&kernels, row, json);
        }
    }
    if (json) {
        printf("\n]\n");
    }
    return 0;
}
