// ctest-labels: golden;prop
// Goal: plans that are read change no bit of the logits, and no text in a plan file makes a session
// do harm: it is refused with a line, or runs.
// Method: memcmp of logits between sessions that make their plans and sessions that read them, also
// those made for other thread counts, and with other ranks; then numbers of a good plan file
// changed from a printed seed.
#include "engine/rank_jobs.h"
#include "gen.h"

#include <unistd.h>

#define PROMPT 40
#define ANSWER 4
#define ROUNDS 400

static const char *const MODELS[] = {"smollm-q4_1", "kmix-k", "qwen3moe-wide-q4_k", "gemma3-bf16"};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

static const ps_session_options OPTIONS = {.context_tokens = 96, .batch_rows = 70};

// The plans of OPTIONS as text. Free with ps_free.
static char *make_plans_for(const char *name, uint32_t threads, uint32_t ranks)
{
    char path[512];
    char *text = NULL;
    size_t length = 0;
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR, name);
    const ps_plan_options options = {.rows = OPTIONS.batch_rows,
                                     .context_tokens = OPTIONS.context_tokens,
                                     .threads = threads,
                                     .ranks = ranks,
                                     .link = ranks > 1 ? "latency=100us" : NULL};
    expect_ok(ps_plan_file(path, &options, PS_PLAN_SESSION, &text, &length));
    assert_int_equal(length, strlen(text));
    return text;
}

static char *make_plans(const char *name, uint32_t threads)
{
    return make_plans_for(name, threads, 1);
}

static void write_text(char path[64], const char *text)
{
    (void)snprintf(path, 64, "/tmp/prestage-test-XXXXXX");
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(strlen(text), write(descriptor, text, strlen(text)));
    (void)close(descriptor);
}

// Opens a session whose plans are `text`, NULL: made.
static ps_status open_session(ps_model *model, const char *text, ps_session **out)
{
    char path[64];
    ps_session_options options = OPTIONS;
    if (text == NULL) {
        return ps_session_create(model, &options, out);
    }
    write_text(path, text);
    options.plan_file = path;
    const ps_status status = ps_session_create(model, &options, out);
    assert_int_equal(0, unlink(path));
    return status;
}

// Logits of ANSWER tokens behind a prompt that takes two steps, [ANSWER][vocabulary].
static float *logits_of(ps_model *model, ps_session *session)
{
    const uint32_t vocabulary = vocabulary_of(model);
    float *logits = calloc((size_t)ANSWER * vocabulary, sizeof *logits);
    int32_t tokens[PROMPT + ANSWER];
    ps_sequence sequence;
    assert_non_null(logits);
    make_prompt(tokens, PROMPT + ANSWER, 3);
    expect_ok(ps_sequence_open(session, &sequence));
    expect_ok(ps_session_prefill(session, sequence, tokens, PROMPT, NULL));
    for (uint32_t i = 0; i < ANSWER; i++) {
        step_one(session, sequence, tokens[PROMPT + i], logits + (size_t)i * vocabulary,
                 vocabulary);
    }
    return logits;
}

// ---- with other ranks

typedef struct ranks_work {
    char *path;    // of a plan file; NULL: plans are made
    float *logits; // [ANSWER][vocabulary], shared
} ranks_work;

static void answer_of_ranks(ps_model *model, void *context)
{
    const ranks_work *work = context;
    ps_session_options options = OPTIONS;
    ps_session *session = NULL;
    options.plan_file = "/nowhere"; // no session, and the ranks go on
    if (ps_session_create(model, &options, &session) != PS_NOT_FOUND) {
        _exit(1);
    }
    options.plan_file = work->path;
    must(ps_session_create(model, &options, &session));
    int32_t tokens[PROMPT + ANSWER];
    ps_sequence sequence;
    make_prompt(tokens, PROMPT + ANSWER, 3);
    must(ps_sequence_open(session, &sequence));
    must(ps_session_prefill(session, sequence, tokens, PROMPT, NULL));
    for (uint32_t i = 0; i < ANSWER; i++) {
        const ps_row row = {sequence, tokens[PROMPT + i], true};
        must(ps_session_step(session, &row, 1));
        memcpy(work->logits + (size_t)i * vocabulary_of(model), ps_session_logits(session, 0),
               vocabulary_of(model) * sizeof(float));
    }
    ps_session_destroy(session);
}

