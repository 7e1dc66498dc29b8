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
uint32_t ps_session_buckets(const ps_session_options *options, const ps_ranks *ranks,
                            ps_bucket out[PS_SESSION_PLANS_MAX]);

// What a plan of a session with complete options is made with. The machine is borrowed.
ps_pass_options ps_session_pass_options(const ps_session_options *options, const ps_bucket *bucket,
                                        const ps_machine *machine, const ps_ranks *ranks);

// What plans of this model on this machine are kept under.
ps_plan_key ps_session_plan_key(const ps_gguf *file, const ps_machine *machine,
                                const ps_ranks *ranks, ps_prefetch_policy policy);

// An executor for a session with complete options, and the counts of its KV, in *config, which is
// otherwise zero; programs [PS_SESSION_PLANS_MAX] are its plans.
PS_MUST_USE ps_status ps_session_prepare(const ps_model *model, const ps_session_options *options,
                                         ps_session_config *config, const ps_program **programs);

// The set of a plan file. Messages start with the path.
//
// PS_NOT_FOUND, PS_IO, PS_INVALID, PS_UNSUPPORTED  as ps_file_map and ps_plan_set_parse
PS_MUST_USE ps_status ps_plan_set_read(const char *path, ps_arena *arena, ps_plan_set **out);

// One plan a bucket, in their order. Those that are read have this model's and machine's key,
// vocabulary and KV; that they name its weights is for ps_exec_bind to check. Memory comes from
// `arena`.
//
// PS_INVALID  plans that are read do not fit: the message says what differs, and for those of a
//             file how to make them
// others      as ps_plan_set_read, ps_passes_run
PS_MUST_USE ps_status ps_session_get_plans(const ps_model *model, const ps_session_options *options,
                                           ps_plan_source source, ps_arena *arena,
                                           const ps_plan *out_plans[PS_SESSION_PLANS_MAX],
                                           uint32_t *out_count);

#endif
