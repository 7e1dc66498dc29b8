// ctest-labels: file
// ctest-links: ps_ir
// Goal: behind each collective stands what the policy says, in order of use, with its reason.
// Method: one graph (prefetch.graph, which states the bytes of everything), and for each machine
// and bucket what is prefetched behind each collective, as one line. The pass changes nothing else.
//
// In a line, collectives are set apart by "|"; for the rest see ps_test_print_prefetch.
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"

#define GRAPH "test/passes/prefetch.graph"

// The pass takes the prefetches into `context`, a ps_buffer, and out of the graph again.
typedef struct found {
    ps_pass_options options;
    ps_buffer line;
} found;

static ps_status describe(const ps_graph *graph, const ps_node *node, ps_buffer *line)
{
    const char *last = line->length == 0 ? "|" : line->data + line->length - 1;
    PS_TRY(ps_buffer_printf(line, "%s", *last == '|' || *last == ' ' ? "" : " "));
    return ps_test_print_prefetch(graph->values[node->inputs[0]].name, &node->attributes, line);
}

static ps_status prefetch(ps_graph *graph, void *context)
{
    found *f = context;
    uint32_t kept = 0;
    PS_TRY(ps_pass_prefetch(graph, &f->options));
    PS_TRY(ps_graph_verify(graph, "prefetch"));
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const ps_node *node = &graph->nodes[i];
        if (node->op == PS_OP_PREFETCH) {
            PS_TRY(describe(graph, node, &f->line));
            continue;
        }
        if ((ps_op_get(node->op)->flags & PS_OP_COLLECTIVE) != 0) {
            PS_TRY(ps_buffer_printf(&f->line, "|"));
        }
        graph->nodes[kept++] = *node;
    }
    graph->node_count = kept;
    return PS_OK;
}

static void expect_of(const char *text, const ps_pass_options *options, const char *line)
{
    found f = {.options = *options};
    ps_buffer before = {0};
    ps_buffer after = {0};
    ps_graph_text_require(ps_graph_text_run(text, NULL, NULL, &before), "the graph");
    ps_graph_text_require(ps_graph_text_run(text, prefetch, &f, &after), "the pass");
    assert_string_equal(before.data, after.data);
    assert_string_equal(line, f.line.data == NULL ? "" : f.line.data);
    ps_buffer_deinit(&before);
    ps_buffer_deinit(&after);
    ps_buffer_deinit(&f.line);
}

static void expect(const ps_pass_options *options, const char *line)
{
    char *text = ps_graph_text_load(GRAPH);
    expect_of(text, options, line);
    free(text);
}

// A machine of one thread whose capacity is `bytes`, steps of one row.
static ps_pass_options preserve(ps_machine *machine, uint64_t bytes, uint32_t context)
{
    *machine = PS_TEST_MACHINE;
    machine->threads = 1;
    machine->l2_bytes = bytes;
    return (ps_pass_options){.rows_max = 1,
                             .logits_max = 1,
                             .context_max = context,
                             .machine = machine,
                             .ranks = 2,
                             .prefetch = PS_PREFETCH_PRESERVE};
}

static void expect_preserve(uint64_t bytes, uint32_t context, const char *line)
{
    ps_machine machine;
    const ps_pass_options options = preserve(&machine, bytes, context);
    expect(&options, line);
}

static void test_off(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = preserve(&machine, (uint64_t)1 << 30, 100);
    options.prefetch = PS_PREFETCH_OFF;
    expect(&options, "||||");
}

// Everything fits; what waits for the next collective is its business, though the residual stream
// leads there. Behind the last node there is nothing.
static void test_preserve_ends_at_the_next_collective(void **state)
{
    (void)state;
    expect_preserve((uint64_t)1 << 30, 1000, "|gate up down|q2 k2 v2 kv2 o2|out|");
}

