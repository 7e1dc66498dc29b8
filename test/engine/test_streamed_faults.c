// ctest-labels: fault
// ctest-timeout: 300
// Goal: what happens to the disk or to the file while a model streams its experts ends a step with
// a message that names expert, file and place, and the session goes on with the right bits, or with
// that message again; nothing hangs, and nothing is computed from other bytes. Several sessions
// share what one memory limit gives. Method: a filter between the reader and the system, and files
// that are cut, overwritten and replaced behind an open session; logits against a model in memory.
#include "engine/compile.h"
#include "engine/engine_test.h"
#include "engine/made_shapes.h"
#include "engine/model_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define PROMPT 40
#define TOKENS 60

static const shape SHAPE = {4, 2, 24, 96, 300, 64, 3, MADE_Q8_0, 0, 128, "qwen3moe", 0};

typedef struct faults {
    _Atomic uint32_t answers;
    _Atomic bool fails; // always
    bool fails_first;   // each first try of a place
    _Atomic uint8_t tries[4096];
    uint32_t shortens_every, sleeps_every;
} faults;

static int64_t filter(void *context, uint32_t file, uint64_t offset_bytes, int64_t answer)
{
    faults *f = context;
    (void)file;
    const uint32_t nth = atomic_fetch_add(&f->answers, 1);
    if (f->fails ||
        (f->fails_first && atomic_fetch_add(&f->tries[offset_bytes / 4096 % 4096], 1) % 2 == 0)) {
        return -EIO;
    }
    if (f->sleeps_every > 0 && nth % f->sleeps_every == 0) {
        (void)usleep(2000);
    }
    return f->shortens_every > 0 && nth % f->shortens_every == 0 && answer > 4096 ? 4096 : answer;
}

// A made model as a GGUF file and compiled, and what it answers: logits of tokens PROMPT to TOKENS.
typedef struct fixture {
    char gguf[64], pst[64];
    uint64_t least_bytes; // for experts
    uint32_t vocabulary;
    int32_t tokens[TOKENS];
    float *right;
} fixture;

static ps_model *open_model(const char *path, uint64_t expert_bytes, faults *f)
{
    ps_model *model = NULL;
    expect_ok(ps_model_open(path, &(ps_model_options){.threads = 2, .expert_bytes = expert_bytes},
                            &model));
    if (f != NULL) {
        model->reader = (ps_reader_options){.filter = filter, .filter_context = f};
    }
    return model;
}

static ps_session *create(ps_model *model)
{
    ps_session *session = NULL;
    expect_ok(ps_session_create(
        model, &(ps_session_options){.context_tokens = 128, .sequences = 2, .batch_rows = 64},
        &session));
    return session;
}

// Token i, and whether its logits are right.
static void step(const fixture *f, ps_session *session, ps_sequence sequence, uint32_t i)
{
    const ps_row row = {.sequence = sequence, .token = f->tokens[i], .wants_logits = true};
    expect_ok(ps_session_step(session, &row, 1));
    if (f->right != NULL) {
        assert_memory_equal(f->right + (size_t)(i - PROMPT) * f->vocabulary,
                            ps_session_logits(session, 0), f->vocabulary * sizeof(float));
    }
}

static ps_sequence read_prompt(const fixture *f, ps_session *session)
{
    ps_sequence sequence;
    expect_ok(ps_sequence_open(session, &sequence));
    expect_ok(ps_session_prefill(session, sequence, f->tokens, PROMPT, NULL));
    return sequence;
}

static void check_session(const fixture *f, ps_session *session)
{
    const ps_sequence sequence = read_prompt(f, session);
    for (uint32_t i = PROMPT; i < TOKENS; i++) {
        step(f, session, sequence, i);
    }
    ps_sequence_close(session, sequence);
}

static void compile(const char *from, char to[64])
{
    ps_model *model = open_model(from, 0, NULL);
    ps_compile_result result;
    write_temporary("", 0, to);
    expect_ok(ps_model_compile(model, to, &(ps_compile_options){.replace = true}, &result));
    ps_model_close(model);
}

