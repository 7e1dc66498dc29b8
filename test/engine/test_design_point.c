// ctest-labels: prop
// ctest-links: ps_engine
// Goal: design points are the same for a model whose equal layers are folded and for all of it; a
// better machine is never slower; what is read does not depend on who prefetches it, and nothing
// is moved faster than memory is; the same input gives the same bits.
// Method: random models, machines and workloads from a seed. What is conserved is counted by the
// plan's own operands, or by comparing two plays.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/design_point.h"
#include "engine/model_internal.h"
#include "explore/fold.h"
#include "gen.h"

#include <math.h>
#include <string.h>

#define ROUNDS 40
#define LAYERS_MAX 24u
#define ARENA_BYTES ((size_t)1 << 30)

typedef struct made_model {
    ps_model_config config;
    ps_model_layer layers[LAYERS_MAX];
} made_model;

static uint32_t pick(ps_gen *gen, int64_t lowest, int64_t highest)
{
    return (uint32_t)ps_gen_range(gen, lowest, highest);
}

static double rate(ps_gen *gen, double lowest, double highest)
{
    return lowest * pow(highest / lowest, (double)ps_gen_range(gen, 0, 1000) / 1000);
}

// Layers repeat after 1 to 3; models with experts are among them.
static void make_model(ps_gen *gen, made_model *m)
{
    const uint32_t kv_heads = 1u << pick(gen, 0, 3);
    const uint32_t group = 1u << pick(gen, 0, 2);
    const uint32_t period = pick(gen, 1, 3);
    const bool has_experts = pick(gen, 0, 2) == 0;
    *m = (made_model){.config = {.architecture = has_experts ? "qwen3moe" : "llama",
                                 .name = "made",
                                 .layers = pick(gen, 1, LAYERS_MAX),
                                 .dim = 128 * pick(gen, 2, 16),
                                 .vocabulary = 16 * pick(gen, 20, 2000),
                                 .context_tokens = 1 << 20,
                                 .norm_eps = 1e-5F,
                                 .rotary_dim = 64,
                                 .attention_scale = 0.1F,
                                 .kv_group_count = 1,
                                 .weight_dtype = PS_DTYPE_Q8_0}};
    if (has_experts) {
        m->config.experts = 8 * pick(gen, 1, 8);
        m->config.experts_used = pick(gen, 1, 8);
        m->config.expert_ffn = 32 * pick(gen, 8, 32);
        m->config.expert_normalise = true;
    }
    for (uint32_t i = 0; i < m->config.layers; i++) {
        m->layers[i] = (ps_model_layer){.heads = kv_heads * group,
                                        .kv_heads = kv_heads,
                                        .head_dim = 64,
                                        .ffn = has_experts ? 0 : 512 * (1 + i % period),
                                        .is_moe = has_experts,
                                        .rope_base = 1e4F,
                                        .rope_scale = 1};
    }
    m->config.layer = m->layers;
}

static ps_machine make_machine(ps_gen *gen)
{
    const double read = rate(gen, 10, 4000);
    return (ps_machine){.name = "made",
                        .threads = 1,
                        .l2_bytes = (uint64_t)rate(gen, 1e5, 3e8),
                        .read_gbs = read,
                        .cache_read_gbs = read * rate(gen, 2, 10),
                        .linear_share = rate(gen, 0.5, 1),
                        .int8_gops = read * rate(gen, 20, 500),
                        .f32_gops = read * rate(gen, 20, 500),
                        .fill_gbs = read * rate(gen, 0.4, 1),
                        .comm_ns = rate(gen, 1, 1e5),
                        .comm_gbs = rate(gen, 1, 1000),
                        .has_prefetch_stream = pick(gen, 0, 3) > 0,
                        .profile = {.weight_share = rate(gen, 0.5, 1),
                                    .kv_share = rate(gen, 0.5, 1),
                                    .kv_strided_share = rate(gen, 0.2, 1),
                                    .matmul_ns = rate(gen, 1, 5000),
                                    .vector_ns = rate(gen, 1, 5000),
                                    .comm_shape = pick(gen, 0, PS_COMM_SHAPE_COUNT - 1),
                                    .join = pick(gen, 0, PS_JOIN_COUNT - 1)}};
}

