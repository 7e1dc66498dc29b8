// engine/sessions.c - options of a session, and an executor for its plans.
#include "base/log.h"
#include "engine/forced_routes.h"
#include "engine/session_plans.h"
#include "engine/streamed.h"
#include "session/sampler.h"
#include "session/session.h"

#include <string.h>

// Entries of the block tables of all sequences: 512 Mi tokens. Tables are touched when they are
// made, up to 36 bytes an entry and group, and block numbers stay far inside 32 bits.
#define TABLE_BLOCKS_MAX (1u << 24)

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static const struct {
    const char *name;
    ps_dtype dtype;
} KV_TYPES[] = {[PS_KV_F16] = {"f16", PS_DTYPE_F16}, [PS_KV_Q8_0] = {"q8_0", PS_DTYPE_Q8_0}};
#define KV_TYPE_COUNT (sizeof KV_TYPES / sizeof KV_TYPES[0])

const char *ps_kv_type_name(ps_kv_type type)
{
    return (unsigned)type < KV_TYPE_COUNT ? KV_TYPES[type].name : NULL;
}

ps_dtype ps_kv_type_dtype(ps_kv_type type)
{
    ps_assert((unsigned)type < KV_TYPE_COUNT);
    return KV_TYPES[type].dtype;
}

ps_status ps_kv_type_check(ps_kv_type type)
{
    return (unsigned)type < KV_TYPE_COUNT
               ? PS_OK
               : ps_fail(PS_INVALID, "KV type %d: %d (f16) or %d (q8_0) would be right", (int)type,
                         PS_KV_F16, PS_KV_Q8_0);
}

ps_status ps_sums_check(ps_comm_schedule schedule, bool sequence_parallel)
{
    return schedule != PS_COMM_FUSED || !sequence_parallel
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "--comm-schedule fused with --sequence-parallel: chunks of rows are "
                         "summed for all ranks alike; serial or auto would be right");
}

static ps_status check_ratios(const ps_prefetch_ratios *ratios)
{
    for (uint32_t i = 0; i < PS_RATIO_COUNT; i++) {
        if (!(ratios->ratio[i] >= 0 && ratios->ratio[i] <= 1)) {
            return ps_fail(PS_INVALID, "a prefetch ratio of %g: 0 to 1 would be right",
                           ratios->ratio[i]);
        }
    }
    return PS_OK;
}

ps_status ps_session_options_complete(const ps_model_config *config, ps_session_options *options)
{
    const uint32_t longest = config->context_tokens;
    if (options->context_tokens == 0) {
        options->context_tokens = smaller(longest, PS_CONTEXT_DEFAULT_MAX);
    }
    if (options->context_tokens > longest) {
        return ps_fail(PS_INVALID, "a context of %u tokens: the model was made for at most %u",
                       options->context_tokens, longest);
    }
    if (options->sequences == 0) {
        options->sequences = 1;
    }
    if (options->sequences > 65536) {
        return ps_fail(PS_INVALID, "%u sequences: at most 65536 would be right",
                       options->sequences);
    }
    if (options->batch_rows == 0) {
        options->batch_rows = 512;
    }
    if (options->batch_rows > PS_BATCH_ROWS_MAX) {
        return ps_fail(PS_INVALID, "batches of %u rows: 1 to %u would be right",
                       options->batch_rows, PS_BATCH_ROWS_MAX);
    }
    PS_TRY(ps_kv_type_check(options->k_type));
    PS_TRY(ps_kv_type_check(options->v_type));
    if (ps_prefetch_policy_name(options->prefetch) == NULL ||
        ps_comm_schedule_name(options->comm_schedule) == NULL) {
        return ps_fail(PS_INVALID, "prefetch policy %d with schedule %d: there is no such",
                       (int)options->prefetch, (int)options->comm_schedule);
    }
    PS_TRY(check_ratios(&options->ratios));
    PS_TRY(ps_sums_check(options->comm_schedule, options->sequence_parallel));
    const uint64_t blocks = ps_divide_up(options->context_tokens, PS_KV_BLOCK_TOKENS);
    if (options->context_tokens > PS_PLAN_CONTEXT_MAX) {
        return ps_fail(PS_INVALID, "a context of %u tokens: at most %u would be right",
                       options->context_tokens, PS_PLAN_CONTEXT_MAX);
    }
    if (options->sequences * blocks > TABLE_BLOCKS_MAX) {
        return ps_fail(PS_INVALID,
                       "%u sequences of %u tokens: their tables have room for %u tokens in all; "
                       "fewer or shorter ones would be right",
                       options->sequences, options->context_tokens,
                       TABLE_BLOCKS_MAX * PS_KV_BLOCK_TOKENS);
    }
    const uint64_t all = (uint64_t)options->sequences * options->context_tokens;
    if (options->kv_tokens == 0 || options->kv_tokens > all) {
        options->kv_tokens = all;
    }
    return PS_OK;
}

