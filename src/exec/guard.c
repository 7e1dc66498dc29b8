// exec/guard.c - whether prefetching pays, found while it runs.
//
// One run of a program in 32 is a control: nothing is prefetched in it, or not for one slot, a site
// in one kind of window; same bits make that safe. A control is held against the runs before and
// after it, so that a drift of the machine's speed meets all three. What a slot gains is the median
// of its last 64 controls. In guarded executors, one that has lost in eight is switched off.
#include "exec/guard.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD 32u
#define CONTROLS_LEAST 8u // before a site is judged

void ps_guard_init(ps_guard *guard, uint64_t slots, bool switches_off)
{
    *guard = (ps_guard){.slots = slots, .switches_off = switches_off};
    for (uint32_t s = 0; s < PS_GUARD_SLOTS; s++) {
        guard->slot_count += slots >> s & 1;
    }
}

// The index-th slot that has prefetches.
static uint32_t slot_at(const ps_guard *guard, uint32_t index)
{
    uint32_t slot = 0;
    while ((guard->slots >> slot & 1) == 0 || index-- > 0) {
        slot++;
    }
    return slot;
}

uint64_t ps_guard_begin(ps_guard *guard, uint32_t rows)
{
    const uint64_t run = guard->runs++;
    guard->is_control = guard->slot_count > 0 && run % PERIOD == PERIOD - 1;
    guard->is_comparable = rows == guard->rows;
    guard->rows = rows;
    if (!guard->is_control) {
        return guard->off;
    }
    // All of them, then one after the other.
    const uint32_t turn = (uint32_t)(run / PERIOD % (guard->slot_count + 1u));
    guard->control = turn == 0 ? PS_GUARD_ALL : slot_at(guard, turn - 1);
    return turn == 0 ? UINT64_MAX : guard->off | (uint64_t)1 << guard->control;
}

static int by_value(const void *a, const void *b)
{
    const float left = *(const float *)a;
    const float right = *(const float *)b;
    return (left > right) - (left < right);
}

ps_gain ps_guard_gain(const ps_guard *guard, uint32_t slot)
{
    const ps_guard_gains *s = &guard->list[slot];
    float gains[PS_GUARD_GAINS];
    const uint32_t count = s->controls < PS_GUARD_GAINS ? s->controls : PS_GUARD_GAINS;
    if (count == 0) {
        return (ps_gain){0};
    }
    memcpy(gains, s->gains, count * sizeof gains[0]);
    qsort(gains, count, sizeof gains[0], by_value);
    return (ps_gain){.controls = s->controls,
                     .median = gains[count / 2],
                     .lower = gains[count / 4],
                     .upper = gains[count - 1 - count / 4]};
}

static void judge(ps_guard *guard, uint32_t slot)
{
    const ps_gain gain = ps_guard_gain(guard, slot);
    if (guard->switches_off && slot != PS_GUARD_ALL && gain.controls >= CONTROLS_LEAST &&
        gain.upper < 0) {
        guard->off |= (uint64_t)1 << slot;
    }
}

static void note_control(ps_guard *guard, double after_ns)
{
    const double around = (guard->before_ns + after_ns) / 2;
    ps_guard_gains *s = &guard->list[guard->control];
    s->gains[s->controls++ % PS_GUARD_GAINS] = (float)((guard->control_ns - around) / around);
    judge(guard, guard->control);
}

void ps_guard_end(ps_guard *guard, double ns)
{
    if (guard->is_control) {
        // Compared when the next run is known, if the one before was of as many rows.
        guard->is_pending = guard->is_comparable && guard->before_ns > 0;
        guard->control_ns = ns;
        return;
    }
    if (guard->is_pending && guard->is_comparable) {
        note_control(guard, ns);
    }
    guard->is_pending = false;
    guard->before_ns = ns;
}
