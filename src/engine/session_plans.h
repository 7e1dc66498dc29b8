// engine/session_plans.h - the plans of a session: made here, or read from where they are kept.
#ifndef PS_ENGINE_SESSION_PLANS_H
#define PS_ENGINE_SESSION_PLANS_H

#include "engine/model_internal.h"
#include "plan/plan_file.h"
#include "session/session.h"

#define PS_SESSION_PLANS_MAX 24u

// A plan of the session runs steps of up to `rows` rows, `logits` of which want logits.
typedef struct ps_bucket {
    uint32_t rows, logits, context;
} ps_bucket;

typedef enum ps_plan_source {
    PS_PLANS_MADE,
    PS_PLANS_OF_FILE,  // options->plan_file
    PS_PLANS_OF_MODEL, // the section of a compiled file
} ps_plan_source;

// PS_INVALID: there is no such type.
PS_MUST_USE ps_status ps_kv_type_check(ps_kv_type type);

// PS_INVALID: sums cannot be made both ways.
PS_MUST_USE ps_status ps_sums_check(ps_comm_schedule schedule, bool sequence_parallel);

// The number format of a type that is there.
ps_dtype ps_kv_type_dtype(ps_kv_type type);

// Fills in the defaults of `options`. PS_INVALID: one of them is out of range.
PS_MUST_USE ps_status ps_session_options_complete(const ps_model_config *config,
                                                  ps_session_options *options);

// The policy that goes with so many dedicated threads on the machine; *policy is what is asked for.
//
// PS_INVALID      more threads than workers, or another policy than auto
// PS_UNSUPPORTED  the cores of the machine share no cache
PS_MUST_USE ps_status ps_prefetch_threads_check(uint32_t threads, const ps_machine *machine,
                                                ps_prefetch_policy *policy);

// The buckets of a session with complete options, small ones first: the first that holds a step
// runs it.
uint32_t ps_session_buckets(const ps_session_options *options, uint32_t ranks,
                            ps_bucket out[PS_SESSION_PLANS_MAX]);

// What a plan of a session with complete options is made with, for one rank. The machine is
// borrowed.
ps_pass_options ps_session_pass_options(const ps_session_options *options, const ps_bucket *bucket,
                                        const ps_machine *machine, uint32_t ranks, uint32_t rank);

// What plans of this model for such a session on this machine are kept under.
ps_plan_key ps_session_plan_key(const ps_gguf *file, const ps_machine *machine, uint32_t ranks,
                                const ps_session_options *options);

// An executor for a session with complete options, and the counts of its KV, in *config, which is
// otherwise zero; programs [PS_SESSION_PLANS_MAX] are its plans. Collective: where a rank fails,
// all do.
PS_MUST_USE ps_status ps_session_prepare(const ps_model *model, const ps_session_options *options,
                                         ps_session_config *config, const ps_program **programs);

// One plan a bucket, in their order. Those that are read have this model's and machine's key,
// vocabulary and KV; that they name its weights is for ps_exec_bind to check. Memory comes from
// `arena`. All ranks call it together; those that read have read the same text, and their plans
// make the same collectives.
//
// PS_INVALID  plans that are read do not fit: the message says what differs, and for those of a
//             file how to make them
// PS_NOT_FOUND, PS_IO, PS_UNSUPPORTED  the file
// PS_LOST
// others      as ps_passes_run
PS_MUST_USE ps_status ps_session_get_plans(const ps_model *model, const ps_session_options *options,
                                           ps_plan_source source, ps_arena *arena,
                                           const ps_plan *out_plans[PS_SESSION_PLANS_MAX],
                                           uint32_t *out_count);

#endif
