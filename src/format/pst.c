// format/pst.c - opens a compiled file: checks its structure once, hands out pointers into it.
//
// Invariants, once a file is open:
//
//   1. Sections lie in the file, and each name stands once.
//   2. Weights lie in the section "data", one behind the other; names ascend, so none stands twice.
//   3. Each weight is named and typed as a tensor of the head is. A vector is as large as its
//      tensor.
#include "format/pst_internal.h"

#include "base/hash.h"
#include "base/layout.h"
#include "format/file_map.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned long long ull;

struct ps_pst {
    const char *bytes;
    uint64_t size_bytes;
    bool is_mapped;
    ps_pst_header header;
    const ps_pst_section *data; // in header
    ps_gguf *gguf;
    ps_pst_weight *weights; // [weight_count], sorted by name
    uint32_t weight_count;
};

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

// NULL when there is none.
static const ps_pst_section *look_up_section(const ps_pst *file, const char *name)
{
    for (uint32_t i = 0; i < file->header.section_count; i++) {
        if (strcmp(file->header.sections[i].name, name) == 0) {
            return &file->header.sections[i];
        }
    }
    return NULL;
}

static ps_status find_section(const ps_pst *file, const char *name, const ps_pst_section **out)
{
    *out = look_up_section(file, name);
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

// ---- weights

static ps_status check_place(const ps_pst *file, const ps_pst_entry *entry, uint64_t *end)
{
    if (entry->offset % PS_CACHE_LINE_BYTES != 0 || entry->offset < *end ||
        entry->offset > file->data->size_bytes ||
        entry->size_bytes > file->data->size_bytes - entry->offset) {
        return ps_fail(PS_INVALID,
                       "%llu bytes at %llu; a multiple of %d from %llu on, inside %llu bytes, "
                       "would be right",
                       (ull)entry->size_bytes, (ull)entry->offset, PS_CACHE_LINE_BYTES, (ull)*end,
                       (ull)file->data->size_bytes);
    }
    *end = entry->offset + entry->size_bytes;
    return PS_OK;
}

static ps_status check_tensor(const ps_gguf_tensor *tensor, const ps_pst_entry *entry)
{
    if (tensor == NULL) {
        return ps_fail(PS_INVALID, "no tensor of the model has that name");
    }
    if (tensor->dtype == PS_DTYPE_COUNT || tensor->dtype != ps_dtype_by_gguf_id(entry->dtype)) {
        return ps_fail(PS_INVALID, "type %u; the tensor is %s", entry->dtype, tensor->type_name);
    }
    if (entry->is_vector > 1 ||
        (entry->is_vector == 1 &&
         (tensor->dtype != PS_DTYPE_F32 || tensor->size_bytes != entry->size_bytes))) {
        return ps_fail(PS_INVALID, "a vector of %llu bytes; the tensor is %s of %llu bytes",
                       (ull)entry->size_bytes, tensor->type_name, (ull)tensor->size_bytes);
    }
    return PS_OK;
}

static ps_status take_weight(ps_pst *file, const ps_pst_entry *entry, uint64_t *end)
{
    const ps_gguf_tensor *tensor = ps_gguf_tensor_find(file->gguf, entry->name);
    PS_TRY(check_tensor(tensor, entry));
    PS_TRY(check_place(file, entry, end));
    ps_pst_weight *weight = &file->weights[file->weight_count];
    *weight = (ps_pst_weight){
        .name = tensor->name,
        .dtype = tensor->dtype,
        .outputs = entry->outputs,
        .inputs = entry->inputs,
        .experts = entry->experts,
        .is_vector = entry->is_vector == 1,
        .data = file->bytes + file->data->offset + entry->offset,
        .size_bytes = entry->size_bytes,
        .checksum = entry->checksum,
    };
    const bool ascends = file->weight_count == 0 || strcmp(weight[-1].name, weight->name) < 0;
    if (!ascends) {
        return ps_fail(PS_INVALID, "it stands behind '%s'; ascending names would be right",
                       weight[-1].name);
    }
    if (weight->is_vector) {
        ps_gguf_tensor_attach(file->gguf, weight->name, weight->data);
    }
    file->weight_count++;
    return PS_OK;
}

static ps_status read_weights(ps_pst *file)
{
    const ps_pst_section *table = NULL;
    PS_TRY(find_section(file, PS_PST_TABLE, &table));
    PS_TRY(find_section(file, PS_PST_DATA, &file->data));
    const uint64_t count = table->size_bytes / sizeof(ps_pst_entry);
    if (table->size_bytes % sizeof(ps_pst_entry) != 0 || count > PS_GGUF_ENTRIES_MAX) {
        return ps_fail(PS_INVALID,
                       "a table of %llu bytes; entries of %zu, at most %llu of them, "
                       "would be right",
                       (ull)table->size_bytes, sizeof(ps_pst_entry), (ull)PS_GGUF_ENTRIES_MAX);
    }
    if (file->data->offset % PS_PST_PAGE_BYTES != 0) { // kernels want weights at 64 bytes
        return ps_fail(PS_INVALID, "section '%s' at %llu; a multiple of %llu would be right",
                       PS_PST_DATA, (ull)file->data->offset, (ull)PS_PST_PAGE_BYTES);
    }
    file->weights = calloc(count + 1, sizeof *file->weights);
    if (file->weights == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the table of weights");
    }
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        ps_pst_entry entry;
        memcpy(&entry, file->bytes + table->offset + i * sizeof entry, sizeof entry);
        if (entry.name[sizeof entry.name - 1] != '\0') {
            return ps_fail(PS_INVALID, "weight %llu: its name has no end", (ull)i);
        }
        const ps_status status = take_weight(file, &entry, &end);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "weight '%s'", entry.name);
        }
    }
    return PS_OK;
}

