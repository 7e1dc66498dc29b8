// ctest-labels: kernel
// ctest-links: m
// Goal: attention over KV blocks of every format gives the reference's bits on every ISA whatever
// the queries see, never reads a slot that no query sees into a result, and the reference is
// attention.
// Method: slots outside the ranges hold NaN and infinities, blocks outside them are NULL. The
// oracle takes K and V as stored, in double, and one softmax over all positions of all chunks. The
// layout of blocks is written here again.
#include "kernels/half.h"
#include "kernels/kernels.h"

#include "gen.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define QUERIES_MAX 40
#define HEAD_DIM_MAX 512
#define BLOCKS (PS_ATTENTION_CHUNK / PS_KV_BLOCK_TOKENS)
#define GUARD 64
#define UNIT 0x1p-24

// How the ranges of a call's queries are chosen.
enum view {
    DECODE, // all see the same
    CAUSAL, // rows of some heads, each seeing one position more
    WINDOW, // causal, and the beginning moves as well
    ANY,    // anything, empty ranges included
    VIEW_COUNT,
};

typedef struct outcome {
    float m[QUERIES_MAX];
    float l[QUERIES_MAX];
    float o[QUERIES_MAX * HEAD_DIM_MAX + GUARD];
} outcome;

enum part { K, V };

typedef struct scene {
    uint32_t head_dim;
    ps_dtype dtype[2]; // of K and V
    uint32_t queries;
    uint16_t begin[QUERIES_MAX];
    uint16_t end[QUERIES_MAX];
    float softcap;
    float scale;
    float q[QUERIES_MAX][HEAD_DIM_MAX];
    _Alignas(64) uint8_t kv[BLOCKS][2 * PS_KV_BLOCK_TOKENS * HEAD_DIM_MAX * sizeof(uint16_t)];
} scene;

static ps_kernels REF;
static ps_kernels ISAS[2];
static int ISA_COUNT;

static const uint32_t HEAD_DIMS[] = {8, 16, 24, 32, 40, 64, 72, 80, 96, 128, 256, 512};
#define HEAD_DIM_COUNT (sizeof HEAD_DIMS / sizeof HEAD_DIMS[0])

// The value of an f16, by its definition.
static double half_value(uint16_t half)
{
    const int exponent = half >> 10 & 31;
    const int fraction = half & 1023;
    const double sign = half >> 15 != 0 ? -1.0 : 1.0;
    if (exponent == 31) {
        return fraction != 0 ? NAN : sign * INFINITY;
    }
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25));
}

static uint32_t part_bytes(ps_dtype dtype, uint32_t head_dim)
{
    return dtype == PS_DTYPE_F16 ? 64 * head_dim : 34 * head_dim;
}

// From the start of K or V of a block to the f16 of position t, column d: the value, or of Q8_0 the
// scale.
static uint32_t half_offset(ps_dtype dtype, enum part part, uint32_t head_dim, uint32_t t,
                            uint32_t d)
{
    if (dtype == PS_DTYPE_F16) {
        return 2 * (part == K ? d * 32 + t : t * head_dim + d);
    }
    return part == K ? d / 32 * 1088 + 2 * t : 2 * (t * (head_dim / 32) + d / 32);
}

// The same to the quant; Q8_0.
static uint32_t quant_offset(enum part part, uint32_t head_dim, uint32_t t, uint32_t d)
{
    return part == K ? d / 32 * 1088 + 64 + d % 32 * 32 + t : 2 * head_dim + t * head_dim + d;
}

static uint8_t *part_of(scene *s, enum part part, uint32_t t)
{
    return s->kv[t / 32] + (part == K ? 0 : part_bytes(s->dtype[K], s->head_dim));
}

static double stored(scene *s, enum part part, uint32_t t, uint32_t d)
{
    const uint8_t *from = part_of(s, part, t);
    const ps_dtype dtype = s->dtype[part];
    uint16_t half;
    memcpy(&half, from + half_offset(dtype, part, s->head_dim, t % 32, d), sizeof half);
    if (dtype == PS_DTYPE_F16) {
        return half_value(half);
    }
    return half_value(half) * (int8_t)from[quant_offset(part, s->head_dim, t % 32, d)];
}

