// experts/store.c - slots, what is in them, and what is on its way there.
//
//   cold --start_reads--> loading --reads done--> here --take_slot--> cold
//                                                  |  ^
//                                             next |  | next
//                                                  v  |
//                                                 given
//
//   1. A key has one slot at most, and a slot one key.
//   2. A slot that is loading, wanted by the call at hand or given out is nobody's victim.
//   3. A slot holds a key of its class: all experts of a class take as many bytes.
//   4. Of a call that only prompts want, so many slots are taken as the floor has, and they are
//      free again behind their wave: prompts do not push out what decoding keeps.
//   5. The calling thread owns all of it but reads_left and the reads themselves, which are the
//      reader's from submit to done; reads_left is counted down with release.
#include "experts/store.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/pages.h"
#include "experts/trial.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NO_SLOT UINT32_MAX
#define WEIGHT_ALIGN_BYTES ((uint64_t)64)

typedef struct slot {
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
} slot;

typedef struct size_class {
    uint64_t slot_bytes;
    uint32_t key_count, slot_count, floor;
    slot *slots;       // [slot_count]
    char *memory;      // [slot_count] of slot_bytes
    slot **free_slots; // [free_count]
    slot **slot_of;    // [key_count] NULL: cold
    uint32_t free_count, transient_count;
    ps_expert_policy *policy;
} size_class;

typedef struct place {
    ps_expert_layer is;
    bool *is_verified; // [experts]; NULL: there are no checksums
    size_class *size;
    uint32_t first_key;                        // of expert 0, among those of its class
    uint64_t part_offset[PS_EXPERT_PARTS_MAX]; // in a slot
} place;

struct ps_expert_store {
    ps_arena arena;
    ps_reader *reader;
    place *layers;
    uint32_t layer_count;
    size_class *classes;
    uint32_t class_count;
    char *memory;
    uint64_t memory_bytes;
    // The call at hand.
    place *of;
    ps_expert_want *wants; // [experts of a layer] in the order of the call;
    bool *is_done;         //   those that have been given out
    uint32_t want_count;
    uint32_t started; //   those before have, or had, slots
    slot **wave;      // [experts of a layer]
    uint32_t *wave_experts;
    bool *wave_raw;
    uint32_t wave_count;
    // What is expected of a layer that has not been called yet.
    place *next;
    uint32_t *guesses; // [guess_count] experts of it
    bool *is_guessed;  // [experts of a layer]
    uint32_t guess_count, guess_started;
    ps_trial trial;
    uint64_t step_ns; // when the last step ended
    ps_expert_store_info info;
};

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
                             size_class *out)
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < layer_count; l++) {
        const uint64_t bytes = slot_bytes(&layers[l]);
        uint32_t c = 0;
        while (c < count && out[c].slot_bytes != bytes) {
            c++;
        }
        if (c == count) {
            out[count++] = (size_class){.slot_bytes = bytes};
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
    size_class *classes = calloc(layer_count, sizeof *classes);
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
        const size_class *size = &store->classes[c];
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
        size_class *size = &store->classes[c];
        const uint32_t rest = size->key_count - size->floor;
        size->slot_count = size->floor + (part >= 1 ? rest : (uint32_t)(part * rest));
        store->info.slots += size->slot_count;
        store->memory_bytes += size->slot_count * size->slot_bytes;
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
                place *to = &store->layers[l];
                *to = (place){.is = layers[l], .size = &store->classes[c], .first_key = keys};
                for (uint32_t p = 1; p < to->is.part_count; p++) {
                    to->part_offset[p] = to->part_offset[p - 1] + part_bytes(&to->is, p - 1);
                }
                keys += to->is.experts;
            }
        }
    }
}

static ps_status make_slots(ps_expert_store *store, size_class *size, char *memory)
{
    size->memory = memory;
    size->slots = PS_ARENA_NEW(&store->arena, slot, size->slot_count);
    size->free_slots = PS_ARENA_NEW(&store->arena, slot *, size->slot_count);
    size->slot_of = PS_ARENA_NEW(&store->arena, slot *, size->key_count);
    if (size->slots == NULL || size->free_slots == NULL || size->slot_of == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = size->slot_count; i-- > 0;) {
        size->slots[i].key = PS_NO_KEY;
        size->slots[i].memory = memory + i * size->slot_bytes;
        size->free_slots[size->free_count++] = &size->slots[i];
    }
    return PS_OK;
}

