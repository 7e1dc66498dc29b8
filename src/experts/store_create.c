// experts/store_create.c - how much memory a store takes, and how it is shared out.
#include "experts/store_internal.h"

#include <stdlib.h>
#include <string.h>

// ---- sizes

// In a slot. What is packed there was read there: behind its start by a part of a page.
static uint64_t part_bytes(const ps_expert_layer *is, uint32_t part)
{
    const ps_expert_part *of = &is->parts[part];
    const uint64_t bytes = of->packed_bytes > of->size_bytes ? of->packed_bytes : of->size_bytes;
    return ps_round_up(bytes, PS_READ_ALIGN_BYTES) + (is->part_count > 1 ? PS_READ_ALIGN_BYTES : 0);
}

static uint64_t slot_bytes(const ps_expert_layer *is)
{
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < is->part_count; p++) {
        bytes += part_bytes(is, p);
    }
    return bytes;
}

// Classes by the bytes of a slot, in order of first appearance; out [layer_count] at most.
static uint32_t find_classes(const ps_expert_layer *layers, uint32_t layer_count, uint32_t top_k,
                             ps_size_class *out)
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < layer_count; l++) {
        const uint64_t bytes = slot_bytes(&layers[l]);
        uint32_t c = 0;
        while (c < count && out[c].slot_bytes != bytes) {
            c++;
        }
        if (c == count) {
            out[count++] = (ps_size_class){.slot_bytes = bytes};
        }
        out[c].key_count += layers[l].experts;
    }
    for (uint32_t c = 0; c < count; c++) {
        out[c].floor = 2 * top_k < out[c].key_count ? 2 * top_k : out[c].key_count;
    }
    return count;
}

// The layer of a key that is numbered through all layers; *key becomes the expert of it.
static uint32_t layer_of(const ps_expert_layer *layers, uint32_t layer_count, uint32_t *key)
{
    uint32_t l = 0;
    while (l < layer_count && *key >= layers[l].experts) {
        *key -= layers[l++].experts;
    }
    return l;
}

uint64_t ps_expert_store_least(const ps_expert_layer *layers, uint32_t layer_count, uint32_t top_k,
                               const uint32_t *hot, uint32_t hot_count)
{
    ps_size_class *classes = calloc(layer_count, sizeof *classes);
    uint64_t bytes = 0;
    uint64_t above_bytes = 0;
    double part = 0; // every class gets the same of what is above the floor; 2: rounding
    const uint32_t count = classes == NULL ? 0 : find_classes(layers, layer_count, top_k, classes);
    for (uint32_t c = 0; c < count; c++) {
        const uint32_t rest = classes[c].key_count - classes[c].floor;
        uint32_t wanted = 0;
        for (uint32_t i = 0; i < hot_count; i++) {
            uint32_t key = hot[i];
            const uint32_t l = layer_of(layers, layer_count, &key);
            wanted += l < layer_count && slot_bytes(&layers[l]) == classes[c].slot_bytes;
        }
        part = rest > 0 && wanted > part * rest ? (double)wanted / rest : part;
        bytes += classes[c].floor * classes[c].slot_bytes;
        above_bytes += rest * classes[c].slot_bytes;
    }
    free(classes);
    return bytes + (part > 0 ? (uint64_t)(part * (double)above_bytes) + 2 : 0);
}

// Every class gets its floor, and of what is left a share by its bytes.
static ps_status share_budget(ps_expert_store *store, uint64_t budget_bytes)
{
    uint64_t floor_bytes = 0;
    uint64_t above_bytes = 0;
    for (uint32_t c = 0; c < store->class_count; c++) {
        const ps_size_class *size = &store->classes[c];
        floor_bytes += size->floor * size->slot_bytes;
        above_bytes += (size->key_count - size->floor) * size->slot_bytes;
    }
    if (budget_bytes < floor_bytes) {
        return ps_fail(PS_INVALID,
                       "%.1f MiB for experts, %.1f MiB would be right: twice those that one token "
                       "takes in a layer",
                       (double)budget_bytes / (1 << 20), (double)floor_bytes / (1 << 20));
    }
    const double part = above_bytes == 0
                            ? 0
                            : (double)(budget_bytes - floor_bytes) / (double)above_bytes;
    for (uint32_t c = 0; c < store->class_count; c++) {
        ps_size_class *size = &store->classes[c];
        const uint32_t rest = size->key_count - size->floor;
        size->slot_count = size->floor + (part >= 1 ? rest : (uint32_t)(part * rest));
        store->info.slots += size->slot_count;
        store->info.slot_bytes += size->slot_count * size->slot_bytes;
    }
    return PS_OK;
}

