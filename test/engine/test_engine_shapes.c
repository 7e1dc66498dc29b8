// ctest-labels: prop
// ctest-timeout: 300
// ctest-links: -Wl,--wrap=ps_pages_map,--wrap=ps_pages_unmap
// Goal: models of odd shapes give the same logits however their work is cut: heads that are no
// multiple of 16 columns, vocabularies with a partial group, one expert, all experts, contexts
// around block and chunk limits, steps of one row. Method: small models of random weights; memcmp
// of logits between thread counts, batch sizes and pieces of the prompt.
#include "engine/made_shapes.h"
// model_maker.h includes what cmocka wants first
#include "engine/engine_test.h"

// Weights, workspaces and KV come from the heap, full of NaN: the address sanitizer sees what is
// read or written past their ends, and nothing may depend on what fresh memory holds.
ps_status __wrap_ps_pages_map(uint64_t size_bytes, const char *what, void **out);
void __wrap_ps_pages_unmap(void *memory, uint64_t size_bytes);

ps_status __wrap_ps_pages_map(uint64_t size_bytes, const char *what, void **out)
{
    (void)what;
    assert_int_equal(0, posix_memalign(out, PS_CACHE_LINE_BYTES, size_bytes));
    memset(*out, 0xff, size_bytes);
    return PS_OK;
}

void __wrap_ps_pages_unmap(void *memory, uint64_t size_bytes)
{
    (void)size_bytes;
    free(memory);
}

static const shape SHAPES[] = {
    {8, 8, 8, 96, 32, 0, 0, MADE_Q8_0, 0, 257, NULL, 0},
    {8, 2, 8, 96, 33, 0, 0, MADE_Q8_0, 0, 256, NULL, 0},
    {8, 1, 24, 96, 47, 0, 0, MADE_Q8_0, 0, 255, NULL, 0},
    {4, 4, 24, 32, 17, 0, 0, MADE_F16, 0, 300, NULL, 0},
    {4, 2, 40, 160, 50, 0, 0, MADE_Q8_0, 0, 33, NULL, 0},
    {6, 3, 40, 40, 5, 0, 0, MADE_F16, 0, 32, NULL, 0},
    {4, 1, 40, 24, 2, 0, 0, MADE_F32, 20, 300, NULL, 0},
    {4, 1, 16, 96, 31, 0, 0, MADE_Q8_0, 0, 31, NULL, 0},
    {4, 1, 16, 96, 31, 0, 0, MADE_Q8_0, 1, 300, NULL, 0},
    {4, 1, 16, 96, 31, 0, 0, MADE_Q8_0, 33, 300, NULL, 0},
    {4, 2, 16, 32, 65, 1, 1, MADE_Q8_0, 0, 40, NULL, 0},
    {4, 2, 16, 32, 65, 3, 3, MADE_Q8_0, 0, 40, NULL, 0},
    {4, 2, 24, 40, 65, 5, 2, MADE_F16, 0, 40, NULL, 0},
    {4, 2, 16, 64, 65, 7, 7, MADE_F16, 0, 64, NULL, 0},
    {4, 2, 16, 1, 1, 2, 1, MADE_F16, 0, 64, NULL, 0},
    {4, 2, 16, 1, 30, 2, 2, MADE_F32, 0, 64, NULL, 0},
    {4, 2, 16, 1, 30, 0, 0, MADE_F32, 0, 64, NULL, 0},
    {2, 1, 128, 96, 30, 0, 0, MADE_Q8_0, 0, 1, NULL, 0},
    {4, 4, 16, 96, 300, 0, 0, MADE_Q8_0, 0, 2, NULL, 0},
    {1, 1, 8, 32, 16, 0, 0, MADE_Q8_0, 0, 64, NULL, 0},
    {8, 2, 24, 96, 33, 0, 0, MADE_Q8_0, 0, 70, "qwen2", 0},
    {4, 2, 40, 40, 33, 0, 0, MADE_F16, 0, 70, "qwen2", 0},
    {8, 1, 24, 96, 33, 0, 0, MADE_Q8_0, 0, 70, "qwen2", MADE_F16},
    {4, 2, 8, 96, 33, 0, 0, MADE_Q8_0, 0, 70, "qwen3", 0},
    {4, 4, 40, 96, 33, 0, 0, MADE_Q8_0, 0, 70, "qwen3", MADE_F16},
    {4, 2, 24, 96, 33, 0, 0, MADE_Q8_0, 33, 300, "gemma3", 0},
    {2, 1, 40, 56, 33, 0, 0, MADE_F16, 2, 70, "gemma3", MADE_F32},
    {4, 2, 24, 32, 33, 3, 2, MADE_Q8_0, 0, 70, "qwen3moe", MADE_F16},
};
#define SHAPE_COUNT (sizeof SHAPES / sizeof SHAPES[0])

