// engine/data_files.h - the files of data/, which are part of the library.
//
// cmake/embed.cmake makes the table. Names are paths below data/ with '/' between folders, such as
// "models/llama3-8b.json", in the order of their bytes. All is constant and lives for ever.
#ifndef PS_ENGINE_DATA_FILES_H
#define PS_ENGINE_DATA_FILES_H

#include "base/memory.h"

typedef struct ps_data_file {
    const char *name;
    const char *text; // a NUL follows, which does not count
    size_t length;
} ps_data_file;

extern const ps_data_file ps_data_table[];
extern const uint32_t ps_data_table_count;

// The file of that name, or NULL.
const ps_data_file *ps_data_find(ps_str name);

// The files below a folder ("models"), one behind the other: the first of *out_count; NULL where
// there is none.
const ps_data_file *ps_data_folder(const char *folder, uint32_t *out_count);

// What users call a file: its name without the folder and without ".json". Borrowed.
ps_str ps_data_short_name(const ps_data_file *file);

#endif
