// ctest-labels: fault
// ctest-timeout: 300
// ctest-links: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
// ctest-links: -Wl,--wrap=mmap,--wrap=pthread_create,--wrap=qsort
// ctest-links: -Wl,--wrap=ps_machine_available_bytes
// Goal: memory or threads that cannot be had end opening and running a model with one line and
// without a leak, and once a session is open its steps allocate nothing. Method: everything with
// the n-th call failing, n = 0, 1, ... until none does; then calls counted. Leaks show under the
// address sanitizer. Allocations inside shared libraries are not reached; qsort's is counted by the
// call, for glibc takes memory for what is above 1 KiB.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/compile.h"
#include "engine/rank_jobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_long calls_left = -1; // until one fails; negative: none does
static atomic_long calls;

static bool fails(void)
{
    atomic_fetch_add(&calls, 1);
    return atomic_load(&calls_left) >= 0 && atomic_fetch_sub(&calls_left, 1) == 0;
}

// The linker sends the calls of prestage and of this file here; the names are its convention.
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);
void __real_qsort(void *base, size_t count, size_t size,
                  int (*compare)(const void *, const void *));
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument);

void __wrap_qsort(void *base, size_t count, size_t size,
                  int (*compare)(const void *, const void *));

void __wrap_qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    atomic_fetch_add(&calls, 1);
    __real_qsort(base, count, size, compare);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (fails()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(address, size, protection, flags, file, offset);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument)
{
    return fails() ? EAGAIN : __real_pthread_create(thread, attributes, function, argument);
}

static uint64_t free_bytes;   // what the machine says; 0: the truth
static int looks_until_short; // the look that finds little, and only this one; 0: none does
uint64_t __real_ps_machine_available_bytes(void);
uint64_t __wrap_ps_machine_available_bytes(void);

uint64_t __wrap_ps_machine_available_bytes(void)
{
    if (looks_until_short > 0 && --looks_until_short == 0) {
        return 10000;
    }
    return free_bytes > 0 ? free_bytes : __real_ps_machine_available_bytes();
}

static const int32_t PROMPT[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4};
#define PROMPT_TOKENS (sizeof PROMPT / sizeof PROMPT[0])

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const ps_status try_ = (call);                                                             \
        if (try_ != PS_OK) {                                                                       \
            return try_;                                                                           \
        }                                                                                          \
    } while (0)

static ps_status answer(ps_session *session, ps_sampler *sampler, int32_t *out)
{
    ps_sequence sequence, fork;
    TRY(ps_sequence_open(session, &sequence));
    TRY(ps_session_prefill(session, sequence, PROMPT, PROMPT_TOKENS, NULL));
    TRY(ps_sequence_fork(session, sequence, &fork));
    TRY(ps_session_step(session, &(ps_row){fork, 7, true}, 1));
    return ps_sampler_pick(sampler, ps_session_logits(session, 0), out);
}

static const char *plan_file; // of sessions, and into compiled files; NULL: none

static ps_status use(ps_model *model, int32_t *out)
{
    ps_session *session = NULL;
    ps_sampler *sampler = NULL;
    const ps_sampler_options options = ps_sampler_defaults();
    const ps_session_options small = {
        .context_tokens = 64, .sequences = 2, .batch_rows = 16, .plan_file = plan_file};
    ps_status status = ps_session_create(model, &small, &session);
    if (status == PS_OK) {
        status = ps_sampler_create(model, &options, &sampler);
    }
    if (status == PS_OK) {
        status = answer(session, sampler, out);
    }
    ps_sampler_destroy(sampler);
    ps_session_destroy(session);
    return status;
}

// All of it with the n-th call failing; *out_failed: there were so many. name: of a fixture, or the
// path of a compiled file.
static ps_status attempt(const char *name, long n, int32_t *out_token, bool *out_failed)
{
    char path[512];
    ps_model *model = NULL;
    if (name[0] == '/') {
        (void)snprintf(path, sizeof path, "%s", name);
    } else {
        (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR, name);
    }
    atomic_store(&calls_left, n);
    ps_status status = ps_model_open(path, &(ps_model_options){.threads = 2}, &model);
    if (status == PS_OK) {
        status = use(model, out_token);
        ps_model_close(model);
    } else {
        assert_null(model);
    }
    *out_failed = n >= 0 && atomic_load(&calls_left) < 0;
    atomic_store(&calls_left, -1);
    return status;
}

static void test_every_failure_is_reported(void **state)
{
    const char *name = *state;
    int32_t expected = -1;
    bool failed = false;
    expect_ok(attempt(name, -1, &expected, &failed));
    long n = 0;
    for (failed = true; failed; n++) {
        int32_t token = -1;
        const ps_status status = attempt(name, n, &token, &failed);
        if (status == PS_OK) { // none failed, or one that costs no more than speed
            assert_int_equal(expected, token);
        } else if (status == PS_NO_MEMORY || status == PS_EXHAUSTED || status == PS_IO) {
            assert_int_equal(-1, token);
            assert_null(strchr(ps_error_message(), '\n'));
            assert_true(strlen(ps_error_message()) > 0);
        } else {
            fail_msg("call %ld: status %d: %s", n, (int)status, ps_error_message());
        }
    }
    printf("  %s: %ld calls\n", name, n - 1);
    assert_true(n > 25);
}