// Logits of every token of a sequence that fills its context, rows in pieces of `piece`.
static void run(ps_session *session, uint32_t context, uint32_t vocabulary, uint32_t piece,
                float *logits)
{
    ps_sequence sequence;
    expect_ok(ps_sequence_open(session, &sequence));
    ps_row rows[PS_LOGITS_MAX];
    for (uint32_t i = 0; i < context; i += piece) {
        const uint32_t count = context - i < piece ? context - i : piece;
        for (uint32_t j = 0; j < count; j++) {
            rows[j] = (ps_row){sequence, (int32_t)((i + j) * 7 % vocabulary), true};
        }
        expect_ok(ps_session_step(session, rows, count));
        for (uint32_t j = 0; j < count; j++) {
            memcpy(logits + (size_t)(i + j) * vocabulary, ps_session_logits(session, j),
                   vocabulary * sizeof *logits);
        }
    }
    ps_sequence_close(session, sequence);
}

typedef struct cut {
    uint32_t threads, batch_rows, piece;
    const char *isa; // masks down to; NULL: all that the CPU has
} cut;

static const cut CUTS[] = {{1, 64, 64, NULL}, {1, 1, 1, NULL},     {2, 64, 64, NULL},
                           {2, 8, 8, NULL},   {2, 9, 9, NULL},     {2, 1, 1, NULL},
                           {5, 64, 64, NULL}, {5, 64, 31, NULL},   {2, 64, 40, "ref"},
                           {2, 4, 4, "ref"},  {2, 64, 40, "avx2"}, {2, 4, 4, "avx2"}};

// Opens the model and runs it; false when this CPU lacks the instructions.
static bool compute(const char *path, const shape *s, const cut *how, float *logits)
{
    const char *given = getenv("PS_ISA");
    if (how->isa != NULL) {
        assert_int_equal(0, setenv("PS_ISA", how->isa, 1));
    }
    ps_model *model = NULL;
    ps_session *session = NULL;
    const ps_status status = ps_model_open(path, &(ps_model_options){.threads = how->threads},
                                           &model);
    if (how->isa != NULL) {
        assert_int_equal(0, given == NULL ? unsetenv("PS_ISA") : setenv("PS_ISA", given, 1));
    }
    if (status == PS_UNSUPPORTED && how->isa != NULL) {
        return false;
    }
    expect_ok(status);
    expect_ok(ps_session_create(model,
                                &(ps_session_options){.sequences = 2,
                                                      .batch_rows = how->batch_rows,
                                                      .check_grouped = s->experts > 0},
                                &session));
    run(session, s->context, s->vocabulary, how->piece, logits);
    ps_session_destroy(session);
    ps_model_close(model);
    return true;
}

static void test_shape(void **state)
{
    const shape *s = *state;
    ps_gen gen = ps_gen_start();
    static made_model model;
    made_shape(&model, s);
    char path[64];
    made_write(&model, &gen, path);
    const size_t count = (size_t)s->context * s->vocabulary;
    float *first = malloc(count * sizeof *first);
    float *logits = malloc(count * sizeof *logits);
    assert_true(first != NULL && logits != NULL);
    assert_true(compute(path, s, &CUTS[0], first));
    for (size_t i = 0; i < count; i++) {
        assert_true(first[i] - first[i] == 0); // finite
    }
    for (size_t i = 1; i < sizeof CUTS / sizeof CUTS[0]; i++) {
        if (compute(path, s, &CUTS[i], logits) &&
            memcmp(first, logits, count * sizeof *first) != 0) {
            fail_msg("%u threads, pieces of %u, %s differ", CUTS[i].threads, CUTS[i].piece,
                     CUTS[i].isa == NULL ? "all instructions" : CUTS[i].isa);
        }
    }
    free(first);
    free(logits);
    free(model.bytes);
    model.bytes = NULL;
    (void)unlink(path);
}

int main(void)
{
    static char names[SHAPE_COUNT][96];
    struct CMUnitTest tests[SHAPE_COUNT];
    for (size_t i = 0; i < SHAPE_COUNT; i++) {
        const shape *s = &SHAPES[i];
        (void)snprintf(names[i], sizeof names[i],
                       "%s: heads %u/%u x %u, ffn %u, vocabulary %u, experts %u/%u, window %u",
                       s->architecture == NULL ? "llama" : s->architecture, s->heads, s->kv_heads,
                       s->head_dim, s->ffn, s->vocabulary, s->top_k, s->experts, s->window);
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = test_shape, .initial_state = (void *)(uintptr_t)s};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
