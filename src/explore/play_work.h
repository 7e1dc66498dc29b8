// explore/play_work.h - what one step of a plan reads and computes in a step of some rows. For
// play.c alone.
#ifndef PS_EXPLORE_PLAY_WORK_H
#define PS_EXPLORE_PLAY_WORK_H

#include "explore/play.h"

typedef struct ps_play_work {
    const ps_plan *plan;
    const ps_machine *machine;
    const ps_play_options *options;
} ps_play_work;

// Rows of an activation.
uint64_t ps_play_rows(const ps_play_work *w, const ps_plan_value *value);

// Of a stack of experts, the part that the rows use.
double ps_play_used_part(const ps_play_work *w, const ps_plan_step *step, uint32_t id);

// Bytes of an operand that a step reads where it is not near: weights, and the KV of its rows.
double ps_play_stored_bytes(const ps_play_work *w, const ps_plan_step *step, uint32_t id);

// Elements of an operand in one of its bytes: 1 of I8, about 1.8 of Q4_K.
double ps_play_byte_words(const ps_play_work *w, uint32_t id);

// Bytes that a prefetch asks for.
double ps_play_asked_bytes(const ps_play_work *w, const ps_plan_step *prefetch);

// Bytes a nanosecond at which an operand is read.
double ps_play_read_gbs(const ps_play_work *w, uint32_t id, bool is_cached);

// Nanoseconds of arithmetic, and *ops, 2 a multiply-add.
double ps_play_compute_ns(const ps_play_work *w, const ps_plan_step *step, double *ops);

// Nanoseconds that every step has on top.
double ps_play_fixed_ns(const ps_play_work *w, const ps_plan_step *step);

// Nanoseconds that the experts of a step which are not in memory take to come.
double ps_play_miss_ns(const ps_play_work *w, const ps_plan_step *step);

// Bytes that a collective has to move.
uint64_t ps_play_collective_bytes(const ps_play_work *w, const ps_plan_step *step);

// Of a collective: as one, or the first of its chunks; *chunk_ns: another one of them.
double ps_play_collective_ns(const ps_play_work *w, const ps_plan_step *step, double *chunk_ns);

// Whether it is made in a step of so many rows.
bool ps_play_is_made(const ps_play_work *w, const ps_plan_step *prefetch);

#endif
