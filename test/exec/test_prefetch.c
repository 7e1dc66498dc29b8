// ctest-labels: unit
// Goal: a wait holds any number of prefetches; of a KV cache each worker is asked for the blocks
// that it reads and that earlier steps have filled, each once, in steps of few rows and of many.
// Dedicated threads are asked for the same, and leave each run before it ends. Method: plans from
// text with prefetches put in; the bytes asked for are counted by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "exec/plan_machine.h"

#define ROWS_MAX 64u
#define CHANGES 8u
#define GROUPS 2u

typedef struct input {
    ps_step step;
    ps_step_row rows[ROWS_MAX + CHANGES]; // the changes lie behind the rows that there are
} input;

// The plan of a file with `lines` in front of `place`, which stands there once.
static ps_status try_start(machine *m, const char *name, const char *place, const char *lines,
                           uint32_t workers, uint32_t prefetch_threads)
{
    static char text[TEXT_BYTES_MAX];
    static char changed[2 * TEXT_BYTES_MAX];
    read_text(name, text);
    const char *at = strstr(text, place);
    assert_non_null(at);
    (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, lines, at);
    return start_machine(m, changed, workers, prefetch_threads, CHANGES);
}

static void start(machine *m, const char *name, const char *place, const char *lines,
                  uint32_t workers)
{
    expect_ok(try_start(m, name, place, lines, workers, 0));
}

static void add_rows(input *in, uint32_t sequence, uint32_t position, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        in->rows[in->step.row_count++] = (ps_step_row){
            .sequence = sequence, .position = position + i, .token = 1};
    }
}

// Runs the rows; each sequence has its blocks 0 and 1 of both groups. Returns the bytes that the
// site was asked for in this step.
static uint64_t run_in(machine *m, input *in, ps_site site, ps_window window)
{
    ps_prefetch_report before, after;
    ps_step_block *changes = (ps_step_block *)(void *)(in->rows + in->step.row_count);
    for (uint32_t i = 0; i < CHANGES; i++) {
        changes[i] = (ps_step_block){.sequence = i / 4,
                                     .group = i / 2 % GROUPS,
                                     .index = i % 2,
                                     .block = i / 4 * 2 + i % 2,
                                     .copy_from = PS_NO_BLOCK};
    }
    in->step.block_count = CHANGES;
    ps_exec_prefetch_report(m->exec, m->program, site, window, &before);
    expect_ok(ps_exec_run(m->exec, m->program, &in->step));
    ps_exec_prefetch_report(m->exec, m->program, site, window, &after);
    assert_true(after.moved_bytes - before.moved_bytes <= after.asked_bytes - before.asked_bytes);
    assert_int_equal(after.planned, after.fired - before.fired);
    return after.asked_bytes - before.asked_bytes;
}

static uint64_t run(machine *m, input *in, ps_site site)
{
    return run_in(m, in, site, PS_WINDOW_COMM);
}

static uint64_t head_bytes_of(const machine *m, const char *name)
{
    for (uint32_t i = 0; i < m->plan->value_count; i++) {
        const ps_value *value = &m->plan->values[i].is;
        if (strcmp(value->name, name) == 0) {
            return ps_kv_part_bytes(value->dtype, value->head_dim) +
                   ps_kv_part_bytes(value->v_dtype, value->head_dim);
        }
    }
    fail_msg("no kv '%s'", name);
    return 0;
}

static void test_a_wait_holds_any_number(void **state)
{
    enum { COUNT = 100 };
    char lines[COUNT * 96];
    size_t length = 0;
    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        length += (size_t)snprintf(lines + length, sizeof lines - length,
                                   "prefetch %%down.weight {layer=2 site=mlp.down bytes=64 "
                                   "skip=%u} split=units stream=2\n",
                                   64 * i);
    }
    machine m;
    start(&m, "plan/decode.plan", "barrier\n%dp = linear", lines, 1);
    input in = {.step = {.row_count = 0}};
    add_rows(&in, 0, 0, 1);
    assert_int_equal(COUNT * 64, run(&m, &in, PS_SITE_MLP_DOWN));
    stop_machine(&m);
}

// Rows of one sequence read the same blocks, but for those that they write.
static void test_kv_of_few_rows(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        machine m;
        start(&m, "plan/decode.plan", "barrier\n%a.partial", "", workers);
        input in = {.step = {.row_count = 0}};
        add_rows(&in, 0, 0, 6);
        assert_int_equal(0, run(&m, &in, PS_SITE_KV));
        in = (input){.step = {.row_count = 0}};
        add_rows(&in, 0, 28, 6); // they write blocks 0 and 1
        assert_int_equal(0, run(&m, &in, PS_SITE_KV));
        // Block 0 of two heads of sequence 0. Of more workers one has its first rows, another one
        // its last ones.
        in = (input){.step = {.row_count = 0}};
        add_rows(&in, 0, 34, 5);
        add_rows(&in, 1, 0, 2);
        assert_int_equal(2 * workers * head_bytes_of(&m, "kv.1"), run(&m, &in, PS_SITE_KV));
        stop_machine(&m);
    }
}

