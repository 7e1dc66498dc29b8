// prestage/prestage.h - the engine: open a model, run sequences, read logits, sample.
//
//     ps_model *model;       a model file, packed for this CPU, with its worker threads
//     ps_session *session;   a KV pool and plans; many sequences share them
//     ps_sequence sequence;  one context of tokens
//     ps_sampler *sampler;   picks a token from logits
//
// A minimal program is examples/generate.c. Greedy output is a pure function of model and prompt:
// neither the thread count nor the instruction set, batch composition or chunking of the prompt
// changes a token.
//
// Threads: one model and all of its sessions are driven by one thread at a time. Different models
// are independent. Errors: every fallible call returns a ps_status, and ps_error_message() has one
// line that says what was wrong and what would be right. Out parameters are written on success
// only.
#ifndef PRESTAGE_H
#define PRESTAGE_H

#include <prestage/experts.h>
#include <prestage/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PS_API __attribute__((visibility("default")))

// "0.1.0"; static.
PS_API const char *ps_version(void);
// The instruction-set features of this CPU that prestage uses, separated by spaces; static.
PS_API const char *ps_cpu_features(void);
// Frees what the library returned in an out parameter marked "free with ps_free". NULL is allowed.
PS_API void ps_free(void *memory);

// ---- ranks

// Several processes that share a model: each holds and computes a part of every layer (tensor
// parallelism). Every rank opens the same file; rank 0 then uses the model as if it were alone, the
// others call ps_ranks_follow. One thread of a process drives its ranks handle and all that uses
// it.
typedef struct ps_ranks ps_ranks;
typedef struct ps_model_options ps_model_options;

typedef enum ps_ranks_launch {
    PS_RANKS_FORK,      // ps_ranks_start forks the other ranks, on this host; before any thread
    PS_RANKS_MPI,       // mpirun has started them
    PS_RANKS_SIMULATED, // only rank 0 is real: speed can be measured, answers mean nothing
} ps_ranks_launch;

typedef struct ps_ranks_options {
    ps_ranks_launch launch;
    uint32_t size;    // ranks in all; MPI: as mpirun says
    const char *link; // "latency=40us,bandwidth=25Gbps": delays every collective; NULL: nothing
    uint32_t rank_threads; // that each rank will compute with; 0: 1
    double timeout_s;      // a rank that does not come for so long is lost; 0: 5
} ps_ranks_options;

// PS_RANKS_FORK returns in every rank's process. Ranks that see the same CPUs share them out.
//
// PS_INVALID      an option; a launcher that is not this MPI's started the process
// PS_UNSUPPORTED  built without MPI
// PS_LOST         a rank did not come
PS_API PS_MUST_USE ps_status ps_ranks_start(const ps_ranks_options *options, ps_ranks **out);
// Models that use the ranks are closed before. PS_LOST: another rank did not end well. NULL is
// allowed.
PS_API PS_MUST_USE ps_status ps_ranks_stop(ps_ranks *ranks);
// Ranks other than 0: opens the model file at `path` when rank 0 opens it, and does what rank 0's
// sessions do, until rank 0 stops. `path` may be another name of the same file, as on another host.
// options: those of ps_model_open that are this rank's own, may be NULL; threads are as rank 0
// says.
//
// PS_LOST  a rank is lost or has diverged; otherwise what opening failed with
PS_API PS_MUST_USE ps_status ps_ranks_follow(ps_ranks *ranks, const char *path,
                                             const ps_model_options *options);
PS_API uint32_t ps_ranks_rank(const ps_ranks *ranks); // of NULL: 0
PS_API uint32_t ps_ranks_size(const ps_ranks *ranks); // of NULL: 1
// After a failure: whether this rank is the one of which people should see the message.
PS_API bool ps_ranks_speaks(const ps_ranks *ranks); // of NULL: true

// ---- model

typedef struct ps_model ps_model;

PS_API const char *
ps_expert_policy_name(ps_expert_policy_kind policy); // NULL behind the last; static

