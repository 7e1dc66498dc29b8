// cli/bench_ops.c - lines of a profile, as Markdown, CSV and JSON; linears with and without
// prefetches, as Markdown and JSON.
#include "cli/bench_ops.h"

#include <math.h>
#include <stdio.h>

// One line, for a step.
typedef struct line {
    const char *op, *site;
    double count, barriers;
    double work_us, wait_us, share;
    double weight_bytes, kv_bytes;
    double gbs, ceiling_share; // 0: reads nothing, or not known
} line;

uint32_t ps_bench_ops_count(const ps_bench_ops *ops)
{
    return ops->profile.op_count + 2;
}

static ps_profile_op sum_of(const ps_profile *profile)
{
    ps_profile_op sum = {.op = "all", .site = ""};
    for (uint32_t i = 0; i < profile->op_count; i++) {
        const ps_profile_op *op = &profile->ops[i];
        sum.steps += op->steps;
        sum.barriers += op->barriers;
        sum.work_ns += op->work_ns;
        sum.wait_ns += op->wait_ns;
        sum.weight_bytes += op->weight_bytes;
        sum.kv_bytes += op->kv_bytes;
    }
    return sum;
}

static ps_profile_op op_at(const ps_profile *profile, uint32_t index)
{
    if (index < profile->op_count) {
        return profile->ops[index];
    }
    ps_profile_op sum = sum_of(profile);
    if (index == profile->op_count) {
        const uint64_t rest_ns = profile->wall_ns - sum.work_ns - sum.wait_ns;
        return (ps_profile_op){.op = "rest", .site = "", .work_ns = rest_ns};
    }
    sum.work_ns = profile->wall_ns - sum.wait_ns;
    return sum;
}

static line line_at(const ps_bench_ops *ops, uint32_t index)
{
    const ps_profile *profile = &ops->profile;
    const ps_profile_op op = op_at(profile, index);
    const double runs = profile->runs > 0 ? (double)profile->runs : 1;
    const double bytes = (double)(op.weight_bytes + op.kv_bytes);
    const bool is_all = index == profile->op_count + 1;
    const double ns = (double)(is_all ? profile->wall_ns : op.work_ns);
    const double gbs = ns > 0 ? bytes / ns : 0;
    return (line){
        .op = op.op,
        .site = op.site,
        .count = (double)op.steps / runs,
        .barriers = (double)op.barriers / runs,
        .work_us = (double)op.work_ns / runs / 1e3,
        .wait_us = (double)op.wait_ns / runs / 1e3,
        .share = profile->wall_ns > 0 ? (double)(op.work_ns + op.wait_ns) / (double)profile->wall_ns
                                      : 0,
        .weight_bytes = (double)op.weight_bytes / runs,
        .kv_bytes = (double)op.kv_bytes / runs,
        .gbs = gbs,
        .ceiling_share = ops->ceiling_gbs > 0 ? gbs / ops->ceiling_gbs : 0,
    };
}

// An empty cell where there is nothing to say.
static void print_cell(double value, int width, int digits)
{
    if (value > 0) {
        (void)printf(" %*.*f |", width, digits, value);
    } else {
        (void)printf(" %*s |", width, "");
    }
}

// ---- linears

// One linear of a site, in runs of one kind; NaN: there were none.
typedef struct part_line {
    double time_us, warm_us;
    double computes, stalls; // parts of the time
} part_line;

static part_line part_of(const ps_bench_ops *ops, const ps_profile_part *part)
{
    const double compute_ns = (double)part->int8_ops / ops->int8_gops +
                              (double)part->f32_ops / ops->f32_gops;
    const double cache_ns = (double)part->weight_bytes / ops->cache_read_gbs;
    const double linears = (double)part->linears;
    const double computes = compute_ns / (double)part->work_ns;
    return (part_line){.time_us = (double)part->work_ns / linears / 1e3,
                       .warm_us = fmax(compute_ns, cache_ns) / linears / 1e3,
                       // Above 1 the rate was measured too low.
                       .computes = part->work_ns == 0 ? NAN : fmin(computes, 1),
                       .stalls = part->work_ns == 0 ? NAN : 1 - fmin(computes, 1)};
}

static void print_known(double value, int width, int digits)
{
    if (isnan(value)) {
        (void)printf(" %*s |", width, "-");
    } else {
        (void)printf(" %*.*f |", width, digits, value);
    }
}

static void print_linears(const ps_bench_ops *ops)
{
    (void)printf(
        "Linears, one of each site: without prefetches for it (off) and with (on). With all "
        "weights in L2\n(warm, predicted), and which part of the time is arithmetic or "
        "stalled on memory: by rates %s.\n\n"
        "| linear      | steps  |  ran off |   ran on |    off us |     on us |   warm us | "
        "stalled off | stalled on | compute off | compute on |\n"
        "| ----------- | ------ | -------: | -------: | --------: | --------: | --------: | "
        "----------: | ---------: | ----------: | ---------: |\n",
        ops->rates_source);
    for (uint32_t i = 0; i < ops->profile.linear_count; i++) {
        const ps_profile_linear *linear = &ops->profile.linears[i];
        const part_line off = part_of(ops, &linear->without);
        const part_line on = part_of(ops, &linear->with);
        (void)printf("| %-11s | %-6s | %8llu | %8llu |", linear->site,
                     linear->is_prompt ? "prompt" : "decode",
                     (unsigned long long)linear->without.linears,
                     (unsigned long long)linear->with.linears);
        print_known(off.time_us, 9, 1);
        print_known(on.time_us, 9, 1);
        print_known(isnan(off.warm_us) ? on.warm_us : off.warm_us, 9, 1);
        print_known(off.stalls, 11, 3);
        print_known(on.stalls, 10, 3);
        print_known(off.computes, 11, 3);
        print_known(on.computes, 10, 3);
        (void)printf("\n");
    }
    (void)printf("\n");
}

