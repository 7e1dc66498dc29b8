// cli/cmd_experts_record.c - `prestage experts record`: which experts a text makes a model use.
//
// The text is cut into pieces of c tokens, each of which is read in a sequence of its own, with BOS
// in place of its first token where the model asks for it; behind each, n tokens are generated.
#include "base/log.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "engine/model_experts.h"

#include <unistd.h>

typedef struct recording {
    const ps_cli_options *options;
    ps_model *model;
    ps_session *session;
    ps_sampler *sampler;
    int32_t bos; // -1: none
} recording;

static ps_status read_piece(const recording *r, int32_t *tokens, size_t count)
{
    ps_answer_task task = {.model = r->model,
                           .session = r->session,
                           .sampler = r->sampler,
                           .prompt = tokens,
                           .prompt_count = count,
                           .limit = r->options->predict};
    ps_answer answer = {0};
    tokens[0] = r->bos >= 0 ? r->bos : tokens[0];
    PS_TRY(ps_sequence_open(r->session, &task.sequence));
    const ps_status status = ps_answer_generate(&task, &answer);
    ps_answer_deinit(&answer);
    ps_sequence_close(r->session, task.sequence);
    return status;
}

static ps_status read_pieces(const recording *r, int32_t *tokens, size_t count)
{
    const bool has_bar = isatty(STDERR_FILENO);
    const size_t step = r->options->context;
    const size_t pieces = (count + step - 1) / step;
    ps_status status = PS_OK;
    for (size_t i = 0; i < pieces && status == PS_OK; i++) {
        const size_t left = count - i * step;
        if (has_bar) {
            (void)fprintf(stderr, "\rpiece %zu of %zu\033[K", i + 1, pieces);
        }
        status = read_piece(r, tokens + i * step, left < step ? left : step);
        if (status == PS_OK && *ps_cli_interrupt_flag()) {
            status = PS_CANCELLED;
        }
    }
    if (has_bar) {
        (void)fputs("\r\033[K", stderr);
    }
    return status;
}

static ps_status read_text(recording *r)
{
    ps_buffer text = {0};
    int32_t *tokens = NULL;
    size_t count = 0;
    ps_status status = ps_cli_read_prompt(r->options, &text);
    if (status == PS_OK) {
        status = ps_model_tokenize(r->model, text.data, text.length, PS_TEXT_ADD_SPECIAL, &tokens,
                                   &count);
    }
    if (status == PS_OK && (text.length == 0 || count == 0)) {
        status = ps_fail(PS_INVALID, "the text is empty");
    }
    if (status == PS_OK) {
        status = ps_cli_find_bos(r->model, &r->bos);
    }
    if (status == PS_OK) {
        ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
        status = read_pieces(r, tokens, count);
        ps_cli_interrupt_set(PS_CLI_INTERRUPT_ENDS);
    }
    ps_free(tokens);
    ps_buffer_deinit(&text);
    return status;
}

static ps_status print_result(const ps_cli_options *options, const ps_experts_info *info)
{
    const unsigned long long prompt = info->tokens[PS_PHASE_PROMPT];
    const unsigned long long decode = info->tokens[PS_PHASE_DECODE];
    if (!options->json) {
        (void)printf("%s: %llu tokens of prompts and %llu generated, %u of %u experts each in %u "
                     "layers\n",
                     options->output, prompt, decode, info->experts_used, info->experts,
                     info->layers);
        return PS_OK;
    }
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_text(&json, "file", options->output);
    ps_json_integer(&json, "prompt_tokens", (int64_t)prompt);
    ps_json_integer(&json, "decode_tokens", (int64_t)decode);
    ps_json_integer(&json, "layers", info->layers);
    ps_json_integer(&json, "experts", info->experts);
    ps_json_integer(&json, "top_k", info->experts_used);
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

// What was read before an interrupt is kept.
static ps_status record(recording *r)
{
    ps_experts_info info;
    const ps_status status = read_text(r);
    if (status != PS_OK && status != PS_CANCELLED) {
        return status;
    }
    ps_model_get_experts(r->model, &info);
    PS_TRY(ps_model_write_experts(r->model, r->options->output, r->options->force));
    PS_TRY(print_result(r->options, &info));
    return status;
}

ps_status ps_cli_experts_record(const ps_cli_options *options)
{
    recording r = {.options = options};
    const uint64_t context = options->context + (uint64_t)options->predict;
    ps_session_options session_options = ps_cli_session_options(options);
    session_options.context_tokens = (uint32_t)context;
    session_options.best_logits = ps_sampler_best_logits(&options->sampler);
    PS_TRY(ps_cli_model_check(options));
    if (options->output == NULL) {
        return ps_fail(PS_INVALID, "no file to write; -o FILE would be right");
    }
    PS_TRY(ps_cli_output_check(options));
    ps_status status = ps_cli_model_open(options, options->threads, &session_options, &r.model);
    if (status == PS_OK) {
        status = ps_model_write_check(r.model, options->output, options->force);
    }
    if (status == PS_OK) {
        status = ps_sampler_create(r.model, &options->sampler, &r.sampler);
    }
    if (status == PS_OK) {
        status = ps_session_create(r.model, &session_options, &r.session);
    }
    if (status == PS_OK) {
        status = record(&r);
    }
    ps_session_destroy(r.session);
    ps_sampler_destroy(r.sampler);
    return ps_cli_model_close(options, r.model, status);
}
