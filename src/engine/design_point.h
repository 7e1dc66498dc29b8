// engine/design_point.h - what a model takes on a machine, in simulated time.
//
// A design point is a model by its architecture, a machine by its rates and a workload. Its plans
// are those that a session would run (passes/), played event by event (explore/play.h): decode
// steps at several lengths of the contexts between prompt and end, and prompts in steps of many
// rows. Layers that are alike are planned once. Thread-safe: nothing is shared but what is read.
#ifndef PS_ENGINE_DESIGN_POINT_H
#define PS_ENGINE_DESIGN_POINT_H

#include "engine/json_fields.h"
#include "explore/play.h"
#include "model/model.h"

#include <prestage/prestage.h>

// Static batching: all sequences have prompts as long, and generate as much.
typedef struct ps_workload {
    uint32_t batch;            // sequences
    uint32_t context_tokens;   // of each at its end,
    uint32_t prompt_tokens;    //   of which so many are its prompt; 0: two thirds
    uint32_t ranks;            // devices that share the model
    uint32_t context_shards;   // ranks that share the KV of a head, by position; 0 and 1: none
    uint32_t weight_bits;      // 4, 8 or 16; 0: as the model has them
    uint32_t kv_bits;          // 4, 8 or 16; 0: as k_type and v_type say
    ps_kv_type k_type, v_type; // of a session's KV; not in specs
    uint32_t prefetch;         // ps_prefetch_policy
    uint32_t comm_schedule;    // ps_comm_schedule
    bool sequence_parallel;
    bool even_kv; // KV heads that do not divide by the ranks are shared out by bytes all the same
    uint32_t best_logits;      // of a row, that ranks send (ps_sampler_best_logits); 0: all
    ps_prefetch_ratios ratios; // of the policy ratio
    double experts_kept;       // part of the experts that are in memory; 0: as many as fit
    double coverage;           // part of the uses that those serve; 0: as they are many
    double slo_ns;             // of a token; 0: none
} ps_workload;

// Sets what 0 stands for. PS_INVALID: a member is out of range or contradicts another one; the
// message names it.
PS_MUST_USE ps_status ps_workload_complete(ps_workload *workload);

// Names of its members in specs, as "workload.batch"; ratios are not among them.
extern const ps_json_field ps_workload_fields[];
extern const size_t ps_workload_field_count;

// What comes out. Times of a step are means over the generated tokens.
typedef struct ps_design_point {
    double step_ns;      // a decode step: the time of a token
    double first_ns;     // the first of them
    double last_ns;      // the last
    double prompt_ns;    // all prompts
    double total_ns;     // from the first token in to the last one out
    double tokens_per_s; // generated, of all sequences
    double attention_ns; // of a step: from a layer's start to its first collective, all layers
    double ffn_ns;       //   from there to the second
    double comm_ns;      //   collectives, whether hidden or not
    double wait_ns;      //   waits for collectives and prefetches
    double barrier_ns;   //   barriers of workers
    double work_ns;      //   operators
    double attention_prefetch_ns; // of a step: prefetches of what attention segments read
    double ffn_prefetch_ns;       //   and FFN segments
    double moved_bytes;           // of a step
    double fillable_bytes;        //   that its waits had time for, or that were asked for
    double lost_bytes;            //   of those moved, what L2 gave up before it was read
    double saved_ns;
    double ops_per_byte;             // of a step, all operators: 2 a multiply-add
    double ops_per_word;             //   for an element of a weight or of KV
    double weight_bytes;             // of a rank, experts that are kept among them
    double kv_bytes;                 // of a rank, at the end
    double memory_bytes;             // both
    double layer_attention_bytes;    // of a rank and one layer: weights of attention,
    double layer_kv_bytes;           //   its KV at the end,
    double layer_ffn_bytes;          //   its feed-forward weights
    double area_mm2;                 // of a chip; NAN: not known, and so the others
    double tokens_per_s_per_mm2;     // of all chips
    double tokens_per_s_per_die_mm2; // of one chip, as some figures count
    double fits;                     // 1, or 0: memory_bytes are more than a rank has
    double meets_slo;                // 1 or 0
} ps_design_point;

// Its members as numbers of doubles, by name.
typedef struct ps_design_metric {
    const char *name, *unit, *what;
    size_t offset;
} ps_design_metric;
extern const ps_design_metric ps_design_metrics[];
extern const size_t ps_design_metric_count;
double ps_design_metric_of(const ps_design_metric *metric, const ps_design_point *point);

// What can be said of a point without its model. PS_INVALID: its workload or its machine
// contradicts itself; the message names the member.
PS_MUST_USE ps_status ps_design_check(const ps_machine *machine, const ps_workload *workload);

// file: NULL for a model by architecture alone. Scratch comes from the arena, which may be reset
// afterwards. What does not fit into memory is computed all the same.
//
// PS_INVALID      as ps_design_check
// PS_UNSUPPORTED  the model cannot be planned so: more ranks than it can be shared by, columns that
//                 weights of so many bits do not take, a workspace beyond all limits, experts that
//                 are nowhere
PS_MUST_USE ps_status ps_design_point_play(const ps_model_config *config, const ps_gguf *file,
                                           const ps_machine *machine, const ps_workload *workload,
                                           ps_arena *arena, ps_design_point *out);

// The last decode step of a design point, every layer of it planned and played.
typedef struct ps_design_step {
    const ps_plan *plan;
    ps_played played; // with spans
} ps_design_step;

// As ps_design_point_play. What *out points to comes from the arena.
PS_MUST_USE ps_status ps_design_step_play(const ps_model_config *config, const ps_gguf *file,
                                          const ps_machine *machine, const ps_workload *workload,
                                          ps_arena *arena, ps_design_step *out);

// What begins in one layer of the middle, of the last decode step. Lives in the arena.
typedef struct ps_design_layer {
    const ps_plan *plan;       // whose steps spans are of
    const ps_play_span *spans; // [span_count]
    uint32_t span_count;
    double begin_ns, end_ns; // of the layer, in the step
} ps_design_layer;

// For pictures. Fails as ps_design_point_play.
PS_MUST_USE ps_status ps_design_layer_play(const ps_model_config *config, const ps_gguf *file,
                                           const ps_machine *machine, const ps_workload *workload,
                                           ps_arena *arena, ps_design_layer *out);

#endif