static void add_part(ps_json_writer *json, const char *key, const ps_bench_ops *ops,
                     const ps_profile_part *part)
{
    const part_line is = part_of(ops, part);
    ps_json_begin_inline(json, key, '{');
    ps_json_integer(json, "linears", (int64_t)part->linears);
    ps_json_number(json, "time_us", is.time_us);
    ps_json_number(json, "warm_us_predicted", is.warm_us);
    ps_json_number(json, "stalled_share", is.stalls);
    ps_json_number(json, "compute_share", is.computes);
    ps_json_end(json, '}');
}

static void add_linears(ps_json_writer *json, const ps_bench_ops *ops)
{
    ps_json_text(json, "rates_source", ops->rates_source);
    ps_json_begin(json, "linears", '[');
    for (uint32_t i = 0; i < ops->profile.linear_count; i++) {
        const ps_profile_linear *linear = &ops->profile.linears[i];
        ps_json_begin(json, NULL, '{');
        ps_json_text(json, "site", linear->site);
        ps_json_text(json, "steps", linear->is_prompt ? "prompt" : "decode");
        add_part(json, "off", ops, &linear->without);
        add_part(json, "on", ops, &linear->with);
        ps_json_end(json, '}');
    }
    ps_json_end(json, ']');
}

// ---- all operators

void ps_bench_ops_md(const ps_bench_ops *ops)
{
    (void)printf("\n| %-17s | %-11s | %5s | %8s | %9s | %9s | %6s | %9s | %7s | %7s |\n",
                 "operator", "site", "steps", "barriers", "work us", "wait us", "share", "MB",
                 "GB/s", "ceiling");
    (void)printf("| ----------------- | ----------- | ----: | -------: | --------: | --------: | "
                 "-----: | --------: | ------: | ------: |\n");
    for (uint32_t i = 0; i < ps_bench_ops_count(ops); i++) {
        const line is = line_at(ops, i);
        (void)printf("| %-17s | %-11s |", is.op, is.site);
        print_cell(is.count, 5, 0);
        print_cell(is.barriers, 8, 0);
        (void)printf(" %9.1f | %9.1f | %6.3f |", is.work_us, is.wait_us, is.share);
        print_cell((is.weight_bytes + is.kv_bytes) / 1e6, 9, 3);
        print_cell(is.gbs, 7, 2);
        print_cell(is.ceiling_share, 7, 2);
        (void)printf("\n");
    }
    (void)printf("\n");
    print_linears(ops);
}

void ps_bench_ops_csv(const ps_bench_ops *ops, uint32_t index)
{
    const line is = line_at(ops, index);
    (void)printf("%s,%s,%.10g,%.10g,%.4f,%.4f,%.5f,%.10g,%.10g,", is.op, is.site, is.count,
                 is.barriers, is.work_us, is.wait_us, is.share, is.weight_bytes, is.kv_bytes);
    if (is.gbs > 0) {
        (void)printf("%.4f", is.gbs);
    }
    if (is.ceiling_share > 0) {
        (void)printf(",%.4f\n", is.ceiling_share);
    } else {
        (void)printf(",\n");
    }
}

static void add_line(ps_json_writer *json, const line *is)
{
    ps_json_begin_inline(json, NULL, '{');
    ps_json_text(json, "op", is->op);
    ps_json_text(json, "site", is->site);
    ps_json_number(json, "count", is->count);
    ps_json_number(json, "barriers", is->barriers);
    ps_json_number(json, "work_us", is->work_us);
    ps_json_number(json, "wait_us", is->wait_us);
    ps_json_number(json, "share", is->share);
    ps_json_number(json, "weight_bytes", is->weight_bytes);
    ps_json_number(json, "kv_bytes", is->kv_bytes);
    if (is->gbs > 0) {
        ps_json_number(json, "gbs", is->gbs);
    }
    if (is->ceiling_share > 0) {
        ps_json_number(json, "ceiling_share", is->ceiling_share);
    }
    ps_json_end(json, '}');
}

void ps_bench_ops_json(const ps_bench_ops *ops, ps_json_writer *json)
{
    const line all = line_at(ops, ops->profile.op_count + 1);
    ps_json_integer(json, "steps", (int64_t)ops->profile.runs);
    ps_json_integer(json, "step_rows", (int64_t)ops->profile.rows);
    ps_json_number(json, "step_us", all.work_us + all.wait_us);
    ps_json_number(json, "step_barriers", all.barriers);
    ps_json_begin(json, "ops", '[');
    for (uint32_t i = 0; i < ps_bench_ops_count(ops); i++) {
        const line is = line_at(ops, i);
        add_line(json, &is);
    }
    ps_json_end(json, ']');
    add_linears(json, ops);
}
