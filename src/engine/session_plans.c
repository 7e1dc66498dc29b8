// engine/session_plans.c - buckets, the plans for them, and whether those of a file fit.
//
// What is read is hostile. Parsing verifies each plan by itself; here it is held against the model,
// so that the session, which counts blocks and groups by the model, and the executor, which does by
// the plans, agree.
#include "engine/session_plans.h"

#include "base/hash.h"
#include "base/value_text.h"
#include "format/file_map.h"

#include <stdio.h>
#include <string.h>

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static ps_bucket bucket_of(uint32_t rows, uint32_t logits_max, uint32_t context)
{
    return (ps_bucket){.rows = rows, .logits = smaller(rows, logits_max), .context = context};
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

uint32_t ps_session_buckets(const ps_session_options *options, uint32_t ranks,
                            ps_bucket out[PS_SESSION_PLANS_MAX])
{
    uint32_t count = 0;
    uint32_t rows[4];
    const uint32_t longest = options->context_tokens;
    const uint32_t few = smaller(PS_REPLICATED_ROWS_MAX, options->batch_rows);
    const uint32_t kinds = list_few(few, ranks, rows);
    for (uint32_t context = 1024;; context *= 4) {
        const bool is_last = context >= longest || count + 2 * kinds + 2 > PS_SESSION_PLANS_MAX;
        for (uint32_t i = 0; i < kinds; i++) {
            out[count++] = bucket_of(rows[i], PS_LOGITS_MAX, is_last ? longest : context);
        }
        if (is_last) {
            break;
        }
    }
    if (options->batch_rows > PS_LOGITS_MAX) {
        out[count++] = bucket_of(PS_LOGITS_MAX, PS_LOGITS_MAX, longest);
    }
    if (options->batch_rows > few) {
        const bool is_many = options->sequences > PS_LOGITS_MAX;
        out[count++] = bucket_of(options->batch_rows, is_many ? options->sequences : PS_LOGITS_MAX,
                                 longest);
    }
    return count;
}

ps_pass_options ps_session_pass_options(const ps_session_options *options, const ps_bucket *bucket,
                                        const ps_machine *machine, uint32_t ranks, uint32_t rank)
{
    return (ps_pass_options){.rows_max = bucket->rows,
                             .logits_max = bucket->logits,
                             .context_max = bucket->context,
                             .k_dtype = ps_kv_type_dtype(options->k_type),
                             .v_dtype = ps_kv_type_dtype(options->v_type),
                             .machine = machine,
                             .prefetch = options->prefetch,
                             .ratios = options->ratios,
                             .prefetch_threads = options->prefetch_threads,
                             .comm_schedule = options->comm_schedule,
                             .sequence_parallel = options->sequence_parallel,
                             .best_logits = options->best_logits,
                             .ranks = ranks,
                             .rank = rank};
}

ps_plan_key ps_session_plan_key(const ps_gguf *file, const ps_machine *machine, uint32_t ranks,
                                const ps_session_options *options)
{
    ps_plan_key key = {.fingerprint = ps_gguf_fingerprint(file),
                       .layout = PS_LAYOUT_VERSION,
                       .threads = machine->threads,
                       .ranks = ranks};
    (void)snprintf(key.machine, sizeof key.machine, "%s", machine->name);
    (void)snprintf(key.policy, sizeof key.policy, "%s",
                   ps_prefetch_policy_name(ps_prefetch_policy_of(options->prefetch, ranks)));
    (void)snprintf(key.schedule, sizeof key.schedule, "%s",
                   ranks == 1 ? "serial" : ps_comm_schedule_name(options->comm_schedule));
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

// Logits that a plan leaves out cannot be asked for.
static ps_status check_logits(const ps_plan *const *plans, uint32_t count, uint32_t wanted)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < plans[i]->step_count; j++) {
            const ps_plan_step *step = &plans[i]->steps[j];
            if (step->op == PS_OP_ALL_GATHER_BEST &&
                (wanted == 0 || wanted > step->attributes.top_k)) {
                return ps_fail(PS_INVALID,
                               "it gives the %u best logits of each rank, %u are "
                               "wanted (0: all)",
                               step->attributes.top_k, wanted);
            }
        }
    }
    return PS_OK;
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
    ps_pass_options pass = ps_session_pass_options(
        options, bucket, &model->machine, ps_ranks_size(model->ranks), ps_ranks_rank(model->ranks));
    pass.streams_experts = model->streams_experts;
    ps_plan *plan = NULL;
    PS_TRY(ps_engine_make_plan(model->config, model->file, &pass, arena, &plan));
    *out = plan;
    return PS_OK;
}

