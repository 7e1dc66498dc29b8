// exec/run.c - the workers walk a plan together.
#include "base/clock.h"
#include "base/pages.h"
#include "exec/check_grouped.h"
#include "exec/record.h"
#include "hw/machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 30)

static ps_op_function *const FUNCTIONS[PS_OP_COUNT] = {
#define OP(NAME, text, inputs_min, inputs_max, outputs, flags, operands) ps_exec_op_##NAME,
#include "base/ops.def"
#undef OP
};

ps_status ps_exec_create(ps_team *team, const ps_kernels *kernels, const ps_exec_options *options,
                         ps_exec **out)
{
    if (options->sequences == 0 || options->context_tokens == 0 ||
        options->context_tokens > PS_PLAN_CONTEXT_MAX) {
        return ps_fail(PS_INVALID,
                       "%u sequences of %u tokens: at least 1 of each, at most %u tokens",
                       options->sequences, options->context_tokens, PS_PLAN_CONTEXT_MAX);
    }
    ps_exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for an executor");
    }
    exec->team = team;
    exec->kernels = *kernels;
    exec->options = *options;
    exec->table_blocks = (uint32_t)ps_divide_up(options->context_tokens, PS_KV_BLOCK_TOKENS);
    ps_arena_init(&exec->arena, ARENA_BYTES);
    const ps_status status = options->prefetch_threads == 0
                                 ? PS_OK
                                 : ps_side_create(options->prefetch_threads, ps_team_workers(team),
                                                  &exec->side);
    if (status != PS_OK) {
        ps_exec_destroy(exec);
        return status;
    }
    *out = exec;
    return PS_OK;
}

static uint64_t pool_bytes(const ps_exec *exec, uint32_t group)
{
    return exec->options.group_blocks[group] * exec->kv_block_bytes[group];
}

void ps_exec_destroy(ps_exec *exec)
{
    if (exec == NULL) {
        return;
    }
    for (uint32_t g = 0; g < exec->kv_group_count; g++) {
        ps_pages_unmap(exec->kv_pools[g], pool_bytes(exec, g));
    }
    ps_pages_unmap(exec->shared, exec->shared_bytes);
    ps_pages_unmap(exec->comm_scratch, exec->comm_scratch_bytes);
    ps_pages_unmap(exec->privates, exec->private_stride * ps_team_workers(exec->team));
    ps_side_destroy(exec->side);
    ps_expert_store_destroy(exec->experts);
    if (exec->account != NULL) {
        atomic_fetch_sub(exec->account, exec->charged_bytes);
    }
    ps_arena_deinit(&exec->arena);
    free(exec);
}

static ps_status allocate_pools(ps_exec *exec)
{
    for (uint32_t g = 0; g < exec->kv_group_count; g++) {
        uint64_t bytes;
        if (exec->kv_block_bytes[g] == 0) {
            continue; // no layer is of this group
        }
        if (exec->options.group_blocks[g] == 0) {
            return ps_fail(PS_INVALID, "kv group %u has no blocks", g);
        }
        if (!ps_checked_mul(exec->options.group_blocks[g], exec->kv_block_bytes[g], &bytes)) {
            return ps_fail(PS_NO_MEMORY, "%u KV blocks of %" PRIu64 " bytes: no memory is so large",
                           exec->options.group_blocks[g], exec->kv_block_bytes[g]);
        }
        void *pool;
        PS_TRY(ps_pages_map(bytes, "the KV cache", &pool));
        exec->kv_pools[g] = pool;
        exec->kv_bytes += bytes;
        exec->mapped_bytes += ps_pages_bytes(bytes);
    }
    return PS_OK;
}

