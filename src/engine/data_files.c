// engine/data_files.c - looks files up in the table that cmake/embed.cmake makes.
#include "engine/data_files.h"

#include <string.h>

const ps_data_file *ps_data_find(ps_str name)
{
    for (uint32_t i = 0; i < ps_data_table_count; i++) {
        if (ps_str_equal(name, ps_data_table[i].name)) {
            return &ps_data_table[i];
        }
    }
    return NULL;
}

const ps_data_file *ps_data_folder(const char *folder, uint32_t *out_count)
{
    const size_t length = strlen(folder);
    const ps_data_file *first = NULL;
    *out_count = 0;
    for (uint32_t i = 0; i < ps_data_table_count; i++) {
        const char *name = ps_data_table[i].name;
        if (strncmp(name, folder, length) == 0 && name[length] == '/') {
            first = first == NULL ? &ps_data_table[i] : first;
            *out_count += 1;
        }
    }
    return first;
}

ps_str ps_data_short_name(const ps_data_file *file)
{
    static const char SUFFIX[] = ".json";
    const char *slash = strrchr(file->name, '/');
    ps_str name = ps_str_of(slash == NULL ? file->name : slash + 1);
    const size_t suffix_length = sizeof SUFFIX - 1;
    if (name.length > suffix_length &&
        strcmp(name.data + name.length - suffix_length, SUFFIX) == 0) {
        name.length -= suffix_length;
    }
    return name;
}