// Writes a value below 4 in magnitude, or when it is `wild` one of any bits. Quants of Q8_0 may
// always be any byte.
static void write_value(ps_gen *gen, scene *s, enum part part, uint32_t t, uint32_t d, int wild)
{
    static const uint16_t GARBAGE[] = {0x7c00, 0xfc00, 0x7e01, 0xfe00, 0x7d55, 0x7bff};
    uint8_t *to = part_of(s, part, t);
    const ps_dtype dtype = s->dtype[part];
    const uint64_t bits = ps_gen_next(gen);
    const uint32_t exponent = (uint32_t)(bits / 65536 % 5) + (dtype == PS_DTYPE_F16 ? 12 : 4);
    uint16_t half = (uint16_t)((bits & 0x83ff) | exponent << 10);
    if (wild != 0) {
        half = wild == 1 ? (uint16_t)bits : GARBAGE[bits % 6];
    }
    if (dtype == PS_DTYPE_F16 || d % 32 == 0) {
        memcpy(to + half_offset(dtype, part, s->head_dim, t % 32, d), &half, sizeof half);
    }
    if (dtype == PS_DTYPE_Q8_0) {
        to[quant_offset(part, s->head_dim, t % 32, d)] = (uint8_t)(bits >> 24);
    }
}

static bool anyone_sees(const scene *s, uint32_t t)
{
    for (uint32_t i = 0; i < s->queries; i++) {
        if (t >= s->begin[i] && t < s->end[i]) {
            return true;
        }
    }
    return false;
}

static void choose_ranges(ps_gen *gen, scene *s, enum view view)
{
    const uint32_t begin = (uint32_t)ps_gen_range(gen, 0, PS_ATTENTION_CHUNK);
    const uint32_t end = (uint32_t)ps_gen_range(gen, begin, PS_ATTENTION_CHUNK);
    const uint32_t heads = (uint32_t)ps_gen_range(gen, 1, 5);
    for (uint32_t i = 0; i < s->queries; i++) {
        const uint32_t later = i / heads;
        uint32_t from = view == CAUSAL ? 0 : begin;
        uint32_t to = end;
        if (view == CAUSAL || view == WINDOW) {
            to = begin + later;
        }
        if (view == WINDOW) {
            from = begin / 2 + later;
        }
        if (view == ANY) {
            from = (uint32_t)ps_gen_range(gen, 0, PS_ATTENTION_CHUNK);
            to = (uint32_t)ps_gen_range(gen, from, PS_ATTENTION_CHUNK);
        }
        to = to > PS_ATTENTION_CHUNK ? PS_ATTENTION_CHUNK : to;
        s->end[i] = (uint16_t)to;
        s->begin[i] = (uint16_t)(from < to ? from : to);
    }
}

// strange: visible K and V may hold any bits, queries any floats.
static void choose_values(ps_gen *gen, scene *s, bool strange)
{
    for (uint32_t t = 0; t < PS_ATTENTION_CHUNK; t++) {
        const bool seen = anyone_sees(s, t);
        for (uint32_t d = 0; d < s->head_dim; d++) {
            const bool any = strange && ps_gen_range(gen, 0, 15) == 0;
            write_value(gen, s, K, t, d, seen ? any : 2);
            write_value(gen, s, V, t, d, seen ? any : 2);
        }
    }
    for (uint32_t i = 0; i < s->queries; i++) {
        for (uint32_t d = 0; d < s->head_dim; d++) {
            s->q[i][d] = ps_gen_float(gen) * 3.0f;
            if (strange && ps_gen_range(gen, 0, 99) == 0) {
                s->q[i][d] = ps_f32_from_bits((uint32_t)ps_gen_next(gen));
            }
        }
    }
}

