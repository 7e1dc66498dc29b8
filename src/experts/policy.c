// experts/policy.c - see policy.h.
//
// Invariants:
// 1. A key in a slot is either in `loose`, in order of use, or ranked, in the heap of its group;
//    any other key is in neither.
// 2. lfu and auto rank all keys in slots, and the lowest of all heaps leaves. The others have one
//    heap, of the protected keys, at most `target`, and the oldest loose key leaves.
#include "experts/policy.h"

#include "experts/forecast.h"
#include "experts/key_heap.h"
#include "experts/key_list.h"

#include <math.h>
#include <prestage/prestage.h>
#include <stdlib.h>
#include <string.h>

// Scores of lfu: uses, and of equal ones the step of the last use.
#define LFU_UNIT 0x1p32
#define LFU_USES_MAX 0x1p20

// heat: uses of later steps weigh more, which is as if those of earlier ones decayed.
#define HEAT_STEPS 64.0  // half-life
#define HEAT_MARGIN 1.25 // by which a key has to be hotter than the one whose place it takes
#define HEAT_START 16.0  // uses that the hottest key of a hot set begins with
#define HEAT_WEIGHT_MAX 0x1p500

// auto: groups of layers, so that one victim costs no more in a model of many.
#define GROUPS_MAX 64u

typedef enum place { ABSENT, LOOSE, RANKED } place;

struct ps_expert_policy {
    ps_expert_policy_kind kind;
    uint32_t keys, slots, slots_max, floor;
    uint32_t target;    // keys that may be protected
    uint8_t *places;    // [keys] place
    ps_key_list loose;  // in order of use
    ps_key_heap scores; // whose memory the heaps share
    ps_key_heap *heaps; // [groups]
    double *lowest;     // [groups] scores of their lowest keys, to be looked through
    uint32_t groups, group_keys;
    uint32_t *hot;        // [hot_count] keys, hottest first
    uint32_t *hot_places; // [keys] their places in `hot`; PS_NO_KEY for the others
    uint32_t hot_count;
    uint32_t step;
    double *uses;  // [keys] of lfu and heat
    double weight; // of a use in this step
    // Of heat: the keys that this step has wanted.
    uint32_t *touched; // [touched_count]
    uint32_t touched_count;
    bool *is_touched; // [keys]
    // Of auto.
    ps_forecast forecast;
    uint32_t group_now; // of the last use
    double group_part;  // 1 / groups
    ps_arena arena;
};

static const char *const NAMES[] = {"auto", "lru", "lfu", "hotset", "heat"};

const char *ps_expert_policy_name(ps_expert_policy_kind kind)
{
    return (uint32_t)kind < PS_EXPERTS_POLICY_COUNT ? NAMES[kind] : NULL;
}

// ---- creation

static ps_status check(const ps_expert_policy_options *o)
{
    if (o->keys == 0 || o->keys > PS_EXPERT_KEYS_MAX) {
        return ps_fail(PS_INVALID, "%u experts in all: 1 to %u would be right", o->keys,
                       PS_EXPERT_KEYS_MAX);
    }
    if (o->experts > 0 && o->keys % o->experts != 0) {
        return ps_fail(PS_INVALID, "%u experts in layers of %u: whole layers would be right",
                       o->keys, o->experts);
    }
    if (o->floor == 0 || o->slots < o->floor) {
        return ps_fail(PS_INVALID, "%u slots for experts: at least %u would be right", o->slots,
                       o->floor > 0 ? o->floor : 1);
    }
    if (o->kind == PS_EXPERTS_HOTSET && o->hot_count == 0) {
        return ps_fail(PS_INVALID, "policy hotset needs a hot set");
    }
    return PS_OK;
}

static ps_status take_hot_set(ps_expert_policy *policy, const ps_expert_policy_options *o)
{
    memset(policy->hot_places, 0xff, policy->keys * sizeof *policy->hot_places);
    for (uint32_t i = 0; i < o->hot_count; i++) {
        const uint32_t key = o->hot[i];
        if (key >= o->keys || policy->hot_places[key] != PS_NO_KEY) {
            return ps_fail(PS_INVALID, "hot set: key %u, at place %u, %s", key, i,
                           key >= o->keys ? "is too large" : "stands twice");
        }
        policy->hot[i] = key;
        policy->hot_places[key] = i;
    }
    policy->hot_count = o->hot_count;
    return PS_OK;
}

