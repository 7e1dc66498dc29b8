// ctest-labels: prop
// ctest-timeout: 300
// Goal: models of odd shapes give the same logits however their work is cut: heads that are no
// multiple of 16 columns, vocabularies with a partial group, one expert, all experts, contexts
// around block and chunk limits, steps of one row. Method: small models of random weights; memcmp
// of logits between thread counts, batch sizes and pieces of the prompt.
#include "engine/made_file.h"
// model_maker.h includes what cmocka wants first
#include "engine/engine_test.h"

typedef struct shape {
    uint32_t heads, kv_heads, head_dim, ffn, vocabulary;
    uint32_t experts, top_k; // 0: dense
    uint32_t type;           // of matrices
    uint32_t window;         // 0: none
    uint32_t context;
} shape;

static const shape SHAPES[] = {
    {8, 8, 8, 96, 32, 0, 0, MADE_Q8_0, 0, 257},  {8, 2, 8, 96, 33, 0, 0, MADE_Q8_0, 0, 256},
    {8, 1, 24, 96, 47, 0, 0, MADE_Q8_0, 0, 255}, {4, 4, 24, 32, 17, 0, 0, MADE_F16, 0, 300},
    {4, 2, 40, 160, 50, 0, 0, MADE_Q8_0, 0, 33}, {6, 3, 40, 40, 5, 0, 0, MADE_F16, 0, 32},
    {4, 1, 40, 24, 2, 0, 0, MADE_F32, 20, 300},  {4, 1, 16, 96, 31, 0, 0, MADE_Q8_0, 0, 31},
    {4, 1, 16, 96, 31, 0, 0, MADE_Q8_0, 1, 300}, {4, 1, 16, 96, 31, 0, 0, MADE_Q8_0, 33, 300},
    {4, 2, 16, 32, 65, 1, 1, MADE_Q8_0, 0, 40},  {4, 2, 16, 32, 65, 3, 3, MADE_Q8_0, 0, 40},
    {4, 2, 24, 40, 65, 5, 2, MADE_F16, 0, 40},   {4, 2, 16, 64, 65, 7, 7, MADE_F16, 0, 64},
    {4, 2, 16, 1, 1, 2, 1, MADE_F16, 0, 64},     {4, 2, 16, 1, 30, 2, 2, MADE_F32, 0, 64},
    {4, 2, 16, 1, 30, 0, 0, MADE_F32, 0, 64},    {2, 1, 128, 96, 30, 0, 0, MADE_Q8_0, 0, 1},
    {4, 4, 16, 96, 300, 0, 0, MADE_Q8_0, 0, 2},  {1, 1, 8, 32, 16, 0, 0, MADE_Q8_0, 0, 64},
};
#define SHAPE_COUNT (sizeof SHAPES / sizeof SHAPES[0])

static void make_ffn(made_model *model, const shape *s, uint32_t layer, uint32_t type)
{
    // The columns of the way down need whole blocks.
    const uint32_t down = s->ffn % 32 == 0 ? type : s->type == MADE_F32 ? MADE_F32 : MADE_F16;
    const uint32_t gate = s->ffn == 1 && s->experts == 0 ? MADE_F32 : type;
    if (s->experts > 0) {
        for (int i = 0; i < 3; i++) {
            static const char *const OLD[] = {"ffn_gate", "ffn_up", "ffn_down"};
            char name[64];
            (void)snprintf(name, sizeof name, "blk.%u.%s.weight", layer, OLD[i]);
            made_tensor_of(model, name)->name[0] = '\0';
        }
        made_set_layer_tensor(model, layer, "ffn_gate_inp.weight", MADE_F32, MADE_DIM, s->experts,
                              0);
        made_set_layer_tensor(model, layer, "ffn_gate_exps.weight", gate, MADE_DIM, s->ffn,
                              s->experts);
        made_set_layer_tensor(model, layer, "ffn_up_exps.weight", gate, MADE_DIM, s->ffn,
                              s->experts);
        made_set_layer_tensor(model, layer, "ffn_down_exps.weight", down, s->ffn, MADE_DIM,
                              s->experts);
    } else {
        made_set_layer_tensor(model, layer, "ffn_gate.weight", gate, MADE_DIM, s->ffn, 0);
        made_set_layer_tensor(model, layer, "ffn_up.weight", gate, MADE_DIM, s->ffn, 0);
        made_set_layer_tensor(model, layer, "ffn_down.weight", down, s->ffn, MADE_DIM, 0);
    }
}