static void build(ps_gen *gen, scene *s, enum view view, bool strange)
{
    s->head_dim = HEAD_DIMS[ps_gen_range(gen, 0, HEAD_DIM_COUNT - 1)];
    for (int part = K; part <= V; part++) {
        const bool quantised = s->head_dim % 32 == 0 && ps_gen_range(gen, 0, 1) == 1;
        s->dtype[part] = quantised ? PS_DTYPE_Q8_0 : PS_DTYPE_F16;
    }
    s->queries = (uint32_t)ps_gen_range(gen, 1, ps_gen_range(gen, 0, 3) == 0 ? QUERIES_MAX : 14);
    s->softcap = ps_gen_range(gen, 0, 2) == 0 ? 20.0f : 0.0f;
    s->scale = 1.0f / sqrtf((float)s->head_dim);
    choose_ranges(gen, s, view);
    choose_values(gen, s, strange);
}

static void attend(const ps_kernels *kernels, scene *s, outcome *out)
{
    static _Alignas(64) float scratch[QUERIES_MAX * PS_ATTENTION_CHUNK];
    const float *q[QUERIES_MAX];
    const void *blocks[BLOCKS] = {NULL};
    for (uint32_t i = 0; i < s->queries; i++) {
        q[i] = s->q[i];
    }
    uint32_t first = PS_ATTENTION_CHUNK;
    uint32_t end = 0;
    for (uint32_t t = 0; t < PS_ATTENTION_CHUNK; t++) {
        if (anyone_sees(s, t)) {
            first = t < first ? t : first;
            end = t + 1;
        }
    }
    for (uint32_t b = first / 32; b * 32 < end; b++) {
        blocks[b] = s->kv[b];
    }
    memset(scratch, 0xff, sizeof scratch);
    memset(out, 0xa5, sizeof *out);
    const ps_attention_partial args = {
        .q = q,
        .queries = s->queries,
        .head_dim = s->head_dim,
        .k_dtype = s->dtype[K],
        .v_dtype = s->dtype[V],
        .blocks = blocks,
        .next = s->queries % 2 == 0 ? blocks : NULL, // a hint: any blocks will do
        .begin = s->begin,
        .end = s->end,
        .scale = s->scale,
        .softcap = s->softcap,
        .scratch = scratch,
        .m = out->m,
        .l = out->l,
        .o = out->o,
    };
    kernels->attention_partial(&args);
}

static void assert_same_floats(const float *want, const float *is, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        if ((isnan(want[i]) && isnan(is[i])) || ps_f32_bits(want[i]) == ps_f32_bits(is[i])) {
            continue;
        }
        fail_msg("%s[%zu] is %a, reference %a", what, i, (double)is[i], (double)want[i]);
    }
}

static void test_isas_are_bit_equal(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static scene s;
    static outcome want;
    static outcome is;
    for (int round = 0; round < 400; round++) {
        build(&gen, &s, (enum view)(round % VIEW_COUNT), round % 3 == 2);
        attend(&REF, &s, &want);
        for (int i = 0; i < ISA_COUNT; i++) {
            attend(&ISAS[i], &s, &is);
            assert_same_floats(want.m, is.m, QUERIES_MAX, "m");
            assert_same_floats(want.l, is.l, QUERIES_MAX, "l");
            assert_same_floats(want.o, is.o, sizeof is.o / sizeof is.o[0], "o");
        }
    }
}

// Every begin and end near the edges of vectors, spans and blocks, two queries that differ.
static void test_edges(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static scene s;
    static outcome want;
    static outcome is;
    static const uint16_t EDGES[] = {0,  1,  7,  8,  15,  16,  17,  31,
                                     32, 33, 63, 64, 127, 129, 255, 256};
    const size_t edges = sizeof EDGES / sizeof EDGES[0];
    s.scale = 0.5f;
    for (size_t from = 0; from < edges; from++) {
        for (size_t to = from; to < edges; to++) {
            const bool quantised = ps_gen_range(&gen, 0, 1) == 1;
            s.head_dim = quantised ? 32 : 24;
            s.dtype[K] = s.dtype[V] = quantised ? PS_DTYPE_Q8_0 : PS_DTYPE_F16;
            s.queries = (uint32_t)ps_gen_range(&gen, 1, 7);
            for (uint32_t i = 0; i < s.queries; i++) {
                s.begin[i] = EDGES[from];
                s.end[i] = EDGES[i == 0 ? to : (size_t)ps_gen_range(&gen, (int64_t)from, 15)];
            }
            choose_values(&gen, &s, false);
            attend(&REF, &s, &want);
            for (int i = 0; i < ISA_COUNT; i++) {
                attend(&ISAS[i], &s, &is);
                assert_same_floats(want.m, is.m, s.queries, "m");
                assert_same_floats(want.l, is.l, s.queries, "l");
                assert_same_floats(want.o, is.o, sizeof is.o / sizeof is.o[0], "o");
            }
        }
    }
}

