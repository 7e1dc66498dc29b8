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

// What went wrong last on all ranks together, and is over: rank 0 may go on. Said when it stops.
typedef struct failure {
    ps_status status;
    char message[512];
} failure;

static void note(failure *failed, ps_status status)
{
    failed->status = status;
    (void)snprintf(failed->message, sizeof failed->message, "%s",
                   status == PS_OK ? "" : ps_error_message());
}

// The options of a session, and in `path` the name of its plan file.
static bool read_options(const ps_command *command, const void *behind, ps_session_options *options,
                         char path[PS_RANKS_PATH_BYTES])
{
    const size_t path_bytes = command->bytes - sizeof *options;
    if (command->bytes < sizeof *options || path_bytes > PS_RANKS_PATH_BYTES) {
        return false;
    }
    memcpy(options, behind, sizeof *options);
    memcpy(path, (const char *)behind + sizeof *options, path_bytes);
    options->plan_file = path_bytes == 0 ? NULL : path;
    return path_bytes == 0 || memchr(path, '\0', path_bytes) == path + path_bytes - 1;
}

// Where one rank cannot have a session, no rank has it.
static ps_status begin_session(ps_model *model, follower *f, const ps_command *command,
                               const void *behind, failure *failed)
{
    ps_session_options options;
    char path[PS_RANKS_PATH_BYTES];
    if (f->config.exec != NULL || !read_options(command, behind, &options, path)) {
        return bad_command(command);
    }
    const ps_status own = ps_session_prepare(model, &options, &f->config, f->programs);
    const ps_status status = ps_ranks_agree(model->ranks, own);
    if (status != PS_OK && own == PS_OK) {
        ps_exec_destroy(f->config.exec);
    }
    f->config.exec = status == PS_OK ? f->config.exec : NULL;
    note(failed, status);
    return status == PS_LOST ? status : PS_OK;
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
                      const void *behind, failure *failed, bool *is_open)
{
    follower *f = &sessions[command->session % PS_SESSIONS_MAX];
    switch (command->word) {
    case PS_WORD_CLOSE:
        *is_open = false;
        return PS_OK;
    case PS_WORD_SESSION:
        return begin_session(model, f, command, behind, failed);
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

static ps_status follow_model(ps_model *model, failure *failed)
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
            status = obey(model, sessions, command, behind, failed, &is_open);
        }
    }
    for (uint32_t i = 0; i < PS_SESSIONS_MAX; i++) {
        ps_exec_destroy(sessions[i].config.exec);
    }
    free(sessions);
    return status;
}

// Opens and follows one model. When opening fails, the ranks go on together.
static ps_status follow_open(const ps_model_options *given, const char *path,
                             const ps_command *command, const void *behind, failure *failed)
{
    ps_model_options options = *given;
    ps_model *model = NULL;
    if (command->word != PS_WORD_OPEN || command->bytes != sizeof options.threads) {
        return bad_command(command);
    }
    memcpy(&options.threads, behind, sizeof options.threads);
    const ps_status opened = ps_model_open(path, &options, &model);
    if (opened != PS_OK) {
        note(failed, opened);
        return opened == PS_LOST ? PS_LOST : PS_OK;
    }
    const ps_status status = follow_model(model, failed);
    ps_model_close(model);
    return status;
}

ps_status ps_ranks_follow(ps_ranks *ranks, const char *path, const ps_model_options *given)
{
    ps_model_options options = given == NULL ? (ps_model_options){0} : *given;
    options.ranks = ranks;
    failure failed = {.status = PS_OK};
    if (ps_ranks_rank(ranks) == 0) {
        return ps_fail(PS_INVALID, "rank 0 leads; the other ranks follow");
    }
    for (;;) {
        const ps_command *command = NULL;
        const void *behind = NULL;
        PS_TRY(ps_ranks_listen(ranks, &command, &behind));
        if (command->word == PS_WORD_STOP) {
            return failed.status == PS_OK ? PS_OK : ps_fail(failed.status, "%s", failed.message);
        }
        PS_TRY(follow_open(&options, path, command, behind, &failed));
    }
}