struct ps_model_options {
    uint32_t threads; // 0: as many as the affinity mask and the cgroup's CPU quota allow
    // Called from the opening thread with 0..1 while weights are packed; NULL: not called.
    void (*progress)(void *context, double fraction);
    void *progress_context;
    ps_ranks *ranks; // that share the model; borrowed, NULL: none
    // A Chrome trace of the last steps is written here when the model is closed; those of other
    // ranks than 0 to names with ".rank1" and so on behind. NULL: none.
    const char *trace_file;
    // A file of `prestage tune` for this machine, number of threads and ranks. NULL: the one that
    // it keeps in the user's cache folder, if there is one; otherwise several ranks measure what
    // they need when they open, in some 50 ms.
    const char *machine_file;
    bool vocabulary_only; // tokenizer and metadata only: no weights, no threads, no sessions
    // What the process may take of memory, all together: weights, KV cache, workspaces, experts,
    // itself. Where a model's experts do not all fit, each session keeps as many as do and reads
    // the others from the file when they are wanted; results are the same. A session that finds no
    // room, because others have it, is refused. 0: no limit, all are kept.
    uint64_t memory_bytes;
    const struct ps_session_options *session; // that memory is planned for; NULL: the defaults
    uint64_t expert_bytes; // of that for experts, at most; 0: what the rest leaves
    // A file of `prestage experts rank` with experts that are loaded when a session is made; of it
    // the hottest hot_experts, or with 0 as many as there is room for. NULL: none. More than there
    // is room for are refused, or with hot_cut left out.
    const char *hot_set;
    uint32_t hot_experts;
    bool hot_cut;
    ps_expert_policy_kind expert_policy;
    // "latency=10us,bandwidth=13.7GB/s": all experts are kept in memory, beside what was given, and
    // what a session keeps of them is copied from there as over such a link: as an accelerator's
    // memory of that size would get them. NULL: they are read from the file.
    const char *tier_sim;
};

// Opens a GGUF file: checks it, packs its weights (about the file's size in memory), starts the
// workers. Or a file that `prestage compile` made, whose weights are mapped and not packed.
// options may be NULL.
//
// PS_NOT_FOUND, PS_IO   the file cannot be read
// PS_INVALID            the file is damaged or contradicts itself, or is an architecture alone
// PS_NO_MEMORY          its weights are larger than the memory that is free
// PS_INVALID            or memory_bytes are fewer than the model needs with such a session: the
//                       message says how many, and for what
// PS_UNSUPPORTED        an architecture, tensor type or tokenizer that prestage does not have; the
//                       message names it. Or a compiled file of another layout or version
//
// machine_file fails as the file does; PS_INVALID, too, when it is for something else.
PS_API PS_MUST_USE ps_status ps_model_open(const char *path, const ps_model_options *options,
                                           ps_model **out);
// Ends the workers and frees the weights. Sessions must be destroyed before. NULL is allowed.
PS_API void ps_model_close(ps_model *model);

typedef struct ps_model_info {
    const char *path, *architecture, *name; // borrowed from the model
    uint32_t layers, dimension, vocabulary;
    uint32_t context_tokens;        // the longest context the model was made for
    uint32_t experts, experts_used; // 0: dense
    uint32_t hot_experts;           // of its hot set; 0: none
    double hot_coverage;            // share of uses that the set has, as its file says: of the
    double hot_held_out;            //   tokens that it was made of, and of others; NaN: not known
    uint64_t file_bytes;
    uint64_t weight_bytes;    // packed, in memory
    uint64_t bytes_per_token; // weights that one decode step of one row reads
    uint64_t fingerprint;     // metadata, tensor table, head of each tensor
    uint32_t threads;         // of each rank
    uint32_t ranks;
    const char *isa;          // kernels in use: "ref", "avx2", "avx512"
    const char *rates;        // that plans are made with, as a line of text
    const char *rates_source; // "tuned 2026-11-29", "measured quickly now", "defaults"
    double cache_read_gbs;    // of these rates, all workers together: 10^9 bytes a second from L2,
    double int8_gops, f32_gops; // and 10^9 multiply-adds of quantised and of float weights
    double load_ms;
    int64_t bos, eos; // token ids, -1: none
    bool has_chat_template;
} ps_model_info;
PS_API void ps_model_get_info(const ps_model *model, ps_model_info *out);

// Measures what the model's workers read from memory together at best, in 10^9 bytes a second: the
// ceiling of decoding. Takes about half a second and 512 MiB.
PS_API PS_MUST_USE ps_status ps_model_measure_read(ps_model *model, double *out_gbs);

// ---- text

enum {
    // BOS (and EOS) as the model asks, never twice.
    PS_TEXT_ADD_SPECIAL = 1,
    // Text like "<|im_end|>" becomes the special token; for trusted text only.
    PS_TEXT_PARSE_SPECIAL = 2,
};

