// bench/onednn_gemm.c - oneDNN's u8 x s8 -> s32 matrix product on one core, as a yardstick.
//
// Takes the shapes of bench_kernels (--tokens, --inputs, --outputs) and prints one line of JSON for
// each. The weights are reordered to the layout that the library likes best before the clock runs;
// scales are no part of its product, as they are of ours.
#include <dnnl.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 99
#define LIST_MAX 16
#define SLICE_NS 20e6 // a round lasts about as long, so that the clock's grain does not matter

typedef struct options {
    dnnl_dim_t tokens[LIST_MAX];
    int token_count;
    dnnl_dim_t inputs, outputs;
    int rounds;
} options;

typedef struct product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t matmul;
    dnnl_memory_t x, w, y;
} product;

static void check(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success) {
        fprintf(stderr, "onednn_gemm: %s: status %d\n", what, (int)status);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static dnnl_memory_desc_t matrix(dnnl_dim_t rows, dnnl_dim_t columns, dnnl_data_type_t type,
                                 dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t desc;
    const dnnl_dims_t dims = {rows, columns};
    CHECK(dnnl_memory_desc_init_by_tag(&desc, 2, dims, type, tag));
    return desc;
}

static dnnl_memory_t memory_of(const dnnl_memory_desc_t *desc, dnnl_engine_t engine)
{
    dnnl_memory_t memory;
    CHECK(dnnl_memory_create(&memory, desc, engine, DNNL_MEMORY_ALLOCATE));
    return memory;
}

static void fill(dnnl_memory_t memory, size_t bytes)
{
    void *data;
    CHECK(dnnl_memory_get_data_handle(memory, &data));
    uint32_t state = 1;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        ((uint8_t *)data)[i] = (uint8_t)(state >> 26);
    }
}

static void reorder(product *p, const dnnl_memory_desc_t *to)
{
    const dnnl_memory_desc_t *from;
    CHECK(dnnl_memory_get_memory_desc(p->w, &from));
    dnnl_primitive_desc_t desc;
    CHECK(dnnl_reorder_primitive_desc_create(&desc, from, p->engine, to, p->engine, NULL));
    dnnl_primitive_t primitive;
    CHECK(dnnl_primitive_create(&primitive, desc));
    dnnl_memory_t best = memory_of(to, p->engine);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, p->w}, {DNNL_ARG_TO, best}};
    CHECK(dnnl_primitive_execute(primitive, p->stream, 2, args));
    CHECK(dnnl_stream_wait(p->stream));
    CHECK(dnnl_primitive_destroy(primitive));
    CHECK(dnnl_primitive_desc_destroy(desc));
    CHECK(dnnl_memory_destroy(p->w));
    p->w = best;
}

static product product_create(dnnl_dim_t tokens, dnnl_dim_t inputs, dnnl_dim_t outputs)
{
    product p;
    CHECK(dnnl_engine_create(&p.engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&p.stream, p.engine, dnnl_stream_default_flags));
    const dnnl_memory_desc_t x = matrix(tokens, inputs, dnnl_u8, dnnl_ab);
    const dnnl_memory_desc_t w = matrix(inputs, outputs, dnnl_s8, dnnl_ab);
    const dnnl_memory_desc_t any = matrix(inputs, outputs, dnnl_s8, dnnl_format_tag_any);
    const dnnl_memory_desc_t y = matrix(tokens, outputs, dnnl_s32, dnnl_ab);
    p.x = memory_of(&x, p.engine);
    p.w = memory_of(&w, p.engine);
    p.y = memory_of(&y, p.engine);
    fill(p.x, (size_t)(tokens * inputs));
    fill(p.w, (size_t)(inputs * outputs));

    dnnl_matmul_desc_t operation;
    CHECK(dnnl_matmul_desc_init(&operation, &x, &any, NULL, &y));
    dnnl_primitive_desc_t desc;
    CHECK(dnnl_primitive_desc_create(&desc, &operation, NULL, p.engine, NULL));
    reorder(&p, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0));
    CHECK(dnnl_primitive_create(&p.matmul, desc));
    CHECK(dnnl_primitive_desc_destroy(desc));
    return p;
}

