// engine/follow.c - what ranks other than 0 do: as they are told.
//
// What rank 0 sends is checked like a file: numbers of sessions and programs, sizes, options, and,
// where it runs (exec/run.c), every row and block of a step. A message that is not right ends all
// ranks with one line.
#include "engine/model_internal.h"
#include "engine/session_plans.h"

#include <stddef.h>
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

// What the ranks agreed that they cannot do. Rank 0 goes on; whose fault it was says so at the end.
typedef struct failure {
    ps_status status;
    char message[512];
} failure;

static void keep_failure(failure *kept, ps_status status)
{
    kept->status = status;
    (void)snprintf(kept->message, sizeof kept->message, "%s", ps_error_message());
}

// The options of a session, and in `path` the name of its plan file. Those that go with one rank
// alone are not there.
static bool read_options(const ps_command *command, const void *behind, ps_session_options *options,
                         char path[PS_RANKS_PATH_BYTES])
{
    const size_t path_bytes = command->bytes - sizeof *options;
    if (command->bytes < sizeof *options || path_bytes > PS_RANKS_PATH_BYTES) {
        return false;
    }
    unsigned char flag, alone; // no bool may be anything else
    memcpy(&flag, (const char *)behind + offsetof(ps_session_options, sequence_parallel), 1);
    memcpy(&alone, (const char *)behind + offsetof(ps_session_options, check_grouped), 1);
    if (flag > 1 || alone > 0) {
        return false;
    }
    memcpy(options, behind, sizeof *options);
    memcpy(path, (const char *)behind + sizeof *options, path_bytes);
    options->force_routes = NULL;
    options->plan_file = path_bytes == 0 ? NULL : path;
    return path_bytes == 0 || memchr(path, '\0', path_bytes) == path + path_bytes - 1;
}

// Where one rank cannot have a session, no rank has it.
static ps_status begin_session(ps_model *model, follower *f, const ps_command *command,
                               const void *behind, failure *kept)
{
    ps_session_options options;
    char path[PS_RANKS_PATH_BYTES];
    if (f->config.exec != NULL || !read_options(command, behind, &options, path)) {
        return bad_command(command);
    }
    ps_status status = ps_session_options_complete(model->config, &options);
    if (status != PS_OK) {
        return ps_fail_prefix(status, "rank 0 asked for a session");
    }
    if (options.prefetch_threads > 0) {
        PS_TRY(ps_model_trace_side(model));
    }
    status = ps_session_prepare(model, &options, &f->config, f->programs);
    f->config.exec = status == PS_OK ? f->config.exec : NULL;
    keep_failure(kept, status);
    return status == PS_LOST ? PS_LOST : PS_OK;
}

static ps_status end_session(follower *f, const ps_command *command)
{
    if (f->config.exec == NULL) {
        return bad_command(command);
    }
    ps_exec_destroy(f->config.exec);
    f->config.exec = NULL;
    return PS_OK;
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
                      const void *behind, failure *kept, bool *is_open)
{
    if (command->session >= PS_SESSIONS_MAX) {
        return bad_command(command);
    }
    follower *f = &sessions[command->session];
    switch (command->word) {
    case PS_WORD_CLOSE:
        *is_open = false;
        return PS_OK;
    case PS_WORD_SESSION:
        return begin_session(model, f, command, behind, kept);
    case PS_WORD_END:
        return end_session(f, command);
    case PS_WORD_STEP:
        return run_step(f, command, behind);
    default:
        return bad_command(command);
    }
}

static ps_status follow_model(ps_model *model, failure *kept)
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
            status = obey(model, sessions, command, behind, kept, &is_open);
        }
    }
    for (uint32_t i = 0; i < PS_SESSIONS_MAX; i++) {
        ps_exec_destroy(sessions[i].config.exec);
    }
    free(sessions);
    return status;
}

// Opens and follows one model. Where one rank cannot open it, none has it, and all go on.
static ps_status follow_open(const ps_model_options *given, const char *path,
                             const ps_command *command, const void *behind, failure *kept)
{
    ps_model_options options = *given;
    ps_model *model = NULL;
    if (command->word != PS_WORD_OPEN || command->bytes != sizeof options.threads) {
        return bad_command(command);
    }
    memcpy(&options.threads, behind, sizeof options.threads);
    ps_status status = ps_model_open(path, &options, &model);
    keep_failure(kept, status);
    if (status != PS_OK) {
        return status == PS_LOST ? PS_LOST : PS_OK;
    }
    status = follow_model(model, kept);
    ps_model_close(model);
    return status;
}

// Until rank 0 stops.
static ps_status follow_all(ps_ranks *ranks, const char *path, const ps_model_options *options,
                            failure *kept)
{
    for (;;) {
        const ps_command *command = NULL;
        const void *behind = NULL;
        PS_TRY(ps_ranks_listen(ranks, &command, &behind));
        if (command->word == PS_WORD_STOP) {
            return PS_OK;
        }
        PS_TRY(follow_open(options, path, command, behind, kept));
    }
}

ps_status ps_ranks_follow(ps_ranks *ranks, const char *path, const ps_model_options *given)
{
    ps_model_options options = given == NULL ? (ps_model_options){0} : *given;
    options.ranks = ranks;
    failure kept = {.status = PS_OK};
    if (ps_ranks_rank(ranks) == 0) {
        return ps_fail(PS_INVALID, "rank 0 leads; the other ranks follow");
    }
    const ps_status status = follow_all(ranks, path, &options, &kept);
    if (status != PS_OK) { // this rank alone may know
        ps_comm_give_up(ps_ranks_comm(ranks), status);
        return status;
    }
    return kept.status == PS_OK ? PS_OK : ps_fail(kept.status, "%s", kept.message);
}
