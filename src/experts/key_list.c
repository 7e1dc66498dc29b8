// experts/key_list.c - see key_list.h.
#include "experts/key_list.h"

ps_status ps_key_list_init(ps_key_list *list, uint32_t keys, ps_arena *arena)
{
    *list = (ps_key_list){.before = PS_ARENA_NEW(arena, uint32_t, (uint64_t)keys + 1),
                          .after = PS_ARENA_NEW(arena, uint32_t, (uint64_t)keys + 1),
                          .end = keys};
    if (list->before == NULL || list->after == NULL) {
        return PS_NO_MEMORY;
    }
    list->before[keys] = keys;
    list->after[keys] = keys;
    return PS_OK;
}

static void add_between(ps_key_list *list, uint32_t before, uint32_t key, uint32_t after)
{
    list->before[key] = before;
    list->after[key] = after;
    list->after[before] = key;
    list->before[after] = key;
    list->count++;
}

void ps_key_list_add_newest(ps_key_list *list, uint32_t key)
{
    add_between(list, list->before[list->end], key, list->end);
}

void ps_key_list_add_oldest(ps_key_list *list, uint32_t key)
{
    add_between(list, list->end, key, list->after[list->end]);
}

void ps_key_list_remove(ps_key_list *list, uint32_t key)
{
    list->after[list->before[key]] = list->after[key];
    list->before[list->after[key]] = list->before[key];
    list->count--;
}