static ps_status allocate_tables(ps_exec *exec)
{
    const uint64_t entries = (uint64_t)exec->options.sequences * exec->kv_group_count *
                             exec->table_blocks;
    uint32_t rows_max = 0;
    for (const ps_program *program = exec->programs; program != NULL; program = program->next) {
        rows_max = program->plan->rows_max > rows_max ? program->plan->rows_max : rows_max;
    }
    exec->tables = PS_ARENA_NEW(&exec->arena, uint32_t, entries);
    exec->logit_rows = PS_ARENA_NEW(&exec->arena, uint32_t, rows_max);
    exec->checked = PS_ARENA_NEW(&exec->arena, uint64_t, exec->options.sequences);
    exec->wants = PS_ARENA_NEW(&exec->arena, ps_expert_want, exec->experts_max);
    if (exec->tables == NULL || exec->logit_rows == NULL || exec->checked == NULL ||
        exec->wants == NULL) {
        return PS_NO_MEMORY;
    }
    for (uint64_t i = 0; i < entries; i++) {
        exec->tables[i] = PS_NO_BLOCK;
    }
    return PS_OK;
}

ps_status ps_exec_prepare(ps_exec *exec)
{
    ps_assert(exec->shared == NULL && exec->programs != NULL);
    PS_TRY(allocate_pools(exec));
    PS_TRY(allocate_tables(exec));
    if (exec->options.checks_grouped) {
        PS_TRY(ps_check_create(&exec->arena, ps_team_workers(exec->team), exec->check_bytes,
                               exec->experts_max, &exec->check));
    }
    exec->private_bytes = ps_round_up(exec->private_bytes, PS_CACHE_LINE_BYTES);
    // A page between two workers' parts keeps them out of each other's prefetchers.
    exec->private_stride = ps_round_up(exec->private_bytes + exec->scratch_bytes, 4096) + 4096;
    exec->shared_bytes += PS_CACHE_LINE_BYTES;
    exec->between_offset_bytes = ps_round_up(exec->shared_bytes, PS_CACHE_LINE_BYTES);
    exec->shared_bytes = exec->between_offset_bytes + exec->between_bytes;
    const uint64_t private_bytes = exec->private_stride * ps_team_workers(exec->team);
    PS_TRY(ps_machine_check_memory(private_bytes + exec->shared_bytes + exec->comm_scratch_bytes,
                                   "the workspaces"));
    void *memory;
    exec->mapped_bytes += ps_pages_bytes(private_bytes) + ps_pages_bytes(exec->shared_bytes);
    PS_TRY(ps_pages_map(private_bytes, "the workspaces", &memory));
    exec->privates = memory;
    PS_TRY(ps_pages_map(exec->shared_bytes, "the workspace", &memory));
    exec->shared = memory;
    if (exec->comm_scratch_bytes > 0) {
        PS_TRY(ps_pages_map(exec->comm_scratch_bytes, "the workspace of collectives", &memory));
        exec->comm_scratch = memory;
    }
    return PS_OK;
}

static ps_status check_block(const ps_exec *exec, const ps_step_block *change, uint32_t i)
{
    const bool in_range = change->sequence < exec->options.sequences &&
                          change->group < exec->kv_group_count &&
                          change->index < exec->table_blocks;
    const uint32_t blocks = in_range ? exec->options.group_blocks[change->group] : 0;
    if (!in_range || change->block >= blocks ||
        (change->copy_from != PS_NO_BLOCK && change->copy_from >= blocks)) {
        return ps_fail(
            PS_INVALID,
            "step: block change %u {sequence %u, group %u, index %u, block %u, copy_from "
            "%u} is out of range",
            i, change->sequence, change->group, change->index, change->block, change->copy_from);
    }
    return PS_OK;
}

static ps_status check_row(const ps_exec *exec, const ps_plan *plan, const ps_step_row *row,
                           uint32_t i)
{
    if (row->sequence >= exec->options.sequences) {
        return ps_fail(PS_INVALID, "step: row %u is of sequence %u, there are %u", i, row->sequence,
                       exec->options.sequences);
    }
    if (row->token < 0 || (uint32_t)row->token >= plan->vocabulary) {
        return ps_fail(PS_INVALID, "step: row %u has token %d, the vocabulary %u", i, row->token,
                       plan->vocabulary);
    }
    if (row->position >= plan->context_max) {
        return ps_fail(PS_EXHAUSTED, "step: row %u is at position %u, the plan ends at %u", i,
                       row->position, plan->context_max);
    }
    const bool follows = i > 0 && row[-1].sequence == row->sequence;
    if (follows && row->position != row[-1].position + 1) {
        return ps_fail(PS_INVALID, "step: row %u is at position %u after %u of its sequence", i,
                       row->position, row[-1].position);
    }
    if (!follows && exec->checked[row->sequence] == exec->checks) {
        return ps_fail(PS_INVALID, "step: row %u stands apart from other rows of sequence %u", i,
                       row->sequence);
    }
    exec->checked[row->sequence] = exec->checks;
    return PS_OK;
}

