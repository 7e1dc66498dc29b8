// ctest-labels: golden;prop
// Goal: a profile says what ran: counts are the plans' steps, times fill the wall and not more,
// bytes are those that the rows read; linears are told apart by whether their run prefetched for
// them, which it does but in controls; and it changes no bit of the logits. Method: golden models
// at several thread counts; bytes of attention and operations of linears counted here one by one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "base/clock.h"
#include "engine/engine_test.h"
#include "session/session.h"

static const char *const MODELS[] = {"smollm-q4_1", "qwen3moe-q8_0", "gemma3-q8_0"};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

#define PROMPT 150
#define ANSWER 6
#define BATCH 100

static ps_session *open_session(ps_model *model)
{
    ps_session *session = NULL;
    const ps_session_options options = {.context_tokens = 512, .sequences = 2, .batch_rows = BATCH};
    expect_ok(ps_session_create(model, &options, &session));
    return session;
}

// A prompt in two steps, then single ones; the logits [ANSWER * vocabulary] of those.
static void run(ps_session *session, float *logits, uint32_t vocabulary)
{
    int32_t tokens[PROMPT + ANSWER];
    make_prompt(tokens, PROMPT + ANSWER, 3);
    ps_sequence sequence;
    expect_ok(ps_sequence_open(session, &sequence));
    expect_ok(ps_session_prefill(session, sequence, tokens, PROMPT, NULL));
    for (uint32_t i = 0; i < ANSWER; i++) {
        step_one(session, sequence, tokens[PROMPT + i], logits + (size_t)i * vocabulary,
                 vocabulary);
    }
    ps_sequence_close(session, sequence);
}

static const ps_plan *plan_for(const ps_session *session, uint32_t rows, uint32_t last)
{
    return ps_program_plan(ps_session_program_for(session, rows, 1, last));
}

static uint32_t barriers_of(const ps_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        count += plan->steps[i].barrier;
    }
    return count;
}

static ps_profile_op sum_of(const ps_profile *profile)
{
    ps_profile_op sum = {0};
    for (uint32_t i = 0; i < profile->op_count; i++) {
        sum.steps += profile->ops[i].steps;
        sum.barriers += profile->ops[i].barriers;
        sum.work_ns += profile->ops[i].work_ns;
        sum.wait_ns += profile->ops[i].wait_ns;
        sum.weight_bytes += profile->ops[i].weight_bytes;
        sum.kv_bytes += profile->ops[i].kv_bytes;
    }
    return sum;
}

static void test_same_bits_and_counts(void **state)
{
    for (uint32_t threads = 1; threads <= 3; threads++) {
        ps_model *model = open_golden(*state, threads);
        const uint32_t vocabulary = vocabulary_of(model);
        ps_session *session = open_session(model);
        float *logits[2];
        for (int i = 0; i < 2; i++) {
            logits[i] = calloc((size_t)ANSWER * vocabulary, sizeof(float));
            assert_non_null(logits[i]);
        }
        run(session, logits[0], vocabulary);
        expect_ok(ps_session_profile_start(session));
        const uint64_t start_ns = ps_clock_ns();
        run(session, logits[1], vocabulary);
        const uint64_t wall_ns = ps_clock_ns() - start_ns;
        assert_memory_equal(logits[0], logits[1], (size_t)ANSWER * vocabulary * sizeof(float));

        ps_profile profile;
        ps_session_profile_get(session, &profile);
        assert_int_equal(2 + ANSWER, profile.runs);
        assert_int_equal(PROMPT + ANSWER, profile.rows);
        const ps_plan *first = plan_for(session, BATCH, BATCH - 1);
        const ps_plan *second = plan_for(session, PROMPT - BATCH, PROMPT - 1);
        const ps_plan *decode = plan_for(session, 1, PROMPT + ANSWER - 1);
        const ps_profile_op sum = sum_of(&profile);
        assert_int_equal(first->step_count + second->step_count + ANSWER * decode->step_count,
                         sum.steps);
        assert_int_equal(barriers_of(first) + barriers_of(second) + ANSWER * barriers_of(decode),
                         sum.barriers);
        assert_int_equal(sum.barriers, profile.barriers);
        assert_true(sum.work_ns > 0 && sum.work_ns + sum.wait_ns <= profile.wall_ns);
        assert_true(profile.wall_ns <= wall_ns);
        assert_string_equal("end", profile.ops[profile.op_count - 1].op);
        for (int i = 0; i < 2; i++) {
            free(logits[i]);
        }
        ps_session_destroy(session);
        ps_model_close(model);
    }
}

// What attention of the next run over `rows` of each sequence reads, from position `from` on.
static uint64_t kv_bytes(const ps_plan *plan, uint32_t from, uint32_t rows)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        if (step->op != PS_OP_ATTENTION && step->op != PS_OP_ATTENTION_PARTIAL) {
            continue;
        }
        const ps_value *kv = &plan->values[step->inputs[1]].is;
        const uint32_t window = plan->kv_windows[kv->kv_group];
        for (uint32_t position = 0; position < from + rows; position++) {
            const bool seen = window == 0 || position + window > from;
            bytes += seen ? (uint64_t)kv->columns * 2 * 2 : 0;
        }
    }
    return bytes;
}