// Scores of -0 must not show in m, or the order of comparisons would.
static void test_negative_zero(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static scene s;
    static outcome is;
    s = (scene){
        .head_dim = 16, .queries = 7, .scale = -1.0f, .dtype = {PS_DTYPE_F16, PS_DTYPE_F16}};
    for (uint32_t i = 0; i < s.queries; i++) {
        s.end[i] = (uint16_t)(20 + i);
    }
    choose_values(&gen, &s, false);
    memset(s.q, 0, sizeof s.q);
    for (int i = -1; i < ISA_COUNT; i++) {
        attend(i < 0 ? &REF : &ISAS[i], &s, &is);
        for (uint32_t k = 0; k < s.queries; k++) {
            assert_int_equal(0, ps_f32_bits(is.m[k]));
            assert_true(is.l[k] == (float)s.end[k]);
        }
    }
}

static double oracle_score(scene *s, uint32_t i, uint32_t t)
{
    double sum = 0;
    for (uint32_t d = s->head_dim; d-- > 0;) {
        sum += stored(s, K, t, d) * s->q[i][d];
    }
    sum *= s->scale;
    return s->softcap > 0 ? s->softcap * tanh(sum / s->softcap) : sum;
}

// Adds query i of chunk s to unnormalised weights relative to exp(0); scores here are below 100.
static double oracle_add(scene *s, uint32_t i, double *o)
{
    double total = 0;
    for (uint32_t t = s->begin[i]; t < s->end[i]; t++) {
        const double weight = exp(oracle_score(s, i, t));
        total += weight;
        for (uint32_t d = 0; d < s->head_dim; d++) {
            o[d] += weight * stored(s, V, t, d);
        }
    }
    return total;
}

// Scores err by head_dim units of their terms' sum, which moves weights by as much; |q| <= 3 and
// |K| < 4, so that terms sum to 12 * sqrt(head_dim) at most after the scale; V is below 4.
static double bound_of(uint32_t head_dim)
{
    return (head_dim * 12 * sqrt(head_dim) / 4 + 1024) * UNIT;
}

static void assert_result(const char *what, double is, double want, double bound)
{
    if (!(fabs(is - want) <= bound)) {
        fail_msg("%s is %.9g, want %.9g +- %.3g", what, is, want, bound);
    }
}

static void test_reference_is_attention(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static scene s;
    static outcome is;
    for (int round = 0; round < 60; round++) {
        build(&gen, &s, (enum view)(round % VIEW_COUNT), false);
        attend(&REF, &s, &is);
        const double bound = bound_of(s.head_dim);
        for (uint32_t i = 0; i < s.queries; i++) {
            double o[HEAD_DIM_MAX] = {0};
            const double total = oracle_add(&s, i, o);
            if (s.begin[i] == s.end[i]) {
                assert_true(is.m[i] == -INFINITY && is.l[i] == 0.0f);
                continue;
            }
            assert_result("l", is.l[i] * exp(is.m[i]) / total, 1, bound);
            for (uint32_t d = 0; d < s.head_dim; d++) {
                const float got = is.o[(size_t)i * s.head_dim + d];
                assert_result("o / l", got / is.l[i], o[d] / total, 4 * bound);
            }
        }
    }
}

#define CHUNKS 4

