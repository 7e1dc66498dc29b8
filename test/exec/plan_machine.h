// test/exec/plan_machine.h - an executor for one plan from text, with all that it needs.
#ifndef PS_TEST_EXEC_PLAN_MACHINE_H
#define PS_TEST_EXEC_PLAN_MACHINE_H

#include "exec/plan_weights.h"

typedef struct machine {
    ps_arena arena;
    ps_plan *plan;
    ps_team *team;
    ps_comm *comm;
    ps_exec *exec;
    ps_program *program;
    weights all;
} machine;

static inline void expect_ok(ps_status status)
{
    if (status != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
}

// Two sequences, `blocks` KV blocks in each group. What the executor answers; stop it either way.
static inline ps_status start_machine(machine *m, const char *text, uint32_t workers,
                                      uint32_t prefetch_threads, uint32_t blocks)
{
    *m = (machine){0};
    ps_arena_init(&m->arena, (size_t)1 << 24);
    expect_ok(ps_plan_parse(ps_str_of(text), &m->arena, &m->plan));
    assert_true(make_weights(m->plan, &m->all));
    ps_kernels kernels;
    expect_ok(ps_kernels_select(&kernels));
    expect_ok(ps_team_create(workers, &m->team));
    m->comm = open_ranks(m->plan);
    const ps_exec_options options = {.sequences = 2,
                                     .context_tokens = m->plan->context_max,
                                     .group_blocks = {blocks, blocks, blocks, blocks},
                                     .prefetch_threads = prefetch_threads,
                                     .comm = m->comm};
    PS_TRY(ps_exec_create(m->team, &kernels, &options, &m->exec));
    PS_TRY(ps_exec_bind(m->exec, m->plan, find, &m->all, &m->program));
    return ps_exec_prepare(m->exec);
}

static inline void stop_machine(machine *m)
{
    ps_exec_destroy(m->exec);
    expect_ok(ps_comm_close(m->comm));
    ps_team_destroy(m->team);
    free_weights(&m->all);
    ps_arena_deinit(&m->arena);
}

#endif