static void test_bytes(void **state)
{
    ps_model *model = open_golden(*state, 2);
    ps_model_info info;
    ps_model_get_info(model, &info);
    ps_session *session = open_session(model);
    int32_t tokens[PROMPT];
    make_prompt(tokens, PROMPT, 3);
    ps_sequence sequence[2];
    ps_profile profile;
    for (int i = 0; i < 2; i++) {
        expect_ok(ps_sequence_open(session, &sequence[i]));
        expect_ok(ps_session_prefill(session, sequence[i], tokens, PROMPT, NULL));
    }
    ps_session_profile_get(session, &profile); // never started
    assert_int_equal(0, profile.runs + profile.op_count);

    expect_ok(ps_session_profile_start(session));
    const ps_row one = {sequence[0], 5, true};
    expect_ok(ps_session_step(session, &one, 1));
    ps_session_profile_get(session, &profile);
    assert_int_equal(1, profile.runs);
    assert_int_equal(info.bytes_per_token, sum_of(&profile).weight_bytes);
    assert_int_equal(kv_bytes(plan_for(session, 1, PROMPT), PROMPT, 1), sum_of(&profile).kv_bytes);

    // Two sequences in one run: both contexts, and no lm_head where nobody wants logits.
    ps_session_profile_reset(session);
    const ps_row four[4] = {{sequence[0], 5, false},
                            {sequence[0], 6, false},
                            {sequence[1], 7, false},
                            {sequence[1], 8, false}};
    expect_ok(ps_session_step(session, four, 4));
    ps_session_profile_get(session, &profile);
    const ps_plan *plan = plan_for(session, 4, PROMPT + 2);
    assert_int_equal(4, profile.rows);
    assert_int_equal(kv_bytes(plan, PROMPT + 1, 2) + kv_bytes(plan, PROMPT, 2),
                     sum_of(&profile).kv_bytes);
    for (uint32_t i = 0; i < profile.op_count; i++) {
        const bool is_head = strcmp(profile.ops[i].site, "lm_head") == 0;
        assert_true(!is_head || profile.ops[i].weight_bytes == 0);
    }

    // Stopped, nothing counts, and what was counted stays; a refused step never counts.
    const ps_row bad = {sequence[0], -1, true};
    assert_int_not_equal(PS_OK, ps_session_step(session, &bad, 1));
    ps_session_profile_stop(session);
    expect_ok(ps_session_step(session, &one, 1));
    ps_session_profile_get(session, &profile);
    assert_int_equal(1, profile.runs);
    expect_ok(ps_session_profile_start(session));
    expect_ok(ps_session_step(session, &one, 1));
    ps_session_profile_get(session, &profile);
    assert_int_equal(2, profile.runs);
    ps_session_destroy(session);
    ps_model_close(model);
}

// ---- linears with prefetches and without

#define DECODED 40u // the 32nd run of a plan is a control without any prefetch

static bool is_prefetched(const ps_plan *plan, uint32_t weight)
{
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        const uint32_t reason = step->attributes.reason;
        if (step->op == PS_OP_PREFETCH && step->inputs[0] == weight &&
            (reason == PS_REASON_WHOLE || reason == PS_REASON_PART_RATIO ||
             reason == PS_REASON_PART_CAP)) {
            return true;
        }
    }
    return false;
}

static void add_weight(const ps_plan_step *step, const ps_value *weight, ps_profile_part *part)
{
    // Experts see top_k rows, where each reads one matrix.
    const uint64_t rows = weight->experts == 0 ? 1 : step->attributes.top_k;
    const uint64_t ops = rows * weight->rows * weight->columns;
    part->int8_ops += ps_dtype_is_quantised(weight->dtype) ? ops : 0;
    part->f32_ops += ps_dtype_is_quantised(weight->dtype) ? 0 : ops;
    part->weight_bytes += rows * ps_packed_bytes(weight->dtype, weight->rows, weight->columns);
}

// What one run of the plan over one row does for the linears of a site that it prefetches for, and
// for the others.
static ps_profile_linear linear_of(const ps_plan *plan, const char *site)
{
    ps_profile_linear linear = {0};
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const ps_plan_step *step = &plan->steps[i];
        ps_profile_part *part = NULL;
        for (uint32_t j = 0; j < step->input_count; j++) {
            const ps_value *weight = &plan->values[step->inputs[j]].is;
            if (step->op != PS_OP_PREFETCH && weight->kind == PS_VALUE_WEIGHT && weight->rows > 1 &&
                strcmp(ps_site_name((ps_site)step->attributes.site), site) == 0) {
                part = is_prefetched(plan, step->inputs[j]) ? &linear.with : &linear.without;
                add_weight(step, weight, part);
            }
        }
        if (part != NULL) {
            part->linears++;
        }
    }
    return linear;
}

