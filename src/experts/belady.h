// experts/belady.h - the most hits that any policy could have: Belady's rule, with a look at the
// whole future, counted without one.
//
// A key that stays in its slot from one call that wants it to the next is a hit. Keys that stay
// across a call, and those that the call wants itself, have to fit in the slots; to let those stay
// that are wanted again first, whenever they still fit, gives the most hits (interval scheduling on
// several machines: Faigle and Nawijn 1995; OPTgen of Jain and Lin, ISCA 2016, counts caches so).
// What is in the slots at the start is free. Memory grows with keys and not with calls: calls
// between which no key waits for its next one are kept as one.
#ifndef PS_EXPERTS_BELADY_H
#define PS_EXPERTS_BELADY_H

#include "base/memory.h"

typedef struct ps_belady ps_belady;

// floor: slots that any policy gives to the keys of the current call, if it wants so many.
//
// PS_NO_MEMORY. Memory comes from the arena and lives as long.
PS_MUST_USE ps_status ps_belady_init(uint32_t keys, uint32_t slots, uint32_t floor, ps_arena *arena,
                                     ps_belady **out);

// A call wants distinct keys [count], each in a slot; adds the hits among them to *hits, and to
// *read_hits those reads of `ps_belady_read` that turn out to have been hits. O(count log keys).
void ps_belady_call(ps_belady *belady, const uint32_t *keys, uint32_t count, uint64_t *hits,
                    uint64_t *read_hits);

// The key is wanted, but by someone who needs no slot for it.
void ps_belady_read(ps_belady *belady, uint32_t key);

#endif
