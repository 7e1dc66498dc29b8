// text/merge.c - a linked list of symbols and a heap of the pairs that could be joined.
//
// 1. An entry of the heap is a hint: it counts only while the symbol it names still has exactly
//    that priority. Entries are never searched for or removed early.
// 2. A symbol that was joined into its left neighbour has priority PS_MERGE_NEVER for good.
#include "text/merge.h"

#include <stdlib.h>

void ps_merger_reset(ps_merger *merger)
{
    merger->count = 0;
    merger->heap_count = 0;
}

void ps_merger_deinit(ps_merger *merger)
{
    free(merger->symbols);
    free(merger->heap);
    *merger = (ps_merger){0};
}

ps_status ps_merger_add(ps_merger *merger, uint32_t offset, uint32_t length, int32_t id)
{
    ps_assert(merger->count < INT32_MAX);
    if (merger->count == merger->capacity) {
        const size_t capacity = merger->capacity == 0 ? 64 : (size_t)merger->capacity * 2;
        ps_merge_symbol *symbols = realloc(merger->symbols, capacity * sizeof *symbols);
        if (symbols == NULL) {
            return ps_fail(PS_NO_MEMORY, "out of memory: %zu symbols of text", capacity);
        }
        merger->symbols = symbols;
        merger->capacity = (uint32_t)capacity;
    }
    const int32_t index = (int32_t)merger->count++;
    merger->symbols[index] = (ps_merge_symbol){.offset = offset,
                                               .length = length,
                                               .id = id,
                                               .previous = index - 1,
                                               .next = -1,
                                               .priority = PS_MERGE_NEVER,
                                               .merged_id = -1};
    if (index > 0) {
        merger->symbols[index - 1].next = index;
    }
    return PS_OK;
}

static ps_status push(ps_merger *merger, uint64_t entry)
{
    if (merger->heap_count == merger->heap_capacity) {
        const size_t capacity = merger->heap_capacity == 0 ? 64 : merger->heap_capacity * 2;
        uint64_t *heap = realloc(merger->heap, capacity * sizeof *heap);
        if (heap == NULL) {
            return ps_fail(PS_NO_MEMORY, "out of memory: %zu pairs of symbols", capacity);
        }
        merger->heap = heap;
        merger->heap_capacity = capacity;
    }
    size_t at = merger->heap_count++;
    while (at > 0 && merger->heap[(at - 1) / 2] > entry) {
        merger->heap[at] = merger->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    merger->heap[at] = entry;
    return PS_OK;
}

static uint64_t pop(ps_merger *merger)
{
    uint64_t *heap = merger->heap;
    const uint64_t top = heap[0];
    const uint64_t last = heap[--merger->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < merger->heap_count; child = 2 * at + 1) {
        if (child + 1 < merger->heap_count && heap[child + 1] < heap[child]) {
            child++;
        }
        if (heap[child] >= last) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

// Looks up what joining symbol `index` with its right neighbour is worth now.
static ps_status rate(ps_merger *merger, int32_t index, ps_merge_lookup lookup, const void *context)
{
    ps_merge_symbol *left = &merger->symbols[index];
    left->priority = PS_MERGE_NEVER;
    if (left->next < 0) {
        return PS_OK;
    }
    left->priority = lookup(context, left, &merger->symbols[left->next], &left->merged_id);
    if (left->priority == PS_MERGE_NEVER) {
        return PS_OK;
    }
    return push(merger, (uint64_t)left->priority << 32 | (uint32_t)index);
}

static void join_with_next(ps_merger *merger, ps_merge_symbol *left)
{
    ps_merge_symbol *right = &merger->symbols[left->next];
    left->length += right->length;
    left->id = left->merged_id;
    left->next = right->next;
    right->priority = PS_MERGE_NEVER;
    if (right->next >= 0) {
        merger->symbols[right->next].previous = right->previous;
    }
}

ps_status ps_merger_run(ps_merger *merger, ps_merge_lookup lookup, const void *context)
{
    for (uint32_t i = 0; i + 1 < merger->count; i++) {
        PS_TRY(rate(merger, (int32_t)i, lookup, context));
    }
    while (merger->heap_count > 0) {
        const uint64_t entry = pop(merger);
        const int32_t index = (int32_t)(entry & UINT32_MAX);
        ps_merge_symbol *left = &merger->symbols[index];
        if (left->priority != (uint32_t)(entry >> 32)) {
            continue;
        }
        join_with_next(merger, left);
        PS_TRY(rate(merger, index, lookup, context));
        if (left->previous >= 0) {
            PS_TRY(rate(merger, left->previous, lookup, context));
        }
    }
    return PS_OK;
}