static ps_status make_heaps(ps_expert_policy *policy, uint32_t experts)
{
    policy->group_keys = policy->keys;
    if (policy->kind == PS_EXPERTS_AUTO && experts > 0) {
        const uint32_t layers = policy->keys / experts;
        policy->group_keys = experts * (uint32_t)ps_divide_up(layers, GROUPS_MAX);
    }
    policy->groups = (uint32_t)ps_divide_up(policy->keys, policy->group_keys);
    policy->heaps = PS_ARENA_NEW(&policy->arena, ps_key_heap, policy->groups);
    policy->lowest = PS_ARENA_NEW(&policy->arena, double, policy->groups);
    if (policy->heaps == NULL || policy->lowest == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(ps_key_heap_init(&policy->scores, policy->keys, &policy->arena));
    policy->group_part = 1.0 / policy->groups;
    for (uint32_t i = 0; i < policy->groups; i++) {
        policy->lowest[i] = INFINITY;
        policy->heaps[i] = ps_key_heap_part(&policy->scores, i * policy->group_keys);
    }
    return PS_OK;
}

static ps_status allocate(ps_expert_policy *policy, uint32_t hot_count)
{
    ps_arena *arena = &policy->arena;
    const uint32_t keys = policy->keys;
    PS_TRY(ps_key_list_init(&policy->loose, keys, arena));
    policy->places = PS_ARENA_NEW(arena, uint8_t, keys);
    policy->uses = PS_ARENA_NEW(arena, double, keys);
    policy->touched = PS_ARENA_NEW(arena, uint32_t, keys);
    policy->is_touched = PS_ARENA_NEW(arena, bool, keys);
    policy->hot_places = PS_ARENA_NEW(arena, uint32_t, keys);
    policy->hot = PS_ARENA_NEW(arena, uint32_t, hot_count);
    return policy->places == NULL || policy->uses == NULL || policy->touched == NULL ||
                   policy->is_touched == NULL || policy->hot_places == NULL || policy->hot == NULL
               ? PS_NO_MEMORY
               : PS_OK;
}

static ps_status fill(ps_expert_policy *policy, const ps_expert_policy_options *o)
{
    PS_TRY(allocate(policy, o->hot_count));
    PS_TRY(make_heaps(policy, o->experts));
    PS_TRY(take_hot_set(policy, o));
    if (policy->kind == PS_EXPERTS_HEAT) {
        for (uint32_t i = 0; i < o->hot_count; i++) {
            policy->uses[o->hot[i]] = HEAT_START * (o->hot_count - i) / o->hot_count;
        }
    }
    return policy->kind != PS_EXPERTS_AUTO
               ? PS_OK
               : ps_forecast_init(&policy->forecast, o->keys, o->hot, o->hot_count, &policy->arena);
}

static uint32_t target_of(const ps_expert_policy *policy, uint32_t slots)
{
    switch (policy->kind) {
    case PS_EXPERTS_HOTSET:
        return slots - policy->floor < policy->hot_count ? slots - policy->floor
                                                         : policy->hot_count;
    case PS_EXPERTS_HEAT:
        return (slots - policy->floor) / 2; // the others stay long enough to show what they are
    default:
        return 0;
    }
}

ps_status ps_expert_policy_create(const ps_expert_policy_options *options, ps_expert_policy **out)
{
    PS_TRY(check(options));
    ps_expert_policy *policy = calloc(1, sizeof *policy);
    if (policy == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a policy of experts");
    }
    policy->kind = options->kind;
    policy->keys = options->keys;
    policy->slots = options->slots;
    policy->slots_max = options->slots;
    policy->floor = options->floor;
    policy->weight = 1;
    ps_arena_init(&policy->arena, SIZE_MAX);
    const ps_status status = fill(policy, options);
    if (status != PS_OK) {
        ps_expert_policy_destroy(policy);
        return status;
    }
    policy->target = target_of(policy, options->slots);
    *out = policy;
    return PS_OK;
}

void ps_expert_policy_destroy(ps_expert_policy *policy)
{
    if (policy != NULL) {
        ps_arena_deinit(&policy->arena);
        free(policy);
    }
}

// ---- scores

static ps_key_heap *heap_of(const ps_expert_policy *policy, uint32_t key)
{
    return &policy->heaps[key / policy->group_keys];
}

// After any change of the key's heap.
static void note_lowest(ps_expert_policy *policy, uint32_t key)
{
    const ps_key_heap *heap = heap_of(policy, key);
    policy->lowest[key / policy->group_keys] = heap->count > 0 ? heap->scores[heap->items[0]]
                                                               : INFINITY;
}

static bool ranks_all(const ps_expert_policy *policy)
{
    return policy->kind == PS_EXPERTS_LFU || policy->kind == PS_EXPERTS_AUTO;
}

static double score_of(const ps_expert_policy *policy, uint32_t key)
{
    switch (policy->kind) {
    case PS_EXPERTS_AUTO:
        return -1 / ps_forecast_of(&policy->forecast, key); // steps to wait
    case PS_EXPERTS_LFU:
        return fmin(policy->uses[key], LFU_USES_MAX) * LFU_UNIT + policy->step;
    case PS_EXPERTS_HOTSET:
        return -(double)policy->hot_places[key];
    default:
        return policy->uses[key];
    }
}

static void rank(ps_expert_policy *policy, uint32_t key)
{
    policy->places[key] = RANKED;
    ps_key_heap_add(heap_of(policy, key), key, score_of(policy, key));
    note_lowest(policy, key);
}

static void protect(ps_expert_policy *policy, uint32_t key)
{
    ps_key_list_remove(&policy->loose, key);
    rank(policy, key);
}

static uint32_t release_coldest(ps_expert_policy *policy)
{
    const uint32_t key = policy->heaps->items[0];
    ps_key_heap_remove(policy->heaps, key);
    policy->places[key] = LOOSE;
    return key;
}

// ---- the hot set

// Protected as soon as it is there.
static bool is_hot(const ps_expert_policy *policy, uint32_t key)
{
    return policy->hot_places[key] < policy->target &&
           (policy->kind == PS_EXPERTS_HOTSET ||
            (policy->kind == PS_EXPERTS_HEAT && policy->step == 0));
}

uint32_t ps_expert_policy_pinned(const ps_expert_policy *policy, uint32_t *keys)
{
    if (policy->kind == PS_EXPERTS_LRU || policy->kind == PS_EXPERTS_LFU) {
        return 0;
    }
    const uint32_t most = policy->slots - policy->floor;
    const uint32_t count = policy->hot_count < most ? policy->hot_count : most;
    memcpy(keys, policy->hot, count * sizeof *keys);
    return count;
}

bool ps_expert_policy_is_pinned(const ps_expert_policy *policy, uint32_t key)
{
    return policy->places[key] == RANKED && !ranks_all(policy);
}

// ---- what happens

static void touch(ps_expert_policy *policy, uint32_t key)
{
    if (!policy->is_touched[key]) {
        policy->is_touched[key] = true;
        policy->touched[policy->touched_count++] = key;
    }
}

void ps_expert_policy_use(ps_expert_policy *policy, uint32_t key, uint32_t rows)
{
    policy->uses[key] += rows * policy->weight;
    if (policy->kind == PS_EXPERTS_AUTO) {
        ps_forecast_use(&policy->forecast, key, rows);
        policy->group_now = key / policy->group_keys;
    } else if (policy->kind == PS_EXPERTS_HEAT) {
        touch(policy, key);
    }
    if (policy->places[key] == LOOSE) {
        ps_key_list_remove(&policy->loose, key);
        ps_key_list_add_newest(&policy->loose, key);
    } else if (policy->places[key] == RANKED && policy->kind != PS_EXPERTS_HOTSET) {
        ps_key_heap_set(heap_of(policy, key), key, score_of(policy, key));
        note_lowest(policy, key);
    }
}

void ps_expert_policy_enter(ps_expert_policy *policy, uint32_t key)
{
    ps_assert(policy->places[key] == ABSENT);
    if (ranks_all(policy) || is_hot(policy, key)) {
        rank(policy, key);
    } else {
        policy->places[key] = LOOSE;
        ps_key_list_add_newest(&policy->loose, key);
    }
}

void ps_expert_policy_leave(ps_expert_policy *policy, uint32_t key)
{
    ps_assert(policy->places[key] != ABSENT);
    if (policy->places[key] == LOOSE) {
        ps_key_list_remove(&policy->loose, key);
    } else {
        ps_key_heap_remove(heap_of(policy, key), key);
        note_lowest(policy, key);
    }
    policy->places[key] = ABSENT;
}

// ---- victims

// Steps until a key of the group, of this score, is expected to be wanted: 1 / its chance in each,
// and of the last one the part until its layer comes.
static double wait_of(const ps_expert_policy *policy, uint32_t group, double score)
{
    const uint32_t behind = policy->group_now >= group ? policy->group_now - group
                                                       : policy->group_now + policy->groups - group;
    return 1 - score - behind * policy->group_part;
}

static uint32_t longest_group(const ps_expert_policy *policy)
{
    uint32_t longest = 0;
    double longest_wait = -1;
    for (uint32_t group = 0; group < policy->groups; group++) {
        const double wait = wait_of(policy, group, policy->lowest[group]);
        if (wait > longest_wait) {
            longest = group;
            longest_wait = wait;
        }
    }
    return longest;
}

// Looks into the group that promises most first: unless its lowest keys are busy, no other is
// searched.
static uint32_t longest_wait(const ps_expert_policy *policy,
                             bool (*is_busy)(void *context, uint32_t key), void *context)
{
    const uint32_t first = longest_group(policy);
    uint32_t victim = ps_key_heap_lowest(&policy->heaps[first], is_busy, context);
    if (victim != PS_NO_KEY && policy->scores.scores[victim] == policy->lowest[first]) {
        return victim;
    }
    double longest = victim == PS_NO_KEY ? -1
                                         : wait_of(policy, first, policy->scores.scores[victim]);
    for (uint32_t group = 0; group < policy->groups; group++) {
        if (wait_of(policy, group, policy->lowest[group]) <= longest) {
            continue;
        }
        const ps_key_heap *heap = &policy->heaps[group];
        const uint32_t key = ps_key_heap_lowest(heap, is_busy, context);
        const double wait = key == PS_NO_KEY ? -1 : wait_of(policy, group, heap->scores[key]);
        if (wait > longest) {
            longest = wait;
            victim = key;
        }
    }
    return victim;
}

uint32_t ps_expert_policy_victim(const ps_expert_policy *policy, uint32_t key,
                                 bool (*is_busy)(void *context, uint32_t key), void *context)
{
    if (policy->kind == PS_EXPERTS_LFU) {
        return ps_key_heap_lowest(policy->heaps, is_busy, context);
    }
    if (policy->kind == PS_EXPERTS_AUTO) {
        return longest_wait(policy, is_busy, context);
    }
    const ps_key_list *loose = &policy->loose;
    uint32_t oldest = loose->after[loose->end];
    while (oldest != loose->end && is_busy != NULL && is_busy(context, oldest)) {
        oldest = loose->after[oldest];
    }
    return oldest == loose->end ? PS_NO_KEY : oldest;
}

// ---- steps

// Before numbers become too large. Order stays.
static void scale_heat(ps_expert_policy *policy)
{
    for (uint32_t key = 0; key < policy->keys; key++) {
        policy->uses[key] /= HEAT_WEIGHT_MAX;
        policy->scores.scores[key] /= HEAT_WEIGHT_MAX;
    }
    policy->weight /= HEAT_WEIGHT_MAX;
}

static void exchange_heat(ps_expert_policy *policy)
{
    const ps_key_heap *protected = policy->heaps;
    for (uint32_t i = 0; i < policy->touched_count; i++) {
        const uint32_t key = policy->touched[i];
        policy->is_touched[key] = false;
        if (policy->places[key] != LOOSE || policy->target == 0) {
            continue;
        }
        if (protected->count == policy->target) {
            if (policy->uses[key] <= HEAT_MARGIN * policy->uses[protected->items[0]]) {
                continue;
            }
            ps_key_list_add_newest(&policy->loose, release_coldest(policy));
        }
        protect(policy, key);
    }
    policy->touched_count = 0;
    policy->weight *= exp2(1 / HEAT_STEPS);
    if (policy->weight > HEAT_WEIGHT_MAX) {
        scale_heat(policy);
    }
}

static void renew_forecast(ps_expert_policy *policy)
{
    ps_forecast_step(&policy->forecast);
    for (uint32_t group = 0; group < policy->groups; group++) {
        ps_key_heap *heap = &policy->heaps[group];
        for (uint32_t i = 0; i < heap->count; i++) {
            heap->scores[heap->items[i]] = score_of(policy, heap->items[i]);
        }
        ps_key_heap_renew(heap);
        note_lowest(policy, group * policy->group_keys);
    }
}

void ps_expert_policy_token(ps_expert_policy *policy)
{
    if (policy->kind == PS_EXPERTS_HEAT) {
        exchange_heat(policy);
    } else if (policy->kind == PS_EXPERTS_AUTO) {
        renew_forecast(policy);
    }
    policy->step++;
}

// ---- size

void ps_expert_policy_resize(ps_expert_policy *policy, uint32_t slots)
{
    ps_assert(slots >= policy->floor && slots <= policy->slots_max);
    const uint32_t before = policy->target;
    policy->slots = slots;
    policy->target = target_of(policy, slots);
    while (!ranks_all(policy) && policy->heaps->count > policy->target) {
        ps_key_list_add_oldest(&policy->loose, release_coldest(policy));
    }
    if (policy->kind != PS_EXPERTS_HOTSET) {
        return; // what heat may protect more, it does as it is used
    }
    while (policy->heaps->count > 0 && !is_hot(policy, policy->heaps->items[0])) { // coldest first
        ps_key_list_add_oldest(&policy->loose, release_coldest(policy));
    }
    for (uint32_t i = before; i < policy->target; i++) {
        if (policy->places[policy->hot[i]] == LOOSE) {
            protect(policy, policy->hot[i]);
        }
    }
}