// Text of any bytes to tokens. *out_ids: [*out_count], free with ps_free.
PS_API PS_MUST_USE ps_status ps_model_tokenize(const ps_model *model, const char *text,
                                               size_t length, unsigned flags, int32_t **out_ids,
                                               size_t *out_count);

// Tokens to text. *out_text: NUL-terminated behind *out_length bytes, which may hold NULs and, for
// a single token, part of a UTF-8 sequence; free with ps_free. show_special: control tokens appear
// by name. PS_INVALID: an id out of range.
PS_API PS_MUST_USE ps_status ps_model_detokenize(const ps_model *model, const int32_t *ids,
                                                 size_t count, bool show_special, char **out_text,
                                                 size_t *out_length);

// The bytes of one token as it continues a text (a leading space stays). Free with ps_free.
PS_API PS_MUST_USE ps_status ps_model_token_text(const ps_model *model, int32_t id,
                                                 bool show_special, char **out_text,
                                                 size_t *out_length);

// True for tokens that end an answer.
PS_API bool ps_model_is_end(const ps_model *model, int32_t id);

// Renders the model's chat template. context_json: one object with "messages" and, as the template
// wants them, "tools", "add_generation_prompt" and others; "bos_token" and "eos_token" are filled
// in where missing. *out_text: free with ps_free.
//
// PS_NOT_FOUND    the model has no template
// PS_INVALID      not JSON, or the template refused (raise_exception)
// PS_UNSUPPORTED  the template uses something that prestage's Jinja does not have; named, with
//                 its line
PS_API PS_MUST_USE ps_status ps_model_render_chat(const ps_model *model, const char *context_json,
                                                  char **out_text, size_t *out_length);

// The same to tokens: special tokens count where the template wrote them, and are plain text where
// they come from messages. No second BOS.
PS_API PS_MUST_USE ps_status ps_model_tokenize_chat(const ps_model *model, const char *context_json,
                                                    int32_t **out_ids, size_t *out_count);

// ---- sessions

typedef struct ps_session ps_session;
typedef uint32_t ps_sequence; // a slot of one session

// How the KV cache keeps keys or values: as f16; or in about half the bytes, as int8 with an f16
// scale for every 32 values of a head. Results differ by that rounding; each type gives the same
// ones on every machine.
typedef enum ps_kv_type { PS_KV_F16, PS_KV_Q8_0 } ps_kv_type;

// "f16", "q8_0"; NULL behind the last; static.
PS_API const char *ps_kv_type_name(ps_kv_type type);

// What is moved nearer to the compute while ranks wait for each other, or workers at a barrier for
// the last one. No result changes by it.
typedef enum ps_prefetch_policy {
    PS_PREFETCH_DEFAULT, // auto with several ranks, off with one
    // Weights and KV, whole or in part, as far as the wait and the caches allow, at collectives and
    // barriers; what turns out not to pay is switched off. With one rank and one thread there is
    // nothing to wait for.
    PS_PREFETCH_AUTO,
    PS_PREFETCH_OFF,
    // Algorithm 1 of arXiv 2501.08192: whole ones, below the capacity of L2; at collectives alone.
    PS_PREFETCH_PRESERVE,
    // The parts of weights that ps_prefetch_ratios says, under the vector operators before their
    // linears.
    PS_PREFETCH_RATIO,
    PS_PREFETCH_POLICY_COUNT,
} ps_prefetch_policy;
// "default", "auto", "off", "preserve"; NULL behind the last; static
PS_API const char *ps_prefetch_policy_name(ps_prefetch_policy policy);
// What a policy comes to with so many ranks.
PS_API ps_prefetch_policy ps_prefetch_policy_of(ps_prefetch_policy policy, uint32_t ranks);

// The linears of weight_prefetch_config, as users of vLLM-Ascend know it, and its modules.
typedef enum ps_ratio_site {
    PS_RATIO_ATTN_QKV,
    PS_RATIO_ATTN_O,
    PS_RATIO_MLP_GATE_UP, // of dense models
    PS_RATIO_MLP_DOWN,
    PS_RATIO_MOE_GATE_UP, // all experts of a layer: which ones will be used is not known yet
    PS_RATIO_COUNT,
} ps_ratio_site;
typedef enum ps_ratio_module {
    PS_MODULE_ATTN,
    PS_MODULE_MLP,
    PS_MODULE_MOE,
    PS_MODULE_COUNT,
} ps_ratio_module;

