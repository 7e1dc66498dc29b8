// bench/bench_experts.c - the grouped call of one MoE layer: gate and up, then down, of all rows.
//
// 4 rows, 512 experts top-10 of 640 columns, dim 2560, all in memory; no expert is used again
// before all others of all layers, so that every byte comes from DRAM. A line gives the time of a
// block, the bytes of its distinct experts in GB/s, what plain reads of as many bytes by the same
// threads reach and the share of it, and how much longer one call for each (row, expert) pair
// takes: medians over rounds, ratios within a round. `apart`: rows share no expert; `agree`: all
// rows choose the same ones; `alone`: one row. Before them the time that choosing the experts of a
// row takes.
//
// usage: bench_experts [--threads N] [--layers N] [--filter TEXT] [--json]
#include "base/pages.h"
#include "exec/exec_internal.h"
#include "kernels/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 21
#define ROWS 4u
#define EXPERTS 512u
#define TOP_K 10u
#define DIM 2560u
#define FFN 640u
#define PAIRS (ROWS * TOP_K)
#define LAYERS_MAX 16u

// What the rows of a call choose.
typedef struct routing {
    const char *name;
    uint32_t rows, distinct; // experts
} routing;

static const routing ROUTINGS[] = {
    {"apart", ROWS, PAIRS}, {"agree", ROWS, TOP_K}, {"alone", 1, TOP_K}};

typedef struct layer {
    ps_weight gate, up, down;
} layer;

typedef struct bench {
    ps_kernels kernels;
    ps_team *team;
    ps_exec exec;
    layer layers[LAYERS_MAX];
    uint32_t layer_count;
    uint64_t expert_bytes;
    ps_plan_value x_value, route_value, h_value, y_value;
    ps_operand x, route, h, y;
    char *scratch; // [workers][scratch_bytes]
    uint64_t scratch_bytes;
    uint32_t used; // (layer, expert) pairs, in the order of use
    const layer *at;
    const routing *routing;
    ps_plan_step plans[2]; // gate_up and down of all rows together,
    ps_plan_step ones[2];  // and of one pair
} bench;

static void stop(const char *what)
{
    fprintf(stderr, "bench_experts: %s\n", what);
    exit(1);
}

static void *pages(uint64_t bytes)
{
    void *memory = NULL;
    if (ps_pages_map(bytes, "a benchmark", &memory) != PS_OK) {
        exit(1);
    }
    return memory;
}

// One random matrix, again and again: scales are 0.004 to 0.008, where a type has them.
static ps_weight make_experts(ps_dtype dtype, uint32_t outputs, uint32_t inputs)
{
    const ps_dtype_info *info = ps_dtype_get(dtype);
    const uint64_t row_bytes = ps_dtype_row_bytes(dtype, inputs);
    const uint64_t matrix_bytes = ps_packed_bytes(dtype, outputs, inputs);
    uint8_t *rows = malloc(outputs * row_bytes);
    char *packed = pages(EXPERTS * matrix_bytes);
    if (rows == NULL) {
        stop("no memory");
    }
    uint32_t seed = 1;
    for (uint64_t i = 0; i < outputs * row_bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint64_t at = i % info->block_bytes;
        rows[i] = at == 1 || (dtype == PS_DTYPE_Q4_K && at == 3) ? 0x1c : (uint8_t)(seed >> 24);
    }
    ps_pack_groups(packed, rows, row_bytes, dtype, outputs, inputs, 0, outputs / PS_GROUP_ROWS);
    for (uint32_t e = 1; e < EXPERTS; e++) {
        memcpy(packed + e * matrix_bytes, packed, matrix_bytes);
    }
    free(rows);
    return (ps_weight){.dtype = dtype,
                       .outputs = outputs,
                       .inputs = inputs,
                       .experts = EXPERTS,
                       .expert_stride_bytes = matrix_bytes,
                       .data = packed};
}

static void free_experts(const ps_weight *weight)
{
    ps_pages_unmap((void *)(uintptr_t)weight->data,
                   EXPERTS * ps_packed_bytes(weight->dtype, weight->outputs, weight->inputs));
}

static ps_operand activation(bench *b, ps_plan_value *value, ps_dtype dtype, uint32_t columns,
                             uint32_t multiplier)
{
    value->is = (ps_value){.kind = PS_VALUE_ACTIVATION,
                           .dtype = dtype,
                           .columns = columns,
                           .row_multiplier = multiplier};
    const ps_operand operand = {
        .kind = PS_VALUE_ACTIVATION,
        .dtype = dtype,
        .columns = columns,
        .offset_bytes = b->exec.shared_bytes,
        .row_bytes = ps_round_up(ps_dtype_row_bytes(dtype, columns), PS_CACHE_LINE_BYTES),
        .value = value};
    b->exec.shared_bytes += ROWS * multiplier * operand.row_bytes;
    return operand;
}

