// experts/key_heap.h - keys with a score, the lowest at hand: a binary heap that knows where each
// key stands.
#ifndef PS_EXPERTS_KEY_HEAP_H
#define PS_EXPERTS_KEY_HEAP_H

#include "base/memory.h"

typedef struct ps_key_heap {
    uint32_t *items;  // [count] keys; no item's score is below its parent's
    uint32_t *places; // [keys], of those that are in the heap
    double *scores;   // [keys], likewise
    uint32_t count;
} ps_key_heap;

// PS_NO_MEMORY. Memory comes from the arena and lives as long.
PS_MUST_USE ps_status ps_key_heap_init(ps_key_heap *heap, uint32_t keys, ps_arena *arena);

// The heap of the keys from `first` on of one that stays empty itself: several may share its
// memory.
ps_key_heap ps_key_heap_part(const ps_key_heap *whole, uint32_t first);

void ps_key_heap_add(ps_key_heap *heap, uint32_t key, double score); // it is not in the heap
void ps_key_heap_set(ps_key_heap *heap, uint32_t key, double score); // it is
void ps_key_heap_remove(ps_key_heap *heap, uint32_t key);            // it is

void ps_key_heap_renew(ps_key_heap *heap); // after any scores were changed in place

// The key of the lowest score among those that are not busy; UINT32_MAX: there is none. Looks at
// no more than the busy ones and their children.
uint32_t ps_key_heap_lowest(const ps_key_heap *heap, bool (*is_busy)(void *context, uint32_t key),
                            void *context);

#endif
