// cli/cmd_run.c - `prestage run`: one answer to one prompt.
#include "cli/answer.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_writer.h"
#include "cli/messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- the prompt

static ps_status tokenize_chat(const ps_cli_options *options, const ps_model *model, ps_str prompt,
                               int32_t **out_ids, size_t *out_count)
{
    ps_cli_message messages[2];
    uint32_t count = 0;
    if (options->system != NULL) {
        messages[count++] = (ps_cli_message){"system", ps_str_of(options->system)};
    }
    messages[count++] = (ps_cli_message){"user", prompt};
    return ps_cli_messages_tokenize(model, messages, count, out_ids, out_count);
}

static ps_status tokenize_prompt(const ps_cli_options *options, const ps_model *model,
                                 int32_t **out_ids, size_t *out_count)
{
    ps_model_info info;
    ps_model_get_info(model, &info);
    const bool is_chat = info.has_chat_template && !options->raw;
    if (options->system != NULL && !is_chat) {
        return ps_fail(PS_INVALID, "a system message needs a chat template; %s",
                       options->raw ? "--raw leaves it out" : "the model has none");
    }
    ps_buffer prompt = {0};
    ps_status status = ps_cli_read_prompt(options, &prompt);
    if (status == PS_OK) {
        status = is_chat ? tokenize_chat(options, model, (ps_str){prompt.data, prompt.length},
                                         out_ids, out_count)
                         : ps_model_tokenize(model, prompt.data, prompt.length, PS_TEXT_ADD_SPECIAL,
                                             out_ids, out_count);
    }
    ps_buffer_deinit(&prompt);
    return status;
}

static ps_status check_prompt(size_t count, uint32_t context_tokens)
{
    if (count == 0) {
        return ps_fail(PS_INVALID, "the prompt is empty, and the model wants no BOS; at least one "
                                   "token would be right");
    }
    if (count > context_tokens) {
        return ps_fail(PS_INVALID,
                       "the prompt has %zu tokens, the context %u; -c %zu or a shorter "
                       "prompt would be right",
                       count, context_tokens, count);
    }
    return PS_OK;
}

// ---- results

static double rate(double count, double seconds)
{
    return count > 0 && seconds > 0 ? count / seconds : NAN;
}

static ps_status print_json(const ps_model *model, const ps_session *session, size_t prompt_count,
                            const ps_answer *answer)
{
    ps_model_info info;
    ps_model_get_info(model, &info);
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_integer(&json, "prompt_tokens", (int64_t)prompt_count);
    ps_json_ids(&json, "tokens", answer->tokens.ids, answer->tokens.count);
    ps_json_string(&json, "text", (ps_str){answer->text.data, answer->text.length});
    ps_json_text(&json, "finish_reason", answer->finish_reason);
    ps_json_begin(&json, "timings", '{');
    ps_json_number(&json, "load_ms", info.load_ms);
    ps_json_number(&json, "ttft_ms", answer->first_token_s > 0 ? answer->first_token_s * 1e3 : NAN);
    ps_json_number(&json, "prompt_tps", rate((double)prompt_count, answer->prompt_s));
    ps_json_number(&json, "decode_tps", rate(answer->decode_steps, answer->decode_s));
    ps_json_end(&json, '}');
    ps_cli_experts_json(model, session, &json);
    ps_json_end(&json, '}');
    return ps_json_print(&json);
}

static ps_status print_stats(ps_model *model, const ps_session *session, size_t prompt_count,
                             const ps_answer *answer)
{
    ps_model_info info;
    ps_session_info of_session;
    ps_session_get_info(session, &of_session);
    ps_model_get_info(model, &info);
    (void)fflush(stdout);
    (void)fprintf(stderr, "%sload      %10.1f ms   %u threads, %s\n",
                  answer->text.length > 0 ? "\n" : "", info.load_ms, info.threads, info.isa);
    (void)fprintf(stderr, "prompt    %10zu tok  %10.1f tok/s\n", prompt_count,
                  rate((double)prompt_count, answer->prompt_s));
    if (of_session.best_logits > 0) {
        (void)fprintf(stderr, "logits    %10u best of each rank\n", of_session.best_logits);
    }
    if (answer->decode_steps == 0) {
        return PS_OK;
    }
    const double tps = rate(answer->decode_steps, answer->decode_s);
    const double gbs = tps * (double)info.bytes_per_token / 1e9;
    double ceiling_gbs = 0;
    PS_TRY(ps_model_measure_read(model, &ceiling_gbs));
    (void)fprintf(stderr, "decode    %10u tok  %10.1f tok/s\n", answer->decode_steps, tps);
    (void)fprintf(stderr, "weights   %10.1f MB/tok %8.2f GB/s\n",
                  (double)info.bytes_per_token / 1e6, gbs);
    (void)fprintf(stderr, "memory    %10.1f %% used %8.2f GB/s read by the same threads\n",
                  gbs / ceiling_gbs * 100, ceiling_gbs);
    return PS_OK;
}

