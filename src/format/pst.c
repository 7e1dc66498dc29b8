// format/pst.c - opens a compiled file: checks its structure once, hands out pointers into it.
//
// Invariants, once a file is open:
//
//   1. Sections lie in the file, and each name stands once.
//   2. Weights without a stack lie in the section "data", one behind the other, and stacks behind
//      them, one behind the other; names ascend, so none stands twice.
//   3. Each weight is named and typed as a tensor of the head is. A vector is as large as its
//      tensor.
//   4. Weights of a stack have as many experts as it, and lie in its records without overlapping.
#include "format/pst_internal.h"

#include "base/layout.h"
#include "format/file_map.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned long long ull;

// ---- header

static ps_status check_magic(const char *bytes, size_t size_bytes)
{
    if (size_bytes >= 8 && memcmp(bytes, PS_PST_MAGIC, 8) == 0) {
        return PS_OK;
    }
    if (size_bytes >= 4 && memcmp(bytes, "GGUF", 4) == 0) {
        return ps_fail(PS_INVALID, "a GGUF file; a compiled file is wanted (prestage compile)");
    }
    return ps_fail(PS_INVALID, "no compiled file: it does not start with '%s'", PS_PST_MAGIC);
}

static ps_status check_header(const ps_pst_header *header, uint64_t size_bytes)
{
    if (header->version != PS_PST_VERSION) {
        return ps_fail(PS_UNSUPPORTED, "a compiled file of version %u, this build reads %u%s",
                       header->version, PS_PST_VERSION,
                       header->version > PS_PST_VERSION ? ": a newer prestage reads it"
                                                        : ": compile it again");
    }
    if (header->layout != PS_LAYOUT_VERSION) {
        return ps_fail(PS_UNSUPPORTED,
                       "compiled with layout %u, this build reads %d: compile it again",
                       header->layout, PS_LAYOUT_VERSION);
    }
    if (header->file_bytes != size_bytes) {
        return ps_fail(PS_INVALID, "%s: it has %llu bytes, its header says %llu",
                       size_bytes < header->file_bytes ? "the file is cut short"
                                                       : "bytes follow the file's end",
                       (ull)size_bytes, (ull)header->file_bytes);
    }
    if (header->section_count > PS_PST_SECTIONS_MAX) {
        return ps_fail(PS_INVALID, "%u sections; at most %u are allowed", header->section_count,
                       PS_PST_SECTIONS_MAX);
    }
    return PS_OK;
}

static ps_status check_sections(const ps_pst_header *header)
{
    for (uint32_t i = 0; i < header->section_count; i++) {
        const ps_pst_section *section = &header->sections[i];
        if (section->name[0] == '\0' || section->name[sizeof section->name - 1] != '\0') {
            return ps_fail(PS_INVALID, "section %u: its name has not 1 to %zu bytes", i,
                           sizeof section->name - 1);
        }
        if (section->offset > header->file_bytes ||
            section->size_bytes > header->file_bytes - section->offset) {
            return ps_fail(PS_INVALID, "section '%s': %llu bytes at %llu of a file of %llu",
                           section->name, (ull)section->size_bytes, (ull)section->offset,
                           (ull)header->file_bytes);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(section->name, header->sections[j].name) == 0) {
                return ps_fail(PS_INVALID, "section '%s' stands in the file twice", section->name);
            }
        }
    }
    return PS_OK;
}

const ps_pst_section *ps_pst_look_up_section(const ps_pst *file, const char *name)
{
    for (uint32_t i = 0; i < file->header.section_count; i++) {
        if (strcmp(file->header.sections[i].name, name) == 0) {
            return &file->header.sections[i];
        }
    }
    return NULL;
}

ps_status ps_pst_find_section(const ps_pst *file, const char *name, const ps_pst_section **out)
{
    *out = ps_pst_look_up_section(file, name);
    return *out != NULL ? PS_OK : ps_fail(PS_INVALID, "the file has no section '%s'", name);
}

static ps_status read_header(ps_pst *file)
{
    PS_TRY(check_magic(file->bytes, file->size_bytes));
    if (file->size_bytes < sizeof file->header) {
        return ps_fail(PS_INVALID, "the file is cut short: %llu bytes, the header has %zu",
                       (ull)file->size_bytes, sizeof file->header);
    }
    memcpy(&file->header, file->bytes, sizeof file->header);
    PS_TRY(check_header(&file->header, file->size_bytes));
    return check_sections(&file->header);
}

// ---- opening

static ps_status read_file(ps_pst *file)
{
    PS_TRY(read_header(file));
    const ps_pst_section *head = NULL;
    PS_TRY(ps_pst_find_section(file, PS_PST_HEAD, &head));
    const ps_gguf_origin origin = {.size_bytes = file->header.gguf_bytes,
                                   .fingerprint = file->header.fingerprint};
    PS_TRY(ps_gguf_open_head(file->bytes + head->offset, head->size_bytes, &origin, &file->gguf));
    return ps_pst_read_tables(file);
}

