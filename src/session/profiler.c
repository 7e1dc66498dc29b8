// session/profiler.c - times of worker 0 and bytes of a run, by operator and site.
#include "session/profiler.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

// Operators times sites, and the end of a run.
#define OPS_MAX (PS_OP_COUNT * PS_SITE_COUNT + 1)

struct ps_profiler {
    ps_step_time *times; // [steps of the longest plan + 1], of one run
    ps_profile sum;
    ps_profile_op ops[OPS_MAX];
    uint32_t seen[PS_OP_COUNT][PS_SITE_COUNT]; // 1 + index into ops, 0: not yet
    ps_profile_linear linears[2 * PS_SITE_COUNT];
    uint32_t seen_linears[2][PS_SITE_COUNT]; // the same into linears, prompts behind
};

ps_status ps_profiler_create(const ps_program *const *programs, uint32_t count, ps_profiler **out)
{
    uint32_t steps = 0;
    for (uint32_t i = 0; i < count; i++) {
        const ps_plan *plan = ps_program_plan(programs[i]);
        steps = plan->step_count > steps ? plan->step_count : steps;
    }
    ps_profiler *profiler = calloc(1, sizeof *profiler);
    ps_step_time *times = calloc((size_t)steps + 1, sizeof *times);
    if (profiler == NULL || times == NULL) {
        free(profiler);
        free(times);
        return ps_fail(PS_NO_MEMORY, "no memory for a profile of %u steps", steps);
    }
    profiler->times = times;
    *out = profiler;
    return PS_OK;
}

void ps_profiler_destroy(ps_profiler *profiler)
{
    if (profiler != NULL) {
        free(profiler->times);
        free(profiler);
    }
}

void ps_profiler_reset(ps_profiler *profiler)
{
    ps_step_time *times = profiler->times;
    memset(profiler, 0, sizeof *profiler);
    profiler->times = times;
}

ps_profile ps_profiler_get(const ps_profiler *profiler)
{
    ps_profile sum = profiler->sum;
    sum.ops = profiler->ops;
    sum.linears = profiler->linears;
    return sum;
}

// ---- bytes of one run

typedef struct extent {
    uint32_t rows, logits;                  // of the run
    uint64_t kv_tokens[PS_KV_GROUPS_LIMIT]; // positions that its rows see, each sequence's once
} extent;

static extent extent_of(const ps_plan *plan, const ps_step *step)
{
    const ps_step_row *rows = ps_step_rows(step);
    extent is = {.rows = step->row_count};
    uint32_t first = 0; // row of the sequence
    for (uint32_t i = 0; i < step->row_count; i++) {
        is.logits += rows[i].wants_logits != 0;
        if (rows[i].sequence != rows[first].sequence) {
            first = i;
        }
        if (i + 1 < step->row_count && rows[i + 1].sequence == rows[i].sequence) {
            continue;
        }
        for (uint32_t g = 0; g < plan->kv_group_count; g++) {
            const uint32_t window = plan->kv_windows[g];
            const uint32_t before = rows[first].position;
            const uint32_t unseen = window == 0 || before < window ? 0 : before - window + 1;
            is.kv_tokens[g] += rows[i].position + 1 - unseen;
        }
    }
    return is;
}

static uint64_t weight_bytes_of(const ps_plan_step *step, const ps_value *weight, uint64_t rows)
{
    if (weight->rows == 1 || rows == 0) { // vectors are small and stay in cache
        return 0;
    }
    if (step->op == PS_OP_EMBED) {
        return rows * ps_dtype_row_bytes(weight->dtype, weight->columns);
    }
    const uint64_t matrix = ps_packed_bytes(weight->dtype, weight->rows, weight->columns);
    const uint64_t chosen = rows < weight->experts ? rows : weight->experts;
    return matrix * (weight->experts == 0 ? 1 : chosen);
}

static void add_bytes(const ps_plan *plan, const ps_plan_step *step, const extent *is,
                      ps_profile_op *op)
{
    const bool attends = ps_op_attends(step->op);
    const uint64_t rows = step->output == PS_NO_VALUE
                              ? is->rows
                              : ps_plan_rows(plan, &plan->values[step->output].is, is->rows,
                                             is->logits);
    // What a prefetch moves, its reader reads.
    for (uint32_t i = 0; i < step->input_count && step->op != PS_OP_PREFETCH; i++) {
        const ps_value *input = &plan->values[step->inputs[i]].is;
        if (input->kind == PS_VALUE_WEIGHT) {
            op->weight_bytes += weight_bytes_of(step, input, rows);
        } else if (input->kind == PS_VALUE_KV && attends) {
            op->kv_bytes += is->kv_tokens[input->kv_group] * ps_value_kv_bytes(input);
        }
    }
}

// ---- one run

