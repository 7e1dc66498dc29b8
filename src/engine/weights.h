// engine/weights.h - the weights of a model: packed in memory, or mapped from a compiled file.
#ifndef PS_ENGINE_WEIGHTS_H
#define PS_ENGINE_WEIGHTS_H

#include "exec/exec.h"
#include "format/file_map.h"
#include "format/pst.h"
#include "ir/graph.h"

typedef struct ps_weights ps_weights;

typedef struct ps_weights_progress {
    void (*report)(void *context, double fraction); // NULL: none
    void *context;
} ps_weights_progress;

// Packs every weight that the graph names, on all workers of the team; but, where experts are
// streamed, not those, which stay in the file. Names are borrowed from the file, which must stay
// open; its tensor data is not needed afterwards.
//
// PS_NOT_FINITE  a norm, bias or rope factor is NaN or infinite
// PS_NO_MEMORY   they are larger than the memory that is free
PS_MUST_USE ps_status ps_weights_load(const ps_gguf *file, const ps_graph *graph, ps_team *team,
                                      bool streams_experts, const ps_weights_progress *progress,
                                      ps_weights **out);

// Finds every weight that the graph names in a compiled file, which must stay open: weights are
// pointers into it. Reads vectors; the rest is read ahead when it fits the memory that is free.
// streamed_from: the file's path (borrowed) where experts are streamed from it; the others are then
// read. NULL: all are in memory.
//
// PS_INVALID     a weight is missing, or has not the graph's type and shape
// PS_NOT_FINITE  as above
PS_MUST_USE ps_status ps_weights_map(const ps_pst *file, const ps_graph *graph,
                                     const char *streamed_from, ps_weights **out);

void ps_weights_free(ps_weights *weights); // NULL is allowed

uint64_t ps_weights_bytes(const ps_weights *weights);

// Sorted by name.
uint32_t ps_weights_count(const ps_weights *weights);
const ps_weight *ps_weights_at(const ps_weights *weights, uint32_t index); // index < count

// A model of so many last-level caches is read from memory.
#define PS_WEIGHTS_CACHES 4u

// What all workers together move from where the weights are to their caches while they wait, by the
// loads that prefetching uses, in bytes a nanosecond: read off the weights themselves, some 100 MB
// of them, so that a model that lives in a shared cache shows that. 0: there are no weights.
double ps_weights_measure_fill(const ps_weights *weights, ps_team *team, const ps_kernels *kernels,
                               uint64_t llc_bytes);

// Bytes of one weight, as it is packed.
uint64_t ps_weight_bytes(const ps_weight *weight);

// The layers of experts of a graph, before it is fused: sizes; files and offsets are 0. Memory
// comes from the arena, names are the graph's.
PS_MUST_USE ps_status ps_weights_list_experts(const ps_graph *graph, ps_arena *arena,
                                              ps_expert_layer **out, uint32_t *out_count);

// Experts that are streamed: layers in the order in which a step wants them, and the files that
// they are in, whose numbers are those of their parts.
typedef struct ps_weights_experts {
    ps_expert_layer *layers;
    uint32_t layer_count;  // 0: nothing is streamed
    const char **paths;    // [path_count]
    ps_file_stamp *stamps; // [path_count] of the files, when the model was opened
    uint32_t path_count, path_capacity, stamp_capacity;
} ps_weights_experts;
const ps_weights_experts *ps_weights_get_experts(const ps_weights *weights);

// A ps_weight_lookup; context is the ps_weights.
const ps_weight *ps_weights_find(void *context, const char *name);

#endif
