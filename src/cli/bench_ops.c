// cli/bench_ops.c - lines of a profile, as Markdown, CSV and JSON.
#include "cli/bench_ops.h"

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
}
