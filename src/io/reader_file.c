// io/reader_file.c - opens what a reader reads, past the page cache where the file system takes it.
#include "base/log.h"
#include "io/reader_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ps_status system_failure(const char *what)
{
    const int error = errno;
    return ps_fail(error == ENOENT || error == ENOTDIR ? PS_NOT_FOUND : PS_IO, "cannot %s: %s",
                   what, strerror(error));
}

// Some file systems take the flag and refuse the read, so one is made.
static bool try_direct(int descriptor)
{
    _Alignas(PS_READ_ALIGN_BYTES) char block[PS_READ_ALIGN_BYTES];
    return fcntl(descriptor, F_SETFL, O_DIRECT) == 0 &&
           (pread(descriptor, block, sizeof block, 0) >= 0 || errno != EINVAL);
}

static ps_status set_up(const char *path, bool is_buffered, ps_reader_file *file)
{
    struct stat stat;
    if (fstat(file->descriptor, &stat) != 0) {
        return system_failure("examine the file");
    }
    if (!S_ISREG(stat.st_mode)) {
        return ps_fail(PS_INVALID, "is no regular file");
    }
    file->written = stat.st_mtim;
    file->is_direct = !is_buffered && try_direct(file->descriptor);
    if (!file->is_direct && !is_buffered) {
        ps_log(PS_LOG_INFO, "%s: no O_DIRECT (%s): it is read through the page cache", path,
               strerror(errno));
    }
    // Without O_NONBLOCK, which opening needed and io_uring would obey.
    if (!file->is_direct && fcntl(file->descriptor, F_SETFL, 0) != 0) {
        return system_failure("change the file's flags");
    }
    file->path = strdup(path);
    return file->path != NULL ? PS_OK : ps_fail(PS_NO_MEMORY, "no memory for its name");
}

ps_status ps_reader_file_open(const char *path, bool is_buffered, ps_reader_file *out)
{
    // O_NONBLOCK: opening a pipe that nobody writes must not hang.
    ps_reader_file file = {.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.descriptor < 0) {
        return ps_fail_prefix(system_failure("open the file"), "%s", path);
    }
    const ps_status status = set_up(path, is_buffered, &file);
    if (status != PS_OK) {
        (void)close(file.descriptor);
        return ps_fail_prefix(status, "%s", path);
    }
    *out = file;
    return PS_OK;
}

bool ps_reader_file_has_changed(const ps_reader_file *file)
{
    struct stat stat;
    return fstat(file->descriptor, &stat) != 0 || stat.st_mtim.tv_sec != file->written.tv_sec ||
           stat.st_mtim.tv_nsec != file->written.tv_nsec;
}

void ps_reader_file_close(ps_reader_file *file)
{
    (void)close(file->descriptor);
    free(file->path);
}