// How much of which weight is moved.
typedef struct ps_prefetch_ratios {
    double ratio[PS_RATIO_COUNT]; // 0..1 of the linear's weight; 0: no byte
    uint64_t max_bytes; // of one linear; 0: 18 MiB, or what the caches hold if that is less
    uint32_t min_tokens[PS_MODULE_COUNT], max_tokens[PS_MODULE_COUNT]; // rows of a step
} ps_prefetch_ratios;

// What vLLM-Ascend's guide says: moe.gate_up 0.8, the others 1; steps of any number of rows.
PS_API ps_prefetch_ratios ps_prefetch_ratios_default(void);

// vLLM's --additional-config, as far as it is about prefetching weights.
typedef struct ps_additional_config {
    bool is_given;   // there is a weight_prefetch_config
    bool is_enabled; // false when nothing is said
    bool is_idle;    // ratios are given, and `enabled` is not: as there, that means off
    ps_prefetch_ratios ratios;
} ps_additional_config;

// Reads a JSON object, whose keys may all be left out:
//
//     {"weight_prefetch_config": {
//         "enabled": true,
//         "prefetch_ratio": {"attn": {"qkv": 1.0, "o": 1.0}, "mlp": {"gate_up": 1.0, "down": 1.0},
//                            "moe": {"gate_up": 0.8}},
//         "max_prefetch_bytes": 18874368,
//         "min_tokens": {"moe": 96}, "max_tokens": {"mlp": 499}}}
//
// PS_INVALID  anything else: an unknown key, a key twice, a ratio outside [0, 1], a number or a
//             truth value as a string. The message has the key's path and what would be right
PS_API PS_MUST_USE ps_status ps_additional_config_read(const char *json, ps_additional_config *out);

// How results of ranks are summed.
typedef enum ps_comm_schedule {
    PS_COMM_AUTO,   // as should take less time, for each size of step
    PS_COMM_SERIAL, // when all of it has been computed
    PS_COMM_FUSED,  // chunk by chunk of rows, one while the next is computed
    PS_COMM_SCHEDULE_COUNT,
} ps_comm_schedule;
PS_API const char *ps_comm_schedule_name(ps_comm_schedule schedule); // NULL behind the last; static

typedef struct ps_session_options ps_session_options;
struct ps_session_options {
    uint32_t context_tokens; // per sequence; 0: the model's, at most PS_CONTEXT_DEFAULT_MAX
    uint32_t sequences;      // at the same time; 0: 1
    uint32_t batch_rows;     // tokens in one step at most, 1..PS_BATCH_ROWS_MAX; 0: 512
    uint64_t kv_tokens;      // that the KV pool holds for all; 0: sequences x context_tokens
    // A file of plans (docs/plan-text.md) to use, which every rank opens by this name, of less than
    // 4096 bytes. NULL: plans are made, or taken from a compiled file that holds them for this
    // machine, these threads and ranks, and these buckets.
    const char *plan_file;
    ps_kv_type k_type, v_type; // of keys and of values; 0: PS_KV_F16
    ps_prefetch_policy prefetch;
    ps_prefetch_ratios ratios; // of PS_PREFETCH_RATIO
    ps_comm_schedule comm_schedule;
    // Threads beside the model's that fill the cache which cores share while those compute, under
    // the policy auto, in place of what auto does at barriers; up to one for each of the model's.
    // 0: none.
    uint32_t prefetch_threads;
    // Ranks share norms and the residual stream by rows: reduce_scatter and all_gather in place of
    // all_reduce. The same bits; no effect with one rank. Not with PS_COMM_FUSED.
    bool sequence_parallel;
    // Of each row's logits, how many of the best are wanted (ps_sampler_best_logits); 0: all. Ranks
    // then need not send the others, which become -INFINITY. No effect with one rank.
    uint32_t best_logits;
    // For developers. A route log (--route-log) whose experts the rows take in place of those that
    // routers prefer: sequence slot s those of the log's s-th sequence, again from its start behind
    // its end, and the same for slots behind the last sequence. NULL: none.
    const char *force_routes;
    // For developers: each row's experts are computed alone, too, and compared bit by bit. A step
    // with a difference fails with PS_INTERNAL.
    bool check_grouped;
};

#define PS_CONTEXT_DEFAULT_MAX 16384u
#define PS_BATCH_ROWS_MAX 4096u
// Rows of one step that can ask for logits; in a session of more sequences, one for each of them.
#define PS_LOGITS_MAX 64u

