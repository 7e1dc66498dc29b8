// ctest-links: ps_ir
// Goal: the scheduler puts a barrier where one is needed and nowhere else, and shares out work as
// the bucket asks. Method: dense graphs of one to four layers, counted by hand:
//
// With few rows (decode) small operators run on every worker. A layer has 5 barriers: before the
// chunks of attention (they read queries and keys of all heads), before their merge, before the sum
// with the residual after attn.o, before mlp.down (it reads all that gate_up made), and before the
// sum after mlp.down. Nothing else: the norm, the joined q k v, rope, and writing K and V are each
// worker's own affair, and so are the norm and the head at the end.
//
// With many rows (prefill) rows are shared out, and each change between rows and columns is a
// barrier. A layer has 8: before the joined q k v (rows to columns), attention, the quantise after
// it (units to rows), attn.o, the sum after it, gate_up, mlp.down, and the sum after that. At the
// end there are 2: selecting logits gathers rows of others, and the head reads them all.
#include "passes/passes_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define LAYERS_MAX 4
#define DECODE_BARRIERS_PER_LAYER 5
#define PREFILL_BARRIERS_PER_LAYER 8
#define PREFILL_BARRIERS_AT_THE_END 2

static void add(ps_buffer *text, const char *format, ...) PS_PRINTF(2, 3);
static void add(ps_buffer *text, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    assert_true(length > 0 && (size_t)length < sizeof line);
    assert_int_equal(ps_buffer_append(text, line, (size_t)length), PS_OK);
}

static void add_layer(ps_buffer *text, uint32_t l, const char *x)
{
    static const struct {
        const char *name, *what;
    } VALUES[] = {
        {"norm1", "weight F32 [1, 256]"},  {"norm2", "weight F32 [1, 256]"},
        {"wq", "weight Q4_K [256, 256]"},  {"wk", "weight Q4_K [128, 256]"},
        {"wv", "weight Q6_K [128, 256]"},  {"wo", "weight Q4_K [256, 256]"},
        {"wg", "weight Q4_K [512, 256]"},  {"wu", "weight Q4_K [512, 256]"},
        {"wd", "weight Q6_K [256, 512]"},  {"kv", "kv F16 [128] {group=0 head_dim=64}"},
        {"n1", "activation F32 [T, 256]"}, {"q", "activation F32 [T, 256]"},
        {"k", "activation F32 [T, 128]"},  {"v", "activation F32 [T, 128]"},
        {"qr", "activation F32 [T, 256]"}, {"kr", "activation F32 [T, 128]"},
        {"a", "activation F32 [T, 256]"},  {"o", "activation F32 [T, 256]"},
        {"s", "activation F32 [T, 256]"},  {"n2", "activation F32 [T, 256]"},
        {"g", "activation F32 [T, 512]"},  {"u", "activation F32 [T, 512]"},
        {"h", "activation F32 [T, 512]"},  {"d", "activation F32 [T, 256]"},
        {"y", "activation F32 [T, 256]"},
    };
    for (size_t i = 0; i < sizeof VALUES / sizeof VALUES[0]; i++) {
        add(text, "%%%s.%u = %s\n", VALUES[i].name, l, VALUES[i].what);
    }
    add(text, "%%n1.%u = rms_norm %%%s, %%norm1.%u {layer=%u eps=1e-05}\n", l, x, l, l);
    add(text, "%%q.%u = linear %%n1.%u, %%wq.%u {layer=%u site=attn.qkv unit=64}\n", l, l, l, l);
    add(text, "%%k.%u = linear %%n1.%u, %%wk.%u {layer=%u site=attn.qkv unit=64}\n", l, l, l, l);
    add(text, "%%v.%u = linear %%n1.%u, %%wv.%u {layer=%u site=attn.qkv unit=64}\n", l, l, l, l);
    add(text, "%%qr.%u = rope %%q.%u, %%rope {layer=%u head_dim=64}\n", l, l, l);
    add(text, "%%kr.%u = rope %%k.%u, %%rope {layer=%u head_dim=64}\n", l, l, l);
    add(text, "kv_write %%kr.%u, %%v.%u, %%kv.%u {layer=%u}\n", l, l, l, l);
    add(text,
        "%%a.%u = attention %%qr.%u, %%kv.%u {layer=%u site=kv heads=4 kv_heads=2 head_dim=64 "
        "scale=0.125}\n",
        l, l, l, l);
    add(text, "%%o.%u = linear %%a.%u, %%wo.%u {layer=%u site=attn.o}\n", l, l, l, l);
    add(text, "%%s.%u = add %%o.%u, %%%s {layer=%u}\n", l, l, x, l);
    add(text, "%%n2.%u = rms_norm %%s.%u, %%norm2.%u {layer=%u eps=1e-05}\n", l, l, l, l);
    add(text, "%%g.%u = linear %%n2.%u, %%wg.%u {layer=%u site=mlp.gate_up}\n", l, l, l, l);
    add(text, "%%u.%u = linear %%n2.%u, %%wu.%u {layer=%u site=mlp.gate_up}\n", l, l, l, l);
    add(text, "%%h.%u = act_mul %%g.%u, %%u.%u {layer=%u}\n", l, l, l, l);
    add(text, "%%d.%u = linear %%h.%u, %%wd.%u {layer=%u site=mlp.down}\n", l, l, l, l);
    add(text, "%%y.%u = add %%d.%u, %%s.%u {layer=%u}\n", l, l, l, l);
}

