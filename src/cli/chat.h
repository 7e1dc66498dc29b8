// cli/chat.h - a conversation on a terminal.
#ifndef PS_CLI_CHAT_H
#define PS_CLI_CHAT_H

#include "cli/json_writer.h"
#include "cli/options.h"

// What an answer needs; all borrowed.
typedef struct ps_cli_chat {
    const ps_cli_options *options;
    ps_model *model;
    ps_session *session;
    ps_sampler *sampler;
} ps_cli_chat;

// Adds {"role": role, "content": content} to an array of messages.
void ps_cli_chat_message(ps_json_writer *json, const char *role, ps_str content);

// Reads lines and answers them until the user leaves. /help lists what else can be typed.
//
// PS_INVALID: the model has no chat template. What fails in one turn is said and ends that turn
// alone.
PS_MUST_USE ps_status ps_cli_chat_run(const ps_cli_chat *chat);

#endif
