// cli/bench_ops.h - `prestage bench --ops`: a profile as a table.
//
// One line for each operator and site, then "rest", what a step takes outside of its operators, and
// "all", the sum. Times are microseconds a step. `share` is of the step's time, work and wait
// together; GB/s are the bytes of all workers over the time that the operator worked, and for "all"
// over the whole step.
#ifndef PS_CLI_BENCH_OPS_H
#define PS_CLI_BENCH_OPS_H

#include "cli/json_writer.h"

#include <prestage/prestage.h>

typedef struct ps_bench_ops {
    ps_profile profile;
    double ceiling_gbs; // 0: not known
    // Of the plans, as in ps_model_info: what weights that are in L2, and arithmetic, would take.
    double cache_read_gbs, int8_gops, f32_gops;
    const char *rates_source;
} ps_bench_ops;

uint32_t ps_bench_ops_count(const ps_bench_ops *ops); // lines

// A table between empty lines, on stdout, and one of linears: by site, in runs with prefetches for
// it and without, their time; what it would be with all weights in L2; and which part of it the
// kernels' arithmetic takes at the rate of the plans, and memory the rest.
void ps_bench_ops_md(const ps_bench_ops *ops);

// The fields of one line, and its end.
#define PS_BENCH_OPS_FIELDS                                                                        \
    "op,site,count,barriers,work_us,wait_us,share,weight_bytes,kv_bytes,gbs,ceiling_share"
void ps_bench_ops_csv(const ps_bench_ops *ops, uint32_t index);

// Members of the object that is open: "steps", "step_rows", "step_us", "step_barriers", and "ops"
// and "linears", arrays.
void ps_bench_ops_json(const ps_bench_ops *ops, ps_json_writer *json);

#endif
