// exec/guard.h - controls of prefetching: what it gains, site by site and window by window.
#ifndef PS_EXEC_GUARD_H
#define PS_EXEC_GUARD_H

#include "base/ops.h"

#define PS_GUARD_GAINS 64u

// What is judged by itself: a site in one kind of window: collectives, barriers, dedicated threads.
#define PS_GUARD_SLOTS (3u * PS_SITE_COUNT)
#define PS_GUARD_ALL PS_GUARD_SLOTS // all of them together
static inline uint32_t ps_guard_slot(ps_site site, ps_window window)
{
    return (uint32_t)site + PS_SITE_COUNT * (window == PS_WINDOW_BARRIER ? 1u
                                             : window == PS_WINDOW_SIDE  ? 2u
                                                                         : 0u);
}

// Of one slot, or of all.
typedef struct ps_guard_gains {
    uint32_t controls;
    float gains[PS_GUARD_GAINS]; // the last ones: how much longer the run took without, of its time
} ps_guard_gains;

// Of one program.
typedef struct ps_guard {
    uint64_t slots; // bit s: it has prefetches of slot s
    uint32_t slot_count;
    bool switches_off;
    uint64_t off; // slots that are switched off
    uint64_t runs;
    uint32_t rows;    // of the last run
    uint32_t control; // slot
    bool is_control, is_comparable, is_pending;
    double before_ns, control_ns;
    ps_guard_gains list[PS_GUARD_SLOTS + 1];
} ps_guard;

void ps_guard_init(ps_guard *guard, uint64_t slots, bool switches_off);

// Before and after a run of so many rows. The first answers which slots prefetch nothing in it.
uint64_t ps_guard_begin(ps_guard *guard, uint32_t rows);
void ps_guard_end(ps_guard *guard, double ns);

// Median and quartiles of what a slot gains, as a part of the time of a run.
typedef struct ps_gain {
    uint32_t controls;
    double median, lower, upper;
} ps_gain;
ps_gain ps_guard_gain(const ps_guard *guard, uint32_t slot);

#endif
