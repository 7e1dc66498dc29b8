// ctest-labels: unit;fault
// ctest-timeout: 120
// Goal: the interface of ranks takes what it should, refuses the rest with one line, and leaves the
// process as it was. Method: options out of range, calls of the wrong rank, more sessions than
// there can be, sessions side by side, models opened again.
#include "engine/rank_jobs.h"
// it includes what cmocka wants first
#include "engine/ranks.h"
#include "hw/machine.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>

#define MODEL "smollm-q8_0"
#define STEPS 12
#define SESSIONS 64 // of ranks, at once

static void expect_options(const ps_ranks_options *options, const char *says)
{
    ps_ranks *ranks = NULL;
    expect_failure(PS_INVALID, says, ps_ranks_start(options, &ranks));
    assert_null(ranks);
}

static void test_options(void **state)
{
    (void)state;
    static const double TIMES[] = {-1, 86401, INFINITY, NAN};
    static const uint32_t SIZES[] = {0, 65, UINT32_MAX};
    for (size_t i = 0; i < sizeof TIMES / sizeof TIMES[0]; i++) {
        expect_options(
            &(ps_ranks_options){.launch = PS_RANKS_SIMULATED, .size = 2, .timeout_s = TIMES[i]},
            "0 (the default) to 86400");
    }
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        expect_options(&(ps_ranks_options){.launch = PS_RANKS_SIMULATED, .size = SIZES[i]},
                       "1 to 64");
        expect_options(&(ps_ranks_options){.launch = PS_RANKS_FORK, .size = SIZES[i]}, "1 to 64");
    }
    expect_options(&(ps_ranks_options){.launch = (ps_ranks_launch)9, .size = 2}, "launch 9");
    expect_options(&(ps_ranks_options){.launch = PS_RANKS_FORK, .size = 2, .link = "latency=2"},
                   "latency=40us");
}

static void test_no_ranks(void **state)
{
    (void)state;
    assert_int_equal(0, ps_ranks_rank(NULL));
    assert_int_equal(1, ps_ranks_size(NULL));
    assert_true(ps_ranks_speaks(NULL));
    expect_ok(ps_ranks_stop(NULL));
}

static void test_rank_0_does_not_follow(void **state)
{
    (void)state;
    ps_ranks *ranks = NULL;
    expect_ok(ps_ranks_start(&(ps_ranks_options){.launch = PS_RANKS_SIMULATED, .size = 2}, &ranks));
    assert_int_equal(0, ps_ranks_rank(ranks));
    assert_int_equal(2, ps_ranks_size(ranks));
    expect_failure(PS_INVALID, "rank 0 leads", ps_ranks_follow(ranks, "x", NULL));
    expect_ok(ps_ranks_stop(ranks));
}

static void *wait_for(void *lock)
{
    (void)pthread_mutex_lock(lock);
    (void)pthread_mutex_unlock(lock);
    return NULL;
}

// A child of a process with threads has none of them, and perhaps their locks.
static void test_no_fork_with_threads(void **state)
{
    (void)state;
    pthread_t thread;
    ps_ranks *ranks = NULL;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    assert_int_equal(0, pthread_mutex_lock(&lock));
    assert_int_equal(0, pthread_create(&thread, NULL, wait_for, &lock));
    expect_failure(PS_INTERNAL, "thread",
                   ps_ranks_start(&(ps_ranks_options){.launch = PS_RANKS_FORK, .size = 2}, &ranks));
    assert_int_equal(0, pthread_mutex_unlock(&lock));
    assert_int_equal(0, pthread_join(thread, NULL));
}

// ---- in jobs: what is wrong ends the job

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,               \
                          ps_error_message());                                                     \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static ps_session *session_of(ps_model *model, uint32_t context)
{
    ps_session *session = NULL;
    must(ps_session_create(
        model, &(ps_session_options){.context_tokens = context, .batch_rows = 16}, &session));
    return session;
}

static float first_logit(ps_session *session, ps_sequence sequence, int32_t token)
{
    const ps_row row = {sequence, token, true};
    must(ps_session_step(session, &row, 1));
    return ps_session_logits(session, 0)[0];
}

