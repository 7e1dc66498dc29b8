// passes/place.c - first fit, largest first.
#include "passes/place.h"

#include "plan/plan.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const ps_life *left = *(const ps_life *const *)a;
    const ps_life *right = *(const ps_life *const *)b;
    if (left->size_bytes != right->size_bytes) {
        return left->size_bytes > right->size_bytes ? -1 : 1;
    }
    return left < right ? -1 : 1; // qsort is not stable
}

static bool overlap(const ps_life *a, const ps_life *b)
{
    return a->first <= b->last && b->first <= a->last;
}

// The lives placed so far are kept in order of their offsets, so that one walk finds the lowest
// gap.
static uint64_t lowest_gap(ps_life *const *placed, uint32_t count, const ps_life *life)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!overlap(placed[i], life)) {
            continue;
        }
        if (placed[i]->offset_bytes >= offset &&
            placed[i]->offset_bytes - offset >= life->size_bytes) {
            break;
        }
        const uint64_t end = ps_round_up(placed[i]->offset_bytes + placed[i]->size_bytes,
                                         PS_CACHE_LINE_BYTES);
        offset = end > offset ? end : offset;
    }
    return offset;
}

ps_status ps_place_lives(ps_life *lives, uint32_t count, ps_arena *arena, uint64_t *out_bytes)
{
    ps_life **order = PS_ARENA_NEW(arena, ps_life *, count);
    ps_life **placed = PS_ARENA_NEW(arena, ps_life *, count);
    if (order == NULL || placed == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        order[i] = &lives[i];
    }
    qsort(order, count, sizeof(ps_life *), by_size);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        ps_life *life = order[i];
        life->offset_bytes = lowest_gap(placed, i, life);
        if (life->size_bytes > PS_PLAN_WORKSPACE_MAX_BYTES - life->offset_bytes) {
            return ps_fail(PS_EXHAUSTED, "the workspace would be larger than %llu GiB",
                           (unsigned long long)(PS_PLAN_WORKSPACE_MAX_BYTES >> 30));
        }
        uint32_t at = i;
        for (; at > 0 && placed[at - 1]->offset_bytes > life->offset_bytes; at--) {
            placed[at] = placed[at - 1];
        }
        placed[at] = life;
        const uint64_t end = ps_round_up(life->offset_bytes + life->size_bytes,
                                         PS_CACHE_LINE_BYTES);
        bytes = end > bytes ? end : bytes;
    }
    *out_bytes = bytes;
    return PS_OK;
}
