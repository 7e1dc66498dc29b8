// generate.c - the smallest program on libprestage: answers a prompt with the best token each time.
//
//     cc generate.c $(pkg-config --static --cflags --libs prestage) -o generate
//     ./generate MODEL.gguf "Once upon a time" 32
#include <prestage/prestage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ps_status print_token(const ps_model *model, int32_t token)
{
    char *text = NULL;
    size_t length = 0;
    const ps_status status = ps_model_token_text(model, token, false, &text, &length);
    if (status == PS_OK) {
        fwrite(text, 1, length, stdout);
        fflush(stdout);
        ps_free(text);
    }
    return status;
}

// The prompt, then one token a step: the logits of the last row say which comes next.
static ps_status generate(const ps_model *model, ps_session *session, ps_sampler *sampler,
                          const int32_t *prompt, size_t prompt_tokens, int tokens_max)
{
    ps_sequence sequence;
    ps_status status = ps_sequence_open(session, &sequence);
    if (status == PS_OK) {
        status = ps_session_prefill(session, sequence, prompt, prompt_tokens, NULL);
    }
    for (int i = 0; i < tokens_max && status == PS_OK; i++) {
        ps_row row = {.sequence = sequence, .wants_logits = true};
        status = ps_sampler_pick(sampler, ps_session_logits(session, 0), &row.token);
        if (status != PS_OK || ps_model_is_end(model, row.token)) {
            break;
        }
        status = print_token(model, row.token);
        if (status == PS_OK) {
            status = ps_session_step(session, &row, 1);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL.gguf PROMPT TOKENS\n", argv[0]);
        return 2;
    }
    ps_model *model = NULL;
    ps_session *session = NULL;
    ps_sampler *sampler = NULL;
    int32_t *prompt = NULL;
    size_t prompt_tokens = 0;
    ps_sampler_options greedy = ps_sampler_defaults();
    greedy.temperature = 0;

    const bool failed = ps_model_open(argv[1], NULL, &model) != PS_OK ||
                        ps_model_tokenize(model, argv[2], strlen(argv[2]), PS_TEXT_ADD_SPECIAL,
                                          &prompt, &prompt_tokens) != PS_OK ||
                        ps_session_create(model, NULL, &session) != PS_OK ||
                        ps_sampler_create(model, &greedy, &sampler) != PS_OK ||
                        generate(model, session, sampler, prompt, prompt_tokens, atoi(argv[3])) !=
                            PS_OK;
    printf("\n");
    if (failed) {
        fprintf(stderr, "generate: %s\n", ps_error_message());
    }
    ps_sampler_destroy(sampler);
    ps_session_destroy(session);
    ps_free(prompt);
    ps_model_close(model);
    return failed ? 1 : 0;
}
