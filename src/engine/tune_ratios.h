// engine/tune_ratios.h - finds, for each bucket of decode steps, the prefetch ratios that pay.
#ifndef PS_ENGINE_TUNE_RATIOS_H
#define PS_ENGINE_TUNE_RATIOS_H

#include "engine/step_timer.h"

#define PS_TUNE_BATCHES_MAX 32u

typedef enum ps_tune_objective {
    // The time of a step. Of batches that share a bucket the smallest decides; the smallest bucket
    // is looked at first, and the config is that of the smallest one that gains.
    PS_TUNE_LATENCY,
    // Tokens a second, of batches that share a bucket all together; the other way round.
    PS_TUNE_THROUGHPUT,
} ps_tune_objective;

typedef struct ps_tune_ratios_options {
    ps_model *model;           // open: its steps are timed; NULL: they are played
    const ps_machine *machine; // of the plans
    uint32_t ranks;
    uint32_t weight_bits;    // of an architecture (model_source.h), which is played; 0: as it says
    uint32_t context_tokens; // of steps that are played; 0: PS_STEP_CONTEXT_TOKENS
    ps_session_options session; // KV types, schedule; its ratios stand beside those found, and what
                                // they say of max_bytes is for both
    const uint32_t *batches;    // 1..PS_STEP_BATCH_MAX
    uint32_t batch_count;       // <= PS_TUNE_BATCHES_MAX
    ps_tune_objective objective;
    double limit_s; // no candidate is begun later; one that is being timed is finished
    void (*progress)(void *context, double fraction); // NULL: not called
    void *progress_context;
    const volatile bool *cancel; // NULL: never
} ps_tune_ratios_options;

typedef struct ps_tuned_batch {
    uint32_t batch, bucket; // rows, and index
    bool is_timed;          // false: no time was left, or there is no window
    ps_ratio_timing given;  // with the ratios of the options
    ps_ratio_timing tuned;  // with those found
} ps_tuned_batch;

typedef struct ps_tuned_bucket {
    uint32_t rows_least, rows; // of its steps
    ps_ratio_start start;      // sites that have a window, and what it has time for
    ps_ratio_found found;
} ps_tuned_bucket;

typedef struct ps_tuned_ratios {
    uint32_t batch_count, bucket_count;
    ps_tuned_batch batches[PS_TUNE_BATCHES_MAX];  // ascending, none twice
    ps_tuned_bucket buckets[PS_TUNE_BATCHES_MAX]; // with batches, ascending
    ps_prefetch_ratios given;
    uint32_t chosen; // the bucket whose ratios the config is to have; bucket_count: none gains
    bool has_module[PS_MODULE_COUNT]; // of the model
    double took_s;
} ps_tuned_ratios;

// On rank 0. path: the model's file, or the name of an architecture, whose steps are played.
//
// PS_INVALID    an open model with plans of its own, which its sessions would use
// PS_CANCELLED
// others        as opening the file and making sessions
PS_MUST_USE ps_status ps_tune_ratios(const char *path, const ps_tune_ratios_options *options,
                                     ps_tuned_ratios *out);

// What weight_prefetch_config says of a bucket: its ratios, for steps of its rows.
ps_prefetch_ratios ps_tuned_bucket_ratios(const ps_tuned_ratios *tuned, uint32_t bucket);

// The content of a plan file as of PS_PLAN_SESSION, where each bucket has the ratios found for it;
// others are off. options: of a session of policy ratio. *out_text: free with ps_free.
PS_MUST_USE ps_status ps_tuned_ratios_plans(const char *path, const ps_plan_options *options,
                                            const ps_machine *machine, const ps_tuned_ratios *tuned,
                                            char **out_text, size_t *out_length);

#endif
