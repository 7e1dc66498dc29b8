// engine/model_internal.h - what an open model is made of. For files of engine/ only.
#ifndef PS_ENGINE_MODEL_INTERNAL_H
#define PS_ENGINE_MODEL_INTERNAL_H

#include "engine/hot_set.h"
#include "engine/model_experts.h"
#include "engine/model_source.h"
#include "engine/ranks.h"
#include "engine/tuned.h"
#include "engine/weights.h"
#include "experts/cold.h"
#include "format/pst.h"
#include "hw/machine.h"
#include "io/reader.h"
#include "model/model.h"
#include "passes/passes.h"
#include "session/session.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

#include <prestage/prestage.h>

// A session that the other ranks have, too.
typedef struct ps_told_session {
    ps_ranks *ranks;
    uint32_t number;
    bool is_open;
} ps_told_session;

// Of a model that may take so much memory. Sessions charge it.
typedef struct ps_memory_account {
    uint64_t loaded_bytes;           // of the process, when the model had been opened
    _Atomic uint64_t promised_bytes; // to sessions, touched or not
} ps_memory_account;

struct ps_model {
    ps_arena arena;
    char *path;
    ps_model_file source;
    ps_gguf *file;                 // of source
    const ps_model_config *config; // NULL: opened for its vocabulary only
    ps_tokenizer *tokenizer;
    ps_chat_template *chat_template; // made at first use
    ps_ranks *ranks;                 // NULL: one
    bool is_told;                    // the other ranks follow, until they are told of the end
    ps_told_session told[PS_SESSIONS_MAX];
    ps_team *team;
    ps_kernels kernels;
    ps_machine machine;
    bool is_tuned; // the machine's rates are those of
    ps_tuned tuned;
    char rates[PS_MACHINE_TEXT_BYTES];
    ps_weights *weights;
    uint64_t memory_bytes;      // that it may take; 0: no limit
    ps_memory_account *account; // in the arena
    uint64_t expert_bytes;      // of that for experts of each session; 0: what is left
    bool streams_experts;
    ps_expert_policy_kind expert_policy;
    ps_reader_options reader; // how experts are read; 0 but in tests
    const uint32_t *hot;      // [hot_count] keys, hottest first
    uint32_t hot_count;
    ps_hot_set_size hot_size; // of the file that they come from
    bool hot_cut;             // what there is no room for is left out
    ps_cold_experts *cold;    // of a simulated tier; NULL: none
    ps_tier_link tier_link;
    ps_trace *trace; // NULL: none
    char *trace_file;
    ps_exec_lanes lanes;
    ps_model_experts *experts;             // NULL: it has none, or another rank counts
    const ps_forced_routes *forced_routes; // of forced_path, which is NULL where there are none
    char *forced_path;
    uint64_t bytes_per_token;
    double load_ms;
};

// The tokenizer that the file describes.
PS_MUST_USE ps_status ps_model_open_tokenizer(ps_model *model);

// Starts recording, with a lane for each worker, when `path` is not NULL; and writes what was
// recorded. A file that cannot be written is a warning: the work has been done.
PS_MUST_USE ps_status ps_model_start_trace(ps_model *model, const char *path);
void ps_model_end_trace(ps_model *model);

// Measures what plans with prefetches are made with, unless that has been done.
PS_MUST_USE ps_status ps_model_measure_rates(ps_model *model);

// Of a model that shared caches hold in part, rates of reads are its own: they are measured.
void ps_model_measure_memory(ps_model *model);

// Says the rates anew, after they have been measured.
void ps_model_describe_rates(ps_model *model);

// Lanes for what dedicated threads prefetch, unless they are there, or nothing is recorded.
PS_MUST_USE ps_status ps_model_trace_side(ps_model *model);

// Puts the plans of a session and the rates that they were made with into the trace, so that it can
// be read without the model.
PS_MUST_USE ps_status ps_model_trace_plans(const ps_model *model, const ps_session_config *config);

// Makes the plan of one bucket. Memory comes from `arena`.
PS_MUST_USE ps_status ps_engine_make_plan(const ps_model_config *config, const ps_gguf *file,
                                          const ps_pass_options *options, ps_arena *arena,
                                          ps_plan **out);

// "path: " before the message of a failed status.
PS_MUST_USE ps_status ps_engine_name_file(const char *path, ps_status status);

#endif
