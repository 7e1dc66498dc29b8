// ctest-labels: golden
// ctest-timeout: 300
// Goal: a model that ranks share computes what it computes alone, and what cannot be shared is
// refused. Method: logits of every golden model, and of made ones with 9, 14 and 32 heads, by one
// process and by every number of ranks that the model can be shared by, up to 8.
//
// Ranks add the parts of a sum in another order: each addition may be off by 2^-24 of its result,
// and that now and then tips the rounding of an activation to int8, which is the larger error. So
// the bound is the one that golden models have against another implementation's order of sums.
#include "engine/made_shapes.h"
#include "engine/rank_jobs.h"
// these include what cmocka wants first
#include "engine/golden_file.h"

#include <math.h>

#define ROWS 48 // a prompt, and an answer token by token
#define PROMPT 40

typedef struct answer {
    uint32_t vocabulary;
    int32_t tokens[ROWS];
    float *logits; // [ROWS][vocabulary], shared
} answer;

static void read_answer(ps_model *model, void *context)
{
    answer *a = context;
    ps_session *session = NULL;
    ps_sequence sequence;
    ps_row rows[PROMPT];
    must(ps_session_create(model, &(ps_session_options){.context_tokens = 64, .batch_rows = 64},
                           &session));
    must(ps_sequence_open(session, &sequence));
    for (uint32_t i = 0; i < ROWS;) {
        const uint32_t count = i < PROMPT ? PROMPT : 1;
        for (uint32_t j = 0; j < count; j++) {
            rows[j] = (ps_row){sequence, a->tokens[i + j], true};
        }
        must(ps_session_step(session, rows, count));
        for (uint32_t j = 0; j < count; j++, i++) {
            memcpy(a->logits + (size_t)i * a->vocabulary, ps_session_logits(session, j),
                   a->vocabulary * sizeof(float));
        }
    }
    ps_session_destroy(session);
}

static float lead_of(const float *logits, uint32_t best, uint32_t count)
{
    float lead = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const float behind = logits[best] - logits[i];
        lead = i != best && behind < lead ? behind : lead;
    }
    return lead;
}

static void compare(const answer *one, const answer *several, uint32_t ranks, float bound)
{
    float worst = 0;
    uint32_t clear = 0;
    for (uint32_t row = 0; row < ROWS; row++) {
        const float *a = one->logits + (size_t)row * one->vocabulary;
        const float *b = several->logits + (size_t)row * one->vocabulary;
        for (uint32_t i = 0; i < one->vocabulary; i++) {
            const float off = fabsf(a[i] - b[i]);
            worst = off > worst ? off : worst;
            if (!(off <= bound)) {
                fail_msg("%u ranks: logit %u of row %u is %g, alone %g, bound %g", ranks, i, row,
                         (double)b[i], (double)a[i], (double)bound);
            }
        }
        const uint32_t best = best_of(a, one->vocabulary);
        if (lead_of(a, best, one->vocabulary) > 2 * bound) {
            clear++;
            assert_int_equal(best, best_of(b, one->vocabulary));
        }
    }
    printf("    %u ranks: off by %.6f at most, bound %.6f; %u of %d best tokens are clear\n", ranks,
           (double)worst, (double)bound, clear, ROWS);
    assert_true(clear > 0);
}

// The most ranks that a model can be shared by, as the refusal of too many says.
static void expect_refused(const char *path, uint32_t ranks, uint32_t most)
{
    char says[64];
    ps_ranks *simulated = NULL;
    ps_model *model = NULL;
    (void)snprintf(says, sizeof says, "can be shared by 1 to %u (", most);
    expect_ok(ps_ranks_start(&(ps_ranks_options){.launch = PS_RANKS_SIMULATED, .size = ranks},
                             &simulated));
    expect_failure(
        PS_UNSUPPORTED, says,
        ps_model_open(path, &(ps_model_options){.threads = 1, .ranks = simulated}, &model));
    expect_failure(
        PS_UNSUPPORTED, path,
        ps_model_open(path, &(ps_model_options){.threads = 1, .ranks = simulated}, &model));
    expect_ok(ps_ranks_stop(simulated));
}

static void check_model(const char *path, const int32_t *tokens, uint32_t vocabulary, uint32_t most,
                        float bound)
{
    const size_t count = (size_t)ROWS * vocabulary;
    answer one = {.vocabulary = vocabulary, .logits = shared_floats(count)};
    memcpy(one.tokens, tokens, sizeof one.tokens);
    rank_job_run(&(rank_job){.path = path, .threads = 1}, read_answer, &one);
    for (uint32_t ranks = 2; ranks <= most; ranks++) {
        answer several = one;
        several.logits = shared_floats(count);
        rank_job_run(&(rank_job){.path = path, .ranks = ranks, .threads = 1}, read_answer,
                     &several);
        compare(&one, &several, ranks, bound);
        free_shared(several.logits, count);
    }
    free_shared(one.logits, count);
    if (most < 8) {
        expect_refused(path, most + 1, most);
    }
}

