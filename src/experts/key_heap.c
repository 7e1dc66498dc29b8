// experts/key_heap.c - see key_heap.h.
#include "experts/key_heap.h"

#include <math.h>

ps_status ps_key_heap_init(ps_key_heap *heap, uint32_t keys, ps_arena *arena)
{
    *heap = (ps_key_heap){.items = PS_ARENA_NEW(arena, uint32_t, keys),
                          .places = PS_ARENA_NEW(arena, uint32_t, keys),
                          .scores = PS_ARENA_NEW(arena, double, keys)};
    return heap->items == NULL || heap->places == NULL || heap->scores == NULL ? PS_NO_MEMORY
                                                                               : PS_OK;
}

ps_key_heap ps_key_heap_part(const ps_key_heap *whole, uint32_t first)
{
    return (ps_key_heap){
        .items = whole->items + first, .places = whole->places, .scores = whole->scores};
}

static void put(ps_key_heap *heap, uint32_t place, uint32_t key)
{
    heap->items[place] = key;
    heap->places[key] = place;
}

static void rise(ps_key_heap *heap, uint32_t place, uint32_t key)
{
    while (place > 0) {
        const uint32_t parent = heap->items[(place - 1) / 2];
        if (heap->scores[parent] <= heap->scores[key]) {
            break;
        }
        put(heap, place, parent);
        place = (place - 1) / 2;
    }
    put(heap, place, key);
}

static void sink(ps_key_heap *heap, uint32_t place, uint32_t key)
{
    for (uint32_t child; (child = 2 * place + 1) < heap->count; place = child) {
        const uint32_t other = child + 1;
        if (other < heap->count &&
            heap->scores[heap->items[other]] < heap->scores[heap->items[child]]) {
            child = other;
        }
        if (heap->scores[key] <= heap->scores[heap->items[child]]) {
            break;
        }
        put(heap, place, heap->items[child]);
    }
    put(heap, place, key);
}

void ps_key_heap_add(ps_key_heap *heap, uint32_t key, double score)
{
    heap->scores[key] = score;
    rise(heap, heap->count++, key);
}

void ps_key_heap_set(ps_key_heap *heap, uint32_t key, double score)
{
    const bool is_higher = score > heap->scores[key];
    heap->scores[key] = score;
    if (is_higher) {
        sink(heap, heap->places[key], key);
    } else {
        rise(heap, heap->places[key], key);
    }
}

void ps_key_heap_remove(ps_key_heap *heap, uint32_t key)
{
    const uint32_t last = heap->items[--heap->count];
    if (last == key) {
        return;
    }
    const uint32_t place = heap->places[key];
    put(heap, place, last);
    if (heap->scores[last] > heap->scores[key]) {
        sink(heap, place, last);
    } else {
        rise(heap, place, last);
    }
}

void ps_key_heap_renew(ps_key_heap *heap)
{
    for (uint32_t place = heap->count / 2; place > 0; place--) {
        sink(heap, place - 1, heap->items[place - 1]);
    }
}

uint32_t ps_key_heap_lowest(const ps_key_heap *heap, bool (*is_busy)(void *context, uint32_t key),
                            void *context)
{
    uint32_t places[64] = {0}; // still to look at: at most one a level beside the current path
    uint32_t waiting = heap->count > 0;
    uint32_t best = UINT32_MAX;
    double best_score = INFINITY;
    while (waiting > 0) {
        const uint32_t place = places[--waiting];
        const uint32_t key = heap->items[place];
        if (heap->scores[key] >= best_score) {
            continue;
        }
        if (is_busy == NULL || !is_busy(context, key)) {
            best = key;
            best_score = heap->scores[key];
            continue;
        }
        for (uint32_t child = 2 * place + 2; child > 2 * place; child--) {
            if (child < heap->count) {
                places[waiting++] = child;
            }
        }
    }
    return best;
}
