// experts/store_internal.h - what a store is made of. For files of experts/ only.
#ifndef PS_EXPERTS_STORE_INTERNAL_H
#define PS_EXPERTS_STORE_INTERNAL_H

#include "base/memory.h"
#include "experts/store.h"
#include "experts/trial.h"

typedef struct ps_expert_slot {
    uint32_t key; // of its class; PS_NO_KEY: free
    char *memory;
    bool is_raw;       // as in the file; packed by whoever is given it first
    bool is_wanted;    // by the call at hand, and not given out yet
    bool is_given;     // in the wave at hand
    bool is_transient; // free behind its wave
    bool is_guess;     // read for what is expected, and not wanted yet
    bool is_checked;   // its reads have succeeded
    _Atomic uint32_t reads_left;
    ps_read reads[PS_EXPERT_PARTS_MAX];
} ps_expert_slot;

typedef struct ps_size_class {
    uint64_t slot_bytes;
    uint32_t key_count, slot_count, floor;
    ps_expert_slot *slots;       // [slot_count]
    char *memory;                // [slot_count] of slot_bytes
    ps_expert_slot **free_slots; // [free_count]
    ps_expert_slot **slot_of;    // [key_count] NULL: cold
    bool *is_hot;                // [key_count] in the hot set
    uint32_t free_count, transient_count;
    ps_expert_policy *policy;
} ps_size_class;

typedef struct ps_expert_place {
    ps_expert_layer is;
    bool *is_verified; // [experts]; NULL: there are no checksums
    ps_size_class *size;
    uint32_t first_key;                        // of expert 0, among those of its class
    uint64_t part_offset[PS_EXPERT_PARTS_MAX]; // in a slot
} ps_expert_place;

// What is expected of a layer that has not been called yet: a set is filled while that of the layer
// before has not been judged.
typedef struct ps_guess_set {
    ps_expert_place *of; // NULL: none, or judged
    uint32_t *experts;   // [count]
    bool *is_guessed;    // [experts of the layer]
    uint32_t count, started;
} ps_guess_set;

struct ps_expert_store {
    ps_arena arena;
    ps_tier *tier;
    ps_expert_place *layers;
    uint32_t layer_count;
    ps_size_class *classes;
    uint32_t class_count;
    // The call at hand.
    ps_expert_place *of;
    ps_expert_want *wants; // [experts of a layer] in the order of the call;
    bool *is_done;         //   those that have been given out
    uint32_t want_count;
    uint32_t started;      //   those before have, or had, slots
    ps_expert_slot **wave; // [experts of a layer]
    uint32_t *wave_experts;
    bool *wave_raw;
    uint32_t wave_count;
    ps_guess_set guesses[2]; // of the next layer, and of this one
    uint32_t guessing;       // the set that is being filled, or was last
    ps_trial trial;
    ps_expert_store_info info;
};

#endif