// The hot keys of a class, from those of all layers.
static ps_status make_policy(ps_expert_store *store, const ps_expert_store_options *options,
                             size_class *size)
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
    const bool is_plain = options->policy == PS_EXPERTS_HOTSET && count == 0 &&
                          options->hot_count > 0; // what is hot is of other sizes
    return ps_expert_policy_create(
        &(ps_expert_policy_options){.kind = is_plain ? PS_EXPERTS_LRU : options->policy,
                                    .keys = size->key_count,
                                    .slots = size->slot_count,
                                    .floor = size->floor,
                                    .hot = hot,
                                    .hot_count = count},
        &size->policy);
}

static ps_status open_files(ps_expert_store *store, const ps_expert_store_options *options)
{
    ps_reader_options how = options->reader;
    how.memory = store->memory;
    how.memory_bytes = store->memory_bytes;
    PS_TRY(ps_reader_create(&how, &store->reader));
    for (uint32_t i = 0; i < options->path_count; i++) {
        uint32_t file;
        PS_TRY(ps_reader_open(store->reader, options->paths[i], &file));
        ps_assert(file == i);
    }
    return PS_OK;
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
    store->guesses = PS_ARENA_NEW(&store->arena, uint32_t, experts);
    store->is_guessed = PS_ARENA_NEW(&store->arena, bool, experts);
    store->wave = PS_ARENA_NEW(&store->arena, slot *, experts);
    store->wave_experts = PS_ARENA_NEW(&store->arena, uint32_t, experts);
    store->wave_raw = PS_ARENA_NEW(&store->arena, bool, experts);
    ps_trial_init(&store->trial);
    return store->wants == NULL || store->is_done == NULL || store->guesses == NULL ||
                   store->is_guessed == NULL || store->wave == NULL ||
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
    store->layers = PS_ARENA_NEW(&store->arena, place, options->layer_count);
    store->classes = PS_ARENA_NEW(&store->arena, size_class, options->layer_count);
    if (store->layers == NULL || store->classes == NULL) {
        return PS_NO_MEMORY;
    }
    store->class_count = find_classes(options->layers, options->layer_count, options->top_k,
                                      store->classes);
    PS_TRY(share_budget(store, options->budget_bytes));
    void *memory;
    PS_TRY(ps_pages_map(store->memory_bytes, "experts", &memory));
    store->memory = memory;
    place_layers(store, options->layers);
    for (uint32_t l = 0; l < store->layer_count; l++) {
        place *of = &store->layers[l];
        if (of->is.checksums != NULL) {
            of->is_verified = PS_ARENA_NEW(&store->arena, bool, of->is.experts);
            PS_TRY(of->is_verified == NULL ? PS_NO_MEMORY : PS_OK);
        }
    }
    for (uint32_t c = 0; c < store->class_count; c++) {
        PS_TRY(make_slots(store, &store->classes[c], memory));
        PS_TRY(make_policy(store, options, &store->classes[c]));
        memory = (char *)memory + store->classes[c].slot_count * store->classes[c].slot_bytes;
    }
    PS_TRY(make_call(store));
    store->info.budget_bytes = options->budget_bytes;
    store->info.slot_bytes = store->memory_bytes;
    return open_files(store, options);
}

ps_status ps_expert_store_create(const ps_expert_store_options *options, ps_expert_store **out)
{
    ps_expert_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for an expert store");
    }
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
    ps_reader_destroy(store->reader); // nothing is written to slots any more
    for (uint32_t c = 0; c < store->class_count; c++) {
        ps_expert_policy_destroy(store->classes[c].policy);
    }
    ps_pages_unmap(store->memory, store->memory_bytes);
    ps_arena_deinit(&store->arena);
    free(store);
}

// ---- slots

static bool is_loading(const slot *s)
{
    return atomic_load_explicit(&s->reads_left, memory_order_acquire) > 0;
}

static bool is_busy(void *context, uint32_t key)
{
    const size_class *size = context;
    const slot *s = size->slot_of[key];
    return s->is_wanted || s->is_given || is_loading(s);
}

static void free_slot(size_class *size, slot *s)
{
    size->slot_of[s->key] = NULL;
    if (s->is_transient) {
        size->transient_count--;
    } else {
        ps_expert_policy_leave(size->policy, s->key);
    }
    s->key = PS_NO_KEY;
    s->is_transient = false;
    size->free_slots[size->free_count++] = s;
}

