// experts/cold.c - each layer's part is a range of a file, and of memory, read in large pieces.
#include "experts/cold.h"

#include "base/memory.h"
#include "base/pages.h"
#include "hw/machine.h"

#include <stdatomic.h>
#include <stdlib.h>

// Whole blocks, so that pieces of a range do not overlap where reads are widened.
#define PIECE_BYTES ((uint64_t)4 << 20)

typedef struct range {
    uint32_t file;
    uint64_t start_bytes, end_bytes; // in the file
    uint64_t first_bytes;            // start, down to a block: what memory starts with
    char *memory;
} range;

struct ps_cold_experts {
    range *ranges;
    uint32_t range_count;
    char *memory;
    uint64_t memory_bytes;
};

static uint64_t span_bytes(const range *r)
{
    return ps_round_up(r->end_bytes - r->first_bytes, PS_READ_ALIGN_BYTES);
}

static void add_range(ps_cold_experts *cold, const ps_expert_part *part, uint32_t experts)
{
    range *r = &cold->ranges[cold->range_count++];
    *r = (range){.file = part->file,
                 .start_bytes = part->offset_bytes,
                 .end_bytes = part->offset_bytes + (experts - 1) * part->stride_bytes +
                              part->size_bytes,
                 .first_bytes = part->offset_bytes - part->offset_bytes % PS_READ_ALIGN_BYTES};
    cold->memory_bytes += span_bytes(r);
}

static ps_status make_ranges(ps_cold_experts *cold, const ps_expert_layer *layers,
                             uint32_t layer_count)
{
    cold->ranges = calloc((size_t)layer_count * PS_EXPERT_PARTS_MAX, sizeof *cold->ranges);
    if (cold->ranges == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a list of experts");
    }
    for (uint32_t l = 0; l < layer_count; l++) {
        for (uint32_t p = 0; p < layers[l].part_count; p++) {
            add_range(cold, &layers[l].parts[p], layers[l].experts);
        }
    }
    void *memory;
    PS_TRY(ps_machine_check_memory(cold->memory_bytes, "all experts, as the slow tier,"));
    PS_TRY(ps_pages_map(cold->memory_bytes, "experts", &memory));
    cold->memory = memory;
    for (uint32_t i = 0; i < cold->range_count; i++) {
        cold->ranges[i].memory = memory;
        memory = (char *)memory + span_bytes(&cold->ranges[i]);
    }
    return PS_OK;
}

static void count_down(ps_read *read)
{
    _Atomic uint64_t *left = read->context;
    atomic_fetch_sub_explicit(left, 1, memory_order_release);
}

static ps_status read_pieces(ps_reader *reader, const range *r, ps_read *reads, uint64_t count)
{
    _Atomic uint64_t left = count;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t from = r->first_bytes + i * PIECE_BYTES;
        const uint64_t start = from > r->start_bytes ? from : r->start_bytes;
        const uint64_t end = from + PIECE_BYTES < r->end_bytes ? from + PIECE_BYTES : r->end_bytes;
        reads[i] = (ps_read){.file = r->file,
                             .offset_bytes = start,
                             .size_bytes = end - start,
                             .memory = r->memory + i * PIECE_BYTES,
                             .done = count_down,
                             .context = &left};
        ps_reader_submit(reader, &reads[i]);
    }
    for (uint64_t done = ps_reader_done_count(reader);
         atomic_load_explicit(&left, memory_order_acquire) > 0;
         done = ps_reader_done_count(reader)) {
        ps_reader_wait(reader, done);
    }
    for (uint64_t i = 0; i < count; i++) {
        PS_TRY(ps_read_status(reader, &reads[i]));
    }
    return PS_OK;
}

static ps_status read_ranges(ps_cold_experts *cold, const ps_expert_files *files, ps_reader *reader)
{
    for (uint32_t i = 0; i < files->path_count; i++) {
        uint32_t file;
        PS_TRY(ps_reader_open(reader, files->paths[i], &file));
        ps_assert(file == i);
    }
    for (uint32_t i = 0; i < cold->range_count; i++) {
        const range *r = &cold->ranges[i];
        const uint64_t count = ps_divide_up(span_bytes(r), PIECE_BYTES);
        ps_read *reads = calloc(count, sizeof *reads);
        const ps_status status = reads == NULL ? ps_fail(PS_NO_MEMORY, "no memory to read experts")
                                               : read_pieces(reader, r, reads, count);
        free(reads);
        PS_TRY(status);
    }
    return PS_OK;
}

static ps_status load(ps_cold_experts *cold, const ps_expert_files *files,
                      const ps_expert_layer *layers, uint32_t layer_count)
{
    PS_TRY(make_ranges(cold, layers, layer_count));
    ps_reader *reader = NULL;
    PS_TRY(ps_reader_create(&files->reader, &reader));
    const ps_status status = read_ranges(cold, files, reader);
    ps_reader_destroy(reader);
    return status;
}

ps_status ps_cold_experts_load(const ps_expert_files *files, const ps_expert_layer *layers,
                               uint32_t layer_count, ps_cold_experts **out)
{
    ps_cold_experts *cold = calloc(1, sizeof *cold);
    if (cold == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for experts");
    }
    const ps_status status = load(cold, files, layers, layer_count);
    if (status != PS_OK) {
        ps_cold_experts_destroy(cold);
        return status;
    }
    *out = cold;
    return PS_OK;
}

void ps_cold_experts_destroy(ps_cold_experts *cold)
{
    if (cold == NULL) {
        return;
    }
    ps_pages_unmap(cold->memory, cold->memory_bytes);
    free(cold->ranges);
    free(cold);
}

uint64_t ps_cold_experts_bytes(const ps_cold_experts *cold)
{
    return cold == NULL ? 0 : cold->memory_bytes;
}

const char *ps_cold_experts_find(const ps_cold_experts *cold, uint32_t file, uint64_t offset_bytes)
{
    const range *r = cold->ranges;
    while (r->file != file || offset_bytes < r->start_bytes || offset_bytes >= r->end_bytes) {
        r++;
        ps_assert(r < cold->ranges + cold->range_count);
    }
    return r->memory + (offset_bytes - r->first_bytes);
}
