// base/memory.h - sizes that cannot wrap, and arenas.
#ifndef PS_BASE_MEMORY_H
#define PS_BASE_MEMORY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define PS_CACHE_LINE_BYTES 64

// *out = a + b, or a * b; false when the result does not fit, and then *out is untouched.
static inline bool ps_checked_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out = sum;
    return true;
}

static inline bool ps_checked_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

// The smallest multiple of `unit` that is >= value. unit > 0; the result must fit.
static inline uint64_t ps_round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static inline uint64_t ps_divide_up(uint64_t value, uint64_t unit)
{
    return value / unit + (value % unit != 0);
}

// An arena hands out memory that lives until the arena ends. Not thread-safe.
typedef struct ps_arena_chunk ps_arena_chunk;
typedef struct ps_arena {
    ps_arena_chunk *chunks; // newest first
    size_t used_bytes;      // handed out so far, padding included
    size_t limit_bytes;
} ps_arena;

// limit_bytes bounds all that the arena will ever hand out.
void ps_arena_init(ps_arena *arena, size_t limit_bytes);
void ps_arena_deinit(ps_arena *arena); // frees everything; the arena may be initialised again

// Takes everything back, and keeps memory for as much: for work that is done again and again.
void ps_arena_reset(ps_arena *arena);

// count * size_bytes zeroed bytes at a 64-byte boundary, or NULL with the message set: the product
// wraps, the limit is reached or the system has no memory. Never NULL for count 0.
void *ps_arena_alloc(ps_arena *arena, uint64_t count, uint64_t size_bytes);

// A copy of bytes[0..length) with a NUL behind it, or NULL as above.
char *ps_arena_strndup(ps_arena *arena, const char *bytes, size_t length);
char *ps_arena_printf(ps_arena *arena, const char *format, ...) PS_PRINTF(2, 3);

// Gives *array, which holds `count` of *capacity items, room for one more. The old array stays in
// the arena: doubling wastes as much as it holds at most. PS_EXHAUSTED with the message set, and
// then nothing has changed. Starts from NULL and 0.
PS_MUST_USE ps_status ps_arena_grow(ps_arena *arena, void **array, size_t item_bytes,
                                    uint32_t count, uint32_t *capacity);

#define PS_ARENA_NEW(arena, type, count) ((type *)ps_arena_alloc((arena), (count), sizeof(type)))

// A byte string that borrows its memory; not NUL-terminated, may hold any byte.
typedef struct ps_str {
    const char *data;
    size_t length;
} ps_str;

bool ps_str_equal(ps_str string, const char *literal);
ps_str ps_str_of(const char *literal);

// A growing byte buffer on the heap; always NUL-terminated behind `length` once anything was added.
typedef struct ps_buffer {
    char *data;
    size_t length;
    size_t capacity;
    size_t limit; // 0: none
} ps_buffer;

// PS_EXHAUSTED when length would pass limit, PS_NO_MEMORY. On failure the buffer is unchanged.
PS_MUST_USE ps_status ps_buffer_append(ps_buffer *buffer, const char *bytes, size_t length);
PS_MUST_USE ps_status ps_buffer_printf(ps_buffer *buffer, const char *format, ...) PS_PRINTF(2, 3);
void ps_buffer_deinit(ps_buffer *buffer); // frees and zeroes

#endif