static uint32_t count_logits(const ps_step *step)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < step->row_count; i++) {
        count += ps_step_rows(step)[i].wants_logits != 0;
    }
    return count;
}

// Every block that a row will read or write must be there.
static ps_status check_tables(const ps_exec *exec, const ps_step_row *row, uint32_t i)
{
    for (uint32_t group = 0; group < exec->kv_group_count; group++) {
        const uint32_t window = exec->kv_windows[group];
        const uint32_t first = window == 0 || row->position < window ? 0
                                                                     : row->position - window + 1;
        const uint32_t *table = exec->tables +
                                ((uint64_t)row->sequence * exec->kv_group_count + group) *
                                    exec->table_blocks;
        for (uint32_t b = first / PS_KV_BLOCK_TOKENS; b <= row->position / PS_KV_BLOCK_TOKENS;
             b++) {
            if (table[b] == PS_NO_BLOCK) {
                return ps_fail(PS_INVALID,
                               "step: row %u reads block %u of sequence %u, which it does not have",
                               i, b, row->sequence);
            }
        }
    }
    return PS_OK;
}

static ps_status check_step(const ps_exec *exec, const ps_plan *plan, const ps_step *step)
{
    if (step->row_count == 0 || step->row_count > plan->rows_max) {
        return ps_fail(PS_EXHAUSTED, "step: %u rows, the plan takes 1 to %u", step->row_count,
                       plan->rows_max);
    }
    for (uint32_t i = 0; i < step->block_count; i++) {
        PS_TRY(check_block(exec, &ps_step_blocks(step)[i], i));
    }
    for (uint32_t i = 0; i < step->row_count; i++) {
        PS_TRY(check_row(exec, plan, &ps_step_rows(step)[i], i));
    }
    const uint32_t logits = count_logits(step);
    if (logits > plan->logits_max) {
        return ps_fail(PS_EXHAUSTED, "step: %u rows want logits, the plan gives %u", logits,
                       plan->logits_max);
    }
    return PS_OK;
}

typedef struct run {
    const ps_exec *exec;
    const ps_program *program;
    const ps_step *step;
    uint32_t logit_count;
    uint64_t prefetch_mask;
    ps_side *side;   // NULL: the program has nothing for it
    uint64_t end_ns; // of worker 0's last step, where times are taken
    ps_comm_run comm;
    ps_expert_run experts;
} run;

// Nanoseconds since *then, which becomes now.
static uint64_t lap_ns(uint64_t *then)
{
    const uint64_t now = ps_clock_ns();
    const uint64_t lap = now - *then;
    *then = now;
    return lap;
}

// The prefetches that stand in the plan before step `next`, the next that is none, may be made.
static void list_prefetches(const run *job, uint32_t worker, ps_touch *touch, uint32_t end,
                            uint32_t next)
{
    if (worker == 0 && end > touch->end) {
        ps_side_reach(job->side, next - 1, true);
    }
    touch->end = end;
}

