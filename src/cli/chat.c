// cli/chat.c - turns of a conversation, and the tokens they share.
//
// The messages are rendered anew for every turn, so that what the model sees is what the template
// makes of the whole conversation. What the new tokens have in common with those of the sequence is
// not computed again.
#include "cli/chat.h"

#include "base/scan.h"
#include "cli/answer.h"
#include "cli/interrupt.h"
#include "cli/line.h"
#include "cli/messages.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGES_MAX 4096u

typedef struct conversation {
    const ps_cli_chat *chat;
    uint32_t context_tokens;
    char *system;                          // owned; NULL: none
    ps_cli_message messages[MESSAGES_MAX]; // contents are owned
    uint32_t count;
    bool has_sequence;
    ps_sequence sequence;
    ps_tokens cached; // the tokens in the sequence
} conversation;

// ---- messages

static ps_status add_message(conversation *talk, const char *role, const char *text, size_t length)
{
    if (talk->count == MESSAGES_MAX) {
        return ps_fail(PS_EXHAUSTED, "%u messages are the limit; /clear starts anew", MESSAGES_MAX);
    }
    char *copy = malloc(length + 1);
    if (copy == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a message");
    }
    if (length > 0) {
        memcpy(copy, text, length);
    }
    talk->messages[talk->count++] = (ps_cli_message){role, {copy, length}};
    return PS_OK;
}

static void drop_message(conversation *talk)
{
    talk->count--;
    free((char *)(uintptr_t)talk->messages[talk->count].content.data);
}

static void clear_messages(conversation *talk)
{
    while (talk->count > 0) {
        drop_message(talk);
    }
}

static ps_status tokenize(const conversation *talk, int32_t **out_ids, size_t *out_count)
{
    ps_cli_message *all = calloc(talk->count + 1, sizeof *all);
    if (all == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for messages");
    }
    uint32_t count = 0;
    if (talk->system != NULL) {
        all[count++] = (ps_cli_message){"system", ps_str_of(talk->system)};
    }
    memcpy(all + count, talk->messages, talk->count * sizeof *all);
    count += talk->count;
    const ps_status status = ps_cli_messages_tokenize(talk->chat->model, all, count, out_ids,
                                                      out_count);
    free(all);
    return status;
}

// ---- the sequence

static void forget_sequence(conversation *talk)
{
    if (talk->has_sequence) {
        ps_sequence_close(talk->chat->session, talk->sequence);
    }
    talk->has_sequence = false;
    talk->cached.count = 0;
}

// Tokens at the start of ids that the sequence holds already; the last one has to run for its
// logits.
static size_t common_prefix(const conversation *talk, const int32_t *ids, size_t count)
{
    size_t common = 0;
    while (common < talk->cached.count && common + 1 < count &&
           talk->cached.ids[common] == ids[common]) {
        common++;
    }
    return common;
}

// Leaves the common prefix in the sequence. A sliding window may have dropped what is needed.
static ps_status prepare_sequence(conversation *talk, const int32_t *ids, size_t count,
                                  size_t *out_common)
{
    *out_common = common_prefix(talk, ids, count);
    if (talk->has_sequence) {
        const ps_status status = ps_sequence_truncate(talk->chat->session, talk->sequence,
                                                      (uint32_t)*out_common);
        if (status == PS_OK) {
            talk->cached.count = *out_common;
            return PS_OK;
        }
        forget_sequence(talk);
        *out_common = 0;
    }
    PS_TRY(ps_sequence_open(talk->chat->session, &talk->sequence));
    talk->has_sequence = true;
    return PS_OK;
}

// Notes what the sequence holds now: prompt and answer, as far as they ran.
static ps_status note_tokens(conversation *talk, const int32_t *ids, size_t count,
                             const ps_tokens *answer)
{
    const size_t length = ps_sequence_length(talk->chat->session, talk->sequence);
    for (size_t i = talk->cached.count; i < length; i++) {
        PS_TRY(ps_tokens_append(&talk->cached, i < count ? ids[i] : answer->ids[i - count]));
    }
    return PS_OK;
}

// ---- a turn

static void print_turn_stats(const conversation *talk, size_t fresh, const ps_answer *answer)
{
    if (talk->chat->options->stats) {
        (void)fprintf(stderr,
                      "[%zu new tokens in %.2f s, %zu in the context; %u steps, %.1f tok/s]\n",
                      fresh, answer->prompt_s, talk->cached.count, answer->decode_steps,
                      answer->decode_s > 0 ? answer->decode_steps / answer->decode_s : 0.0);
    }
}

static ps_status generate(conversation *talk, const int32_t *ids, size_t count, ps_answer *answer)
{
    if (count > talk->context_tokens) {
        return ps_fail(PS_EXHAUSTED,
                       "the conversation has %zu tokens, the context %u; /clear starts anew", count,
                       talk->context_tokens);
    }
    size_t common = 0;
    PS_TRY(prepare_sequence(talk, ids, count, &common));
    const ps_answer_task task = {.model = talk->chat->model,
                                 .session = talk->chat->session,
                                 .sequence = talk->sequence,
                                 .sampler = talk->chat->sampler,
                                 .prompt = ids + common,
                                 .prompt_count = count - common,
                                 .limit = talk->chat->options->predict,
                                 .is_streamed = true};
    PS_TRY(ps_answer_generate(&task, answer));
    (void)printf("\n");
    PS_TRY(note_tokens(talk, ids, count, &answer->tokens));
    print_turn_stats(talk, count - common, answer);
    if (talk->cached.count + 1 >= talk->context_tokens) {
        (void)fprintf(stderr, "(the context of %u tokens is full; /clear starts anew)\n",
                      talk->context_tokens);
    }
    for (size_t i = 0; i < answer->text.length; i++) {
        if (answer->text.data[i] == '\0') { // which a template is never given
            answer->text.data[i] = ' ';
        }
    }
    return add_message(talk, "assistant", answer->text.data, answer->text.length);
}