// Compiling with the n-th call failing leaves no file; what it makes in the end is opened likewise.
static void test_compiled_files(void **state)
{
    char folder[] = "/tmp/prestage-test-XXXXXX";
    char path[64];
    ps_model *model = open_golden(*state, 1);
    ps_status status = PS_NO_MEMORY;
    long n = 0;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/a.pst", folder);
    for (; status != PS_OK; n++) {
        ps_compile_result result;
        assert_int_equal(-1, access(path, F_OK));
        atomic_store(&calls_left, n);
        status = ps_model_compile(model, path, &(ps_compile_options){.plan_file = plan_file},
                                  &result);
        atomic_store(&calls_left, -1);
        assert_true(status == PS_OK || status == PS_NO_MEMORY || status == PS_EXHAUSTED ||
                    (status == PS_IO && plan_file != NULL)); // which is mapped
    }
    assert_true(n > 3);
    ps_model_close(model);
    plan_file = NULL; // those inside
    void *compiled = path;
    test_every_failure_is_reported(&compiled);
    assert_int_equal(0, unlink(path));
    assert_int_equal(0, rmdir(folder));
}

// Plans that are read, from a file and from inside a compiled one. What cannot be read of the
// latter is made.
static void test_plan_files(void **state)
{
    char path[512];
    char plans[] = "/tmp/prestage-test-XXXXXX";
    char *text = NULL;
    size_t length = 0;
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR,
                   (const char *)*state);
    const ps_plan_options options = {.rows = 16, .context_tokens = 64, .threads = 2};
    expect_ok(ps_plan_file(path, &options, PS_PLAN_SESSION, &text, &length));
    const int descriptor = mkstemp(plans);
    assert_true(descriptor >= 0);
    assert_int_equal(length, write(descriptor, text, length));
    (void)close(descriptor);
    ps_free(text);

    plan_file = plans;
    test_every_failure_is_reported(state);
    test_compiled_files(state);
    plan_file = NULL;
    assert_int_equal(0, unlink(plans));
}

static void test_printing_plans(void **state)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR,
                   (const char *)*state);
    static const ps_plan_format FORMATS[] = {PS_PLAN_TEXT, PS_PLAN_JSON, PS_PLAN_DOT,
                                             PS_PLAN_SESSION};
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++) {
        long n = 0;
        ps_status status = PS_NO_MEMORY;
        for (; status != PS_OK; n++) {
            char *text = NULL;
            size_t length = 0;
            atomic_store(&calls_left, n);
            status = ps_plan_file(path, &(ps_plan_options){.threads = 2}, FORMATS[i], &text,
                                  &length);
            atomic_store(&calls_left, -1);
            if (status != PS_OK) {
                assert_true(status == PS_NO_MEMORY || status == PS_EXHAUSTED || status == PS_IO);
                assert_true(strlen(ps_error_message()) > 0);
                assert_null(text);
            } else {
                assert_int_equal(length, strlen(text));
            }
            ps_free(text);
        }
        assert_true(n > 5);
    }
}

// A sampler that sorts all tokens and looks back far, so that it would want room if it ever did.
static void test_steps_allocate_nothing(void **state)
{
    ps_model *model = open_golden(*state, 2);
    ps_session *session = NULL;
    ps_sampler *sampler = NULL;
    ps_sampler_options options = ps_sampler_defaults();
    options.top_k = 0;
    options.top_p = 1;
    options.min_p = 0;
    options.repeat_penalty = 1.1f;
    options.penalty_last = 4096;
    const ps_session_options small = {.context_tokens = 300, .sequences = 2, .batch_rows = 100};
    expect_ok(ps_session_create(model, &small, &session));
    expect_ok(ps_sampler_create(model, &options, &sampler));
    const long before = atomic_load(&calls);
    int32_t tokens[250];
    make_prompt(tokens, 250, 1);
    ps_sequence sequence, fork;
    expect_ok(ps_sequence_open(session, &sequence));
    expect_ok(ps_session_prefill(session, sequence, tokens, 250, NULL));
    for (int i = 0; i < 250; i++) {
        ps_sampler_accept(sampler, tokens[i]);
    }
    expect_ok(ps_sequence_fork(session, sequence, &fork));
    for (int i = 0; i < 40; i++) {
        expect_ok(ps_session_step(session, &(ps_row){fork, i, true}, 1));
        expect_ok(ps_sampler_pick(sampler, ps_session_logits(session, 0), tokens));
    }
    ps_sequence_close(session, fork);
    assert_int_equal(before, atomic_load(&calls));
    ps_sampler_destroy(sampler);
    ps_session_destroy(session);
    ps_model_close(model);
}

