// engine/streamed.h - models whose experts do not all fit: what is kept where, and within how much
// memory.
#ifndef PS_ENGINE_STREAMED_H
#define PS_ENGINE_STREAMED_H

#include "engine/model_internal.h"
#include "experts/store.h"

// Where the memory goes that a model may take.
typedef struct ps_memory_split {
    uint64_t memory_bytes;   // given; 0: as much as there is
    uint64_t base_bytes;     // the process before it loads
    uint64_t dense_bytes;    // weights that every token reads
    uint64_t session_bytes;  // KV cache and workspaces
    uint64_t experts_bytes;  // all of them
    uint64_t floor_bytes;    // least for experts,
    uint64_t resident_bytes; //   and what is left for them; experts_bytes: all stay in memory
    uint32_t experts, expert_layers; // in all layers, and how many of those have any
    bool streams;
} ps_memory_split;

// Splits what is given (as in ps_model_options), before anything is loaded, for one rank.
//
// PS_INVALID  it is less than the model needs; the message has the numbers. Or there are no experts
//             to stream
typedef struct ps_memory_given {
    uint64_t memory_bytes, expert_bytes;
    bool streams;                      // even where all experts fit
    const ps_session_options *session; // NULL: the defaults
} ps_memory_given;
PS_MUST_USE ps_status ps_memory_plan(const ps_model_config *config, const ps_gguf *file,
                                     const ps_machine *machine, const ps_memory_given *given,
                                     ps_memory_split *out);

// The split as a line of text. Appends to *out.
PS_MUST_USE ps_status ps_memory_print(const ps_memory_split *split, ps_buffer *out);

// The store for a session of a model that streams: gets what is left of the model's memory when all
// that the session will touch is counted. A simulated tier's slow memory is not.
//
// PS_NO_MEMORY  that is below the floor; the message has the numbers
// PS_IO, PS_NOT_FOUND  as of ps_expert_store_create
PS_MUST_USE ps_status ps_streamed_create_store(const ps_model *model, uint64_t session_bytes,
                                               ps_expert_store **out);

#endif