static ps_bound_step gate_up_step(const bench *b, const ps_plan_step plans[2])
{
    return (ps_bound_step){.plan = &plans[0],
                           .inputs = {b->x,
                                      b->route,
                                      {.kind = PS_VALUE_WEIGHT, .weight = &b->at->gate},
                                      {.kind = PS_VALUE_WEIGHT, .weight = &b->at->up}},
                           .output = b->h};
}

static ps_bound_step down_step(const bench *b, const ps_plan_step plans[2])
{
    return (ps_bound_step){
        .plan = &plans[1],
        .inputs = {b->h, b->route, {.kind = PS_VALUE_WEIGHT, .weight = &b->at->down}},
        .output = b->y};
}

static void make_rows(bench *b)
{
    b->x = activation(b, &b->x_value, PS_DTYPE_Q8_ROW, DIM, 1);
    b->route = activation(b, &b->route_value, PS_DTYPE_F32, 2 * TOP_K, 1);
    b->h = activation(b, &b->h_value, PS_DTYPE_Q8_ROW, FFN, TOP_K);
    b->y = activation(b, &b->y_value, PS_DTYPE_F32, DIM, TOP_K);
    b->exec.shared = pages(b->exec.shared_bytes);
    const ps_walk walk = {.exec = &b->exec};
    uint32_t seed = 7;
    for (uint32_t r = 0; r < ROWS; r++) {
        float x[DIM];
        for (uint32_t i = 0; i < DIM; i++) {
            seed = seed * 1664525u + 1013904223u;
            x[i] = (float)(int32_t)seed * 0x1p-31f;
        }
        b->kernels.quantise_q8(ps_row(&walk, &b->x, r), x, DIM);
    }
    for (uint32_t i = 0; i < 2; i++) {
        b->plans[i] = (ps_plan_step){.attributes = {.experts = EXPERTS, .top_k = TOP_K},
                                     .input_count = 4 - i,
                                     .split = PS_SPLIT_UNITS};
        b->ones[i] = b->plans[i];
        b->ones[i].attributes.top_k = 1;
    }
    const ps_plan plan = {.rows_max = ROWS};
    b->at = &b->layers[0];
    const ps_bound_step steps[] = {gate_up_step(b, b->plans), down_step(b, b->plans)};
    for (int i = 0; i < 2; i++) {
        const uint64_t bytes = ps_exec_experts_scratch_bytes(&plan, &steps[i]);
        b->scratch_bytes = bytes > b->scratch_bytes ? bytes : b->scratch_bytes;
    }
    b->scratch_bytes = ps_round_up(b->scratch_bytes, 4096);
    b->scratch = pages(b->scratch_bytes * ps_team_workers(b->team));
}

// The experts of the next call, which have not been used for longest, in a scattered order.
static void choose_experts(bench *b)
{
    const uint32_t count = b->routing->distinct;
    if (b->used % EXPERTS + count > EXPERTS) {
        b->used = (b->used / EXPERTS + 1) * EXPERTS;
    }
    b->at = &b->layers[b->used / EXPERTS % b->layer_count];
    const ps_walk walk = {.exec = &b->exec};
    for (uint32_t p = 0; p < b->routing->rows * TOP_K; p++) {
        const int32_t expert = (int32_t)((b->used + p % count) * 197 % EXPERTS);
        memcpy(ps_row_f32(&walk, &b->route, p / TOP_K) + p % TOP_K, &expert, sizeof expert);
    }
    b->used += count;
}

static ps_walk walk_of(const bench *b, uint32_t worker, uint32_t workers, uint32_t rows)
{
    return (ps_walk){.exec = &b->exec,
                     .kernels = &b->kernels,
                     .row_count = rows,
                     .worker = worker,
                     .workers = workers,
                     .scratch = b->scratch + worker * b->scratch_bytes};
}

static void run_grouped(void *argument, uint32_t worker, uint32_t workers)
{
    const bench *b = argument;
    const ps_walk walk = walk_of(b, worker, workers, b->routing->rows);
    const ps_bound_step gate_up = gate_up_step(b, b->plans);
    const ps_bound_step down = down_step(b, b->plans);
    ps_exec_op_EXPERT_GATE_UP(&walk, &gate_up);
    ps_team_barrier(b->team, NULL);
    ps_exec_op_EXPERT_LINEAR(&walk, &down);
}

