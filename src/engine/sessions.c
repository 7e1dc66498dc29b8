// engine/sessions.c - plans for every bucket of a session.
#include "engine/model_internal.h"
#include "session/sampler.h"
#include "session/session.h"

#include <string.h>

#define PLANS_MAX 16
// Entries of the block tables of all sequences: 512 Mi tokens. Tables are touched when they are
// made, up to 36 bytes an entry and group, and block numbers stay far inside 32 bits.
#define TABLE_BLOCKS_MAX (1u << 24)

// The buckets of a session, small ones first: the first that holds a step runs it.
typedef struct bucket {
    uint32_t rows, context;
} bucket;

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t list_buckets(uint32_t context_tokens, uint32_t batch_rows, bucket out[PLANS_MAX])
{
    uint32_t count = 0;
    const uint32_t few = smaller(PS_REPLICATED_ROWS_MAX, batch_rows);
    for (uint32_t context = 1024; context < context_tokens && count + 3 < PLANS_MAX; context *= 4) {
        out[count++] = (bucket){few, context};
    }
    out[count++] = (bucket){few, context_tokens};
    if (batch_rows > PS_LOGITS_MAX) {
        out[count++] = (bucket){PS_LOGITS_MAX, context_tokens};
    }
    if (batch_rows > few) {
        out[count++] = (bucket){batch_rows, context_tokens};
    }
    return count;
}

static ps_status check_session_options(const ps_model *model, ps_session_options *options)
{
    const uint32_t longest = model->config->context_tokens;
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

static ps_status bind_plans(const ps_model *model, ps_exec *exec, const ps_session_options *options,
                            const ps_program **programs, uint32_t *out_count)
{
    bucket buckets[PLANS_MAX];
    const uint32_t count = list_buckets(options->context_tokens, options->batch_rows, buckets);
    for (uint32_t i = 0; i < count; i++) {
        const ps_pass_options pass = {.rows_max = buckets[i].rows,
                                      .logits_max = smaller(buckets[i].rows, PS_LOGITS_MAX),
                                      .context_max = buckets[i].context,
                                      .machine = &model->machine};
        ps_plan *plan = NULL;
        ps_program *program = NULL;
        PS_TRY(ps_engine_make_plan(model->config, model->file, &pass, ps_exec_arena(exec), &plan));
        PS_TRY(ps_exec_bind(exec, plan, ps_weights_find, model->weights, &program));
        programs[i] = program;
    }
    *out_count = count;
    return ps_exec_prepare(exec);
}

ps_status ps_session_create(ps_model *model, const ps_session_options *given, ps_session **out)
{
    ps_session_options options = given == NULL ? (ps_session_options){0} : *given;
    if (model->weights == NULL) {
        return ps_fail(PS_INVALID, "%s was opened for its vocabulary only", model->path);
    }
    PS_TRY(check_session_options(model, &options));
    ps_session_config config = {.context_tokens = options.context_tokens,
                                .sequences = options.sequences,
                                .batch_rows = options.batch_rows,
                                .group_count = model->config->kv_group_count};
    ps_exec_options exec_options = {.sequences = options.sequences,
                                    .context_tokens = options.context_tokens};
    for (uint32_t g = 0; g < config.group_count; g++) {
        config.group_windows[g] = model->config->kv_groups[g].window;
        config.group_blocks[g] = ps_session_group_blocks(config.group_windows[g],
                                                         options.context_tokens, options.kv_tokens,
                                                         options.sequences, options.batch_rows);
        exec_options.group_blocks[g] = config.group_blocks[g];
    }
    PS_TRY(ps_exec_create(model->team, &model->kernels, &exec_options, &config.exec));
    const ps_program *programs[PLANS_MAX];
    const ps_status status = bind_plans(model, config.exec, &options, programs,
                                        &config.program_count);
    if (status != PS_OK) {
        ps_exec_destroy(config.exec);
        return status;
    }
    config.programs = programs;
    return ps_session_create_from(&config, out);
}

ps_status ps_sampler_create(const ps_model *model, const ps_sampler_options *options,
                            ps_sampler **out)
{
    if (model->config == NULL) {
        return ps_fail(PS_INVALID, "%s was opened for its vocabulary only", model->path);
    }
    return ps_sampler_create_for(&model->kernels, model->config->vocabulary, options, out);
}