static ps_status answer_turn(conversation *talk, ps_str text)
{
    int32_t *ids = NULL;
    size_t count = 0;
    PS_TRY(add_message(talk, "user", text.data, text.length));
    ps_status status = tokenize(talk, &ids, &count);
    if (status == PS_OK) {
        ps_answer answer = {0};
        status = generate(talk, ids, count, &answer);
        (void)ps_cli_interrupt_take();
        ps_answer_deinit(&answer);
    }
    ps_free(ids);
    if (status != PS_OK) {
        drop_message(talk);
    }
    return status;
}

// ---- what can be typed

static ps_status set_system(conversation *talk, const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a system message");
    }
    free(talk->system);
    talk->system = copy;
    return PS_OK;
}

static ps_status help(conversation *talk, const char *argument)
{
    (void)printf("/clear        forget the conversation\n"
                 "/system TEXT  set the system message, and forget the conversation\n"
                 "/quit         leave, as Ctrl-D does\n"
                 "Ctrl-C stops an answer. A line that ends in \\ goes on with the next one.\n");
    return PS_OK;
}

static ps_status clear(conversation *talk, const char *argument)
{
    clear_messages(talk);
    forget_sequence(talk);
    return PS_OK;
}

static ps_status change_system(conversation *talk, const char *argument)
{
    if (argument[0] == '\0') {
        (void)printf("%s\n", talk->system == NULL ? "(no system message)" : talk->system);
        return PS_OK;
    }
    PS_TRY(set_system(talk, argument));
    return clear(talk, argument);
}

static const struct {
    const char *name;
    ps_status (*run)(conversation *talk, const char *argument); // NULL: leaves
} COMMANDS[] = {{"/help", help}, {"/clear", clear}, {"/system", change_system}, {"/quit", NULL}};
#define COMMAND_COUNT (sizeof COMMANDS / sizeof COMMANDS[0])

static ps_status run_command(conversation *talk, const char *line, bool *out_leave)
{
    const char *names[COMMAND_COUNT];
    const ps_str typed = {line, strcspn(line, " ")};
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = COMMANDS[i].name;
        if (!ps_str_equal(typed, names[i])) {
            continue;
        }
        if (COMMANDS[i].run == NULL) {
            *out_leave = true;
            return PS_OK;
        }
        const char *argument = line + typed.length;
        return COMMANDS[i].run(talk, argument + strspn(argument, " "));
    }
    return ps_fail(PS_INVALID,
                   "unknown command '%.*s'; the nearest is %s, and a space before it makes it text",
                   (int)typed.length, line, ps_nearest(typed, names, COMMAND_COUNT));
}

// ---- the loop

static ps_status take_line(conversation *talk, const ps_buffer *line, bool *out_leave)
{
    if (line->length == 0 || line->data[strspn(line->data, " \n")] == '\0') {
        return PS_OK;
    }
    return line->data[0] == '/' ? run_command(talk, line->data, out_leave)
                                : answer_turn(talk, (ps_str){line->data, line->length});
}

static ps_status talk_on(conversation *talk, ps_cli_line_editor *editor)
{
    ps_buffer line = {0};
    bool leave = false;
    ps_status status = PS_OK;
    while (!leave && status == PS_OK) {
        ps_cli_line_result result;
        status = ps_cli_line_read(editor, &line, &result);
        if (status != PS_OK || result == PS_CLI_LINE_END) {
            break;
        }
        if (result == PS_CLI_LINE_INTERRUPTED) {
            (void)printf("(Ctrl-D or /quit leaves)\n");
        } else if (take_line(talk, &line, &leave) != PS_OK) {
            (void)fprintf(stderr, "prestage: %s\n", ps_error_message());
        }
    }
    ps_buffer_deinit(&line);
    return status;
}

static ps_status start(conversation *talk)
{
    const ps_cli_chat *chat = talk->chat;
    ps_model_info info;
    ps_model_get_info(chat->model, &info);
    if (!info.has_chat_template) {
        return ps_fail(PS_INVALID, "the model has no chat template; -p TEXT lets it continue a "
                                   "text");
    }
    ps_session_info session;
    ps_session_get_info(chat->session, &session);
    talk->context_tokens = session.context_tokens;
    if (chat->options->system != NULL) {
        PS_TRY(set_system(talk, chat->options->system));
    }
    ps_cli_line_editor *editor = NULL;
    PS_TRY(ps_cli_line_open(&editor));
    (void)printf("%s, %u tokens of context. /help lists what can be typed.\n", info.architecture,
                 talk->context_tokens);
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_KEEPS);
    const ps_status status = talk_on(talk, editor);
    ps_cli_interrupt_set(PS_CLI_INTERRUPT_ENDS);
    ps_cli_line_close(editor);
    return status;
}

ps_status ps_cli_chat_run(const ps_cli_chat *chat)
{
    conversation *talk = calloc(1, sizeof *talk);
    if (talk == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a conversation");
    }
    talk->chat = chat;
    const ps_status status = start(talk);
    (void)clear(talk, "");
    ps_tokens_deinit(&talk->cached);
    free(talk->system);
    free(talk);
    return status;
}
