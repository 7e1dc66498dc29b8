// base/log.h - lines for people on stderr.
//
// Thread-safe: one call, one line. Results go to stdout and never through here.
#ifndef PS_BASE_LOG_H
#define PS_BASE_LOG_H

#include "base/status.h"

typedef enum ps_log_level {
    PS_LOG_ERROR,
    PS_LOG_WARNING,
    PS_LOG_INFO,
    PS_LOG_DEBUG,
} ps_log_level;

// Lines above `level` are dropped. The default is PS_LOG_WARNING. Call before threads start.
void ps_log_set_level(ps_log_level level);

void ps_log(ps_log_level level, const char *format, ...) PS_PRINTF(2, 3);

#endif
