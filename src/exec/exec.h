// exec/exec.h - the machine: runs plans on a worker team.
//
// An executor owns the workers, the workspace, the KV pool and the block tables. Plans are bound to
// it once: names become addresses, and everything a plan says is checked against the weights at
// hand. Running allocates nothing. It knows no model; see plan/plan.h for what drives it.
#ifndef PS_EXEC_H
#define PS_EXEC_H

#include "comm/comm.h"
#include "exec/team.h"
#include "experts/store.h"
#include "kernels/kernels.h"
#include "plan/plan.h"
#include "trace/trace.h"

typedef struct ps_exec ps_exec;
typedef struct ps_program ps_program; // a plan bound to an executor

// One tensor as the workers read it. Matrices: packed groups (base/layout.h); those of experts are
// expert_stride_bytes apart, ps_packed_bytes where nothing is between them. Vectors (is_vector):
// f32 [inputs]. Experts that a store keeps have no data: they are its layer `stored.layer`, and
// begin at `stored.offset_bytes` of its part `stored.part`.
typedef struct ps_weight {
    const char *name;
    ps_dtype dtype;
    uint32_t outputs, inputs;
    uint32_t experts; // 0: one matrix
    bool is_vector;
    const void *data;             // 64-byte aligned; NULL: in the store
    uint64_t expert_stride_bytes; // from one expert's matrix to the next
    struct {
        uint32_t layer, part;
        uint64_t offset_bytes;
    } stored;
} ps_weight;

// The packed matrix of one expert.
static inline const char *ps_weight_expert(const ps_weight *weight, uint64_t expert)
{
    return (const char *)weight->data + expert * weight->expert_stride_bytes;
}

// True for operators that read their weight as a vector (is_vector), not as a packed matrix.
bool ps_exec_takes_vector(ps_op op);

// Finds a weight by name; NULL when there is none.
typedef const ps_weight *ps_weight_lookup(void *context, const char *name);

typedef struct ps_exec_lanes {
    ps_trace_lane *worker[PS_TEAM_WORKERS_MAX];
    ps_trace_lane *prefetch[PS_TEAM_WORKERS_MAX];
    ps_trace_lane *side[PS_TEAM_WORKERS_MAX]; // what dedicated threads prefetch for the worker
    ps_trace_lane *comm;
} ps_exec_lanes;

// What the router of one MoE layer chose for the rows of a step.
typedef struct ps_routes {
    uint32_t layer; // counts the MoE layers of the plan from 0
    uint32_t row_count;
    const ps_step_row *rows; // [row_count]
    const char *ids;         // of row 0: int32_t [top_k], best first, all of them below `experts`
    uint64_t row_bytes;      // from the ids of a row to those of the next
} ps_routes;

// Sees every call of a MoE layer once, before its experts are read, on the thread that runs the
// step. What it is handed lives as long as the call. The other workers compute meanwhile, so it has
// to be quick.
typedef struct ps_route_observer {
    uint32_t layers, experts, top_k; // of the model; plans of others are refused
    void (*see)(void *context, const ps_routes *routes);
    void *context;
} ps_route_observer;

// Experts that tokens go to whatever routers say, so that models of random weights have the skew of
// a trace. Sequence s takes those of sequence s % sequences; behind the last token of that one they
// begin again.
typedef struct ps_forced_routes {
    uint32_t sequences, layers, top_k; // layers: MoE layers, as many as the plan has
    const uint64_t *starts; // [sequences + 1] tokens of all sequences before; each has one at least
    const uint16_t *ids; // [starts[sequences]][layers][top_k]; of a token and layer all different
} ps_forced_routes;

typedef struct ps_exec_options {
    uint32_t sequences;                        // slots for sequences, >= 1
    uint32_t context_tokens;                   // positions a sequence may have
    uint32_t group_blocks[PS_KV_GROUPS_LIMIT]; // KV blocks in each group's pool
    // What is recorded where: lanes of each worker for steps and waits, and for prefetches, and one
    // for collectives. Borrowed; NULL, or all NULL: nothing is recorded.
    const struct ps_exec_lanes *lanes;
    uint32_t prefetch_threads; // that do nothing else; up to the workers of the team
    bool guards_prefetch;      // sites that do not pay in a kind of window are switched off there
    ps_comm *comm; // of plans for several ranks; borrowed, outlives the executor; NULL: one rank
    const ps_forced_routes *forced_routes; // borrowed, outlives the executor; NULL: none
    bool checks_grouped; // experts are computed for each row alone, too, and all bits compared
    const ps_route_observer *routes; // borrowed, outlives the executor; NULL: nobody looks
} ps_exec_options;

// The team is borrowed and outlives the executor.
PS_MUST_USE ps_status ps_exec_create(ps_team *team, const ps_kernels *kernels,
                                     const ps_exec_options *options, ps_exec **out);
void ps_exec_destroy(ps_exec *exec); // also its programs; NULL is allowed

