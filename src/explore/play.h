// explore/play.h - plays a plan in simulated time: how long a step takes on a machine.
//
// The same plan that exec runs. Workers are one: rates are those of all together. Every step of the
// plan is an event on one of three streams: operators one after the other, collectives beside what
// follows until they are joined, prefetches in their order.
//
// 1. An operator takes the longer of its reads and its arithmetic, and the fixed costs of the
//    machine's profile; where workers are measured, those of the one that has most to do. Reads
//    from memory and from L2 add up; a read of KV is as fast as its heads and rows are many
//    (cost/cost.h).
// 2. On a machine without a stream for prefetches, workers move bytes while they wait for a
//    collective, in the order of the plan. On one with a stream, prefetches start where they stand
//    and go on beside the operators; who reads what one has moved joins as the profile says: it
//    waits for all prefetches, for its own, or for none and ends with its own at the earliest.
// 3. Memory serves operators first: what one reads while prefetches are under way delays those.
// 4. L2 holds what was touched last (least recently used goes first): prefetches, reads, results.
//    What is prefetched too early, or too much of, is read from memory again.
// 5. Experts that are not in memory come from where they are kept while the others are computed.
// Pure.
#ifndef PS_EXPLORE_PLAY_H
#define PS_EXPLORE_PLAY_H

#include "hw/machine.h"
#include "plan/plan.h"

typedef struct ps_play_options {
    uint32_t rows;      // of the step, 1..rows_max of the plan
    uint32_t position;  // of the rows in their sequences: the KV that is there
    uint32_t sequences; // that the rows are of; 0: as many as rows
    // Part of the KV of a rank's heads that it reads; 0: all. Less where heads that do not divide
    // by the ranks are taken to be shared out by bytes all the same.
    double kv_part;
    double expert_misses; // part of the uses of experts that are not in memory, 0..1,
    double disk_misses;   //   and of those, the part that is on the disk and not with the host
    bool records;         // spans are wanted
} ps_play_options;

// What a span is of; also its lane in a timeline.
typedef enum ps_play_lane {
    PS_LANE_COMPUTE,
    PS_LANE_COMM,
    PS_LANE_PREFETCH,
    PS_LANE_WAIT,    // for a collective or a prefetch, on the lane of operators
    PS_LANE_BARRIER, // of workers, there too
    PS_LANE_COUNT,
} ps_play_lane;

const char *
ps_play_lane_name(ps_play_lane lane); // "compute", "comm", "prefetch", "wait", "barrier"

typedef struct ps_play_span {
    uint32_t step; // of the plan
    ps_play_lane lane;
    double begin_ns, end_ns;
    double memory_bytes, cache_bytes; // read from, or moved
    double ops;                       // 2 a multiply-add
    // Of operators. They take max(memory_ns + cache_ns, compute_ns, miss_ns) + fixed_ns.
    double words;               // elements of weights and of KV that are read
    double memory_ns, cache_ns; // of these reads; of small operators, what they take in L2
    double cold_ns;             // that the reads would take if nothing were near
    double compute_ns;
    double miss_ns;  // of the reads of experts that are not in memory
    double fixed_ns; // fixed costs, and what reads and arithmetic do not hide of each other
} ps_play_span;

// Sums over a step, all doubles: explore/fold.h adds them up.
typedef struct ps_play {
    double total_ns;
    double work_ns;               // in operators
    double wait_ns;               // for collectives, and for what a stream of its own still moves
    double barrier_ns;            // at barriers
    double comm_ns;               // collectives, whether waited for or not
    double attention_ns;          // operators and waits from the first operator of attention to the
    double ffn_ns;                //   first of the feed-forward network, and from there on
    double miss_ns;               // of the reads of experts that are not in memory
    double moved_bytes;           // by prefetches
    double attention_moved_bytes; // those for attention,
    double ffn_moved_bytes;       //   and for the feed-forward network
    double lost_bytes;            // that L2 gave up before they were read
    double memory_bytes;          // read by operators from memory
    double cache_bytes;           //   and from what prefetches have moved
    double ops;                   // 2 a multiply-add
    double words;                 // elements of weights and of KV that operators read
    double saved_ns;              // by reading them from the cache
    double fillable_bytes;        // that all waits together had time for
} ps_play;
#define PS_PLAY_SUMS (sizeof(ps_play) / sizeof(double))

typedef struct ps_played {
    ps_play sums;
    // [layer_count + 1] what had been by the first operator of each layer, and behind the last.
    const ps_play *layer_begin;
    uint32_t layer_count;
    const ps_play_span *spans; // by lane in the order of their beginnings; NULL unless recorded
    uint32_t span_count;
} ps_played;

// The plan is verified. What *out points to comes from the arena. PS_NO_MEMORY
PS_MUST_USE ps_status ps_play_plan(const ps_plan *plan, const ps_machine *machine,
                                   const ps_play_options *options, ps_arena *arena, ps_played *out);

#endif
