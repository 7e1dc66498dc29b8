// format/file_map.h - a whole file as read-only memory.
#ifndef PS_FORMAT_FILE_MAP_H
#define PS_FORMAT_FILE_MAP_H

#include "base/status.h"

#include <stdint.h>

// Maps the file at `path`; *out_bytes is NULL for an empty one. Nothing is read yet. `wanted` names
// the right kind of file in messages, as in "a GGUF file".
//
// PS_NOT_FOUND  no such file
// PS_INVALID    a folder, a pipe, a device
// PS_IO         the system refuses to open or map it
//
// A file that shrinks while it is mapped raises SIGBUS on access.
PS_MUST_USE ps_status ps_file_map(const char *path, const char *wanted, const void **out_bytes,
                                  uint64_t *out_size_bytes);
void ps_file_unmap(const void *bytes, uint64_t size_bytes); // NULL is allowed

// Tells one state of a file from another, by what the system says of it.
typedef struct ps_file_stamp {
    uint64_t device, inode, size_bytes;
    int64_t written_s, written_ns;
} ps_file_stamp;

// PS_IO: the file is not there any more, or may not be looked at. The message names it.
PS_MUST_USE ps_status ps_file_stamp_get(const char *path, ps_file_stamp *out);

// PS_IO: it is another file now, or has been written to.
PS_MUST_USE ps_status ps_file_stamp_check(const char *path, const ps_file_stamp *then);

// Puts "path: " before the message; of a very long path the end, so that the message keeps its
// room.
ps_status ps_file_name_error(const char *path, ps_status status);

#endif
