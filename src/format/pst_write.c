// format/pst_write.c - writes a compiled file beside its place, then renames it.
//
// The header is written last, so that not even a temporary file that is left behind opens.
#include "format/pst_internal.h"

#include "base/hash.h"
#include "base/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES ((uint64_t)16 << 20)

typedef struct writer {
    const ps_pst_content *content;
    int descriptor;
    uint64_t written_bytes; // of weights
    ps_pst_header header;
    ps_pst_entry *entries; // [content->weight_count]
} writer;

static ps_status fail_system(const char *what)
{
    return ps_fail(PS_IO, "cannot %s: %s", what, strerror(errno));
}

static ps_status write_at(int descriptor, const void *bytes, uint64_t size_bytes, uint64_t offset)
{
    const char *from = bytes;
    while (size_bytes > 0) {
        const ssize_t count = pwrite(descriptor, from, size_bytes, (off_t)offset);
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

static ps_pst_section *add_section(ps_pst_header *header, const char *name, uint64_t offset,
                                   uint64_t size_bytes)
{
    ps_pst_section *section = &header->sections[header->section_count++];
    (void)snprintf(section->name, sizeof section->name, "%s", name);
    section->offset = offset;
    section->size_bytes = size_bytes;
    return section;
}

// Places everything; checksums of the table and the header are still missing.
static void place(writer *w)
{
    const ps_pst_content *content = w->content;
    const ps_str head = ps_gguf_head(content->gguf);
    ps_pst_header *header = &w->header;
    memcpy(header->magic, PS_PST_MAGIC, sizeof header->magic);
    header->version = PS_PST_VERSION;
    header->layout = PS_LAYOUT_VERSION;
    header->gguf_bytes = ps_gguf_size_bytes(content->gguf);
    header->fingerprint = ps_gguf_fingerprint(content->gguf);

    uint64_t data_bytes = 0;
    for (uint32_t i = 0; i < content->weight_count; i++) {
        const ps_pst_weight *weight = &content->weights[i];
        ps_pst_entry *entry = &w->entries[i];
        (void)snprintf(entry->name, sizeof entry->name, "%s", weight->name);
        entry->dtype = (uint32_t)ps_dtype_get(weight->dtype)->gguf_id;
        entry->outputs = weight->outputs;
        entry->inputs = weight->inputs;
        entry->experts = weight->experts;
        entry->is_vector = weight->is_vector;
        entry->offset = data_bytes;
        entry->size_bytes = weight->size_bytes;
        data_bytes += ps_round_up(weight->size_bytes, PS_CACHE_LINE_BYTES);
    }
    const uint64_t table_at = ps_round_up(PS_PST_PAGE_BYTES + head.length, PS_CACHE_LINE_BYTES);
    const uint64_t table_bytes = content->weight_count * sizeof *w->entries;
    const uint64_t data_at = ps_round_up(table_at + table_bytes, PS_PST_PAGE_BYTES);
    add_section(header, PS_PST_HEAD, PS_PST_PAGE_BYTES, head.length)->checksum = ps_hash(
        head.data, head.length, 0);
    (void)add_section(header, PS_PST_TABLE, table_at, table_bytes);
    (void)add_section(header, PS_PST_DATA, data_at, data_bytes);
    header->file_bytes = data_at + data_bytes;
}

static ps_status write_weight(writer *w, uint32_t i)
{
    const ps_pst_content *content = w->content;
    const ps_pst_weight *weight = &content->weights[i];
    const ps_pst_section *data = &w->header.sections[2];
    for (uint64_t at = 0; at < weight->size_bytes; at += CHUNK_BYTES) {
        if (content->cancel != NULL && *content->cancel) {
            return ps_fail(PS_CANCELLED, "cancelled");
        }
        const uint64_t left = weight->size_bytes - at;
        const uint64_t count = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        PS_TRY(write_at(w->descriptor, (const char *)weight->data + at, count,
                        data->offset + w->entries[i].offset + at));
        w->written_bytes += count;
        if (content->progress != NULL) {
            content->progress(content->progress_context,
                              (double)w->written_bytes / (double)data->size_bytes);
        }
    }
    w->entries[i].checksum = ps_hash(weight->data, weight->size_bytes, 0);
    return PS_OK;
}

static ps_status write_all(writer *w)
{
    const ps_str head = ps_gguf_head(w->content->gguf);
    ps_pst_header *header = &w->header;
    ps_pst_section *table = &header->sections[1];
    place(w);
    if (ftruncate(w->descriptor, (off_t)header->file_bytes) != 0) {
        return fail_system("make room");
    }
    for (uint32_t i = 0; i < w->content->weight_count; i++) {
        PS_TRY(write_weight(w, i));
    }
    table->checksum = ps_hash(w->entries, table->size_bytes, 0);
    header->checksum = ps_hash(header, sizeof *header, 0);
    PS_TRY(write_at(w->descriptor, head.data, head.length, header->sections[0].offset));
    PS_TRY(write_at(w->descriptor, w->entries, table->size_bytes, table->offset));
    PS_TRY(write_at(w->descriptor, header, sizeof *header, 0));
    return fsync(w->descriptor) == 0 ? PS_OK : fail_system("write to the disk");
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

static ps_status refuse_existing(void)
{
    return ps_fail(PS_INVALID, "the file exists; --force replaces it");
}

static ps_status put_in_place(const char *temporary, const char *path, bool replace)
{
    // Not every file system can refuse to replace; there a look before has to do.
    const bool is_kept = !replace &&
                         renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0;
    if (!is_kept) {
        if (!replace && (errno == EEXIST || access(path, F_OK) == 0)) {
            return refuse_existing();
        }
        if (rename(temporary, path) != 0) {
            return fail_system("rename the temporary file");
        }
    }
    sync_folder(path);
    return PS_OK;
}

static ps_status write_file(writer *w, const char *temporary, const char *path)
{
    w->descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->descriptor < 0) {
        return fail_system("create a file beside it");
    }
    ps_status status = write_all(w);
    if (close(w->descriptor) != 0 && status == PS_OK) {
        status = fail_system("write to the disk");
    }
    if (status == PS_OK) {
        status = put_in_place(temporary, path, w->content->replace);
    }
    if (status != PS_OK) {
        (void)unlink(temporary);
    }
    return status;
}

ps_status ps_pst_check_target(const char *path, bool replace)
{
    struct stat stat_now;
    if (stat(path, &stat_now) != 0) {
        return PS_OK; // what else is wrong with it, creating the file says
    }
    if (!S_ISREG(stat_now.st_mode)) { // renaming would replace a device
        return ps_fail(PS_INVALID, "%s: is no regular file", path);
    }
    return replace ? PS_OK : ps_fail_prefix(refuse_existing(), "%s", path);
}

ps_status ps_pst_write(const char *path, const ps_pst_content *content, uint64_t *out_bytes)
{
    PS_TRY(ps_pst_check_target(path, content->replace));
    ps_buffer temporary = {0};
    writer w = {.content = content,
                .entries = calloc(content->weight_count + (size_t)1, sizeof *w.entries)};
    ps_status status = w.entries == NULL ? ps_fail(PS_NO_MEMORY, "no memory for a table of weights")
                                         : PS_OK;
    if (status == PS_OK) {
        status = ps_buffer_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
    }
    if (status == PS_OK) {
        status = write_file(&w, temporary.data, path);
    }
    ps_buffer_deinit(&temporary);
    free(w.entries);
    if (status != PS_OK) {
        return ps_fail_prefix(status, "%s", path);
    }
    *out_bytes = w.header.file_bytes;
    return PS_OK;
}
