// engine/weights.c - tensors of a file become packed groups, a slice of every tensor on each
// worker; those of a compiled file are packed already, and compared with the graph.
#include "engine/weights.h"

#include "base/clock.h"
#include "base/pages.h"
#include "hw/machine.h"
#include "kernels/pack.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes that all workers together pack between two reports of progress, and after which they give
// the file's pages back.
#define SLICES_BYTES ((uint64_t)4 << 20)
#define PAGE_BYTES ((uint64_t)4096)
#define READ_UNIT_BYTES 512u // of the read kernel
#define FILL_BYTES_LEAST ((uint64_t)64 << 20)

typedef struct source {
    const ps_gguf_tensor *tensor;
    uint64_t offset_bytes;            // of the packed weight
    uint32_t row_first, column_first; // of the slice of the tensor that it is
    const ps_weight *whole; // that it is a part of, if that is here; NULL: it has own memory
} source;

struct ps_weights {
    ps_arena arena;
    ps_weight *list; // sorted by name
    source *sources; // [count], as list
    uint32_t count;
    char *memory; // packed here; NULL: all mapped
    uint64_t memory_bytes;
    uint64_t total_bytes; // of all weights in memory
    bool streams_experts;
    ps_weights_experts experts;
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
    return weights->total_bytes;
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

// "token_embd.weight@slice" is of tensor "token_embd.weight".
static const ps_gguf_tensor *find_tensor(const ps_gguf *file, const char *name)
{
    char tensor[PS_NAME_BYTES_MAX + 1];
    const char *suffix = strrchr(name, '@');
    const ps_gguf_tensor *found = ps_gguf_tensor_find(file, name);
    if (found != NULL || suffix == NULL) {
        return found;
    }
    (void)snprintf(tensor, sizeof tensor, "%.*s", (int)(suffix - name), name);
    return ps_gguf_tensor_find(file, tensor);
}

// The whole that a slice of rows can be a pointer into: the slice starts with a group of it.
static const ps_weight *find_whole(ps_weights *weights, const ps_weight *weight, const source *from)
{
    if (strcmp(weight->name, from->tensor->name) == 0 || weight->is_vector || weight->experts > 0 ||
        from->column_first != 0 || from->row_first % PS_GROUP_ROWS != 0) {
        return NULL;
    }
    const ps_weight *whole = ps_weights_find(weights, from->tensor->name);
    return whole != NULL && !whole->is_vector && whole->inputs == weight->inputs ? whole : NULL;
}

static uint64_t offset_in_whole(const ps_weight *weight, const source *from)
{
    return from->row_first / PS_GROUP_ROWS * ps_packed_group_bytes(weight->dtype, weight->inputs);
}

static bool is_streamed(const ps_weights *weights, const ps_weight *weight)
{
    return weights->streams_experts && weight->experts > 0;
}

const ps_weights_experts *ps_weights_get_experts(const ps_weights *weights)
{
    return &weights->experts;
}

ps_status ps_weights_list_experts(const ps_graph *graph, ps_arena *arena, ps_expert_layer **out,
                                  uint32_t *out_count)
{
    uint32_t last = 0;
    uint32_t count = 0;
    ps_expert_layer *layers = PS_ARENA_NEW(arena, ps_expert_layer, graph->node_count);
    if (layers == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const ps_node *node = &graph->nodes[i];
        if (node->op != PS_OP_EXPERT_LINEAR) {
            continue;
        }
        count += node->attributes.layer != last;
        last = node->attributes.layer;
        const ps_value *weight = &graph->values[node->inputs[2]];
        ps_expert_layer *layer = &layers[count - 1];
        ps_assert(layer->part_count < PS_EXPERT_PARTS_MAX);
        layer->experts = weight->experts;
        layer->names[layer->part_count] = weight->name;
        layer->parts[layer->part_count++] = (ps_expert_part){
            .size_bytes = ps_dtype_row_bytes(weight->dtype, weight->columns) * weight->rows,
            .packed_bytes = ps_packed_bytes(weight->dtype, weight->rows, weight->columns)};
    }
    *out = layers;
    *out_count = count;
    return PS_OK;
}

static ps_status find_compiled(const ps_pst *file, const ps_weight *weight, const source *from,
                               const ps_pst_weight **out);

static ps_weight *stored_weight(ps_weights *weights, const ps_expert_layer *layer, uint32_t part)
{
    const ps_weight *found = ps_weights_find(weights, layer->names[part]);
    return &weights->list[found - weights->list];
}

static ps_status list_experts(ps_weights *weights, const ps_graph *graph)
{
    PS_TRY(ps_weights_list_experts(graph, &weights->arena, &weights->experts.layers,
                                   &weights->experts.layer_count));
    for (uint32_t l = 0; l < weights->experts.layer_count; l++) {
        ps_expert_layer *layer = &weights->experts.layers[l];
        for (uint32_t p = 0; p < layer->part_count; p++) { // the graph ends before the weights do
            layer->names[p] = stored_weight(weights, layer, p)->name;
        }
    }
    return PS_OK;
}

// The number of a file, which becomes one of those that experts are read from.
static ps_status number_path(ps_weights *weights, const char *path, uint32_t *out)
{
    ps_weights_experts *experts = &weights->experts;
    uint32_t at = 0;
    while (at < experts->path_count && experts->paths[at] != path) {
        at++;
    }
    if (at == experts->path_count) {
        PS_TRY(ps_arena_grow(&weights->arena, (void **)&experts->paths, sizeof *experts->paths, at,
                             &experts->path_capacity));
        PS_TRY(ps_arena_grow(&weights->arena, (void **)&experts->stamps, sizeof *experts->stamps,
                             at, &experts->stamp_capacity));
        PS_TRY(ps_file_stamp_get(path, &experts->stamps[at]));
        experts->paths[experts->path_count++] = path;
    }
    *out = at;
    return PS_OK;
}

// Where the matrices of a layer's experts are in a GGUF file.
static ps_status place_in_gguf(ps_weights *weights, const ps_gguf *file, uint32_t l)
{
    ps_expert_layer *layer = &weights->experts.layers[l];
    for (uint32_t p = 0; p < layer->part_count; p++) {
        ps_weight *weight = stored_weight(weights, layer, p);
        const ps_gguf_place place = ps_gguf_tensor_place(
            file, weights->sources[weight - weights->list].tensor);
        weight->stored.layer = l;
        weight->stored.part = p;
        layer->parts[p].stride_bytes = layer->parts[p].size_bytes;
        layer->parts[p].offset_bytes = place.offset_bytes;
        PS_TRY(number_path(weights, place.path, &layer->parts[p].file));
    }
    return PS_OK;
}

// The records of a layer's experts in a compiled file: one part, in which each matrix has a place.
static ps_status place_in_records(ps_weights *weights, const ps_pst *file, uint32_t l)
{
    ps_expert_layer *layer = &weights->experts.layers[l];
    const ps_pst_weight *first = ps_pst_weight_find(file, layer->names[0]);
    for (uint32_t p = 0; p < layer->part_count; p++) {
        ps_weight *weight = stored_weight(weights, layer, p);
        const ps_pst_weight *whole = NULL;
        PS_TRY(find_compiled(file, weight, &weights->sources[weight - weights->list], &whole));
        if (whole->stack == NULL || whole->stack != first->stack) {
            return ps_fail(PS_INVALID, "'%s' of the compiled file is in no record of experts",
                           whole->name);
        }
        weight->stored.layer = l;
        weight->stored.part = 0;
        weight->stored.offset_bytes = whole->offset_bytes - whole->stack->offset_bytes;
    }
    layer->part_count = 1;
    layer->checksums = first->stack->checksums;
    layer->parts[0] = (ps_expert_part){.offset_bytes = first->stack->offset_bytes,
                                       .stride_bytes = first->stack->stride_bytes,
                                       .size_bytes = first->stack->record_bytes,
                                       .packed_bytes = first->stack->record_bytes};
    return PS_OK;
}

// Of experts that are packed one after the other.
static void set_packed_stride(ps_weight *weight)
{
    weight->expert_stride_bytes = weight->experts == 0
                                      ? 0
                                      : ps_packed_bytes(weight->dtype, weight->outputs,
                                                        weight->inputs);
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
            set_packed_stride(&weights->list[weights->count - 1]);
        }
    }
    qsort(weights->list, weights->count, sizeof *weights->list, by_name);
    for (uint32_t i = 0; i < weights->count; i++) {
        ps_weight *weight = &weights->list[i];
        const ps_value *value = &graph->values[ps_graph_find(graph, ps_str_of(weight->name))];
        const ps_gguf_tensor *tensor = find_tensor(file, weight->name);
        if (tensor == NULL) {
            return ps_fail(PS_NOT_FOUND, "the file has no tensor '%s'", weight->name);
        }
        // The graph ends before the weights do.
        weight->name = ps_arena_strndup(&weights->arena, weight->name, strlen(weight->name));
        if (weight->name == NULL) {
            return PS_NO_MEMORY;
        }
        weights->sources[i] = (source){.tensor = tensor,
                                       .offset_bytes = weights->memory_bytes,
                                       .row_first = value->row_first,
                                       .column_first = value->column_first};
        weights->sources[i].whole = find_whole(weights, weight, &weights->sources[i]);
        if (weights->sources[i].whole == NULL && !is_streamed(weights, weight)) {
            weights->memory_bytes += ps_round_up(ps_weight_bytes(weight), PS_CACHE_LINE_BYTES);
        }
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
    const uint64_t *sizes = from->tensor->dimensions; // columns, rows
    const uint64_t row_bytes = ps_dtype_row_bytes(weight->dtype, sizes[0]);
    const uint64_t group_bytes = ps_packed_group_bytes(weight->dtype, weight->inputs);
    const char *rows = (const char *)from->tensor->data +
                       (matrix * sizes[1] + from->row_first) * row_bytes;
    char *out = job->weights->memory + from->offset_bytes + matrix * weight->expert_stride_bytes;
    ps_pack_groups(out + begin * group_bytes,
                   rows + ps_dtype_row_bytes(weight->dtype, from->column_first), row_bytes,
                   weight->dtype, weight->outputs, weight->inputs, begin, end - begin);
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
        if (weight->is_vector || weight->data == NULL || job->weights->sources[i].whole != NULL) {
            continue;
        }
        const uint64_t per_matrix = ps_divide_up(weight->outputs, PS_GROUP_ROWS);
        const uint64_t group_bytes = ps_packed_group_bytes(weight->dtype, weight->inputs);
        const uint64_t slice = SLICES_BYTES / workers / group_bytes + 1;
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
    if (weights->streams_experts) {
        PS_TRY(list_experts(weights, graph));
        for (uint32_t l = 0; l < weights->experts.layer_count; l++) {
            PS_TRY(place_in_gguf(weights, file, l));
        }
    }
    weights->total_bytes = weights->memory_bytes;
    PS_TRY(ps_machine_check_memory(weights->memory_bytes, "the weights"));
    void *memory;
    PS_TRY(ps_pages_map(weights->memory_bytes, "the weights", &memory));
    weights->memory = memory;
    for (uint32_t i = 0; i < weights->count; i++) {
        const source *from = &weights->sources[i];
        ps_weight *weight = &weights->list[i];
        if (is_streamed(weights, weight)) {
            continue;
        }
        weight->data = from->whole == NULL
                           ? weights->memory + from->offset_bytes
                           : (const char *)from->whole->data + offset_in_whole(weight, from);
        if (weight->is_vector) {
            memcpy(weights->memory + from->offset_bytes,
                   (const char *)from->tensor->data + from->column_first * sizeof(float),
                   weight->inputs * sizeof(float));
            ps_gguf_forget(file, from->tensor->data, from->tensor->size_bytes);
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
                          bool streams_experts, const ps_weights_progress *progress,
                          ps_weights **out)
{
    ps_weights *weights = NULL;
    PS_TRY(create(&weights));
    weights->streams_experts = streams_experts;
    return finish(weights, load(weights, file, graph, team, progress), out);
}

// ---- compiled files

static bool is_slice(const ps_weight *weight, const source *from)
{
    const uint64_t *sizes = from->tensor->dimensions;
    return weight->inputs != sizes[0] || (!weight->is_vector && weight->outputs != sizes[1]);
}

// The weight of a compiled file that is the whole tensor, or that the weight is a slice of.
static ps_status find_compiled(const ps_pst *file, const ps_weight *weight, const source *from,
                               const ps_pst_weight **out)
{
    const ps_pst_weight *found = ps_pst_weight_find(file, from->tensor->name);
    if (found == NULL) {
        return ps_fail(PS_INVALID, "the compiled file has no weight '%s': compile it again",
                       from->tensor->name);
    }
    ps_weight whole = *weight;
    whole.inputs = (uint32_t)from->tensor->dimensions[0];
    whole.outputs = weight->is_vector ? weight->outputs : (uint32_t)from->tensor->dimensions[1];
    if (found->dtype != whole.dtype || found->outputs != whole.outputs ||
        found->inputs != whole.inputs || found->experts != whole.experts ||
        found->is_vector != whole.is_vector || found->size_bytes != ps_weight_bytes(&whole)) {
        return ps_fail(PS_INVALID,
                       "compiled weight '%s' is %s [%u, %u, %u] of %llu bytes, the model wants %s "
                       "[%u, %u, %u] of %llu bytes: compile it again",
                       found->name, ps_dtype_get(found->dtype)->name, found->experts,
                       found->outputs, found->inputs, (unsigned long long)found->size_bytes,
                       ps_dtype_get(whole.dtype)->name, whole.experts, whole.outputs, whole.inputs,
                       (unsigned long long)ps_weight_bytes(&whole));
    }
    *out = found;
    return PS_OK;
}

// Groups of rows of one matrix lie one after the other; anything else is copied together.
static bool is_copied(const ps_weight *weight, const source *from)
{
    return !weight->is_vector &&
           (weight->experts > 0 || weight->inputs != from->tensor->dimensions[0]) &&
           is_slice(weight, from);
}

static void copy_slice(const ps_weight *weight, const source *from, const ps_pst_weight *whole,
                       char *out)
{
    const uint64_t group_bytes = ps_packed_group_bytes(weight->dtype, weight->inputs);
    const uint64_t whole_group_bytes = ps_packed_group_bytes(whole->dtype, whole->inputs);
    const uint64_t groups = ps_divide_up(weight->outputs, PS_GROUP_ROWS);
    const uint64_t columns_bytes = ps_packed_group_bytes(weight->dtype, from->column_first);
    for (uint64_t m = 0; m < matrices(weight); m++) {
        const char *matrix = (const char *)whole->data + m * whole->expert_stride_bytes;
        for (uint64_t g = 0; g < groups; g++, out += group_bytes) {
            const uint64_t group = from->row_first / PS_GROUP_ROWS + g;
            memcpy(out, matrix + group * whole_group_bytes + columns_bytes, group_bytes);
        }
    }
}

static ps_status map_weight(const ps_weights *weights, const ps_pst *file, uint32_t i)
{
    ps_weight *weight = &weights->list[i];
    const source *from = &weights->sources[i];
    const ps_pst_weight *whole = NULL;
    PS_TRY(find_compiled(file, weight, from, &whole));
    if (weight->is_vector) {
        weight->data = (const float *)whole->data + from->column_first;
        return check_vector(weight);
    }
    if (from->row_first % PS_GROUP_ROWS != 0) {
        return ps_fail(PS_UNSUPPORTED,
                       "'%s' of a compiled file cannot be cut at row %u: the GGUF file would be "
                       "right for this number of ranks",
                       whole->name, from->row_first);
    }
    if (is_copied(weight, from)) {
        ps_assert(weights->memory != NULL);
        copy_slice(weight, from, whole, weights->memory + from->offset_bytes);
        weight->data = weights->memory + from->offset_bytes;
    } else {
        weight->data = (const char *)whole->data + offset_in_whole(weight, from);
        weight->expert_stride_bytes = whole->expert_stride_bytes;
    }
    return PS_OK;
}

// Places for what is copied.
static ps_status allocate_copies(ps_weights *weights)
{
    weights->memory_bytes = 0;
    for (uint32_t i = 0; i < weights->count; i++) {
        if (is_copied(&weights->list[i], &weights->sources[i])) {
            weights->sources[i].offset_bytes = weights->memory_bytes;
            weights->memory_bytes += ps_round_up(ps_weight_bytes(&weights->list[i]),
                                                 PS_CACHE_LINE_BYTES);
        }
    }
    void *memory = NULL;
    if (weights->memory_bytes > 0) {
        PS_TRY(ps_machine_check_memory(weights->memory_bytes, "the weights' copied slices"));
        PS_TRY(ps_pages_map(weights->memory_bytes, "the weights", &memory));
    }
    weights->memory = memory;
    return PS_OK;
}

static ps_status map(ps_weights *weights, const ps_pst *file, const ps_graph *graph)
{
    PS_TRY(list_weights(weights, ps_pst_gguf(file), graph));
    if (!weights->streams_experts && weights->memory_bytes <= ps_machine_available_bytes()) {
        ps_pst_read_ahead(file);
    }
    weights->total_bytes = weights->memory_bytes;
    PS_TRY(allocate_copies(weights));
    for (uint32_t i = 0; i < weights->count; i++) {
        if (!is_streamed(weights, &weights->list[i])) {
            PS_TRY(map_weight(weights, file, i));
        }
    }
    return PS_OK;
}

// Memory is counted when it has been touched: of a model that gets so much and no more, weights in
// a mapping are read at once.
static void touch_weights(const ps_weights *weights)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        const volatile char *data = weights->list[i].data;
        const uint64_t bytes = ps_weight_bytes(&weights->list[i]);
        for (uint64_t at = 0; data != NULL && at < bytes; at += PAGE_BYTES) {
            (void)data[at];
        }
    }
}

