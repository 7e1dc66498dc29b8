// format/pst_write.c - writes a compiled file.
//
// The header is written last, so that not even a temporary file that is left behind opens.
#include "format/pst_internal.h"

#include "base/hash.h"
#include "base/layout.h"
#include "format/file_map.h"
#include "format/new_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((uint64_t)16 << 20)

typedef struct writer {
    const ps_pst_content *content;
    ps_new_file file;
    uint64_t written_bytes; // of weights
    ps_pst_header header;
    ps_pst_entry *entries; // [content->weight_count]
} writer;

// The sections in the order of the header; the last one is there when there are plans.
enum { SECTION_HEAD, SECTION_TABLE, SECTION_DATA, SECTION_PLANS };

static void add_section(ps_pst_header *header, const char *name, uint64_t offset,
                        uint64_t size_bytes)
{
    ps_pst_section *section = &header->sections[header->section_count++];
    (void)snprintf(section->name, sizeof section->name, "%s", name);
    section->offset = offset;
    section->size_bytes = size_bytes;
}

// Places the weights in their section and gives its size; their checksums are still missing.
static uint64_t place_weights(writer *w)
{
    const ps_pst_content *content = w->content;
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
    return data_bytes;
}

// Places everything; checksums are still missing.
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

    const uint64_t table_at = ps_round_up(PS_PST_PAGE_BYTES + head.length, PS_CACHE_LINE_BYTES);
    const uint64_t table_bytes = content->weight_count * sizeof *w->entries;
    const uint64_t plans_at = ps_round_up(table_at + table_bytes, PS_CACHE_LINE_BYTES);
    const uint64_t data_at = ps_round_up(plans_at + content->plans.length, PS_PST_PAGE_BYTES);
    const uint64_t data_bytes = place_weights(w);
    add_section(header, PS_PST_HEAD, PS_PST_PAGE_BYTES, head.length);
    add_section(header, PS_PST_TABLE, table_at, table_bytes);
    add_section(header, PS_PST_DATA, data_at, data_bytes);
    if (content->plans.length > 0) {
        add_section(header, PS_PST_PLANS, plans_at, content->plans.length);
    }
    header->file_bytes = data_at + data_bytes;
}

static ps_status write_weight(writer *w, uint32_t i)
{
    const ps_pst_content *content = w->content;
    const ps_pst_weight *weight = &content->weights[i];
    const ps_pst_section *data = &w->header.sections[SECTION_DATA];
    for (uint64_t at = 0; at < weight->size_bytes; at += CHUNK_BYTES) {
        if (content->cancel != NULL && *content->cancel) {
            return ps_fail(PS_CANCELLED, "cancelled");
        }
        const uint64_t left = weight->size_bytes - at;
        const uint64_t count = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        PS_TRY(ps_new_file_write(&w->file, (const char *)weight->data + at, count,
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

static ps_status write_section(writer *w, uint32_t index, const void *bytes)
{
    ps_pst_section *section = &w->header.sections[index];
    section->checksum = ps_hash(bytes, section->size_bytes, 0);
    return ps_new_file_write(&w->file, bytes, section->size_bytes, section->offset);
}

static ps_status write_all(writer *w)
{
    const ps_pst_content *content = w->content;
    ps_pst_header *header = &w->header;
    place(w);
    PS_TRY(ps_new_file_set_size(&w->file, header->file_bytes));
    for (uint32_t i = 0; i < content->weight_count; i++) {
        PS_TRY(write_weight(w, i));
    }
    PS_TRY(write_section(w, SECTION_HEAD, ps_gguf_head(content->gguf).data));
    PS_TRY(write_section(w, SECTION_TABLE, w->entries));
    if (content->plans.length > 0) {
        PS_TRY(write_section(w, SECTION_PLANS, content->plans.data));
    }
    header->checksum = ps_hash(header, sizeof *header, 0);
    return ps_new_file_write(&w->file, header, sizeof *header, 0);
}

ps_status ps_pst_write(const char *path, const ps_pst_content *content, uint64_t *out_bytes)
{
    writer w = {.content = content,
                .entries = calloc(content->weight_count + (size_t)1, sizeof *w.entries)};
    ps_status status = w.entries == NULL ? ps_fail(PS_NO_MEMORY, "no memory for a table of weights")
                                         : ps_new_file_create(&w.file, path, content->replace);
    if (status == PS_OK) {
        status = ps_new_file_finish(&w.file, write_all(&w));
    }
    free(w.entries);
    if (status != PS_OK) {
        return ps_file_name_error(path, status);
    }
    *out_bytes = w.header.file_bytes;
    return PS_OK;
}
