// passes/passes.h - from the graph of an architecture to a plan. Pure: memory from the graph's
// arena, no clock.
#ifndef PS_PASSES_H
#define PS_PASSES_H

#include "hw/machine.h"
#include "ir/graph.h"
#include "plan/plan.h"

#include <prestage/prestage.h>

// The bucket that a plan is made for, and the machine whose rates predict its times.
typedef struct ps_pass_options {
    uint32_t rows_max;
    uint32_t logits_max; // <= rows_max
    uint32_t context_max;
    uint32_t sequences; // whose KV a prefetch has to hold, each of context_max; 0: one
    double kv_part;     // of the KV of a rank's heads, what it reads (explore/play.h); 0: all
    ps_dtype k_dtype, v_dtype; // of the KV cache; 0 (F32): as the graph has it
    const ps_machine *machine;
    uint32_t ranks; // processes that share the model; 0: one
    uint32_t rank;  // which of them the plan is for
    // Ranks that follow each other and share the KV of the same heads by positions; 0, 1: none do.
    // Divides ranks. Nothing runs such plans: they are made to be simulated.
    uint32_t context_shards;
    ps_comm_schedule comm_schedule;
    ps_prefetch_policy prefetch;
    ps_prefetch_ratios ratios; // of PS_PREFETCH_RATIO
    uint32_t prefetch_threads; // that do nothing else, beside the workers
    bool sequence_parallel;    // ranks share norms and the residual stream by rows
    uint32_t best_logits;      // of each row, how many are wanted; 0: all
    bool streams_experts;      // they are read from disk when they are wanted
} ps_pass_options;

// Up to this many rows, small operators run on every worker, where that saves a barrier; above,
// rows are shared out.
#define PS_REPLICATED_ROWS_MAX 8u

// Gives the KV of all layers the formats of the options. PS_INVALID: heads whose columns are no whole blocks.
PS_MUST_USE ps_status ps_pass_kv_format(ps_graph *graph, const ps_pass_options *options);

// The part of the model that one rank computes: attention cut between query heads, feed-forward
// between blocks of its columns, logits between groups of the vocabulary; all_reduce and all_gather
// where parts become whole. Weights become slices of their tensors (ps_value).
//
// With context_shards, attention is cut over ranks / context_shards groups of ranks, and everything
// else over all ranks; an all_reduce of `ranks` = context_shards inside each group makes the results
// of attention whole (shard.c).
//
// Where best_logits of each row are enough, and a rank's best are fewer than its share, only those
// are gathered (all_gather_best).
//
// With sequence_parallel, sums are made by reduce_scatter: norms and the residual stream between
// two blocks are of a rank's own rows, and all_gather_rows makes them whole where a linear, the
// router or the selection of logits needs all rows. The same bits. Never with fused sums.
//
// PS_INVALID      context_shards do not divide the ranks
// PS_UNSUPPORTED  more ranks than the model can be shared by; the message says how many would do
PS_MUST_USE ps_status ps_pass_shard(ps_graph *graph, const ps_pass_options *options);

// Where experts are streamed, in steps of few rows: each layer's routing input is given to the next
// layer's router too, and what that would choose is told to where experts are kept (expert_expect),
// which may read it while this layer computes. No result depends on it.
PS_MUST_USE ps_status ps_pass_expect(ps_graph *graph, const ps_pass_options *options);

// Makes activation quantisation explicit and merges what the workers can do in one go:
//   quantise   one for each value that a linear with a quantised weight reads
//   linear     q, k and v of one input become one linear with three weights and views of its
//              output; so does a router with that of the next layer that reads the same
//   gate_up    gate and up linears and their act_mul become one; its output is quantised in place
//              when only that is read. On a machine with a stream for prefetches gate and up become
//              one linear instead, because the act_mul is a window there
//   expert_ffn   expert_gate_up and the expert_linear behind it, where experts are streamed: so
//              that each is read once
//   norm_quantise   an rms_norm whose only reader is a quantise
//   all_gather_rows   moves quantised rows where its result is only quantised: 11 bytes for 32
PS_MUST_USE ps_status ps_pass_fuse(ps_graph *graph, const ps_pass_options *options);

