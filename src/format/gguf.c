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

static ps_status parse_into(ps_gguf *file, ps_gguf **out)
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
static ps_gguf *create(const void *bytes, uint64_t size_bytes)
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

ps_status ps_gguf_open_bytes(const void *bytes, size_t size_bytes, ps_gguf **out)
{
    ps_gguf *file = create(bytes, size_bytes);
    if (file == NULL) {
        return PS_NO_MEMORY;
    }
    return parse_into(file, out);
}

ps_status ps_gguf_open_head(const void *bytes, size_t size_bytes, const ps_gguf_origin *origin,
                            ps_gguf **out)
{
    if (origin->size_bytes < size_bytes || origin->size_bytes > PS_GGUF_FILE_BYTES_MAX) {
        return ps_fail(PS_INVALID, "a head of %zu bytes of a GGUF file of %llu", size_bytes,
                       (unsigned long long)origin->size_bytes);
    }
    ps_gguf *file = create(bytes, size_bytes);
    if (file == NULL) {
        return PS_NO_MEMORY;
    }
    file->size_bytes = origin->size_bytes;
    file->fingerprint = origin->fingerprint;
    file->is_head = true;
    return parse_into(file, out);
}

static ps_status open_path(const char *path, ps_gguf **out)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    PS_TRY(ps_file_map(path, "a GGUF file", &bytes, &size_bytes));
    if (size_bytes == 0) {
        return ps_gguf_open_bytes(NULL, 0, out); // the parser has the words
    }
    // On a slow disk single page faults would read 4 KiB at a time; the advice only widens them.
    (void)madvise((void *)(uintptr_t)bytes, size_bytes, MADV_SEQUENTIAL);

    ps_gguf *file = create(bytes, size_bytes);
    if (file == NULL) {
        ps_file_unmap(bytes, size_bytes);
        return PS_NO_MEMORY;
    }
    file->is_mapped = true;
    file->path = ps_arena_strndup(&file->arena, path, strlen(path));
    if (file->path == NULL) {
        ps_gguf_close(file);
        return PS_NO_MEMORY;
    }
    return parse_into(file, out);
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
    if (file->is_mapped) {
        ps_file_unmap(file->bytes, file->size_bytes);
    }
    ps_arena arena = file->arena;
    ps_arena_deinit(&arena);
}

uint64_t ps_gguf_size_bytes(const ps_gguf *file)
{
    return file->size_bytes;
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
    if (file->path == NULL) {
        return (ps_gguf_place){NULL, 0};
    }
    return (ps_gguf_place){.path = file->path,
                           .offset_bytes = (uint64_t)((const uint8_t *)tensor->data - file->bytes)};
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
    }
    return hash;
}

void ps_gguf_forget(const ps_gguf *file, const void *data, uint64_t size_bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ps_round_up((uintptr_t)data, page);
    const uintptr_t end = ((uintptr_t)data + size_bytes) / page * page;
    if (file->is_mapped && begin < end) {
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED); // a hint
    }
}