static void test_preserve_stays_below_the_capacity(void **state)
{
    (void)state;
    const uint64_t three = (uint64_t)3 * 139264;
    expect_preserve(three, 100, "|gate up down(no_capacity)|q2 k2 v2 kv2 o2|out|");
    expect_preserve(three + 1, 100, "|gate up down|q2 k2 v2 kv2 o2|out|");
    // The sum of the caches of all workers.
    ps_machine machine;
    ps_pass_options options = preserve(&machine, three / 3, 100);
    machine.threads = 3;
    expect(&options, "|gate up down(no_capacity)|q2 k2 v2 kv2 o2|out|");
    machine.threads = 4;
    expect(&options, "|gate up down|q2 k2 v2 kv2 o2|out|");
}

// Behind the first that does not fit nothing is taken, though o2 would fit; the next starts from 0.
static void test_preserve_stops_at_the_first_misfit(void **state)
{
    (void)state;
    expect_preserve(300000, 1000,
                    "|gate up down(no_capacity)|q2 k2 v2 kv2(no_capacity) o2(after_misfit)|out|");
    expect_preserve(69632, 100,
                    "|gate(no_capacity) up(after_misfit) down(after_misfit)|q2(no_capacity) "
                    "k2(after_misfit) v2(after_misfit) kv2(after_misfit) "
                    "o2(after_misfit)|out(no_capacity)|");
    expect_preserve(69633, 100,
                    "|gate(no_capacity) up(after_misfit) down(after_misfit)|q2 k2(no_capacity) "
                    "v2(after_misfit) kv2(after_misfit) o2(after_misfit)|out|");
}

// q2, k2 and v2 are 139264 bytes together; KV counts at the longest context of the bucket.
static void test_preserve_counts_kv_at_the_longest_context(void **state)
{
    (void)state;
    expect_preserve(139264 + 512 * 200, 200,
                    "|gate up(no_capacity) down(after_misfit)|q2 k2 v2 kv2(no_capacity) "
                    "o2(after_misfit)|out|");
    expect_preserve(139264 + 512 * 200 + 1, 200,
                    "|gate up(no_capacity) down(after_misfit)|q2 k2 v2 kv2 o2(no_capacity)|out|");
    // In the chunks of a prompt, too, whose attention reads what the chunks before have written.
    ps_machine machine;
    ps_pass_options options = preserve(&machine, 139264 + 512 * 200 + 1, 200);
    options.rows_max = 512;
    expect(&options, "|gate up(no_capacity) down(after_misfit)|q2 k2 v2 kv2 o2(no_capacity)|out|");
}

// ---- auto: 20 bytes a nanosecond for as long as a sum of 1024 bytes takes

static ps_pass_options automatic(ps_machine *machine, double comm_ns)
{
    ps_pass_options options = preserve(machine, (uint64_t)1 << 30, 1000);
    machine->comm_ns = comm_ns;
    machine->comm_gbs = 1.024; // a microsecond for the row
    options.prefetch = PS_PREFETCH_AUTO;
    return options;
}

static void expect_auto(double comm_ns, const char *line)
{
    ps_machine machine;
    const ps_pass_options options = automatic(&machine, comm_ns);
    expect(&options, line);
}

// 10 us move 200000 bytes. A kv takes what its context leaves, so o2 may have as much.
static void test_auto_takes_what_the_time_allows(void **state)
{
    (void)state;
    expect_auto(9000, "|gate up:60736(part_time) down(no_time)|q2 k2 v2 kv2:60736(part_time) "
                      "o2:60736(part_time)|out|");
    expect_auto(0,
                "|gate:20000(part_time) up(no_time) down(no_time)|q2:20000(part_time) k2(no_time) "
                "v2(no_time) kv2(no_time) o2(no_time)|out:20000(part_time)|");
}

// Less than 16 KiB is not worth its looking after.
static void test_auto_leaves_crumbs(void **state)
{
    (void)state;
    ps_machine machine;
    const ps_pass_options options = automatic(&machine, 0);
    machine.fill_gbs = 16.383;
    expect(&options, "|gate(no_time) up(no_time) down(no_time)|q2(no_time) k2(no_time) v2(no_time) "
                     "kv2(no_time) o2(no_time)|out(no_time)|");
    machine.fill_gbs = 16.384;
    expect(&options, "|gate:16384(part_time) up(no_time) down(no_time)|q2:16384(part_time) "
                     "k2(no_time) v2(no_time) kv2(no_time) o2(no_time)|out:16384(part_time)|");
}

