// experts/belady.c - see belady.h.
//
// The timeline is a row of places, one for a call or for several merged ones, each with the most
// slots that are taken at any of its calls. A key waits from the place behind its last call on, so
// all that is added or asked for reaches from such a place to the end: a tree of sums with the
// highest suffix in each node does both in O(log places). When the timeline is full, places where
// no key begins to wait are merged into the one before.
#include "experts/belady.h"

#include <string.h>

struct ps_belady {
    uint32_t keys, slots, floor;
    uint32_t places; // of the timeline, a power of two
    uint32_t now;    // the next free place
    uint32_t *start; // [keys] the place from which the key waits
    uint32_t *reads; // [keys] reads since then
    // [2 * places] of a tree, root 1, leaves from `places` on: what is added to all below a node,
    // and the most below it, with that.
    int64_t *added, *most;
    int64_t *taken;   // [places], of merging
    uint32_t *merged; // [places + 1] the new place of each
};

// ---- the tree. What is added reaches to its end, so places that are not used yet are far below 0.

#define UNUSED (INT64_MIN / 4)

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void renew_node(ps_belady *b, uint32_t node)
{
    b->most[node] = larger(b->most[2 * node], b->most[2 * node + 1]) + b->added[node];
}

// Makes the tree anew, with the first `used` of `taken`.
static void renew(ps_belady *b, uint32_t used)
{
    memset(b->added, 0, 2 * (size_t)b->places * sizeof *b->added);
    for (uint32_t p = 0; p < b->places; p++) {
        b->most[b->places + p] = p < used ? b->taken[p] : UNUSED;
    }
    for (uint32_t node = b->places - 1; node > 0; node--) {
        renew_node(b, node);
    }
    b->now = used;
}

static void add_from(ps_belady *b, uint32_t from, int64_t amount)
{
    b->most[from + b->places] += amount;
    for (uint32_t node = from + b->places; node > 1; node /= 2) {
        if (node % 2 == 0) {
            b->added[node + 1] += amount;
            b->most[node + 1] += amount;
        }
        renew_node(b, node / 2);
    }
}

static int64_t most_from(const ps_belady *b, uint32_t from)
{
    int64_t most = b->most[from + b->places];
    for (uint32_t node = from + b->places; node > 1; node /= 2) {
        most = node % 2 == 0 ? larger(most, b->most[node + 1]) : most;
        most += b->added[node / 2];
    }
    return most;
}

static int64_t added_above(const ps_belady *b, uint32_t place)
{
    int64_t sum = 0;
    for (uint32_t node = (place + b->places) / 2; node > 0; node /= 2) {
        sum += b->added[node];
    }
    return sum;
}

static void use_place(ps_belady *b, uint32_t place, int64_t taken)
{
    b->most[place + b->places] = taken - added_above(b, place);
    for (uint32_t node = (place + b->places) / 2; node > 0; node /= 2) {
        renew_node(b, node);
    }
}

ps_status ps_belady_init(uint32_t keys, uint32_t slots, uint32_t floor, ps_arena *arena,
                         ps_belady **out)
{
    uint32_t places = 64;
    while (places < 2 * (uint64_t)keys + 2) {
        places *= 2;
    }
    ps_belady *b = PS_ARENA_NEW(arena, ps_belady, 1);
    if (b == NULL) {
        return PS_NO_MEMORY;
    }
    *b = (ps_belady){.keys = keys, .slots = slots, .floor = floor, .places = places};
    b->start = PS_ARENA_NEW(arena, uint32_t, keys);
    b->reads = PS_ARENA_NEW(arena, uint32_t, keys);
    b->added = PS_ARENA_NEW(arena, int64_t, 2 * (uint64_t)places);
    b->most = PS_ARENA_NEW(arena, int64_t, 2 * (uint64_t)places);
    b->taken = PS_ARENA_NEW(arena, int64_t, places);
    b->merged = PS_ARENA_NEW(arena, uint32_t, (uint64_t)places + 1);
    if (b->start == NULL || b->reads == NULL || b->added == NULL || b->most == NULL ||
        b->taken == NULL || b->merged == NULL) {
        return PS_NO_MEMORY;
    }
    renew(b, 0);
    *out = b;
    return PS_OK;
}

// ---- calls

static void merge(ps_belady *b)
{
    memset(b->merged, 0, ((size_t)b->places + 1) * sizeof *b->merged);
    for (uint32_t key = 0; key < b->keys; key++) {
        b->merged[b->start[key]] = 1; // a key waits from there on
    }
    uint32_t used = 0;
    for (uint32_t p = 0; p < b->now; p++) {
        const int64_t taken = b->most[p + b->places] + added_above(b, p);
        if (used == 0 || b->merged[p] == 1) {
            b->taken[used++] = taken;
        } else {
            b->taken[used - 1] = larger(b->taken[used - 1], taken);
        }
        b->merged[p] = used - 1;
    }
    b->merged[b->now] = used;
    for (uint32_t key = 0; key < b->keys; key++) {
        b->start[key] = b->merged[b->start[key]];
    }
    renew(b, used);
}

// Whether the key has waited in a slot. Nothing lies between calls that follow each other.
static bool try_keep(ps_belady *b, uint32_t key)
{
    const uint32_t start = b->start[key];
    if (start == b->now) {
        return true;
    }
    if (most_from(b, start) >= b->slots) {
        return false;
    }
    add_from(b, start, 1);
    return true;
}

void ps_belady_call(ps_belady *belady, const uint32_t *keys, uint32_t count, uint64_t *hits,
                    uint64_t *read_hits)
{
    if (belady->now == belady->places) {
        merge(belady);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (try_keep(belady, keys[i])) {
            *hits += 1;
            *read_hits += belady->reads[keys[i]];
        }
        belady->reads[keys[i]] = 0;
        belady->start[keys[i]] = belady->now + 1;
    }
    use_place(belady, belady->now, count < belady->floor ? count : belady->floor);
    belady->now++;
}

void ps_belady_read(ps_belady *belady, uint32_t key)
{
    belady->reads[key]++;
}