// PS_INVALID    context_tokens above the model's; batch_rows or sequences out of range, or
//               sequences x context_tokens above 2^29. Or a KV type is unknown, or is PS_KV_Q8_0
//               though the model's heads are no multiple of 32 values. Or sequence_parallel with
//               PS_COMM_FUSED. Or prefetch_threads are more than the model's, or go with another
//               policy than auto. Or plan_file is none, or is one for another model, machine,
//               number of threads or ranks, policy, schedule, bucket or KV types: the message says
//               what differs. Or force_routes is no route log, or one of other layers, experts or
//               top_k; it or check_grouped goes with a model without experts, or with several ranks
// PS_EXHAUSTED  force_routes has more tokens than have room in 256 MiB
// PS_NO_MEMORY  workspaces and KV cannot be had, or the workspaces are larger than what is free, or
//               the model's memory_bytes have no room for them beside its other sessions
// PS_NOT_FOUND, PS_IO  plan_file or force_routes cannot be read; or the file that experts are to be
//               read from is not the one any more that the model was opened from
// PS_UNSUPPORTED  it is of another version, or given for more than PS_LOGITS_MAX sequences, or has
//               fewer logits than are wanted; prefetch_threads where cores share no cache
PS_API PS_MUST_USE ps_status ps_session_create(ps_model *model, const ps_session_options *options,
                                               ps_session **out);
PS_API void ps_session_destroy(ps_session *session); // NULL is allowed

typedef struct ps_session_info {
    uint32_t context_tokens, sequences, batch_rows;
    uint64_t kv_bytes;          // address space of the KV pool; pages are taken as tokens arrive
    uint64_t workspace_bytes;   // the same of the workspaces
    uint32_t barriers_per_step; // of a decode step
    uint32_t best_logits;       // of a row, that each rank sends; 0: all, or there is one rank
} ps_session_info;
PS_API void ps_session_get_info(const ps_session *session, ps_session_info *out);

// Bytes of KV that a row at `position` of its sequence reads.
PS_API uint64_t ps_session_kv_read_bytes(const ps_session *session, uint32_t position);

// An empty sequence. PS_EXHAUSTED: all slots are taken.
PS_API PS_MUST_USE ps_status ps_sequence_open(ps_session *session, ps_sequence *out);
// Gives slot and KV blocks back. An unused slot is allowed.
PS_API void ps_sequence_close(ps_session *session, ps_sequence sequence);
// A new sequence with the same tokens; full KV blocks are shared, not copied.
PS_API PS_MUST_USE ps_status ps_sequence_fork(ps_session *session, ps_sequence sequence,
                                              ps_sequence *out);
// Forgets all tokens from `length` on. PS_INVALID: length is above the sequence's; PS_UNSUPPORTED:
// a sliding window has already dropped what the shorter sequence would see.
PS_API PS_MUST_USE ps_status ps_sequence_truncate(ps_session *session, ps_sequence sequence,
                                                  uint32_t length);
// Tokens in the sequence.
PS_API uint32_t ps_sequence_length(const ps_session *session, ps_sequence sequence);

typedef struct ps_row {
    ps_sequence sequence;
    int32_t token;
    bool wants_logits;
} ps_row;

// Appends each row's token to its sequence and runs the model once over all of them. Rows of one
// sequence stand together. Nothing changes unless PS_OK is returned.
//
// PS_INVALID    a sequence is not open, a token is out of range, rows of a sequence are apart,
//               count is 0 or above batch_rows, or more rows want logits than PS_LOGITS_MAX and
//               than the session has sequences
// PS_EXHAUSTED  a sequence would pass its context, or the KV pool is full
// PS_IO         an expert could not be read; the message names it and its place in the file
// PS_LOST       another rank is lost
PS_API PS_MUST_USE ps_status ps_session_step(ps_session *session, const ps_row *rows,
                                             uint32_t count);

// Logits of the last step's index-th row that wanted them, f32 [vocabulary]; may be changed by the
// caller; valid until the next step. Where the session was made for best_logits only, others may be
// -INFINITY; a NaN or +INFINITY among them shows as a NaN.
PS_API float *ps_session_logits(ps_session *session, uint32_t index);