// The one that plans in a file were made with; whoever made them has shown that they pay.
static ps_prefetch_policy policy_named(const char *name)
{
    uint32_t policy = PS_PREFETCH_DEFAULT + 1;
    while (policy < PS_PREFETCH_POLICY_COUNT &&
           strcmp(name, ps_prefetch_policy_name((ps_prefetch_policy)policy)) != 0) {
        policy++;
    }
    return policy < PS_PREFETCH_POLICY_COUNT ? (ps_prefetch_policy)policy : PS_PREFETCH_DEFAULT;
}

static ps_status pick_from(ps_str text, const ps_model *model, const ps_session_options *options,
                           ps_arena *arena, const ps_plan **out_plans, uint32_t *out_count)
{
    ps_bucket buckets[PS_SESSION_PLANS_MAX];
    const uint32_t ranks = ps_ranks_size(model->ranks);
    const ps_plan *here = NULL;
    ps_plan_set *set = NULL;
    PS_TRY(ps_plan_set_parse(text, ps_ranks_rank(model->ranks), arena, &set));
    ps_session_options said = *options;
    if (options->prefetch == PS_PREFETCH_DEFAULT) {
        said.prefetch = policy_named(set->key.policy);
    }
    const ps_plan_key key = ps_session_plan_key(model->file, &model->machine, ranks, &said);
    PS_TRY(ps_plan_key_check(&set->key, &key));
    *out_count = ps_session_buckets(options, ranks, buckets);
    PS_TRY(make_plan(model, options, &buckets[0], arena, &here));
    PS_TRY(choose_plans(set, buckets, *out_count, here, out_plans));
    PS_TRY(check_logits(out_plans, *out_count, options->best_logits));
    return check_side(out_plans, *out_count, options->prefetch_threads);
}

// ---- with other ranks

typedef struct traits {
    uint64_t text;        // hashes; 0: there are no plans
    uint64_t collectives; // that the plans make
} traits;

static uint64_t hash_collectives(const ps_plan *const *plans, uint32_t count)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < plans[i]->step_count; j++) {
            const ps_plan_step *step = &plans[i]->steps[j];
            if ((ps_op_get(step->op)->flags & PS_OP_COLLECTIVE) != 0) {
                const ps_value *moved = &plans[i]->values[step->output].is;
                const uint32_t words[] = {i,
                                          (uint32_t)step->op,
                                          step->attributes.chunks,
                                          step->attributes.unit,
                                          step->attributes.top_k,
                                          moved->columns,
                                          moved->row_multiplier,
                                          (uint32_t)moved->row_kind};
                hash = ps_hash(words, sizeof words, hash);
            }
        }
    }
    return hash;
}