static void test_same_bits_with_ranks(void **state)
{
    (void)state;
    char path[512];
    char plans[64];
    golden_path("smollm-q8_0", path);
    ps_model *model = open_golden("smollm-q8_0", 1);
    const size_t count = (size_t)ANSWER * vocabulary_of(model);
    ps_model_close(model);
    for (uint32_t ranks = 2; ranks <= 3; ranks++) { // three have uneven parts
        const rank_job job = {.path = path, .ranks = ranks, .threads = 1};
        ranks_work made = {.logits = shared_floats(count)};
        ranks_work read = {.path = plans, .logits = shared_floats(count)};
        char *text = make_plans_for("smollm-q8_0", 1, ranks);
        assert_non_null(strstr(text, "\nprefetch "));
        write_text(plans, text);
        rank_job_run(&job, answer_of_ranks, &made);
        rank_job_run(&job, answer_of_ranks, &read);
        assert_memory_equal(made.logits, read.logits, count * sizeof(float));
        assert_int_equal(0, unlink(plans));
        free_shared(made.logits, count);
        free_shared(read.logits, count);
        ps_free(text);
    }
}

// ---- of one rank

// The plans of the file say that they are for `from` threads; now they say `to`.
static void rewrite_threads(char *text, uint32_t from, uint32_t to)
{
    char line[32];
    (void)snprintf(line, sizeof line, " threads=%u\n", from);
    char *at = strstr(text, line);
    assert_non_null(at);
    at[strlen(" threads=")] = (char)('0' + to);
}

static void test_same_bits_from_read_plans(void **state)
{
    const char *name = *state;
    ps_model *model = open_golden(name, 2);
    const uint32_t vocabulary = vocabulary_of(model);
    ps_session *session = NULL;
    expect_ok(open_session(model, NULL, &session));
    float *wanted = logits_of(model, session);
    ps_session_destroy(session);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        char *text = make_plans(name, threads);
        if (threads != 2) {
            expect_failure(PS_INVALID, "number of threads is", open_session(model, text, &session));
            rewrite_threads(text, threads, 2);
        }
        expect_ok(open_session(model, text, &session));
        float *got = logits_of(model, session);
        assert_memory_equal(wanted, got, (size_t)ANSWER * vocabulary * sizeof *wanted);
        ps_session_destroy(session);
        ps_free(text);
        free(got);
    }
    ps_model_close(model);
    free(wanted);
}

// Puts another number, perhaps of more digits, in the place of one behind the head.
static char *change_number(ps_gen *gen, const char *text)
{
    static const char *const NUMBERS[] = {
        "0", "1", "7", "8", "64", "96", "128", "65535", "4294967295", "18446744073709551615"};
    const char *body = strstr(text, "\nplan ");
    const char *number = NUMBERS[ps_gen_range(gen, 0, 9)];
    const char *at = body + ps_gen_range(gen, 0, (int64_t)strlen(body) - 2);
    at += strcspn(at, "0123456789");
    const size_t bytes = strlen(text) + strlen(number) + 1;
    char *changed = malloc(bytes);
    assert_non_null(changed);
    (void)snprintf(changed, bytes, "%.*s%s%s", (int)(at - text), text, number,
                   at + strspn(at, "0123456789"));
    return changed;
}

static void test_changed_plans_do_no_harm(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    uint32_t accepted = 0;
    ps_model *model = open_golden("gemma3-q8_0", 2);
    char *text = make_plans("gemma3-q8_0", 2);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        char *changed = change_number(&gen, text);
        ps_session *session = NULL;
        const ps_status status = open_session(model, changed, &session);
        if (status == PS_OK) {
            ps_sequence sequence;
            int32_t tokens[PROMPT];
            make_prompt(tokens, PROMPT, round);
            expect_ok(ps_sequence_open(session, &sequence));
            // It may compute nonsense, NaN as well.
            (void)!ps_session_prefill(session, sequence, tokens, PROMPT, NULL);
            accepted++;
        } else {
            assert_true(session == NULL && ps_error_message()[0] != '\0');
        }
        ps_session_destroy(session);
        free(changed);
    }
    print_message("%u of %d accepted\n", accepted, ROUNDS);
    assert_true(accepted > 0 && accepted < ROUNDS);
    ps_free(text);
    ps_model_close(model);
}

int main(void)
{
    struct CMUnitTest tests[MODEL_COUNT + 2];
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        tests[i] = (struct CMUnitTest){.name = MODELS[i],
                                       .test_func = test_same_bits_from_read_plans,
                                       .initial_state = (void *)(uintptr_t)MODELS[i]};
    }
    tests[MODEL_COUNT] = (struct CMUnitTest)cmocka_unit_test(test_changed_plans_do_no_harm);
    tests[MODEL_COUNT + 1] = (struct CMUnitTest)cmocka_unit_test(test_same_bits_with_ranks);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
