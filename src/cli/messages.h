// cli/messages.h - chat messages to tokens, by the model's template. Both `run -p` and the chat go
// through here.
#ifndef PS_CLI_MESSAGES_H
#define PS_CLI_MESSAGES_H

#include "base/memory.h"

#include <prestage/prestage.h>

typedef struct ps_cli_message {
    const char *role;
    ps_str content; // borrowed
} ps_cli_message;

// Renders messages [count] and the start of an answer. *out_ids: free with ps_free.
//
// What is not UTF-8 in the role "assistant" becomes U+FFFD.
//
// PS_INVALID  another message is not UTF-8 or holds a NUL, or the template refuses the messages
// PS_NOT_FOUND, PS_UNSUPPORTED  as ps_model_tokenize_chat
PS_MUST_USE ps_status ps_cli_messages_tokenize(const ps_model *model,
                                               const ps_cli_message *messages, uint32_t count,
                                               int32_t **out_ids, size_t *out_count);

#endif
