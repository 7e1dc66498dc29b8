// engine/follow.c - what ranks other than 0 do: as they are told.
#include "engine/model_internal.h"
#include "engine/session_plans.h"

#include <stdio.h>
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
    ps_status status = options.prefetch_threads == 0 ? PS_OK : ps_model_trace_side(model);
    if (status == PS_OK) {
        status = ps_session_prepare(model, &options, &f->config, f->programs);
    }
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

// One command for a model that is open; false: it has been closed.
static ps_status obey(ps_model *model, follower *sessions, const ps_command *command,
                      const void *behind, bool *is_open)
{
    follower *f = &sessions[command->session % PS_SESSIONS_MAX];
    switch (command->word) {
    case PS_WORD_CLOSE:
        *is_open = false;
        return PS_OK;
    case PS_WORD_SESSION: {
        // Where one rank has no memory for a session, no rank has the session.
        const ps_status status = begin_session(model, f, command, behind);
        return status == PS_LOST || status == PS_INVALID ? status : PS_OK;
    }
    case PS_WORD_END:
        ps_exec_destroy(f->config.exec);
        f->config.exec = NULL;
        return PS_OK;
    case PS_WORD_STEP:
        return run_step(f, command, behind);
    default:
        return bad_command(command);
    }
}

static ps_status follow_model(ps_model *model)
{
    follower *sessions = calloc(PS_SESSIONS_MAX, sizeof *sessions);
    if (sessions == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for sessions");
    }
    ps_status status = PS_OK;
    bool is_open = true;
    while (status == PS_OK && is_open) {
        const ps_command *command = NULL;
        const void *behind = NULL;
        status = ps_ranks_listen(model->ranks, &command, &behind);
        if (status == PS_OK) {
            status = obey(model, sessions, command, behind, &is_open);
        }
    }
    for (uint32_t i = 0; i < PS_SESSIONS_MAX; i++) {
        ps_exec_destroy(sessions[i].config.exec);
    }
    free(sessions);
    return status;
}

// Opens and follows one model. *out_opened: what opening answered; then the ranks go on together.
static ps_status follow_open(const ps_model_options *given, const char *path,
                             const ps_command *command, const void *behind, ps_status *out_opened)
{
    ps_model_options options = *given;
    ps_model *model = NULL;
    if (command->word != PS_WORD_OPEN || command->bytes != sizeof options.threads) {
        return bad_command(command);
    }
    memcpy(&options.threads, behind, sizeof options.threads);
    *out_opened = ps_model_open(path, &options, &model);
    if (*out_opened != PS_OK) {
        return *out_opened == PS_LOST ? PS_LOST : PS_OK;
    }
    const ps_status status = follow_model(model);
    ps_model_close(model);
    return status;
}

ps_status ps_ranks_follow(ps_ranks *ranks, const char *path, const ps_model_options *given)
{
    ps_model_options options = given == NULL ? (ps_model_options){0} : *given;
    options.ranks = ranks;
    ps_status failed = PS_OK;
    char message[512];
    if (ps_ranks_rank(ranks) == 0) {
        return ps_fail(PS_INVALID, "rank 0 leads; the other ranks follow");
    }
    for (;;) {
        const ps_command *command = NULL;
        const void *behind = NULL;
        PS_TRY(ps_ranks_listen(ranks, &command, &behind));
        if (command->word == PS_WORD_STOP) {
            return failed == PS_OK ? PS_OK : ps_fail(failed, "%s", message);
        }
        ps_status opened = PS_OK;
        PS_TRY(follow_open(&options, path, command, behind, &opened));
        if (opened != PS_OK) {
            failed = opened;
            (void)snprintf(message, sizeof message, "%s", ps_error_message());
        }
    }
}