static ps_workload make_workload(ps_gen *gen, const made_model *m)
{
    uint32_t ranks = 1u << pick(gen, 0, 3);
    while (ranks > m->layers[0].heads) {
        ranks /= 2;
    }
    return (ps_workload){.batch = pick(gen, 1, 40),
                         .context_tokens = pick(gen, 16, 8000),
                         .ranks = ranks,
                         .weight_bits = 4u << pick(gen, 0, 2),
                         .kv_bits = 4u << pick(gen, 0, 2),
                         .prefetch = PS_PREFETCH_OFF,
                         .comm_schedule = PS_COMM_SERIAL};
}

static ps_design_point point_of(const made_model *m, const ps_machine *machine,
                                const ps_workload *workload)
{
    ps_arena arena;
    ps_design_point point;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_status status = ps_design_point_play(&m->config, NULL, machine, workload, &arena,
                                                  &point);
    if (status != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    ps_arena_deinit(&arena);
    return point;
}

static const ps_prefetch_policy POLICIES[] = {PS_PREFETCH_OFF, PS_PREFETCH_PRESERVE,
                                              PS_PREFETCH_AUTO};

// ---- folding

// A decode step of all layers or of the folded ones.
static ps_play play_layers(const made_model *m, const ps_machine *machine, const ps_workload *w,
                           const ps_fold *fold)
{
    ps_arena arena;
    ps_plan *plan = NULL;
    ps_played played = {.span_count = 0};
    ps_model_config config = m->config;
    const ps_pass_options options = {.rows_max = w->batch,
                                     .logits_max = w->batch,
                                     .context_max = w->context_tokens,
                                     .machine = machine,
                                     .ranks = w->ranks,
                                     .comm_schedule = (ps_comm_schedule)w->comm_schedule,
                                     .prefetch = (ps_prefetch_policy)w->prefetch};
    config.layers = fold->layers;
    ps_arena_init(&arena, ARENA_BYTES);
    assert_int_equal(ps_engine_make_plan(&config, NULL, &options, &arena, &plan), PS_OK);
    assert_int_equal(
        ps_play_plan(plan, machine,
                     &(ps_play_options){.rows = w->batch, .position = w->context_tokens - 1},
                     &arena, &played),
        PS_OK);
    const ps_play sums = ps_fold_sums(fold, &played);
    ps_arena_deinit(&arena);
    return sums;
}

static void test_folded_layers_are_all_layers(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        made_model m;
        make_model(&gen, &m);
        const ps_machine machine = make_machine(&gen);
        ps_workload w = make_workload(&gen, &m);
        for (uint32_t period = 1; period <= 3; period++) {
            bool repeats = true;
            for (uint32_t i = 0; i + period < m.config.layers; i++) {
                repeats = repeats && m.layers[i].ffn == m.layers[i + period].ffn;
            }
            if (!repeats) {
                continue;
            }
            const ps_fold all = {.layers = m.config.layers, .period = 1};
            const ps_fold fold = ps_fold_of(m.config.layers, period);
            assert_int_equal(fold.layers + fold.times * fold.period, m.config.layers);
            for (size_t p = 0; p < 3; p++) {
                w.prefetch = POLICIES[p];
                double whole[PS_PLAY_SUMS];
                double folded[PS_PLAY_SUMS];
                const ps_play a = play_layers(&m, &machine, &w, &all);
                const ps_play b = play_layers(&m, &machine, &w, &fold);
                memcpy(whole, &a, sizeof whole);
                memcpy(folded, &b, sizeof folded);
                // What auto moves ahead carries on from layer to layer: each moves a little more.
                const bool is_exact = POLICIES[p] != PS_PREFETCH_AUTO;
                const double within = is_exact ? 1e-9 : 0.02;
                for (size_t i = 0; i < (is_exact ? PS_PLAY_SUMS : 1); i++) {
                    if (fabs(whole[i] - folded[i]) > within * fabs(whole[i]) + 0.5) {
                        fail_msg("round %d, policy %u, sum %zu of %u layers, period %u: %.3f, "
                                 "folded %.3f",
                                 round, POLICIES[p], i, m.config.layers, period, whole[i],
                                 folded[i]);
                    }
                }
            }
        }
    }
}