// Taking it would not fail, but end the process once it is touched.
static void test_weights_larger_than_memory(void **state)
{
    ps_model *model = NULL;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR,
                   (const char *)*state);
    free_bytes = 10000;
    expect_failure(PS_NO_MEMORY, "free", ps_model_open(path, NULL, &model));
    free_bytes = 0;
    assert_null(model);
    expect_ok(ps_model_open(path, NULL, &model));
    ps_session *session = NULL;
    free_bytes = 10000;
    expect_failure(PS_NO_MEMORY, "the workspaces take", ps_session_create(model, NULL, &session));
    free_bytes = 0;
    assert_null(session);
    ps_model_close(model);
}

// The slices of a compiled file that a rank copies are counted, the rest of it is not.
static void test_copies_larger_than_memory(void **state)
{
    char path[] = "/tmp/prestage-test-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    (void)close(descriptor);
    ps_model *model = open_golden(*state, 1);
    ps_compile_result result;
    expect_ok(ps_model_compile(model, path, &(ps_compile_options){.replace = true}, &result));
    ps_model_close(model);
    free_bytes = 10000;
    model = NULL;
    expect_ok(ps_model_open(path, NULL, &model));
    ps_model_close(model);
    ps_ranks *ranks = NULL;
    expect_ok(ps_ranks_start(&(ps_ranks_options){.launch = PS_RANKS_SIMULATED, .size = 3}, &ranks));
    model = NULL;
    expect_failure(PS_NO_MEMORY, "copied slices take",
                   ps_model_open(path, &(ps_model_options){.ranks = ranks}, &model));
    assert_null(model);
    free_bytes = 0;
    expect_ok(ps_model_open(path, &(ps_model_options){.ranks = ranks}, &model));
    ps_model_close(model);
    expect_ok(ps_ranks_stop(ranks));
    assert_int_equal(0, unlink(path));
}

// Rank 1 finds no memory for the first session. No rank has it then, the next one is had, and who
// ends without one is told by rank 1 why.
static int lack_memory_alone(const char *path, bool goes_on)
{
    ps_ranks *ranks = NULL;
    ps_model *model = NULL;
    ps_session *session = NULL;
    const ps_ranks_options options = {.launch = PS_RANKS_FORK, .size = 2, .timeout_s = 60};
    must(ps_ranks_start(&options, &ranks));
    if (ps_ranks_rank(ranks) > 0) {
        looks_until_short = 2; // the first is for the weights
        const ps_status status = ps_ranks_follow(ranks, path, NULL);
        const bool is_told = goes_on
                                 ? status == PS_OK
                                 : status == PS_NO_MEMORY && ps_ranks_speaks(ranks) &&
                                       strstr(ps_error_message(), "the workspaces take") != NULL;
        must(ps_ranks_stop(ranks));
        _exit(is_told ? 0 : 1);
    }
    must(ps_model_open(path, &(ps_model_options){.threads = 1, .ranks = ranks}, &model));
    const ps_session_options small = {.context_tokens = 64, .batch_rows = 16};
    bool is_right = ps_session_create(model, &small, &session) == PS_NO_MEMORY &&
                    strstr(ps_error_message(), "rank 1 could not go on") != NULL &&
                    !ps_ranks_speaks(ranks);
    if (goes_on) {
        ps_sequence sequence;
        must(ps_session_create(model, &small, &session));
        must(ps_sequence_open(session, &sequence));
        must(ps_session_step(session, &(ps_row){sequence, 1, true}, 1));
        is_right = is_right && ps_ranks_speaks(ranks);
        ps_session_destroy(session);
    }
    ps_model_close(model);
    must(ps_ranks_stop(ranks)); // PS_LOST when rank 1 found something else
    return is_right ? 0 : 1;
}

static int lack_memory_and_end(void *path)
{
    return lack_memory_alone(path, false);
}

static int lack_memory_and_go_on(void *path)
{
    return lack_memory_alone(path, true);
}

static void test_a_rank_without_memory(void **state)
{
    char path[512];
    golden_path(*state, path);
    run_in_child(lack_memory_and_end, path);
    run_in_child(lack_memory_and_go_on, path);
}

int main(void)
{
    static char dense[] = "qwen2-q8_0";
    static char experts[] = "qwen3moe-q8_0";
    static char windows[] = "gemma3-q8_0";
    static char cut[] = "smollm-q8_0";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_every_failure_is_reported, dense),
        cmocka_unit_test_prestate(test_every_failure_is_reported, experts),
        cmocka_unit_test_prestate(test_compiled_files, experts),
        cmocka_unit_test_prestate(test_plan_files, dense),
        cmocka_unit_test_prestate(test_printing_plans, experts),
        cmocka_unit_test_prestate(test_weights_larger_than_memory, dense),
        cmocka_unit_test_prestate(test_copies_larger_than_memory, cut),
        cmocka_unit_test_prestate(test_a_rank_without_memory, cut),
        cmocka_unit_test_prestate(test_steps_allocate_nothing, dense),
        cmocka_unit_test_prestate(test_steps_allocate_nothing, experts),
        cmocka_unit_test_prestate(test_steps_allocate_nothing, windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