static ps_status print_result(const ps_cli_options *options, const ps_cli_chat *chat,
                              size_t prompt_count, const ps_answer *answer)
{
    const bool is_cancelled = ps_cli_interrupt_take();
    if (options->json) {
        PS_TRY(print_json(chat->model, chat->session, prompt_count, answer));
    } else if (isatty(STDOUT_FILENO)) {
        (void)putchar('\n');
    }
    if (options->stats && !is_cancelled) {
        PS_TRY(print_stats(chat->model, chat->session, prompt_count, answer));
    }
    return is_cancelled ? PS_CANCELLED : PS_OK;
}

// ---- the run

static ps_status answer_prompt(const ps_cli_options *options, const ps_cli_chat *chat,
                               const int32_t *prompt, size_t count)
{
    ps_session_info info;
    ps_session_get_info(chat->session, &info);
    PS_TRY(check_prompt(count, info.context_tokens));
    ps_answer_task task = {.model = chat->model,
                           .session = chat->session,
                           .sampler = chat->sampler,
                           .prompt = prompt,
                           .prompt_count = count,
                           .limit = options->predict,
                           .is_streamed = !options->json};
    PS_TRY(ps_sequence_open(chat->session, &task.sequence));
    ps_answer answer = {0};
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_FLAGS);
    ps_status status = ps_answer_generate(&task, &answer);
    if (status == PS_OK) {
        status = print_result(options, chat, count, &answer);
    }
    if (options->stats && status == PS_OK) {
        ps_cli_prefetch_print(chat->session, stderr);
        ps_cli_experts_print(chat->model, chat->session, stderr);
    }
    ps_cli_prefetch_warn(options, (ps_prefetch_policy)options->prefetch, chat->session);
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_ENDS);
    ps_answer_deinit(&answer);
    return status;
}

static bool is_interactive(const ps_cli_options *options)
{
    return options->prompt == NULL && options->file == NULL && !options->json && !options->raw &&
           isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static ps_status run_prompt(const ps_cli_options *options, const ps_cli_chat *chat)
{
    int32_t *prompt = NULL;
    size_t count = 0;
    PS_TRY(tokenize_prompt(options, chat->model, &prompt, &count));
    const ps_status status = answer_prompt(options, chat, prompt, count);
    ps_free(prompt);
    return status;
}

// --ignore-eos: a bias for every token that would end the answer.
static ps_status add_end_biases(const ps_model *model, ps_sampler_options *sampler,
                                ps_logit_bias **out)
{
    ps_model_info info;
    ps_model_get_info(model, &info);
    size_t count = sampler->bias_count;
    ps_logit_bias *biases = malloc((count + info.vocabulary) * sizeof *biases);
    if (biases == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for biases");
    }
    if (count > 0) {
        memcpy(biases, sampler->biases, count * sizeof *biases);
    }
    for (int32_t id = 0; id < (int32_t)info.vocabulary; id++) {
        if (ps_model_is_end(model, id)) {
            biases[count++] = (ps_logit_bias){id, -INFINITY};
        }
    }
    sampler->biases = biases;
    sampler->bias_count = count;
    *out = biases;
    return PS_OK;
}

static ps_status make_sampler(const ps_cli_options *options, const ps_model *model,
                              ps_sampler **out)
{
    ps_sampler_options sampler = options->sampler;
    ps_logit_bias *with_ends = NULL;
    if (options->ignore_eos) {
        PS_TRY(add_end_biases(model, &sampler, &with_ends));
    }
    const ps_status status = ps_sampler_create(model, &sampler, out);
    free(with_ends);
    return status;
}

ps_status ps_cli_run(const ps_cli_options *options)
{
    ps_cli_chat chat = {.options = options};
    ps_session_options session_options = ps_cli_session_options(options);
    // --ignore-eos is a bias.
    session_options.best_logits = options->ignore_eos ? 0
                                                      : ps_sampler_best_logits(&options->sampler);
    ps_status status = ps_cli_model_open(options, options->threads, &session_options, &chat.model);
    if (status == PS_OK) {
        status = make_sampler(options, chat.model, &chat.sampler);
    }
    if (status == PS_OK) {
        status = ps_session_create(chat.model, &session_options, &chat.session);
    }
    if (status == PS_OK) {
        status = is_interactive(options) ? ps_cli_chat_run(&chat) : run_prompt(options, &chat);
    }
    ps_session_destroy(chat.session);
    ps_sampler_destroy(chat.sampler);
    return ps_cli_model_close(options, chat.model, status);
}
