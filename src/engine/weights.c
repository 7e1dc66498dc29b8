// engine/weights.c - tensors of a file become packed groups, a slice of every tensor on each
// worker; those of a compiled file are packed already, and compared with the graph.
#include "engine/weights.h"

#include "base/pages.h"
#include "hw/machine.h"
#include "kernels/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Bytes that a worker packs between two reports of progress, and after which it gives the file's
// pages back.
#define SLICE_BYTES ((uint64_t)4 << 20)

typedef struct source {
    const ps_gguf_tensor *tensor;
    uint64_t offset_bytes; // of the packed weight
} source;

struct ps_weights {
    ps_arena arena;
    ps_weight *list; // sorted by name
    source *sources; // [count], as list
    uint32_t count;
    char *memory; // NULL: mapped
    uint64_t memory_bytes;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ps_weight *)a)->name, ((const ps_weight *)b)->name);
}

const ps_weight *ps_weights_find(void *context, const char *name)
{
    const ps_weights *weights = context;
    const ps_weight key = {.name = name};
    return bsearch(&key, weights->list, weights->count, sizeof key, by_name);
}

uint64_t ps_weights_bytes(const ps_weights *weights)
{
    return weights->memory_bytes;
}

void ps_weights_free(ps_weights *weights)
{
    if (weights != NULL) {
        ps_pages_unmap(weights->memory, weights->memory_bytes);
        ps_arena_deinit(&weights->arena);
        free(weights);
    }
}

static uint64_t matrices(const ps_weight *weight)
{
    return weight->experts == 0 ? 1 : weight->experts;
}

uint32_t ps_weights_count(const ps_weights *weights)
{
    return weights->count;
}

const ps_weight *ps_weights_at(const ps_weights *weights, uint32_t index)
{
    ps_assert(index < weights->count);
    return &weights->list[index];
}

uint64_t ps_weight_bytes(const ps_weight *weight)
{
    return weight->is_vector
               ? weight->inputs * sizeof(float)
               : matrices(weight) * ps_packed_bytes(weight->dtype, weight->outputs, weight->inputs);
}

// Marks the values that are read as vectors: a matrix of one row looks the same.
static void mark_vectors(const ps_graph *graph, bool *is_vector)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const ps_node *node = &graph->nodes[i];
        for (uint32_t j = 0; j < node->input_count && ps_exec_takes_vector(node->op); j++) {
            is_vector[node->inputs[j]] = true;
        }
    }
}

// Lists the weights of the graph and gives each its place.
static ps_status list_weights(ps_weights *weights, const ps_gguf *file, const ps_graph *graph)
{
    weights->list = PS_ARENA_NEW(&weights->arena, ps_weight, graph->value_count);
    weights->sources = PS_ARENA_NEW(&weights->arena, source, graph->value_count);
    bool *is_vector = PS_ARENA_NEW(&weights->arena, bool, graph->value_count);
    if (weights->list == NULL || weights->sources == NULL || is_vector == NULL) {
        return PS_NO_MEMORY;
    }
    mark_vectors(graph, is_vector);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const ps_value *value = &graph->values[i];
        if (value->kind == PS_VALUE_WEIGHT) {
            weights->list[weights->count++] = (ps_weight){.name = value->name,
                                                          .dtype = value->dtype,
                                                          .outputs = value->rows,
                                                          .inputs = value->columns,
                                                          .experts = value->experts,
                                                          .is_vector = is_vector[i]};
        }
    }
    qsort(weights->list, weights->count, sizeof *weights->list, by_name);
    for (uint32_t i = 0; i < weights->count; i++) {
        ps_weight *weight = &weights->list[i];
        const ps_gguf_tensor *tensor = ps_gguf_tensor_find(file, weight->name);
        if (tensor == NULL) {
            return ps_fail(PS_NOT_FOUND, "the file has no tensor '%s'", weight->name);
        }
        weight->name = tensor->name;
        weights->sources[i] = (source){.tensor = tensor, .offset_bytes = weights->memory_bytes};
        weights->memory_bytes += ps_round_up(ps_weight_bytes(weight), PS_CACHE_LINE_BYTES);
    }
    return PS_OK;
}

// Vectors are f32 in every file (the graph's verification says so); a bad one would spoil every
// token.
static ps_status check_vector(const ps_weight *weight)
{
    const float *values = weight->data;
    for (uint32_t i = 0; i < weight->inputs; i++) {
        if (!isfinite(values[i])) {
            return ps_fail(PS_NOT_FINITE, "tensor '%s': value %u is %g", weight->name, i,
                           (double)values[i]);
        }
    }
    return PS_OK;
}

typedef struct packing {
    const ps_weights *weights;
    const ps_gguf *file;
    const ps_weights_progress *progress;
    uint64_t total_bytes;
} packing;

// Packs groups [begin, end) of one matrix of a stack.
static void pack_slice(const packing *job, uint32_t i, uint64_t matrix, uint64_t begin,
                       uint64_t end)
{
    const ps_weight *weight = &job->weights->list[i];
    const source *from = &job->weights->sources[i];
    const uint64_t row_bytes = ps_dtype_row_bytes(weight->dtype, weight->inputs);
    const uint64_t group_bytes = ps_packed_group_bytes(weight->dtype, weight->inputs);
    const char *rows = (const char *)from->tensor->data + matrix * weight->outputs * row_bytes;
    char *out = job->weights->memory + from->offset_bytes +
                matrix * ps_packed_bytes(weight->dtype, weight->outputs, weight->inputs);
    ps_pack_groups(out + begin * group_bytes, rows, weight->dtype, weight->outputs, weight->inputs,
                   begin, end - begin);
    const uint64_t first = begin * PS_GROUP_ROWS;
    const uint64_t last = end * PS_GROUP_ROWS < weight->outputs ? end * PS_GROUP_ROWS
                                                                : weight->outputs;
    ps_gguf_forget(job->file, rows + first * row_bytes, (last - first) * row_bytes);
}

