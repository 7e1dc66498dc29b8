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
//      tier's from submit to done; reads_left is counted down with release.
#include "experts/store_internal.h"

#include "base/hash.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// ---- slots

static bool is_loading(const ps_expert_slot *s)
{
    return atomic_load_explicit(&s->reads_left, memory_order_acquire) > 0;
}

static bool is_busy(void *context, uint32_t key)
{
    const ps_size_class *size = context;
    const ps_expert_slot *s = size->slot_of[key];
    return s->is_wanted || s->is_given || is_loading(s);
}

static void free_slot(ps_size_class *size, ps_expert_slot *s)
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
static ps_expert_slot *take_slot(ps_size_class *size, uint32_t key, bool is_for_prompt)
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
    ps_expert_slot *s = size->free_slots[--size->free_count];
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
    ps_expert_slot *s = read->context;
    atomic_fetch_sub_explicit(&s->reads_left, 1, memory_order_release);
}

static void read_expert(ps_expert_store *store, const ps_expert_place *of, uint32_t expert,
                        ps_expert_slot *s, bool is_guess)
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
        store->tier->is->submit(store->tier, &s->reads[p]);
    }
}

static bool has_failed(const ps_expert_place *of, const ps_expert_slot *s)
{
    bool failed = false;
    for (uint32_t p = 0; p < of->is.part_count; p++) {
        failed |= s->reads[p].error != 0;
    }
    return failed;
}

// Once an expert: what the disk gives may have been damaged long ago.
static ps_status verify_slot(const ps_expert_place *of, ps_expert_slot *s)
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
static ps_status check_slot(ps_expert_store *store, const ps_expert_place *of, ps_expert_slot *s)
{
    for (uint32_t p = 0; p < of->is.part_count && !s->is_checked; p++) {
        const ps_status status = store->tier->is->read_status(store->tier, &s->reads[p]);
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
    const ps_expert_place *of = store->of;
    for (; store->started < store->want_count; store->started++) {
        const ps_expert_want *want = &store->wants[store->started];
        const uint32_t key = of->first_key + want->expert;
        if (store->is_done[store->started] || of->size->slot_of[key] != NULL) {
            continue;
        }
        ps_expert_slot *s = take_slot(of->size, key, want->decode_rows == 0);
        if (s == NULL) {
            return;
        }
        s->is_wanted = true;
        read_expert(store, of, want->expert, s, false);
        store->info.read++;
    }
}

// ---- guesses

void ps_expert_store_expect(ps_expert_store *store, uint32_t layer, uint32_t expert)
{
    ps_expert_place *next = &store->layers[layer];
    if (store->guesses[store->guessing].of != next) {
        store->guessing = 1 - store->guessing;
        ps_guess_set *set = &store->guesses[store->guessing];
        memset(set->is_guessed, 0, next->is.experts * sizeof *set->is_guessed);
        *set = (ps_guess_set){.of = next, .experts = set->experts, .is_guessed = set->is_guessed};
    }
    ps_guess_set *set = &store->guesses[store->guessing];
    if (!set->is_guessed[expert]) {
        set->is_guessed[expert] = true;
        set->experts[set->count++] = expert;
    }
}

// Behind all that is wanted. Half of the floor is never more than the call at hand leaves.
static void read_guesses(ps_expert_store *store)
{
    ps_guess_set *set = &store->guesses[store->guessing];
    const ps_expert_place *next = set->of;
    if (next == NULL || next == store->of || !store->trial.is_on ||
        store->started < store->want_count) {
        return;
    }
    for (; set->started < set->count && set->started < next->size->floor / 2; set->started++) {
        const uint32_t expert = set->experts[set->started];
        const uint32_t key = next->first_key + expert;
        ps_expert_slot *s = next->size->slot_of[key] == NULL ? take_slot(next->size, key, false)
                                                             : NULL;
        if (s != NULL) {
            read_expert(store, next, expert, s, true);
            store->info.guessed++;
        }
    }
}

// A slot that was read for a guess is wanted: what has not been started goes before other guesses.
static void take_guess(ps_expert_store *store, ps_expert_slot *s, uint32_t parts)
{
    store->info.guessed_right++;
    s->is_guess = false;
    for (uint32_t p = 0; p < parts && is_loading(s); p++) {
        store->tier->is->promote(store->tier, &s->reads[p]);
    }
}

// The layer that something was expected of is called.
static void judge_guesses(ps_expert_store *store)
{
    for (uint32_t g = 0; g < 2; g++) {
        ps_guess_set *set = &store->guesses[g];
        if (set->of != store->of) {
            continue;
        }
        store->info.expected += set->count;
        store->info.expected_of += store->want_count;
        for (uint32_t i = 0; i < store->want_count; i++) {
            store->info.expected_right += set->is_guessed[store->wants[i].expert];
        }
        for (uint32_t i = 0; i < set->count; i++) { // what comes to be of use later was no guess
            ps_expert_slot *s = store->of->size->slot_of[store->of->first_key + set->experts[i]];
            if (s != NULL && !is_loading(s)) {
                s->is_guess = false;
            }
        }
        set->of = NULL;
    }
}

void ps_expert_store_begin(ps_expert_store *store, uint32_t layer, const ps_expert_want *wants,
                           uint32_t count)
{
    store->of = &store->layers[layer];
    const ps_size_class *size = store->of->size;
    store->want_count = count;
    store->started = 0;
    store->info.calls++;
    store->info.wanted += count;
    memcpy(store->wants, wants, count * sizeof *wants);
    memset(store->is_done, 0, count * sizeof *store->is_done);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t key = store->of->first_key + wants[i].expert;
        ps_expert_slot *s = size->slot_of[key];
        if (s != NULL && !is_loading(s) && has_failed(store->of, s)) { // a guess; tried again
            free_slot(store->of->size, s);
            s = NULL;
        }
        store->info.routed += wants[i].rows;
        store->info.hot += size->is_hot[key];
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
        ps_expert_slot *s = store->wave[i];
        s->is_given = false;
        s->is_raw = false;
        if (s->is_transient) {
            free_slot(store->of->size, s);
        }
    }
    store->wave_count = 0;
}

