// ctest-labels: model
// ctest-timeout: 600
// Goal: real models continue prompts as llama.cpp continues them.
// Method: the reference's tokens are fed one by one; at each step our best token must be the
// reference's, or the difference must be a near-tie on both sides: by the reference's own lead and
// by ours. Both programs round activations to 8 bits, each in its own way, which moves such leads
// by about 0.1 on average and up to 0.9 in single steps of these models (against the same weights
// with float32 activations).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "engine/engine_test.h"

#include <unistd.h>

#define NEAR_TIE 0.5f
#define PROMPT_MAX 256

static const struct {
    const char *file, *reference;
} MODELS[] = {
    {"SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2"},
    {"gemma3-270m-q4_k_m.gguf", "gemma3"},
    {"sns2-0.5b-q4.gguf", "qwen2.5-coder"},
};
#define MODEL_COUNT (sizeof MODELS / sizeof MODELS[0])

static const char *cached(const char *file, char path[1024])
{
    const char *cache = getenv("PRESTAGE_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache != NULL) {
        (void)snprintf(path, 1024, "%s/models/%s", cache, file);
    } else if (xdg != NULL) {
        (void)snprintf(path, 1024, "%s/prestage/models/%s", xdg, file);
    } else {
        (void)snprintf(path, 1024, "%s/.cache/prestage/models/%s", home == NULL ? "" : home, file);
    }
    return access(path, R_OK) == 0 ? path : NULL;
}

static int32_t best_other(const float *logits, uint32_t vocabulary, int32_t token)
{
    int32_t best = token == 0 ? 1 : 0;
    for (uint32_t i = 0; i < vocabulary; i++) {
        if ((int32_t)i != token && logits[i] > logits[best]) {
            best = (int32_t)i;
        }
    }
    return best;
}

typedef struct tally {
    uint32_t tokens, ties;
} tally;

// One line "token ID GAP" against the logits at hand, then the token is appended.
static void check_token(ps_session *session, ps_sequence sequence, uint32_t vocabulary,
                        const char *line, tally *count)
{
    int32_t token;
    float gap;
    assert_int_equal(2, sscanf(line, "token %d %f", &token, &gap));
    const float *logits = ps_session_logits(session, 0);
    const int32_t other = best_other(logits, vocabulary, token);
    const float ours = logits[token] - logits[other];
    if (ours < 0) {
        if (ours < -NEAR_TIE || gap > NEAR_TIE) {
            fail_msg("token %u: %d leads %d by %g, the reference takes %d with a lead of %g",
                     count->tokens, other, token, (double)-ours, token, (double)gap);
        }
        count->ties++;
    }
    count->tokens++;
    expect_ok(ps_session_step(session, &(ps_row){sequence, token, true}, 1));
}

static void start_prompt(ps_session *session, ps_sequence sequence, char *line)
{
    int32_t tokens[PROMPT_MAX];
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line + strlen("prompt "), " \n", &rest); word != NULL;
         word = strtok_r(NULL, " \n", &rest)) {
        assert_true(count < PROMPT_MAX);
        tokens[count++] = atoi(word);
    }
    expect_ok(ps_sequence_truncate(session, sequence, 0));
    expect_ok(ps_session_prefill(session, sequence, tokens, count, NULL));
}

static void test_model(void **state)
{
    const size_t i = (size_t)(uintptr_t)*state;
    char path[1024];
    char line[4096];
    if (cached(MODELS[i].file, path) == NULL) {
        print_message("%s is not in the cache; scripts/fetch-models.py fetches it\n",
                      MODELS[i].file);
        skip();
    }
    ps_model *model = NULL;
    ps_session *session = NULL;
    ps_sequence sequence;
    expect_ok(ps_model_open(path, NULL, &model));
    expect_ok(ps_session_create(model, &(ps_session_options){.context_tokens = 512}, &session));
    expect_ok(ps_sequence_open(session, &sequence));
    (void)snprintf(path, sizeof path, "%s/test/fixtures/reference/%s.txt", PS_SOURCE_DIR,
                   MODELS[i].reference);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    tally count = {0};
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "prompt ", 7) == 0) {
            start_prompt(session, sequence, line);
        } else if (line[0] != '#') {
            check_token(session, sequence, vocabulary_of(model), line, &count);
        }
    }
    (void)fclose(file);
    assert_true(count.tokens >= 180); // three prompts at least
    print_message("%s: %u tokens, %u of them near-ties that fell the other way\n",
                  MODELS[i].reference, count.tokens, count.ties);
    assert_true(count.ties * 20 < count.tokens);
    ps_session_destroy(session);
    ps_model_close(model);
}

int main(void)
{
    struct CMUnitTest tests[MODEL_COUNT];
    bool any = false;
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        char path[1024];
        any |= cached(MODELS[i].file, path) != NULL;
        tests[i] = (struct CMUnitTest){.name = MODELS[i].reference,
                                       .test_func = test_model,
                                       .initial_state = (void *)(uintptr_t)i};
    }
    if (!any) {
        (void)printf("no model is in the cache; scripts/fetch-models.py fetches them\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
