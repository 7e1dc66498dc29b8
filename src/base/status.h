// base/status.h - raising and passing on errors.
//
// Whoever detects a fault calls ps_fail once with what, where and what would be right; everybody
// above passes the code on with PS_TRY. The message stays in the thread that failed.
#ifndef PS_BASE_STATUS_H
#define PS_BASE_STATUS_H

#include <prestage/status.h>
#include <stdbool.h>

#define PS_PRINTF(format_index, first_index)                                                       \
    __attribute__((format(printf, format_index, first_index)))

// Records the message of this thread (cut at 1,023 bytes, control bytes shown as '?') and gives
// `code` itself, so that compilers see that it is not PS_OK.
#define ps_fail(code, ...) (ps_fail_at(__FILE__, __LINE__, (code), __VA_ARGS__), (code))
void ps_fail_at(const char *file, int line, ps_status code, const char *format, ...)
    PS_PRINTF(4, 5);

// Puts "prefix: " before this thread's message; for callers that know which file was being read.
ps_status ps_fail_prefix(ps_status code, const char *format, ...) PS_PRINTF(2, 3);

// Ends the process with file, line and condition. For bugs, never for input; stays on in release.
_Noreturn void ps_assert_failed(const char *file, int line, const char *condition);

#define ps_assert(condition)                                                                       \
    ((condition) ? (void)0 : ps_assert_failed(__FILE__, __LINE__, #condition))

#define PS_TRY(expression)                                                                         \
    do {                                                                                           \
        const ps_status ps_try_ = (expression);                                                    \
        if (ps_try_ != PS_OK) {                                                                    \
            return ps_try_;                                                                        \
        }                                                                                          \
    } while (0)

#endif