// What a wait leaves goes to the weights behind the next collective, which then starts behind them.
static void test_auto_looks_ahead(void **state)
{
    (void)state;
    expect_auto(99000, "|gate up down q2 k2 v2 o2|kv2 out||");
    expect_auto(24500, "|gate up down q2 k2:22576(part_time)|k2+22576 v2 kv2:462944(part_time) o2 "
                       "out||");
}

// Fifteen sixteenths of the caches, less what is there from before.
static void test_auto_fills_the_caches(void **state)
{
    (void)state;
    ps_machine machine;
    const ps_pass_options options = automatic(&machine, 99000);
    machine.l2_bytes = 200000 / 15 * 16;
    machine.llc_bytes = 4 * machine.l2_bytes - 1;
    expect(&options, "|gate up:60731(part_capacity) down(no_time)|q2 k2 v2 "
                     "kv2:60731(part_capacity) o2:60731(part_capacity)|out|");
    // A last level that is large beside it takes half as much again.
    machine.llc_bytes++;
    expect(&options, "|gate up down:28131(part_capacity)|q2 k2 v2 kv2:167395(part_capacity) o2|"
                     "out|");
}

// 64 rows: a weight of 139264 bytes is read in 3.5 us and multiplied with in 8.4, more than twice
// that. The KV is read in 13 us, and attention to it computes for 164.
static void test_auto_leaves_what_computing_bounds(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = automatic(&machine, 99000);
    options.rows_max = 64;
    expect(&options, "|gate(compute_bound) up(compute_bound) down(compute_bound)|"
                     "q2(compute_bound) k2(compute_bound) v2(compute_bound) kv2(compute_bound) "
                     "o2(compute_bound)|out(compute_bound)|");
    machine.int8_gops = 10000;
    expect(&options, "|gate up down q2 k2 v2 o2|kv2(compute_bound) out||");
    machine.f32_gops = 10000;
    expect(&options, "|gate up down q2 k2 v2 o2|kv2 out||");
    // Few rows are taken to be of as many sequences, each of which has a KV of its own.
    options.rows_max = 8;
    machine.f32_gops = 1;
    expect(&options, "|gate up down q2 k2 v2 o2|kv2 out||");
}

// ---- other graphs

#define HEAD                                                                                       \
    "vocabulary 64\nkv_group window=0\n%embd = weight Q8_0 [64, 64]\n%w = weight Q8_0 [64, 64]\n"  \
    "%vector = weight F32 [1, 64]\n"                                                               \
    "%x = activation F32 [T, 64]\n%a = activation F32 [T, 64]\n%b = activation F32 [T, 64]\n"      \
    "%c = activation F32 [T, 64]\n%d = activation F32 [T, 64]\n"                                   \
    "%kv = kv F16 [64] {group=0 head_dim=64}\n%last = activation F32 [L, 64]\n"                    \
    "%logits = activation F32 [L, 64] output\n%x = embed %embd\n"
#define TAIL "%last = select_logits %c\n%logits = softcap %last {softcap=1}\n"

static void expect_everywhere(const char *text, const char *line)
{
    ps_machine machine;
    ps_pass_options options = preserve(&machine, (uint64_t)1 << 30, 100);
    expect_of(text, &options, line);
    options = automatic(&machine, 99000);
    expect_of(text, &options, line);
}

