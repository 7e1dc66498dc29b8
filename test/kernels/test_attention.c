// ctest-labels: kernel
// ctest-links: m
// Goal: attention over KV blocks gives the reference's bits on every ISA whatever the queries see,
// never reads a slot that no query sees into a result, and the reference is attention.
// Method: slots outside the ranges hold NaN and infinities, blocks outside them are NULL. The
// oracle keeps K and V as written, in double, and takes one softmax over all positions of all
// chunks.
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

typedef struct scene {
    uint32_t head_dim;
    uint32_t queries;
    uint16_t begin[QUERIES_MAX];
    uint16_t end[QUERIES_MAX];
    float softcap;
    float scale;
    float q[QUERIES_MAX][HEAD_DIM_MAX];
    uint16_t kv[BLOCKS][2 * PS_KV_BLOCK_TOKENS * HEAD_DIM_MAX];
} scene;

static ps_kernels REF;
static ps_kernels ISAS[2];
static int ISA_COUNT;

static const uint32_t HEAD_DIMS[] = {8, 16, 24, 40, 64, 72, 80, 96, 128, 256, 512};
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

static uint16_t *key_at(scene *s, uint32_t t, uint32_t d)
{
    return &s->kv[t / 32][d * 32 + t % 32];
}

static uint16_t *value_at(scene *s, uint32_t t, uint32_t d)
{
    return &s->kv[t / 32][32 * s->head_dim + t % 32 * s->head_dim + d];
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
    static const uint16_t GARBAGE[] = {0x7c00, 0xfc00, 0x7e01, 0xfe00, 0x7d55, 0x7bff};
    for (uint32_t t = 0; t < PS_ATTENTION_CHUNK; t++) {
        const bool seen = anyone_sees(s, t);
        for (uint32_t d = 0; d < s->head_dim; d++) {
            for (int which = 0; which < 2; which++) {
                const uint64_t bits = ps_gen_next(gen);
                uint16_t half = (uint16_t)((bits & 0x83ff) | (12 + bits / 65536 % 5) << 10);
                if (strange && (bits >> 40) % 16 == 0) {
                    half = (uint16_t)bits;
                }
                half = seen ? half : GARBAGE[bits % 6];
                *(which != 0 ? value_at(s, t, d) : key_at(s, t, d)) = half;
            }
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
        .blocks = blocks,
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
    s.head_dim = 24;
    s.scale = 0.5f;
    for (size_t from = 0; from < edges; from++) {
        for (size_t to = from; to < edges; to++) {
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
    s = (scene){.head_dim = 16, .queries = 7, .scale = -1.0f};
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
        sum += half_value(*key_at(s, t, d)) * s->q[i][d];
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
            o[d] += weight * half_value(*value_at(s, t, d));
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

static void assert_stored(const uint16_t *block, const float *k, const float *v, uint32_t head_dim,
                          uint32_t slot)
{
    for (uint32_t i = 0; i < 64 * head_dim; i++) {
        float from = NAN;
        bool written = false;
        if (k != NULL && i < 32 * head_dim && i % 32 == slot) {
            from = k[i / 32];
            written = true;
        } else if (v != NULL && i >= (32 + slot) * head_dim && i < (33 + slot) * head_dim) {
            from = v[i - (32 + slot) * head_dim];
            written = true;
        }
        if (written && isnan(from)) {
            assert_true((block[i] & 0x7fff) > 0x7c00);
        } else {
            assert_int_equal(written ? oracle_half(from) : 0xa5a5, block[i]);
        }
    }
}

static void check_store(const ps_kernels *kernels, const float *k, const float *v,
                        uint32_t head_dim, uint32_t slot)
{
    static uint16_t block[64 * 128 + GUARD];
    memset(block, 0xa5, sizeof block);
    kernels->kv_store(block, k, v, head_dim, slot);
    assert_stored(block, k, v, head_dim, slot);
    for (uint32_t i = 0; i < GUARD; i++) {
        assert_int_equal(0xa5a5, block[64 * head_dim + i]);
    }
}

static void test_store(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    float x[2][128];
    for (int round = 0; round < 1000; round++) {
        const uint32_t head_dim = (uint32_t)ps_gen_range(&gen, 1, 16) * 8;
        const uint32_t slot = (uint32_t)ps_gen_range(&gen, 0, 31);
        for (uint32_t i = 0; i < 2 * head_dim; i++) {
            // Exponents around those of f16, with ties and their neighbours among the fractions.
            const uint64_t bits = ps_gen_next(&gen);
            const uint32_t exponent = (uint32_t)ps_gen_range(&gen, 100, 145);
            const uint32_t fraction = (uint32_t)((bits & 0x7fe000u) + 0x0fffu + (bits >> 60) % 3);
            const uint32_t sign = (uint32_t)(bits >> 32 & 0x80000000u);
            x[i / head_dim][i % head_dim] = ps_f32_from_bits(
                round % 4 == 0 ? (uint32_t)bits : sign | exponent << 23 | fraction);
        }
        const float *k = round % 5 == 1 ? NULL : x[0];
        const float *v = round % 5 == 2 ? NULL : x[1];
        check_store(&REF, k, v, head_dim, slot);
        for (int i = 0; i < ISA_COUNT; i++) {
            check_store(&ISAS[i], k, v, head_dim, slot);
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
    };
    return cmocka_run_group_tests(tests, select_isas, NULL);
}
