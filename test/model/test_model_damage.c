// ctest-labels: prop
// Goal: whatever stands in a file's metadata and tensor table, reading and building end in an error
// line or in a graph that verifies.
// Method: golden models with random bytes and whole numbers of their head changed, from a printed
// seed.
#include "gen.h"
#include "model/model_maker.h"

#define ROUNDS 20000
#define ARENA_BYTES ((size_t)8 << 20)
#define DATA_BYTES_MAX ((size_t)1 << 20)

static const char *const FILES[] = {"llama-q8_0", "mixtral-q8_0", "qwen2-q8_0", "gemma3-q8_0"};

static unsigned char *load(const char *name, size_t *out_bytes)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    unsigned char *bytes = malloc(DATA_BYTES_MAX);
    assert_non_null(bytes);
    *out_bytes = fread(bytes, 1, DATA_BYTES_MAX, file);
    (void)fclose(file);
    return bytes;
}

// True when the file went all the way to a graph.
static bool try_file(const unsigned char *bytes, size_t size_bytes)
{
    ps_gguf *file = NULL;
    if (ps_gguf_open_bytes(bytes, size_bytes, &file) != PS_OK) {
        return false;
    }
    ps_arena arena;
    ps_arena_init(&arena, ARENA_BYTES);
    ps_graph graph;
    ps_graph_init(&graph, &arena);
    const ps_model_config *config = NULL;
    bool is_built = ps_model_read(file, &arena, &config) == PS_OK;
    is_built = is_built && ps_model_build(config, file, &graph) == PS_OK;
    if (is_built && ps_graph_verify(&graph, "build") != PS_OK) {
        fail_msg("built, but %s", ps_error_message());
    }
    assert_true(is_built || strlen(ps_error_message()) > 0);
    ps_arena_deinit(&arena);
    ps_gguf_close(file);
    return is_built;
}

static uint32_t interesting(ps_gen *gen)
{
    static const uint32_t NUMBERS[] = {
        0,   1,    2,    3,    6,        7,        8,           16,          62,        255,
        256, 1023, 1024, 4096, 1u << 24, 1u << 30, 0x7fffffffu, 0x80000000u, UINT32_MAX};
    return NUMBERS[ps_gen_range(gen, 0, (int64_t)(sizeof NUMBERS / sizeof NUMBERS[0]) - 1)];
}

// The value behind a random occurrence of the architecture's name followed by a dot:
// hyperparameters are where the format alone does not refuse nonsense.
static size_t random_hyperparameter(ps_gen *gen, const unsigned char *bytes, size_t head_bytes)
{
    size_t found = 0;
    size_t count = 0;
    for (size_t i = 0; i + 64 < head_bytes; i++) {
        static const char *const PREFIXES[] = {"llama.", "qwen2.", "gemma3."};
        for (int p = 0; p < 3; p++) {
            if (memcmp(bytes + i, PREFIXES[p], strlen(PREFIXES[p])) == 0 &&
                ps_gen_range(gen, 0, (int64_t)count++) == 0) {
                uint64_t length = 0;
                memcpy(&length, bytes + i - 8, sizeof length);
                found = i + (size_t)length + 4; // behind the type
            }
        }
    }
    return found;
}

static void damage(ps_gen *gen, unsigned char *bytes, size_t head_bytes)
{
    const uint32_t value = interesting(gen);
    size_t at = (size_t)ps_gen_range(gen, 24, (int64_t)head_bytes - 8);
    if (ps_gen_range(gen, 0, 3) > 0) {
        const size_t behind = random_hyperparameter(gen, bytes, head_bytes);
        at = behind > 0 && behind + 8 < head_bytes ? behind : at;
    }
    memcpy(bytes + at, &value, sizeof value);
}

static void test_damaged_metadata_never_gives_a_bad_graph(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    uint32_t built = 0;
    for (size_t f = 0; f < sizeof FILES / sizeof FILES[0]; f++) {
        size_t size_bytes = 0;
        unsigned char *original = load(FILES[f], &size_bytes);
        // Metadata and table come first; the first 2 KiB hold every hyperparameter.
        const size_t head_bytes = 2048;
        unsigned char saved[2048];
        memcpy(saved, original, head_bytes);
        assert_true(try_file(original, size_bytes));
        for (int round = 0; round < ROUNDS / 4; round++) {
            const int64_t count = ps_gen_range(&gen, 1, 2);
            for (int64_t i = 0; i < count; i++) {
                damage(&gen, original, head_bytes);
            }
            built += try_file(original, size_bytes);
            memcpy(original, saved, head_bytes);
        }
        free(original);
    }
    printf("%u of %d damaged files still built\n", built, ROUNDS);
    assert_true(built > 0 && built < ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_metadata_never_gives_a_bad_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
