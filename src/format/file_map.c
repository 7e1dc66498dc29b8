// format/file_map.c - open, look what it is, mmap.
#include "format/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES_SHOWN ((size_t)400)

static ps_status system_failure(const char *what)
{
    const int number = errno;
    const ps_status status = number == ENOENT || number == ENOTDIR ? PS_NOT_FOUND : PS_IO;
    return ps_fail(status, "cannot %s: %s", what, strerror(number));
}

static ps_status check_kind(const struct stat *stat, const char *wanted)
{
    if (S_ISDIR(stat->st_mode)) {
        return ps_fail(PS_INVALID, "is a folder; %s is wanted", wanted);
    }
    if (!S_ISREG(stat->st_mode)) {
        return ps_fail(PS_INVALID, "is no regular file; %s is wanted", wanted);
    }
    return PS_OK;
}

static ps_status map_descriptor(int descriptor, const char *wanted, const void **out_bytes,
                                uint64_t *out_size_bytes)
{
    struct stat stat;
    if (fstat(descriptor, &stat) != 0) {
        return system_failure("examine the file");
    }
    PS_TRY(check_kind(&stat, wanted));
    const uint64_t size_bytes = (uint64_t)stat.st_size;
    void *bytes = NULL; // no mapping is empty
    if (size_bytes > 0) {
        bytes = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED) {
            return system_failure("map the file");
        }
    }
    *out_bytes = bytes;
    *out_size_bytes = size_bytes;
    return PS_OK;
}

ps_status ps_file_map(const char *path, const char *wanted, const void **out_bytes,
                      uint64_t *out_size_bytes)
{
    // O_NONBLOCK: opening a pipe that nobody writes must not hang. Regular files do not care.
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return system_failure("open the file");
    }
    const ps_status status = map_descriptor(descriptor, wanted, out_bytes, out_size_bytes);
    (void)close(descriptor);
    return status;
}

void ps_file_unmap(const void *bytes, uint64_t size_bytes)
{
    if (bytes != NULL) {
        // munmap takes a plain pointer; the mapping itself was never writable.
        (void)munmap((void *)(uintptr_t)bytes, size_bytes);
    }
}

ps_status ps_file_stamp_get(const char *path, ps_file_stamp *out)
{
    struct stat stat_of;
    if (stat(path, &stat_of) != 0) {
        const int number = errno;
        return ps_file_name_error(path,
                                  ps_fail(PS_IO, "cannot examine the file: %s", strerror(number)));
    }
    *out = (ps_file_stamp){.device = stat_of.st_dev,
                           .inode = stat_of.st_ino,
                           .size_bytes = (uint64_t)stat_of.st_size,
                           .written_s = stat_of.st_mtim.tv_sec,
                           .written_ns = stat_of.st_mtim.tv_nsec};
    return PS_OK;
}

ps_status ps_file_stamp_check(const char *path, const ps_file_stamp *then)
{
    ps_file_stamp now = {0};
    PS_TRY(ps_file_stamp_get(path, &now));
    return now.device == then->device && now.inode == then->inode &&
                   now.size_bytes == then->size_bytes && now.written_s == then->written_s &&
                   now.written_ns == then->written_ns
               ? PS_OK
               : ps_file_name_error(path, ps_fail(PS_IO, "is not the file any more that the model "
                                                         "was opened from"));
}

ps_status ps_file_name_error(const char *path, ps_status status)
{
    const size_t length = strlen(path);
    const bool is_long = length > PATH_BYTES_SHOWN;
    return ps_fail_prefix(status, "%s%s", is_long ? "..." : "",
                          is_long ? path + length - PATH_BYTES_SHOWN : path);
}
