// engine/predict.h - what a step of a session is predicted to take on this machine.
#ifndef PS_ENGINE_PREDICT_H
#define PS_ENGINE_PREDICT_H

#include "explore/operators.h"
#include "session/session.h"

#include <prestage/prestage.h>

typedef struct ps_prediction {
    ps_play play;
    const ps_operator_row *ops; // [op_count] of the arena
    uint32_t op_count;
} ps_prediction;

// Before sessions are made: what predictions go by is measured quickly where `prestage tune` has
// not done it.
PS_MUST_USE ps_status ps_predict_prepare(ps_model *model);

// What the workers read from memory now, in bytes a nanosecond: of the model's weights, four times
// as much as the last-level cache holds, three times. Where others use the memory, too, it is
// another number a second later.
double ps_predict_measure_read(const ps_model *model);

// Plays the plan that the session runs for a step of `rows` sequences, a row at `position` of each
// that wants logits, with the rates of the model: those of `prestage tune`, or what
// ps_predict_prepare has found. read_gbs: what is read from memory in place of theirs; 0: as they
// say.
//
// *out points into the arena.
//
// PS_INVALID      no plan of the session is large enough
// PS_UNSUPPORTED  experts are streamed: what they wait for is not in the plan
PS_MUST_USE ps_status ps_predict_step(const ps_model *model, const ps_session *session,
                                      uint32_t rows, uint32_t position, double read_gbs,
                                      ps_arena *arena, ps_prediction *out);

#endif