static ps_status bind_plans(const ps_model *model, const ps_session_options *options,
                            ps_plan_source source, ps_exec *exec, const ps_program **programs,
                            uint32_t *out_count)
{
    const ps_plan *plans[PS_SESSION_PLANS_MAX];
    PS_TRY(ps_session_get_plans(model, options, source, ps_exec_arena(exec), plans, out_count));
    for (uint32_t i = 0; i < *out_count; i++) {
        ps_program *program = NULL;
        const ps_status status = ps_exec_bind(exec, plans[i], ps_weights_find, model->weights,
                                              &program);
        if (status != PS_OK) {
            return source == PS_PLANS_OF_FILE ? ps_engine_name_file(options->plan_file, status)
                                              : status;
        }
        programs[i] = program;
    }
    PS_TRY(ps_exec_prepare(exec));
    return model->memory_bytes > 0 || model->streams_experts ? ps_memory_take(model, options, exec)
                                                             : PS_OK;
}

// On success config has an executor with programs [program_count].
static ps_status create_exec(const ps_model *model, const ps_session_options *options,
                             ps_plan_source source, ps_session_config *config,
                             const ps_program **programs)
{
    ps_exec_options exec_options = {
        .sequences = options->sequences,
        .context_tokens = options->context_tokens,
        .lanes = model->trace == NULL ? NULL : &model->lanes,
        .guards_prefetch = options->prefetch == PS_PREFETCH_AUTO ||
                           options->prefetch == PS_PREFETCH_DEFAULT,
        .prefetch_threads = options->prefetch_threads,
        .comm = ps_ranks_comm(model->ranks),
        .forced_routes = options->force_routes == NULL ? NULL : model->forced_routes,
        .checks_grouped = options->check_grouped,
        .routes = model->experts == NULL ? NULL : &model->experts->observer};
    memcpy(exec_options.group_blocks, config->group_blocks, sizeof exec_options.group_blocks);
    PS_TRY(ps_exec_create(model->team, &model->kernels, &exec_options, &config->exec));
    const ps_status status = bind_plans(model, options, source, config->exec, programs,
                                        &config->program_count);
    if (status != PS_OK) {
        ps_exec_destroy(config->exec);
    }
    return status;
}

// Plans of a file have to fit; those that come with the model are used when they do, on all ranks.
static ps_status create_exec_any(const ps_model *model, const ps_session_options *options,
                                 ps_session_config *config, const ps_program **programs)
{
    if (options->plan_file != NULL) {
        return create_exec(model, options, PS_PLANS_OF_FILE, config, programs);
    }
    if (model->source.pst != NULL && ps_pst_plans(model->source.pst).length > 0) {
        const ps_status own = create_exec(model, options, PS_PLANS_OF_MODEL, config, programs);
        const ps_status status = ps_ranks_agree(model->ranks, own);
        if (status == PS_OK) {
            ps_log(PS_LOG_INFO, "%s: its plans are used", model->path);
            return PS_OK;
        }
        if (own == PS_OK) {
            ps_exec_destroy(config->exec);
        }
        if (status == PS_LOST) {
            return status;
        }
        ps_log(PS_LOG_INFO, "%s: its plans are not used: %s", model->path, ps_error_message());
    }
    return create_exec(model, options, PS_PLANS_MADE, config, programs);
}

// Of those that ratios asked for: whether the plans hold a prefetch, and whether one was declined.
static bool has_prefetch(const ps_session_config *config, bool is_declined)
{
    for (uint32_t i = 0; i < config->program_count; i++) {
        const ps_plan *plan = ps_program_plan(config->programs[i]);
        for (uint32_t s = 0; s < plan->step_count; s++) {
            const ps_op_attributes *is = &plan->steps[s].attributes;
            if (plan->steps[s].op == PS_OP_PREFETCH && is->reason != PS_REASON_RATIO_ZERO &&
                (is->reason >= PS_REASON_DECLINED) == is_declined) {
                return true;
            }
        }
    }
    return false;
}

