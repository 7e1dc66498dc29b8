// base/log.c - one write per line, so that lines of several threads never mix.
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static ps_log_level level_max = PS_LOG_WARNING;

void ps_log_set_level(ps_log_level level)
{
    level_max = level;
}

void ps_log(ps_log_level level, const char *format, ...)
{
    static const char *const NAMES[] = {"error", "warning", "info", "debug"};
    if (level > level_max) {
        return;
    }
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "prestage: %s: %s\n", NAMES[level], text);
}