static void test_merged_chunks_equal_one_softmax(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static scene s;
    static outcome part;
    static double o[QUERIES_MAX][HEAD_DIM_MAX];
    static float running[QUERIES_MAX][HEAD_DIM_MAX];
    for (int round = 0; round < 12; round++) {
        float m[QUERIES_MAX];
        float l[QUERIES_MAX] = {0};
        double total[QUERIES_MAX] = {0};
        memset(o, 0, sizeof o);
        memset(running, 0, sizeof running);
        build(&gen, &s, ANY, false);
        for (uint32_t i = 0; i < s.queries; i++) {
            m[i] = -INFINITY;
        }
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            choose_ranges(&gen, &s, (enum view)ps_gen_range(&gen, 0, VIEW_COUNT - 1));
            choose_values(&gen, &s, false);
            attend(&REF, &s, &part);
            for (uint32_t i = 0; i < s.queries; i++) {
                total[i] += oracle_add(&s, i, o[i]);
                REF.attention_merge(&m[i], &l[i], running[i], part.m[i], part.l[i],
                                    part.o + (size_t)i * s.head_dim, s.head_dim);
            }
        }
        for (uint32_t i = 0; i < s.queries; i++) {
            for (uint32_t d = 0; d < s.head_dim && total[i] > 0; d++) {
                assert_result("merged o / l", running[i][d] / l[i], o[i][d] / total[i],
                              4 * bound_of(s.head_dim));
            }
            assert_true(total[i] > 0 || (l[i] == 0.0f && m[i] == -INFINITY));
        }
    }
}

// The nearest f16, ties to even, by rounding in double to the step of its binade.
static uint16_t oracle_half(float x)
{
    const uint16_t sign = signbit(x) != 0 ? 0x8000 : 0;
    const double magnitude = fabs((double)x);
    if (isnan(x)) {
        return 0x7e00;
    }
    int exponent;
    frexp(magnitude, &exponent); // magnitude in [2^(exponent-1), 2^exponent)
    const int step = (exponent < -13 ? -13 : exponent) - 11;
    const double steps = nearbyint(ldexp(magnitude, -step));
    if (magnitude >= 65520.0) {
        return sign | 0x7c00;
    }
    return (uint16_t)(sign | ((step + 24) * 1024 + (int)steps));
}

#define STORE_DIM_MAX 128

// What a store leaves in the bytes of a part, which were 0xa5 before.
static void oracle_store(uint8_t *part, ps_dtype dtype, enum part which, const float *x,
                         uint32_t head_dim, uint32_t slot)
{
    float amax = 0;
    for (uint32_t d = 0; d < head_dim; d++) {
        const uint32_t half_at = half_offset(dtype, which, head_dim, slot, d);
        uint16_t half = oracle_half(x[d]);
        if (dtype == PS_DTYPE_Q8_0) {
            for (uint32_t i = d; d % 32 == 0 && i < d + 32; i++) {
                amax = i == d ? fabsf(x[d]) : fmaxf(amax, fabsf(x[i]));
                amax = isfinite(x[i]) ? amax : INFINITY;
            }
            half = amax == INFINITY ? oracle_half(NAN) : oracle_half(amax / 127);
            const float scale = (float)half_value(half);
            const double q = scale > 0 && scale < INFINITY ? nearbyint(x[d] * (1 / scale)) : 0;
            part[quant_offset(which, head_dim, slot, d)] = (uint8_t)(int)fmax(-127, fmin(127, q));
        }
        memcpy(part + half_at, &half, sizeof half);
    }
}

static bool is_half_nan(const uint8_t *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return (half & 0x7fff) > 0x7c00;
}

static void check_store(const ps_kernels *kernels, ps_dtype dtype, enum part which, const float *x,
                        uint32_t head_dim, uint32_t slot)
{
    enum { BYTES = 64 * STORE_DIM_MAX + GUARD };
    static _Alignas(64) uint8_t want[BYTES];
    static _Alignas(64) uint8_t is[BYTES];
    memset(want, 0xa5, sizeof want);
    memset(is, 0xa5, sizeof is);
    oracle_store(want, dtype, which, x, head_dim, slot);
    ps_kv_store_fn *store = which == K ? ps_kernels_kv_store_k(kernels, dtype)
                                       : ps_kernels_kv_store_v(kernels, dtype);
    store(is, x, head_dim, slot);
    for (uint32_t d = 0; d < head_dim; d++) { // which NaN is left open
        const uint32_t at = half_offset(dtype, which, head_dim, slot, d);
        if (is_half_nan(want + at) && is_half_nan(is + at)) {
            memcpy(is + at, want + at, sizeof(uint16_t));
        }
    }
    assert_memory_equal(want, is, sizeof want);
}

