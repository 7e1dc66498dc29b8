// format/gguf.c - opening and closing a GGUF file, and looking things up by name.
#include "format/gguf_internal.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// The arena holds about 8 bytes for each byte of the shortest possible key, 5 for a tensor's.
#define ARENA_BYTES_PER_FILE_BYTE 16
#define ARENA_BYTES_MIN ((uint64_t)64 << 10)

#define FINGERPRINT_TENSOR_BYTES ((uint64_t)4 << 10)
#define PATH_BYTES_SHOWN ((size_t)400)

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

static ps_status system_failure(const char *what)
{
    const int number = errno;
    const ps_status status = number == ENOENT || number == ENOTDIR ? PS_NOT_FOUND : PS_IO;
    return ps_fail(status, "cannot %s: %s", what, strerror(number));
}

static ps_status check_kind(const struct stat *stat)
{
    if (S_ISDIR(stat->st_mode)) {
        return ps_fail(PS_INVALID, "is a folder; a GGUF file is wanted");
    }
    if (!S_ISREG(stat->st_mode)) {
        return ps_fail(PS_INVALID, "is no regular file; a GGUF file is wanted");
    }
    return PS_OK;
}

static ps_status map_descriptor(int descriptor, ps_gguf **out)
{
    struct stat stat;
    if (fstat(descriptor, &stat) != 0) {
        return system_failure("examine the file");
    }
    PS_TRY(check_kind(&stat));
    const uint64_t size_bytes = (uint64_t)stat.st_size;
    if (size_bytes == 0) {
        return ps_gguf_open_bytes(NULL, 0, out); // no mapping is empty; the parser has the words
    }
    void *bytes = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED) {
        return system_failure("map the file");
    }
    // On a slow disk single page faults would read 4 KiB at a time; the advice only widens them.
    (void)madvise(bytes, size_bytes, MADV_SEQUENTIAL);

    ps_gguf *file = create(bytes, size_bytes);
    if (file == NULL) {
        (void)munmap(bytes, size_bytes);
        return PS_NO_MEMORY;
    }
    file->is_mapped = true;
    return parse_into(file, out);
}

static ps_status open_path(const char *path, ps_gguf **out)
{
    // O_NONBLOCK: opening a pipe that nobody writes must not hang. Regular files do not care.
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return system_failure("open the file");
    }
    const ps_status status = map_descriptor(descriptor, out);
    (void)close(descriptor);
    return status;
}

ps_status ps_gguf_open(const char *path, ps_gguf **out)
{
    const ps_status status = open_path(path, out);
    if (status == PS_OK) {
        return PS_OK;
    }
    // Of a very long path the end says more than the start, and the message must keep its room.
    const size_t length = strlen(path);
    const bool is_long = length > PATH_BYTES_SHOWN;
    return ps_fail_prefix(status, "%s%s", is_long ? "..." : "",
                          is_long ? path + length - PATH_BYTES_SHOWN : path);
}

void ps_gguf_close(ps_gguf *file)
{
    if (file == NULL) {
        return;
    }
    if (file->is_mapped) {
        // munmap takes a plain pointer; the mapping itself was never writable.
        (void)munmap((void *)(uintptr_t)file->bytes, file->size_bytes);
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

uint64_t ps_gguf_fingerprint(const ps_gguf *file)
{
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