// Two sessions of different sizes, step by step in turn, give what each gives alone.
static void step_side_by_side(ps_model *model, void *context)
{
    float alone[2][STEPS];
    ps_session *sessions[2];
    ps_sequence sequences[2];
    (void)context;
    for (uint32_t i = 0; i < 2; i++) {
        ps_session *session = session_of(model, 32 << i);
        must(ps_sequence_open(session, &sequences[i]));
        for (int32_t t = 0; t < STEPS; t++) {
            alone[i][t] = first_logit(session, sequences[i], t * 5 + (int32_t)i);
        }
        ps_session_destroy(session);
    }
    for (uint32_t i = 0; i < 2; i++) {
        sessions[i] = session_of(model, 32 << i);
        must(ps_sequence_open(sessions[i], &sequences[i]));
    }
    for (int32_t t = 0; t < STEPS; t++) {
        for (uint32_t i = 0; i < 2; i++) {
            require(first_logit(sessions[i], sequences[i], t * 5 + (int32_t)i) == alone[i][t]);
        }
    }
    ps_session_destroy(sessions[0]);
    require(first_logit(sessions[1], sequences[1], 3) != 0); // the other one goes on
    ps_session_destroy(sessions[1]);
}

static void test_sessions_side_by_side(void **state)
{
    char path[512];
    (void)state;
    golden_path(MODEL, path);
    rank_job_run(&(rank_job){.path = path, .ranks = 2, .threads = 1}, step_side_by_side, NULL);
}

static void make_too_many(ps_model *model, void *context)
{
    ps_session *sessions[SESSIONS];
    ps_session *one_more = NULL;
    ps_session_options bad = {.plan_file = "/nonexistent"};
    (void)context;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        sessions[i] = session_of(model, 8);
    }
    require(ps_session_create(model, NULL, &one_more) == PS_EXHAUSTED);
    ps_session_destroy(sessions[5]);
    require(ps_session_create(model, &bad, &one_more) == PS_NOT_FOUND); // on all ranks
    char name[5000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    bad.plan_file = name;
    require(ps_session_create(model, &bad, &one_more) == PS_INVALID); // before others hear of it
    bad = (ps_session_options){.context_tokens = UINT32_MAX};
    require(ps_session_create(model, &bad, &one_more) == PS_INVALID);
    sessions[5] = session_of(model, 8);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        ps_session_destroy(sessions[i]);
    }
}

static void test_more_sessions_than_there_can_be(void **state)
{
    char path[512];
    (void)state;
    golden_path(MODEL, path);
    rank_job_run(&(rank_job){.path = path, .ranks = 2, .threads = 1}, make_too_many, NULL);
}

// A bad step is refused before other ranks hear of it, and the next good one runs.
static void make_bad_steps(ps_model *model, void *context)
{
    ps_sequence sequence;
    ps_session *session = session_of(model, 8);
    (void)context;
    must(ps_sequence_open(session, &sequence));
    require(ps_session_step(session, &(ps_row){sequence, -1, true}, 1) == PS_INVALID);
    require(ps_session_step(session, &(ps_row){sequence + 1, 1, true}, 1) == PS_INVALID);
    for (int32_t t = 0; t < 8; t++) {
        (void)first_logit(session, sequence, t);
    }
    require(ps_session_step(session, &(ps_row){sequence, 1, true}, 1) == PS_EXHAUSTED);
    must(ps_sequence_truncate(session, sequence, 4));
    (void)first_logit(session, sequence, 1);
    ps_session_destroy(session);
}

static void test_bad_steps(void **state)
{
    char path[512];
    (void)state;
    golden_path(MODEL, path);
    rank_job_run(&(rank_job){.path = path, .ranks = 3, .threads = 1}, make_bad_steps, NULL);
}

// ---- the process

// Opens a model with ranks, more than once, and without; then all CPUs are there again.
static int open_again(void *context)
{
    const char *path = context;
    const uint32_t cpus = ps_machine_affinity_count();
    ps_ranks *ranks = NULL;
    ps_model *model = NULL;
    for (int round = 0; round < 2; round++) {
        const ps_ranks_options options = {
            .launch = PS_RANKS_FORK, .size = 2, .timeout_s = RANK_TIMEOUT_S};
        must(ps_ranks_start(&options, &ranks));
        if (ps_ranks_rank(ranks) > 0) {
            must(ps_ranks_follow(ranks, path, NULL));
            must(ps_ranks_stop(ranks));
            _exit(0);
        }
        for (int i = 0; i < 2; i++) {
            must(ps_model_open(path, &(ps_model_options){.threads = 1, .ranks = ranks}, &model));
            step_side_by_side(model, NULL);
            ps_model_close(model);
        }
        must(ps_ranks_stop(ranks));
        require(ps_machine_affinity_count() == cpus);
    }
    return 0;
}