static void make_text(uint32_t layers, ps_buffer *text)
{
    add(text, "vocabulary 512\nkv_group window=0\n"
              "%%embd = weight Q8_0 [512, 256]\n%%norm = weight F32 [1, 256]\n"
              "%%y.0 = activation F32 [T, 256]\n%%rope = activation F32 [T, 64]\n"
              "%%y.0 = embed %%embd\n%%rope = rope_table {rotary_dim=64 freq_base=10000}\n");
    for (uint32_t l = 1; l <= layers; l++) {
        char x[16];
        (void)snprintf(x, sizeof x, "y.%u", l - 1);
        add_layer(text, l, x);
    }
    add(text, "%%last = activation F32 [L, 256]\n%%n = activation F32 [L, 256]\n"
              "%%logits = activation F32 [L, 512] output\n");
    add(text, "%%last = select_logits %%y.%u\n", layers);
    add(text, "%%n = rms_norm %%last, %%norm {eps=1e-05}\n"
              "%%logits = linear %%n, %%embd {site=lm_head}\n");
}

static ps_arena arena;

static const ps_plan *make_plan(uint32_t layers, const ps_pass_options *options)
{
    ps_buffer text = {0};
    ps_graph graph;
    ps_plan *plan = NULL;
    make_text(layers, &text);
    ps_graph_init(&graph, &arena);
    const ps_status parsed = ps_graph_parse((ps_str){text.data, text.length}, &graph);
    ps_buffer_deinit(&text);
    if (parsed != PS_OK || ps_passes_run(&graph, options, &plan) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    return plan;
}

static uint32_t count_barriers(const ps_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        count += plan->steps[i].barrier;
    }
    return count;
}

// The steps of one layer from the joined q, k and v on to writing K and V.
static void expect_no_barrier_up_to_kv(const ps_plan *plan)
{
    uint32_t seen = 0;
    bool inside = false;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        assert_true(!inside || (!step->barrier && step->split == PS_SPLIT_COLUMNS));
        if (step->op == PS_OP_LINEAR && step->attributes.site == PS_SITE_ATTN_QKV) {
            assert_int_equal(step->input_count, 4);
            inside = true;
        } else if (step->op == PS_OP_KV_WRITE) {
            assert_true(inside);
            inside = false;
            seen++;
        }
    }
    assert_int_equal(seen, LAYERS_MAX);
}

static void test_decode_barriers(void **state)
{
    (void)state;
    for (uint32_t layers = 1; layers <= LAYERS_MAX; layers++) {
        const ps_plan *plan = make_plan(layers, &PS_TEST_DECODE);
        assert_int_equal(count_barriers(plan), DECODE_BARRIERS_PER_LAYER * layers);
    }
    expect_no_barrier_up_to_kv(make_plan(LAYERS_MAX, &PS_TEST_DECODE));
}

static void test_prefill_barriers(void **state)
{
    (void)state;
    for (uint32_t layers = 1; layers <= LAYERS_MAX; layers++) {
        const ps_plan *plan = make_plan(layers, &PS_TEST_PREFILL);
        assert_int_equal(count_barriers(plan),
                         PREFILL_BARRIERS_PER_LAYER * layers + PREFILL_BARRIERS_AT_THE_END);
    }
    expect_no_barrier_up_to_kv(make_plan(LAYERS_MAX, &PS_TEST_PREFILL));
}

static void expect_split(const ps_plan *plan, ps_op op, ps_split split)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].op == op) {
            assert_int_equal(plan->steps[i].split, split);
            seen++;
        }
    }
    assert_true(seen > 0);
}

static void test_splits(void **state)
{
    (void)state;
    const ps_plan *decode = make_plan(2, &PS_TEST_DECODE);
    const ps_plan *prefill = make_plan(2, &PS_TEST_PREFILL);
    static const ps_op SMALL[] = {PS_OP_EMBED, PS_OP_NORM_QUANTISE, PS_OP_QUANTISE, PS_OP_ADD,
                                  PS_OP_SELECT_LOGITS};
    for (size_t i = 0; i < sizeof SMALL / sizeof SMALL[0]; i++) {
        expect_split(decode, SMALL[i], PS_SPLIT_ALL);
        expect_split(prefill, SMALL[i], PS_SPLIT_ROWS);
    }
    expect_split(decode, PS_OP_ATTENTION_PARTIAL, PS_SPLIT_UNITS);
    expect_split(decode, PS_OP_ATTENTION_MERGE, PS_SPLIT_ALL);
    expect_split(prefill, PS_OP_ATTENTION, PS_SPLIT_UNITS);
    expect_split(decode, PS_OP_GATE_UP, PS_SPLIT_COLUMNS);
    assert_true(decode->private_bytes > 0);
    assert_int_equal(prefill->private_bytes, 0);
}

