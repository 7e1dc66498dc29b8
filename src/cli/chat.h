// cli/chat.h - a conversation on a terminal.
#ifndef PS_CLI_CHAT_H
#define PS_CLI_CHAT_H

#include "cli/options.h"

// What an answer needs; all borrowed.
typedef struct ps_cli_chat {
    const ps_cli_options *options;
    ps_model *model;
    ps_session *session;
    ps_sampler *sampler;
} ps_cli_chat;

// Reads lines and answers them until the user leaves. /help lists what else can be typed.
//
// PS_INVALID: the model has no chat template. What fails in one turn is said and ends that turn
// alone.
PS_MUST_USE ps_status ps_cli_chat_run(const ps_cli_chat *chat);

#endif
