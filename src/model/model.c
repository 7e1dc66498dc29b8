// model/model.c - the table of architectures, and the way from a file to a graph.
#include "model/architectures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ps_architecture *const ARCHITECTURES[] = {
    &ps_architecture_gemma3, // Gemma 3, text
    &ps_architecture_llama,  // Llama 2 and 3, Mistral, Mixtral, SmolLM2
    &ps_architecture_qwen2,  // Qwen2, Qwen2.5
    &ps_architecture_qwen3,  &ps_architecture_qwen3moe,
};
#define ARCHITECTURE_COUNT (sizeof ARCHITECTURES / sizeof *ARCHITECTURES)

size_t ps_model_architecture_count(void)
{
    return ARCHITECTURE_COUNT;
}

const char *ps_model_architecture_name(size_t index)
{
    ps_assert(index < ARCHITECTURE_COUNT);
    return ARCHITECTURES[index]->name;
}

static const ps_architecture *find_architecture(ps_str name)
{
    for (size_t i = 0; i < ARCHITECTURE_COUNT; i++) {
        if (ps_str_equal(name, ARCHITECTURES[i]->name)) {
            return ARCHITECTURES[i];
        }
    }
    return NULL;
}

static ps_status unknown_architecture(ps_str name)
{
    char known[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < ARCHITECTURE_COUNT && used < sizeof known; i++) {
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                                 ARCHITECTURES[i]->name);
    }
    return ps_fail(PS_UNSUPPORTED, "architecture '%.*s' is not known; prestage has %s",
                   name.length > 64 ? 64 : (int)name.length, name.data, known);
}

ps_status ps_model_read(const ps_gguf *file, ps_arena *arena, const ps_model_config **out)
{
    ps_str name;
    const ps_status status = ps_gguf_get_string(file, "general.architecture", &name);
    if (status == PS_NOT_FOUND) {
        return ps_fail(PS_INVALID, "the file has no 'general.architecture'");
    }
    PS_TRY(status);
    const ps_architecture *architecture = find_architecture(name);
    if (architecture == NULL) {
        return unknown_architecture(name);
    }
    ps_model_config *config = PS_ARENA_NEW(arena, ps_model_config, 1);
    if (config == NULL) {
        return PS_NO_MEMORY;
    }
    const ps_hyperparameters hyper = {
        .file = file, .architecture = architecture->name, .arena = arena};
    ps_model_layer *layers = NULL;
    PS_TRY(ps_hyper_read_common(&hyper, config, &layers));
    PS_TRY(architecture->adjust(&hyper, config, layers));
    *out = config;
    return PS_OK;
}

ps_status ps_model_build(const ps_model_config *config, const ps_gguf *file, ps_graph *graph)
{
    const ps_architecture *architecture = find_architecture(ps_str_of(config->architecture));
    ps_assert(architecture != NULL);
    ps_builder builder = {.config = config, .file = file, .graph = graph};
    return ps_builder_run(&builder, architecture->build_layer);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

ps_status ps_model_unused_tensors(const ps_graph *graph, const ps_gguf *file, const char **names,
                                  uint32_t capacity, uint32_t *out_count)
{
    const char **used = PS_ARENA_NEW(graph->arena, const char *, graph->value_count);
    if (used == NULL) {
        return PS_NO_MEMORY;
    }
    uint32_t used_count = 0;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (graph->values[i].kind == PS_VALUE_WEIGHT) {
            used[used_count++] = graph->values[i].name;
        }
    }
    qsort(used, used_count, sizeof *used, compare_names);

    uint32_t count = 0;
    for (uint32_t i = 0; i < ps_gguf_tensor_count(file); i++) {
        const char *name = ps_gguf_tensor_at(file, i)->name;
        if (bsearch(&name, used, used_count, sizeof *used, compare_names) != NULL) {
            continue;
        }
        if (count < capacity) {
            names[count] = name;
        }
        count++;
    }
    *out_count = count;
    return PS_OK;
}