static void test_other_graphs(void **state)
{
    (void)state;
    // no collective at all
    expect_everywhere(HEAD "%a = linear %x, %w\n%c = add %a, %x\n" TAIL, "");
    // a weight that is read twice is moved once
    expect_everywhere(
        HEAD "%a = all_reduce %x {ranks=2}\n%b = linear %a, %w\n%c = linear %b, %w\n" TAIL, "|w");
    // but for a reader behind another collective again: it may be gone by then
    expect_everywhere(HEAD "%a = all_reduce %x {ranks=2}\n%b = linear %a, %w\n"
                           "%d = all_reduce %b {ranks=2}\n%c = linear %d, %w\n" TAIL,
                      "|w|w");
    // so is a KV that two read, though it is written before
    expect_everywhere(HEAD "%a = all_reduce %x {ranks=2}\nkv_write %a, %a, %kv\n"
                           "%b = attention %a, %kv {heads=1 kv_heads=1 head_dim=64 scale=1}\n"
                           "%c = attention %b, %kv {heads=1 kv_heads=1 head_dim=64 scale=1}\n" TAIL,
                      "|kv");
    // tables and vectors are no matter of prefetching, and a collective right behind another has no
    // wait of its own
    expect_everywhere(HEAD "%a = all_reduce %x {ranks=2}\n%b = all_reduce %a {ranks=2}\n"
                           "%c = add_bias %b, %vector\n" TAIL,
                      "||");
}

// ---- own rows: a sum is scattered and gathered by two collectives

#define ROWS_GRAPH(rank)                                                                           \
    "vocabulary 512\n%embd = weight Q8_0 [512, 64]\n%w = weight Q8_0 [512, 64]\n"                  \
    "%x = activation F32 [T, 64]\n%a = activation F32 [O, 64]\n%b = activation F32 [O, 64]\n"      \
    "%c = activation F32 [T, 64]\n%d = activation F32 [T, 512]\n%last = activation F32 [L, 512]\n" \
    "%logits = activation F32 [L, 512] output\n%x = embed %embd\n"                                 \
    "%a = reduce_scatter %x {ranks=2 rank=" rank "}\n%b = softcap %a {softcap=1}\n"                \
    "%c = all_gather_rows %b {ranks=2 rank=" rank "}\n%d = linear %c, %w\n"                        \
    "%last = select_logits %d\n%logits = softcap %last {softcap=1}\n"

// Between the two nothing is read, so the walk of preserve finds the weight behind the second only;
// auto uses the first wait for what stands behind the second.
static void test_own_rows_have_two_waits(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = preserve(&machine, (uint64_t)1 << 30, 100);
    expect_of(ROWS_GRAPH("0"), &options, "||w");
    options = automatic(&machine, 99000);
    expect_of(ROWS_GRAPH("0"), &options, "|w|");
}

// 256 bytes in a microsecond, in which 20000 of w's 34816 are moved. Rows that a rank has itself
// need not come: of one row, rank 0 waits for none.
static void test_own_rows_take_the_time_of_the_others(void **state)
{
    (void)state;
    ps_machine machine;
    ps_pass_options options = automatic(&machine, 0);
    machine.comm_gbs = 0.256;
    expect_of(ROWS_GRAPH("0"), &options, "||w(no_time)");
    expect_of(ROWS_GRAPH("1"), &options, "|w:20000(part_time)|w+20000");
    options.rows_max = 2;
    expect_of(ROWS_GRAPH("0"), &options, "|w:20000(part_time)|w+20000");
    options.rows_max = 4;
    expect_of(ROWS_GRAPH("0"), &options, "|w|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_preserve_ends_at_the_next_collective),
        cmocka_unit_test(test_preserve_stays_below_the_capacity),
        cmocka_unit_test(test_preserve_stops_at_the_first_misfit),
        cmocka_unit_test(test_preserve_counts_kv_at_the_longest_context),
        cmocka_unit_test(test_auto_takes_what_the_time_allows),
        cmocka_unit_test(test_auto_leaves_crumbs),
        cmocka_unit_test(test_auto_looks_ahead),
        cmocka_unit_test(test_auto_fills_the_caches),
        cmocka_unit_test(test_auto_leaves_what_computing_bounds),
        cmocka_unit_test(test_other_graphs),
        cmocka_unit_test(test_own_rows_have_two_waits),
        cmocka_unit_test(test_own_rows_take_the_time_of_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
