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

#include "base/hash.h"
#include "base/layout.h"
#include "format/file_map.h"

#include <fcntl.h>
#include <stdio.h>
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
    ps_pst_stack *stacks; // [stack_count], in the order of the data
    uint32_t stack_count;
    uint64_t *sums; // of all stacks
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

// ---- tables

// The bytes of a table of at most PS_GGUF_ENTRIES_MAX entries.
static ps_status find_table(const ps_pst *file, const char *name, uint64_t entry_bytes,
                            const char **out, uint64_t *out_count)
{
    const ps_pst_section *table = NULL;
    PS_TRY(find_section(file, name, &table));
    const uint64_t count = table->size_bytes / entry_bytes;
    if (table->size_bytes % entry_bytes != 0 || count > PS_GGUF_ENTRIES_MAX) {
        return ps_fail(
            PS_INVALID,
            "section '%s': a table of %llu bytes; entries of %llu, at most %llu of them, "
            "would be right",
            name, (ull)table->size_bytes, (ull)entry_bytes, (ull)PS_GGUF_ENTRIES_MAX);
    }
    *out = file->bytes + table->offset;
    *out_count = count;
    return PS_OK;
}

// ---- stacks

static ps_status check_stack(const ps_pst *file, const ps_pst_stack_entry *entry, uint64_t *end)
{
    const uint64_t room = file->data->size_bytes;
    uint64_t before_last = 0; // bytes of all records but the last one
    const bool is_cut = entry->experts > 0 && entry->record_bytes > 0 &&
                        entry->record_bytes <= entry->stride_bytes &&
                        entry->stride_bytes % PS_PST_PAGE_BYTES == 0 &&
                        entry->offset % PS_PST_PAGE_BYTES == 0;
    if (!is_cut || entry->offset < *end || entry->offset > room ||
        !ps_checked_mul(entry->experts - (uint64_t)1, entry->stride_bytes, &before_last) ||
        before_last > room - entry->offset ||
        entry->record_bytes > room - entry->offset - before_last) {
        return ps_fail(PS_INVALID,
                       "%u records of %llu bytes, one every %llu bytes from %llu on; multiples of "
                       "%llu from %llu on, inside %llu bytes, would be right",
                       entry->experts, (ull)entry->record_bytes, (ull)entry->stride_bytes,
                       (ull)entry->offset, (ull)PS_PST_PAGE_BYTES, (ull)*end, (ull)room);
    }
    *end = entry->offset + before_last + entry->record_bytes;
    return PS_OK;
}

// taken: checksums, of `sums`, of the stacks before.
static ps_status take_stack(ps_pst *file, const ps_pst_stack_entry *entry, uint64_t sums,
                            uint64_t *taken, uint64_t *end)
{
    PS_TRY(check_stack(file, entry, end));
    if (entry->experts > sums - *taken) {
        return ps_fail(PS_INVALID, "%u experts; section '%s' has %llu more checksums",
                       entry->experts, PS_PST_SUMS, (ull)(sums - *taken));
    }
    file->stacks[file->stack_count++] = (ps_pst_stack){
        .experts = entry->experts,
        .data = file->bytes + file->data->offset + entry->offset,
        .offset_bytes = file->data->offset + entry->offset,
        .stride_bytes = entry->stride_bytes,
        .record_bytes = entry->record_bytes,
        .checksums = file->sums + *taken};
    *taken += entry->experts;
    return PS_OK;
}

static ps_status read_sums(ps_pst *file, uint64_t *out_count)
{
    const ps_pst_section *section = NULL;
    PS_TRY(find_section(file, PS_PST_SUMS, &section));
    if (section->size_bytes % sizeof *file->sums != 0) {
        return ps_fail(PS_INVALID, "section '%s' has %llu bytes; a multiple of %zu would be right",
                       PS_PST_SUMS, (ull)section->size_bytes, sizeof *file->sums);
    }
    file->sums = malloc(section->size_bytes + 1);
    if (file->sums == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the checksums of experts");
    }
    memcpy(file->sums, file->bytes + section->offset, section->size_bytes);
    *out_count = section->size_bytes / sizeof *file->sums;
    return PS_OK;
}

