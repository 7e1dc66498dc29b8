// ctest-labels: golden
// ctest-links: ps_format
// Goal: no layer of the runtime knows a model. A plan that is read from text runs on weights found
// by name, in a program that links neither model/ nor passes/ nor ir/. Method: fixtures/smollm.plan
// was printed by `prestage plan`; with the weights of the golden model of that name it must
// continue the golden prompt with the golden tokens.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/exec.h"
#include "format/gguf.h"
#include "kernels/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER PS_SOURCE_DIR "/test/"
#define WEIGHTS_MAX 256

typedef struct weights {
    ps_weight list[WEIGHTS_MAX];
    uint32_t count;
} weights;

static void expect_ok(ps_status status)
{
    if (status != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
}

static char *read_file(const char *path, size_t *out_length)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *out_length = fread(bytes, 1, 1 << 20, file);
    (void)fclose(file);
    return bytes;
}

static const ps_weight *find(void *context, const char *name)
{
    const weights *all = context;
    for (uint32_t i = 0; i < all->count; i++) {
        if (strcmp(all->list[i].name, name) == 0) {
            return &all->list[i];
        }
    }
    return NULL;
}

static void pack_tensor(const ps_gguf_tensor *tensor, ps_weight *out)
{
    *out = (ps_weight){.name = tensor->name,
                       .dtype = tensor->dtype,
                       .inputs = (uint32_t)tensor->dimensions[0],
                       .outputs = (uint32_t)tensor->dimensions[1],
                       .is_vector = tensor->dimension_count == 1};
    const uint64_t bytes = out->is_vector ? tensor->size_bytes
                                          : ps_packed_bytes(out->dtype, out->outputs, out->inputs);
    char *data = aligned_alloc(64, ps_round_up(bytes, 64));
    assert_non_null(data);
    if (out->is_vector) {
        memcpy(data, tensor->data, bytes);
    } else {
        ps_pack_groups(data, tensor->data, ps_dtype_row_bytes(out->dtype, out->inputs), out->dtype,
                       out->outputs, out->inputs, 0, ps_divide_up(out->outputs, PS_GROUP_ROWS));
    }
    out->data = data;
}

static void pack_all(const ps_gguf *file, weights *out)
{
    for (uint32_t i = 0; i < ps_gguf_tensor_count(file); i++) {
        assert_true(out->count < WEIGHTS_MAX);
        pack_tensor(ps_gguf_tensor_at(file, i), &out->list[out->count++]);
    }
}

// The head of a .golden file: see scripts/make-golden.py.
typedef struct golden {
    char magic[8];
    uint32_t prompt_count, position_count, vocabulary, greedy_count;
    float noise, margin;
    uint32_t tokens[]; // prompt, positions, greedy
} golden;

// One row a step: its token, its position, and a new block of the pool at every 32nd position.
static void run_row(ps_exec *exec, const ps_program *program, uint32_t position, uint32_t token)
{
    struct {
        ps_step step;
        ps_step_row row;
        ps_step_block block;
    } input = {.step = {.number = position,
                        .row_count = 1,
                        .block_count = position % PS_KV_BLOCK_TOKENS == 0},
               .row = {.position = position, .token = (int32_t)token, .wants_logits = 1},
               .block = {.index = position / PS_KV_BLOCK_TOKENS,
                         .block = position / PS_KV_BLOCK_TOKENS,
                         .copy_from = PS_NO_BLOCK}};
    expect_ok(ps_exec_run(exec, program, &input.step));
}

static uint32_t best_of(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static void test_plan_from_text_continues_the_prompt(void **state)
{
    (void)state;
    size_t length;
    char *text = read_file(FOLDER "exec/fixtures/smollm.plan", &length);
    ps_arena arena;
    ps_arena_init(&arena, 1 << 24);
    ps_plan *plan = NULL;
    expect_ok(ps_plan_parse((ps_str){text, length}, &arena, &plan));

    ps_gguf *file = NULL;
    expect_ok(ps_gguf_open(FOLDER "fixtures/golden/smollm-q8_0.gguf", &file));
    static weights all;
    pack_all(file, &all);

    ps_team *team = NULL;
    ps_exec *exec = NULL;
    ps_program *program = NULL;
    ps_kernels kernels;
    expect_ok(ps_kernels_select(&kernels));
    expect_ok(ps_team_create(2, &team));
    // Whoever counts routes of a model with experts is not told those of another one.
    const ps_route_observer other = {.layers = 1, .experts = 4, .top_k = 2};
    ps_exec_options options = {.sequences = 1,
                               .context_tokens = plan->context_max,
                               .group_blocks = {8, 8, 8, 8},
                               .routes = &other};
    expect_ok(ps_exec_create(team, &kernels, &options, &exec));
    assert_int_equal(PS_INVALID, ps_exec_bind(exec, plan, find, &all, &program));
    assert_string_equal("the plan has 0 MoE layers, the model 1", ps_error_message());
    ps_exec_destroy(exec);
    options.routes = NULL;
    expect_ok(ps_exec_create(team, &kernels, &options, &exec));
    expect_ok(ps_exec_bind(exec, plan, find, &all, &program));
    expect_ok(ps_exec_prepare(exec));

    golden *g = (golden *)(void *)read_file(FOLDER "fixtures/golden/smollm-q8_0.golden", &length);
    const uint32_t *greedy = g->tokens + g->prompt_count + g->position_count;
    for (uint32_t i = 0; i < g->prompt_count; i++) {
        run_row(exec, program, i, g->tokens[i]);
    }
    for (uint32_t i = 0; i < g->greedy_count; i++) {
        assert_int_equal(greedy[i], best_of(ps_exec_logits(exec, program, 0), g->vocabulary));
        run_row(exec, program, g->prompt_count + i, greedy[i]);
    }
    ps_exec_destroy(exec);
    ps_team_destroy(team);
    for (uint32_t i = 0; i < all.count; i++) {
        free((void *)(uintptr_t)all.list[i].data);
    }
    ps_gguf_close(file);
    ps_arena_deinit(&arena);
    free(g);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan_from_text_continues_the_prompt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
