// engine/session_plans.c - buckets, the plans for them, and whether those of a file fit.
//
// What is read is hostile. Parsing verifies each plan by itself; here it is held against the model,
// so that the session, which counts blocks and groups by the model, and the executor, which does by
// the plans, agree.
#include "engine/session_plans.h"

#include "base/value_text.h"
#include "format/file_map.h"

#include <stdio.h>
#include <string.h>

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static ps_bucket bucket_of(uint32_t rows, uint32_t context)
{
    return (ps_bucket){.rows = rows, .logits = smaller(rows, PS_LOGITS_MAX), .context = context};
}

ps_status ps_prefetch_threads_check(uint32_t threads, const ps_machine *machine,
                                    ps_prefetch_policy *policy)
{
    if (threads == 0) {
        return PS_OK;
    }
    if (*policy != PS_PREFETCH_DEFAULT && *policy != PS_PREFETCH_AUTO) {
        return ps_fail(PS_INVALID, "prefetch threads with the policy %s; auto would be right",
                       ps_prefetch_policy_name(*policy));
    }
    if (threads > machine->threads) {
        return ps_fail(PS_INVALID,
                       "%u prefetch threads: 0 to %u, one for each thread, would be right", threads,
                       machine->threads);
    }
    if (machine->llc_bytes <= machine->l2_bytes) {
        return ps_fail(PS_UNSUPPORTED,
                       "prefetch threads fill a cache that cores share beside their own, and this "
                       "machine has none; 0 would be right");
    }
    *policy = PS_PREFETCH_AUTO;
    return PS_OK;
}

// Rows of the plans for few rows. Ranks have more of them: one row waits for memory where several
// compute, and so wants other prefetches.
static uint32_t list_few(uint32_t few, uint32_t ranks, uint32_t out[4])
{
    uint32_t count = 0;
    for (uint32_t rows = 1; rows<few; rows *= ranks> 1 ? 2 : few) {
        out[count++] = rows;
    }
    out[count++] = few;
    return count;
}

uint32_t ps_session_buckets(const ps_session_options *options, const ps_ranks *ranks,
                            ps_bucket out[PS_SESSION_PLANS_MAX])
{
    uint32_t count = 0;
    uint32_t rows[4];
    const uint32_t longest = options->context_tokens;
    const uint32_t few = smaller(PS_REPLICATED_ROWS_MAX, options->batch_rows);
    const uint32_t kinds = list_few(few, ps_ranks_size(ranks), rows);
    for (uint32_t context = 1024;; context *= 4) {
        const bool is_last = context >= longest || count + 2 * kinds + 2 > PS_SESSION_PLANS_MAX;
        for (uint32_t i = 0; i < kinds; i++) {
            out[count++] = bucket_of(rows[i], is_last ? longest : context);
        }
        if (is_last) {
            break;
        }
    }
    if (options->batch_rows > PS_LOGITS_MAX) {
        out[count++] = bucket_of(PS_LOGITS_MAX, longest);
    }
    if (options->batch_rows > few) {
        out[count++] = bucket_of(options->batch_rows, longest);
    }
    return count;
}

ps_pass_options ps_session_pass_options(const ps_session_options *options, const ps_bucket *bucket,
                                        const ps_machine *machine, const ps_ranks *ranks)
{
    return (ps_pass_options){.rows_max = bucket->rows,
                             .logits_max = bucket->logits,
                             .context_max = bucket->context,
                             .k_dtype = ps_kv_type_dtype(options->k_type),
                             .v_dtype = ps_kv_type_dtype(options->v_type),
                             .machine = machine,
                             .prefetch = options->prefetch,
                             .prefetch_threads = options->prefetch_threads,
                             .comm_schedule = options->comm_schedule,
                             .ranks = ps_ranks_size(ranks),
                             .rank = ps_ranks_rank(ranks)};
}