static ps_status read_stacks(ps_pst *file)
{
    if (look_up_section(file, PS_PST_EXPERTS) == NULL) {
        return PS_OK;
    }
    const char *table = NULL;
    uint64_t count = 0;
    uint64_t end = 0;
    uint64_t sums = 0;
    PS_TRY(find_table(file, PS_PST_EXPERTS, sizeof(ps_pst_stack_entry), &table, &count));
    PS_TRY(read_sums(file, &sums));
    file->stacks = calloc(count + 1, sizeof *file->stacks);
    if (file->stacks == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the table of experts");
    }
    uint64_t taken = 0;
    for (uint64_t i = 0; i < count; i++) {
        ps_pst_stack_entry entry;
        memcpy(&entry, table + i * sizeof entry, sizeof entry);
        const ps_status status = take_stack(file, &entry, sums, &taken, &end);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "experts of layer %llu", (ull)i);
        }
    }
    return taken == sums ? PS_OK
                         : ps_fail(PS_INVALID, "section '%s' has %llu checksums for %llu experts",
                                   PS_PST_SUMS, (ull)sums, (ull)taken);
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
    if (entry->experts > 0 && (entry->is_vector == 1 || entry->size_bytes % entry->experts != 0)) {
        return ps_fail(PS_INVALID,
                       "%llu bytes of %u experts; equally large matrices would be right",
                       (ull)entry->size_bytes, entry->experts);
    }
    return PS_OK;
}

static bool is_apart(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b ? a_bytes <= b - a : b_bytes <= a - b;
}

// Of all places that are looked at the sums are inside the file.
static ps_status check_place_in_stack(const ps_pst *file, const ps_pst_entry *entry)
{
    if (entry->stack > file->stack_count) {
        return ps_fail(PS_INVALID, "stack %u; the file has %u", entry->stack, file->stack_count);
    }
    const ps_pst_stack *stack = &file->stacks[entry->stack - 1];
    if (entry->experts != stack->experts || stack->weight_count == PS_PST_STACK_WEIGHTS_MAX) {
        return ps_fail(PS_INVALID,
                       "%u experts, in records of %u, behind %u weights; as many experts, and at "
                       "most %u weights, would be right",
                       entry->experts, stack->experts, stack->weight_count,
                       PS_PST_STACK_WEIGHTS_MAX);
    }
    const uint64_t matrix = entry->size_bytes / entry->experts;
    const uint64_t first = stack->offset_bytes - file->data->offset;
    bool fits = entry->offset % PS_CACHE_LINE_BYTES == 0 && entry->offset >= first &&
                entry->offset - first <= stack->record_bytes &&
                matrix <= stack->record_bytes - (entry->offset - first);
    for (uint32_t i = 0; i < stack->weight_count && fits; i++) {
        const ps_pst_weight *other = stack->weights[i];
        fits = is_apart(file->data->offset + entry->offset, matrix, other->offset_bytes,
                        other->size_bytes / other->experts);
    }
    return fits ? PS_OK
                : ps_fail(PS_INVALID,
                          "matrices of %llu bytes at %llu; a multiple of %d, in a record of %llu "
                          "at %llu and apart from others, would be right",
                          (ull)matrix, (ull)entry->offset, PS_CACHE_LINE_BYTES,
                          (ull)stack->record_bytes, (ull)first);
}

static uint64_t expert_stride(const ps_pst *file, const ps_pst_entry *entry)
{
    return entry->stack > 0     ? file->stacks[entry->stack - 1].stride_bytes
           : entry->experts > 0 ? entry->size_bytes / entry->experts
                                : 0;
}

static ps_status take_weight(ps_pst *file, const ps_pst_entry *entry, uint64_t *end)
{
    const ps_gguf_tensor *tensor = ps_gguf_tensor_find(file->gguf, entry->name);
    PS_TRY(check_tensor(tensor, entry));
    PS_TRY(entry->stack > 0 ? check_place_in_stack(file, entry) : check_place(file, entry, end));
    ps_pst_weight *weight = &file->weights[file->weight_count];
    ps_pst_stack *stack = entry->stack > 0 ? &file->stacks[entry->stack - 1] : NULL;
    *weight = (ps_pst_weight){
        .name = tensor->name,
        .dtype = tensor->dtype,
        .outputs = entry->outputs,
        .inputs = entry->inputs,
        .experts = entry->experts,
        .is_vector = entry->is_vector == 1,
        .data = file->bytes + file->data->offset + entry->offset,
        .expert_stride_bytes = expert_stride(file, entry),
        .size_bytes = entry->size_bytes,
        .offset_bytes = file->data->offset + entry->offset,
        .stack = stack,
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
    if (stack != NULL) {
        stack->weights[stack->weight_count++] = weight;
    }
    file->weight_count++;
    return PS_OK;
}

static ps_status read_weights(ps_pst *file)
{
    const char *table = NULL;
    uint64_t count = 0;
    PS_TRY(find_table(file, PS_PST_TABLE, sizeof(ps_pst_entry), &table, &count));
    file->weights = calloc(count + 1, sizeof *file->weights);
    if (file->weights == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for the table of weights");
    }
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        ps_pst_entry entry;
        memcpy(&entry, table + i * sizeof entry, sizeof entry);
        if (entry.name[sizeof entry.name - 1] != '\0') {
            return ps_fail(PS_INVALID, "weight %llu: its name has no end", (ull)i);
        }
        const ps_status status = take_weight(file, &entry, &end);
        if (status != PS_OK) {
            return ps_fail_prefix(status, "weight '%s'", entry.name);
        }
    }
    if (file->stack_count > 0 && file->stacks[0].offset_bytes - file->data->offset < end) {
        return ps_fail(PS_INVALID,
                       "experts at %llu; behind all other weights, from %llu on, would "
                       "be right",
                       (ull)(file->stacks[0].offset_bytes - file->data->offset), (ull)end);
    }
    return PS_OK;
}

