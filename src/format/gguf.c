// format/gguf.c - opening and closing a GGUF file, and looking things up by name.
#include "format/gguf_internal.h"

#include "base/hash.h"
#include "format/file_map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The arena holds about 8 bytes for each byte of the shortest possible key, 5 for a tensor's.
#define ARENA_BYTES_PER_FILE_BYTE 16
#define ARENA_BYTES_MIN ((uint64_t)64 << 10)

#define FINGERPRINT_TENSOR_BYTES ((uint64_t)4 << 10)
// A page that is touched brings others of its block of so many bytes that are in memory: 16 of them
// in general, and all where the page cache has a huge page there.
#define FAULT_AROUND_BYTES ((uintptr_t)2 << 20)

static ps_status parse(ps_gguf *file, ps_gguf **out)
{
    const ps_status status = ps_gguf_parse(file);
    if (status == PS_OK) {
        *out = file;
    } else {
        ps_gguf_close(file);
    }
    return status;
}

// The object itself lives in its arena, so that there is one thing to free.
ps_gguf *ps_gguf_create(const void *bytes, uint64_t size_bytes)
{
    uint64_t limit_bytes = SIZE_MAX;
    (void)(ps_checked_mul(size_bytes, ARENA_BYTES_PER_FILE_BYTE, &limit_bytes) &&
           ps_checked_add(limit_bytes, ARENA_BYTES_MIN, &limit_bytes));
    ps_arena arena;
    ps_arena_init(&arena, limit_bytes);
    ps_gguf *file = PS_ARENA_NEW(&arena, ps_gguf, 1);
    if (file != NULL) {
        file->arena = arena;
        file->bytes = bytes;
        file->size_bytes = size_bytes;
        file->held_bytes = size_bytes;
    }
    return file;
}

ps_status ps_gguf_open_one_bytes(const void *bytes, uint64_t size_bytes,
                                 const ps_gguf_origin *origin, ps_gguf **out)
{
    ps_gguf *file = ps_gguf_create(bytes, size_bytes);
    if (file == NULL) {
        return PS_NO_MEMORY;
    }
    if (origin != NULL) {
        file->size_bytes = origin->size_bytes;
        file->fingerprint = origin->fingerprint;
        file->is_head = true;
    }
    return parse(file, out);
}

ps_status ps_gguf_open_parts(const ps_str *parts, uint32_t count, ps_gguf **out)
{
    ps_assert(count > 0);
    ps_gguf *first = NULL;
    PS_TRY(ps_gguf_open_one_bytes(parts[0].data, parts[0].length, NULL, &first));
    return ps_gguf_join(first, &(ps_gguf_rest){.parts = parts, .count = count}, out);
}

ps_status ps_gguf_open_bytes(const void *bytes, size_t size_bytes, ps_gguf **out)
{
    return ps_gguf_open_parts(&(ps_str){bytes, size_bytes}, 1, out);
}

ps_status ps_gguf_open_head(const void *bytes, size_t size_bytes, const ps_gguf_origin *origin,
                            ps_gguf **out)
{
    if (origin->size_bytes < size_bytes || origin->size_bytes > PS_GGUF_FILE_BYTES_MAX) {
        return ps_fail(PS_INVALID, "a head of %zu bytes of a GGUF file of %llu", size_bytes,
                       (unsigned long long)origin->size_bytes);
    }
    ps_gguf *first = NULL;
    PS_TRY(ps_gguf_open_one_bytes(bytes, size_bytes, origin, &first));
    return ps_gguf_join(first, &(ps_gguf_rest){.origin = origin}, out);
}

ps_status ps_gguf_open_one(const char *path, ps_gguf **out)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    PS_TRY(ps_file_map(path, "a GGUF file", &bytes, &size_bytes));
    ps_gguf *file = ps_gguf_create(bytes, size_bytes);
    if (file == NULL) {
        ps_file_unmap(bytes, size_bytes);
        return PS_NO_MEMORY;
    }
    file->is_mapped = size_bytes > 0;
    file->path = ps_arena_strndup(&file->arena, path, strlen(path));
    if (file->path == NULL) {
        ps_gguf_close(file);
        return PS_NO_MEMORY;
    }
    // On a slow disk single page faults would read 4 KiB at a time; the advice only widens them.
    if (file->is_mapped) {
        (void)madvise((void *)(uintptr_t)bytes, size_bytes, MADV_SEQUENTIAL);
    }
    return parse(file, out);
}

static ps_status open_path(const char *path, ps_gguf **out)
{
    ps_gguf *first = NULL;
    PS_TRY(ps_gguf_open_one(path, &first));
    return ps_gguf_join(first, &(ps_gguf_rest){.path = path}, out);
}

