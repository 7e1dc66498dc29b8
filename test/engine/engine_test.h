// test/engine/engine_test.h - what tests of the engine share.
#ifndef PS_TEST_ENGINE_TEST_H
#define PS_TEST_ENGINE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include <prestage/prestage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define expect_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != PS_OK) {                                                                     \
            fail_msg("%s: %s", #call, ps_error_message());                                         \
        }                                                                                          \
    } while (0)

#define expect_failure(code, part, call)                                                           \
    do {                                                                                           \
        assert_int_equal((code), (call));                                                          \
        if (strstr(ps_error_message(), (part)) == NULL) {                                          \
            fail_msg("'%s' does not say '%s'", ps_error_message(), (part));                        \
        }                                                                                          \
    } while (0)

static inline ps_model *open_golden(const char *name, uint32_t threads)
{
    char path[512];
    ps_model *model = NULL;
    (void)snprintf(path, sizeof path, "%s/test/fixtures/golden/%s.gguf", PS_SOURCE_DIR, name);
    expect_ok(ps_model_open(path, &(ps_model_options){.threads = threads}, &model));
    return model;
}

static inline uint32_t vocabulary_of(const ps_model *model)
{
    ps_model_info info;
    ps_model_get_info(model, &info);
    return info.vocabulary;
}

// A prompt that every fixture's vocabulary holds; different seeds differ early.
static inline void make_prompt(int32_t *tokens, uint32_t count, uint32_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        tokens[i] = (int32_t)(seed >> 24);
    }
}

// Appends one token and copies its logits [vocabulary].
static inline void step_one(ps_session *session, ps_sequence sequence, int32_t token, float *logits,
                            uint32_t vocabulary)
{
    const ps_row row = {.sequence = sequence, .token = token, .wants_logits = true};
    expect_ok(ps_session_step(session, &row, 1));
    memcpy(logits, ps_session_logits(session, 0), vocabulary * sizeof *logits);
}

#endif
