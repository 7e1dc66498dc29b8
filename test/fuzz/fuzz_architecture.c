// fuzz-links: ps_engine
//
// Goal: no config.json whatever makes its reader read outside or fail without a message, and of
// what it accepts a graph is built, or refused with a message.
#include "engine/architecture_file.h"
#include "fuzz/fuzz.h"

#define ARENA_BYTES ((size_t)256 << 20)

static void build(const ps_model_config *config, ps_arena *arena)
{
    ps_graph graph;
    ps_graph_init(&graph, arena);
    for (uint32_t i = 0; i < config->layers; i++) {
        const ps_model_layer *layer = &config->layer[i];
        ps_assert(layer->kv_group < config->kv_group_count && layer->heads > 0);
        ps_assert(layer->is_moe ? config->expert_ffn > 0 : layer->ffn > 0);
    }
    if (ps_model_build(config, NULL, &graph) != PS_OK ||
        ps_graph_verify(&graph, "build") != PS_OK) {
        ps_assert(ps_error_message()[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    ps_arena arena;
    const ps_model_config *config = NULL;
    const char *note = NULL;
    ps_arena_init(&arena, ARENA_BYTES);
    if (ps_architecture_parse((ps_str){(const char *)bytes, size_bytes}, "fuzzed", &arena, &config,
                              &note) == PS_OK) {
        ps_assert(note != NULL);
        build(config, &arena);
    } else {
        ps_assert(ps_error_message()[0] != '\0');
    }
    ps_arena_deinit(&arena);
    return 0;
}