static ps_profile_part sum_parts(const ps_profile_part *a, uint64_t a_times,
                                 const ps_profile_part *b, uint64_t b_times)
{
    return (ps_profile_part){.linears = a_times * a->linears + b_times * b->linears,
                             .weight_bytes = a_times * a->weight_bytes + b_times * b->weight_bytes,
                             .int8_ops = a_times * a->int8_ops + b_times * b->int8_ops,
                             .f32_ops = a_times * a->f32_ops + b_times * b->f32_ops};
}

static void expect_part(const ps_profile_part *expected, const ps_profile_part *got)
{
    assert_int_equal(expected->linears, got->linears);
    assert_int_equal(expected->weight_bytes, got->weight_bytes);
    assert_int_equal(expected->int8_ops, got->int8_ops);
    assert_int_equal(expected->f32_ops, got->f32_ops);
    assert_true((got->work_ns > 0) == (got->linears > 0));
}

static uint32_t slack_waits(const ps_session *session)
{
    ps_prefetch_site sites[PS_PREFETCH_SITES_MAX];
    uint32_t waits = 0;
    const uint32_t count = ps_session_prefetch_get(session, sites);
    for (uint32_t i = 0; i < count; i++) {
        const bool is_declined = sites[i].fired == 0;
        assert_true(!is_declined || sites[i].slack_waits == 0);
        waits += (uint32_t)sites[i].slack_waits;
    }
    return waits;
}

static void decode(ps_session *session, ps_sequence sequence, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const ps_row row = {sequence, (int32_t)i + 5, true};
        expect_ok(ps_session_step(session, &row, 1));
    }
}

static void linears_of(ps_model *model, ps_prefetch_policy policy)
{
    const ps_session_options options = {.context_tokens = 512,
                                        .sequences = 1,
                                        .batch_rows = BATCH,
                                        .prefetch = policy,
                                        .ratios = ps_prefetch_ratios_default()};
    ps_session *session = NULL;
    expect_ok(ps_session_create(model, &options, &session));
    ps_sequence sequence;
    expect_ok(ps_sequence_open(session, &sequence));
    expect_ok(ps_session_profile_start(session));
    decode(session, sequence, DECODED);
    ps_profile profile;
    ps_session_profile_get(session, &profile);
    const ps_plan *plan = plan_for(session, 1, DECODED);
    uint32_t sites = 0;
    for (uint32_t i = 0; i < profile.linear_count; i++) {
        const ps_profile_linear *linear = &profile.linears[i];
        const ps_profile_linear one = linear_of(plan, linear->site);
        const ps_profile_part with = sum_parts(&one.with, DECODED - 1, &one.without, 0);
        const ps_profile_part without = sum_parts(&one.with, 1, &one.without, DECODED);
        assert_false(linear->is_prompt);
        expect_part(&with, &linear->with);
        expect_part(&without, &linear->without);
        sites += one.with.linears > 0;
    }
    assert_int_equal(policy == PS_PREFETCH_RATIO, sites > 0);
    const uint32_t waits = slack_waits(session);
    assert_int_equal(policy == PS_PREFETCH_RATIO, waits > 0);

    // Prompts are counted apart, and nothing is while no profile is taken.
    int32_t tokens[PROMPT];
    make_prompt(tokens, PROMPT, 3);
    const uint32_t count = profile.linear_count;
    expect_ok(ps_session_prefill(session, sequence, tokens, PROMPT, NULL));
    ps_session_profile_get(session, &profile);
    assert_int_equal(2 * count, profile.linear_count);
    assert_true(profile.linears[count].is_prompt);
    const uint32_t waits_then = slack_waits(session);
    ps_session_profile_stop(session);
    decode(session, sequence, 5);
    assert_int_equal(waits_then, slack_waits(session));
    ps_session_destroy(session);
}

static void test_linears(void **state)
{
    ps_model *model = open_golden(*state, 2);
    linears_of(model, PS_PREFETCH_OFF);
    linears_of(model, PS_PREFETCH_RATIO);
    ps_model_close(model);
}

static const struct {
    const char *name;
    CMUnitTestFunction function;
} TESTS[] = {{"same bits and counts", test_same_bits_and_counts},
             {"bytes", test_bytes},
             {"linears", test_linears}};
#define TEST_COUNT (sizeof TESTS / sizeof TESTS[0])

int main(void)
{
    static char names[TEST_COUNT * MODEL_COUNT][64];
    struct CMUnitTest tests[TEST_COUNT * MODEL_COUNT];
    for (size_t i = 0; i < TEST_COUNT * MODEL_COUNT; i++) {
        const char *model = MODELS[i / TEST_COUNT];
        (void)snprintf(names[i], sizeof names[i], "%s: %s", model, TESTS[i % TEST_COUNT].name);
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = TESTS[i % TEST_COUNT].function,
                                       .initial_state = (void *)(uintptr_t)model};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