// Appends tokens to one sequence in steps of at most batch_rows; the last one's logits are at index
// 0. `cancel` is read between steps, NULL is allowed.
//
// PS_INVALID    the sequence is not open, or a token is out of range; nothing was appended
// PS_EXHAUSTED  the context or the pool cannot hold them; nothing was appended
// PS_CANCELLED  *cancel became true; what ran stays appended
PS_API PS_MUST_USE ps_status ps_session_prefill(ps_session *session, ps_sequence sequence,
                                                const int32_t *tokens, size_t count,
                                                const volatile bool *cancel);

// ---- profiling

// What all steps of the plan with one operator and site took and read, summed over runs.
typedef struct ps_profile_op {
    const char *op;        // as ps_plan_file names it, or "end": behind the last operator; static
    const char *site;      // "attn.qkv", "mlp.down", ...; "": none; static
    uint64_t steps;        // of plans that ran
    uint64_t barriers;     // before those steps
    uint64_t work_ns;      // in the operator
    uint64_t wait_ns;      // at the barriers before it: others were not done yet
    uint64_t weight_bytes; // read; of experts, the most that the rows can have chosen
    uint64_t kv_bytes;     // of the positions that attention saw, each once per sequence and run
} ps_profile_op;

// What some linears of one site took, read and computed, summed.
typedef struct ps_profile_part {
    uint64_t linears; // how many ran
    uint64_t work_ns;
    uint64_t weight_bytes;      // as of a ps_profile_op
    uint64_t int8_ops, f32_ops; // multiply-adds; of experts, those that the router chose
} ps_profile_part;

// The linears of a site, in decoding or in reading prompts, by whether the run had a prefetch for
// them: not in controls, nor in layers where the plan declines it.
typedef struct ps_profile_linear {
    const char *site; // as of a ps_profile_op
    bool is_prompt;   // of plans for more than 8 rows
    ps_profile_part without, with;
} ps_profile_linear;

// Times are those of the calling thread, which is one of the workers, so that work and wait of all
// operators add up to wall_ns, but for starting the workers. Bytes are those of all workers.
typedef struct ps_profile {
    uint64_t runs;     // of the model over some rows: ps_session_step makes one
    uint64_t rows;     // of those runs
    uint64_t barriers; // of those runs
    uint64_t wall_ns;
    uint32_t op_count;
    const ps_profile_op *ops; // [op_count], in the order of the plan; borrowed from the session
    uint32_t linear_count;
    const ps_profile_linear *linears; // [linear_count], the same
} ps_profile;

// Counts the runs from here on, in addition to what was counted before. Costs one or two readings
// of the clock per operator while it is on, and nothing while it is off; changes no result.
//
// PS_NO_MEMORY  the first call allocates
PS_API PS_MUST_USE ps_status ps_session_profile_start(ps_session *session);
// Stops counting and keeps what was counted.
PS_API void ps_session_profile_stop(ps_session *session);
// Forgets what was counted.
PS_API void ps_session_profile_reset(ps_session *session);
// What was counted; ops are valid until the session is destroyed and change with it.
PS_API void ps_session_profile_get(const ps_session *session, ps_profile *out);

// ---- prefetching

// What prefetching did for one site in one kind of window, in decoding or in reading prompts, since
// the session was made; of this rank.
typedef struct ps_prefetch_site {
    const char *site;   // "attn.qkv", "kv", ...; "all": together; static
    const char *window; // static: "comm", while ranks wait for each other; "barrier", while workers
                        // do; "vector", while operators before its linear run; "side", by dedicated
                        // threads; or "all"
    uint64_t planned;   // prefetches in the plans
    uint64_t fired;     // how often they were made
    uint64_t asked_bytes;
    uint64_t moved_bytes; // before what was waited for had come
    // One run in 32 goes without, for one site or all: how much longer it takes than those beside
    // it, as a part of their time; median and quartiles of the last controls. 0 controls: not
    // known.
    double gain, gain_lower, gain_upper;
    uint32_t controls;
    bool is_prompt; // of steps of more than 8 rows
    bool is_off;    // the policy auto has switched it off, because it lost
    // While a profile is taken: waits of the calling thread in which it was made, and what was left
    // of them together when all that they were for had been moved; nothing of those that were too
    // short. 0 waits: not measured.
    uint64_t slack_ns, slack_waits;
} ps_prefetch_site;
#define PS_PREFETCH_SITES_MAX 96u

// Writes out [PS_PREFETCH_SITES_MAX] and answers how many; none where nothing is planned.
PS_API uint32_t ps_session_prefetch_get(const ps_session *session, ps_prefetch_site *out);

// ---- experts