static void walk_plan(void *argument, uint32_t worker, uint32_t workers)
{
    run *job = argument;
    const ps_exec *exec = job->exec;
    const ps_plan *plan = job->program->plan;
    const ps_program *program = job->program;
    ps_touch touch = {.parts = program->prefetches + (size_t)worker * program->prefetch_count};
    const ps_walk walk = {
        .exec = exec,
        .kernels = &exec->kernels,
        .program = program,
        .rows = ps_step_rows(job->step),
        .row_count = job->step->row_count,
        .logit_count = job->logit_count,
        .worker = worker,
        .workers = workers,
        .workspace = exec->privates + worker * exec->private_stride,
        .touch = &touch,
        .prefetch_mask = job->prefetch_mask,
        .lane = exec->options.lanes == NULL ? NULL : exec->options.lanes->worker[worker],
        .comm = worker == 0 ? &job->comm : NULL,
        .experts = &job->experts,
        .scratch = exec->privates + worker * exec->private_stride + exec->private_bytes,
    };
    const ps_filler filler = {.next = ps_exec_touch_next, .context = (void *)(uintptr_t)&walk};
    ps_step_time *times = worker == 0 ? exec->times : NULL;
    uint64_t then = times != NULL ? ps_clock_ns() : 0;
    list_prefetches(job, worker, &touch, program->first_prefetch_end, program->first);
    for (uint32_t i = program->first; i < plan->step_count; i = program->steps[i].next) {
        const ps_bound_step *step = &program->steps[i];
        const bool waits = step->plan->barrier || step->plan->join > 0;
        const uint64_t wait_ns = waits ? ps_record_now(walk.lane) : 0;
        if (walk.comm != NULL && step->plan->join > 0) {
            ps_exec_comm_join(&walk, step->plan->join);
        }
        if (step->plan->barrier) {
            ps_team_barrier(exec->team, touch.at < touch.end ? &filler : NULL);
            if (times != NULL) {
                times[i].wait_ns += lap_ns(&then);
            }
        }
        if (waits) {
            ps_exec_touch_end(&walk);
        }
        const uint64_t start_ns = ps_record_now(walk.lane);
        if (waits) {
            ps_record_wait(walk.lane, step, wait_ns, start_ns);
        }
        if (worker == 0) {
            ps_side_reach(job->side, i, false);
        }
        FUNCTIONS[step->plan->op](&walk, step);
        list_prefetches(job, worker, &touch, step->prefetch_end, step->next);
        ps_record_step(walk.lane, step, start_ns, ps_record_now(walk.lane));
        if (times != NULL) {
            times[i].work_ns += lap_ns(&then);
        }
    }
    if (walk.comm != NULL) {
        ps_exec_comm_join(&walk, job->comm.started);
    }
    if (times != NULL) {
        job->end_ns = then;
    }
}

static void change_block(ps_exec *exec, const ps_step_block *change)
{
    exec->tables[((uint64_t)change->sequence * exec->kv_group_count + change->group) *
                     exec->table_blocks +
                 change->index] = change->block;
    const uint64_t bytes = exec->kv_block_bytes[change->group];
    if (bytes > 0 && change->copy_from != PS_NO_BLOCK && change->copy_from != change->block) {
        char *pool = exec->kv_pools[change->group];
        memcpy(pool + change->block * bytes, pool + change->copy_from * bytes, bytes);
    }
}

static bool is_decode(const ps_step *step)
{
    for (uint32_t i = 0; i < step->row_count; i++) {
        if (ps_step_row_is_prompt(ps_step_rows(step), step->row_count, i)) {
            return false;
        }
    }
    return true;
}