// Takes a mapping over, also on failure.
static ps_status open_bytes(const void *bytes, uint64_t size_bytes, bool is_mapped, ps_pst **out)
{
    ps_pst *file = calloc(1, sizeof *file);
    if (file == NULL) {
        if (is_mapped) {
            ps_file_unmap(bytes, size_bytes);
        }
        return ps_fail(PS_NO_MEMORY, "no memory for a compiled file");
    }
    file->bytes = bytes;
    file->size_bytes = size_bytes;
    file->is_mapped = is_mapped;
    const ps_status status = read_file(file);
    if (status != PS_OK) {
        ps_pst_close(file);
        return status;
    }
    *out = file;
    return PS_OK;
}

ps_status ps_pst_open_bytes(const void *bytes, size_t size_bytes, ps_pst **out)
{
    return open_bytes(bytes, size_bytes, false, out);
}

ps_status ps_pst_open(const char *path, ps_pst **out)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    ps_status status = ps_file_map(path, "a compiled file", &bytes, &size_bytes);
    if (status == PS_OK) {
        status = open_bytes(bytes, size_bytes, true, out);
    }
    if (status != PS_OK) {
        (void)ps_file_name_error(path, status);
    }
    return status;
}

void ps_pst_close(ps_pst *file)
{
    if (file != NULL) {
        ps_gguf_close(file->gguf);
        free(file->weights);
        free(file->stacks);
        free(file->sums);
        if (file->is_mapped) {
            ps_file_unmap(file->bytes, file->size_bytes);
        }
        free(file);
    }
}

// ---- looking

uint64_t ps_pst_size_bytes(const ps_pst *file)
{
    return file->size_bytes;
}

ps_gguf *ps_pst_gguf(const ps_pst *file)
{
    return file->gguf;
}

ps_str ps_pst_plans(const ps_pst *file)
{
    const ps_pst_section *section = ps_pst_look_up_section(file, PS_PST_PLANS);
    return section == NULL || section->size_bytes == 0
               ? (ps_str){NULL, 0}
               : (ps_str){file->bytes + section->offset, section->size_bytes};
}

uint32_t ps_pst_weight_count(const ps_pst *file)
{
    return file->weight_count;
}

const ps_pst_weight *ps_pst_weight_at(const ps_pst *file, uint32_t index)
{
    ps_assert(index < file->weight_count);
    return &file->weights[index];
}

static int by_name(const void *name, const void *weight)
{
    return strcmp(name, ((const ps_pst_weight *)weight)->name);
}

const ps_pst_weight *ps_pst_weight_find(const ps_pst *file, const char *name)
{
    return bsearch(name, file->weights, file->weight_count, sizeof *file->weights, by_name);
}

uint32_t ps_pst_stack_count(const ps_pst *file)
{
    return file->stack_count;
}

const ps_pst_stack *ps_pst_stack_at(const ps_pst *file, uint32_t index)
{
    ps_assert(index < file->stack_count);
    return &file->stacks[index];
}

void ps_pst_read_ahead(const ps_pst *file)
{
    if (file->is_mapped) {
        const uint64_t begin = file->data->offset / PS_PST_PAGE_BYTES * PS_PST_PAGE_BYTES;
        const uint64_t end = file->data->offset + file->data->size_bytes;
        (void)madvise((void *)(uintptr_t)(file->bytes + begin), end - begin, MADV_WILLNEED);
    }
}

// ---- either kind

// False as well for what cannot be read: opening it says why.
static bool is_compiled(const char *path)
{
    char magic[8] = {0};
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) {
        (void)!pread(descriptor, magic, sizeof magic, 0);
        (void)close(descriptor);
    }
    return memcmp(magic, PS_PST_MAGIC, sizeof magic) == 0;
}

ps_status ps_model_file_open(const char *path, ps_model_file *out)
{
    ps_model_file file = {0};
    if (is_compiled(path)) {
        PS_TRY(ps_pst_open(path, &file.pst));
        file.gguf = ps_pst_gguf(file.pst);
    } else {
        PS_TRY(ps_gguf_open(path, &file.gguf));
    }
    *out = file;
    return PS_OK;
}

void ps_model_file_close(ps_model_file *file)
{
    if (file->pst != NULL) {
        ps_pst_close(file->pst);
    } else {
        ps_gguf_close(file->gguf);
    }
    *file = (ps_model_file){0};
}

uint64_t ps_model_file_bytes(const ps_model_file *file)
{
    return file->pst != NULL ? ps_pst_size_bytes(file->pst) : ps_gguf_size_bytes(file->gguf);
}
