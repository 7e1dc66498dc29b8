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
    ps_pst_entry *entries;      // [content->weight_count]
    ps_pst_stack_entry *stacks; // [content->stack_count]
    uint64_t *sums;             // [sum_count], stack after stack
    uint64_t sum_count;
} writer;

static ps_pst_section *find_section(ps_pst_header *header, const char *name)
{
    uint32_t i = 0;
    while (strcmp(header->sections[i].name, name) != 0) {
        i++;
    }
    return &header->sections[i];
}

static void add_section(ps_pst_header *header, const char *name, uint64_t offset,
                        uint64_t size_bytes)
{
    ps_pst_section *section = &header->sections[header->section_count++];
    (void)snprintf(section->name, sizeof section->name, "%s", name);
    section->offset = offset;
    section->size_bytes = size_bytes;
}

static uint64_t matrix_bytes(const ps_pst_weight *weight)
{
    return weight->experts == 0 ? weight->size_bytes : weight->size_bytes / weight->experts;
}

// Places the records of a stack from `at` on, and the weights in them.
static void place_stack(writer *w, uint32_t index, uint64_t at)
{
    const ps_pst_stack_content *from = &w->content->stacks[index];
    ps_pst_stack_entry *stack = &w->stacks[index];
    *stack = (ps_pst_stack_entry){.offset = at};
    for (uint32_t i = 0; i < from->weight_count; i++) {
        const ps_pst_weight *weight = &w->content->weights[from->weights[i]];
        ps_pst_entry *entry = &w->entries[from->weights[i]];
        ps_assert(i == 0 || weight->experts == stack->experts);
        stack->experts = weight->experts;
        stack->record_bytes = ps_round_up(stack->record_bytes, PS_CACHE_LINE_BYTES);
        entry->offset = at + stack->record_bytes;
        stack->record_bytes += matrix_bytes(weight);
    }
    stack->stride_bytes = ps_round_up(stack->record_bytes, PS_PST_PAGE_BYTES);
}