// A slot for a key that has none; NULL: none can be had now.
static slot *take_slot(size_class *size, uint32_t key, bool is_for_prompt)
{
    const bool is_transient = is_for_prompt && size->free_count <= size->floor;
    if (is_transient && size->transient_count == size->floor) {
        return NULL;
    }
    if (size->free_count == 0) {
        const uint32_t victim = ps_expert_policy_victim(size->policy, key, is_busy, size);
        if (victim == PS_NO_KEY) {
            return NULL;
        }
        free_slot(size, size->slot_of[victim]);
    }
    slot *s = size->free_slots[--size->free_count];
    s->key = key;
    s->is_transient = is_transient;
    size->slot_of[key] = s;
    if (is_transient) {
        size->transient_count++;
    } else {
        ps_expert_policy_enter(size->policy, key);
    }
    return s;
}

static void count_down(ps_read *read)
{
    slot *s = read->context;
    atomic_fetch_sub_explicit(&s->reads_left, 1, memory_order_release);
}

static void read_expert(ps_expert_store *store, const place *of, uint32_t expert, slot *s,
                        bool is_guess)
{
    s->is_guess = is_guess;
    s->is_checked = false;
    atomic_store_explicit(&s->reads_left, of->is.part_count, memory_order_relaxed);
    s->is_raw = of->is.part_count > 1;
    for (uint32_t p = 0; p < of->is.part_count; p++) {
        const ps_expert_part *part = &of->is.parts[p];
        s->reads[p] = (ps_read){.file = part->file,
                                .offset_bytes = part->offset_bytes + expert * part->stride_bytes,
                                .size_bytes = part->size_bytes,
                                .memory = s->memory + of->part_offset[p],
                                .is_speculative = is_guess,
                                .done = count_down,
                                .context = s};
        store->info.read_bytes += part->size_bytes;
        ps_reader_submit(store->reader, &s->reads[p]);
    }
    store->info.read += !is_guess;
    store->info.guessed += is_guess;
}

static bool has_failed(const place *of, const slot *s)
{
    bool failed = false;
    for (uint32_t p = 0; p < of->is.part_count; p++) {
        failed |= s->reads[p].error != 0;
    }
    return failed;
}

// Once an expert: what the disk gives may have been damaged long ago.
static ps_status verify_slot(const place *of, slot *s)
{
    const uint32_t expert = s->key - of->first_key;
    if (of->is_verified == NULL || of->is_verified[expert]) {
        return PS_OK;
    }
    if (ps_hash(s->memory, of->is.parts[0].size_bytes, 0) != of->is.checksums[expert]) {
        free_slot(of->size, s);
        return ps_fail(PS_IO,
                       "expert %u of '%s' is damaged: its checksum differs, %llu bytes at %llu",
                       expert, of->is.names[0], (unsigned long long)of->is.parts[0].size_bytes,
                       (unsigned long long)(of->is.parts[0].offset_bytes +
                                            expert * of->is.parts[0].stride_bytes));
    }
    of->is_verified[expert] = true;
    return PS_OK;
}

// What could not be read leaves its slot.
static ps_status check_slot(ps_expert_store *store, const place *of, slot *s)
{
    for (uint32_t p = 0; p < of->is.part_count && !s->is_checked; p++) {
        const ps_status status = ps_read_status(store->reader, &s->reads[p]);
        if (status != PS_OK) {
            const uint32_t expert = s->key - of->first_key;
            free_slot(of->size, s);
            return ps_fail_prefix(status, "expert %u of '%s'", expert, of->is.names[p]);
        }
    }
    s->is_checked = true;
    return verify_slot(of, s);
}

// ---- a call

static void start_reads(ps_expert_store *store)
{
    const place *of = store->of;
    for (; store->started < store->want_count; store->started++) {
        const ps_expert_want *want = &store->wants[store->started];
        const uint32_t key = of->first_key + want->expert;
        if (store->is_done[store->started] || of->size->slot_of[key] != NULL) {
            continue;
        }
        slot *s = take_slot(of->size, key, want->decode_rows == 0);
        if (s == NULL) {
            return;
        }
        s->is_wanted = true;
        read_expert(store, of, want->expert, s, false);
    }
}

// ---- guesses

void ps_expert_store_expect(ps_expert_store *store, uint32_t layer, uint32_t expert)
{
    place *next = &store->layers[layer];
    if (store->next != next) {
        store->next = next;
        store->guess_count = 0;
        store->guess_started = 0;
        memset(store->is_guessed, 0, next->is.experts * sizeof *store->is_guessed);
    }
    if (!store->is_guessed[expert]) {
        store->is_guessed[expert] = true;
        store->guesses[store->guess_count++] = expert;
    }
}

