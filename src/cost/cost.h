// cost/cost.h - how long one operator takes on one machine. Pure.
#ifndef PS_COST_H
#define PS_COST_H

#include "base/ops.h"
#include "hw/machine.h"

// What an operator does, all workers together.
typedef struct ps_work {
    uint64_t memory_bytes; // read from DRAM
    uint64_t cache_bytes;  // read and written, expected in L2
    uint64_t int8_ops;     // multiply-adds of int8
    uint64_t f32_ops;      // multiply-adds of f32
} ps_work;

// Nanoseconds: the slowest of memory, cache, integer and float units, each at the machine's
// measured rate. This is the roofline with every efficiency 1, as the rates are achieved ones.
uint64_t ps_cost_work_ns(const ps_machine *machine, const ps_work *work);

// Nanoseconds of a collective of so many ranks that moves ps_cost_moved_bytes, as the machine's
// profile shapes it: comm_ns + steps * comm_step_ns + bytes that pass a rank / comm_gbs. Over
// several servers a sum is halved inside each, made whole between them piece by piece, and gathered
// inside again.
double ps_cost_collective_ns(const ps_machine *machine, ps_op op, uint32_t ranks, uint64_t bytes);

// Bytes that a rank sends to others or receives of them, where a collective makes `rows` rows of
// `row_bytes` whole: all of an all_reduce or an all_gather of columns; where ranks have their own
// rows, the others' rows; of the best logits, a number and an id each.
uint64_t ps_cost_moved_bytes(ps_op op, const ps_op_attributes *attributes, uint32_t rows,
                             uint64_t row_bytes);

// Nanoseconds of work whose result is summed over the ranks in chunks: while one is under way, the
// next is computed.
uint64_t ps_cost_fused_ns(const ps_machine *machine, uint64_t work_ns, uint32_t ranks,
                          uint64_t bytes, uint32_t chunks);

// Bytes a nanosecond at which weights, or the KV of so many heads of this rank, are read from
// memory and from L2. pieces: rows times heads, of attention. Parts of
// heads are allowed; less than two are one.
double ps_cost_weight_gbs(const ps_machine *machine, bool is_cached);
double ps_cost_kv_gbs(const ps_machine *machine, double heads, double pieces, bool is_cached);

#endif