static void make(made_model *model, const shape *s)
{
    made_llama(model);
    made_set_u32(model, "llama.attention.head_count", s->heads);
    made_set_u32(model, "llama.attention.head_count_kv", s->kv_heads);
    made_set_u32(model, "llama.attention.key_length", s->head_dim);
    made_set_u32(model, "llama.attention.value_length", s->head_dim);
    made_set_u32(model, "llama.rope.dimension_count", s->head_dim);
    made_set_u32(model, "llama.context_length", s->context);
    made_set_u32(model, "llama.feed_forward_length", s->ffn);
    if (s->window > 0) {
        made_set_u32(model, "llama.attention.sliding_window", s->window);
    }
    if (s->experts > 0) {
        made_set_u32(model, "llama.expert_count", s->experts);
        made_set_u32(model, "llama.expert_used_count", s->top_k);
    }
    const uint32_t q = s->heads * s->head_dim;
    const uint32_t kv = s->kv_heads * s->head_dim;
    made_set_tensor(model, "token_embd.weight", s->vocabulary == 1 ? MADE_F32 : s->type, MADE_DIM,
                    s->vocabulary, 0);
    for (uint32_t i = 0; i < MADE_LAYERS; i++) {
        made_set_layer_tensor(model, i, "attn_q.weight", s->type, MADE_DIM, q, 0);
        made_set_layer_tensor(model, i, "attn_k.weight", s->type, MADE_DIM, kv, 0);
        made_set_layer_tensor(model, i, "attn_v.weight", s->type, MADE_DIM, kv, 0);
        made_set_layer_tensor(model, i, "attn_output.weight", q % 32 == 0 ? s->type : MADE_F16, q,
                              MADE_DIM, 0);
        make_ffn(model, s, i, s->type);
    }
}

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

static void test_shape(void **state)
{
    static const struct {
        uint32_t threads, batch_rows, piece;
    } CUTS[] = {{1, 64, 64}, {1, 1, 1}, {2, 64, 64}, {2, 8, 8},
                {2, 9, 9},   {2, 1, 1}, {5, 64, 64}, {5, 64, 31}};
    const shape *s = *state;
    ps_gen gen = ps_gen_start();
    static made_model model;
    make(&model, s);
    char path[64];
    made_write(&model, &gen, path);
    const size_t bytes = (size_t)s->context * s->vocabulary * sizeof(float);
    float *first = malloc(bytes);
    float *logits = malloc(bytes);
    assert_true(first != NULL && logits != NULL);
    for (size_t i = 0; i < sizeof CUTS / sizeof CUTS[0]; i++) {
        ps_model *opened = NULL;
        ps_session *session = NULL;
        expect_ok(ps_model_open(path, &(ps_model_options){.threads = CUTS[i].threads}, &opened));
        expect_ok(ps_session_create(
            opened, &(ps_session_options){.sequences = 2, .batch_rows = CUTS[i].batch_rows},
            &session));
        run(session, s->context, s->vocabulary, CUTS[i].piece, i == 0 ? first : logits);
        for (size_t j = 0; j < bytes / sizeof *first; j++) {
            assert_true(first[j] - first[j] == 0); // finite
        }
        if (i > 0 && memcmp(first, logits, bytes) != 0) {
            fail_msg("%u threads, pieces of %u differ", CUTS[i].threads, CUTS[i].piece);
        }
        ps_session_destroy(session);
        ps_model_close(opened);
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
                       "heads %u/%u x %u, ffn %u, vocabulary %u, experts %u/%u, window %u",
                       s->heads, s->kv_heads, s->head_dim, s->ffn, s->vocabulary, s->top_k,
                       s->experts, s->window);
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = test_shape, .initial_state = (void *)(uintptr_t)s};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
