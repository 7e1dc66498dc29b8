// text/merge.h - joins neighbouring symbols, best pair first, as both BPE tokenizers do.
//
// They differ in what a pair is worth and what it becomes; that is the caller's lookup.
#ifndef PS_TEXT_MERGE_H
#define PS_TEXT_MERGE_H

#include "base/memory.h"

// A stretch of text that is one symbol for now. Live symbols are linked in text order from index 0.
typedef struct ps_merge_symbol {
    uint32_t offset; // in bytes, into the caller's text
    uint32_t length;
    int32_t id;       // the token it is, -1: none
    int32_t previous; // index of a live symbol, -1: none
    int32_t next;
    uint32_t priority; // of joining with next; PS_MERGE_NEVER: not possible, or the symbol is gone
    int32_t merged_id; // what joining with next would give
} ps_merge_symbol;

#define PS_MERGE_NEVER UINT32_MAX

// Scratch that is reused from word to word. Zero-initialise.
typedef struct ps_merger {
    ps_merge_symbol *symbols;
    uint32_t count;
    uint32_t capacity;
    uint64_t *heap; // priority << 32 | index of the left symbol; smallest first
    size_t heap_count;
    size_t heap_capacity;
} ps_merger;

// The priority of joining left with right (lower is sooner) with the result in *out_id, or
// PS_MERGE_NEVER.
typedef uint32_t (*ps_merge_lookup)(const void *context, const ps_merge_symbol *left,
                                    const ps_merge_symbol *right, int32_t *out_id);

void ps_merger_reset(ps_merger *merger); // forgets the symbols, keeps the memory
void ps_merger_deinit(ps_merger *merger);

// Adds a symbol behind the last one. PS_NO_MEMORY. At most INT32_MAX symbols.
PS_MUST_USE ps_status ps_merger_add(ps_merger *merger, uint32_t offset, uint32_t length,
                                    int32_t id);

// Joins until no pair can be joined; of equal priorities the leftmost goes first. Afterwards the
// result is symbols[0] and what follows it by `next`. O(n log n) for n symbols. PS_NO_MEMORY.
PS_MUST_USE ps_status ps_merger_run(ps_merger *merger, ps_merge_lookup lookup, const void *context);

#endif
