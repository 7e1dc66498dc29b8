// experts/replay.c - see replay.h.
#include "experts/replay.h"

#include "experts/belady.h"

#include <stdlib.h>

// A cache that is played.
typedef struct cache {
    ps_expert_policy *policy; // NULL: Belady's
    ps_belady *belady;
    uint32_t slots, used;
    bool *is_in; // [keys]
} cache;

// A distinct key of the current call.
typedef struct wish {
    uint32_t key;
    uint32_t rows;
    bool is_decode; // a row of phase decode wants it
} wish;

typedef struct player {
    const ps_expert_calls *calls;
    const ps_replay_options *options;
    uint32_t keys, floor;
    cache *caches; // [policies][sizes]
    uint32_t cache_count;
    // Of the current call.
    wish *wishes; // [wish_count]
    uint32_t wish_count;
    uint32_t *decode; // [decode_count] keys of those that are
    uint32_t decode_count;
    uint64_t call_number;
    uint64_t *seen;  // [keys] the number of the last call that wanted it
    uint32_t *place; // [keys] its wish, if that is the current one
    uint64_t *uses;  // [keys] while learning
    ps_replay_result result;
} player;

double ps_replay_hit_share(const ps_replay_hits *hits)
{
    const uint64_t found = hits->pinned + hits->cached;
    return found == 0 ? 0 : (double)found / (double)(found + hits->missed);
}

// ---- calls

static void gather(player *p, const ps_routes_call *call)
{
    const ps_routes_shape *shape = &p->calls->shape;
    p->call_number++;
    p->wish_count = 0;
    p->decode_count = 0;
    for (uint32_t i = 0; i < call->rows; i++) {
        const bool is_decode = call->row[i].phase == PS_ROUTES_DECODE;
        for (uint32_t j = 0; j < shape->top_k; j++) {
            const uint32_t key = call->layer * shape->experts +
                                 call->ids[(size_t)i * shape->top_k + j];
            if (p->seen[key] != p->call_number) {
                p->seen[key] = p->call_number;
                p->place[key] = p->wish_count;
                p->wishes[p->wish_count++] = (wish){.key = key};
            }
            wish *w = &p->wishes[p->place[key]];
            w->rows++;
            if (is_decode && !w->is_decode) {
                w->is_decode = true;
                p->decode[p->decode_count++] = key;
            }
        }
    }
}

// Calls in order, and where steps begin: at a layer that does not rise.
typedef struct walk {
    const ps_expert_calls *calls;
    uint64_t steps; // begun so far
    uint32_t layer;
    bool is_end, is_new_step;
} walk;

static ps_status begin_walk(walk *w, const ps_expert_calls *calls)
{
    *w = (walk){.calls = calls};
    return calls->rewind(calls->context);
}

static ps_status next_call(walk *w, ps_routes_call *out)
{
    PS_TRY(w->calls->next(w->calls->context, out, &w->is_end));
    if (!w->is_end) {
        w->is_new_step = w->steps == 0 || out->layer <= w->layer;
        w->steps += w->is_new_step;
        w->layer = out->layer;
    }
    return PS_OK;
}

ps_status ps_replay_count_steps(const ps_expert_calls *calls, uint64_t *out)
{
    walk w;
    PS_TRY(begin_walk(&w, calls));
    while (!w.is_end) {
        ps_routes_call call = {0};
        PS_TRY(next_call(&w, &call));
    }
    *out = w.steps;
    return PS_OK;
}

// ---- learning

// The keys that the first steps wanted, hottest first, equal ones by number.
typedef struct hot_set {
    uint32_t *keys; // [count]
    uint32_t count;
} hot_set;

static int by_falling_uses(const void *a, const void *b, void *context)
{
    const uint64_t *uses = context;
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return uses[x] != uses[y] ? (uses[x] < uses[y] ? 1 : -1) : (x > y) - (x < y);
}

static ps_status learn(player *p, hot_set *out)
{
    walk w;
    PS_TRY(begin_walk(&w, p->calls));
    for (;;) {
        ps_routes_call call = {0};
        PS_TRY(next_call(&w, &call));
        if (w.is_end || w.steps > p->options->learn_steps) {
            break;
        }
        gather(p, &call);
        for (uint32_t i = 0; i < p->wish_count; i++) {
            p->uses[p->wishes[i].key] += p->wishes[i].rows;
        }
    }
    for (uint32_t key = 0; key < p->keys; key++) {
        if (p->uses[key] > 0) {
            out->keys[out->count++] = key;
        }
    }
    qsort_r(out->keys, out->count, sizeof *out->keys, by_falling_uses, p->uses);
    return PS_OK;
}

