// engine/calibrate_fill.h - how fast caches fill, by what, and whether it stays.
#ifndef PS_ENGINE_CALIBRATE_FILL_H
#define PS_ENGINE_CALIBRATE_FILL_H

#include "exec/team.h"
#include "hw/machine.h"
#include "kernels/kernels.h"

// What fills a cache: plain loads, as whoever waits does, or prefetch instructions, one a line.
// Prefetches that come faster than lines arrive are dropped on some CPUs; loads never are.
typedef enum ps_fill { PS_FILL_LOADS, PS_FILL_T0, PS_FILL_T1, PS_FILL_T2, PS_FILL_COUNT } ps_fill;
const char *ps_fill_name(ps_fill fill); // "loads", "prefetcht0", ...; NULL behind the last; static

// One way of filling, by all workers together. Bytes that are read again as slowly as those that
// nobody has filled were dropped.
typedef struct ps_fill_rates {
    uint32_t primitive;  // ps_fill
    bool is_paced;       // lines are asked for as fast as reads get them; otherwise back to back
    double l2_gbs;       // asked for, in parts of half of an L2,
    double l2_again_gbs; //   and read again
    double llc_gbs;      // the same in parts that only the last level holds; 0: there are none
    double llc_again_gbs;
} ps_fill_rates;

#define PS_FILL_RATES_MAX (2u * PS_FILL_COUNT)

// What each of the ranks here measures in: so many bytes that no part is still in a cache when its
// turn comes again, if half of the memory that is free is enough for that.
//
// PS_NO_MEMORY  it is not enough for anything
PS_MUST_USE ps_status ps_calibrate_fill_bytes(const ps_machine *machine, uint32_t ranks_here,
                                              uint64_t *out);

// Measures all ways: loads back to back, and prefetches back to back and paced. Rates of
// `machine` as ps_calibrate leaves them; ranks_here share the last level. memory [bytes], as
// many as above, has been touched. Takes about a second. Writes out [PS_FILL_RATES_MAX] and
// answers how many.
uint32_t ps_calibrate_fill(ps_team *team, const ps_kernels *kernels, const ps_machine *machine,
                           uint32_t ranks_here, char *memory, uint64_t bytes, ps_fill_rates *out);

// The part of what was asked for that was in L2 afterwards, 0 to 1, when loads leave all of it.
double ps_fill_kept(const ps_fill_rates *loads, const ps_fill_rates *rates);

#endif