static int setup(void **state)
{
    static made_model made;
    fixture *f = calloc(1, sizeof *f);
    ps_gen gen = ps_gen_start();
    assert_non_null(f);
    made_shape(&made, &SHAPE);
    made_write(&made, &gen, f->gguf);
    free(made.bytes);
    made.bytes = NULL;
    compile(f->gguf, f->pst);
    make_prompt(f->tokens, TOKENS, 7);
    ps_model *model = open_model(f->gguf, 0, NULL);
    f->vocabulary = vocabulary_of(model);
    ps_session *session = create(model);
    const ps_sequence sequence = read_prompt(f, session);
    float *right = malloc((size_t)(TOKENS - PROMPT) * f->vocabulary * sizeof(float));
    assert_non_null(right);
    for (uint32_t i = PROMPT; i < TOKENS; i++) {
        step(f, session, sequence, i);
        memcpy(right + (size_t)(i - PROMPT) * f->vocabulary, ps_session_logits(session, 0),
               f->vocabulary * sizeof(float));
    }
    f->right = right;
    ps_session_destroy(session);
    ps_model_close(model);
    assert_int_equal(PS_INVALID,
                     ps_model_open(f->gguf, &(ps_model_options){.expert_bytes = 1}, &model));
    const char *message = strstr(ps_error_message(), "for experts: ");
    assert_non_null(message);
    f->least_bytes = (uint64_t)((strtod(message + 13, NULL) + 0.06) * (1 << 20));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    (void)unlink(f->gguf);
    (void)unlink(f->pst);
    free(f->right);
    free(f);
    return 0;
}

static void test_short_slow_and_twice(void **state)
{
    const fixture *f = *state;
    for (int i = 0; i < 6; i++) {
        faults bad = {.fails_first = i % 3 == 0,
                      .shortens_every = i % 3 == 1 ? 2 : 0,
                      .sleeps_every = i % 3 == 2 ? 9 : 0};
        ps_model *model = open_model(i % 2 == 0 ? f->gguf : f->pst, f->least_bytes, &bad);
        ps_session *session = create(model);
        check_session(f, session);
        check_session(f, session);
        assert_true(bad.answers > 100);
        ps_session_destroy(session);
        ps_model_close(model);
    }
}

// Steps until one fails; answers how often the session had to be asked.
static void expect_io(ps_session *session, ps_sequence sequence, int32_t token, const char *path,
                      const char *reason)
{
    const ps_row row = {.sequence = sequence, .token = token, .wants_logits = true};
    assert_int_equal(PS_IO, ps_session_step(session, &row, 1));
    const char *message = ps_error_message();
    if (strncmp(message, "expert ", 7) != 0 || strstr(message, "_exps.weight': ") == NULL ||
        strstr(message, path) == NULL || strstr(message, " bytes at ") == NULL ||
        strstr(message, reason) == NULL) {
        fail_msg("'%s' does not name expert, '%s', place or '%s'", message, path, reason);
    }
}

static void test_dead_disk(void **state)
{
    const fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        faults bad = {.answers = 0};
        const char *path = i == 0 ? f->gguf : f->pst;
        ps_model *model = open_model(path, f->least_bytes, &bad);
        ps_session *session = create(model);
        const ps_sequence sequence = read_prompt(f, session);
        for (uint32_t t = PROMPT; t < TOKENS; t++) {
            if (t % 4 == 0) { // the same step again, and it is right
                bad.fails = true;
                expect_io(session, sequence, f->tokens[t], path,
                          "Input/output error (tried twice)");
                expect_io(session, sequence, f->tokens[t], path,
                          "Input/output error (tried twice)");
                assert_int_equal(t, ps_sequence_length(session, sequence));
                bad.fails = false;
            }
            step(f, session, sequence, t);
        }
        bad.fails = true; // prompts, too
        ps_sequence other;
        expect_ok(ps_sequence_open(session, &other));
        assert_int_equal(PS_IO, ps_session_prefill(session, other, f->tokens, PROMPT, NULL));
        bad.fails = false;
        ps_sequence_close(session, other);
        check_session(f, session);
        ps_session_destroy(session);
        ps_model_close(model);
    }
}

// A copy that may be spoiled.
static void copy_file(const char *from, char to[64])
{
    const int descriptor = open(from, O_RDONLY);
    struct stat stat;
    assert_true(descriptor >= 0);
    assert_int_equal(0, fstat(descriptor, &stat));
    char *bytes = malloc((size_t)stat.st_size);
    assert_non_null(bytes);
    assert_int_equal(stat.st_size, read(descriptor, bytes, (size_t)stat.st_size));
    write_temporary(bytes, (size_t)stat.st_size, to);
    free(bytes);
    (void)close(descriptor);
}

// Behind an open session; the last sixteenth, which only experts have.
static void spoil(const char *path, bool is_cut)
{
    static const char ZEROS[4096];
    const int descriptor = open(path, O_RDWR);
    struct stat stat;
    assert_true(descriptor >= 0);
    assert_int_equal(0, fstat(descriptor, &stat));
    (void)usleep(20000); // a tick of the clock of files
    off_t at = stat.st_size / 16 * 15 / 4096 * 4096;
    if (is_cut) {
        assert_int_equal(0, ftruncate(descriptor, at));
    }
    for (; !is_cut && at < stat.st_size; at += 4096) {
        const size_t left = (size_t)(stat.st_size - at);
        const size_t bytes = left < sizeof ZEROS ? left : sizeof ZEROS;
        assert_int_equal(bytes, pwrite(descriptor, ZEROS, bytes, at));
    }
    (void)close(descriptor);
}