// What became of the experts of a session that gets them when they are wanted, since it was made.
typedef struct ps_expert_report {
    uint64_t budget_bytes, slot_bytes; // for experts; taken by those that are kept
    uint64_t slots, experts;           // kept at most; in the model
    uint64_t calls, waves;             // layers of steps; and in how many parts their experts came
    uint64_t routed;                   // (row, choice) pairs of all calls,
    uint64_t wanted;                   //   experts that these are, each once a call
    uint64_t pinned, cached, loading, read; // where those came from: kept for good, kept, on their
                                            // way already, the slow tier
    uint64_t hot;                           // of the wanted ones, those of the hot set
    uint64_t read_bytes;                    // guesses, and what reads are widened by, included
    uint64_t read_ns;                       // in which at least one read was under way
    // Of the calling thread in all calls: waiting for reads and packing, sorting and asking,
    // computing.
    uint64_t move_ns, dispatch_ns, compute_ns;
    // Guesses of what the next layer will want: experts guessed, of them wanted by the layer, and
    // what it wanted of all; experts read for guesses, and of them wanted; and by what a step with
    // them was faster when that was last tried, 0: not yet. While they make it slower there are
    // none.
    uint64_t guessed, guessed_right, guessed_of;
    uint64_t guesses_read, guesses_used;
    double guess_saved_ns;
    bool is_guessing;
    // Where they come from, "disk" or "dram", and how, such as "io_uring, direct"; until the
    // session is destroyed.
    const char *tier, *way;
} ps_expert_report;

// False: all experts are in memory, or the model has none.
PS_API bool ps_session_experts_get(const ps_session *session, ps_expert_report *out);

// What a row of a step is for: one of several of its sequence in the step, or the only one.
typedef enum ps_phase { PS_PHASE_PROMPT, PS_PHASE_DECODE, PS_PHASE_COUNT } ps_phase;

// Which experts routers have chosen in all sessions of a model, since it was opened or since
// ps_model_record_experts. Rank 0 counts for all ranks.
typedef struct ps_experts_info {
    uint32_t layers;                 // with experts; 0: the model has none
    uint32_t experts, experts_used;  // of each layer; those of them that a row goes to
    uint64_t tokens[PS_PHASE_COUNT]; // rows that were counted; each chose experts_used a layer
} ps_experts_info;
PS_API void ps_model_get_experts(const ps_model *model, ps_experts_info *out);

// How often one expert was chosen; layer < layers, counted over those with experts; expert <
// experts.
PS_API uint64_t ps_model_expert_uses(const ps_model *model, uint32_t layer, uint32_t expert,
                                     ps_phase phase);

// Adds what was counted to the counts file at `path` (made where there is none, replaced whole or
// not at all where there is one), for `prestage experts rank`; then counts start at 0 again.
//
// PS_INVALID      the model has no experts; or the file is damaged, of another model or of another
//                 kind
// PS_UNSUPPORTED  it is of another version
// PS_IO, PS_NO_MEMORY
PS_API PS_MUST_USE ps_status ps_model_record_experts(ps_model *model, const char *path);

// Writes the routes of all rows of all sessions to a route log from here on, for `prestage experts
// replay`: some 1 KB a token for 48 layers that use 10 experts. A file of that name is replaced
// when the log ends. Closing the model first leaves none.
//
// PS_INVALID  the model has no experts, or more than 64 are used; a log is being written; `path` is
//             no regular file
// PS_IO, PS_NO_MEMORY
PS_API PS_MUST_USE ps_status ps_model_start_route_log(ps_model *model, const char *path);
// Puts the file in its place. PS_INVALID: there is no log. PS_IO, PS_NO_MEMORY: any write of it has
// failed, and then nothing is left.
PS_API PS_MUST_USE ps_status ps_model_end_route_log(ps_model *model);

// ---- sampling

typedef struct ps_logit_bias {
    int32_t token;
    float bias; // added to the logit; -INFINITY bans the token
} ps_logit_bias;

typedef struct ps_sampler_options {
    float temperature;       // 0: the best token always (greedy)
    uint32_t top_k;          // 0: all
    float top_p;             // 1: all
    float min_p;             // 0: all
    float repeat_penalty;    // 1: none
    float presence_penalty;  // 0: none
    float frequency_penalty; // 0: none
    uint32_t penalty_last;   // tokens that the penalties look back on
    uint64_t seed;
    const ps_logit_bias *biases; // copied
    size_t bias_count;
} ps_sampler_options;

// temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, penalties off, penalty_last 64, seed 0.
PS_API ps_sampler_options ps_sampler_defaults(void);

typedef struct ps_sampler ps_sampler;

// How many of a row's best logits such a sampler looks at, so that it picks the same token without
// the others: 1 where it takes the best, top_k where it chooses among those. 0: all of them,
// because of biases, penalties, or top_k 0.
PS_API uint32_t ps_sampler_best_logits(const ps_sampler_options *options);

// PS_INVALID: an option is out of range; the message names it and the range.
PS_API PS_MUST_USE ps_status ps_sampler_create(const ps_model *model,
                                               const ps_sampler_options *options, ps_sampler **out);
PS_API void ps_sampler_destroy(ps_sampler *sampler); // NULL is allowed

// Tells the sampler of tokens that it did not pick itself (the prompt), for the penalties.
PS_API void ps_sampler_accept(ps_sampler *sampler, int32_t token);

// Picks a token from logits f32 [vocabulary], which it may change, and accepts it. Penalties and
// bias, then top_k, top_p, min_p, temperature. Equal logits: the lower id. The same seed and logits
// give the same tokens. Allocates nothing.
//
// PS_NOT_FINITE  a logit is NaN or +infinity, or none is finite
PS_API PS_MUST_USE ps_status ps_sampler_pick(ps_sampler *sampler, float *logits, int32_t *out);

// ---- plans

typedef enum ps_plan_format {
    PS_PLAN_TEXT,
    PS_PLAN_JSON,
    PS_PLAN_DOT,
    PS_PLAN_SESSION, // the content of a plan file, as ps_session_options.plan_file names it
} ps_plan_format;

typedef struct ps_plan_options {
    uint32_t rows;           // rows of a step; 0: 1
    uint32_t context_tokens; // 0: 4096, or the model's if that is less
    uint32_t threads;        // 0: as for a model
    // Take this machine's rates from the file of `prestage tune`, or, where there is none, measure
    // them (about a second); otherwise stated defaults.
    bool measure;
    ps_kv_type k_type, v_type; // as of a session
    uint32_t ranks;            // the plan of rank 0 of so many, on this host; 0: one
    const char *link;          // as of ps_ranks_options: how long collectives take; NULL: defaults
    const char *machine_file;  // a machine by its name (prestage machine list), or a file as
                               // docs/machines.md says; NULL: this one
    ps_prefetch_policy prefetch;
    ps_prefetch_ratios ratios; // of PS_PREFETCH_RATIO
    ps_comm_schedule comm_schedule;
    uint32_t prefetch_threads;           // as of a session
    bool sequence_parallel;              // as of a session
    uint32_t best_logits;                // as of a session
    uint64_t memory_bytes, expert_bytes; // as of a model: how they would be split is printed, too
    // For machines that are simulated; no session runs such plans. Bits of a weight, of an
    // architecture without weights, and of a key or value: 4, 8 or 16, without scales; 0: as the
    // architecture, or k_type and v_type, say. Ranks that follow each other and share the positions
    // of a KV, a divisor of ranks; 0: none.
    uint32_t weight_bits, kv_bits;
    uint32_t context_shards;
} ps_plan_options;

// Puts prefetches into a graph that somebody else wrote, in the text form of docs/graph-text.md: of
// the weights and KV that are read behind each collective, by policy, machine and link of the
// options; ranks are as the graph has them. Nothing else is changed, so that its results are what
// they were. The graph is checked before and after. *out_text: free with ps_free.
//
// PS_INVALID  no such text, or a graph that is not right; the message names the line or the node
PS_API PS_MUST_USE ps_status ps_plan_graph(const char *path, const ps_plan_options *options,
                                           char **out_text, size_t *out_length);

// Makes the plan of a step of a model without packing its weights, and prints it: of a model file,
// of an architecture that prestage ships ("llama3-8b"), or of a config.json. It prints steps with
// shapes, bytes, stream, split, barriers, windows and predicted times. With PS_PLAN_SESSION all
// plans of all ranks of a session whose batch_rows and context_tokens are `rows` and
// `context_tokens`, 0 meaning what it means there. *out_text: free with ps_free.
PS_API PS_MUST_USE ps_status ps_plan_file(const char *path, const ps_plan_options *options,
                                          ps_plan_format format, char **out_text,
                                          size_t *out_length);

#ifdef __cplusplus
}
#endif
#endif