ps_plan_key ps_session_plan_key(const ps_gguf *file, const ps_machine *machine,
                                const ps_ranks *ranks, ps_prefetch_policy policy)
{
    ps_plan_key key = {.fingerprint = ps_gguf_fingerprint(file),
                       .layout = PS_LAYOUT_VERSION,
                       .threads = machine->threads,
                       .ranks = ps_ranks_size(ranks),
                       .rank = ps_ranks_rank(ranks)};
    (void)snprintf(key.machine, sizeof key.machine, "%s", machine->name);
    (void)snprintf(key.policy, sizeof key.policy, "%s",
                   ps_prefetch_policy_name(ps_prefetch_policy_of(policy, key.ranks)));
    return key;
}

// ---- does a plan fit

static const ps_value *next_kv(const ps_plan *plan, uint32_t *at)
{
    while (*at < plan->value_count) {
        const ps_value *value = &plan->values[(*at)++].is;
        if (value->kind == PS_VALUE_KV) {
            return value;
        }
    }
    return NULL;
}

// Their texts hold all that makes a KV what it is.
static ps_status compare_kv(const ps_value *file, const ps_value *here)
{
    ps_buffer left = {0};
    ps_buffer right = {0};
    ps_status status = ps_value_print(file, NULL, &left);
    if (status == PS_OK) {
        status = ps_value_print(here, NULL, &right);
    }
    if (status == PS_OK && strcmp(left.data, right.data) != 0) {
        status = ps_fail(PS_INVALID, "it holds '%s', here is '%s'", left.data, right.data);
    }
    ps_buffer_deinit(&left);
    ps_buffer_deinit(&right);
    return status;
}

// `here` is a plan that was made for the session.
static ps_status check_fit(const ps_plan *plan, const ps_plan *here)
{
    if (plan->vocabulary != here->vocabulary || plan->kv_group_count != here->kv_group_count ||
        memcmp(plan->kv_windows, here->kv_windows, sizeof plan->kv_windows) != 0) {
        return ps_fail(PS_INVALID, "its vocabulary or kv groups are not those of the model");
    }
    uint32_t at = 0;
    uint32_t at_here = 0;
    for (;;) {
        const ps_value *kv = next_kv(plan, &at);
        const ps_value *kv_here = next_kv(here, &at_here);
        if (kv == NULL && kv_here == NULL) {
            return PS_OK;
        }
        if (kv == NULL || kv_here == NULL) {
            return ps_fail(PS_INVALID, "it has %s layers of kv than the model",
                           kv == NULL ? "fewer" : "more");
        }
        PS_TRY(compare_kv(kv, kv_here));
    }
}

static bool has_side(const ps_plan *plan)
{
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].stream == PS_STREAM_SIDE) {
            return true;
        }
    }
    return false;
}

// Dedicated threads and prefetches of theirs belong together. Some plans may have none.
static ps_status check_side(const ps_plan *const *plans, uint32_t count, uint32_t threads)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        found |= has_side(plans[i]);
    }
    return found == (threads > 0)
               ? PS_OK
               : ps_fail(PS_INVALID, "it was made %s prefetch threads, here there are %u",
                         found ? "for" : "without", threads);
}

static ps_status choose_plans(const ps_plan_set *set, const ps_bucket *buckets, uint32_t count,
                              const ps_plan *here, const ps_plan **out)
{
    for (uint32_t i = 0; i < count; i++) {
        const ps_bucket *b = &buckets[i];
        out[i] = ps_plan_set_find(set, b->rows, b->logits, b->context);
        if (out[i] == NULL) {
            return ps_fail(PS_INVALID, "it has no plan for %u rows at a context of %u", b->rows,
                           b->context);
        }
        PS_TRY(check_fit(out[i], here));
    }
    return PS_OK;
}

// ---- where plans come from

static ps_status make_plan(const ps_model *model, const ps_session_options *options,
                           const ps_bucket *bucket, ps_arena *arena, const ps_plan **out)
{
    const ps_pass_options pass = ps_session_pass_options(options, bucket, &model->machine,
                                                         model->ranks);
    ps_plan *plan = NULL;
    PS_TRY(ps_engine_make_plan(model->config, model->file, &pass, arena, &plan));
    *out = plan;
    return PS_OK;
}

