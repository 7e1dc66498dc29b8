// engine/follow.c - what ranks other than 0 do: as they are told.
#include "engine/model_internal.h"
#include "engine/session_plans.h"

#include <stdlib.h>
#include <string.h>

// A session of rank 0 as another rank has it.
typedef struct follower {
    ps_session_config config; // with exec; exec NULL: no session
    const ps_program *programs[PS_SESSION_PLANS_MAX];
} follower;

static ps_status bad_command(const ps_command *command)
{
    return ps_fail(PS_INVALID,
                   "rank 0 sent command %u for session %u with %u bytes: not understood",
                   command->word, command->session, command->bytes);
}

static ps_status begin_session(ps_model *model, follower *f, const ps_command *command,
                               const void *behind)
{
    ps_session_options options;
    if (command->bytes != sizeof options || f->config.exec != NULL) {
        return bad_command(command);
    }
    memcpy(&options, behind, sizeof options);
    const ps_status status = ps_session_prepare(model, &options, &f->config, f->programs);
    f->config.exec = status == PS_OK ? f->config.exec : NULL;
    return ps_ranks_agree(model->ranks, status);
}

// The counts of the step say how long it must be; what they count is checked where it runs.
static ps_status run_step(const follower *f, const ps_command *command, const void *behind)
{
    const ps_step *step = behind;
    if (f->config.exec == NULL || command->program >= f->config.program_count ||
        command->bytes < sizeof *step ||
        command->bytes != sizeof *step + step->row_count * (uint64_t)sizeof(ps_step_row) +
                              step->block_count * (uint64_t)sizeof(ps_step_block)) {
        return bad_command(command);
    }
    return ps_exec_run(f->config.exec, f->programs[command->program], step);
}

static ps_status follow(ps_model *model, follower *sessions)
{
    for (;;) {
        const ps_command *command = NULL;
        const void *behind = NULL;
        PS_TRY(ps_ranks_listen(model->ranks, &command, &behind));
        follower *f = &sessions[command->session % PS_SESSIONS_MAX];
        switch (command->word) {
        case PS_WORD_CLOSE:
            return PS_OK;
        case PS_WORD_SESSION: {
            const ps_status status = begin_session(model, f, command, behind);
            if (status == PS_LOST) {
                return status;
            }
            break; // all ranks have none then
        }
        case PS_WORD_END:
            ps_exec_destroy(f->config.exec);
            f->config.exec = NULL;
            break;
        case PS_WORD_STEP:
            PS_TRY(run_step(f, command, behind));
            break;
        default:
            return bad_command(command);
        }
    }
}

ps_status ps_model_follow(ps_model *model)
{
    if (ps_ranks_rank(model->ranks) == 0) {
        return ps_fail(PS_INVALID, "rank 0 leads; the other ranks follow");
    }
    follower *sessions = calloc(PS_SESSIONS_MAX, sizeof *sessions);
    ps_status status = sessions == NULL ? ps_fail(PS_NO_MEMORY, "no memory for sessions")
                                        : follow(model, sessions);
    for (uint32_t i = 0; i < PS_SESSIONS_MAX && sessions != NULL; i++) {
        ps_exec_destroy(sessions[i].config.exec);
    }
    free(sessions);
    return status;
}
