// experts/policy.c - see policy.h.
//
// Invariants:
// 1. A key in a slot is either in `loose` or in `ranked`, any other key is in neither.
// 2. Under lfu all keys in slots are ranked, by their uses, and the lowest leaves. Otherwise the
//    ranked keys are the protected ones, at most `target`, and the oldest loose one leaves.
#include "experts/policy.h"

#include "experts/key_heap.h"
#include "experts/key_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Scores of lfu: uses, and of equal ones the step of the last use.
#define LFU_UNIT 0x1p32
#define LFU_USES_MAX 0x1p20

typedef enum place { ABSENT, LOOSE, RANKED } place;

struct ps_expert_policy {
    ps_expert_policy_kind kind;
    uint32_t keys, slots_max, floor;
    uint32_t target;      // keys that may be protected
    uint8_t *places;      // [keys] place
    ps_key_list loose;    // in order of use
    ps_key_heap ranked;   // coldest first
    double *uses;         // [keys]
    uint32_t *hot;        // [hot_count] keys, hottest first
    uint32_t *hot_places; // [keys] their places in `hot`; PS_NO_KEY for the others
    uint32_t hot_count;
    uint32_t step;
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

static ps_status allocate(ps_expert_policy *policy, uint32_t hot_count)
{
    ps_arena *arena = &policy->arena;
    const uint32_t keys = policy->keys;
    PS_TRY(ps_key_list_init(&policy->loose, keys, arena));
    PS_TRY(ps_key_heap_init(&policy->ranked, keys, arena));
    policy->places = PS_ARENA_NEW(arena, uint8_t, keys);
    policy->uses = PS_ARENA_NEW(arena, double, keys);
    policy->hot_places = PS_ARENA_NEW(arena, uint32_t, keys);
    policy->hot = PS_ARENA_NEW(arena, uint32_t, hot_count);
    return policy->places == NULL || policy->uses == NULL || policy->hot_places == NULL ||
                   policy->hot == NULL
               ? PS_NO_MEMORY
               : PS_OK;
}

static uint32_t target_of(const ps_expert_policy *policy, uint32_t slots)
{
    switch (policy->kind) {
    case PS_EXPERTS_LFU:
        return slots;
    case PS_EXPERTS_HOTSET:
        return slots - policy->floor < policy->hot_count ? slots - policy->floor
                                                         : policy->hot_count;
    default:
        return 0;
    }
}

ps_status ps_expert_policy_create(const ps_expert_policy_options *options, ps_expert_policy **out)
{
    PS_TRY(check(options));
    if (options->kind == PS_EXPERTS_HEAT || options->kind == PS_EXPERTS_AUTO) {
        return ps_fail(PS_UNSUPPORTED, "policy %s is not there yet", NAMES[options->kind]);
    }
    ps_expert_policy *policy = calloc(1, sizeof *policy);
    if (policy == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a policy of experts");
    }
    policy->kind = options->kind;
    policy->keys = options->keys;
    policy->slots_max = options->slots;
    policy->floor = options->floor;
    ps_arena_init(&policy->arena, SIZE_MAX);
    ps_status status = allocate(policy, options->hot_count);
    status = status == PS_OK ? take_hot_set(policy, options) : status;
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

// ---- the protected set

static bool is_hot(const ps_expert_policy *policy, uint32_t key)
{
    return policy->kind == PS_EXPERTS_HOTSET && policy->hot_places[key] < policy->target;
}

uint32_t ps_expert_policy_pinned(const ps_expert_policy *policy, uint32_t *keys)
{
    const uint32_t count = policy->kind == PS_EXPERTS_HOTSET ? policy->target : 0;
    memcpy(keys, policy->hot, count * sizeof *keys);
    return count;
}

bool ps_expert_policy_is_pinned(const ps_expert_policy *policy, uint32_t key)
{
    return policy->kind != PS_EXPERTS_LFU && policy->places[key] == RANKED;
}

// Of lfu: counts live in the score, of keys that are not in slots too.
static double lfu_score(const ps_expert_policy *policy, uint32_t key)
{
    return fmin(policy->uses[key], LFU_USES_MAX) * LFU_UNIT + policy->step;
}

// ---- what happens

void ps_expert_policy_use(ps_expert_policy *policy, uint32_t key, uint32_t rows)
{
    policy->uses[key] += rows;
    if (policy->places[key] == LOOSE) {
        ps_key_list_remove(&policy->loose, key);
        ps_key_list_add_newest(&policy->loose, key);
    } else if (policy->places[key] == RANKED && policy->kind == PS_EXPERTS_LFU) {
        ps_key_heap_set(&policy->ranked, key, lfu_score(policy, key));
    }
}

void ps_expert_policy_enter(ps_expert_policy *policy, uint32_t key)
{
    ps_assert(policy->places[key] == ABSENT);
    if (policy->kind == PS_EXPERTS_LFU) {
        policy->places[key] = RANKED;
        ps_key_heap_add(&policy->ranked, key, lfu_score(policy, key));
    } else if (is_hot(policy, key)) {
        policy->places[key] = RANKED;
        ps_key_heap_add(&policy->ranked, key, -(double)policy->hot_places[key]);
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
        ps_key_heap_remove(&policy->ranked, key);
    }
    policy->places[key] = ABSENT;
}

uint32_t ps_expert_policy_victim(const ps_expert_policy *policy, uint32_t key,
                                 bool (*is_busy)(void *context, uint32_t key), void *context)
{
    if (policy->kind == PS_EXPERTS_LFU) {
        return ps_key_heap_lowest(&policy->ranked, is_busy, context);
    }
    const ps_key_list *loose = &policy->loose;
    uint32_t oldest = loose->after[loose->end];
    while (oldest != loose->end && is_busy != NULL && is_busy(context, oldest)) {
        oldest = loose->after[oldest];
    }
    return oldest == loose->end ? PS_NO_KEY : oldest;
}

void ps_expert_policy_token(ps_expert_policy *policy)
{
    policy->step++;
}

// ---- size

static void release_coldest(ps_expert_policy *policy)
{
    const uint32_t key = policy->ranked.items[0];
    ps_key_heap_remove(&policy->ranked, key);
    policy->places[key] = LOOSE;
    ps_key_list_add_oldest(&policy->loose, key);
}

static void protect(ps_expert_policy *policy, uint32_t key)
{
    ps_key_list_remove(&policy->loose, key);
    policy->places[key] = RANKED;
    ps_key_heap_add(&policy->ranked, key, -(double)policy->hot_places[key]);
}

void ps_expert_policy_resize(ps_expert_policy *policy, uint32_t slots)
{
    ps_assert(slots >= policy->floor && slots <= policy->slots_max);
    const uint32_t before = policy->target;
    policy->target = target_of(policy, slots);
    if (policy->kind != PS_EXPERTS_HOTSET) {
        return;
    }
    while (policy->ranked.count > 0 && !is_hot(policy, policy->ranked.items[0])) { // coldest first
        release_coldest(policy);
    }
    for (uint32_t i = before; i < policy->target; i++) {
        if (policy->places[policy->hot[i]] == LOOSE) {
            protect(policy, policy->hot[i]);
        }
    }
}
