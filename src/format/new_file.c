// format/new_file.c - a temporary file beside the place, then a rename.
#include "format/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ps_status fail_system(const char *what)
{
    return ps_fail(PS_IO, "cannot %s: %s", what, strerror(errno));
}

static ps_status refuse_existing(void)
{
    return ps_fail(PS_INVALID, "the file exists; --force replaces it");
}

ps_status ps_new_file_check(const char *path, bool replace)
{
    struct stat stat_now;
    if (stat(path, &stat_now) != 0) {
        return PS_OK; // what else is wrong with it, creating the file says
    }
    if (!S_ISREG(stat_now.st_mode)) { // renaming would replace a device
        return ps_fail(PS_INVALID, "is no regular file");
    }
    return replace ? PS_OK : refuse_existing();
}

ps_status ps_new_file_create(ps_new_file *file, const char *path, bool replace)
{
    PS_TRY(ps_new_file_check(path, replace));
    *file = (ps_new_file){.path = path, .replace = replace};
    PS_TRY(ps_buffer_printf(&file->temporary, "%s.%ld.tmp", path, (long)getpid()));
    file->descriptor = open(file->temporary.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->descriptor < 0) {
        const ps_status status = fail_system("create a file beside it");
        ps_buffer_deinit(&file->temporary);
        return status;
    }
    return PS_OK;
}

ps_status ps_new_file_try(const char *path, bool replace)
{
    ps_new_file file;
    PS_TRY(ps_new_file_create(&file, path, replace));
    const ps_status status = ps_new_file_finish(&file, PS_CANCELLED); // which it hands back
    return status == PS_CANCELLED ? PS_OK : status;
}

ps_status ps_new_file_set_size(ps_new_file *file, uint64_t size_bytes)
{
    return ftruncate(file->descriptor, (off_t)size_bytes) == 0 ? PS_OK : fail_system("make room");
}

ps_status ps_new_file_write(ps_new_file *file, const void *bytes, uint64_t size_bytes,
                            uint64_t offset)
{
    const char *from = bytes;
    while (size_bytes > 0) {
        const ssize_t count = pwrite(file->descriptor, from, size_bytes, (off_t)offset);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return fail_system("write");
        }
        from += count;
        offset += (uint64_t)count;
        size_bytes -= (uint64_t)count;
    }
    return PS_OK;
}

// The name is on the disk when the folder is; where that cannot be asked for, it is not an error.
static void sync_folder(const char *path)
{
    char *copy = strdup(path);
    const int folder = copy == NULL ? -1 : open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        (void)fsync(folder);
        (void)close(folder);
    }
    free(copy);
}

static ps_status put_in_place(const ps_new_file *file)
{
    const char *from = file->temporary.data;
    // Not every file system can refuse to replace; there a look before has to do.
    const bool is_kept = !file->replace &&
                         renameat2(AT_FDCWD, from, AT_FDCWD, file->path, RENAME_NOREPLACE) == 0;
    if (!is_kept) {
        if (!file->replace && (errno == EEXIST || access(file->path, F_OK) == 0)) {
            return refuse_existing();
        }
        if (rename(from, file->path) != 0) {
            return fail_system("rename the temporary file");
        }
    }
    sync_folder(file->path);
    return PS_OK;
}

ps_status ps_new_file_finish(ps_new_file *file, ps_status status)
{
    if (status == PS_OK && fsync(file->descriptor) != 0) {
        status = fail_system("write to the disk");
    }
    if (close(file->descriptor) != 0 && status == PS_OK) {
        status = fail_system("write to the disk");
    }
    if (status == PS_OK) {
        status = put_in_place(file);
    }
    if (status != PS_OK) {
        (void)unlink(file->temporary.data);
    }
    ps_buffer_deinit(&file->temporary);
    return status;
}

ps_status ps_new_file_write_all(const char *path, const void *bytes, uint64_t size_bytes,
                                bool replace)
{
    ps_new_file file;
    PS_TRY(ps_new_file_create(&file, path, replace));
    return ps_new_file_finish(&file, ps_new_file_write(&file, bytes, size_bytes, 0));
}