ps_status ps_gguf_open(const char *path, ps_gguf **out)
{
    const ps_status status = open_path(path, out);
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

void ps_gguf_close(ps_gguf *file)
{
    if (file == NULL) {
        return;
    }
    for (uint32_t i = 0; i < file->part_count; i++) {
        ps_gguf_close(file->parts[i]);
    }
    if (file->is_mapped && file->part_count == 0) {
        ps_file_unmap(file->bytes, file->size_bytes);
    }
    ps_arena arena = file->arena;
    ps_arena_deinit(&arena);
}

uint64_t ps_gguf_size_bytes(const ps_gguf *file)
{
    return file->size_bytes;
}

uint32_t ps_gguf_part_count(const ps_gguf *file)
{
    return file->part_count == 0 ? 1 : file->part_count;
}

uint32_t ps_gguf_version(const ps_gguf *file)
{
    return file->version;
}

uint32_t ps_gguf_tensor_count(const ps_gguf *file)
{
    return file->tensor_count;
}

const ps_gguf_tensor *ps_gguf_tensor_at(const ps_gguf *file, uint32_t index)
{
    ps_assert(index < file->tensor_count);
    return &file->tensors[index];
}

ps_gguf_place ps_gguf_tensor_place(const ps_gguf *file, const ps_gguf_tensor *tensor)
{
    const ps_gguf *part = file;
    uint32_t index = (uint32_t)(tensor - file->tensors);
    for (uint32_t i = 0; i < file->part_count; i++) {
        part = file->parts[i];
        if (index < part->tensor_count) {
            break;
        }
        index -= part->tensor_count;
    }
    if (part->path == NULL) {
        return (ps_gguf_place){NULL, 0};
    }
    return (ps_gguf_place){.path = part->path,
                           .offset_bytes = (uint64_t)((const uint8_t *)tensor->data - part->bytes)};
}

static int compare_text(const void *text, const void *name)
{
    return strcmp(text, ((const ps_gguf_name *)name)->text);
}

const ps_gguf_name *ps_gguf_name_find(const ps_gguf_name *names, uint32_t count, const char *text)
{
    return bsearch(text, names, count, sizeof *names, compare_text);
}

const ps_gguf_tensor *ps_gguf_tensor_find(const ps_gguf *file, const char *name)
{
    const ps_gguf_name *found = ps_gguf_name_find(file->tensor_names, file->tensor_count, name);
    return found == NULL ? NULL : &file->tensors[found->index];
}

const ps_gguf_key *ps_gguf_key_find(const ps_gguf *file, const char *key)
{
    const ps_gguf_name *found = ps_gguf_name_find(file->key_names, file->key_count, key);
    return found == NULL ? NULL : &file->keys[found->index];
}

uint32_t ps_gguf_key_count(const ps_gguf *file)
{
    return file->key_count;
}

const char *ps_gguf_key_at(const ps_gguf *file, uint32_t index)
{
    ps_assert(index < file->key_count);
    return file->keys[index].name;
}

ps_str ps_gguf_head(const ps_gguf *file)
{
    return (ps_str){.data = (const char *)file->bytes, .length = file->table_end};
}

void ps_gguf_tensor_attach(ps_gguf *file, const char *name, const void *data)
{
    const ps_gguf_name *found = ps_gguf_name_find(file->tensor_names, file->tensor_count, name);
    ps_assert(file->is_head && found != NULL);
    file->tensors[found->index].data = data;
}

uint64_t ps_gguf_fingerprint(const ps_gguf *file)
{
    if (file->is_head) {
        return file->fingerprint;
    }
    uint64_t hash = ps_hash(file->bytes, file->table_end, 0);
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const ps_gguf_tensor *tensor = &file->tensors[i];
        const uint64_t head_bytes = tensor->size_bytes < FINGERPRINT_TENSOR_BYTES
                                        ? tensor->size_bytes
                                        : FINGERPRINT_TENSOR_BYTES;
        hash = ps_hash(tensor->data, head_bytes, hash);
        ps_gguf_forget(file, tensor->data, head_bytes);
    }
    return hash;
}

// The mapping that holds the data: that of the file, or of one of its parts.
static const ps_gguf *mapping_of(const ps_gguf *file, uintptr_t data)
{
    uint32_t p = 0;
    while (p < file->part_count && data - (uintptr_t)file->parts[p]->bytes >=
                                       file->parts[p]->held_bytes) { // one behind wraps around
        p++;
    }
    return p < file->part_count ? file->parts[p] : file;
}

void ps_gguf_forget(const ps_gguf *file, const void *data, uint64_t size_bytes)
{
    const ps_gguf *of = mapping_of(file, (uintptr_t)data);
    const uintptr_t first = (uintptr_t)of->bytes;
    const uintptr_t last = ps_round_up(first + of->held_bytes, (uintptr_t)sysconf(_SC_PAGESIZE));
    uintptr_t begin = (uintptr_t)data / FAULT_AROUND_BYTES * FAULT_AROUND_BYTES;
    uintptr_t end = ps_round_up((uintptr_t)data + size_bytes, FAULT_AROUND_BYTES);
    begin = begin < first ? first : begin;
    end = end > last ? last : end;
    if (of->is_mapped && size_bytes > 0 && begin < end) {
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED); // a hint
    }
}