// What is switched on and does nothing is said.
static void warn_of_nothing(const ps_model *model, const ps_session_options *options,
                            const ps_session_config *config)
{
    if (options->prefetch == PS_PREFETCH_RATIO && ps_ranks_rank(model->ranks) == 0 &&
        has_prefetch(config, true) && !has_prefetch(config, false)) {
        ps_log(PS_LOG_WARNING,
               "weight_prefetch_config: nothing is prefetched, %s; prestage plan would say more",
               model->machine.threads == 1 ? "with one thread nobody waits for others"
                                           : "no linear has a wait before it in such steps");
    }
}

// Of this rank.
static ps_status prepare(const ps_model *model, const ps_session_options *options,
                         ps_session_config *config, const ps_program **programs)
{
    *config = (ps_session_config){.context_tokens = options->context_tokens,
                                  .sequences = options->sequences,
                                  .batch_rows = options->batch_rows,
                                  .group_count = model->config->kv_group_count};
    for (uint32_t g = 0; g < config->group_count; g++) {
        config->group_windows[g] = model->config->kv_groups[g].window;
        config->group_blocks[g] = ps_session_group_blocks(
            config->group_windows[g], options->context_tokens, options->kv_tokens,
            options->sequences, options->batch_rows);
    }
    PS_TRY(create_exec_any(model, options, config, programs));
    config->programs = programs;
    warn_of_nothing(model, options, config);
    const ps_status status = ps_model_trace_plans(model, config);
    if (status != PS_OK) {
        ps_exec_destroy(config->exec);
    }
    return status;
}

ps_status ps_session_prepare(const ps_model *model, const ps_session_options *options,
                             ps_session_config *config, const ps_program **programs)
{
    ps_status status = prepare(model, options, config, programs);
    const bool is_prepared = status == PS_OK;
    status = ps_ranks_agree(model->ranks, status);
    if (status == PS_OK) {
        status = ps_ranks_reserve(model->ranks, ps_session_step_bytes(config));
    }
    if (status != PS_OK && is_prepared) {
        ps_exec_destroy(config->exec);
    }
    return status;
}

// ---- with other ranks

static ps_status tell_step(void *context, uint32_t program, const ps_step *step, uint64_t bytes)
{
    const ps_told_session *told = context;
    return ps_ranks_tell(told->ranks,
                         &(ps_command){.word = PS_WORD_STEP,
                                       .session = told->number,
                                       .program = program,
                                       .bytes = (uint32_t)bytes},
                         step);
}

static void tell_end(void *context)
{
    ps_told_session *told = context;
    ps_ranks_tell_end(told->ranks, PS_WORD_END, told->number);
    told->is_open = false;
}

// Behind the command: the options, and the name of the plan file where there is one.
static ps_status tell_options(ps_ranks *ranks, uint32_t number, const ps_session_options *options)
{
    char behind[sizeof *options + PS_RANKS_PATH_BYTES];
    size_t path_bytes = 0;
    if (options->plan_file != NULL) {
        path_bytes = strlen(options->plan_file) + 1;
        if (path_bytes > PS_RANKS_PATH_BYTES) {
            return ps_fail(PS_INVALID, "the name of a plan file has %zu bytes, %u would be right",
                           path_bytes - 1, PS_RANKS_PATH_BYTES - 1);
        }
        memcpy(behind + sizeof *options, options->plan_file, path_bytes);
    }
    memcpy(behind, options, sizeof *options);
    return ps_ranks_tell(ranks,
                         &(ps_command){.word = PS_WORD_SESSION,
                                       .session = number,
                                       .bytes = (uint32_t)(sizeof *options + path_bytes)},
                         behind);
}

static ps_status tell_begin(ps_model *model, const ps_session_options *options,
                            ps_told_session **out)
{
    uint32_t number = 0;
    while (number < PS_SESSIONS_MAX && model->told[number].is_open) {
        number++;
    }
    if (number == PS_SESSIONS_MAX) {
        return ps_fail(PS_EXHAUSTED, "more than %u sessions of ranks", PS_SESSIONS_MAX);
    }
    PS_TRY(tell_options(model->ranks, number, options));
    model->told[number] = (ps_told_session){.ranks = model->ranks, .number = number};
    *out = &model->told[number];
    return PS_OK;
}