// Exponents around those of f16, with ties and their neighbours among the fractions; of round 0
// anything, of 1 one non-finite value, of 2 what is too small for a scale or nearly so.
static void choose_row(ps_gen *gen, float *x, uint32_t n, int round)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t bits = ps_gen_next(gen);
        const uint32_t exponent = (uint32_t)(round == 2 ? ps_gen_range(gen, 0, 112)
                                                        : ps_gen_range(gen, 100, 145));
        const uint32_t fraction = (uint32_t)((bits & 0x7fe000u) + 0x0fffu + (bits >> 60) % 3);
        const uint32_t sign = (uint32_t)(bits >> 32 & 0x80000000u);
        x[i] = ps_f32_from_bits(round == 0 ? (uint32_t)bits : sign | exponent << 23 | fraction);
    }
    if (round == 1) {
        x[ps_gen_range(gen, 0, n - 1)] = ps_gen_range(gen, 0, 1) == 0 ? NAN : -INFINITY;
    }
}

static void test_store(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    float x[STORE_DIM_MAX];
    for (int round = 0; round < 2000; round++) {
        const ps_dtype dtype = round % 2 == 0 ? PS_DTYPE_F16 : PS_DTYPE_Q8_0;
        const enum part which = ps_gen_range(&gen, 0, 1) == 0 ? K : V;
        const uint32_t unit = dtype == PS_DTYPE_F16 ? 8 : 32;
        const uint32_t head_dim = (uint32_t)ps_gen_range(&gen, 1, STORE_DIM_MAX / unit) * unit;
        const uint32_t slot = (uint32_t)ps_gen_range(&gen, 0, 31);
        choose_row(&gen, x, head_dim, round / 2 % 5);
        check_store(&REF, dtype, which, x, head_dim, slot);
        for (int i = 0; i < ISA_COUNT; i++) {
            check_store(&ISAS[i], dtype, which, x, head_dim, slot);
        }
    }
}

// What attention reads back of Q8_0 is within half a step of what was stored, and NaN where that
// was not finite or too large.
static void test_quants_read_back(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    static scene s;
    static const float LARGE[] = {8.0e6f, 8.5e6f, INFINITY, NAN};
    s = (scene){.head_dim = 64, .dtype = {PS_DTYPE_Q8_0, PS_DTYPE_Q8_0}};
    for (int round = 0; round < 200; round++) {
        float x[64];
        const uint32_t slot = (uint32_t)ps_gen_range(&gen, 0, 31);
        const enum part which = round % 2 == 0 ? K : V;
        float amax = 0;
        for (uint32_t d = 0; d < 64; d++) {
            x[d] = ps_gen_float(&gen);
            amax = d < 32 ? fmaxf(amax, fabsf(x[d])) : amax;
        }
        const float large = LARGE[round / 2 % 4];
        x[32 + ps_gen_range(&gen, 0, 31)] = large;
        ps_kv_store_fn *store = which == K ? REF.kv_store_k_q8_0 : REF.kv_store_v_q8_0;
        store(part_of(&s, which, slot), x, 64, slot);
        for (uint32_t d = 0; d < 64; d++) {
            const double error = fabs(stored(&s, which, slot, d) - (double)x[d]);
            const double half_step = (d < 32 ? amax : large) / 127.0 / 2 * 1.01;
            assert_true(error <= half_step || (d >= 32 && large != 8.0e6f && isnan(error)));
        }
    }
}

static int select_isas(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"avx2", "avx512"};
    if (ps_kernels_for("ref", &REF) != PS_OK) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        if (ps_kernels_for(NAMES[i], &ISAS[ISA_COUNT]) == PS_OK) {
            ISA_COUNT++;
        } else {
            print_message("this CPU has no %s\n", NAMES[i]);
        }
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isas_are_bit_equal),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_negative_zero),
        cmocka_unit_test(test_reference_is_attention),
        cmocka_unit_test(test_merged_chunks_equal_one_softmax),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_quants_read_back),
    };
    return cmocka_run_group_tests(tests, select_isas, NULL);
}