// Labels what can hide traffic: vector operators.
PS_MUST_USE ps_status ps_pass_window(ps_graph *graph, const ps_pass_options *options);

// Lets the sum over the ranks go chunk by chunk of rows with the linear before it, where the
// schedule asks for it, or where the cost model finds it shorter. comm_chunks chooses for every
// linear of the whole model, from what is alike on all ranks (so are the rates of the machine that
// each is given): they make the same collectives. comm_schedule, when the model is cut and fused,
// does it where there is a sum.
PS_MUST_USE ps_status ps_pass_comm_chunks(ps_graph *graph, const ps_pass_options *options);
PS_MUST_USE ps_status ps_pass_comm_schedule(ps_graph *graph, const ps_pass_options *options);

// Puts prefetches of weights and KV behind collectives, in order of use, for what runs before the
// next collective. What is read again behind a later collective is prefetched again there.
//
//   preserve  Algorithm 1 of PRESERVE (arXiv 2501.08192, section 4): whole operands while their sum
//             stays strictly below the capacity of the caches of all workers; behind the first that
//             does not fit, none. Each collective starts from 0, and only what does not wait for a
//             later collective counts. A KV cache counts at the longest context of the bucket, in
//             prompts, too.
//   auto      as much as the collective's time allows and the caches hold (15 of 16 parts of L2,
//             and half of L2 more where the last level is four times as large); parts of operands,
//             too; of a KV cache what is there. Not what computing, and not memory, bounds.
//
// PS_INVALID (the graph has prefetches already), PS_NO_MEMORY
PS_MUST_USE ps_status ps_pass_prefetch(ps_graph *graph, const ps_pass_options *options);

// Policy ratio: before the linears that the options name, as many bytes of the weight as their
// ratios say, at most ps_ratio_cap_bytes a linear, to be moved while the vector operators before it
// run. A machine with a stream for prefetches starts there; on others, workers who have no rows of
// those operators, or are done, move them: behind the last wait before the linear. It goes over the
// plan, because scheduling makes the waits.
//
// A weight is moved as a prefix of each worker's part, one of experts as a prefix of all experts.
PS_MUST_USE ps_status ps_pass_ratio(ps_plan *plan, const ps_pass_options *options, ps_arena *arena);

// Most bytes of one linear, and where that number comes from (static text).
uint64_t ps_ratio_cap_bytes(const ps_pass_options *options, const char **out_source);

// The site that a ratio is for.
ps_site ps_ratio_site_of(ps_ratio_site ratio);

// Orders, splits and places: graph in, plan out. Work is shared so that a barrier stands only where
// a value crosses workers; the workspace is laid out so that values share bytes only when a barrier
// lies between their lives.
PS_MUST_USE ps_status ps_pass_schedule(const ps_graph *graph, const ps_pass_options *options,
                                       ps_plan **out);

// After scheduling, where ps_prefetch_policy_of is auto and there are two workers or more, but no
// prefetch_threads: puts prefetches in front of barriers. Of what is read between the barrier and
// the next one, as much as workers could move in the time between the barrier before and this one,
// and as the caches hold beside what collectives' prefetches have moved. Memory comes from the
// arena.
PS_MUST_USE ps_status ps_pass_barriers(ps_plan *plan, const ps_pass_options *options,
                                       ps_arena *arena);

// The same where there are prefetch_threads, for them: puts prefetches of what one operator reads
// in front of the one that reads before it. As much as the threads move in that time, and half of
// the shared last-level cache holds; nothing where all weights stay in L2.
PS_MUST_USE ps_status ps_pass_side(ps_plan *plan, const ps_pass_options *options, ps_arena *arena);

// The compiler: the passes in order, each followed by verification.
PS_MUST_USE ps_status ps_passes_run(ps_graph *graph, const ps_pass_options *options, ps_plan **out);

#endif