static void pack_share(void *argument, uint32_t worker, uint32_t workers)
{
    const packing *job = argument;
    uint64_t done_bytes = 0;
    for (uint32_t i = 0; i < job->weights->count; i++) {
        const ps_weight *weight = &job->weights->list[i];
        if (weight->is_vector) {
            continue;
        }
        const uint64_t per_matrix = ps_divide_up(weight->outputs, PS_GROUP_ROWS);
        const uint64_t group_bytes = ps_packed_group_bytes(weight->dtype, weight->inputs);
        const uint64_t slice = SLICE_BYTES / group_bytes + 1;
        uint64_t group, end; // counted through all matrices of the stack
        ps_plan_share(matrices(weight) * per_matrix, worker, workers, &group, &end);
        while (group < end) {
            const uint64_t matrix = group / per_matrix;
            uint64_t stop = group + slice < end ? group + slice : end;
            stop = stop < (matrix + 1) * per_matrix ? stop : (matrix + 1) * per_matrix;
            pack_slice(job, i, matrix, group - matrix * per_matrix, stop - matrix * per_matrix);
            done_bytes += (stop - group) * group_bytes;
            group = stop;
            if (worker == 0 && job->progress->report != NULL) {
                job->progress->report(job->progress->context,
                                      (double)done_bytes * workers / (double)job->total_bytes);
            }
        }
    }
}

static ps_status load(ps_weights *weights, const ps_gguf *file, const ps_graph *graph,
                      ps_team *team, const ps_weights_progress *progress)
{
    PS_TRY(list_weights(weights, file, graph));
    const uint64_t free_bytes = ps_machine_available_bytes();
    if (weights->memory_bytes > free_bytes) { // mapping would work, and touching end the process
        return ps_fail(PS_NO_MEMORY, "the weights take %.1f MiB of memory, %.1f MiB are free",
                       (double)weights->memory_bytes / (1 << 20), (double)free_bytes / (1 << 20));
    }
    void *memory;
    PS_TRY(ps_pages_map(weights->memory_bytes, "the weights", &memory));
    weights->memory = memory;
    for (uint32_t i = 0; i < weights->count; i++) {
        weights->list[i].data = weights->memory + weights->sources[i].offset_bytes;
        if (weights->list[i].is_vector) {
            memcpy(weights->memory + weights->sources[i].offset_bytes,
                   weights->sources[i].tensor->data, weights->list[i].inputs * sizeof(float));
            PS_TRY(check_vector(&weights->list[i]));
        }
    }
    packing job = {.weights = weights,
                   .file = file,
                   .progress = progress,
                   .total_bytes = weights->memory_bytes};
    ps_team_run(team, pack_share, &job);
    if (progress->report != NULL) {
        progress->report(progress->context, 1);
    }
    return PS_OK;
}

static ps_status create(ps_weights **out)
{
    ps_weights *weights = calloc(1, sizeof *weights);
    if (weights == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for weights");
    }
    ps_arena_init(&weights->arena, (size_t)1 << 30);
    *out = weights;
    return PS_OK;
}

static ps_status finish(ps_weights *weights, ps_status status, ps_weights **out)
{
    if (status != PS_OK) {
        ps_weights_free(weights);
        return status;
    }
    *out = weights;
    return PS_OK;
}

ps_status ps_weights_load(const ps_gguf *file, const ps_graph *graph, ps_team *team,
                          const ps_weights_progress *progress, ps_weights **out)
{
    ps_weights *weights = NULL;
    PS_TRY(create(&weights));
    return finish(weights, load(weights, file, graph, team, progress), out);
}

// ---- compiled files

static ps_status map_weight(const ps_pst *file, ps_weight *weight)
{
    const ps_pst_weight *found = ps_pst_weight_find(file, weight->name);
    if (found == NULL) {
        return ps_fail(PS_INVALID, "the compiled file has no weight '%s': compile it again",
                       weight->name);
    }
    if (found->dtype != weight->dtype || found->outputs != weight->outputs ||
        found->inputs != weight->inputs || found->experts != weight->experts ||
        found->is_vector != weight->is_vector || found->size_bytes != ps_weight_bytes(weight)) {
        return ps_fail(PS_INVALID,
                       "compiled weight '%s' is %s [%u, %u, %u] of %llu bytes, the model wants %s "
                       "[%u, %u, %u] of %llu bytes: compile it again",
                       weight->name, ps_dtype_get(found->dtype)->name, found->experts,
                       found->outputs, found->inputs, (unsigned long long)found->size_bytes,
                       ps_dtype_get(weight->dtype)->name, weight->experts, weight->outputs,
                       weight->inputs, (unsigned long long)ps_weight_bytes(weight));
    }
    weight->data = found->data;
    return weight->is_vector ? check_vector(weight) : PS_OK;
}

static ps_status map(ps_weights *weights, const ps_pst *file, const ps_graph *graph)
{
    PS_TRY(list_weights(weights, ps_pst_gguf(file), graph));
    if (weights->memory_bytes <= ps_machine_available_bytes()) {
        ps_pst_read_ahead(file);
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        PS_TRY(map_weight(file, &weights->list[i]));
    }
    return PS_OK;
}

ps_status ps_weights_map(const ps_pst *file, const ps_graph *graph, ps_weights **out)
{
    ps_weights *weights = NULL;
    PS_TRY(create(&weights));
    return finish(weights, map(weights, file, graph), out);
}