// ---- creation

// Keys of a class are numbered through its layers.
static void place_layers(ps_expert_store *store, const ps_expert_layer *layers)
{
    for (uint32_t c = 0; c < store->class_count; c++) {
        uint32_t keys = 0;
        for (uint32_t l = 0; l < store->layer_count; l++) {
            if (slot_bytes(&layers[l]) == store->classes[c].slot_bytes) {
                ps_expert_place *to = &store->layers[l];
                *to = (ps_expert_place){
                    .is = layers[l], .size = &store->classes[c], .first_key = keys};
                for (uint32_t p = 1; p < to->is.part_count; p++) {
                    to->part_offset[p] = to->part_offset[p - 1] + part_bytes(&to->is, p - 1);
                }
                keys += to->is.experts;
            }
        }
    }
}

static ps_status make_slots(ps_expert_store *store, ps_size_class *size, char *memory)
{
    size->memory = memory;
    size->slots = PS_ARENA_NEW(&store->arena, ps_expert_slot, size->slot_count);
    size->free_slots = PS_ARENA_NEW(&store->arena, ps_expert_slot *, size->slot_count);
    size->slot_of = PS_ARENA_NEW(&store->arena, ps_expert_slot *, size->key_count);
    size->is_hot = PS_ARENA_NEW(&store->arena, bool, size->key_count);
    if (size->slots == NULL || size->free_slots == NULL || size->slot_of == NULL ||
        size->is_hot == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = size->slot_count; i-- > 0;) {
        size->slots[i].key = PS_NO_KEY;
        size->slots[i].memory = memory + i * size->slot_bytes;
        size->free_slots[size->free_count++] = &size->slots[i];
    }
    return PS_OK;
}

// Of each layer of a class; 0: they differ.
static uint32_t experts_of(const ps_expert_store *store, const ps_size_class *size)
{
    uint32_t experts = 0;
    for (uint32_t l = 0; l < store->layer_count; l++) {
        const ps_expert_place *of = &store->layers[l];
        if (of->size == size && experts > 0 && experts != of->is.experts) {
            return 0;
        }
        experts = of->size == size ? of->is.experts : experts;
    }
    return experts;
}

// The hot keys of a class, from those of all layers.
static ps_status make_policy(ps_expert_store *store, const ps_expert_store_options *options,
                             ps_size_class *size)
{
    uint32_t *hot = PS_ARENA_NEW(&store->arena, uint32_t, options->hot_count);
    uint32_t count = 0;
    if (hot == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < options->hot_count; i++) {
        uint32_t key = options->hot[i];
        const uint32_t l = layer_of(options->layers, options->layer_count, &key);
        if (l < store->layer_count && store->layers[l].size == size) {
            hot[count++] = store->layers[l].first_key + key;
        }
    }
    const uint32_t room = size->slot_count - size->floor;
    if (count > room && !options->hot_cut) {
        return ps_fail(PS_INVALID,
                       "the hot set: %u experts of %.1f MiB, and there is room for %u, %.1f MiB, "
                       "beside the %u that come and go; a smaller set (--hot-experts, or --hot-cut "
                       "for as many as fit), more memory or a shorter context would be right",
                       count, (double)(count * size->slot_bytes) / (1 << 20), room,
                       (double)(room * size->slot_bytes) / (1 << 20), size->floor);
    }
    count = count < room ? count : room;
    for (uint32_t i = 0; i < count; i++) {
        size->is_hot[hot[i]] = true;
    }
    const bool is_plain = options->policy == PS_EXPERTS_HOTSET && count == 0 &&
                          options->hot_count > 0; // what is hot is of other sizes
    return ps_expert_policy_create(
        &(ps_expert_policy_options){.kind = is_plain ? PS_EXPERTS_LRU : options->policy,
                                    .keys = size->key_count,
                                    .slots = size->slot_count,
                                    .floor = size->floor,
                                    .experts = experts_of(store, size),
                                    .hot = hot,
                                    .hot_count = count},
        &size->policy);
}

