// ctest-labels: unit;fault
// Goal: the executor takes its one input, the step, from anywhere: a bad one is refused with one
// line, and the next good one runs. Method: a plan from text, a good step, and one thing wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/plan_machine.h"

#define ROWS 4u
#define CHANGES 4u

// A step as it lies in memory, with room for some rows and changes.
typedef struct input {
    ps_step step;
    ps_step_row rows[ROWS];
    ps_step_block changes[CHANGES];
} input;

static void start(machine *m)
{
    static char text[TEXT_BYTES_MAX];
    read_text("plan/decode.plan", text);
    expect_ok(start_machine(m, text, 2, 0, 4));
}

// Two rows of each sequence, each with its first block in both groups.
static input good_step(void)
{
    input good = {.step = {.row_count = ROWS, .block_count = CHANGES}};
    for (uint32_t i = 0; i < ROWS; i++) {
        good.rows[i] = (ps_step_row){.sequence = i / 2, .position = i % 2, .token = 1};
        good.changes[i] = (ps_step_block){
            .sequence = i / 2, .group = i % 2, .block = i / 2, .copy_from = PS_NO_BLOCK};
    }
    return good;
}

static void refuse(machine *m, const input *bad, const char *says)
{
    const ps_status status = ps_exec_run(m->exec, m->program, &bad->step);
    assert_true(status == PS_INVALID || status == PS_EXHAUSTED);
    if (strstr(ps_error_message(), says) == NULL) {
        fail_msg("'%s' does not say '%s'", ps_error_message(), says);
    }
}

// The good step with one number changed.
#define REFUSE(field, value, says)                                                                 \
    do {                                                                                           \
        bad = good_step();                                                                         \
        bad.field = (value);                                                                       \
        refuse(&m, &bad, says);                                                                    \
    } while (0)

static void test_bad_steps(void **state)
{
    (void)state;
    machine m;
    start(&m);
    input bad = good_step();
    bad.step.block_count = 0;
    refuse(&m, &bad, "which it does not have");
    input good = good_step();
    expect_ok(ps_exec_run(m.exec, m.program, &good.step));

    REFUSE(rows[1].sequence, 2, "sequence 2, there are 2");
    REFUSE(rows[2].token, -1, "token -1");
    REFUSE(rows[2].token, (int32_t)m.plan->vocabulary, "vocabulary");
    REFUSE(rows[0].position, m.plan->context_max, "the plan ends at");
    REFUSE(rows[1].position, 2, "position 2 after 0");
    REFUSE(rows[1].position, 0, "position 0 after 0");
    bad = good_step();
    bad.rows[1].sequence = 1;
    bad.rows[2] = (ps_step_row){.sequence = 0, .token = 1};
    bad.rows[3] = (ps_step_row){.sequence = 1, .token = 1};
    refuse(&m, &bad, "apart");
    bad = good_step();
    bad.rows[3].position = 32;
    bad.rows[2].position = 31;
    refuse(&m, &bad, "block 1 of sequence 1");
    REFUSE(changes[0].sequence, 2, "block change 0");
    REFUSE(changes[1].group, 2, "block change 1");
    REFUSE(changes[2].index, UINT32_MAX, "block change 2");
    REFUSE(changes[3].block, 4, "block change 3");
    REFUSE(changes[3].copy_from, 4, "copy_from 4");
    REFUSE(step.row_count, 0, "0 rows");
    REFUSE(step.row_count, UINT32_MAX, "the plan takes 1 to");
    for (int i = 0; i < 2; i++) {
        expect_ok(ps_exec_run(m.exec, m.program, &good.step));
    }
    stop_machine(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bad_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