static ps_status pick_from(const ps_plan_set *set, const ps_model *model,
                           const ps_session_options *options, ps_arena *arena,
                           const ps_plan **out_plans, uint32_t *out_count)
{
    ps_bucket buckets[PS_SESSION_PLANS_MAX];
    ps_assert(set != NULL);
    // Who made plans with prefetches has shown that they pay.
    const bool is_auto = options->prefetch == PS_PREFETCH_DEFAULT &&
                         strcmp(set->key.policy, ps_prefetch_policy_name(PS_PREFETCH_AUTO)) == 0;
    const ps_plan_key key = ps_session_plan_key(model->file, &model->machine, model->ranks,
                                                is_auto ? PS_PREFETCH_AUTO : options->prefetch);
    const ps_plan *here = NULL;
    PS_TRY(ps_plan_key_check(&set->key, &key));
    *out_count = ps_session_buckets(options, model->ranks, buckets);
    PS_TRY(make_plan(model, options, &buckets[0], arena, &here));
    PS_TRY(choose_plans(set, buckets, *out_count, here, out_plans));
    return check_side(out_plans, *out_count, options->prefetch_threads);
}

ps_status ps_plan_set_read(const char *path, ps_arena *arena, ps_plan_set **out)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    ps_status status = ps_file_map(path, "a plan file", &bytes, &size_bytes);
    if (status == PS_OK) {
        status = ps_plan_set_parse((ps_str){bytes, size_bytes}, arena, out);
        ps_file_unmap(bytes, size_bytes);
    }
    return status == PS_OK ? PS_OK : ps_file_name_error(path, status);
}

static ps_status get_from_file(const ps_model *model, const ps_session_options *options,
                               ps_arena *arena, const ps_plan **out_plans, uint32_t *out_count)
{
    ps_plan_set *set = NULL;
    PS_TRY(ps_plan_set_read(options->plan_file, arena, &set));
    const ps_status status = pick_from(set, model, options, arena, out_plans, out_count);
    if (status == PS_INVALID) {
        return ps_fail(PS_INVALID,
                       "%s: %s; prestage plan %s -o %s --force -c %u -b %u -t %u -ctk %s -ctv %s "
                       "--prefetch %s --prefetch-threads %u makes one that fits",
                       options->plan_file, ps_error_message(), model->path, options->plan_file,
                       options->context_tokens, options->batch_rows, model->machine.threads,
                       ps_kv_type_name(options->k_type), ps_kv_type_name(options->v_type),
                       ps_prefetch_policy_name(
                           ps_prefetch_policy_of(options->prefetch, ps_ranks_size(model->ranks))),
                       options->prefetch_threads);
    }
    return status;
}

static ps_status get_from_model(const ps_model *model, const ps_session_options *options,
                                ps_arena *arena, const ps_plan **out_plans, uint32_t *out_count)
{
    ps_plan_set *set = NULL;
    PS_TRY(ps_plan_set_parse(ps_pst_plans(model->source.pst), arena, &set));
    return pick_from(set, model, options, arena, out_plans, out_count);
}

ps_status ps_session_get_plans(const ps_model *model, const ps_session_options *options,
                               ps_plan_source source, ps_arena *arena,
                               const ps_plan *out_plans[PS_SESSION_PLANS_MAX], uint32_t *out_count)
{
    switch (source) {
    case PS_PLANS_OF_FILE:
        return get_from_file(model, options, arena, out_plans, out_count);
    case PS_PLANS_OF_MODEL:
        return get_from_model(model, options, arena, out_plans, out_count);
    default:
        break;
    }
    ps_bucket buckets[PS_SESSION_PLANS_MAX];
    const uint32_t count = ps_session_buckets(options, model->ranks, buckets);
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(make_plan(model, options, &buckets[i], arena, &out_plans[i]));
    }
    *out_count = count;
    return PS_OK;
}