// Tiles of 8 rows and one head are dealt out in turn: with two workers each has one of two heads,
// with three all of them have both.
static void test_kv_of_prompts(void **state)
{
    static const uint64_t SPANS[] = {0, 2, 2, 6};
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        machine m;
        start(&m, "plan/prefill.plan", "barrier\n%a = attention",
              "prefetch %kv.1 {layer=1 site=kv} split=units stream=2\n", workers);
        const uint64_t head_bytes = head_bytes_of(&m, "kv.1");
        input in = {.step = {.row_count = 0}};
        add_rows(&in, 0, 0, 33);
        assert_int_equal(0, run(&m, &in, PS_SITE_KV));
        in = (input){.step = {.row_count = 0}};
        add_rows(&in, 0, 33, 24); // block 1 is written, block 0 is there
        assert_int_equal(SPANS[workers] * head_bytes, run(&m, &in, PS_SITE_KV));
        // Of one row only the two workers that have a head are asked.
        in = (input){.step = {.row_count = 0}};
        add_rows(&in, 1, 0, 9);
        add_rows(&in, 0, 57, 1);
        assert_int_equal(2 * head_bytes, run(&m, &in, PS_SITE_KV));
        stop_machine(&m);
    }
}

// What an earlier prefetch of a KV has moved is left out, and a limit is kept.
static void test_parts_of_kv(void **state)
{
    (void)state;
    machine m;
    start(&m, "plan/prefill.plan", "barrier\n%a = attention",
          "prefetch %kv.1 {layer=1 site=kv bytes=512} split=units stream=2\n"
          "prefetch %kv.1 {layer=1 site=kv skip=512} split=units stream=2\n",
          1);
    input in = {.step = {.row_count = 0}};
    add_rows(&in, 0, 0, 33);
    assert_int_equal(0, run(&m, &in, PS_SITE_KV));
    in = (input){.step = {.row_count = 0}};
    add_rows(&in, 0, 33, 24);
    assert_int_equal(2 * head_bytes_of(&m, "kv.1"), run(&m, &in, PS_SITE_KV));
    stop_machine(&m);
}

#define SIDE_KV "prefetch %kv.1 {layer=1 site=kv window=side} split=units stream=3\n"

// What workers would be asked for, dedicated threads are, run after run; a step that is refused
// does not touch them.
static void test_dedicated_threads(void **state)
{
    static const uint64_t SPANS[] = {0, 2, 2, 6};
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        for (uint32_t threads = 1; threads <= workers; threads++) {
            machine m;
            expect_ok(try_start(&m, "plan/prefill.plan", "kv_write %kr, %v, %kv.1", SIDE_KV,
                                workers, threads));
            const uint64_t head_bytes = head_bytes_of(&m, "kv.1");
            input in = {.step = {.row_count = 0}};
            add_rows(&in, 0, 0, 33);
            assert_int_equal(0, run_in(&m, &in, PS_SITE_KV, PS_WINDOW_SIDE));
            for (uint32_t i = 0; i < 30; i++) {
                in = (input){.step = {.row_count = 0}};
                add_rows(&in, 0, 33, 24);
                assert_int_equal(SPANS[workers] * head_bytes,
                                 run_in(&m, &in, PS_SITE_KV, PS_WINDOW_SIDE));
                in.step.row_count = 0;
                assert_int_equal(PS_EXHAUSTED, ps_exec_run(m.exec, m.program, &in.step));
            }
            stop_machine(&m);
        }
    }
}

static void test_dedicated_threads_are_refused(void **state)
{
    (void)state;
    machine m;
    assert_int_equal(PS_INVALID,
                     try_start(&m, "plan/prefill.plan", "kv_write %kr, %v, %kv.1", SIDE_KV, 2, 0));
    assert_non_null(strstr(ps_error_message(), "--prefetch-threads 1"));
    stop_machine(&m);
    assert_int_equal(PS_INVALID,
                     try_start(&m, "plan/prefill.plan", "kv_write %kr, %v, %kv.1", SIDE_KV, 2, 3));
    assert_non_null(strstr(ps_error_message(), "1 to 2"));
    stop_machine(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_holds_any_number),
        cmocka_unit_test(test_kv_of_few_rows),
        cmocka_unit_test(test_kv_of_prompts),
        cmocka_unit_test(test_parts_of_kv),
        cmocka_unit_test(test_dedicated_threads),
        cmocka_unit_test(test_dedicated_threads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