ps_status ps_exec_run(ps_exec *exec, const ps_program *program, const ps_step *step)
{
    ps_assert(exec->shared != NULL);
    exec->checks++;
    PS_TRY(check_step(exec, program->plan, step));
    for (uint32_t i = 0; i < step->block_count; i++) {
        change_block(exec, &ps_step_blocks(step)[i]);
    }
    uint32_t logits = 0;
    for (uint32_t i = 0; i < step->row_count; i++) {
        PS_TRY(check_tables(exec, &ps_step_rows(step)[i], i));
        if (ps_step_rows(step)[i].wants_logits != 0) {
            exec->logit_rows[logits++] = i;
        }
    }
    run job = {.exec = exec, .program = program, .step = step, .logit_count = logits};
    // Programs are the executor's own.
    ps_guard *guard = &((ps_program *)(uintptr_t)program)->guard;
    job.prefetch_mask = ps_guard_begin(guard, step->row_count);
    const uint64_t start = guard->slot_count > 0 || exec->experts != NULL ? ps_clock_ns() : 0;
    job.comm.tag = (uint32_t)(step->number * PS_PLAN_STEPS_MAX);
    ps_trace_lane *lane = exec->options.lanes == NULL ? NULL : exec->options.lanes->worker[0];
    const uint64_t run_ns = ps_record_now(lane);
    const ps_walk beside = {.exec = exec,
                            .kernels = &exec->kernels,
                            .program = program,
                            .rows = ps_step_rows(step),
                            .row_count = step->row_count,
                            .logit_count = logits,
                            .workers = ps_team_workers(exec->team),
                            .prefetch_mask = job.prefetch_mask};
    job.side = program->side_count > 0 ? exec->side : NULL;
    ps_side_begin(job.side, &beside);
    ps_team_run(exec->team, walk_plan, &job);
    ps_side_end(job.side);
    ps_record_run(lane, step, job.prefetch_mask, run_ns, ps_record_now(lane));
    if (guard->slot_count > 0) {
        ps_guard_end(guard, (double)(ps_clock_ns() - start));
    }
    if (exec->times != NULL) {
        exec->times[program->plan->step_count].wait_ns += ps_clock_ns() - job.end_ns;
    }
    if (exec->experts != NULL) {
        ps_expert_store_end_step(exec->experts, is_decode(step) ? ps_clock_ns() - start : 0);
        exec->expert_times.move_ns += job.experts.times.move_ns;
        exec->expert_times.dispatch_ns += job.experts.times.dispatch_ns;
        exec->expert_times.compute_ns += job.experts.times.compute_ns;
    }
    PS_TRY(job.comm.status);
    PS_TRY(job.experts.status);
    return exec->check == NULL ? PS_OK : ps_check_result(exec->check, ps_team_workers(exec->team));
}

float *ps_exec_logits(const ps_exec *exec, const ps_program *program, uint32_t index)
{
    const ps_plan_value *value = program->logits;
    char *base = value->is_private ? exec->privates : exec->shared;
    return (float *)(void *)(base + value->offset_bytes + index * value->row_bytes);
}

void ps_exec_take_experts(ps_exec *exec, ps_expert_store *store)
{
    ps_assert(exec->experts == NULL);
    exec->experts = store;
}

void ps_exec_charge(ps_exec *exec, _Atomic uint64_t *account, uint64_t bytes)
{
    ps_assert(exec->account == NULL);
    atomic_fetch_add(account, bytes);
    exec->account = account;
    exec->charged_bytes = bytes;
}

ps_expert_times ps_exec_expert_times(const ps_exec *exec)
{
    return exec->expert_times;
}

const ps_expert_store *ps_exec_experts(const ps_exec *exec)
{
    return exec->experts;
}

ps_arena *ps_exec_arena(ps_exec *exec)
{
    return &exec->arena;
}

const ps_plan *ps_program_plan(const ps_program *program)
{
    return program->plan;
}

uint64_t ps_exec_workspace_bytes(const ps_exec *exec)
{
    return exec->shared_bytes + exec->private_stride * ps_team_workers(exec->team);
}

uint64_t ps_exec_mapped_bytes(const ps_exec *exec)
{
    return exec->mapped_bytes;
}

uint64_t ps_exec_kv_bytes(const ps_exec *exec)
{
    return exec->kv_bytes;
}

uint64_t ps_exec_kv_read_bytes(const ps_exec *exec, uint32_t position)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < exec->kv_layer_count; i++) {
        const ps_kv_layer *layer = &exec->kv_layers[i];
        const uint32_t window = exec->kv_windows[layer->group];
        const uint64_t seen = window == 0 || position < window ? (uint64_t)position + 1 : window;
        bytes += seen * layer->kv_heads * layer->head_bytes / PS_KV_BLOCK_TOKENS;
    }
    return bytes;
}

void ps_exec_set_step_times(ps_exec *exec, ps_step_time *times)
{
    exec->times = times;
}