// Whatever it goes on with: an answer is right, or there is none.
static void test_spoilt_file(void **state)
{
    const fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        const bool is_cut = i == 0;
        char path[64];
        copy_file(i == 2 ? f->pst : f->gguf, path);
        ps_model *model = open_model(path, f->least_bytes, NULL);
        ps_session *session = create(model);
        const ps_sequence sequence = read_prompt(f, session);
        spoil(path, is_cut);
        uint32_t failures = 0;
        for (uint32_t t = PROMPT; t < TOKENS && failures < 3;) {
            const ps_row row = {.sequence = sequence, .token = f->tokens[t], .wants_logits = true};
            const ps_status status = ps_session_step(session, &row, 1);
            if (status == PS_OK) {
                assert_memory_equal(f->right + (size_t)(t - PROMPT) * f->vocabulary,
                                    ps_session_logits(session, 0), f->vocabulary * sizeof(float));
                t++;
            } else {
                expect_io(session, sequence, f->tokens[t], path, "the file ");
                failures++;
            }
        }
        assert_int_equal(3, failures);
        ps_session *second = NULL;
        expect_failure(PS_IO, "is not the file any more", ps_session_create(model, NULL, &second));
        ps_session_destroy(session);
        ps_model_close(model);
        (void)unlink(path);
    }
}

// The open session keeps the file that it has; a new one says so.
static void test_replaced_file(void **state)
{
    const fixture *f = *state;
    char path[64], other[64];
    copy_file(f->gguf, path);
    copy_file(f->gguf, other);
    ps_model *model = open_model(path, f->least_bytes, NULL);
    ps_session *session = create(model);
    assert_int_equal(0, rename(other, path));
    check_session(f, session);
    ps_session *second = NULL;
    expect_failure(PS_IO, "is not the file any more", ps_session_create(model, NULL, &second));
    (void)unlink(path);
    expect_failure(PS_NOT_FOUND, "No such file", ps_session_create(model, NULL, &second));
    check_session(f, session);
    ps_session_destroy(session);
    ps_model_close(model);
}

static void test_several_sessions(void **state)
{
    const fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        ps_model *model = open_model(i == 0 ? f->gguf : f->pst, f->least_bytes, NULL);
        ps_session *first = create(model);
        ps_session *second = create(model);
        const ps_sequence a = read_prompt(f, first);
        const ps_sequence b = read_prompt(f, second);
        for (uint32_t t = PROMPT; t < TOKENS; t++) {
            step(f, first, a, t);
            step(f, second, b, t);
        }
        ps_session_destroy(first);
        first = create(model);
        check_session(f, first);
        ps_session_destroy(second);
        check_session(f, first);
        ps_session_destroy(first);
        for (int again = 0; again < 5; again++) {
            first = create(model);
            check_session(f, first);
            ps_session_destroy(first);
        }
        ps_model_close(model);
    }
}

// Sessions get what there is until one is refused; and again, when they have gone.
static void test_one_limit_for_all_sessions(void **state)
{
    enum { MOST = 64 };
    const fixture *f = *state;
    const ps_session_options options = {.context_tokens = 128, .sequences = 2, .batch_rows = 64};
    ps_model *model = NULL;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip(); // their own memory grows as they like
#endif
    assert_int_equal(
        PS_INVALID,
        ps_model_open(f->gguf,
                      &(ps_model_options){.threads = 1, .memory_bytes = 1, .session = &options},
                      &model));
    const char *message = strstr(ps_error_message(), "the model needs ");
    assert_non_null(message);
    const uint64_t needed = (strtoull(message + 16, NULL, 10) + 2) << 20;
    expect_ok(ps_model_open(
        f->gguf, &(ps_model_options){.threads = 1, .memory_bytes = needed, .session = &options},
        &model));
    for (int again = 0; again < 3; again++) {
        ps_session *sessions[MOST] = {NULL};
        uint32_t count = 0;
        ps_status status = PS_OK;
        while (count < MOST && status == PS_OK) {
            status = ps_session_create(model, &options, &sessions[count]);
            count += status == PS_OK;
        }
        assert_int_equal(PS_NO_MEMORY, status);
        assert_non_null(strstr(ps_error_message(), "other sessions included"));
        assert_true(count > 0);
        check_session(f, sessions[count - 1]);
        while (count > 0) {
            ps_session_destroy(sessions[--count]);
        }
    }
    ps_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_slow_and_twice),
        cmocka_unit_test(test_dead_disk),
        cmocka_unit_test(test_spoilt_file),
        cmocka_unit_test(test_replaced_file),
        cmocka_unit_test(test_several_sessions),
        cmocka_unit_test(test_one_limit_for_all_sessions),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