static void test_models_and_ranks_again(void **state)
{
    char path[512];
    (void)state;
    golden_path(MODEL, path);
    run_in_child(open_again, path);
}

// Rank 1 is ended by a signal while rank 0 steps. From then on everything is PS_LOST, at once, and
// what is there can be closed.
static int lose_a_rank(void *context)
{
    const char *path = context;
    ps_ranks *ranks = NULL;
    ps_model *model = NULL;
    ps_session *session = NULL;
    ps_session *other = NULL;
    ps_sequence sequence;
    must(ps_ranks_start(&(ps_ranks_options){.launch = PS_RANKS_FORK, .size = 2}, &ranks));
    if (ps_ranks_rank(ranks) > 0) {
        (void)alarm(4); // the model is open by then
        _exit(ps_ranks_follow(ranks, path, NULL) == PS_OK ? 0 : 1);
    }
    must(ps_model_open(path, &(ps_model_options){.threads = 2, .ranks = ranks}, &model));
    session = session_of(model, 1024);
    must(ps_sequence_open(session, &sequence));
    const ps_row row = {sequence, 1, true};
    ps_status status = PS_OK;
    while (status == PS_OK) {
        if (ps_sequence_length(session, sequence) == 1024) {
            must(ps_sequence_truncate(session, sequence, 0));
        }
        status = ps_session_step(session, &row, 1);
    }
    require(status == PS_LOST && strstr(ps_error_message(), "rank 1") != NULL);
    require(ps_ranks_speaks(ranks));
    require(ps_session_step(session, &row, 1) == PS_LOST);
    require(ps_session_create(model, NULL, &other) == PS_LOST);
    ps_session_destroy(session);
    ps_model_close(model);
    require(ps_ranks_stop(ranks) == PS_LOST);
    return 0;
}

static void test_a_lost_rank(void **state)
{
    char path[512];
    (void)state;
    golden_path(MODEL, path);
    run_in_child(lose_a_rank, path);
}

// Rank 1 is stopped where rank 0 waits for it without a timeout, as while models are loaded.
static int wait_for_a_stopped_rank(void *context)
{
    (void)context;
    ps_ranks *ranks = NULL;
    const ps_ranks_options options = {.launch = PS_RANKS_FORK, .size = 2, .timeout_s = 2};
    must(ps_ranks_start(&options, &ranks));
    if (ps_ranks_rank(ranks) > 0) {
        (void)raise(SIGSTOP);
        _exit(0);
    }
    require(ps_ranks_agree(ranks, PS_OK) == PS_LOST);
    require(strstr(ps_error_message(), "rank 1 (process ") != NULL);
    require(strstr(ps_error_message(), ") is stopped") != NULL);
    require(ps_ranks_speaks(ranks));
    require(ps_ranks_stop(ranks) == PS_LOST);
    return 0;
}

// Rank 1 takes its time, and is waited for.
static int wait_for_a_late_rank(void *context)
{
    (void)context;
    ps_ranks *ranks = NULL;
    const ps_ranks_options options = {.launch = PS_RANKS_FORK, .size = 2, .timeout_s = 2};
    must(ps_ranks_start(&options, &ranks));
    if (ps_ranks_rank(ranks) > 0) {
        (void)usleep(2500000); // later than any timeout, but alive
    }
    must(ps_ranks_agree(ranks, PS_OK));
    must(ps_ranks_stop(ranks));
    return 0;
}

static void test_stopped_and_late_ranks(void **state)
{
    (void)state;
    run_in_child(wait_for_a_stopped_rank, NULL);
    run_in_child(wait_for_a_late_rank, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_no_ranks),
        cmocka_unit_test(test_rank_0_does_not_follow),
        cmocka_unit_test(test_no_fork_with_threads),
        cmocka_unit_test(test_sessions_side_by_side),
        cmocka_unit_test(test_more_sessions_than_there_can_be),
        cmocka_unit_test(test_bad_steps),
        cmocka_unit_test(test_models_and_ranks_again),
        cmocka_unit_test(test_a_lost_rank),
        cmocka_unit_test(test_stopped_and_late_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
