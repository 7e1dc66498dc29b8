// cli/chat.c - stub
#include "cli/chat.h"
void ps_cli_chat_message(ps_json_writer *json, const char *role, ps_str content)
{
    ps_json_begin(json, NULL, '{');
    ps_json_text(json, "role", role);
    ps_json_string(json, "content", content);
    ps_json_end(json, '}');
}
ps_status ps_cli_chat_run(const ps_cli_chat *chat)
{
    (void)chat;
    return ps_fail(PS_UNSUPPORTED, "chat is not there yet");
}
