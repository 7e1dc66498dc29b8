// cli/messages.c - messages as the JSON that a chat template is given.
#include "cli/messages.h"

#include "cli/json_writer.h"
#include "text/utf8.h"

#include <string.h>

// The writer would replace what is not UTF-8, and a model would be asked something else.
static ps_status check_message(const ps_cli_message *message)
{
    const ps_str text = message->content;
    for (size_t i = 0; i < text.length;) {
        uint32_t code_point = 0;
        const size_t bytes = ps_utf8_decode(text.data + i, text.length - i, &code_point);
        if (bytes == 0 || code_point == 0) {
            return ps_fail(PS_INVALID,
                           "the %s message: byte %zu is not UTF-8 text, which a chat has to be; "
                           "--raw takes any bytes",
                           message->role, i);
        }
        i += bytes;
    }
    return PS_OK;
}

ps_status ps_cli_messages_tokenize(const ps_model *model, const ps_cli_message *messages,
                                   uint32_t count, int32_t **out_ids, size_t *out_count)
{
    for (uint32_t i = 0; i < count; i++) {
        // An answer may end inside a sequence, and then U+FFFD is as good as anything.
        if (strcmp(messages[i].role, "assistant") != 0) {
            PS_TRY(check_message(&messages[i]));
        }
    }
    ps_json_writer json = {0};
    ps_json_begin(&json, NULL, '{');
    ps_json_begin(&json, "messages", '[');
    for (uint32_t i = 0; i < count; i++) {
        ps_json_begin(&json, NULL, '{');
        ps_json_text(&json, "role", messages[i].role);
        ps_json_string(&json, "content", messages[i].content);
        ps_json_end(&json, '}');
    }
    ps_json_end(&json, ']');
    ps_json_bool(&json, "add_generation_prompt", true);
    ps_json_end(&json, '}');
    const ps_status status = json.status != PS_OK ? json.status
                                                  : ps_model_tokenize_chat(model, json.text.data,
                                                                           out_ids, out_count);
    ps_buffer_deinit(&json.text);
    return status;
}
