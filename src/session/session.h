// session/session.h - a KV pool, sequences, and the steps that extend them.
//
// The functions of sequences and steps are those of prestage/prestage.h. engine/ makes sessions,
// for it has the plans.
#ifndef PS_SESSION_H
#define PS_SESSION_H

#include "exec/exec.h"
#include "session/blocks.h"

#include <prestage/prestage.h>

// Programs in the order in which they are tried: the first whose bucket holds a step runs it.
typedef struct ps_session_config {
    ps_exec *exec; // taken: destroyed with the session, also when creating fails
    const ps_program *const *programs; // [program_count], copied
    uint32_t program_count;            // >= 1
    uint32_t context_tokens, sequences, batch_rows;
    uint32_t group_count;
    uint32_t group_windows[PS_KV_GROUPS_LIMIT]; // 0: all positions
    uint32_t group_blocks[PS_KV_GROUPS_LIMIT];
    // Told before a step runs, and when the session ends; NULL: nobody. A step whose telling fails
    // does not run.
    ps_status (*tell_step)(void *context, uint32_t program, const ps_step *step, uint64_t bytes);
    void (*tell_end)(void *context);
    void *context;
} ps_session_config;

// Bytes of the largest step that such a session makes.
uint64_t ps_session_step_bytes(const ps_session_config *config);

PS_MUST_USE ps_status ps_session_create_from(const ps_session_config *config, ps_session **out);

// Blocks that `sequences` sequences need at most in a group: for all positions, or for those that a
// window of the longest step sees.
uint32_t ps_session_group_blocks(uint32_t window, uint32_t context_tokens, uint64_t kv_tokens,
                                 uint32_t sequences, uint32_t batch_rows);

// As ps_sequence_fork, but the first step of the new sequence copies all that it shares: for those
// who measure steps of many sequences, each of which is to read KV of its own. That step is refused
// as any that finds the pool full.
PS_MUST_USE ps_status ps_sequence_copy(ps_session *session, ps_sequence id, ps_sequence *out);

// The program that a step of `rows` rows up to position `position_last` runs; NULL: none is large
// enough.
const ps_program *ps_session_program_for(const ps_session *session, uint32_t rows, uint32_t logits,
                                         uint32_t position_last);

#endif
