// base/memory.c - arenas, borrowed strings and growing buffers.
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)
#define ARRAY_CAPACITY_FIRST 64u

struct ps_arena_chunk {
    ps_arena_chunk *next;
    size_t capacity;
    size_t used;
    _Alignas(PS_CACHE_LINE_BYTES) char bytes[];
};

void ps_arena_init(ps_arena *arena, size_t limit_bytes)
{
    *arena = (ps_arena){.limit_bytes = limit_bytes};
}

void ps_arena_deinit(ps_arena *arena)
{
    while (arena->chunks != NULL) {
        ps_arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free(chunk);
    }
    arena->used_bytes = 0;
}

static ps_arena_chunk *add_chunk(ps_arena *arena, size_t capacity)
{
    const size_t bytes = ps_round_up(sizeof(ps_arena_chunk) + capacity, PS_CACHE_LINE_BYTES);
    ps_arena_chunk *chunk = aligned_alloc(PS_CACHE_LINE_BYTES, bytes);
    if (chunk == NULL) {
        (void)ps_fail(PS_NO_MEMORY, "out of memory: %zu bytes asked", bytes);
        return NULL;
    }
    chunk->capacity = capacity;
    chunk->used = 0;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

void ps_arena_reset(ps_arena *arena)
{
    const size_t used_bytes = arena->used_bytes;
    const bool is_one_chunk = arena->chunks != NULL && arena->chunks->next == NULL;
    if (is_one_chunk) {
        arena->chunks->used = 0;
        arena->used_bytes = 0;
    } else {
        ps_arena_deinit(arena);
        (void)add_chunk(arena, used_bytes > CHUNK_BYTES ? used_bytes : CHUNK_BYTES);
    }
}

void *ps_arena_alloc(ps_arena *arena, uint64_t count, uint64_t size_bytes)
{
    uint64_t bytes = 0;
    const bool fits = ps_checked_mul(count, size_bytes, &bytes) && bytes <= arena->limit_bytes;
    const size_t padded = ps_round_up(bytes == 0 ? 1 : bytes, PS_CACHE_LINE_BYTES);
    if (!fits || padded > arena->limit_bytes - arena->used_bytes) {
        (void)ps_fail(PS_EXHAUSTED, "arena limit of %zu bytes: %llu x %llu bytes asked, %zu in use",
                      arena->limit_bytes, (unsigned long long)count, (unsigned long long)size_bytes,
                      arena->used_bytes);
        return NULL;
    }
    ps_arena_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->capacity - chunk->used < padded) {
        chunk = add_chunk(arena, padded > CHUNK_BYTES ? padded : CHUNK_BYTES);
        if (chunk == NULL) {
            return NULL;
        }
    }
    char *result = chunk->bytes + chunk->used;
    chunk->used += padded;
    arena->used_bytes += padded;
    memset(result, 0, padded);
    return result;
}

ps_status ps_arena_grow(ps_arena *arena, void **array, size_t item_bytes, uint32_t count,
                        uint32_t *capacity)
{
    if (count < *capacity) {
        return PS_OK;
    }
    const uint32_t larger = *capacity == 0 ? ARRAY_CAPACITY_FIRST : *capacity * 2;
    void *copy = ps_arena_alloc(arena, larger, item_bytes);
    if (copy == NULL) {
        return PS_EXHAUSTED;
    }
    if (count > 0) {
        memcpy(copy, *array, count * item_bytes);
    }
    *array = copy;
    *capacity = larger;
    return PS_OK;
}

char *ps_arena_strndup(ps_arena *arena, const char *bytes, size_t length)
{
    char *copy = ps_arena_alloc(arena, (uint64_t)length + 1, 1);
    if (copy != NULL && length > 0) {
        memcpy(copy, bytes, length);
    }
    return copy;
}

char *ps_arena_printf(ps_arena *arena, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ps_assert(length >= 0 && (size_t)length < sizeof text);
    return ps_arena_strndup(arena, text, (size_t)length);
}

bool ps_str_equal(ps_str string, const char *literal)
{
    return string.length == strlen(literal) && memcmp(string.data, literal, string.length) == 0;
}

ps_str ps_str_of(const char *literal)
{
    return (ps_str){.data = literal, .length = strlen(literal)};
}

static ps_status reserve(ps_buffer *buffer, size_t extra)
{
    uint64_t needed = 0;
    if (!ps_checked_add(buffer->length, extra, &needed) || !ps_checked_add(needed, 1, &needed) ||
        (buffer->limit > 0 && needed - 1 > buffer->limit)) {
        return ps_fail(PS_EXHAUSTED, "buffer limit of %zu bytes reached", buffer->limit);
    }
    if (needed <= buffer->capacity) {
        return PS_OK;
    }
    size_t capacity = buffer->capacity < 128 ? 128 : buffer->capacity;
    while (capacity < needed) {
        capacity *= 2;
    }
    char *data = realloc(buffer->data, capacity);
    if (data == NULL) {
        return ps_fail(PS_NO_MEMORY, "out of memory: %zu bytes asked", capacity);
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return PS_OK;
}

ps_status ps_buffer_append(ps_buffer *buffer, const char *bytes, size_t length)
{
    PS_TRY(reserve(buffer, length));
    if (length > 0) {
        memcpy(buffer->data + buffer->length, bytes, length);
    }
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
    return PS_OK;
}

ps_status ps_buffer_printf(ps_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    ps_assert(length >= 0);
    const ps_status status = reserve(buffer, (size_t)length);
    if (status == PS_OK) {
        (void)vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
    return status;
}

void ps_buffer_deinit(ps_buffer *buffer)
{
    free(buffer->data);
    *buffer = (ps_buffer){0};
}