// ---- of one rank, or rank 0 of several

static ps_status create_session(const ps_model *model, const ps_session_options *options,
                                ps_told_session *told, ps_session **out)
{
    ps_session_config config = {0};
    const ps_program *programs[PS_SESSION_PLANS_MAX] = {NULL};
    PS_TRY(ps_session_prepare(model, options, &config, programs));
    if (told != NULL) {
        told->is_open = true;
        config.tell_step = tell_step;
        config.tell_end = tell_end;
        config.context = told;
    }
    return ps_session_create_from(&config, out);
}

static ps_status prepare_prefetch(ps_model *model, ps_session_options *options)
{
    const uint32_t threads = options->prefetch_threads;
    const uint32_t workers = model->machine.threads;
    const uint32_t cpus = ps_machine_affinity_count();
    PS_TRY(ps_prefetch_threads_check(threads, &model->machine, &options->prefetch));
    if (options->prefetch == PS_PREFETCH_AUTO) {
        PS_TRY(ps_model_measure_rates(model));
    }
    if (threads > 0 && threads + workers > cpus) {
        ps_log(PS_LOG_WARNING,
               "%u prefetch thread%s beside %u other%s where this process may use %u CPU%s: they "
               "will wait for each other; fewer of either would be right",
               threads, threads == 1 ? "" : "s", workers, workers == 1 ? "" : "s", cpus,
               cpus == 1 ? "" : "s");
    }
    return threads > 0 ? ps_model_trace_side(model) : PS_OK;
}

static ps_status check_developer_option(const ps_model *model, const char *option)
{
    if (model->config->experts == 0) {
        return ps_fail(PS_INVALID, "%s: the model has no experts", option);
    }
    return ps_ranks_are_several(model->ranks)
               ? ps_fail(PS_INVALID, "%s with several ranks: one rank would be right", option)
               : PS_OK;
}

// Reads the log once for all sessions that take it.
static ps_status prepare_routes(ps_model *model, const char *path)
{
    if (model->forced_path != NULL && strcmp(path, model->forced_path) == 0) {
        return PS_OK;
    }
    const ps_forced_routes *routes = NULL;
    PS_TRY(ps_forced_routes_read(path, model->config, &model->arena, &routes));
    char *name = ps_arena_strndup(&model->arena, path, strlen(path));
    if (name == NULL) {
        return PS_NO_MEMORY;
    }
    model->forced_routes = routes;
    model->forced_path = name;
    return PS_OK;
}

static ps_status prepare_developer_options(ps_model *model, const ps_session_options *options)
{
    if (options->check_grouped) {
        PS_TRY(check_developer_option(model, "--check-grouped"));
    }
    if (options->force_routes != NULL) {
        PS_TRY(check_developer_option(model, "--force-routes"));
        PS_TRY(prepare_routes(model, options->force_routes));
    }
    return PS_OK;
}

ps_status ps_session_create(ps_model *model, const ps_session_options *given, ps_session **out)
{
    ps_session_options options = given == NULL ? (ps_session_options){0} : *given;
    if (model->weights == NULL) {
        return ps_fail(PS_INVALID, "%s was opened for its vocabulary only", model->path);
    }
    if (ps_ranks_rank(model->ranks) != 0) {
        return ps_fail(PS_INVALID, "rank %u: sessions are rank 0's, which the others follow",
                       ps_ranks_rank(model->ranks));
    }
    PS_TRY(ps_session_options_complete(model->config, &options));
    PS_TRY(prepare_developer_options(model, &options));
    PS_TRY(prepare_prefetch(model, &options));
    ps_told_session *told = NULL;
    if (ps_ranks_are_several(model->ranks)) {
        PS_TRY(tell_begin(model, &options, &told));
    }
    return create_session(model, &options, told, out);
}

ps_status ps_sampler_create(const ps_model *model, const ps_sampler_options *options,
                            ps_sampler **out)
{
    if (model->config == NULL) {
        return ps_fail(PS_INVALID, "%s was opened for its vocabulary only", model->path);
    }
    return ps_sampler_create_for(&model->kernels, model->config->vocabulary, options, out);
}