// The bucket's border: up to PS_REPLICATED_ROWS_MAX rows are few.
static void test_border(void **state)
{
    (void)state;
    ps_pass_options options = PS_TEST_DECODE;
    options.rows_max = PS_REPLICATED_ROWS_MAX;
    expect_split(make_plan(1, &options), PS_OP_ADD, PS_SPLIT_ALL);
    options.rows_max = PS_REPLICATED_ROWS_MAX + 1;
    expect_split(make_plan(1, &options), PS_OP_ADD, PS_SPLIT_ROWS);
}

// More layers need no more workspace, for they use the same bytes again.
static void test_workspace_does_not_grow(void **state)
{
    (void)state;
    const ps_plan *two = make_plan(2, &PS_TEST_DECODE);
    const ps_plan *four = make_plan(4, &PS_TEST_DECODE);
    assert_int_equal(two->shared_bytes, four->shared_bytes);
    assert_int_equal(two->private_bytes, four->private_bytes);
}

// Packed bytes and multiply-adds of one layer, by hand.
static void test_measures(void **state)
{
    (void)state;
    const ps_plan *plan = make_plan(1, &PS_TEST_DECODE);
    const uint64_t q4_k = 144, q6_k = 210; // bytes of 256 columns of one row
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        if (step->attributes.site == PS_SITE_ATTN_QKV) {
            assert_int_equal(step->row_ops, (256 + 128 + 128) * 256);
            assert_int_equal(step->weight_bytes, (256 + 128) * q4_k + 128 * q6_k);
        } else if (step->op == PS_OP_GATE_UP) {
            assert_int_equal(step->row_ops, 2 * 512 * 256);
            assert_int_equal(step->weight_bytes, 2 * 512 * q4_k);
        } else if (step->attributes.site == PS_SITE_MLP_DOWN) {
            assert_int_equal(step->weight_bytes, 256 * 2 * q6_k);
        }
        // The roofline: never faster than its weights are read, and a barrier is paid for.
        assert_true((double)step->predicted_ns + 1 >=
                    (double)step->weight_bytes / PS_TEST_MACHINE.read_gbs +
                        (step->barrier ? PS_TEST_MACHINE.barrier_ns : 0));
    }
}

// An attention too large for one step's results is refused, not cut.
static void test_too_large(void **state)
{
    (void)state;
    ps_buffer text = {0};
    ps_graph graph;
    ps_plan *plan = NULL;
    ps_pass_options options = PS_TEST_DECODE;
    options.context_max = PS_PLAN_CONTEXT_MAX;
    make_text(1, &text);
    ps_graph_init(&graph, &arena);
    assert_int_equal(ps_graph_parse((ps_str){text.data, text.length}, &graph), PS_OK);
    assert_int_equal(ps_passes_run(&graph, &options, &plan), PS_UNSUPPORTED);
    assert_null(plan);
    ps_buffer_deinit(&text);
}

// A rope reads its whole table, whoever wrote it: here the workers, each some columns of it.
static void test_table_of_all_workers(void **state)
{
    (void)state;
    static const char TEXT[] = "vocabulary 64\n%embd = weight F32 [64, 64]\n"
                               "%x = activation F32 [T, 64]\n%t = activation F32 [T, 64]\n"
                               "%r = activation F32 [T, 64]\n%last = activation F32 [L, 64]\n"
                               "%logits = activation F32 [L, 64] output\n"
                               "%x = embed %embd\n%t = linear %x, %embd {unit=64}\n"
                               "%r = rope %t, %t {head_dim=64}\n%last = select_logits %r\n"
                               "%logits = linear %last, %embd\n";
    ps_graph graph;
    ps_plan *plan = NULL;
    ps_graph_init(&graph, &arena);
    assert_int_equal(ps_graph_parse(ps_str_of(TEXT), &graph), PS_OK);
    if (ps_passes_run(&graph, &PS_TEST_DECODE, &plan) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    assert_int_equal(plan->steps[2].op, PS_OP_ROPE);
    assert_true(plan->steps[2].barrier);
}

static int set_up(void **state)
{
    (void)state;
    ps_arena_init(&arena, (size_t)256 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ps_arena_deinit(&arena);
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_decode_barriers), TEST(test_prefill_barriers),
        TEST(test_splits),          TEST(test_border),
        TEST(test_measures),        TEST(test_workspace_does_not_grow),
        TEST(test_too_large),       TEST(test_table_of_all_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
