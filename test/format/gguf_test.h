// test/format/gguf_test.h - what the GGUF tests share: files of the corpus, in guarded memory.
#ifndef PS_TEST_FORMAT_GGUF_TEST_H
#define PS_TEST_FORMAT_GGUF_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CORPUS PS_SOURCE_DIR "/test/fuzz/corpus/gguf"

// Bytes that end at a page which cannot be read: one byte too far crashes in every build.
typedef struct guarded {
    uint8_t *pages;
    size_t pages_bytes;
    uint8_t *bytes; // [size_bytes]
    size_t size_bytes;
} guarded;

static inline guarded guarded_create(const uint8_t *bytes, size_t size_bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t readable = (size_bytes + page - 1) / page * page;
    guarded result = {.pages_bytes = readable + page, .size_bytes = size_bytes};
    result.pages = mmap(NULL, result.pages_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(result.pages != MAP_FAILED);
    assert_int_equal(0, mprotect(result.pages + readable, page, PROT_NONE));
    result.bytes = result.pages + readable - size_bytes;
    if (size_bytes > 0) {
        memcpy(result.bytes, bytes, size_bytes);
    }
    return result;
}

static inline void guarded_destroy(guarded *memory)
{
    assert_int_equal(0, munmap(memory->pages, memory->pages_bytes));
}

// A file of the corpus; none is larger than 128 KiB.
static inline guarded guarded_load(const char *name)
{
    static uint8_t bytes[128 << 10];
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", CORPUS, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    const size_t size_bytes = fread(bytes, 1, sizeof bytes, file);
    assert_true(size_bytes < sizeof bytes);
    assert_int_equal(0, fclose(file));
    return guarded_create(bytes, size_bytes);
}

// Whether the process maps a file whose path holds `path`.
static inline bool is_mapped(const char *path)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    char line[1024];
    bool found = false;
    while (!found && fgets(line, sizeof line, maps) != NULL) {
        found = strstr(line, path) != NULL;
    }
    assert_int_equal(0, fclose(maps));
    return found;
}

#endif