// ---- opening

static ps_status read_file(ps_pst *file)
{
    PS_TRY(read_header(file));
    const ps_pst_section *head = NULL;
    PS_TRY(find_section(file, PS_PST_HEAD, &head));
    const ps_gguf_origin origin = {.size_bytes = file->header.gguf_bytes,
                                   .fingerprint = file->header.fingerprint};
    PS_TRY(ps_gguf_open_head(file->bytes + head->offset, head->size_bytes, &origin, &file->gguf));
    return read_weights(file);
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
    const ps_pst_section *section = look_up_section(file, PS_PST_PLANS);
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

void ps_pst_read_ahead(const ps_pst *file)
{
    if (file->is_mapped) {
        const uint64_t begin = file->data->offset / PS_PST_PAGE_BYTES * PS_PST_PAGE_BYTES;
        const uint64_t end = file->data->offset + file->data->size_bytes;
        (void)madvise((void *)(uintptr_t)(file->bytes + begin), end - begin, MADV_WILLNEED);
    }
}

static uint32_t verify_header(const ps_pst *file, const ps_pst_listener *listener)
{
    ps_pst_header header = file->header;
    header.checksum = 0;
    if (ps_hash(&header, sizeof header, 0) == file->header.checksum) {
        return 0;
    }
    listener->report(listener->context, "header", "");
    return 1;
}

static uint32_t verify_sections(const ps_pst *file, const ps_pst_listener *listener)
{
    uint32_t damaged = 0;
    for (uint32_t i = 0; i < file->header.section_count; i++) {
        const ps_pst_section *section = &file->header.sections[i];
        if (section != file->data &&
            ps_hash(file->bytes + section->offset, section->size_bytes, 0) != section->checksum) {
            damaged++;
            listener->report(listener->context, "section", section->name);
        }
    }
    return damaged;
}

// Of the bytes of all weights, those up to the end of this one.
static double share_before_end_of(const ps_pst *file, uint32_t index)
{
    const ps_pst_weight *weight = &file->weights[index];
    const ps_pst_weight *last = &file->weights[file->weight_count - 1];
    const char *begin = file->bytes + file->data->offset;
    const uint64_t all = (uint64_t)((const char *)last->data - begin) + last->size_bytes;
    const uint64_t done = (uint64_t)((const char *)weight->data - begin) + weight->size_bytes;
    return all == 0 ? 1 : (double)done / (double)all;
}

uint32_t ps_pst_verify(const ps_pst *file, const ps_pst_listener *listener)
{
    uint32_t damaged = verify_header(file, listener) + verify_sections(file, listener);
    for (uint32_t i = 0; i < file->weight_count; i++) {
        const ps_pst_weight *weight = &file->weights[i];
        if (ps_hash(weight->data, weight->size_bytes, 0) != weight->checksum) {
            damaged++;
            listener->report(listener->context, "weight", weight->name);
        }
        if (listener->progress != NULL) {
            listener->progress(listener->context, share_before_end_of(file, i));
        }
    }
    return damaged;
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
