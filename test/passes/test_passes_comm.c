// ctest-labels: file
// ctest-links: ps_ir
// Goal: a sum over ranks is made chunk by chunk where the schedule asks for it or where that is
// shorter, and nowhere else. Method: small graphs of one rank as text, before and after.
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"

static ps_status schedule(ps_graph *graph, void *context)
{
    PS_TRY(ps_pass_comm_chunks(graph, context));
    PS_TRY(ps_graph_verify(graph, "comm_chunks"));
    return ps_pass_comm_schedule(graph, context);
}

#define VALUES                                                                                     \
    "vocabulary 256\nkv_group window=0\n\n%embd = weight F16 [256, 256]\n"                         \
    "%w = weight F16 [256, 256]\n%w2 = weight F16 [256, 256]\n"                                    \
    "%x = activation F32 [T, 256]\n%p = activation F32 [T, 256]\n%s = activation F32 [T, 256]\n"   \
    "%last = activation F32 [L, 256]\n%logits = activation F32 [L, 256] output\n\n%x = embed "     \
    "%embd\n"
#define TAIL "%last = select_logits %s\n%logits = linear %last, %w2 {site=lm_head}\n"
#define SERIAL                                                                                     \
    VALUES "%p = linear %x, %w {layer=1 site=attn.o unit=16}\n"                                    \
           "%s = all_reduce %p {layer=1 ranks=2 rank=1}\n" TAIL
#define FUSED(chunks)                                                                              \
    VALUES                                                                                         \
    "%s = linear_all_reduce %x, %w {layer=1 site=attn.o unit=16 ranks=2 rank=1 chunks=" chunks     \
    " window=comm}\n" TAIL

static ps_pass_options options_of(ps_comm_schedule comm, uint32_t rows, const ps_machine *machine)
{
    return (ps_pass_options){.rows_max = rows,
                             .logits_max = 1,
                             .context_max = 256,
                             .machine = machine,
                             .ranks = 2,
                             .rank = 1,
                             .comm_schedule = comm};
}

static void expect(ps_comm_schedule comm, uint32_t rows, const ps_machine *machine,
                   const char *before, const char *after)
{
    ps_pass_options options = options_of(comm, rows, machine);
    ps_graph_text_expect(before, schedule, &options, after);
}

static void test_serial_and_one_rank(void **state)
{
    (void)state;
    expect(PS_COMM_SERIAL, 512, &PS_TEST_MACHINE, SERIAL, SERIAL);
    ps_pass_options options = options_of(PS_COMM_FUSED, 512, &PS_TEST_MACHINE);
    options.ranks = 1;
    options.rank = 0;
    ps_graph_text_expect(SERIAL, schedule, &options, SERIAL);
}

// At least 16 rows a chunk, at most 8 chunks, a power of two of them.
static void test_fused_takes_the_most_chunks(void **state)
{
    (void)state;
    expect(PS_COMM_FUSED, 31, &PS_TEST_MACHINE, SERIAL, SERIAL);
    expect(PS_COMM_FUSED, 32, &PS_TEST_MACHINE, SERIAL, FUSED("2"));
    expect(PS_COMM_FUSED, 63, &PS_TEST_MACHINE, SERIAL, FUSED("2"));
    expect(PS_COMM_FUSED, 64, &PS_TEST_MACHINE, SERIAL, FUSED("4"));
    expect(PS_COMM_FUSED, 127, &PS_TEST_MACHINE, SERIAL, FUSED("4"));
    expect(PS_COMM_FUSED, 512, &PS_TEST_MACHINE, SERIAL, FUSED("8"));
}

// 512 rows and half of 256 columns are 84 us of arithmetic; half a megabyte takes 262 us at 2 bytes
// a nanosecond.
static void test_auto_weighs_latency_against_what_is_hidden(void **state)
{
    (void)state;
    ps_machine machine = PS_TEST_MACHINE;
    machine.comm_ns = 1000000; // each chunk costs more than all that could be hidden
    expect(PS_COMM_AUTO, 512, &machine, SERIAL, SERIAL);
    machine.comm_ns = 1;
    expect(PS_COMM_AUTO, 512, &machine, SERIAL, FUSED("8"));
    expect(PS_COMM_AUTO, 16, &machine, SERIAL, SERIAL);
}

static void test_only_linears_that_are_summed(void **state)
{
    (void)state;
    // Several weights, and a collective that stands apart.
    static const char SEVERAL[] = VALUES
        "%p2 = activation F32 [T, 512]\n%v = activation F32 [T, 256] {of=%p2 column=0}\n"
        "%p2 = linear %x, %w, %w2\n%s = all_reduce %v {ranks=2 rank=1}\n" TAIL;
    static const char APART[] = VALUES
        "%q = activation F32 [T, 256]\n%p = linear %x, %w\n%q = add %x, %x\n"
        "%s = all_reduce %q {ranks=2 rank=1}\n" TAIL;
    expect(PS_COMM_FUSED, 512, &PS_TEST_MACHINE, SEVERAL, SEVERAL);
    expect(PS_COMM_FUSED, 512, &PS_TEST_MACHINE, APART, APART);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal("auto", ps_comm_schedule_name(PS_COMM_AUTO));
    assert_string_equal("serial", ps_comm_schedule_name(PS_COMM_SERIAL));
    assert_string_equal("fused", ps_comm_schedule_name(PS_COMM_FUSED));
    assert_null(ps_comm_schedule_name(PS_COMM_SCHEDULE_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serial_and_one_rank),
        cmocka_unit_test(test_fused_takes_the_most_chunks),
        cmocka_unit_test(test_auto_weighs_latency_against_what_is_hidden),
        cmocka_unit_test(test_only_linears_that_are_summed),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
