// io/read_list.h - reads in a row; a read is in one list at a time.
#ifndef PS_IO_READ_LIST_H
#define PS_IO_READ_LIST_H

#include "io/reader.h"

#include <stddef.h>

typedef struct ps_read_list {
    ps_read *first, *last;
} ps_read_list;

static inline void ps_read_list_append(ps_read_list *list, ps_read *read)
{
    read->previous = list->last;
    read->next = NULL;
    *(list->last != NULL ? &list->last->next : &list->first) = read;
    list->last = read;
}

static inline void ps_read_list_remove(ps_read_list *list, ps_read *read)
{
    *(read->previous != NULL ? &read->previous->next : &list->first) = read->next;
    *(read->next != NULL ? &read->next->previous : &list->last) = read->previous;
}

// All of them are at rest from here on.
static inline void ps_read_list_drop(const ps_read_list *list)
{
    for (ps_read *read = list->first; read != NULL; read = read->next) {
        read->state = PS_READ_AT_REST;
    }
}

#endif