// ---- one cache

static bool is_wanted(void *context, uint32_t key)
{
    const player *p = context;
    return p->seen[key] == p->call_number && p->wishes[p->place[key]].is_decode;
}

static void enter(cache *c, uint32_t key)
{
    ps_expert_policy_enter(c->policy, key);
    c->is_in[key] = true;
    c->used++;
}

// A key for which there is no slot, because this call has all of them, is read and forgotten.
static void bring(player *p, cache *c, uint32_t key)
{
    if (c->used == c->slots) {
        const uint32_t victim = ps_expert_policy_victim(c->policy, key, is_wanted, p);
        if (victim == PS_NO_KEY) {
            return;
        }
        ps_expert_policy_leave(c->policy, victim);
        c->is_in[victim] = false;
        c->used--;
    }
    enter(c, key);
}

static void play_policy(player *p, cache *c, ps_replay_hits *hits)
{
    for (uint32_t i = 0; i < p->wish_count; i++) {
        const wish *w = &p->wishes[i];
        ps_replay_hits *of_phase = &hits[w->is_decode ? PS_ROUTES_DECODE : PS_ROUTES_PROMPT];
        if (!c->is_in[w->key]) {
            of_phase->missed++;
        } else if (ps_expert_policy_is_pinned(c->policy, w->key)) {
            of_phase->pinned++;
        } else {
            of_phase->cached++;
        }
        ps_expert_policy_use(c->policy, w->key, w->rows);
    }
    for (uint32_t i = 0; i < p->decode_count; i++) {
        if (!c->is_in[p->decode[i]]) {
            bring(p, c, p->decode[i]);
        }
    }
}

static void play_belady(player *p, cache *c, ps_replay_hits *hits)
{
    uint64_t found = 0;
    uint64_t read = 0;
    for (uint32_t i = 0; i < p->wish_count; i++) {
        if (!p->wishes[i].is_decode) {
            ps_belady_read(c->belady, p->wishes[i].key);
        }
    }
    ps_belady_call(c->belady, p->decode, p->decode_count, &found, &read);
    hits[PS_ROUTES_DECODE].cached += found;
    hits[PS_ROUTES_DECODE].missed += p->decode_count - found;
    hits[PS_ROUTES_PROMPT].cached += read;
    hits[PS_ROUTES_PROMPT].missed += p->wish_count - p->decode_count - read;
}

static ps_status open_cache(player *p, uint32_t index, const hot_set *hot, ps_arena *arena)
{
    const ps_replay_options *o = p->options;
    cache *c = &p->caches[index];
    const ps_expert_policy_kind kind = o->policies[index / o->size_count];
    c->slots = o->slots[index % o->size_count];
    if (kind == PS_REPLAY_BELADY) {
        return ps_belady_init(p->keys, c->slots, p->floor, arena, &c->belady);
    }
    c->is_in = PS_ARENA_NEW(arena, bool, p->keys);
    uint32_t *pinned = PS_ARENA_NEW(arena, uint32_t, c->slots);
    if (c->is_in == NULL || pinned == NULL) {
        return PS_NO_MEMORY;
    }
    PS_TRY(ps_expert_policy_create(&(ps_expert_policy_options){.kind = kind,
                                                               .keys = p->keys,
                                                               .slots = c->slots,
                                                               .floor = p->floor,
                                                               .experts = p->calls->shape.experts,
                                                               .hot = hot->keys,
                                                               .hot_count = hot->count},
                                   &c->policy));
    const uint32_t count = ps_expert_policy_pinned(c->policy, pinned);
    for (uint32_t i = 0; i < count; i++) {
        enter(c, pinned[i]);
    }
    return PS_OK;
}

// ---- all caches

static void count_call(player *p, const ps_routes_call *call)
{
    ps_replay_phase *phases = p->result.phases;
    for (uint32_t i = 0; i < call->rows; i++) {
        ps_replay_phase *phase = &phases[call->row[i].phase];
        phase->tokens += call->layer == 0;
        phase->pairs += p->calls->shape.top_k;
    }
    phases[PS_ROUTES_DECODE].wishes += p->decode_count;
    phases[PS_ROUTES_PROMPT].wishes += p->wish_count - p->decode_count;
}

static void play_call(player *p, bool is_counted)
{
    for (uint32_t i = 0; i < p->cache_count; i++) {
        ps_replay_hits uncounted[PS_ROUTES_PHASES] = {0};
        ps_replay_hits *hits = is_counted ? p->result.cells[i].phases : uncounted;
        if (p->caches[i].policy != NULL) {
            play_policy(p, &p->caches[i], hits);
        } else if (is_counted) { // any policy may begin with what it likes
            play_belady(p, &p->caches[i], hits);
        }
    }
}