static void run_pairs(void *argument, uint32_t worker, uint32_t workers)
{
    const bench *b = argument;
    const ps_walk walk = walk_of(b, worker, workers, 1);
    ps_bound_step gate_up = gate_up_step(b, b->ones);
    ps_bound_step down = down_step(b, b->ones);
    for (uint32_t p = 0; p < b->routing->rows * TOP_K; p++) {
        const uint64_t route = b->route.offset_bytes + p / TOP_K * b->route.row_bytes +
                               p % TOP_K * sizeof(int32_t);
        gate_up.inputs[0].offset_bytes = b->x.offset_bytes + p / TOP_K * b->x.row_bytes;
        gate_up.inputs[1].offset_bytes = route;
        gate_up.output.offset_bytes = b->h.offset_bytes + p * b->h.row_bytes;
        down.inputs[0].offset_bytes = gate_up.output.offset_bytes;
        down.inputs[1].offset_bytes = route;
        down.output.offset_bytes = b->y.offset_bytes + p * b->y.row_bytes;
        ps_exec_op_EXPERT_GATE_UP(&walk, &gate_up);
        ps_team_barrier(b->team, NULL);
        ps_exec_op_EXPERT_LINEAR(&walk, &down);
        ps_team_barrier(b->team, NULL);
    }
}

// As many bytes as the distinct experts of the call have, one after the other.
typedef struct reading {
    const bench *bench;
    uint64_t bytes;
} reading;

static void run_read(void *argument, uint32_t worker, uint32_t workers)
{
    const reading *r = argument;
    const ps_weight *weights[] = {&r->bench->at->gate, &r->bench->at->up, &r->bench->at->down};
    uint64_t left = r->bytes / workers;
    for (int i = 0; i < 3 && left > 0; i++) {
        const uint64_t size = EXPERTS * ps_packed_bytes(weights[i]->dtype, weights[i]->outputs,
                                                        weights[i]->inputs);
        // The half of a layer that calls have not reached, or have left long ago.
        const uint64_t half = r->bench->used % EXPERTS < EXPERTS / 2 ? size / 2 : 0;
        const uint64_t share = size / 2 / workers;
        const uint64_t bytes = (left < share ? left : share) / 512 * 512;
        const char *from = (const char *)weights[i]->data + half + worker * share / 512 * 512;
        r->bench->kernels.read(from, bytes);
        left = bytes < 512 ? 0 : left - bytes;
    }
}

