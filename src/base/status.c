// base/status.c - the message of the last failure, one a thread.
#include "base/status.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 1024

static _Thread_local char message[MESSAGE_BYTES];

const char *ps_error_message(void)
{
    return message;
}

// A file name or a tensor name comes from outside: it may hold newlines or escape sequences.
static void hide_control_bytes(char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f) {
            *text = '?';
        }
    }
}

void ps_fail_at(const char *file, int line, ps_status code, const char *format, ...)
{
    char text[MESSAGE_BYTES]; // the arguments may point into `message`
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    hide_control_bytes(text);
    memcpy(message, text, sizeof message);
    ps_log(PS_LOG_DEBUG, "%s:%d: status %d: %s", file, line, (int)code, message);
}

ps_status ps_fail_prefix(ps_status code, const char *format, ...)
{
    char before[MESSAGE_BYTES];
    memcpy(before, message, sizeof before);
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t used = strlen(text);
    (void)snprintf(text + used, sizeof text - used, ": %.*s", MESSAGE_BYTES / 2, before);
    hide_control_bytes(text);
    memcpy(message, text, sizeof message);
    return code;
}

void ps_assert_failed(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "prestage: bug at %s:%d: %s does not hold\n", file, line, condition);
    abort();
}