// Places the weights in their section and gives its size; their checksums are still missing.
static uint64_t place_weights(writer *w)
{
    const ps_pst_content *content = w->content;
    uint64_t data_bytes = 0;
    for (uint32_t i = 0; i < content->stack_count; i++) {
        for (uint32_t j = 0; j < content->stacks[i].weight_count; j++) {
            w->entries[content->stacks[i].weights[j]].stack = i + 1;
        }
    }
    for (uint32_t i = 0; i < content->weight_count; i++) {
        const ps_pst_weight *weight = &content->weights[i];
        ps_pst_entry *entry = &w->entries[i];
        (void)snprintf(entry->name, sizeof entry->name, "%s", weight->name);
        entry->dtype = (uint32_t)ps_dtype_get(weight->dtype)->gguf_id;
        entry->outputs = weight->outputs;
        entry->inputs = weight->inputs;
        entry->experts = weight->experts;
        entry->is_vector = weight->is_vector;
        entry->size_bytes = weight->size_bytes;
        if (entry->stack == 0) {
            entry->offset = data_bytes;
            data_bytes += ps_round_up(weight->size_bytes, PS_CACHE_LINE_BYTES);
        }
    }
    for (uint32_t i = 0; i < content->stack_count; i++) {
        data_bytes = ps_round_up(data_bytes, PS_PST_PAGE_BYTES);
        place_stack(w, i, data_bytes);
        data_bytes += w->stacks[i].experts * w->stacks[i].stride_bytes;
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

    uint64_t at = PS_PST_PAGE_BYTES;
    const struct {
        const char *name;
        uint64_t size_bytes;
        bool is_there;
    } before_data[] = {
        {PS_PST_HEAD, head.length, true},
        {PS_PST_TABLE, content->weight_count * sizeof *w->entries, true},
        {PS_PST_EXPERTS, content->stack_count * sizeof *w->stacks, content->stack_count > 0},
        {PS_PST_SUMS, w->sum_count * sizeof *w->sums, content->stack_count > 0},
        {PS_PST_PLANS, content->plans.length, content->plans.length > 0}};
    for (size_t i = 0; i < sizeof before_data / sizeof before_data[0]; i++) {
        if (before_data[i].is_there) {
            add_section(header, before_data[i].name, at, before_data[i].size_bytes);
            at = ps_round_up(at + before_data[i].size_bytes, PS_CACHE_LINE_BYTES);
        }
    }
    at = ps_round_up(at, PS_PST_PAGE_BYTES);
    const uint64_t data_bytes = place_weights(w);
    add_section(header, PS_PST_DATA, at, data_bytes);
    header->file_bytes = at + data_bytes;
}

// A part of the section "data".
static ps_status write_data(writer *w, const char *bytes, uint64_t size_bytes, uint64_t offset)
{
    const ps_pst_content *content = w->content;
    const ps_pst_section *data = find_section(&w->header, PS_PST_DATA);
    for (uint64_t at = 0; at < size_bytes; at += CHUNK_BYTES) {
        if (content->cancel != NULL && *content->cancel) {
            return ps_fail(PS_CANCELLED, "cancelled");
        }
        const uint64_t left = size_bytes - at;
        const uint64_t count = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        PS_TRY(ps_new_file_write(&w->file, bytes + at, count, data->offset + offset + at));
        w->written_bytes += count;
        if (content->progress != NULL) {
            content->progress(content->progress_context,
                              (double)w->written_bytes / (double)data->size_bytes);
        }
    }
    return PS_OK;
}

static ps_status write_weight(writer *w, uint32_t i)
{
    const ps_pst_weight *weight = &w->content->weights[i];
    w->entries[i].checksum = ps_hash(weight->data, weight->size_bytes, 0);
    return write_data(w, weight->data, weight->size_bytes, w->entries[i].offset);
}

// record [record_bytes] holds each expert in turn; what is between matrices stays 0.
static ps_status write_records(writer *w, uint32_t index, uint64_t *sums, char *record)
{
    const ps_pst_stack_content *from = &w->content->stacks[index];
    const ps_pst_stack_entry *stack = &w->stacks[index];
    for (uint32_t e = 0; e < stack->experts; e++) {
        for (uint32_t i = 0; i < from->weight_count; i++) {
            const ps_pst_weight *weight = &w->content->weights[from->weights[i]];
            memcpy(record + (w->entries[from->weights[i]].offset - stack->offset),
                   (const char *)weight->data + e * weight->expert_stride_bytes,
                   matrix_bytes(weight));
        }
        sums[e] = ps_hash(record, stack->record_bytes, 0);
        PS_TRY(write_data(w, record, stack->record_bytes, stack->offset + e * stack->stride_bytes));
    }
    return PS_OK;
}

static ps_status write_stacks(writer *w)
{
    uint64_t *sums = w->sums;
    for (uint32_t i = 0; i < w->content->stack_count; i++) {
        char *record = calloc(1, w->stacks[i].record_bytes);
        if (record == NULL) {
            return ps_fail(PS_NO_MEMORY, "no memory for an expert of %llu bytes",
                           (unsigned long long)w->stacks[i].record_bytes);
        }
        const ps_status status = write_records(w, i, sums, record);
        free(record);
        PS_TRY(status);
        sums += w->stacks[i].experts;
    }
    return PS_OK;
}

static ps_status write_section(writer *w, const char *name, const void *bytes)
{
    ps_pst_section *section = find_section(&w->header, name);
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
        if (w->entries[i].stack == 0) {
            PS_TRY(write_weight(w, i));
        }
    }
    PS_TRY(write_stacks(w));
    PS_TRY(write_section(w, PS_PST_HEAD, ps_gguf_head(content->gguf).data));
    PS_TRY(write_section(w, PS_PST_TABLE, w->entries));
    if (content->stack_count > 0) {
        PS_TRY(write_section(w, PS_PST_EXPERTS, w->stacks));
        PS_TRY(write_section(w, PS_PST_SUMS, w->sums));
    }
    if (content->plans.length > 0) {
        PS_TRY(write_section(w, PS_PST_PLANS, content->plans.data));
    }
    header->checksum = ps_hash(header, sizeof *header, 0);
    return ps_new_file_write(&w->file, header, sizeof *header, 0);
}

static ps_status allocate_tables(writer *w)
{
    const ps_pst_content *content = w->content;
    for (uint32_t i = 0; i < content->stack_count; i++) {
        w->sum_count += content->weights[content->stacks[i].weights[0]].experts;
    }
    w->entries = calloc(content->weight_count + (size_t)1, sizeof *w->entries);
    w->stacks = calloc(content->stack_count + (size_t)1, sizeof *w->stacks);
    w->sums = calloc(w->sum_count + 1, sizeof *w->sums);
    return w->entries != NULL && w->stacks != NULL && w->sums != NULL
               ? PS_OK
               : ps_fail(PS_NO_MEMORY, "no memory for a table of weights");
}

ps_status ps_pst_write(const char *path, const ps_pst_content *content, uint64_t *out_bytes)
{
    writer w = {.content = content};
    ps_status status = allocate_tables(&w);
    if (status == PS_OK) {
        status = ps_new_file_create(&w.file, path, content->replace);
    }
    if (status == PS_OK) {
        status = ps_new_file_finish(&w.file, write_all(&w));
    }
    free(w.entries);
    free(w.stacks);
    free(w.sums);
    if (status != PS_OK) {
        return ps_file_name_error(path, status);
    }
    *out_bytes = w.header.file_bytes;
    return PS_OK;
}