// ---- better machines

static void better(ps_machine *machine, uint32_t which)
{
    double *const rates[] = {&machine->read_gbs, &machine->cache_read_gbs, &machine->int8_gops,
                             &machine->f32_gops, &machine->comm_gbs};
    double *const costs[] = {&machine->comm_ns, &machine->profile.matmul_ns,
                             &machine->profile.vector_ns, &machine->profile.comm_step_ns};
    if (which < 5) {
        *rates[which] *= 1.5;
    } else {
        *costs[which - 5] /= 1.5;
    }
}
#define WAYS 9u

static void test_a_better_machine_is_not_slower(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        made_model m;
        make_model(&gen, &m);
        const ps_machine machine = make_machine(&gen);
        const ps_workload w = make_workload(&gen, &m);
        const double before = point_of(&m, &machine, &w).total_ns;
        for (uint32_t way = 0; way < WAYS; way++) {
            ps_machine changed = machine;
            better(&changed, way);
            const double after = point_of(&m, &changed, &w).total_ns;
            if (after > before * (1 + 1e-9)) {
                fail_msg("round %d, way %u: %.3f ns became %.3f", round, way, before, after);
            }
        }
        ps_workload more = w;
        more.batch += more.batch == 8 ? 0 : 1; // beyond, attention is a step less
        assert_true(point_of(&m, &machine, &more).step_ns >= point_of(&m, &machine, &w).step_ns);
        more = w;
        more.context_tokens += 100;
        assert_true(point_of(&m, &machine, &more).last_ns >= point_of(&m, &machine, &w).last_ns);
    }
}

// ---- what is conserved

static void test_bytes_are_conserved(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        made_model m;
        make_model(&gen, &m);
        const ps_machine machine = make_machine(&gen);
        ps_workload w = make_workload(&gen, &m);
        const ps_fold all = {.layers = m.config.layers, .period = 1};
        const ps_play off = play_layers(&m, &machine, &w, &all);
        assert_true(off.moved_bytes == 0 && off.cache_bytes == 0 && off.lost_bytes == 0);
        for (size_t p = 1; p < 3; p++) {
            w.prefetch = POLICIES[p];
            const ps_play on = play_layers(&m, &machine, &w, &all);
            const double read = on.memory_bytes + on.cache_bytes;
            assert_true(fabs(read - off.memory_bytes) <= 1e-9 * read);
            assert_true(on.ops == off.ops);
            // What is near was moved, and what was moved is read or lost, or nobody's (logits of
            // few rows read less than they are).
            assert_true(on.cache_bytes + on.lost_bytes <= on.moved_bytes * (1 + 1e-9));
            // Memory gives no more than it has.
            assert_true(on.memory_bytes + on.moved_bytes <=
                        machine.read_gbs * on.total_ns * (1 + 1e-9));
            assert_true(on.total_ns >= on.work_ns + on.wait_ns - 1e-6 * on.total_ns);
        }
    }
}

