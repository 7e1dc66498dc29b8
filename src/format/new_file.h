// format/new_file.h - a file that appears whole or not at all.
//
// It is written under another name beside its place and renamed when all bytes are on the disk.
// When something fails nothing is left, unless the process is killed, and then "PATH.PID.tmp".
//
//     ps_new_file file;
//     PS_TRY(ps_new_file_create(&file, path, replace));
//     const ps_status status = ps_new_file_write(&file, bytes, size_bytes, 0);
//     return ps_new_file_finish(&file, status);
#ifndef PS_FORMAT_NEW_FILE_H
#define PS_FORMAT_NEW_FILE_H

#include "base/memory.h"

typedef struct ps_new_file {
    const char *path; // borrowed
    ps_buffer temporary;
    int descriptor;
    bool replace;
} ps_new_file;

// PS_INVALID when `path` is there and `replace` is false, or is no regular file: for saying so
// before the work.
PS_MUST_USE ps_status ps_new_file_check(const char *path, bool replace);

// Whether a file can be made there now, for work that takes long: makes the temporary one and
// removes it. Fails as ps_new_file_create.
PS_MUST_USE ps_status ps_new_file_try(const char *path, bool replace);

// PS_INVALID    as ps_new_file_check
// PS_IO         the system refuses
// PS_NO_MEMORY
//
// Messages do not name the path. After a failure there is nothing to finish.
PS_MUST_USE ps_status ps_new_file_create(ps_new_file *file, const char *path, bool replace);

// The length of the file, before it is written out of order.
PS_MUST_USE ps_status ps_new_file_set_size(ps_new_file *file, uint64_t size_bytes);

// All of the bytes, at an offset from the start. PS_IO: the disk is full, or the system refuses.
PS_MUST_USE ps_status ps_new_file_write(ps_new_file *file, const void *bytes, uint64_t size_bytes,
                                        uint64_t offset);

// Puts the file in its place when `status`, that of the writing, is PS_OK, and removes it
// otherwise. Gives `status`, or the failure of putting it there.
PS_MUST_USE ps_status ps_new_file_finish(ps_new_file *file, ps_status status);

// All of that for bytes that are at hand; fails as its parts do.
PS_MUST_USE ps_status ps_new_file_write_all(const char *path, const void *bytes,
                                            uint64_t size_bytes, bool replace);

#endif