static ps_status play(player *p)
{
    walk w;
    PS_TRY(begin_walk(&w, p->calls));
    for (;;) {
        ps_routes_call call = {0};
        PS_TRY(next_call(&w, &call));
        if (w.is_end) {
            break;
        }
        for (uint32_t i = 0; i < p->cache_count && w.is_new_step && w.steps > 1; i++) {
            if (p->caches[i].policy != NULL) {
                ps_expert_policy_token(p->caches[i].policy);
            }
        }
        const bool is_counted = w.steps > p->options->learn_steps;
        gather(p, &call);
        if (is_counted) {
            count_call(p, &call);
        }
        play_call(p, is_counted);
    }
    if (w.steps <= p->options->learn_steps) {
        return ps_fail(PS_INVALID,
                       "%llu steps, of which the first %llu teach: none is left to play",
                       (unsigned long long)w.steps, (unsigned long long)p->options->learn_steps);
    }
    p->result.steps = w.steps - p->options->learn_steps;
    return PS_OK;
}

static ps_status check(const player *p)
{
    const ps_replay_options *o = p->options;
    ps_assert(o->policy_count > 0 && o->policy_count <= PS_REPLAY_COLUMNS_MAX);
    ps_assert(o->size_count > 0 && o->size_count <= PS_REPLAY_SIZES_MAX);
    if (p->keys > PS_EXPERT_KEYS_MAX) {
        return ps_fail(PS_INVALID, "%u experts in all: at most %u would be right", p->keys,
                       PS_EXPERT_KEYS_MAX);
    }
    for (uint32_t i = 0; i < o->size_count; i++) {
        if (o->slots[i] < p->floor || o->slots[i] > p->keys) {
            return ps_fail(PS_INVALID,
                           "a size of %u experts: %u, twice what a token takes of a "
                           "layer, to %u, all there are, would be right",
                           o->slots[i], p->floor, p->keys);
        }
    }
    return PS_OK;
}

static ps_status allocate(player *p, ps_arena *scratch, ps_arena *arena)
{
    const uint32_t experts = p->calls->shape.experts;
    p->cache_count = p->options->policy_count * p->options->size_count;
    p->caches = PS_ARENA_NEW(scratch, cache, p->cache_count);
    p->wishes = PS_ARENA_NEW(scratch, wish, experts);
    p->decode = PS_ARENA_NEW(scratch, uint32_t, experts);
    p->seen = PS_ARENA_NEW(scratch, uint64_t, p->keys);
    p->place = PS_ARENA_NEW(scratch, uint32_t, p->keys);
    p->uses = PS_ARENA_NEW(scratch, uint64_t, p->keys);
    p->result.cells = PS_ARENA_NEW(arena, ps_replay_cell, p->cache_count);
    return p->caches == NULL || p->wishes == NULL || p->decode == NULL || p->seen == NULL ||
                   p->place == NULL || p->uses == NULL || p->result.cells == NULL
               ? PS_NO_MEMORY
               : PS_OK;
}

static ps_status replay(player *p, ps_arena *scratch, ps_arena *arena)
{
    PS_TRY(check(p));
    PS_TRY(allocate(p, scratch, arena));
    hot_set hot = {.keys = PS_ARENA_NEW(scratch, uint32_t, p->keys)};
    if (hot.keys == NULL) {
        return PS_NO_MEMORY;
    }
    if (p->options->learn_steps > 0) {
        PS_TRY(learn(p, &hot));
    }
    for (uint32_t i = 0; i < p->cache_count; i++) {
        PS_TRY(open_cache(p, i, &hot, scratch));
    }
    return play(p);
}

ps_status ps_replay(const ps_expert_calls *calls, const ps_replay_options *options, ps_arena *arena,
                    ps_replay_result *out)
{
    player p = {.calls = calls,
                .options = options,
                .keys = calls->shape.layers * calls->shape.experts,
                .floor = 2 * calls->shape.top_k};
    p.floor = p.floor < p.keys ? p.floor : p.keys;
    ps_arena scratch;
    ps_arena_init(&scratch, SIZE_MAX);
    const ps_status status = replay(&p, &scratch, arena);
    for (uint32_t i = 0; p.caches != NULL && i < p.cache_count; i++) {
        ps_expert_policy_destroy(p.caches[i].policy);
    }
    ps_arena_deinit(&scratch);
    if (status == PS_OK) {
        *out = p.result;
    }
    return status;
}
