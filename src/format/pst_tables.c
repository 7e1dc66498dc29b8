// format/pst_tables.c - where the weights of a compiled file are: each entry is checked once.
#include "format/pst_internal.h"

#include "base/layout.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

// The bytes of a table of at most PS_GGUF_ENTRIES_MAX entries.
static ps_status find_table(const ps_pst *file, const char *name, uint64_t entry_bytes,
                            const char **out, uint64_t *out_count)
{
    const ps_pst_section *table = NULL;
    PS_TRY(ps_pst_find_section(file, name, &table));
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
    PS_TRY(ps_pst_find_section(file, PS_PST_SUMS, &section));
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
    if (ps_pst_look_up_section(file, PS_PST_EXPERTS) == NULL) {
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

// Sums are those of places inside the file, so they fit.
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

ps_status ps_pst_read_tables(ps_pst *file)
{
    PS_TRY(ps_pst_find_section(file, PS_PST_DATA, &file->data));
    if (file->data->offset % PS_PST_PAGE_BYTES != 0) { // kernels want weights at 64 bytes
        return ps_fail(PS_INVALID, "section '%s' at %llu; a multiple of %llu would be right",
                       PS_PST_DATA, (ull)file->data->offset, (ull)PS_PST_PAGE_BYTES);
    }
    PS_TRY(read_stacks(file));
    return read_weights(file);
}
