// exec/guard.h - controls of prefetching: what it gains, site by site.
#ifndef PS_EXEC_GUARD_H
#define PS_EXEC_GUARD_H

#include "base/ops.h"

#define PS_GUARD_GAINS 64u

// Of one site; of PS_SITE_NONE: of all together.
typedef struct ps_guard_site {
    uint32_t controls;
    float gains[PS_GUARD_GAINS]; // the last ones: how much longer the run took without, of its time
} ps_guard_site;

// Of one program.
typedef struct ps_guard {
    uint64_t sites; // bit s: it has prefetches of site s
    uint32_t site_count;
    bool switches_off;
    uint64_t off; // sites that are switched off
    uint64_t runs;
    uint32_t rows;    // of the last run
    uint32_t control; // ps_site
    bool is_control, is_comparable, is_pending;
    double before_ns, control_ns;
    ps_guard_site list[PS_SITE_COUNT];
} ps_guard;

void ps_guard_init(ps_guard *guard, uint64_t sites, bool switches_off);

// Before and after a run of so many rows. The first answers which sites prefetch nothing in it.
uint64_t ps_guard_begin(ps_guard *guard, uint32_t rows);
void ps_guard_end(ps_guard *guard, double ns);

// Median and quartiles of what a site gains, as a part of the time of a run.
typedef struct ps_gain {
    uint32_t controls;
    double median, lower, upper;
} ps_gain;
ps_gain ps_guard_gain(const ps_guard *guard, ps_site site);

#endif