static ps_status map_streamed(ps_weights *weights, const ps_pst *file, const char *path,
                              const ps_graph *graph)
{
    uint32_t number;
    PS_TRY(map(weights, file, graph));
    PS_TRY(number_path(weights, path, &number));
    PS_TRY(list_experts(weights, graph));
    for (uint32_t l = 0; l < weights->experts.layer_count; l++) {
        PS_TRY(place_in_records(weights, file, l));
    }
    touch_weights(weights);
    return PS_OK;
}

ps_status ps_weights_map(const ps_pst *file, const ps_graph *graph, const char *streamed_from,
                         ps_weights **out)
{
    ps_weights *weights = NULL;
    PS_TRY(create(&weights));
    weights->streams_experts = streamed_from != NULL;
    return finish(weights,
                  streamed_from == NULL ? map(weights, file, graph)
                                        : map_streamed(weights, file, streamed_from, graph),
                  out);
}

// ---- how fast they can be read

typedef struct fill {
    const ps_weights *weights;
    const ps_kernels *kernels;
    uint64_t most_bytes;
} fill;

// Bytes that a pass reads; the workers share each weight as they share packing it.
static uint64_t fill_bytes(const fill *f, uint32_t worker, uint32_t workers, bool reads)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < f->weights->count && bytes < f->most_bytes; i++) {
        const ps_weight *weight = &f->weights->list[i];
        if (weight->data == NULL) {
            continue;
        }
        const uint64_t share = ps_weight_bytes(weight) / matrices(weight) / workers /
                               READ_UNIT_BYTES * READ_UNIT_BYTES;
        for (uint64_t m = 0; reads && m < matrices(weight); m++) {
            f->kernels->read(ps_weight_expert(weight, m) + worker * share, share);
        }
        bytes += share * workers * matrices(weight);
    }
    return bytes;
}

static void fill_share(void *argument, uint32_t worker, uint32_t workers)
{
    (void)fill_bytes(argument, worker, workers, true);
}

double ps_weights_measure_fill(const ps_weights *weights, ps_team *team, const ps_kernels *kernels,
                               uint64_t llc_bytes)
{
    fill f = {.weights = weights,
              .kernels = kernels,
              .most_bytes = PS_WEIGHTS_CACHES * llc_bytes > FILL_BYTES_LEAST
                                ? PS_WEIGHTS_CACHES * llc_bytes
                                : FILL_BYTES_LEAST};
    uint64_t best_ns = UINT64_MAX;
    for (int pass = 0; pass < 3; pass++) {
        const uint64_t start = ps_clock_ns();
        ps_team_run(team, fill_share, &f);
        const uint64_t ns = ps_clock_ns() - start;
        best_ns = pass > 0 && ns < best_ns ? ns : best_ns; // the first finds cold pages
    }
    return (double)fill_bytes(&f, 0, ps_team_workers(team), false) / (double)best_ns;
}
