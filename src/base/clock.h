// base/clock.h - time for measuring.
#ifndef PS_BASE_CLOCK_H
#define PS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

// Nanoseconds of the monotonic clock.
static inline uint64_t ps_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