static ps_profile_op *op_of(ps_profiler *profiler, const ps_plan_step *step)
{
    ps_assert(step->attributes.site < PS_SITE_COUNT);
    uint32_t *seen = &profiler->seen[step->op][step->attributes.site];
    if (*seen == 0) {
        // The end of a run stays the last one.
        uint32_t *count = &profiler->sum.op_count;
        *count += *count == 0 ? 2 : 1;
        profiler->ops[*count - 1] = profiler->ops[*count - 2];
        *seen = *count - 1;
        profiler->ops[*seen - 1] = (ps_profile_op){
            .op = ps_op_get(step->op)->name, .site = ps_site_name((ps_site)step->attributes.site)};
    }
    return &profiler->ops[*seen - 1];
}

static ps_profile_linear *linear_of(ps_profiler *profiler, uint32_t site, bool is_prompt)
{
    uint32_t *seen = &profiler->seen_linears[is_prompt][site];
    if (*seen == 0) {
        *seen = ++profiler->sum.linear_count;
        profiler->linears[*seen - 1] = (ps_profile_linear){.site = ps_site_name((ps_site)site),
                                                           .is_prompt = is_prompt};
    }
    return &profiler->linears[*seen - 1];
}

// The weight of a linear that has a site; NULL: the step is none.
static const ps_value *weight_of(const ps_plan *plan, const ps_plan_step *step)
{
    const bool reads = (ps_op_get(step->op)->flags & PS_OP_READS_WEIGHTS) != 0 &&
                       step->op != PS_OP_EMBED && step->attributes.site != PS_SITE_NONE;
    for (uint32_t i = 0; reads && i < step->input_count; i++) {
        const ps_value *input = &plan->values[step->inputs[i]].is;
        if (input->kind == PS_VALUE_WEIGHT) {
            return input;
        }
    }
    return NULL;
}

// made: sites that prefetched in this run. A layer may have none where others have: in the plan,
// prefetches stand before their reader.
static void add_linears(ps_profiler *profiler, const ps_plan *plan, const ps_step *step,
                        bool is_prompt, const bool made[PS_SITE_COUNT])
{
    const extent is = extent_of(plan, step);
    uint32_t layers[PS_SITE_COUNT]; // of the last prefetch of a site
    memset(layers, 0xff, sizeof layers);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *at = &plan->steps[i];
        const uint32_t site = at->attributes.site;
        if (at->op == PS_OP_PREFETCH && at->attributes.reason < PS_REASON_DECLINED) {
            layers[site] = at->attributes.layer;
        }
        const ps_value *weight = weight_of(plan, at);
        if (weight == NULL) {
            continue;
        }
        const bool is_prefetched = made[site] && layers[site] == at->attributes.layer;
        ps_profile_linear *linear = linear_of(profiler, site, is_prompt);
        ps_profile_part *part = is_prefetched ? &linear->with : &linear->without;
        const uint64_t rows = ps_plan_rows(plan, &plan->values[at->output].is, is.rows, is.logits);
        ps_profile_op bytes = {0};
        add_bytes(plan, at, &is, &bytes);
        part->linears++;
        part->work_ns += profiler->times[i].work_ns;
        part->weight_bytes += bytes.weight_bytes;
        *(ps_dtype_is_quantised(weight->dtype) ? &part->int8_ops : &part->f32_ops) += rows *
                                                                                      at->row_ops;
    }
}

static void add_run(ps_profiler *profiler, const ps_plan *plan, const ps_step *step)
{
    const extent is = extent_of(plan, step);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        ps_profile_op *op = op_of(profiler, &plan->steps[i]);
        op->steps++;
        op->barriers += plan->steps[i].barrier;
        op->work_ns += profiler->times[i].work_ns;
        op->wait_ns += profiler->times[i].wait_ns;
        add_bytes(plan, &plan->steps[i], &is, op);
        profiler->sum.barriers += plan->steps[i].barrier;
    }
    ps_profile_op *end = &profiler->ops[profiler->sum.op_count - 1];
    end->op = "end";
    end->site = "";
    end->wait_ns += profiler->times[plan->step_count].wait_ns;
    profiler->sum.runs++;
    profiler->sum.rows += step->row_count;
}

ps_status ps_profiler_run(ps_profiler *profiler, ps_exec *exec, const ps_program *program,
                          const ps_step *step, bool is_prompt)
{
    const ps_plan *plan = ps_program_plan(program);
    uint64_t before[PS_SITE_COUNT], after[PS_SITE_COUNT];
    bool made[PS_SITE_COUNT];
    ps_exec_prefetches_made(program, before);
    memset(profiler->times, 0, ((size_t)plan->step_count + 1) * sizeof *profiler->times);
    ps_exec_set_step_times(exec, profiler->times);
    const uint64_t start_ns = ps_clock_ns();
    const ps_status status = ps_exec_run(exec, program, step);
    const uint64_t wall_ns = ps_clock_ns() - start_ns;
    ps_exec_set_step_times(exec, NULL);
    if (status == PS_OK) {
        profiler->sum.wall_ns += wall_ns;
        add_run(profiler, plan, step);
        ps_exec_prefetches_made(program, after);
        for (uint32_t s = 0; s < PS_SITE_COUNT; s++) {
            made[s] = after[s] > before[s];
        }
        add_linears(profiler, plan, step, is_prompt, made);
    }
    return status;
}