static void test_the_same_input_gives_the_same_bits(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 10; round++) {
        made_model m;
        make_model(&gen, &m);
        const ps_machine machine = make_machine(&gen);
        ps_workload w = make_workload(&gen, &m);
        w.prefetch = POLICIES[pick(&gen, 0, 2)];
        const ps_design_point a = point_of(&m, &machine, &w);
        const ps_design_point b = point_of(&m, &machine, &w);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void test_workloads_that_cannot_be(void **state)
{
    (void)state;
    ps_gen gen = {.state = 1};
    made_model m;
    make_model(&gen, &m);
    const ps_machine machine = make_machine(&gen);
    const ps_workload good = {.batch = 1, .context_tokens = 100, .ranks = 1};
    const struct {
        ps_workload workload;
        const char *says;
    } cases[] = {
        {{.batch = 0, .context_tokens = 100, .ranks = 1}, "batch"},
        {{.batch = 1, .context_tokens = 1, .ranks = 1}, "context_tokens"},
        {{.batch = 1, .context_tokens = 100, .ranks = 0}, "ranks"},
        {{.batch = 1, .context_tokens = 100, .ranks = 1, .kv_bits = 5}, "kv_bits is 5"},
        {{.batch = 1, .context_tokens = 100, .prompt_tokens = 100, .ranks = 1}, "prompt_tokens"},
        {{.batch = 1, .context_tokens = 100, .ranks = 4, .context_shards = 3}, "a divisor"},
        {{.batch = 1,
          .context_tokens = 100,
          .ranks = 2,
          .comm_schedule = PS_COMM_FUSED,
          .sequence_parallel = true},
         "--sequence-parallel"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_arena arena;
        ps_design_point point;
        ps_arena_init(&arena, ARENA_BYTES);
        assert_int_equal(
            ps_design_point_play(&m.config, NULL, &machine, &cases[i].workload, &arena, &point),
            PS_INVALID);
        assert_non_null(strstr(ps_error_message(), cases[i].says));
        assert_int_equal(ps_design_check(&machine, &cases[i].workload), PS_INVALID);
        assert_non_null(strstr(ps_error_message(), cases[i].says));
        ps_arena_deinit(&arena);
    }
    (void)point_of(&m, &machine, &good);
}

static ps_status status_of(const made_model *m, const ps_machine *machine,
                           const ps_workload *workload)
{
    ps_arena arena;
    ps_design_point point;
    ps_arena_init(&arena, ARENA_BYTES);
    const ps_status status = ps_design_point_play(&m->config, NULL, machine, workload, &arena,
                                                  &point);
    ps_arena_deinit(&arena);
    return status;
}

// Numbers of a machine that were changed one by one.
static void test_machines_that_cannot_be(void **state)
{
    (void)state;
    ps_gen gen = {.state = 1};
    made_model m;
    make_model(&gen, &m);
    const ps_workload workload = {.batch = 1, .context_tokens = 100, .ranks = 4};
    ps_machine servers = make_machine(&gen);
    ps_machine area = servers;
    servers.profile.comm_shape = PS_COMM_SHAPE_RING;
    servers.profile.server_ranks = 2;
    assert_int_equal(status_of(&m, &servers, &workload), PS_INVALID);
    assert_non_null(strstr(ps_error_message(), "server_ranks without server_comm_gbs"));
    assert_int_equal(ps_design_check(&servers, &workload), PS_INVALID);
    servers.profile.server_comm_gbs = 1;
    assert_int_equal(ps_design_check(&servers, &workload), PS_OK);
    assert_int_equal(status_of(&m, &servers, &workload), PS_OK);
    area.profile.core_mm2 = 100;
    assert_int_equal(ps_design_check(&area, &workload), PS_INVALID);
    assert_non_null(strstr(ps_error_message(), "core_mm2 without l2_mm2_per_mib"));
}

// A model that cannot be planned so is no fault of the workload: a sweep goes on.
static void test_plans_that_cannot_be(void **state)
{
    (void)state;
    ps_gen gen = {.state = 1};
    made_model m;
    make_model(&gen, &m);
    const ps_machine machine = make_machine(&gen);
    ps_workload workload = {.batch = 65536, .context_tokens = 100, .ranks = 1};
    const uint32_t vocabulary = m.config.vocabulary;
    m.config.vocabulary = 1 << 24;
    assert_int_equal(status_of(&m, &machine, &workload), PS_UNSUPPORTED);
    assert_non_null(strstr(ps_error_message(), "workspace"));
    m.config.vocabulary = vocabulary;
    workload = (ps_workload){.batch = 1, .context_tokens = 100, .ranks = 256};
    assert_int_equal(status_of(&m, &machine, &workload), PS_UNSUPPORTED);
    workload = (ps_workload){.batch = 1, .context_tokens = 100, .ranks = 1, .weight_bits = 8};
    assert_int_equal(status_of(&m, &machine, &workload), PS_OK);
    m.config.dim += 16; // no whole blocks
    assert_int_equal(status_of(&m, &machine, &workload), PS_UNSUPPORTED);
    assert_non_null(strstr(ps_error_message(), "a multiple of"));
}

static void test_what_is_not_known_is_no_number(void **state)
{
    (void)state;
    ps_gen gen = {.state = 1};
    made_model m;
    make_model(&gen, &m);
    ps_machine machine = make_machine(&gen);
    machine.l2_bytes = 3 << 20;
    const ps_workload workload = {.batch = 2, .context_tokens = 100, .ranks = 2};
    ps_design_point point = point_of(&m, &machine, &workload);
    assert_true(isnan(point.area_mm2) && isnan(point.tokens_per_s_per_mm2) &&
                isnan(point.tokens_per_s_per_die_mm2));
    machine.profile.area_nm = 5;
    machine.profile.core_mm2 = 400;
    machine.profile.l2_mm2_per_mib = 2;
    point = point_of(&m, &machine, &workload);
    assert_true(point.area_mm2 == 406);
    assert_true(fabs(point.tokens_per_s_per_die_mm2 * 406 / point.tokens_per_s - 1) < 1e-9);
    assert_true(fabs(point.tokens_per_s_per_mm2 * 812 / point.tokens_per_s - 1) < 1e-9);
}

// By hand: every matrix of a dense model, a vector before each block and behind the last.
static void test_memory_of_a_dense_model(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < ROUNDS; round++) {
        made_model m;
        do {
            make_model(&gen, &m);
        } while (m.config.experts > 0);
        const ps_machine machine = make_machine(&gen);
        ps_workload w = make_workload(&gen, &m);
        w.ranks = 1;
        const double bytes = w.weight_bits / 8.0;
        const double dim = m.config.dim;
        const double heads = m.layers[0].heads;
        const double kv_heads = m.layers[0].kv_heads;
        double elements = 2 * dim * m.config.vocabulary;
        for (uint32_t i = 0; i < m.config.layers; i++) {
            elements += 64 * dim * (2 * heads + 2 * kv_heads) + 3 * dim * m.layers[i].ffn;
        }
        const double vectors = (2 * m.config.layers + 1) * dim * 4;
        const double kv = 2 * 64 * kv_heads * (w.kv_bits / 8.0) * w.batch * w.context_tokens;
        const ps_design_point point = point_of(&m, &machine, &w);
        assert_true(fabs(point.weight_bytes / (elements * bytes + vectors) - 1) < 1e-12);
        assert_true(fabs(point.kv_bytes / (kv * m.config.layers) - 1) < 1e-12);
        assert_true(point.layer_kv_bytes == kv);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded_layers_are_all_layers),
        cmocka_unit_test(test_a_better_machine_is_not_slower),
        cmocka_unit_test(test_bytes_are_conserved),
        cmocka_unit_test(test_the_same_input_gives_the_same_bits),
        cmocka_unit_test(test_workloads_that_cannot_be),
        cmocka_unit_test(test_machines_that_cannot_be),
        cmocka_unit_test(test_plans_that_cannot_be),
        cmocka_unit_test(test_memory_of_a_dense_model),
        cmocka_unit_test(test_what_is_not_known_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