static ps_status make_call(ps_expert_store *store)
{
    uint32_t experts = 0;
    for (uint32_t l = 0; l < store->layer_count; l++) {
        experts = store->layers[l].is.experts > experts ? store->layers[l].is.experts : experts;
        store->info.experts += store->layers[l].is.experts;
    }
    store->wants = PS_ARENA_NEW(&store->arena, ps_expert_want, experts);
    store->is_done = PS_ARENA_NEW(&store->arena, bool, experts);
    for (uint32_t i = 0; i < 2; i++) {
        store->guesses[i].experts = PS_ARENA_NEW(&store->arena, uint32_t, experts);
        store->guesses[i].is_guessed = PS_ARENA_NEW(&store->arena, bool, experts);
        if (store->guesses[i].experts == NULL || store->guesses[i].is_guessed == NULL) {
            return PS_NO_MEMORY;
        }
    }
    store->wave = PS_ARENA_NEW(&store->arena, ps_expert_slot *, experts);
    store->wave_experts = PS_ARENA_NEW(&store->arena, uint32_t, experts);
    store->wave_raw = PS_ARENA_NEW(&store->arena, bool, experts);
    ps_trial_init(&store->trial);
    return store->wants == NULL || store->is_done == NULL || store->wave == NULL ||
                   store->wave_experts == NULL || store->wave_raw == NULL
               ? PS_NO_MEMORY
               : PS_OK;
}

static ps_status create(ps_expert_store *store, const ps_expert_store_options *options)
{
    for (uint32_t l = 0; l < options->layer_count; l++) { // one piece is used where it is read
        const ps_expert_part *part = &options->layers[l].parts[0];
        ps_assert(options->layers[l].part_count > 1 ||
                  (part->offset_bytes | part->stride_bytes) % PS_READ_ALIGN_BYTES == 0);
    }
    store->layer_count = options->layer_count;
    store->layers = PS_ARENA_NEW(&store->arena, ps_expert_place, options->layer_count);
    store->classes = PS_ARENA_NEW(&store->arena, ps_size_class, options->layer_count);
    if (store->layers == NULL || store->classes == NULL) {
        return PS_NO_MEMORY;
    }
    store->class_count = find_classes(options->layers, options->layer_count, options->top_k,
                                      store->classes);
    PS_TRY(share_budget(store, options->budget_bytes));
    PS_TRY(store->tier->is->open(store->tier, store->info.slot_bytes));
    char *memory = store->tier->memory;
    place_layers(store, options->layers);
    for (uint32_t l = 0; l < store->layer_count; l++) {
        ps_expert_place *of = &store->layers[l];
        if (of->is.checksums != NULL) {
            of->is_verified = PS_ARENA_NEW(&store->arena, bool, of->is.experts);
            PS_TRY(of->is_verified == NULL ? PS_NO_MEMORY : PS_OK);
        }
    }
    for (uint32_t c = 0; c < store->class_count; c++) {
        PS_TRY(make_slots(store, &store->classes[c], memory));
        PS_TRY(make_policy(store, options, &store->classes[c]));
        memory += store->classes[c].slot_count * store->classes[c].slot_bytes;
    }
    store->info.budget_bytes = options->budget_bytes;
    return make_call(store);
}

ps_status ps_expert_store_create(const ps_expert_store_options *options, ps_expert_store **out)
{
    ps_expert_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        options->tier->is->destroy(options->tier);
        return ps_fail(PS_NO_MEMORY, "no memory for an expert store");
    }
    store->tier = options->tier;
    ps_arena_init(&store->arena, (size_t)1 << 30);
    const ps_status status = create(store, options);
    if (status != PS_OK) {
        ps_expert_store_destroy(store);
        return status;
    }
    *out = store;
    return PS_OK;
}

void ps_expert_store_destroy(ps_expert_store *store)
{
    if (store == NULL) {
        return;
    }
    store->tier->is->destroy(store->tier); // nothing is written to slots any more
    for (uint32_t c = 0; c < store->class_count; c++) {
        ps_expert_policy_destroy(store->classes[c].policy);
    }
    ps_arena_deinit(&store->arena);
    free(store);
}
