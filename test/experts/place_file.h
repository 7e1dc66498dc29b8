// test/experts/place_file.h - a file whose every byte tells its place.
#ifndef PS_TEST_EXPERTS_PLACE_FILE_H
#define PS_TEST_EXPERTS_PLACE_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLACE_PATH_BYTES 32

static inline uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)((offset * 2654435761u) >> 13);
}

// path [PLACE_PATH_BYTES] to be unlinked.
static inline void make_place_file(char *path, uint64_t size_bytes)
{
    (void)snprintf(path, PLACE_PATH_BYTES, "/tmp/experts.XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    uint8_t *bytes = malloc(size_bytes);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < size_bytes; i++) {
        bytes[i] = byte_at(i);
    }
    assert_int_equal(size_bytes, write(fd, bytes, size_bytes));
    (void)close(fd);
    free(bytes);
}

#endif
