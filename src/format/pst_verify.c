// format/pst_verify.c - reads a whole compiled file and compares its checksums.
#include "format/pst_internal.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

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
