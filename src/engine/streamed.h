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

typedef struct ps_memory_given {
    uint64_t memory_bytes, expert_bytes;
    bool streams;                      // even where all experts fit
    const ps_session_options *session; // NULL: the defaults
    const uint32_t *hot;               // [hot_count] keys that there has to be room for
    uint32_t hot_count;
} ps_memory_given;

// Splits what is given (as in ps_model_options), before anything is loaded, for one rank.
//
// PS_INVALID  it is less than the model needs, or has no room for the hot set; the message has the
//             numbers, and the longest context that would fit. Or there are no experts to stream
PS_MUST_USE ps_status ps_memory_plan(const ps_model_config *config, const ps_gguf *file,
                                     const ps_machine *machine, const ps_memory_given *given,
                                     ps_memory_split *out);

// The split as a line of text. Appends to *out.
PS_MUST_USE ps_status ps_memory_print(const ps_memory_split *split, ps_buffer *out);

// What the process has, but for a simulated tier's slow memory.
uint64_t ps_memory_counted(const ps_model *model);

// Takes the memory of a session whose executor has been prepared, for as long as that lives; and of
// a model that streams, gives it a store that gets what is left of the model's memory, when all
// that its sessions will touch is counted; a simulated tier's slow memory is not. options are
// complete.
//
// PS_NO_MEMORY  there is less than the session needs; the message has the numbers
// PS_IO, PS_NOT_FOUND, PS_INVALID  as of ps_expert_store_create
PS_MUST_USE ps_status ps_memory_take(const ps_model *model, const ps_session_options *options,
                                     ps_exec *exec);

#endif