static void product_destroy(product *p)
{
    CHECK(dnnl_primitive_destroy(p->matmul));
    CHECK(dnnl_memory_destroy(p->x));
    CHECK(dnnl_memory_destroy(p->w));
    CHECK(dnnl_memory_destroy(p->y));
    CHECK(dnnl_stream_destroy(p->stream));
    CHECK(dnnl_engine_destroy(p->engine));
}

static double run_ns(const product *p, int repeats)
{
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, p->x}, {DNNL_ARG_WEIGHTS, p->w}, {DNNL_ARG_DST, p->y}};
    const double start = now_ns();
    for (int i = 0; i < repeats; i++) {
        CHECK(dnnl_primitive_execute(p->matmul, p->stream, 3, args));
        CHECK(dnnl_stream_wait(p->stream));
    }
    return (now_ns() - start) / repeats;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(dnnl_dim_t tokens, const options *o)
{
    product p = product_create(tokens, o->inputs, o->outputs);
    const int repeats = (int)(SLICE_NS / run_ns(&p, 1)) + 1; // which also warms everything
    double ns[ROUNDS_MAX];
    for (int r = 0; r < o->rounds; r++) {
        ns[r] = run_ns(&p, repeats);
    }
    qsort(ns, (size_t)o->rounds, sizeof *ns, by_value);
    const double median = ns[o->rounds / 2];
    const dnnl_version_t *version = dnnl_version();
    printf("{\"kernel\": \"onednn_u8s8s32\", \"version\": \"%d.%d.%d\", \"tokens\": %lld, "
           "\"inputs\": %lld, \"outputs\": %lld, \"ns\": %.0f, \"gops\": %.1f}\n",
           version->major, version->minor, version->patch, (long long)tokens, (long long)o->inputs,
           (long long)o->outputs, median,
           2.0 * (double)tokens * (double)o->inputs * (double)o->outputs / median);
    fflush(stdout);
    product_destroy(&p);
}

static _Noreturn void usage(const char *problem)
{
    fprintf(stderr,
            "onednn_gemm: %s\n"
            "usage: onednn_gemm [--tokens N,...] [--inputs N] [--outputs N] [--rounds N]\n",
            problem);
    exit(2);
}

static long long number(const char *text, long long highest, char **end)
{
    errno = 0;
    const long long value = strtoll(text, end, 10);
    if (errno != 0 || *end == text || value < 1 || value > highest) {
        usage("a number is out of range");
    }
    return value;
}

static void parse_option(options *o, const char *name, const char *value)
{
    char *end;
    if (strcmp(name, "--tokens") == 0) {
        o->token_count = 0;
        end = (char *)(uintptr_t)value - 1;
        do {
            if (o->token_count == LIST_MAX) {
                usage("more than 16 token counts");
            }
            o->tokens[o->token_count++] = number(end + 1, 1 << 16, &end);
        } while (*end == ',');
    } else if (strcmp(name, "--inputs") == 0) {
        o->inputs = number(value, 1 << 20, &end);
    } else if (strcmp(name, "--outputs") == 0) {
        o->outputs = number(value, 1 << 20, &end);
    } else if (strcmp(name, "--rounds") == 0) {
        o->rounds = (int)number(value, ROUNDS_MAX, &end);
    } else {
        usage("unknown option");
    }
    if (*end != '\0') {
        usage("a number has something behind it");
    }
}

int main(int argc, char **argv)
{
    // The library's threads are made when it is loaded, so the wish comes before that.
    if (getenv("OMP_NUM_THREADS") == NULL) {
        setenv("OMP_NUM_THREADS", "1", 1);
        execv("/proc/self/exe", argv);
    }
    options o = {.tokens = {512}, .token_count = 1, .inputs = 2048, .outputs = 2048, .rounds = 7};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            usage("an option lacks its value");
        }
        parse_option(&o, argv[i], argv[i + 1]);
    }
    for (int i = 0; i < o.token_count; i++) {
        bench(o.tokens[i], &o);
    }
    return 0;
}
