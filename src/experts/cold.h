// experts/cold.h - all experts of a model in memory, as they are in their files: what a simulated
// tier (experts/tier.h) copies from.
#ifndef PS_EXPERTS_COLD_H
#define PS_EXPERTS_COLD_H

#include "experts/store.h"

typedef struct ps_cold_experts ps_cold_experts;

// Reads them. Paths are borrowed until then, layers only too.
//
// PS_NO_MEMORY  they are larger than the memory that is free
// PS_NOT_FOUND, PS_INVALID, PS_IO  as of ps_reader_open and ps_read_status
PS_MUST_USE ps_status ps_cold_experts_load(const ps_expert_files *files,
                                           const ps_expert_layer *layers, uint32_t layer_count,
                                           ps_cold_experts **out);
void ps_cold_experts_destroy(ps_cold_experts *cold); // NULL is allowed

uint64_t ps_cold_experts_bytes(const ps_cold_experts *cold); // of memory; of NULL 0

// The bytes of an expert's part, by its place in its file.
const char *ps_cold_experts_find(const ps_cold_experts *cold, uint32_t file, uint64_t offset_bytes);

#endif