// Binds a verified plan; the plan, and the weights that `lookup` gives, are borrowed and outlive
// the executor. The first plan decides the layers of the KV pool, later ones must agree. Call for
// all plans before the first step.
//
// PS_NOT_FOUND  the plan names a weight that is not there
// PS_INVALID    a weight's dtype or shape is not what the plan says; context_max above the
//               executor's; KV differs; prefetches of dedicated threads, and there are none; MoE
//               layers are not those that the observer of routes expects
// PS_UNSUPPORTED  it was made for another machine: planned-only formats, context_shards
PS_MUST_USE ps_status ps_exec_bind(ps_exec *exec, const ps_plan *plan, ps_weight_lookup *lookup,
                                   void *context, ps_program **out);

// Allocates workspace and KV pool for all bound plans. Call once, after the last ps_exec_bind.
PS_MUST_USE ps_status ps_exec_prepare(ps_exec *exec);

// Gives the executor, for its plans, what keeps the weights without data. Takes the store.
void ps_exec_take_experts(ps_exec *exec, ps_expert_store *store);

// Adds bytes to an account, which has to outlive the executor; they leave it when that is
// destroyed. Once an executor.
void ps_exec_charge(ps_exec *exec, _Atomic uint64_t *account, uint64_t bytes);
const ps_expert_store *ps_exec_experts(const ps_exec *exec); // NULL: none

// Where worker 0's time goes in layers of streamed experts: until some are there and packed; in
// sorting and asking; in computing.
typedef struct ps_expert_times {
    uint64_t move_ns, dispatch_ns, compute_ns;
} ps_expert_times;
ps_expert_times ps_exec_expert_times(const ps_exec *exec);

// Runs one step. `step` is checked whole before anything changes, but for PS_INVALID of a row that
// reads a block which its sequence does not have: the changes to the tables are then made.
//
// PS_INVALID    a row, a token or a block is out of range; the message says which
// PS_EXHAUSTED  more rows, or a higher position, than the program's bucket has
// PS_LOST       another rank is lost or has diverged; nothing can be run any more
// PS_IO         an expert could not be read; what the step computed is not right, the next may be
// PS_INTERNAL   checks_grouped found a difference; the message has the first
PS_MUST_USE ps_status ps_exec_run(ps_exec *exec, const ps_program *program, const ps_step *step);

// The logits of the step's `index`-th row that wanted them, f32 [vocabulary]; valid until the next
// step.
float *ps_exec_logits(const ps_exec *exec, const ps_program *program, uint32_t index);

// Memory that lives as long as the executor: for the plans that are bound to it.
ps_arena *ps_exec_arena(ps_exec *exec);

const ps_plan *ps_program_plan(const ps_program *program);

// Bytes that ps_exec_prepare allocated.
uint64_t ps_exec_mapped_bytes(const ps_exec *exec); // KV and workspaces, whole pages
uint64_t ps_exec_workspace_bytes(const ps_exec *exec);
uint64_t ps_exec_kv_bytes(const ps_exec *exec);

// Bytes of KV that attention reads for a row at that position, all layers together.
uint64_t ps_exec_kv_read_bytes(const ps_exec *exec, uint32_t position);

// What became of the prefetches of a program for one site in one kind of window (barrier, side,
// any other: collectives), or of all (PS_SITE_COUNT); all workers and runs together.
typedef struct ps_prefetch_report {
    uint64_t planned; // prefetches in the plan
    uint64_t fired;   // how often one of them was made
    uint64_t asked_bytes;
    uint64_t moved_bytes; // before the wait was over
    // From runs without, each between two runs with: how much longer they took, as a part of a run.
    uint32_t controls;
    double gain, gain_lower, gain_upper; // median and quartiles
    bool is_off;                         // it lost, and was switched off
    // Of worker 0's waits for which times were taken (ps_exec_set_step_times): what was left of
    // them when all that they were for had been moved, and how many there were.
    uint64_t slack_ns, slack_waits;
} ps_prefetch_report;
void ps_exec_prefetch_report(const ps_exec *exec, const ps_program *program, ps_site site,
                             ps_window window, ps_prefetch_report *out);

// How many prefetches of each site all runs of the program have made, as each worker counts them.
void ps_exec_prefetches_made(const ps_program *program, uint64_t made[PS_SITE_COUNT]);

// Where worker 0's time goes in one step of a plan: in its operator, and before that at its
// barrier. Worker 0 is the thread that called, so the sum over all steps is the time of a run.
typedef struct ps_step_time {
    uint64_t work_ns, wait_ns;
} ps_step_time;

// Adds the times of the following runs to times [step_count + 1] of their plan; the last one's
// wait_ns is the wait for the other workers behind the last step. Borrowed; NULL stops it. Off, it
// costs a test a step; on, one or two readings of the clock.
void ps_exec_set_step_times(ps_exec *exec, ps_step_time *times);

#endif
