// base/names.c - a hash index over copies of names.
#include "base/names.h"

#include "base/hash.h"

#include <string.h>

#define CAPACITY_FIRST 64u

// The slot that holds `name`, or the free one where it belongs.
static uint32_t slot_of(const ps_names *names, ps_str name)
{
    const uint32_t mask = names->slot_count - 1;
    uint32_t slot = (uint32_t)ps_hash(name.data, name.length, 0) & mask;
    while (names->slots[slot] != PS_NO_NAME &&
           !ps_str_equal(name, names->names[names->slots[slot]])) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

// Makes the slots twice as many as the names, with one to come.
static ps_status grow_slots(ps_names *names)
{
    if (names->count < names->slot_count / 2) {
        return PS_OK;
    }
    const uint32_t count = names->slot_count == 0 ? CAPACITY_FIRST * 2 : names->slot_count * 2;
    uint32_t *slots = PS_ARENA_NEW(names->arena, uint32_t, count);
    if (slots == NULL) {
        return PS_EXHAUSTED;
    }
    memset(slots, 0xff, count * sizeof *slots);
    names->slots = slots;
    names->slot_count = count;
    for (uint32_t i = 0; i < names->count; i++) {
        slots[slot_of(names, ps_str_of(names->names[i]))] = i;
    }
    return PS_OK;
}

ps_status ps_names_add(ps_names *names, ps_str name)
{
    if (name.length == 0 || name.length > PS_NAME_BYTES_MAX) {
        return ps_fail(PS_INVALID, "name of %zu bytes, 1 to %u would be right", name.length,
                       PS_NAME_BYTES_MAX);
    }
    if (ps_names_find(names, name) != PS_NO_NAME) {
        return ps_fail(PS_INVALID, "there are two values named '%.*s'", (int)name.length,
                       name.data);
    }
    PS_TRY(grow_slots(names));
    void *array = names->names;
    PS_TRY(
        ps_arena_grow(names->arena, &array, sizeof *names->names, names->count, &names->capacity));
    names->names = array;
    const char *copy = ps_arena_strndup(names->arena, name.data, name.length);
    if (copy == NULL) {
        return PS_EXHAUSTED;
    }
    names->names[names->count] = copy;
    names->slots[slot_of(names, name)] = names->count++;
    return PS_OK;
}

uint32_t ps_names_find(const ps_names *names, ps_str name)
{
    return names->slot_count == 0 ? PS_NO_NAME : names->slots[slot_of(names, name)];
}
