// ctest-labels: file
// ctest-links: ps_ir
// Goal: shard, fuse and window change a graph as their files say, and nothing else.
// Method: test/passes/*.txt, each the smallest graph that shows one rule, before and after.
#include "ir/graph_text_test.h"
#include "passes/passes_test.h"

static ps_status fuse(ps_graph *graph, void *context)
{
    return ps_pass_fuse(graph, context);
}

static ps_status window(ps_graph *graph, void *context)
{
    return ps_pass_window(graph, context);
}

static ps_status shard(ps_graph *graph, void *context)
{
    return ps_pass_shard(graph, context);
}

static void expect_with(const char *name, ps_graph_pass pass, ps_pass_options options)
{
    char path[128];
    (void)snprintf(path, sizeof path, "test/passes/%s.txt", name);
    print_message("%s\n", path);
    ps_graph_text_expect_file(path, pass, &options);
}

static void expect_of_rank(const char *name, ps_graph_pass pass, uint32_t rank, uint32_t ranks)
{
    ps_pass_options options = PS_TEST_DECODE;
    options.rank = rank;
    options.ranks = ranks;
    expect_with(name, pass, options);
}

static void expect(const char *name, ps_graph_pass pass)
{
    expect_of_rank(name, pass, 0, 1);
}

static void test_shard(void **state)
{
    (void)state;
    expect_of_rank("shard_dense", shard, 1, 2);
    expect_of_rank("shard_experts", shard, 0, 2);
    expect_of_rank("shard_refused", shard, 0, 4);
}

static void test_shard_by_rows(void **state)
{
    (void)state;
    ps_pass_options options = PS_TEST_DECODE;
    options.ranks = 2;
    options.rank = 1;
    options.sequence_parallel = true;
    expect_with("shard_rows_dense", shard, options);
    options.ranks = 3;
    options.rank = 2;
    expect_with("shard_rows_experts", shard, options);
    // With one rank there is nothing to share.
    options.ranks = 1;
    options.rank = 0;
    char *text = ps_graph_text_load("test/passes/prefetch.graph");
    ps_graph_text_expect(text, shard, &options, text);
    free(text);
}

static void test_shard_best_logits(void **state)
{
    (void)state;
    ps_pass_options options = PS_TEST_DECODE;
    options.ranks = 2;
    options.rank = 1;
    options.best_logits = 127;
    expect_with("shard_best", shard, options);
    options.best_logits = 128;
    expect_with("shard_best_not", shard, options);
    options.best_logits = UINT32_MAX;
    expect_with("shard_best_not", shard, options);
    options.best_logits = 0;
    expect_with("shard_best_not", shard, options);
}

static void test_fuse(void **state)
{
    (void)state;
    static const char *const NAMES[] = {
        "fuse_qkv",       "fuse_qkv_formats",       "fuse_qkv_float",
        "fuse_qkv_odd",   "fuse_qkv_float_between", "fuse_qkv_views",
        "fuse_gate_up",   "fuse_gate_up_not",       "fuse_norm",
        "fuse_norm_view", "fuse_experts",           "fuse_experts_pairs",
        "fuse_rows",
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        expect(NAMES[i], fuse);
    }
}

static void test_window(void **state)
{
    (void)state;
    expect("window", window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard),
        cmocka_unit_test(test_shard_by_rows),
        cmocka_unit_test(test_shard_best_logits),
        cmocka_unit_test(test_fuse),
        cmocka_unit_test(test_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