static ps_status read_data(ps_pst *file)
{
    PS_TRY(find_section(file, PS_PST_DATA, &file->data));
    if (file->data->offset % PS_PST_PAGE_BYTES != 0) { // kernels want weights at 64 bytes
        return ps_fail(PS_INVALID, "section '%s' at %llu; a multiple of %llu would be right",
                       PS_PST_DATA, (ull)file->data->offset, (ull)PS_PST_PAGE_BYTES);
    }
    PS_TRY(read_stacks(file));
    return read_weights(file);
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
    return read_data(file);
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

// ---- verifying

typedef struct verification {
    const ps_pst *file;
    const ps_pst_listener *listener;
    uint64_t all_bytes, done_bytes; // of weights and experts
    uint32_t damaged;
} verification;

static void compare(verification *v, bool is_right, const char *what, const char *name)
{
    if (!is_right) {
        v->damaged++;
        v->listener->report(v->listener->context, what, name);
    }
}

static void verify_header(verification *v)
{
    ps_pst_header header = v->file->header;
    header.checksum = 0;
    compare(v, ps_hash(&header, sizeof header, 0) == v->file->header.checksum, "header", "");
}

static void verify_sections(verification *v)
{
    const ps_pst *file = v->file;
    for (uint32_t i = 0; i < file->header.section_count; i++) {
        const ps_pst_section *section = &file->header.sections[i];
        if (section != file->data) {
            compare(v,
                    ps_hash(file->bytes + section->offset, section->size_bytes, 0) ==
                        section->checksum,
                    "section", section->name);
        }
    }
}

static void count_done(verification *v, uint64_t bytes)
{
    v->done_bytes += bytes;
    if (v->listener->progress != NULL) {
        v->listener->progress(v->listener->context,
                              v->all_bytes == 0 ? 1 : (double)v->done_bytes / (double)v->all_bytes);
    }
}

// "blk.7" of "blk.7.ffn_up_exps.weight".
static int layer_length(const char *name)
{
    const char *dot = strchr(name, '.');
    dot = dot == NULL ? NULL : strchr(dot + 1, '.');
    return dot == NULL ? (int)strlen(name) : (int)(dot - name);
}

static void verify_stack(verification *v, const ps_pst_stack *stack)
{
    const char *layer = stack->weight_count == 0 ? "?" : stack->weights[0]->name;
    for (uint32_t e = 0; e < stack->experts; e++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%u of %.*s", e, layer_length(layer), layer);
        const char *record = (const char *)stack->data + e * stack->stride_bytes;
        compare(v, ps_hash(record, stack->record_bytes, 0) == stack->checksums[e], "expert", name);
        count_done(v, stack->record_bytes);
    }
}

uint32_t ps_pst_verify(const ps_pst *file, const ps_pst_listener *listener)
{
    verification v = {.file = file, .listener = listener};
    verify_header(&v);
    verify_sections(&v);
    for (uint32_t i = 0; i < file->weight_count; i++) {
        v.all_bytes += file->weights[i].stack == NULL ? file->weights[i].size_bytes : 0;
    }
    for (uint32_t i = 0; i < file->stack_count; i++) {
        v.all_bytes += file->stacks[i].experts * file->stacks[i].record_bytes;
    }
    for (uint32_t i = 0; i < file->weight_count; i++) {
        const ps_pst_weight *weight = &file->weights[i];
        if (weight->stack == NULL) {
            compare(&v, ps_hash(weight->data, weight->size_bytes, 0) == weight->checksum, "weight",
                    weight->name);
            count_done(&v, weight->size_bytes);
        }
    }
    for (uint32_t i = 0; i < file->stack_count; i++) {
        verify_stack(&v, &file->stacks[i]);
    }
    return v.damaged;
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