// Behind all that is wanted. Half of the floor is never more than the call at hand leaves.
static void read_guesses(ps_expert_store *store)
{
    const place *next = store->next;
    if (next == NULL || !store->trial.is_on || store->started < store->want_count) {
        return;
    }
    for (;
         store->guess_started < store->guess_count && store->guess_started < next->size->floor / 2;
         store->guess_started++) {
        const uint32_t expert = store->guesses[store->guess_started];
        const uint32_t key = next->first_key + expert;
        slot *s = next->size->slot_of[key] == NULL ? take_slot(next->size, key, false) : NULL;
        if (s != NULL) {
            read_expert(store, next, expert, s, true);
        }
    }
}

// A slot that was read for a guess is wanted: what has not been started goes before other guesses.
static void take_guess(ps_expert_store *store, slot *s, uint32_t parts)
{
    store->info.guessed_right++;
    s->is_guess = false;
    for (uint32_t p = 0; p < parts && is_loading(s); p++) {
        (void)ps_reader_promote(store->reader, &s->reads[p]);
    }
}

// The layer that something was expected of is called.
static void judge_guesses(ps_expert_store *store)
{
    if (store->next != store->of) {
        return;
    }
    store->info.expected += store->guess_count;
    store->info.expected_of += store->want_count;
    for (uint32_t i = 0; i < store->want_count; i++) {
        store->info.expected_right += store->is_guessed[store->wants[i].expert];
    }
    store->next = NULL;
}

void ps_expert_store_begin(ps_expert_store *store, uint32_t layer, const ps_expert_want *wants,
                           uint32_t count)
{
    store->of = &store->layers[layer];
    const size_class *size = store->of->size;
    store->want_count = count;
    store->started = 0;
    store->info.calls++;
    store->info.wanted += count;
    memcpy(store->wants, wants, count * sizeof *wants);
    memset(store->is_done, 0, count * sizeof *store->is_done);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t key = store->of->first_key + wants[i].expert;
        slot *s = size->slot_of[key];
        if (s != NULL && !is_loading(s) && has_failed(store->of, s)) { // a guess; tried again
            free_slot(store->of->size, s);
            s = NULL;
        }
        store->info.routed += wants[i].rows;
        if (wants[i].decode_rows > 0) {
            ps_expert_policy_use(size->policy, key, wants[i].decode_rows);
        }
        if (s != NULL) {
            s->is_wanted = true;
            if (s->is_guess) {
                take_guess(store, s, store->of->is.part_count);
            }
            uint64_t *source = is_loading(s) ? &store->info.loading
                               : ps_expert_policy_is_pinned(size->policy, key)
                                   ? &store->info.pinned
                                   : &store->info.cached;
            *source += 1;
        }
    }
    judge_guesses(store);
    start_reads(store);
}

static void end_wave(ps_expert_store *store)
{
    for (uint32_t i = 0; i < store->wave_count; i++) {
        slot *s = store->wave[i];
        s->is_given = false;
        s->is_raw = false;
        if (s->is_transient) {
            free_slot(store->of->size, s);
        }
    }
    store->wave_count = 0;
}

static slot *wanted_slot(const ps_expert_store *store, uint32_t want)
{
    return store->of->size->slot_of[store->of->first_key + store->wants[want].expert];
}

// The wanted ones that are here; *out_left: whether others are not.
static ps_status gather_wave(ps_expert_store *store, bool *out_left)
{
    *out_left = false;
    for (uint32_t i = 0; i < store->want_count; i++) {
        slot *s = store->is_done[i] ? NULL : wanted_slot(store, i);
        if (s == NULL || is_loading(s)) {
            *out_left = *out_left || !store->is_done[i];
            continue;
        }
        PS_TRY(check_slot(store, store->of, s));
        s->is_wanted = false;
        s->is_given = true;
        store->is_done[i] = true;
        store->wave_experts[store->wave_count] = store->wants[i].expert;
        store->wave_raw[store->wave_count] = s->is_raw;
        store->wave[store->wave_count++] = s;
    }
    return PS_OK;
}

// Waits until something has been read.
static void wait_for_reads(ps_expert_store *store, uint64_t done)
{
    const uint64_t start = ps_clock_ns();
    ps_reader_wait(store->reader, done);
    store->info.wait_ns += ps_clock_ns() - start;
}

static void wait_for_slot(ps_expert_store *store, const slot *s)
{
    uint64_t done = ps_reader_done_count(store->reader);
    while (is_loading(s)) {
        wait_for_reads(store, done);
        done = ps_reader_done_count(store->reader);
    }
}