static double now_ns(const bench *b)
{
    struct timespec t;
    clock_gettime(ps_team_workers(b->team) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_ns(const bench *b, ps_team_function *function, const void *argument)
{
    const double start = now_ns(b);
    ps_team_run(b->team, function, (void *)(uintptr_t)argument);
    return now_ns(b) - start;
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

static void print_line(bool json, const char *type, uint32_t threads, const char *name,
                       double bytes, double ns, double roof_ns, double share, double pairs)
{
    if (json) {
        static bool later = false;
        printf("%s\n  {\"type\": \"%s\", \"threads\": %u, \"rows\": \"%s\", \"bytes\": %.0f, "
               "\"block_ms\": %.3f, \"gbs\": %.2f, \"roof_gbs\": %.2f, \"read_share\": %.3f, "
               "\"pairs_ratio\": %.2f}",
               later ? "," : "", type, threads, name, bytes, ns / 1e6, bytes / ns, bytes / roof_ns,
               share, pairs);
        later = true;
    } else {
        printf("%-5s %u threads, rows %s %7.1f MB %8.3f ms %7.2f GB/s of %6.2f, share %.2f; a call "
               "for each pair %.2f x\n",
               type, threads, name, bytes / 1e6, ns / 1e6, bytes / ns, bytes / roof_ns, share,
               pairs);
    }
    fflush(stdout);
}

static void bench_rows(bench *b, const char *type, bool json)
{
    double ns[ROUNDS] = {0}, roof_ns[ROUNDS] = {0}, share[ROUNDS] = {0}, pairs[ROUNDS] = {0};
    const reading read = {.bench = b, .bytes = b->routing->distinct * b->expert_bytes};
    for (int r = 0; r < ROUNDS; r++) {
        choose_experts(b);
        roof_ns[r] = time_ns(b, run_read, &read);
        ns[r] = time_ns(b, run_grouped, b);
        choose_experts(b);
        pairs[r] = time_ns(b, run_pairs, b) / ns[r];
        share[r] = roof_ns[r] / ns[r];
    }
    print_line(json, type, ps_team_workers(b->team), b->routing->name, (double)read.bytes,
               median(ns), median(roof_ns), median(share), median(pairs));
}

static void bench_type(bench *b, const char *type, ps_dtype gate_up, ps_dtype down, bool json)
{
    for (uint32_t i = 0; i < b->layer_count; i++) {
        b->layers[i] = (layer){.gate = make_experts(gate_up, FFN, DIM),
                               .up = make_experts(gate_up, FFN, DIM),
                               .down = make_experts(down, DIM, FFN)};
    }
    b->expert_bytes = 2 * ps_packed_bytes(gate_up, FFN, DIM) + ps_packed_bytes(down, DIM, FFN);
    b->exec.shared_bytes = 0;
    make_rows(b);
    for (size_t i = 0; i < sizeof ROUTINGS / sizeof ROUTINGS[0]; i++) {
        b->routing = &ROUTINGS[i];
        bench_rows(b, type, json);
    }
    ps_pages_unmap(b->exec.shared, b->exec.shared_bytes);
    ps_pages_unmap(b->scratch, b->scratch_bytes * ps_team_workers(b->team));
    for (uint32_t i = 0; i < b->layer_count; i++) {
        free_experts(&b->layers[i].gate);
        free_experts(&b->layers[i].up);
        free_experts(&b->layers[i].down);
    }
}

// The operator that chooses: a softmax over the logits, then the best of them.
static void bench_route(bench *b)
{
    const uint32_t times = 1000;
    ps_plan_value logits_value = {0}, route_value = {0};
    b->exec.shared_bytes = 0;
    const ps_operand logits = activation(b, &logits_value, PS_DTYPE_F32, EXPERTS, 1);
    const ps_operand route = activation(b, &route_value, PS_DTYPE_F32, 2 * TOP_K, 1);
    b->exec.shared = pages(b->exec.shared_bytes);
    const ps_plan_step plan = {.attributes = {.experts = EXPERTS, .top_k = TOP_K, .normalise = 1},
                               .split = PS_SPLIT_ALL};
    const ps_bound_step step = {.plan = &plan, .inputs = {logits}, .output = route};
    const uint64_t scratch_bytes = ps_exec_route_scratch_bytes(&plan.attributes);
    char *scratch = pages(scratch_bytes);
    const ps_walk walk = {
        .exec = &b->exec, .kernels = &b->kernels, .row_count = ROWS, .scratch = scratch};
    double ns[ROUNDS] = {0};
    uint32_t seed = 3;
    for (int r = 0; r < ROUNDS; r++) {
        for (uint32_t i = 0; i < ROWS * EXPERTS; i++) {
            seed = seed * 1664525u + 1013904223u;
            ps_row_f32(&walk, &logits, i / EXPERTS)[i % EXPERTS] = (float)(int32_t)seed * 0x1p-30f;
        }
        const double start = now_ns(b);
        for (uint32_t i = 0; i < times; i++) {
            ps_exec_op_ROUTE(&walk, &step);
        }
        ns[r] = (now_ns(b) - start) / (times * ROWS);
    }
    printf("route %u of %u experts %.2f us a row\n", TOP_K, EXPERTS, median(ns) / 1e3);
    ps_pages_unmap(scratch, scratch_bytes);
    ps_pages_unmap(b->exec.shared, b->exec.shared_bytes);
}

int main(int argc, char **argv)
{
    static bench b = {.layer_count = 2, .routing = ROUTINGS};
    uint32_t threads = 1;
    const char *filter = "";
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            threads = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--layers") == 0 && i + 1 < argc) {
            b.layer_count = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc) {
            filter = argv[++i];
        } else {
            fprintf(stderr, "usage: bench_experts [--threads N] [--layers N] [--filter TEXT] "
                            "[--json]\n");
            return 2;
        }
    }
    if (b.layer_count == 0 || b.layer_count > LAYERS_MAX) {
        stop("1 to 16 layers would be right");
    }
    if (ps_kernels_select(&b.kernels) != PS_OK || ps_team_create(threads, &b.team) != PS_OK) {
        return 2;
    }
    // 640 inputs are no multiple of Q4_K's blocks, and files have another type there.
    static const struct {
        const char *name;
        ps_dtype gate_up, down;
    } TYPES[] = {{"Q4_0", PS_DTYPE_Q4_0, PS_DTYPE_Q4_0},
                 {"Q8_0", PS_DTYPE_Q8_0, PS_DTYPE_Q8_0},
                 {"Q4_K", PS_DTYPE_Q4_K, PS_DTYPE_Q5_0}};
    printf(json ? "[" : "isa %s, %u layers\n", b.kernels.isa, b.layer_count);
    if (!json) {
        bench_route(&b);
    }
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (strstr(TYPES[i].name, filter) != NULL) {
            bench_type(&b, TYPES[i].name, TYPES[i].gate_up, TYPES[i].down, json);
        }
    }
    if (json) {
        printf("\n]\n");
    }
    ps_team_destroy(b.team);
    return 0;
}