// Ranks whose plans differ would wait for each other in vain.
static ps_status compare_ranks(const ps_model *model, ps_status status, ps_str text,
                               const ps_plan *const *plans, uint32_t count)
{
    traits own = {0};
    if (status == PS_OK) {
        own.text = ps_hash(text.data, text.length, 1) | 1;
        own.collectives = hash_collectives(plans, count);
    }
    traits first = own;
    PS_TRY(ps_ranks_share(model->ranks, &first, sizeof first));
    if (status != PS_OK || first.text == 0) {
        return status;
    }
    const uint32_t rank = ps_ranks_rank(model->ranks);
    if (own.text != first.text) {
        return ps_fail(PS_INVALID, "rank %u reads another plan file than rank 0", rank);
    }
    return own.collectives == first.collectives
               ? PS_OK
               : ps_fail(PS_INVALID,
                         "the plans of rank %u make other collectives than those of "
                         "rank 0",
                         rank);
}

static ps_status get_from_text(ps_status status, ps_str text, const ps_model *model,
                               const ps_session_options *options, ps_arena *arena,
                               const ps_plan **out_plans, uint32_t *out_count)
{
    if (status == PS_OK) {
        status = pick_from(text, model, options, arena, out_plans, out_count);
    }
    char message[512];
    (void)snprintf(message, sizeof message, "%s", ps_error_message());
    const ps_status compared = compare_ranks(model, status, text, out_plans, *out_count);
    return compared == PS_LOST || status == PS_OK ? compared : ps_fail(status, "%s", message);
}

static ps_status advise(const ps_model *model, const ps_session_options *options)
{
    const uint32_t size = ps_ranks_size(model->ranks);
    char ranks[96] = "";
    if (size > 1) {
        (void)snprintf(ranks, sizeof ranks, " --tp %u --comm-schedule %s", size,
                       ps_comm_schedule_name(options->comm_schedule));
    }
    return ps_fail(PS_INVALID,
                   "%s: %s; prestage plan %s -o %s --force -c %u -b %u -t %u -ctk %s -ctv %s "
                   "--prefetch %s --prefetch-threads %u%s makes one that fits",
                   options->plan_file, ps_error_message(), model->path, options->plan_file,
                   options->context_tokens, options->batch_rows, model->machine.threads,
                   ps_kv_type_name(options->k_type), ps_kv_type_name(options->v_type),
                   ps_prefetch_policy_name(ps_prefetch_policy_of(options->prefetch, size)),
                   options->prefetch_threads, ranks);
}

static ps_status get_from_file(const ps_model *model, const ps_session_options *options,
                               ps_arena *arena, const ps_plan **out_plans, uint32_t *out_count)
{
    const void *bytes = NULL;
    uint64_t size_bytes = 0;
    if (options->sequences > PS_LOGITS_MAX) {
        return ps_fail(PS_UNSUPPORTED, "%s: plan files are for up to %u sequences, here are %u",
                       options->plan_file, PS_LOGITS_MAX, options->sequences);
    }
    const ps_status mapped = ps_file_map(options->plan_file, "a plan file", &bytes, &size_bytes);
    const ps_status status = get_from_text(mapped, (ps_str){bytes, size_bytes}, model, options,
                                           arena, out_plans, out_count);
    ps_file_unmap(bytes, size_bytes);
    return status == PS_INVALID && mapped == PS_OK ? advise(model, options)
                                                   : ps_file_name_error(options->plan_file, status);
}

ps_status ps_session_get_plans(const ps_model *model, const ps_session_options *options,
                               ps_plan_source source, ps_arena *arena,
                               const ps_plan *out_plans[PS_SESSION_PLANS_MAX], uint32_t *out_count)
{
    switch (source) {
    case PS_PLANS_OF_FILE:
        return get_from_file(model, options, arena, out_plans, out_count);
    case PS_PLANS_OF_MODEL:
        return get_from_text(PS_OK, ps_pst_plans(model->source.pst), model, options, arena,
                             out_plans, out_count);
    default:
        break;
    }
    ps_bucket buckets[PS_SESSION_PLANS_MAX];
    const uint32_t count = ps_session_buckets(options, ps_ranks_size(model->ranks), buckets);
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(make_plan(model, options, &buckets[i], arena, &out_plans[i]));
    }
    *out_count = count;
    return PS_OK;
}
