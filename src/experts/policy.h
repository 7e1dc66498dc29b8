// experts/policy.h - which expert leaves the slots in memory when another one comes.
//
// A policy sees keys, numbered layer_index * experts + expert, and serves the experts of one size,
// which share slots. What it keeps are a protected set and a remainder in order of use:
//
//     lru     nothing is protected
//     lfu     fewest uses leave, of all since the start; of equal ones the longest unused
//     hotset  a given set is protected
//     heat    the keys with most decayed uses are; one of the remainder takes the place of the
//             coldest protected one when it is hotter by a margin
//     auto    the key leaves that is expected to be wanted last: by what the last steps and the
//             longer past have wanted, each as much as it has proved to tell (forecast.h), and by
//             how far its layer is away. Nothing is protected
//
// Protected sets change between steps only and by relabelling what is in slots, so without a read.
// Pure: no clock, no threads, no bytes; memory is taken at creation, and the same calls give the
// same answers. Not thread-safe.
#ifndef PS_EXPERTS_POLICY_H
#define PS_EXPERTS_POLICY_H

#include "base/status.h"

#include <prestage/experts.h>
#include <stdint.h>

#define PS_NO_KEY UINT32_MAX
#define PS_EXPERT_KEYS_MAX (1u << 24)

typedef struct ps_expert_policy_options {
    ps_expert_policy_kind kind;
    uint32_t keys;       // 1..PS_EXPERT_KEYS_MAX
    uint32_t slots;      // >= floor
    uint32_t floor;      // slots that are never protected; > 0, twice top_k
    uint32_t experts;    // of a layer, for auto; 0: not known, all layers seem equally far then
    const uint32_t *hot; // [hot_count] keys of a hot set, hottest first; borrowed for the creation
    uint32_t hot_count;  // 0: no hot set. Keys behind the first slots - floor are not pinned; a
                         // short set is a start and no cap
} ps_expert_policy_options;

typedef struct ps_expert_policy ps_expert_policy;

// A hot set stays protected under hotset, and is what heat and auto begin with; lru and lfu have no
// use for it.
//
// PS_INVALID  keys, slots, floor or the hot set are outside what is said above; a key stands twice
//             in the hot set; hotset without one
// PS_NO_MEMORY
PS_MUST_USE ps_status ps_expert_policy_create(const ps_expert_policy_options *options,
                                              ps_expert_policy **out);
void ps_expert_policy_destroy(ps_expert_policy *policy); // NULL is allowed

// What to load at the start, hottest first, into keys [slots]; gives how many.
uint32_t ps_expert_policy_pinned(const ps_expert_policy *policy, uint32_t *keys);

// In the protected set now.
bool ps_expert_policy_is_pinned(const ps_expert_policy *policy, uint32_t key);

// A layer call wants the key, in a slot or not, for `rows` rows. Each distinct key of the call once,
// and all of them before victims for that call are asked for.
void ps_expert_policy_use(ps_expert_policy *policy, uint32_t key, uint32_t rows);

void ps_expert_policy_enter(ps_expert_policy *policy, uint32_t key); // it has got a slot
void ps_expert_policy_leave(ps_expert_policy *policy, uint32_t key); // it has lost it

// The key that should lose its slot so that `key` may come. is_busy(context, k) says which cannot
// go now. PS_NO_KEY: all that is not protected is busy.
uint32_t ps_expert_policy_victim(const ps_expert_policy *policy, uint32_t key,
                                 bool (*is_busy)(void *context, uint32_t key), void *context);

// A step has ended. Under auto O(keys), a few nanoseconds each.
void ps_expert_policy_token(ps_expert_policy *policy);

// Fewer slots, or more again, but not more than at creation; at least floor. The caller evicts by
// victim() until they suffice.
void ps_expert_policy_resize(ps_expert_policy *policy, uint32_t slots);

#endif
