// Goal: models that people use build, and nothing in their files is left unread.
// Method: files from the cache folder (PRESTAGE_CACHE, else the user's); skipped where there are
// none.
#include "model/model_maker.h"

#include <unistd.h>

static const struct {
    const char *file;
    const char *architecture;
    uint32_t layers, nodes, vocabulary;
} MODELS[] = {
    // nodes: the frame, and 16 (llama), 19 (qwen2), 20 (gemma3) a layer
    {"SmolLM2-135M-Instruct.Q4_1.gguf", "llama", 30, 5 + 30 * 16, 49152},
    {"sns2-0.5b-q4.gguf", "qwen2", 24, 5 + 24 * 19, 151936},
    {"gemma3-270m-q4_k_m.gguf", "gemma3", 18, 6 + 18 * 20, 262144},
};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

static const char *path_of(size_t model, char *path, size_t bytes)
{
    const char *cache = getenv("PRESTAGE_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache != NULL) {
        (void)snprintf(path, bytes, "%s/models/%s", cache, MODELS[model].file);
    } else if (xdg != NULL) {
        (void)snprintf(path, bytes, "%s/prestage/models/%s", xdg, MODELS[model].file);
    } else {
        (void)snprintf(path, bytes, "%s/.cache/prestage/models/%s", home == NULL ? "" : home,
                       MODELS[model].file);
    }
    return path;
}

static void build(size_t model, const char *path)
{
    ps_gguf *file = NULL;
    if (ps_gguf_open(path, &file) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    ps_arena arena;
    ps_arena_init(&arena, (size_t)16 << 20);
    ps_graph graph;
    ps_graph_init(&graph, &arena);
    const ps_model_config *config = NULL;
    uint32_t unused = 99;
    if (ps_model_read(file, &arena, &config) != PS_OK ||
        ps_model_build(config, file, &graph) != PS_OK ||
        ps_graph_verify(&graph, "build") != PS_OK ||
        ps_model_unused_tensors(&graph, file, NULL, 0, &unused) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    assert_string_equal(MODELS[model].architecture, config->architecture);
    assert_int_equal(MODELS[model].layers, config->layers);
    assert_int_equal(MODELS[model].nodes, graph.node_count);
    assert_int_equal(MODELS[model].vocabulary, graph.vocabulary);
    assert_int_equal(0, unused);
    ps_arena_deinit(&arena);
    ps_gguf_close(file);
}

static void test_model(void **state)
{
    const size_t model = *(const size_t *)*state;
    char path[512];
    if (access(path_of(model, path, sizeof path), R_OK) != 0) {
        printf("no %s\n", path);
        skip();
    }
    build(model, path);
}

int main(void)
{
    static size_t index[MODEL_COUNT];
    struct CMUnitTest tests[MODEL_COUNT];
    size_t found = 0;
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        char path[512];
        index[i] = i;
        found += access(path_of(i, path, sizeof path), R_OK) == 0;
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(test_model, &index[i]);
        tests[i].name = MODELS[i].file;
    }
    if (found == 0) {
        printf("skipped: none of the models is in the cache folder\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