// Nothing of the call is wanted any more; what has been read for decoding stays, and is packed when
// it is next given out.
static void abandon_call(ps_expert_store *store)
{
    for (uint32_t i = 0; i < store->want_count; i++) {
        slot *s = wanted_slot(store, i);
        if (s == NULL) {
            continue;
        }
        wait_for_slot(store, s);
        s->is_wanted = false;
        s->is_given = false;
        if (s->is_transient || has_failed(store->of, s)) {
            free_slot(store->of->size, s);
        }
    }
    store->wave_count = 0;
    store->want_count = 0;
}

ps_status ps_expert_store_next(ps_expert_store *store, ps_expert_wave *out)
{
    bool left;
    end_wave(store);
    start_reads(store);
    read_guesses(store);
    for (;;) {
        const uint64_t done = ps_reader_done_count(store->reader);
        const ps_status status = gather_wave(store, &left);
        if (status != PS_OK) {
            abandon_call(store);
            return status;
        }
        if (store->wave_count > 0 || !left) {
            break;
        }
        wait_for_reads(store, done);
    }
    store->info.waves += store->wave_count > 0;
    *out = (ps_expert_wave){
        .experts = store->wave_experts, .is_raw = store->wave_raw, .count = store->wave_count};
    return PS_OK;
}

static const slot *given_slot(const ps_expert_store *store, uint32_t layer, uint32_t expert)
{
    const slot *s = store->layers[layer].size->slot_of[store->layers[layer].first_key + expert];
    ps_assert(s != NULL && s->is_given);
    return s;
}

char *ps_expert_store_data(const ps_expert_store *store, uint32_t layer, uint32_t expert,
                           uint32_t part)
{
    return given_slot(store, layer, expert)->memory + store->layers[layer].part_offset[part];
}

const char *ps_expert_store_raw(const ps_expert_store *store, uint32_t layer, uint32_t expert,
                                uint32_t part)
{
    const ps_read *read = &given_slot(store, layer, expert)->reads[part];
    return read->memory + read->offset_bytes % PS_READ_ALIGN_BYTES;
}

void ps_expert_store_end_step(ps_expert_store *store, bool is_decode)
{
    const uint64_t now = ps_clock_ns();
    if (is_decode && store->step_ns > 0) {
        ps_trial_step(&store->trial, now - store->step_ns);
    }
    store->step_ns = is_decode ? now : 0;
    for (uint32_t c = 0; c < store->class_count; c++) {
        ps_expert_policy_token(store->classes[c].policy);
    }
}

static place *place_of_key(const ps_expert_store *store, const size_class *size, uint32_t key)
{
    uint32_t l = 0;
    while (store->layers[l].size != size || key < store->layers[l].first_key ||
           key >= store->layers[l].first_key + store->layers[l].is.experts) {
        l++;
    }
    return &store->layers[l];
}

static ps_status warm_class(ps_expert_store *store, size_class *size, uint32_t *keys)
{
    const uint32_t count = ps_expert_policy_pinned(size->policy, keys);
    for (uint32_t i = 0; i < count; i++) {
        slot *s = size->slot_of[keys[i]] == NULL ? take_slot(size, keys[i], false) : NULL;
        if (s != NULL) {
            const place *of = place_of_key(store, size, keys[i]);
            read_expert(store, of, keys[i] - of->first_key, s, false);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        slot *s = size->slot_of[keys[i]];
        if (s != NULL) {
            wait_for_slot(store, s);
            PS_TRY(check_slot(store, place_of_key(store, size, keys[i]), s));
        }
    }
    return PS_OK;
}

ps_status ps_expert_store_warm(ps_expert_store *store)
{
    uint32_t *keys = calloc(store->info.slots, sizeof *keys);
    ps_status status = keys == NULL ? ps_fail(PS_NO_MEMORY, "no memory to load a hot set") : PS_OK;
    for (uint32_t c = 0; status == PS_OK && c < store->class_count; c++) {
        status = warm_class(store, &store->classes[c], keys);
    }
    free(keys);
    return status;
}

void ps_expert_store_get_info(const ps_expert_store *store, ps_expert_store_info *out)
{
    ps_reader_info reader;
    ps_reader_get_info(store->reader, &reader);
    *out = store->info;
    out->read_ns = reader.busy_ns;
    out->is_direct = reader.files == reader.direct_files;
    out->way = ps_read_way_name(reader.way);
    out->is_guessing = store->trial.is_on;
}