static ps_expert_slot *wanted_slot(const ps_expert_store *store, uint32_t want)
{
    return store->of->size->slot_of[store->of->first_key + store->wants[want].expert];
}

// The wanted ones that are here; *out_left: whether others are not.
static ps_status gather_wave(ps_expert_store *store, bool *out_left)
{
    *out_left = false;
    for (uint32_t i = 0; i < store->want_count; i++) {
        ps_expert_slot *s = store->is_done[i] ? NULL : wanted_slot(store, i);
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

static void wait_for_slot(ps_expert_store *store, const ps_expert_slot *s)
{
    uint64_t done = store->tier->is->done_count(store->tier);
    while (is_loading(s)) {
        store->tier->is->wait(store->tier, done);
        done = store->tier->is->done_count(store->tier);
    }
}

// Nothing of the call is wanted any more; what has been read for decoding stays, and is packed when
// it is next given out.
static void abandon_call(ps_expert_store *store)
{
    for (uint32_t i = 0; i < store->want_count; i++) {
        ps_expert_slot *s = wanted_slot(store, i);
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
    for (;;) { // what has been read frees its slot for others, guesses among it
        const uint64_t done = store->tier->is->done_count(store->tier);
        start_reads(store);
        read_guesses(store);
        const ps_status status = gather_wave(store, &left);
        if (status != PS_OK) {
            abandon_call(store);
            return status;
        }
        if (store->wave_count > 0 || !left) {
            break;
        }
        store->tier->is->wait(store->tier, done);
    }
    store->info.waves += store->wave_count > 0;
    *out = (ps_expert_wave){
        .experts = store->wave_experts, .is_raw = store->wave_raw, .count = store->wave_count};
    return PS_OK;
}

static const ps_expert_slot *given_slot(const ps_expert_store *store, uint32_t layer,
                                        uint32_t expert)
{
    const ps_expert_slot *s =
        store->layers[layer].size->slot_of[store->layers[layer].first_key + expert];
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

void ps_expert_store_end_step(ps_expert_store *store, uint64_t decode_ns)
{
    if (decode_ns > 0) {
        ps_trial_step(&store->trial, decode_ns);
    }
    for (uint32_t c = 0; c < store->class_count; c++) {
        ps_expert_policy_token(store->classes[c].policy);
    }
}

static ps_expert_place *place_of_key(const ps_expert_store *store, const ps_size_class *size,
                                     uint32_t key)
{
    uint32_t l = 0;
    while (store->layers[l].size != size || key < store->layers[l].first_key ||
           key >= store->layers[l].first_key + store->layers[l].is.experts) {
        l++;
    }
    return &store->layers[l];
}

static ps_status warm_class(ps_expert_store *store, ps_size_class *size, uint32_t *keys)
{
    const uint32_t count = ps_expert_policy_pinned(size->policy, keys);
    for (uint32_t i = 0; i < count; i++) {
        ps_expert_slot *s = size->slot_of[keys[i]] == NULL ? take_slot(size, keys[i], false) : NULL;
        if (s != NULL) {
            const ps_expert_place *of = place_of_key(store, size, keys[i]);
            read_expert(store, of, keys[i] - of->first_key, s, false);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        ps_expert_slot *s = size->slot_of[keys[i]];
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
    ps_tier_info tier;
    store->tier->is->get_info(store->tier, &tier);
    *out = store->info;
    out->tier = tier.name;
    out->way = tier.way;
    out->read_bytes = tier.bytes;
    out->read_ns = tier.busy_ns;
    out->is_guessing = store->trial.is_on;
    out->guess_saved_ns = store->trial.saved_ns;
}
