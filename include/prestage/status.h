// prestage/status.h - how every fallible call of the library answers.
#ifndef PRESTAGE_STATUS_H
#define PRESTAGE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define PS_MUST_USE __attribute__((warn_unused_result))

typedef enum ps_status {
    PS_OK = 0,
    PS_INVALID, // the input is wrong: a file, an option, a request; the message says what would be
                // right
    PS_UNSUPPORTED, // the input is right but names something this build does not do
    PS_NOT_FOUND,   // no such file, tensor, key
    PS_IO,          // the operating system failed a read, a write or a mapping
    PS_NO_MEMORY,   // an allocation failed
    PS_EXHAUSTED,   // a stated limit is reached: context, pool, workspace
    PS_NOT_FINITE,  // a computation gave NaN or infinity
    PS_CANCELLED,   // the caller asked to stop
    PS_LOST,        // another rank of the job died, stalled or diverged
    PS_INTERNAL,    // a bug in prestage
} ps_status;

// The one-line message of the last call on this thread that did not return PS_OK, without newline.
// Borrowed; valid until the next failing call on the same thread. "" when nothing has failed.
const char *ps_error_message(void);

#ifdef __cplusplus
}
#endif
#endif