// ---- golden models: heads and feed-forward are small, so few ranks can share them

static const struct {
    const char *name;
    uint32_t most;
} GOLDEN[] = {
    {"llama-f16", 3},     {"llama-q8_0", 1},  {"smollm-q8_0", 3},        {"smollm-q4_1", 3},
    {"kmix-k", 4},        {"mixtral-f16", 2}, {"mixtral-q8_0", 2},       {"qwen2-f32", 3},
    {"qwen2-q8_0", 2},    {"qwen3-f16", 3},   {"qwen3-q8_0", 3},         {"qwen3moe-bf16", 1},
    {"qwen3moe-q8_0", 1}, {"gemma3-bf16", 2}, {"qwen3moe-wide-q4_k", 1}, {"gemma3-q8_0", 2}};
#define GOLDEN_COUNT (sizeof GOLDEN / sizeof GOLDEN[0])

static void test_golden(void **state)
{
    const size_t i = (size_t)(uintptr_t)*state;
    char path[512];
    int32_t tokens[ROWS];
    golden g;
    load_golden(GOLDEN[i].name, &g);
    golden_path(GOLDEN[i].name, path);
    assert_true(g.prompt_count == PROMPT && g.prompt_count + g.greedy_count == ROWS);
    for (uint32_t t = 0; t < ROWS; t++) {
        tokens[t] = (int32_t)(t < PROMPT ? g.prompt[t] : g.greedy[t - PROMPT]);
    }
    check_model(path, tokens, g.vocabulary, GOLDEN[i].most, ROUNDED_FACTOR * g.noise + SUMS);
    free(g.exact);
}

// ---- made models: the head counts of models that people run

typedef struct made_case {
    shape shape;
    uint32_t most;
    float bound;
} made_case;

// In the range of the golden ones' noise, which is what rounding all activations to int8 changes.
#define MADE_INT8 0.1f
static const made_case MADE[] = {
    {{9, 3, 32, 256, 160, 0, 0, MADE_Q8_0, 0, 64, NULL, 0}, 8, MADE_INT8},
    {{14, 2, 32, 256, 144, 0, 0, MADE_F32, 0, 64, "qwen2", 0}, 8, SUMS},
    {{32, 4, 16, 288, 150, 0, 0, MADE_Q8_0, 0, 64, "qwen3", 0}, 8, MADE_INT8},
    {{6, 3, 40, 256, 144, 0, 0, MADE_F16, 20, 64, "gemma3", 0}, 6, SUMS},
    {{8, 2, 32, 256, 144, 4, 2, MADE_F16, 0, 64, "qwen3moe", 0}, 8, SUMS},
};
#define MADE_COUNT (sizeof MADE / sizeof MADE[0])

static void test_made(void **state)
{
    const made_case *c = *state;
    ps_gen gen = {.state = 7}; // a router that is near a tie for some row would be no test of sums
    static made_model model;
    char path[64];
    int32_t tokens[ROWS];
    made_shape(&model, &c->shape);
    made_write(&model, &gen, path);
    for (uint32_t t = 0; t < ROWS; t++) {
        tokens[t] = (int32_t)(t * 7 % c->shape.vocabulary);
    }
    check_model(path, tokens, c->shape.vocabulary, c->most, c->bound);
    free(model.bytes);
    model.bytes = NULL;
    (void)unlink(path);
}

int main(void)
{
    static char names[GOLDEN_COUNT + MADE_COUNT][64];
    struct CMUnitTest tests[GOLDEN_COUNT + MADE_COUNT];
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s", GOLDEN[i].name);
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = test_golden, .initial_state = (void *)(uintptr_t)i};
    }
    for (size_t i = 0; i < MADE_COUNT; i++) {
        const shape *s = &MADE[i].shape;
        (void)snprintf(names[GOLDEN_COUNT + i], sizeof names[0], "made %s, heads %u/%u x %u",
                       s->architecture == NULL ? "llama" : s->architecture, s->heads, s->kv_heads,
                       s->head_dim);
        tests[GOLDEN_COUNT + i] = (struct CMUnitTest){.name = names[GOLDEN_COUNT + i],
                                                      .test_func = test_made,
                                                      .initial_state = (void *)(uintptr_t)&MADE[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
