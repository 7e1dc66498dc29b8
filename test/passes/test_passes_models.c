// ctest-links: ps_model
// Goal: models that people use become plans in every bucket, with five barriers a layer in decode.
// Method: files from the cache folder (PRESTAGE_CACHE, else the user's); skipped where there are
// none. The count is that of test_passes_schedule.c; biases, norms of heads and norms behind
// attention and feed-forward add none.
#include "model/model.h"
#include "passes/passes_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BARRIERS_PER_LAYER 5
#define ARENA_BYTES ((size_t)256 << 20)

static char MODELS[][40] = {
    // not const: cmocka hands them on as void *
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "sns2-0.5b-q4.gguf",
    "gemma3-270m-q4_k_m.gguf",
};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

static const char *path_of(const char *file, char *path, size_t bytes)
{
    const char *cache = getenv("PRESTAGE_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache != NULL) {
        (void)snprintf(path, bytes, "%s/models/%s", cache, file);
    } else if (xdg != NULL) {
        (void)snprintf(path, bytes, "%s/prestage/models/%s", xdg, file);
    } else {
        (void)snprintf(path, bytes, "%s/.cache/prestage/models/%s", home == NULL ? "" : home, file);
    }
    return path;
}

static void require(ps_status status)
{
    if (status != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
}

static void expect_same_text(const ps_plan *plan, ps_arena *arena)
{
    ps_buffer first = {0};
    ps_buffer second = {0};
    ps_plan *back = NULL;
    require(ps_plan_print(plan, &first));
    require(ps_plan_parse((ps_str){first.data, first.length}, arena, &back));
    require(ps_plan_print(back, &second));
    assert_string_equal(first.data, second.data);
    ps_buffer_deinit(&first);
    ps_buffer_deinit(&second);
}

static void plan_model(const ps_gguf *file, uint32_t rows_max, uint32_t context_max)
{
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_graph graph;
    ps_graph_init(&graph, &arena);
    const ps_model_config *config = NULL;
    ps_plan *plan = NULL;
    const ps_pass_options options = {.rows_max = rows_max,
                                     .logits_max = rows_max < 8 ? rows_max : 8,
                                     .context_max = context_max,
                                     .machine = &PS_TEST_MACHINE};
    require(ps_model_read(file, &arena, &config));
    require(ps_model_build(config, file, &graph));
    require(ps_passes_run(&graph, &options, &plan));
    uint32_t barriers = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        barriers += plan->steps[i].barrier;
    }
    if (rows_max <= PS_REPLICATED_ROWS_MAX) {
        assert_int_equal(barriers, BARRIERS_PER_LAYER * config->layers);
    }
    expect_same_text(plan, &arena);
    ps_arena_deinit(&arena);
}

static void test_model(void **state)
{
    char path[512];
    ps_gguf *file = NULL;
    if (access(path_of(*state, path, sizeof path), R_OK) != 0) {
        printf("no %s\n", path);
        skip();
    }
    require(ps_gguf_open(path, &file));
    static const uint32_t ROWS[] = {1, 8, 9, 512};
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        plan_model(file, ROWS[i], 2048);
    }
    plan_model(file, 4, 32768);
    ps_gguf_close(file);
}

int main(void)
{
    struct CMUnitTest tests[MODEL_COUNT];
    size_t found = 0;
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        char path[512];
        found += access(path_of(MODELS[i], path, sizeof path), R_OK) == 0;
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(test_model, MODELS[i]);
        tests[i].name = MODELS[i];
    }
    if (found == 0) {
        printf("skipped: none of the models is in the cache folder\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
