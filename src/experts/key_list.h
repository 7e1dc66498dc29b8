// experts/key_list.h - keys in order of use: a doubly linked list in two arrays.
#ifndef PS_EXPERTS_KEY_LIST_H
#define PS_EXPERTS_KEY_LIST_H

#include "base/memory.h"

typedef struct ps_key_list {
    uint32_t *before, *after; // [keys + 1]; the last item is the ring's end
    uint32_t end;
    uint32_t count;
} ps_key_list;

// PS_NO_MEMORY. Memory comes from the arena and lives as long.
PS_MUST_USE ps_status ps_key_list_init(ps_key_list *list, uint32_t keys, ps_arena *arena);

void ps_key_list_add_newest(ps_key_list *list, uint32_t key);
void ps_key_list_add_oldest(ps_key_list *list, uint32_t key);
void ps_key_list_remove(ps_key_list *list, uint32_t key); // it is in the list

// From the oldest on, as in
//     for (uint32_t key = list->after[list->end]; key != list->end; key = list->after[key])

#endif
